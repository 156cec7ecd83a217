"""The pairs of a study as one table, a row each: `study.csv`, and the points of the page."""

import csv
import io
import math
from collections.abc import Iterator
from typing import Any, Final

from markupsafe import Markup

from forgetwatch.comparing.frames import long_rows
from forgetwatch.measures.base import json_value
from forgetwatch.report.flip_list import script_json
from forgetwatch.study.factors import scales, trends
from forgetwatch.study.pairs import RATES, Study
from forgetwatch.visible_text import csv_cell

_LABELS: Final = {"size": "parameters", "data": "scale of the data"}


def study_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair: file's facts, then numbers.

    Shares are fractions.
    """
    for result in study.compared:
        pair = result.pair
        row: dict[str, Any] = {
            "stage": pair.stage,
            "pair": pair.name,
            "family": pair.family,
            "kind": pair.kind,
        }
        row |= {"size": pair.size, "data": pair.data}
        row |= {f"covariate.{name}": json_value(value) for name, value in pair.covariates.items()}
        row["verdict"] = result.decision.word
        row |= {
            f"averages.{name}": json_value(value) for name, value in vars(result.averages).items()
        }
        row |= {
            number["quantity"]: number["value"] for number in long_rows([result.comparison.all])
        }
        for name, group in result.comparison.by("category").items():
            row |= {
                f"category.{name}.{count_name}": getattr(group, count_name)
                for count_name in ("n", "forgotten", "gained")
            }
        for rate in RATES:
            values = {
                "": result.total(rate),
                **{f"category.{name}.": value for name, value in result.values(rate).items()},
            }
            for where, value in values.items():
                numbers = {
                    "mean": value.rate.mean,
                    "sd": value.rate.sd,
                    "ceiling": value.ceiling.mean,
                }
                numbers |= {} if where else {"unclipped": result.unclipped(rate)}
                prefix = f"{where}paper.{rate.replace(' ', '_')}"
                row |= {
                    f"{prefix}.{suffix}": number
                    for suffix, number in numbers.items()
                    if not math.isnan(number)
                }
        yield row


def study_csv(study: Study) -> str:
    """CSV table of `study_rows`, safe for spreadsheets."""
    table, rows = io.StringIO(), [*study_rows(study)]
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: csv_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        )
    return table.getvalue()


_UP: Final = {
    "paper.forgetting.mean": "forgetting, %",
    "paper.backward_transfer.mean": "backward transfer, %",
    "averages.forgetting": "1→0, %",
    "net_change_estimate": "net change, points",
}
"""Columns of `study_rows` that the page draws against others, with their labels."""


_BEFORE: Final = "accuracy_before"


def _column(covariate: str) -> str:
    return covariate if covariate in ("size", "data") else f"covariate.{covariate}"


def _map_json(study: Study) -> Markup | None:
    axes: list[dict[str, Any]] = [
        {"column": _column(name), "label": _LABELS.get(name, name), "across": True, "log": is_log}
        for name, is_log in scales(study).items()
    ]
    axes.append({"column": _BEFORE, "label": "right before, %", "across": True, "log": False})
    axes += [
        {"column": column, "label": label, "across": False, "log": False}
        for column, label in _UP.items()
    ]
    trends_of: dict[str, dict[str, str]] = {}
    for trend in trends(study):
        trends_of.setdefault(_column(trend.covariate), {})[
            f"paper.{trend.rate.replace(' ', '_')}.mean"
        ] = f"{trend}."
    names, rows_of = [axis["column"] for axis in axes], []
    for row in study_rows(study):
        point = {name: row[name] for name in ("pair", "stage", "family", "size")}
        for name in names:
            value = row.get(name)
            in_percent = name in _UP or name == _BEFORE
            point[name] = 100 * value if in_percent and value is not None else value
        rows_of.append(point)
    return (
        Markup(script_json({"rows": rows_of, "axes": axes, "told": trends_of})) if rows_of else None
    )

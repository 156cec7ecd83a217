"""Numbers of `early_warning.py`: does an early quantity order runs by what they forgot at the end?

    runs ─▶ early quantities ─┐
         ─▶ losses at the end ┴▶ rank correlation, its interval, the same on each task, held out ─▶ table and figure

Every quantity is turned so that more of it should mean more forgetting: a rank correlation of 1 is a perfect warning, 0
is none. Intervals are percentiles over bootstrap draws of the runs; the runs are of one model, and so is what they say.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from forgetwatch import Snapshot, compare, load_snapshot
from forgetwatch.report.pictures import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

EARLY: Final = {
    "kl_training_summed": "KL on the new task's prompts, summed",
    "kl_training_sampled": "KL on the new task's prompts, sampled",
    "kl_probe_summed": "KL on the probe's prompts, summed",
    "kl_probe_sampled": "KL on the probe's prompts, sampled",
    "log_mass_fall": "fall of log m, all items",
    "log_share_fall": "fall of log c, all items",
    "margin_erosion": "fall of the margin of right answers",
    "margin_fall": "fall of the net change by margins",
}
"""Quantities of forgetwatch at the early look."""

RIVALS: Final = {
    "rate": "learning rate",
    "rate_of_rank": "learning rate, LoRA's divided by 10",
    "loss": "training loss so far, low first",
    "loss_fall": "fall of the training loss so far",
    "known_lost_then": "known and lost, net, then",
    "lost_then": "share of right answers lost, then",
}
"""Quantities that a run has without the drift."""

LATE: Final = {"kl_training_end": "for comparison: KL on the new task's prompts at the end, summed"}
"""No warning, but the quantity that RL's Razor correlates with forgetting."""

TARGETS: Final = {
    "lost": "share of right answers lost at the end",
    "known_lost": "known and lost, net, at the end",
}
"""Losses at the end: 1 - retention in points, and items."""

FEWEST: Final = 8
"""Runs below which no interval is given: draws of fewer repeat the same few orders."""

LORA_FACTOR: Final = 10
"""Learning rates of LoRA are about this many times those of all weights."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Attributes:
        name: Its name.
        task: The new task.
        rank: Rank of LoRA; 0 for all weights.
        replay: Share of replayed rows.
        values: Quantities of `EARLY`, `RIVALS` and `LATE`; nan where one was not measured.
        losses: Quantities of `TARGETS`.
    """

    name: str
    task: str
    rank: int
    replay: float
    values: Mapping[str, float]
    losses: Mapping[str, float]


def read_runs(out: Path, names: Sequence[str]) -> tuple[list[Run], list[str]]:
    """Finished runs of a folder, and the names of those that are missing.

    Args:
        out: Folder of `early_warning.py`.
        names: Names of the runs that were planned.
    """
    start = load_snapshot(out / "base" / "start.parquet")
    found, missing = [], []
    for name in names:
        cell = out / "cells" / f"{name}.json"
        looks = [out / "looks" / f"{name}-{when}.parquet" for when in ("early", "end")]
        if all(file.exists() for file in (cell, *looks)):
            early, end = (load_snapshot(look) for look in looks)
            found.append(
                read_run(name, json.loads(cell.read_text(encoding="utf-8")), start, early, end)
            )
        else:
            missing.append(name)
    return found, missing


def read_run(
    name: str, cell: Mapping[str, Any], start: Snapshot, early: Snapshot, end: Snapshot
) -> Run:
    """Quantities of one run, from its cell and its looks."""
    then, last = compare(before=start, after=early).all, compare(before=start, after=end).all
    probe, training = (cell["drift"]["early"][of_set] for of_set in ("probe", "training"))
    losses = cell["losses"][: cell["early"]]
    values = {
        "kl_training_summed": training["kl_summed"],
        "kl_training_sampled": training["kl_sampled"],
        "kl_probe_summed": probe["kl_summed"],
        "kl_probe_sampled": probe["kl_sampled"],
        "log_mass_fall": _turned(then["log_mass_change"]),
        "log_share_fall": _turned(then["log_score_change"]),
        "margin_erosion": margin_erosion(start, early),
        "margin_fall": _turned(then["margin_change"]),
        "rate": cell["rate"],
        "rate_of_rank": cell["rate"] / (LORA_FACTOR if cell["rank"] else 1),
        "loss": -float(np.mean(losses)),
        "loss_fall": losses[0] - losses[-1],
        "known_lost_then": then["known_lost_net"],
        "lost_then": then.forgetting_relative,
        "kl_training_end": cell["drift"]["end"]["training"]["kl_summed"],
    }
    at_end = {"lost": 100 * last.forgetting_relative, "known_lost": last["known_lost_net"]}
    return Run(
        name=name,
        task=cell["task"],
        rank=cell["rank"],
        replay=cell["replay"],
        values={key: np.nan if value is None else float(value) for key, value in values.items()},
        losses={key: np.nan if value is None else float(value) for key, value in at_end.items()},
    )


def _turned(change: float | None) -> float | None:
    return None if change is None else -change


def margin_erosion(before: Snapshot, after: Snapshot) -> float:
    """Mean fall of the margin of the right option over the likeliest wrong one, nats, over items right before.

    nan if no item with options was right before. Both sides hold the same items in the same order.
    """
    pairs = zip(before.table["gold"].to_pylist(), before.table["golds"].to_pylist(), strict=True)
    golds = [several or [one] for one, several in pairs]
    sides = (
        before.table["correct"],
        before.table["choice_logprobs"],
        after.table["choice_logprobs"],
    )
    falls = []
    for gold, correct, old, new in zip(
        golds, *(column.to_pylist() for column in sides), strict=True
    ):
        if correct and old and new and len(old) > len(gold):
            falls.append(_margin(old, gold) - _margin(new, gold))
    return float(np.mean(falls)) if falls else np.nan


def _margin(logprobs: Sequence[float], gold: Sequence[int]) -> float:
    wrong = [value for index, value in enumerate(logprobs) if index not in gold]
    return max(logprobs[index] for index in gold) - max(wrong)


# --- Statistics -----------------------------------------------------------------------------------------------------


def rank_correlation(x: Floats, y: Floats) -> Floats:
    """Spearman's rank correlation along the last axis, float64 [...]; nan for a constant or a single value.

    Ties have mean ranks. Source: Spearman 1904.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 9.0, 4.0, 16.0])).round(2)
    array(0.8)
    """
    if x.shape[-1] < 2:
        return np.full(x.shape[:-1], np.nan)
    ranks = [stats.rankdata(side, axis=-1) for side in (x, y)]
    a, b = (side - side.mean(axis=-1, keepdims=True) for side in ranks)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
        )


def within_correlation(x: Floats, y: Floats, group: NDArray[Any]) -> Floats:
    """Rank correlation along the last axis within groups, pooled, float64 [...]; nan where nothing varies.

    Values are ranked in each group, and the ranks centred there: a difference between groups counts for nothing.

    >>> within_correlation(np.array([1.0, 2.0, 11.0, 12.0]), np.array([2.0, 1.0, 9.0, 8.0]), np.array([0, 0, 1, 1]))
    array(-1.)
    """
    centred = [np.zeros(side.shape) for side in (x, y)]
    for one in np.unique(group):
        rows = group == one
        for side, of_side in zip((x, y), centred, strict=True):
            ranks = stats.rankdata(side[..., rows], axis=-1)
            of_side[..., rows] = ranks - ranks.mean(axis=-1, keepdims=True)
    a, b = centred
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
        )


def within_rates(
    runs: Sequence[Run], quantity: str, target: str
) -> tuple[float, tuple[float, float]]:
    """Rank correlation within the learning rates, and its 95 % interval over draws of the runs of each rate."""
    both = [run for run in runs if np.isfinite([run.values[quantity], run.losses[target]]).all()]
    (x, y, _), rate = (
        columns(both, quantity, target),
        np.array([run.values["rate_of_rank"] for run in both]),
    )
    rng = np.random.default_rng(SEED)
    drawn = np.empty((2000, len(both)), np.int64)
    for one in np.unique(rate):
        rows = np.flatnonzero(rate == one)
        drawn[:, rows] = rows[rng.integers(0, len(rows), (len(drawn), len(rows)))]
    enough = len(both) >= FEWEST
    interval = (
        bootstrap_interval(within_correlation(x[drawn], y[drawn], rate))
        if enough
        else (np.nan, np.nan)
    )
    return float(within_correlation(x, y, rate)), interval


def draws_of_runs(n: int, rng: np.random.Generator, draws: int = 4000) -> NDArray[np.int64]:
    """Bootstrap draws of n runs with replacement, int64 [draws, n]."""
    return rng.integers(0, max(n, 1), (draws, n))


def bootstrap_interval(values: Floats) -> tuple[float, float]:
    """95 % percentile interval of a statistic over its bootstrap draws; draws without one are left out.

    (nan, nan) if more than half of the draws have none.
    """
    finite = values[np.isfinite(values)]
    if 2 * finite.size < values.size or not finite.size:
        return np.nan, np.nan
    low, high = np.quantile(finite, (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Prediction of each task's runs by a monotone curve that was fitted on the other task.

    Attributes:
        rho: Rank correlation of all predictions with the losses.
        error: Mean absolute error of the predictions, in the unit of the loss.
        error_of_mean: The same of a prediction by the mean of the other task's runs.
    """

    rho: float
    error: float
    error_of_mean: float


def held_out(x: Floats, y: Floats, task: NDArray[np.str_]) -> HeldOut:
    """Hold each task out once: fit the loss as a rising function of x on the other runs, and predict the task's.

    The curve is the isotonic least-squares fit, a line between its points and constant outside of them. Its predictions
    on one task have the order of x there, apart from ties; that on all runs also needs the level of x to mean the same
    on both tasks. Source: Barlow et al. 1972.

    Args:
        x: Early quantity of each run [runs].
        y: Loss of each run at the end [runs].
        task: Task of each run [runs]; at least two.
    """
    predicted, of_mean = np.empty(len(x)), np.empty(len(x))
    for held in np.unique(task):
        inside = task != held
        points, index, runs = np.unique(x[inside], return_inverse=True, return_counts=True)
        means = (
            np.bincount(index, weights=y[inside]) / runs
        )  # runs of one x are one point of the curve
        curve = optimize.isotonic_regression(means, weights=runs.astype(float)).x
        predicted[~inside] = np.interp(x[~inside], points, curve)
        of_mean[~inside] = y[inside].mean()
    return HeldOut(
        rho=float(rank_correlation(predicted, y)),
        error=float(np.abs(predicted - y).mean()),
        error_of_mean=float(np.abs(of_mean - y).mean()),
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the table: how well a quantity orders the runs by a loss at the end.

    Attributes:
        quantity: Name of the quantity.
        target: Name of the loss.
        n: Runs that have both.
        rho: Rank correlation over all runs.
        interval: Its 95 % interval; (nan, nan) for fewer than `FEWEST` runs.
        by_task: Rank correlation on each task.
        held_out: Prediction of each task by the other; None for runs of a single task.
    """

    quantity: str
    target: str
    n: int
    rho: float
    interval: tuple[float, float]
    by_task: Mapping[str, float]
    held_out: HeldOut | None


def line(runs: Sequence[Run], quantity: str, target: str, rng: np.random.Generator) -> Line:
    """Rank correlations of a quantity with a loss over the runs that have both."""
    x, y, task = columns(runs, quantity, target)
    drawn = draws_of_runs(len(x), rng)
    return Line(
        quantity=quantity,
        target=target,
        n=len(x),
        rho=float(rank_correlation(x, y)),
        interval=bootstrap_interval(rank_correlation(x[drawn], y[drawn]))
        if len(x) >= FEWEST
        else (np.nan, np.nan),
        by_task={
            one: float(rank_correlation(x[task == one], y[task == one]))
            for one in sorted({r.task for r in runs})
        },
        held_out=held_out(x, y, task) if len(set(task)) > 1 else None,
    )


def columns(
    runs: Sequence[Run], quantity: str, target: str
) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """A quantity, a loss and the task of the runs that have both."""
    x = np.array([run.values[quantity] for run in runs])
    y = np.array([run.losses[target] for run in runs])
    there = np.isfinite(x) & np.isfinite(y)
    return x[there], y[there], np.array([run.task for run in runs], np.str_)[there]


def advantage(
    runs: Sequence[Run], quantity: str, rival: str, target: str, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Rank correlation of a quantity less that of a rival, and its 95 % interval over the same draws of the runs."""
    both = [
        run
        for run in runs
        if np.isfinite([run.values[quantity], run.values[rival], run.losses[target]]).all()
    ]
    (x, y, _), (other, _, _) = columns(both, quantity, target), columns(both, rival, target)
    drawn = draws_of_runs(len(both), rng)
    differences = rank_correlation(x[drawn], y[drawn]) - rank_correlation(other[drawn], y[drawn])
    return float(rank_correlation(x, y) - rank_correlation(other, y)), bootstrap_interval(
        differences
    )


# --- Table and figure -----------------------------------------------------------------------------------------------

SEED: Final = 20261122
NAMES: Final = EARLY | RIVALS | LATE
_COLORS: Final = ("#1f3b73", "#b3261e", "#1b6e3c", "#b36b00")
_MARKERS: Final = ("o", "s", "^", "v", "D")


def write_report(out: Path, names: Sequence[str]) -> str:
    """Write the table, its numbers and the figure of the finished runs; the table as Markdown.

    Args:
        out: Folder of `early_warning.py`.
        names: Names of the runs that were planned; those that are not finished are named and not counted.
    """
    runs, missing = read_runs(out, names)
    lines = [
        line(runs, name, target, np.random.default_rng(SEED))
        for target in TARGETS
        for name in NAMES
    ]
    text = table(runs, missing, lines)
    (out / "early_warning.md").write_text(text, encoding="utf-8")
    numbers = {
        "runs": [asdict(run) for run in runs],
        "missing": missing,
        "lines": [asdict(one) for one in lines],
    }
    (out / "early_warning.json").write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    write_rows(runs, out / "early_warning.csv")
    if len(runs) > 2:
        save_figure(figure(runs, lines), out / "early_warning.png")
    return text


def write_rows(runs: Sequence[Run], path: Path) -> None:
    """Write a row for each run: its settings, early quantities and losses, from which every table can be computed."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "task", "rank", "replay", *NAMES, *TARGETS])
        for run in runs:
            numbers = [
                *(run.values[name] for name in NAMES),
                *(run.losses[name] for name in TARGETS),
            ]
            writer.writerow(
                [run.name, run.task, run.rank, run.replay, *(f"{number:.6g}" for number in numbers)]
            )


def table(runs: Sequence[Run], missing: Sequence[str], lines: Sequence[Line]) -> str:
    """Markdown of the rank correlations, one table for each loss at the end, and of who beats whom."""
    parts = [
        f"{len(runs)} runs."
        + (f" Missing, and not counted: {', '.join(missing)}." if missing else "")
    ]
    for target, label in TARGETS.items():
        values = np.array([run.losses[target] for run in runs])
        if not np.isfinite(values).any():
            continue
        ends = " to ".join(f"{value:.1f}" for value in (np.nanmin(values), np.nanmax(values)))
        parts.append(f"{label[0].upper()}{label[1:]} ({ends}), and what was seen early:")
        parts.append(_markdown([one for one in lines if one.target == target], runs))
        if len(runs) >= FEWEST:
            parts.append(_duels(runs, lines, target))
    return "\n\n".join(parts) + "\n"


def _markdown(lines: Sequence[Line], runs: Sequence[Run]) -> str:
    tasks = list(lines[0].by_task)
    head = [
        "quantity",
        "rank correlation",
        "within a learning rate",
        *tasks,
        "held out",
        "error held out",
    ]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for one in lines:
        held = one.held_out
        rows.append(
            [
                NAMES[one.quantity],
                _signed(one.rho) + _between(one.interval),
                "–"
                if one.quantity.startswith("rate")
                else _pair(within_rates(runs, one.quantity, one.target)),
                *(_signed(one.by_task[task]) for task in tasks),
                _signed(held.rho) if held else "–",
                f"{held.error:.1f} (mean: {held.error_of_mean:.1f})" if held else "–",
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _signed(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.2f}".replace("0.", ".", 1).replace("-", "−")


def _pair(found: tuple[float, tuple[float, float]]) -> str:
    return _signed(found[0]) + _between(found[1])


def _between(interval: tuple[float, float]) -> str:
    return "" if math.isnan(interval[0]) else f" ({_signed(interval[0])} to {_signed(interval[1])})"


def best(lines: Sequence[Line], names: Mapping[str, str], target: str) -> str:
    """The quantity of some with the highest rank correlation over all runs; chosen on the same runs."""
    of_names = [
        one
        for one in lines
        if one.target == target and one.quantity in names and np.isfinite(one.rho)
    ]
    return max(of_names, key=lambda one: one.rho).quantity if of_names else next(iter(names))


def _duels(runs: Sequence[Run], lines: Sequence[Line], target: str) -> str:
    """The summed KL on the new task's prompts, and the best early quantity, against each rival."""
    quantities = list(dict.fromkeys(("kl_training_summed", best(lines, EARLY, target))))
    rows = [
        ["rank correlation less that of", *(EARLY[one] for one in quantities)],
        ["---", *["---:"] * len(quantities)],
    ]
    for rival, label in RIVALS.items():
        found = [
            advantage(runs, one, rival, target, np.random.default_rng(SEED)) for one in quantities
        ]
        rows.append([label, *(_signed(more) + _between(interval) for more, interval in found)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def figure(runs: Sequence[Run], lines: Sequence[Line]) -> Figure:
    """Figure of the loss at the end over the best early quantity and over the best rival."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(10, 4.4), layout="constrained")
    panels = made.subplots(1, 2, sharey=True)
    for panel, names in zip(panels, (EARLY, RIVALS), strict=True):
        _draw(
            panel,
            runs,
            next(
                o for o in lines if o.target == "lost" and o.quantity == best(lines, names, "lost")
            ),
        )
    panels[0].set_ylabel("right answers lost at the end, %")
    panels[0].legend(fontsize=8, title="hollow: with replay", title_fontsize=8)
    return made


def _draw(panel: Axes, runs: Sequence[Run], one: Line) -> None:
    """Draw the runs: the task is the colour, the rank the marker; hollow with replay."""
    from matplotlib.ticker import LogLocator, NullFormatter

    groups = sorted({(run.task, run.rank) for run in runs})
    tasks, ranks = sorted({task for task, _ in groups}), sorted({rank for _, rank in groups})
    for task, rank in groups:
        of_group = [run for run in runs if (run.task, run.rank) == (task, rank)]
        color = _COLORS[tasks.index(task)]
        panel.scatter(
            [run.values[one.quantity] for run in of_group],
            [run.losses[one.target] for run in of_group],
            marker=_MARKERS[ranks.index(rank)],
            facecolors=["none" if run.replay else color for run in of_group],
            edgecolors=color,
        )
        label = f"{task}, {f'LoRA {rank}' if rank else 'all weights'}"
        panel.scatter([], [], marker=_MARKERS[ranks.index(rank)], color=color, label=label)
    values = np.array([run.values[one.quantity] for run in runs])
    if (values[np.isfinite(values)] > 0).all():
        panel.set_xscale("log")
        # Labels of every third of a decade do not fit where the values span many.
        wide = values.max() > 1000 * values.min()
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 3.0)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
    name = NAMES[one.quantity].removesuffix(", then")
    panel.set_xlabel(f"{name}, after 5 % of the steps", fontsize=9)
    panel.set_title(f"rank correlation {_signed(one.rho)}{_between(one.interval)}", fontsize=10)

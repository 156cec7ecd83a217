"""What a fine-tuning forgot as a section of a model card, and as results that the hub reads (``model-index``).

    <!-- forgetwatch -->
    ## What it forgot
    ...
    <!-- end of forgetwatch -->

The section is replaced where a card has one, and appended where it has none; the other text of the card stays. The
metadata at its head are written anew by huggingface_hub, without their comments. The section holds numbers and names of
categories, and no text of a question.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import unmeasured
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.errors import SnapshotError
from forgetwatch.extras import missing
from forgetwatch.files.writing import write_text
from forgetwatch.measures.base import Quantity
from forgetwatch.measures.quantities import MEASURES
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.markdown import _first_table
from forgetwatch.text import items
from forgetwatch.version import VERSION

CARD: Final = "README.md"


_BEGIN: Final = "<!-- forgetwatch -->"


_END: Final = "<!-- end of forgetwatch -->"


_SECTION: Final = re.compile(
    rf"^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}$", re.MULTILINE | re.DOTALL
)


_TYPE: Final = "forgetwatch"


def card_section(
    trajectory: Trajectory, run: Path | str, *, tolerance: Tolerance = TOLERANCE
) -> str:
    """Return the section on a run's last look: verdict, facts, worst categories, and how it was measured."""
    comparison = trajectory.final
    probe = _probe(comparison)
    facts = (
        ("probe", f"{_name(comparison)}, {probe.get('rendering', '?')} prompt"),
        ("fingerprint", str(probe.get("fingerprint", "?"))[:16]),
        ("steps", f"{comparison.before.get('step', '?')} to {comparison.after.get('step', '?')}"),
        ("measured with", f"forgetwatch {VERSION}"),
    )
    first = first_table(comparison, trajectory=trajectory, run=run, tolerance=tolerance)
    lines = [_BEGIN, "## What it forgot", "", *_first_table(first, facts), ""]
    return "\n".join(
        [*lines, "Brackets hold 95 % intervals; changes are in percentage points.", _END]
    )


def write_card(path: Path, trajectory: Trajectory, *, tolerance: Tolerance = TOLERANCE) -> None:
    """Write the section of a run's last look, and its results, into a model card, which is made if there is none.

    Raises:
        SnapshotError: If the metadata of the card cannot be read, or the package huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import EvalResult, ModelCard, ModelCardData
    except ModuleNotFoundError as error:
        raise SnapshotError(missing(error, what="a model card") or str(error)) from error
    comparison = trajectory.final
    try:
        text = (
            path.read_bytes().decode("utf-8-sig")
            if path.is_file()
            else f"---\n{ModelCardData()}\n---\n"
        )
        card = ModelCard(text)
        data: Any = card.data
        others = [one for one in data.eval_results or [] if one.dataset_type != _TYPE]
        if len({str(model.get("name")) for model in _models(text)}) > 1:
            raise ValueError("its model-index is of several models")
    except (ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise SnapshotError(
            f"{path}: the metadata at its head cannot be read ({error}); mend or delete it"
        ) from error
    probe = _probe(comparison)
    quantities = [
        one for measure in MEASURES for one in measure.quantities if isinstance(one, Quantity)
    ]
    numbers = [one for one in quantities if one.tracked in ("all", "category", "card")]
    data.eval_results = others + [
        EvalResult(
            task_type="text-generation",
            dataset_type=_TYPE,
            dataset_name=_name(comparison),
            dataset_revision=str(probe.get("fingerprint", ""))[:16],
            metric_type=one.name,
            metric_name=one.name.replace("_", " "),
            metric_value=round(value, 4),
        )
        for one in ([] if unmeasured(trajectory) else numbers)  # those that every tracker gets
        if (value := comparison.all[one.name]) is not None
    ]
    data.model_name = data.model_name or path.resolve().parent.name
    section = card_section(trajectory, path.parent, tolerance=tolerance)
    old = _SECTION.search(card.text)
    before, after = (card.text[: old.start()], card.text[old.end() :]) if old else (card.text, "")
    card.text = (
        "\n\n".join(part for part in (before.strip("\n"), section, after.strip("\n")) if part)
        + "\n"
    )
    write_text(path, str(card))


def _models(text: str) -> list[dict[str, Any]]:
    """Return the models of the ``model-index`` at the head of a card."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    head = REGEX_YAML_BLOCK.search(text)
    found = yaml.safe_load(head[2]) if head else None
    return list((found or {}).get("model-index") or [])


def _name(comparison: Comparison) -> str:
    return f"{_probe(comparison).get('name', '?')}, {items(comparison.items.compared)}"


def _probe(comparison: Comparison) -> dict[str, Any]:
    found = comparison.after.get("probe")
    return found if isinstance(found, dict) else {}

"""What a fine-tuning forgot as a section of a model card, and as results that the hub reads (``model-index``).

    <!-- forgetwatch -->
    ## What it forgot
    ...
    <!-- end of forgetwatch -->

The section is replaced where a card has one, and appended where it has none; the other text of the
card stays. The metadata at its head are written anew by huggingface_hub, without their comments.
The section holds numbers and names of categories, and no text of a question.
"""

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
    """Section on a run's last look.

    Verdict, facts, worst categories, and how it was measured.
    """
    comparison = trajectory.final
    probe = _probe(comparison)
    facts = (
        ("probe", f"{_name(comparison)}, {probe.get('rendering', '?')} prompt"),
        ("fingerprint", str(probe.get("fingerprint", "?"))[:16]),
        ("steps", f"{comparison.before.get('step', '?')} to {comparison.after.get('step', '?')}"),
        ("measured with", f"forgetwatch {VERSION}"),
    )
    verdict_table = first_table(comparison, trajectory=trajectory, run=run, tolerance=tolerance)
    lines = [_BEGIN, "## What it forgot", "", *_first_table(verdict_table, facts), ""]
    return "\n".join(
        [*lines, "Brackets hold 95 % intervals; changes are in percentage points.", _END]
    )


def write_card(path: Path, trajectory: Trajectory, *, tolerance: Tolerance = TOLERANCE) -> None:
    """Write the section and results into a model card.

    A missing card is made.

    Raises:
        SnapshotError: If the metadata of the card cannot be read, or the package huggingface_hub is
            not installed.
    """
    try:
        from huggingface_hub import EvalResult, ModelCard, ModelCardData
    except ModuleNotFoundError as error:
        raise SnapshotError(missing(error, needed_by="a model card") or str(error)) from error
    comparison = trajectory.final
    try:
        card_text = (
            path.read_bytes().decode("utf-8-sig")
            if path.is_file()
            else f"---\n{ModelCardData()}\n---\n"
        )
        card = ModelCard(card_text)
        data: Any = card.data
        other_results = [
            result for result in data.eval_results or [] if result.dataset_type != _TYPE
        ]
        if len({str(model.get("name")) for model in _models(card_text)}) > 1:
            raise ValueError("its model-index is of several models")
    except (ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise SnapshotError(
            f"{path}: the metadata at its head cannot be read ({error}); mend or delete it"
        ) from error
    probe = _probe(comparison)
    quantities = [
        quantity
        for measure in MEASURES
        for quantity in measure.quantities
        if isinstance(quantity, Quantity)
    ]
    numbers = [
        quantity for quantity in quantities if quantity.tracked in ("all", "category", "card")
    ]
    data.eval_results = other_results + [
        EvalResult(
            task_type="text-generation",
            dataset_type=_TYPE,
            dataset_name=_name(comparison),
            dataset_revision=str(probe.get("fingerprint", ""))[:16],
            metric_type=quantity.name,
            metric_name=quantity.name.replace("_", " "),
            metric_value=round(value, 4),
        )
        for quantity in ([] if unmeasured(trajectory) else numbers)  # those that every tracker gets
        if (value := comparison.all[quantity.name]) is not None
    ]
    data.model_name = data.model_name or path.resolve().parent.name
    section = card_section(trajectory, path.parent, tolerance=tolerance)
    old = _SECTION.search(card.text)
    before, after = (card.text[: old.start()], card.text[old.end() :]) if old else (card.text, "")
    card.text = (
        "\n\n".join(block for block in (before.strip("\n"), section, after.strip("\n")) if block)
        + "\n"
    )
    write_text(path, str(card))


def _models(text: str) -> list[dict[str, Any]]:
    # A card has them under ``model-index`` at its head.
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    head = REGEX_YAML_BLOCK.search(text)
    front_matter = yaml.safe_load(head[2]) if head else None
    return list((front_matter or {}).get("model-index") or [])


def _name(comparison: Comparison) -> str:
    return f"{_probe(comparison).get('name', '?')}, {items(comparison.items.compared)}"


def _probe(comparison: Comparison) -> dict[str, Any]:
    probe = comparison.after.get("probe")
    return probe if isinstance(probe, dict) else {}

"""A Comparison as one row of numbers for W&B, TensorBoard and other trackers.

    eval_forget/all/accuracy, forgotten, gained, ...               what the measures have for every tracker
    eval_forget/all/net_change_points, and its _low and _high      the estimate of the verdict, 95 %
    eval_forget/all/kept                                           the share that checkpoints are chosen by
    eval_forget/<category>/forgotten, net_change_points

With `full` also every other number of the JSON document, for each group, and the item history of
the run:

    eval_forget/all/items, unscored      eval_forget/tasks/<task>/net_change
    eval_forget/all/forgetting_paper     chance.paper.forgetting
    eval_forget/all/ever_forgotten       and ever_forgotten_if_guessed, regained, regained_if_guessed
    eval_forget/all/net_change_interval_low, net_change_interval_high

A watched trainer adds the drift, by `base_drift.drift_row`. A quantity that is undefined has no
key: trackers draw nan and None as gaps or zeros.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.kept_share import KeptOf, kept
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import estimated
from forgetwatch.measures.base import Quantity
from forgetwatch.measures.history import HISTORY
from forgetwatch.measures.quantities import MEASURES
from forgetwatch.measures.scores import PASSAGES

PREFIX: Final = "eval_forget"


def tracker_row(
    comparison: Comparison,
    *,
    seconds: float | None,
    of: KeptOf | None = None,
    full: bool = False,
    trajectory: Trajectory | None = None,
    also: str = "",
) -> dict[str, float]:
    """Numbers of a look by tracker key.

    Counts are int, the rest float.

    Args:
        comparison: The baseline against the look.
        seconds: Duration of the look; None for no such key.
        of: What the kept share is a share of; by default what this comparison measures.
        full: True for every number of every group.
        trajectory: The run up to this look; its item history is among the numbers of a full row.
        also: Key of a number of a full row that any row has, such as the one that the best
            checkpoint is chosen by.
    """
    numbers = [
        ("all/unscored", comparison.items.unscored, False),
        ("all/seconds", seconds, False),
        *_numbers("all", comparison.all),
        ("all/kept", kept(comparison.all, of).share, True),
    ]
    if comparison.all.n:
        ends = zip(("low", "high"), estimated(comparison.all)[1], strict=True)
        numbers += [(f"all/net_change_points_{end}", 100 * bound, True) for end, bound in ends]
    groups = _named(comparison.by("category"))
    for key, group in groups.items():
        numbers += _numbers(key, group)
    for key, group in {"all": comparison.all, **groups}.items():
        if group.n:
            numbers.append((f"{key}/net_change_points", 100 * estimated(group)[0], True))
    if full or also.startswith(f"{PREFIX}/tasks/"):
        for key, group in _named(comparison.by("task")).items():
            numbers += _numbers(f"tasks/{key}", group)
    if trajectory is not None and (history := trajectory[HISTORY]) is not None:
        numbers += [
            (f"all/{quantity.tracker}", quantity.read(history), False)
            for quantity in HISTORY.quantities
            if isinstance(quantity, Quantity)
        ]
    return {
        f"{PREFIX}/{key}": value
        for key, value, by_default in numbers
        if (full or by_default or f"{PREFIX}/{key}" == also)
        and value is not None
        and math.isfinite(value)
    }


def _numbers(key: str, group: Group) -> Iterator[tuple[str, float | None, bool]]:
    # (name in trackers, value, has every row the value) of each number.
    is_all = group.level == "all"
    for measure in MEASURES:
        # Counts of a group of passages alone would be curves of 0.
        has_answers = bool(group.n) or is_all or measure is PASSAGES
        if not (has_answers or group.outcomes.vanished):
            continue
        values = measure.values(group[measure])
        for quantity in measure.quantities:
            name, value = tracker_key(quantity.name), values[quantity.name]
            if isinstance(quantity, Quantity):
                is_tracked = quantity.tracked == "category" or (
                    quantity.tracked == "all" and is_all
                )
                is_tracked |= quantity.tracked == "where any" and is_all and bool(value)
                yield (
                    f"{key}/{quantity.tracker or name}",
                    value,
                    has_answers and is_tracked and group.level != "task",
                )
            else:
                for end, bound in zip(("low", "high"), value or (None, None), strict=True):
                    yield f"{key}/{name}_{end}", bound, False


def tracker_key(name: str) -> str:
    """Name of a quantity in a key.

    The objects of the JSON document follow, and ``chance`` is left out.

    >>> tracker_key("chance.paper.forgetting"), tracker_key("soft.forgetting"), tracker_key("chance.n")
    ('forgetting_paper', 'forgetting_soft', 'chance_n')
    """
    if name == "chance.n":
        return "chance_n"
    *path, leaf = name.removeprefix("chance.").split(".")
    return "_".join([leaf, *path])


def tracker_name(name: str) -> str:
    """Name of a category or task in a key.

    Lower case, with an underscore for all but letters and digits.

    >>> tracker_name("Allgemeinwissen/Größe 2"), tracker_name("数学")
    ('allgemeinwissen_größe_2', '数学')
    """
    # Composed first: an accent of its own is no letter. A slash would begin a level of keys, and
    # MLflow refuses signs.
    composed = unicodedata.normalize("NFC", name.lower())
    return "".join(char if char.isalpha() or char.isdecimal() else "_" for char in composed)


def _named(groups: dict[str, Group]) -> dict[str, Group]:
    # A name that is taken (`all`, `tasks`, or a second group's) gets a number.
    by_name: dict[str, Group] = {}
    for name, group in groups.items():
        key = base = tracker_name(name)
        number = 2
        while key in by_name or key in ("all", "tasks"):
            key, number = f"{base}_{number}", number + 1
        by_name[key] = group
    return by_name


FLIPPED: Final = (
    "what",
    "item_id",
    "task",
    "category",
    "k",
    "gold",
    "chosen before",
    "chosen after",
)
FLIPPED_TEXTS: Final = ("question", "right answer", "answer after")
"""Columns of the table of flipped items; those with texts are sent if the user shares them."""

_MOST_FLIPPED: Final = 200
"""Maximum number of rows of the table."""


def flipped_rows(
    changed: Sequence[Flip], *, texts: bool, limit: int = _MOST_FLIPPED
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns and rows of the table of flipped items.

    The forgotten ones first, each kind in its given order.

    With `texts` it has question and answers; they are None for items that the probe does not give
    or share.
    """
    flipped = [
        flip for flip_kind in ("forgotten", "gained") for flip in changed if flip.what == flip_kind
    ][:limit]
    rows = []
    for flip in flipped:
        gold = flip.gold[0] if flip.gold else None
        names = flip.what, flip.item_id, flip.task, flip.category
        cells = (*names, flip.k, gold, flip.before.chosen, flip.after.chosen)
        # A private item has no text here, and neither have its answers.
        shared = (
            (None,) * 3
            if flip.item is None
            else (flip.question, flip.right, flip.answer(flip.after))
        )
        rows.append((*cells, *shared) if texts else cells)
    return (*FLIPPED, *FLIPPED_TEXTS) if texts else FLIPPED, rows

"""Clearly known answers that were lost, asked again in other wordings, with as many kept ones.

    before, after, probe ─▶ the lost, and as many kept ones at random ─▶ other wordings ─▶ both
    models ─▶ `Again`

A loss of the shipped wording need not be a loss of the knowledge: a model may still answer when it
is asked otherwise. An item that the probe asks in another wording than its own is asked in its own
in place of that. What a probe asks in each wording is known already.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.flips import Flip, measured_flips
from forgetwatch.errors import SnapshotError
from forgetwatch.item import Item
from forgetwatch.measures.other_wordings import Again, LostElsewhere, Status, lost_elsewhere
from forgetwatch.measures.pairing import pair
from forgetwatch.probe import Probe
from forgetwatch.probes.wordings import OTHERS, worded_probe, wordings_of
from forgetwatch.snapshot import Snapshot
from forgetwatch.wording import SHIPPED


def clearly_known(
    before: Snapshot, after: Snapshot
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Find what was clearly known before, lost and kept.

    Returns:
        The (task, id) of the lost, and of the kept, among items measured on both sides.
    """
    pairing = pair(before, after)
    now = after.floats("correct")[pairing.after]
    measured = measured_flips(before, after, pairing)["known"]
    tasks, ids = (before.texts(name)[pairing.before] for name in ("task", "item_id"))

    def keys(right: float) -> list[tuple[str, str]]:
        rows = np.flatnonzero(measured & (now == right))
        return list(zip(tasks[rows].tolist(), ids[rows].tolist(), strict=True))

    return keys(0.0), keys(1.0)


SEED: Final = 0


Score = Callable[[Probe], tuple[Snapshot, Snapshot]]
"""Function of a probe to the outcomes of both models on it."""


def marked_flips(again: Again, changed: Sequence[Flip]) -> list[Flip]:
    """Mark flips with the result of other wordings."""
    return [replace(flip, again=again.status.get((flip.task, flip.item_id))) for flip in changed]


def ask_again(
    before: Snapshot,
    after: Snapshot,
    probe: Probe,
    score: Score,
    *,
    names: Sequence[str] = OTHERS,
    maximum: int | None = None,
    seed: int = SEED,
) -> Again:
    """Ask lost and kept answers again in other wordings.

    Args:
        before: Outcomes of the base.
        after: Outcomes of the tuned model on the same probe.
        probe: The probe, whose items are asked otherwise.
        score: Scores both models on a probe.
        names: Names of the wordings; see `probes.WORDINGS`.
        maximum: Number of lost items that are asked at most, drawn at random; None for all.
        seed: Seed of the draws.

    Raises:
        SnapshotError: If the questions of the snapshots are not those of the probe.
        ProbeError: If a wording is unknown.
    """
    wordings = wordings_of(names)
    items = {(item.task, item.id): item for item in probe}
    expected = {
        (item.task, f"{item.id}@{name}") for item in probe if _is_own(item) for name in names
    }
    is_in_items = not expected.isdisjoint(items)
    lost, kept = clearly_known(before, after)
    if is_in_items:  # every question once, in the wording of the probe
        lost, kept = (
            [key for key in keys if key not in items or _is_own(items[key])]
            for keys in (lost, kept)
        )
    if missing := [key for key in lost if key not in items]:
        raise SnapshotError(
            f"--probe is not the one that scored these files: question {missing[0][1]!r} is missing"
        )
    _, usable = worded_probe(probe, [items[key] for key in lost], wordings)
    _, of_kept = worded_probe(probe, [items[key] for key in kept if key in items], wordings)
    rng = np.random.default_rng(seed)
    if maximum is not None and len(usable) > maximum:
        usable = [usable[at] for at in sorted(rng.permutation(len(usable))[:maximum])]
    drawn = [of_kept[at] for at in sorted(rng.permutation(len(of_kept))[: len(usable)])]
    reworded, _ = worded_probe(probe, [*usable, *drawn], wordings)
    if reworded is None:
        nothing = LostElsewhere(lost=0, lost_elsewhere=0, kept=0, kept_elsewhere=0)
        return Again(
            wordings=tuple(names), counts=nothing, by_wording={}, left_out=len(lost), status={}
        )
    is_scored = is_in_items and all((item.task, item.id) in items for item in reworded)
    outcomes = (before, after) if is_scored else score(reworded)
    sides = [_outcomes(outcome, [*usable, *drawn], names) for outcome in outcomes]
    scored: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(sides[0] + sides[1]), axis=1)
    scored &= _differ([*usable, *drawn], names, before, outcomes[0])
    right = [side == 1 for side in sides]
    everywhere = lost_elsewhere(*right)
    still = right[1].all(axis=1)
    status: dict[tuple[str, str], Status] = {}
    for at, item in enumerate(usable):
        if scored[at]:
            told: Status = "right when asked otherwise" if still[at] else "not clear"
            status[item.task, item.id] = "lost in every wording" if everywhere[at] else told
    of_lost = np.arange(len(scored)) < len(usable)
    counts = LostElsewhere(
        lost=int((scored & of_lost).sum()),
        lost_elsewhere=int((everywhere & scored & of_lost).sum()),
        kept=int((scored & ~of_lost).sum()),
        kept_elsewhere=int((everywhere & scored & ~of_lost).sum()),
    )
    in_each = right[0] & ~right[1] & (scored & of_lost)[:, None]
    called = [
        [SHIPPED if item.wording and item.wording.name == name else name for name in names]
        for item in [*usable, *drawn]
    ]
    by_wording = Counter(
        {name: 0 for name in (*names, SHIPPED) if any(name in row for row in called)}
    )
    by_wording.update(np.array(called, object)[in_each].tolist())
    return Again(
        wordings=tuple(names),
        counts=counts,
        by_wording=dict(by_wording),
        left_out=len(lost) - counts.lost,
        status=status,
    )


def _is_own(item: Item) -> bool:
    return item.wording is None or item.wording.name == SHIPPED


def _differ(
    items: Sequence[Item], names: Sequence[str], before: Snapshot, reworded: Snapshot
) -> NDArray[np.bool_]:
    # Which items the tokenizer spells differently in each wording, bool [items].
    hashes: dict[tuple[str, str], str] = {}
    for snapshot in (before, reworded):
        hashes |= dict(zip(snapshot.item_keys, snapshot.texts("prompt_hash").tolist(), strict=True))
    differences = []
    for item in items:
        rows_of_wording = [
            hashes.get((item.task, name))
            for name in (item.id, *(f"{item.id}@{name}" for name in names))
        ]
        differences.append(
            not all(rows_of_wording) or len(set(rows_of_wording)) == len(rows_of_wording)
        )  # snapshots of other sources have no hashes
    return np.array(differences, bool)


def _outcomes(
    snapshot: Snapshot, items: Sequence[Item], names: Sequence[str]
) -> NDArray[np.float64]:
    # float64 [items, wordings]; nan where not scored.
    right = dict(zip(snapshot.item_keys, snapshot.floats("correct").tolist(), strict=True))
    return np.array(
        [[right.get((item.task, f"{item.id}@{name}"), np.nan) for name in names] for item in items],
        float,
    )

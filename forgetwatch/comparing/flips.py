"""Items whose answer changed between two snapshots, one by one, with the answers of both sides.

    forgotten   right before, wrong after          known_lost   forgotten, and clearly known before
    gained      wrong before, right after          churned      wrong before and after, with another answer

Every list of flipped items comes from `flips`: the command, the page, exports and the table of a tracker. Questions and
options come from the probe, or from the log that was read; without them an item is shown by its id.

**Asked again.** Clearly known answers that were lost, asked again in other wordings, with as many that were kept beside
them.

    before, after, probe ─▶ the lost, and as many kept ones at random ─▶ other wordings ─▶ both models ─▶ `Again`

A loss of the shipped wording need not be a loss of the knowledge: a model may still answer when it is asked otherwise.
An item that the probe asks in another wording than its own is asked in its own in place of that. What a probe asks in
each wording is known already.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.checks import is_of_run
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.item import PRIVATE, SHIPPED, Item
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.measured_again import (
    Again,
    LostElsewhere,
    Status,
    lost_elsewhere,
    read_again,
)
from forgetwatch.measures.pairing import pair
from forgetwatch.metrics.known import Loss
from forgetwatch.probe import LETTERS, Probe
from forgetwatch.probes.wordings import OTHERS, worded_probe, wordings_of
from forgetwatch.readers.log import QuestionText
from forgetwatch.snapshot import NONE, Snapshot

What = Literal["forgotten", "gained", "churned"]
Order = Literal["margin", "first"]
FirstForgotten = Mapping[tuple[str, str, int], int]


@dataclass(frozen=True, kw_only=True)
class Side:
    """Answer of one snapshot to an item.

    Attributes:
        chosen: Index of the chosen option, from 0; None if no option was found.
        margin: Score of the best option minus that of the second, nats; None if not measured.
        output: Text that the model generated; None if none.
        outcome: ``ok``, or the reason why a generated answer does not count.
    """

    chosen: int | None
    margin: float | None
    output: str | None
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Flip:
    """One item whose answer changed.

    Attributes:
        what: Kind of the change.
        known: True if it was clearly known before.
        by_luck: Number of known and lost items that luck makes, as this one shows: above 0 for a confident wrong answer
            that went to another wrong option. None if its options have no scores. See `metrics.known`.
        loss: Kind of a forgotten answer's loss, ``form`` or ``knowledge``; None if it is not forgotten, or nothing
            shows it: a generated answer whose form was not measured, or a mere right and wrong. See `metrics.known`.
        log_mass_change: Change of the logarithm of its options' total probability, after minus before, nats; None
            without log-likelihoods on both sides. See `metrics.mass`.
        log_conditional_change: Change of the logarithm of the right option's part of it, nats; None likewise.
        category: Category of the item; may be empty.
        k: Number of options; None for an open answer.
        gold: Indices of the right options, from 0.
        first: Step of the look at which it was first wrong; None if that is not known, or it never was.
        item: The question as text; None if no probe or log gives it, or it is private.
        content_hash: Hash of the question; None if not known.
        again: What became of it in other wordings (`again.ask_again`); None if it was not asked.
        wording: Name of the wording in which it was asked; None for one that is asked in no other.
    """

    what: What
    known: bool
    by_luck: float | None
    loss: Loss | None
    log_mass_change: float | None
    log_conditional_change: float | None
    item_id: str
    task: str
    category: str
    sample: int
    k: int | None
    gold: tuple[int, ...]
    before: Side
    after: Side
    first: int | None
    item: Item | QuestionText | None
    content_hash: str | None = None
    again: Status | None = None
    wording: str | None = None

    @property
    def margin(self) -> float:
        """Confidence of the model in nats: before if it forgot, else after; minus infinity if not measured."""
        side = self.before if self.what == "forgotten" else self.after
        return -math.inf if side.margin is None else side.margin

    @property
    def question(self) -> str | None:
        """The question as text; None if no probe or log gives it."""
        if self.item is None:
            return None
        return prompt_text(
            self.item.asked_prompt if isinstance(self.item, Item) else self.item.prompt
        )

    @property
    def right(self) -> str | None:
        """The right answer as text; None if not known."""
        # The answers of an open item are texts, and those of others indices of options.
        if self.item is not None and not self.gold:
            return " | ".join(str(answer) for answer in self.item.answers) or None
        return " | ".join(self.option(index) for index in self.gold) or None

    def answer(self, side: Side) -> str | None:
        """Return the answer of a side as text.

        Its chosen option, else its output, else the reason why there is none.
        """
        if side.chosen is not None:
            return self.option(side.chosen)
        if side.output is not None or side.outcome == "ok":
            return side.output
        return side.outcome.replace("_", " ")

    def option(self, index: int) -> str:
        """Return an option as text: its own text if there is a probe, else its letter."""
        if self.item is not None and index < len(self.item.choices):
            return self.item.choices[index].strip()
        return LETTERS[index] if index < len(LETTERS) else f"option {index + 1}"


def flips(
    before: Snapshot,
    after: Snapshot,
    *,
    probe: Probe | None = None,
    first: FirstForgotten | None = None,
) -> list[Flip]:
    """List the items whose answer changed, in the order of the snapshot before.

    Args:
        before: The snapshot before.
        after: The snapshot after.
        probe: Source of questions and options; private items stay without them.
        first: Step at which an item was first wrong, by task, id and sample; see `first_forgotten`.
    """
    asked = read_again(after.meta, label=after.label) if is_of_run(before, after) else None
    again = {} if asked is None else asked.status
    pairing = pair(before, after)
    was, now = before.right_as_base[pairing.before], after.floats("correct")[pairing.after]
    measured = _measured(
        AlignedPairs.align(before, after, pairing, whole_items=False)[0], np.isfinite(was + now)
    )
    one, other = before.ints("chosen")[pairing.before], after.ints("chosen")[pairing.after]
    whats = np.full(len(was), "", dtype=object)
    whats[(was == 1) & (now == 0)] = "forgotten"
    whats[(was == 0) & (now == 1)] = "gained"
    # Without an option on both sides nothing shows that another wrong answer was given.
    whats[(was == 0) & (now == 0) & (one != other) & (one != NONE) & (other != NONE)] = "churned"
    # A private item is listed without its question and options: all output takes these from the flip.
    items = {(item.task, item.id): item for item in probe or () if PRIVATE not in item.tags}
    changed = np.flatnonzero(whats != "")
    rows = pairing.before[changed]
    tasks, ids, samples = (
        before.texts("task")[rows],
        before.texts("item_id")[rows],
        before.ints("sample")[rows],
    )
    ks, golds, golds_listed = (
        before.ints("k")[rows],
        before.ints("gold")[rows],
        before.table["golds"].take(rows),
    )
    categories, hashes, wordings = (
        before.texts(name)[rows] for name in ("category", "content_hash", "wording")
    )
    sides = _sides(before, rows), _sides(after, pairing.after[changed])
    found = []
    for at, listed in enumerate(golds_listed.to_pylist()):
        item = items.get((tasks[at], ids[at]))
        gold = (
            tuple(listed) if listed is not None else () if golds[at] == NONE else (int(golds[at]),)
        )
        found.append(
            Flip(
                what=whats[changed[at]],
                **{name: _value(values[changed[at]]) for name, values in measured.items()},
                item_id=ids[at],
                task=tasks[at],
                category=categories[at],
                sample=int(samples[at]),
                k=None if ks[at] == NONE else int(ks[at]),
                # A snapshot may not name the right options; then those of the probe.
                gold=gold
                or tuple(
                    answer for answer in (item.answers if item else ()) if isinstance(answer, int)
                ),
                before=sides[0][at],
                after=sides[1][at],
                first=(first or {}).get((tasks[at], ids[at], int(samples[at]))),
                item=item,
                content_hash=hashes[at],
                again=again.get((tasks[at], ids[at])),
                wording=wordings[at],
            )
        )
    return found


def clearly_known(
    before: Snapshot, after: Snapshot
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the (task, id) of what was clearly known before and is measured on both sides: what is lost, and kept."""
    pairing = pair(before, after)
    was, now = before.right_as_base[pairing.before], after.floats("correct")[pairing.after]
    known = _measured(
        AlignedPairs.align(before, after, pairing, whole_items=False)[0], np.isfinite(was + now)
    )["known"]
    tasks, ids = (before.texts(name)[pairing.before] for name in ("task", "item_id"))

    def keys(right: float) -> list[tuple[str, str]]:
        rows = np.flatnonzero(known & (now == right))
        return list(zip(tasks[rows].tolist(), ids[rows].tolist(), strict=True))

    return keys(0.0), keys(1.0)


def _sides(snapshot: Snapshot, rows: NDArray[np.int64]) -> list[Side]:
    """Return the answers of a snapshot in some rows."""
    columns = (
        snapshot.ints("chosen"),
        snapshot.floats("margin"),
        snapshot.texts("output"),
        snapshot.texts("outcome"),
    )
    return [
        Side(
            chosen=None if chosen == NONE else chosen,
            margin=margin if math.isfinite(margin) else None,
            output=output,
            outcome=outcome,
        )
        for chosen, margin, output, outcome in zip(
            *(column[rows].tolist() for column in columns), strict=True
        )
    ]


def _measured(pairs: AlignedPairs, scored: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Return the attributes of flips that follow from both sides, by name [rows of the pairing]; nan where not known.

    `scored` marks the rows of the pairing that `pairs` are: those that were scored on both sides.
    """
    confidence, split = pairs.confidence(), pairs.mass_split
    nothing = np.full(len(pairs), np.nan)
    # Without any answer that was wrong before there is no mirror: nothing shows what luck makes.
    has_mirror = (
        confidence.wrong_share is not None and (confidence.measured & ~confidence.before).any()
    )
    found = {
        "known": confidence.known,
        "by_luck": np.where(confidence.measured, confidence.luck()[1], np.nan)
        if has_mirror
        else nothing,
        "loss": pairs.loss(),
        "log_mass_change": nothing if split is None else split.mass_change,
        "log_conditional_change": nothing if split is None else split.conditional_change,
    }
    empty: dict[str, Any] = {"known": False, "loss": None}
    whole = {
        name: np.full(len(scored), empty.get(name, np.nan), values.dtype)
        for name, values in found.items()
    }
    for name, values in found.items():
        whole[name][scored] = values
    return whole


def _value(value: Any) -> Any:
    """Return an array's value as Python's own; None for nan."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def sort_flips(found: Sequence[Flip], *, by: Order = "margin") -> list[Flip]:
    """Sort flips by falling confidence, or by the look at which an item was first wrong."""
    keys: dict[Order, Callable[[Flip], Any]] = {
        "margin": lambda flip: -flip.margin,
        "first": lambda flip: (flip.first is None, flip.first or 0, -flip.margin),
    }
    return sorted(found, key=keys[by])


def first_forgotten(trajectory: Trajectory) -> dict[tuple[str, str, int], int]:
    """Return the step of the look at which each item was first forgotten, by task, id and sample.

    Items that were never forgotten are absent. An item that was wrong at the baseline cannot be forgotten.
    """
    wrong = (trajectory.right[0] == 1) & (trajectory.right[1:] == 0)
    baseline = trajectory.baseline
    tasks, ids, samples = baseline.texts("task"), baseline.texts("item_id"), baseline.ints("sample")
    return {
        (tasks[row], ids[row], int(samples[row])): trajectory.steps[
            1 + int(np.argmax(wrong[:, row]))
        ]
        for row in np.flatnonzero(wrong.any(axis=0)).tolist()
    }


def prompt_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """Return a prompt as text; the messages of a chat one below the other, each with its role."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(
        f"{message.get('role', '')}: {message.get('content', '')}" for message in prompt
    )


SEED: Final = 0

Score = Callable[[Probe], tuple[Snapshot, Snapshot]]
"""Function of a probe to the outcomes of both models on it."""


def marked_flips(found: Again, changed: Sequence[Flip]) -> list[Flip]:
    """Return items whose answer changed, those that were asked again with what became of them."""
    return [replace(flip, again=found.status.get((flip.task, flip.item_id))) for flip in changed]


def ask_again(
    before: Snapshot,
    after: Snapshot,
    probe: Probe,
    score: Score,
    *,
    names: Sequence[str] = OTHERS,
    most: int | None = None,
    seed: int = SEED,
) -> Again:
    """Ask what was clearly known and is lost again in other wordings, and as many kept ones.

    Args:
        before: Outcomes of the base.
        after: Outcomes of the tuned model on the same probe.
        probe: The probe, whose items are asked otherwise.
        score: Scores both models on a probe.
        names: Names of the wordings; see `probes.WORDINGS`.
        most: Number of lost items that are asked at most, drawn at random; None for all.
        seed: Seed of the draws.

    Raises:
        SnapshotError: If the questions of the snapshots are not those of the probe.
        ProbeError: If a wording is unknown.
    """
    wordings = wordings_of(names)
    items = {(item.task, item.id): item for item in probe}
    named = {(item.task, f"{item.id}@{name}") for item in probe if _is_own(item) for name in names}
    each = not named.isdisjoint(items)
    lost, kept = clearly_known(before, after)
    if each:  # every question once, in the wording of the probe
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
    if most is not None and len(usable) > most:
        usable = [usable[at] for at in sorted(rng.permutation(len(usable))[:most])]
    drawn = [of_kept[at] for at in sorted(rng.permutation(len(of_kept))[: len(usable)])]
    asked, _ = worded_probe(probe, [*usable, *drawn], wordings)
    if asked is None:
        nothing = LostElsewhere(lost=0, lost_elsewhere=0, kept=0, kept_elsewhere=0)
        return Again(
            wordings=tuple(names), counts=nothing, by_wording={}, left_out=len(lost), status={}
        )
    is_scored = each and all((item.task, item.id) in items for item in asked)
    outcomes = (before, after) if is_scored else score(asked)
    sides = [_outcomes(one, [*usable, *drawn], names) for one in outcomes]
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
    items: Sequence[Item], names: Sequence[str], before: Snapshot, asked: Snapshot
) -> NDArray[np.bool_]:
    """Return which items the tokenizer spells otherwise in each wording, bool [items]."""
    hashes: dict[tuple[str, str], str] = {}
    for one in (before, asked):
        hashes |= dict(zip(one.item_keys, one.texts("prompt_hash").tolist(), strict=True))
    found = []
    for item in items:
        own = [
            hashes.get((item.task, name))
            for name in (item.id, *(f"{item.id}@{name}" for name in names))
        ]
        found.append(
            not all(own) or len(set(own)) == len(own)
        )  # snapshots of other sources have no hashes
    return np.array(found, bool)


def _outcomes(
    snapshot: Snapshot, items: Sequence[Item], names: Sequence[str]
) -> NDArray[np.float64]:
    """Return whether each item is right in each wording, float64 [items, wordings]; nan where it is not scored."""
    right = dict(zip(snapshot.item_keys, snapshot.floats("correct").tolist(), strict=True))
    return np.array(
        [[right.get((item.task, f"{item.id}@{name}"), np.nan) for name in names] for item in items],
        float,
    )

"""Items whose answer changed between two snapshots, one by one, with the answers of both sides.

    forgotten   right before, wrong after          known_lost   forgotten, and clearly known before
    gained      wrong before, right after          churned      wrong before and after, with another answer

Every list of flipped items comes from `flips`: the command, the page, exports and the table of a
tracker. Questions and options come from the probe, or from the log that was read; without them an
item is shown by its id.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.checks import check_pairing, is_of_run
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.item import PRIVATE, Item
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.other_wordings import Status, read_again
from forgetwatch.measures.pairing import Pairing, pair
from forgetwatch.metrics.known import Loss
from forgetwatch.probe import LETTERS, Probe
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
        by_luck: Number of known and lost items that luck makes, as this one shows: above 0 for a
            confident wrong answer that went to another wrong option. None if its options have no
            scores. See `metrics.known`.
        loss: Kind of a forgotten answer's loss, ``form`` or ``knowledge``; None if it is not
            forgotten, or nothing shows it: a generated answer whose form was not measured, or a
            mere right and wrong. See `metrics.known`.
        log_mass_change: Change of the logarithm of its options' total probability, after minus
            before, nats; None without log-likelihoods on both sides. See `metrics.mass`.
        log_conditional_change: Change of the logarithm of the right option's part of it, nats; None
            likewise.
        category: Category of the item; may be empty.
        k: Number of options; None for an open answer.
        gold: Indices of the right options, from 0.
        first: Step of the look at which it was first wrong; None if that is not known, or it never
            was.
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
        """Confidence in nats: before if forgotten, else after.

        Returns:
            The margin, or minus infinity if it was not measured.
        """
        side = self.before if self.what == "forgotten" else self.after
        return -math.inf if side.margin is None else side.margin

    @property
    def question(self) -> str | None:
        """The question as text.

        Returns:
            The text, or None without a probe or a log that has it.
        """
        if self.item is None:
            return None
        return prompt_text(
            self.item.asked_prompt if isinstance(self.item, Item) else self.item.prompt
        )

    @property
    def right(self) -> str | None:
        """The right answer as text.

        Returns:
            The text, or None if it is unknown.
        """
        # The answers of an open item are texts, and those of others indices of options.
        if self.item is not None and not self.gold:
            # A pattern tells a reader less than an output that fits it.
            if example := getattr(self.item, "meta", {}).get("right"):
                return f"such as {example}"
            return " | ".join(str(answer) for answer in self.item.answers) or None
        return " | ".join(self.option(index) for index in self.gold) or None

    def answer(self, side: Side) -> str | None:
        """Answer of a side as text.

        Returns:
            The chosen option, else the output, else the reason why there is none.
        """
        if side.chosen is not None:
            return self.option(side.chosen)
        if side.output is not None or side.outcome == "ok":
            return side.output
        return side.outcome.replace("_", " ")

    def option(self, index: int) -> str:
        """Text of an option with a probe, else a letter."""
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
    """List the items whose answer changed.

    Args:
        before: The snapshot before.
        after: The snapshot after.
        probe: Source of questions and options; private items stay without them.
        first: Step at which an item was first wrong, by task, id and sample; see `first_forgotten`.

    Raises:
        MismatchError: If they have no item in common.
    """
    reworded = read_again(after.meta, label=after.label) if is_of_run(before, after) else None
    statuses = {} if reworded is None else reworded.status
    pairing = pair(before, after)
    if not pairing.before.size and len(before) and len(after):
        check_pairing(before, after, pairing, "intersect")
    was, now = before.right_as_base[pairing.before], after.floats("correct")[pairing.after]
    measured = measured_flips(before, after, pairing)
    chosen_before, chosen_after = (
        before.ints("chosen")[pairing.before],
        after.ints("chosen")[pairing.after],
    )
    whats = np.full(len(was), "", dtype=object)
    whats[(was == 1) & (now == 0)] = "forgotten"
    whats[(was == 0) & (now == 1)] = "gained"
    # Without an option on both sides nothing shows that another wrong answer was given.
    whats[
        (was == 0)
        & (now == 0)
        & (chosen_before != chosen_after)
        & (chosen_before != NONE)
        & (chosen_after != NONE)
    ] = "churned"
    # A private item is listed without its question and options: all output takes these from the
    # flip.
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
    changes = []
    for at, listed in enumerate(golds_listed.to_pylist()):
        item = items.get((tasks[at], ids[at]))
        gold = (
            tuple(listed) if listed is not None else () if golds[at] == NONE else (int(golds[at]),)
        )
        changes.append(
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
                again=statuses.get((tasks[at], ids[at])),
                wording=wordings[at],
            )
        )
    return changes


def _sides(snapshot: Snapshot, rows: NDArray[np.int64]) -> list[Side]:
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


def measured_flips(before: Snapshot, after: Snapshot, pairing: Pairing) -> dict[str, NDArray[Any]]:
    """Attributes of flips that follow from both sides, by name.

    Returns:
        Arrays [rows of the pairing]; nan where not known.
    """
    was, now = before.right_as_base[pairing.before], after.floats("correct")[pairing.after]
    scored = np.isfinite(was + now)
    pairs = AlignedPairs.align(before, after, pairing, whole_items=False)[0]
    confidence, split = pairs.confidence(), pairs.mass_split
    nothing = np.full(len(pairs), np.nan)
    # Without any answer that was wrong before there is no mirror: nothing shows what luck makes.
    has_mirror = (
        confidence.wrong_share is not None and (confidence.measured & ~confidence.before).any()
    )
    of_pairs = {
        "known": confidence.known,
        "by_luck": np.where(confidence.measured, confidence.luck()[1], np.nan)
        if has_mirror
        else nothing,
        "loss": pairs.loss(),
        "log_mass_change": nothing if split is None else split.mass_change,
        "log_conditional_change": nothing if split is None else split.conditional_change,
    }
    empty: dict[str, Any] = {"known": False, "loss": None}
    of_rows = {
        name: np.full(len(scored), empty.get(name, np.nan), values.dtype)
        for name, values in of_pairs.items()
    }
    for name, values in of_pairs.items():
        of_rows[name][scored] = values
    return of_rows


def _value(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def sort_flips(changes: Sequence[Flip], *, by: Order = "margin") -> list[Flip]:
    """Sort flips by confidence, or by when items were first wrong."""
    keys: dict[Order, Callable[[Flip], Any]] = {
        "margin": lambda flip: -flip.margin,
        "first": lambda flip: (flip.first is None, flip.first or 0, -flip.margin),
    }
    return sorted(changes, key=keys[by])


def first_forgotten(trajectory: Trajectory) -> dict[tuple[str, str, int], int]:
    """Find the step at which each item was first forgotten.

    Items that were never forgotten are absent. An item that was wrong at the baseline cannot be
    forgotten.

    Returns:
        The step by task, id and sample.
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
    """Join the messages of a prompt, each with a role."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(
        f"{message.get('role', '')}: {message.get('content', '')}" for message in prompt
    )

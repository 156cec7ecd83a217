"""Base and ends of the stages of one model, by groups, and the path of each question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Level
from forgetwatch.errors import MismatchError
from forgetwatch.measures.option_columns import guess_chance
from forgetwatch.measures.pairing import pair, rows_of_baseline
from forgetwatch.metrics.transitions import (
    guesser_history,
)
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """The end of one stage.

    Attributes:
        name: Name of the stage.
        since_first: The base against it.
        since_previous: The end of the stage before against it; None if the outputs of that end are
            not finite.
    """

    name: str
    since_first: Comparison
    since_previous: Comparison | None


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Number of questions by their path over base and ends of stages; those that all of them have.

    Attributes:
        questions: Number of questions.
        kept: Right at the base and at every end.
        lost: Right at the base and wrong at the last end, by the stage that lost them last; one
            number a stage.
        recovered: Right at the base, wrong at some end and right at the last, by the stage that
            brought them back.
        never: Wrong everywhere.
        learned: Wrong at the base and right at the last end.
        passing: Wrong at the base and at the last end, right in between.
        recovered_if_guessed: Number of recovered questions of a model that guesses afresh at each
            end; nan if unknown.
    """

    questions: int
    kept: int
    lost: tuple[int, ...]
    recovered: tuple[int, ...]
    never: int
    learned: int
    passing: int
    recovered_if_guessed: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StageMatrix:
    """Base and ends of the stages of one model.

    Attributes:
        base: Name of the base.
        rows: The stages, in their order.
        ends: Snapshots of the base and of the end of each stage.
    """

    base: str
    rows: tuple[StageRow, ...]
    ends: tuple[Snapshot, ...] = field(repr=False)

    def accuracy(self, level: Level = "category") -> dict[str, NDArray[np.float64]]:
        """Share of right answers of base and ends by group.

        The shares of a group are over the same questions: those that all ends have which have any
        of the group.

        Returns:
            Float64 [1 + stages]; nan where not measured.
        """
        found = {}
        for name in sorted({name for end in self.ends for name in _names(end, level)}):
            groups = [_group(end, name, level) for end in self.ends]
            having = [at for at, end in enumerate(groups) if len(end)]
            shares = np.full(len(self.ends), np.nan)
            common = shared_rows([groups[at] for at in having], refuses=False)
            right = _right_of_ends(common, has_base=having[0] == 0)
            scored = np.isfinite(right).all(axis=0)
            if scored.any():
                shares[having] = right[:, scored].mean(axis=1)
            found[name] = shares
        return found

    @cached_property
    def paths(self) -> Paths:
        """Questions that base and all ends have, by path."""
        shared = shared_rows(self.ends)
        right = _right_of_ends(shared)
        scored = np.isfinite(right).all(axis=0)
        was = right[:, scored] == 1.0
        at_base, at_end = was[0], was[-1]
        stages = len(self.rows)
        turns = was[1:] != was[:-1]
        # The stage of the last turn decides who lost a question, or brought it back.
        latest = np.where(turns.any(axis=0), stages - np.argmax(turns[::-1], axis=0), 0)

        def by_stage(is_kind: NDArray[np.bool_]) -> tuple[int, ...]:
            return tuple(int((is_kind & (latest == stage)).sum()) for stage in range(1, stages + 1))

        guess = guess_chance(shared[0])[scored]
        guessed = guesser_history(guess, looks=stages)
        return Paths(
            questions=int(scored.sum()),
            kept=int(was.all(axis=0).sum()),
            lost=by_stage(at_base & ~at_end),
            recovered=by_stage(at_base & at_end),
            never=int((~was).all(axis=0).sum()),
            learned=int((~at_base & at_end).sum()),
            passing=int((~at_base & ~at_end & was.any(axis=0)).sum()),
            recovered_if_guessed=float(scored.sum() * guessed.regained[-1]),
        )

    def path_of_each(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield task, id, category and path of each question.

        A path has 1, 0, or - for unscored, at base and each end.
        """
        shared = shared_rows(self.ends)
        marks = _right_of_ends(shared)
        names = zip(
            *(shared[0].texts(name).tolist() for name in ("task", "item_id", "category")),
            strict=True,
        )
        for (task, item, category), path in zip(names, marks.T, strict=True):
            yield (
                task,
                item,
                category,
                "".join("-" if outcome != outcome else f"{outcome:.0f}" for outcome in path),
            )


def _right_of_ends(ends: Sequence[Snapshot], *, has_base: bool = True) -> NDArray[np.float64]:
    # nan where the base, which comes first, was not finite.
    right = [end.floats("correct") for end in ends]
    return np.stack([ends[0].right_as_base, *right[1:]] if has_base else right)


def _group(end: Snapshot, name: str, level: Level) -> Snapshot:
    return _cut(end, np.flatnonzero(_names(end, level) == name))


def _names(snapshot: Snapshot, level: Level) -> NDArray[np.object_]:
    return np.asarray(snapshot.texts("task" if level == "task" else "category"), dtype=object)


def shared_rows(looks: Sequence[Snapshot], *, refuses: bool = True) -> list[Snapshot]:
    """Rows that all looks have, in the order of the first.

    Raises:
        MismatchError: If there are none, and it `refuses` that.
    """
    common = looks[0]
    for look in looks[1:]:
        common = _cut(common, pair(common, look).before)
        if not len(common):
            if not refuses:
                return [_cut(look, np.zeros(0, np.int64)) for look in looks]
            raise MismatchError(
                f"no question of {looks[0].label} is in {look.label}; needed stages of one probe"
            )
    return [rows_of_baseline(look, common) for look in looks]


def _cut(snapshot: Snapshot, rows: NDArray[np.int64]) -> Snapshot:
    return replace(snapshot, table=snapshot.table.take(np.sort(rows)))

"""Base and ends of the stages of one model: a matrix of stages and groups, and the path of each question.

    base ── SFT ── DPO ── GRPO        row k: the end of stage k, against the base and against the stage before

Stages may have other probes: a comparison is over what both sides have, a path over what all have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Level
from forgetwatch.errors import MismatchError
from forgetwatch.metrics import guesser_history
from forgetwatch.pairing import guess_chance, pair, rows_of_baseline
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """The end of one stage.

    Attributes:
        name: Name of the stage.
        since_first: The base against it.
        since_previous: The end of the stage before against it.
    """

    name: str
    since_first: Comparison
    since_previous: Comparison


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Number of questions by their path over base and ends of stages; those that all of them have.

    Attributes:
        questions: Number of questions.
        kept: Right at the base and at every end.
        lost: Right at the base and wrong at the last end, by the stage that lost them last; one number a stage.
        recovered: Right at the base, wrong at some end and right at the last, by the stage that brought them back.
        never: Wrong everywhere.
        learned: Wrong at the base and right at the last end.
        passing: Wrong at the base and at the last end, right in between.
        recovered_if_guessed: Number of recovered questions of a model that guesses afresh at each end; nan if unknown.
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
        """Return the share of right answers of base and ends by group; nan where it was not measured. [1 + stages].

        The shares of a group are over the same questions: those that all ends have which have any of the group.
        """
        found = {}
        for name in sorted({name for end in self.ends for name in _names(end, level)}):
            own = [_group(end, name, level) for end in self.ends]
            having = [at for at, end in enumerate(own) if len(end)]
            shares = np.full(len(self.ends), np.nan)
            common = shared_rows([own[at] for at in having], refuses=False)
            right = np.stack([end.floats("correct") for end in common])
            scored = np.isfinite(right).all(axis=0)
            if scored.any():
                shares[having] = right[:, scored].mean(axis=1)
            found[name] = shares
        return found

    @cached_property
    def paths(self) -> Paths:
        """The questions that base and all ends have, by their path."""
        shared = shared_rows(self.ends)
        right = np.stack([end.floats("correct") for end in shared])
        scored = np.isfinite(right).all(axis=0)
        was = right[:, scored] == 1.0
        first, last = was[0], was[-1]
        stages = len(self.rows)
        turns = was[1:] != was[:-1]
        # The stage of the last turn decides who lost a question, or brought it back.
        latest = np.where(turns.any(axis=0), stages - np.argmax(turns[::-1], axis=0), 0)

        def by_stage(kind: NDArray[np.bool_]) -> tuple[int, ...]:
            return tuple(int((kind & (latest == stage)).sum()) for stage in range(1, stages + 1))

        guess = guess_chance(shared[0])[scored]
        guessed = guesser_history(guess, looks=stages)
        return Paths(
            questions=int(scored.sum()),
            kept=int(was.all(axis=0).sum()),
            lost=by_stage(first & ~last),
            recovered=by_stage(first & last),
            never=int((~was).all(axis=0).sum()),
            learned=int((~first & last).sum()),
            passing=int((~first & ~last & was.any(axis=0)).sum()),
            recovered_if_guessed=float(scored.sum() * guessed.regained[-1]),
        )

    def path_of_each(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield (task, id, category, path) of each question; a path has 1, 0 or - for unscored at base and each end."""
        shared = shared_rows(self.ends)
        marks = np.stack([end.floats("correct") for end in shared])
        names = zip(*(shared[0].texts(name).tolist() for name in ("task", "item_id", "category")), strict=True)
        for (task, item, category), path in zip(names, marks.T, strict=True):
            yield task, item, category, "".join("-" if one != one else f"{one:.0f}" for one in path)


def _group(end: Snapshot, name: str, level: Level) -> Snapshot:
    return _cut(end, np.flatnonzero(_names(end, level) == name))


def _names(snapshot: Snapshot, level: Level) -> NDArray[np.object_]:
    return np.asarray(snapshot.texts("task" if level == "task" else "category"), dtype=object)


def shared_rows(looks: Sequence[Snapshot], *, refuses: bool = True) -> list[Snapshot]:
    """Return the rows that all looks have, in the order of the first.

    Raises:
        MismatchError: If there are none, and it `refuses` that.
    """
    common = looks[0]
    for look in looks[1:]:
        common = _cut(common, pair(common, look).before)
        if not len(common):
            if not refuses:
                return [_cut(one, np.zeros(0, np.int64)) for one in looks]
            raise MismatchError(f"no question of {looks[0].label} is in {look.label}; needed stages of one probe")
    return [rows_of_baseline(look, common) for look in looks]


def _cut(snapshot: Snapshot, rows: NDArray[np.int64]) -> Snapshot:
    return replace(snapshot, table=snapshot.table.take(np.sort(rows)))

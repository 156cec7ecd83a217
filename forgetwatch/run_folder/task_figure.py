"""The figure of the new task: what the trainer logs of what the training is for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from forgetwatch.visible_text import visible

TRAINER_STATE: Final = "trainer_state.json"
"""File of a checkpoint in which the trainer logs metrics."""

FIGURES: Final = ("eval_accuracy", "eval_reward", "eval_loss", "reward", "loss")
"""Figures of the new task in the trainer's log; the first that is there is shown."""


def logged_figure(
    entries: Sequence[Mapping[str, object]], *, chosen: str | None = None
) -> TaskFigure | None:
    """Figure of the new task in the rows of a trainer's log.

    `chosen` is the metric by which the trainer chooses its best checkpoint, None for none.

    Returns:
        The figure, or None.
    """
    for name in (*([] if chosen is None else [chosen, f"eval_{chosen}"]), *FIGURES):
        logged = [
            (entry.get("step"), math.nan if _is_hidden(entry, name) else entry.get(name))
            for entry in entries
        ]
        values = [
            (at, value)
            for at, value in logged
            if type(at) is int and isinstance(value, int | float)
        ]
        if finite := [(at, float(value)) for at, value in values if math.isfinite(value)]:
            broken = next(
                (at for at, value in values if not math.isfinite(value) and at > finite[-1][0]),
                None,
            )
            return TaskFigure(name, tuple(finite), broken)
    return None


def _is_hidden(entry: Mapping[str, object], name: str) -> bool:
    """Did the trainer log 0 for a loss that is not finite?

    See transformers' `logging_nan_inf_filter`.
    """
    norm = entry.get("grad_norm")
    return entry.get(name) == 0 and isinstance(norm, int | float) and not math.isfinite(norm)


@dataclass(frozen=True)
class TaskFigure:
    """Figure that the trainer logged for the new task, such as its loss.

    Attributes:
        name: Its name in the trainer's log.
        values: (step, value) of each time, by rising step; at least one.
        broken: Step of the first value after these that is not finite; None without one.
    """

    name: str
    values: tuple[tuple[int, float], ...]
    broken: int | None = None

    @property
    def stored(self) -> dict[str, object]:
        """The JSON values of ``run.json``.

        The name, and at most `_KEPT` values, the first and the last among them.
        """
        stride = max(1, math.ceil((len(self.values) - 1) / (_KEPT - 1)))
        kept = self.values[:-1:stride] + self.values[-1:]
        return {"name": self.name, "values": [list(point) for point in kept], "broken": self.broken}

    def until(self, step: int) -> Self:
        """Figure without what came after a step."""
        values = tuple(value for value in self.values if value[0] <= step)
        return replace(self, values=values, broken=None)

    @property
    def falls(self) -> bool:
        """Is a lower figure better, as of a loss?"""
        return self.name.rpartition("_")[2] in ("loss", "perplexity")

    def at(self, step: int) -> float | None:
        """Last value up to a step.

        Returns:
            The value, or None if the first is later, or the value is not finite.
        """
        if self.broken is not None and step >= self.broken:
            return None
        return next((value for when, value in reversed(self.values) if when <= step), None)

    def __str__(self) -> str:
        (start, before), (end, value_at_end) = self.values[0], self.values[-1]
        name = visible(self.name.replace("_", " "))
        sentence = (
            f"{name} {before:.3g} -> {value_at_end:.3g}"
            if end != start
            else f"{name} {before:.3g} at step {start:,}"
        )
        return (
            sentence if self.broken is None else f"{sentence}, not finite at step {self.broken:,}"
        )


_KEPT: Final = 200
"""Values of a figure that a run folder keeps."""

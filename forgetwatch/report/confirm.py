"""Whether a checkpoint that was chosen on the questions of its run is better on questions that chose nothing.

The start, the chosen checkpoint and the last one are scored on a second probe. The choice held if the loss from the
chosen to the last is shown there too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forgetwatch.comparing import Comparison, Trajectory, compare, estimated, in_common_norm
from forgetwatch.errors import SnapshotError
from forgetwatch.metrics import Interval
from forgetwatch.pairing import between, count, points
from forgetwatch.probe import Probe
from forgetwatch.report.front import FrontLook, saved_look
from forgetwatch.report.places import is_model, places_of
from forgetwatch.snapshot import Snapshot

Outcome = Literal["held", "not clear", "did not hold"]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Models that a confirmation scores, and what the run says of them.

    Attributes:
        start: Folder or id of the model at the start.
        kept: Folder of the checkpoint to keep.
        end: Folder of the last checkpoint.
        look: The look by which it was chosen.
        last: The start against the last look.
        probe: Name of the second probe.
    """

    start: str
    kept: str
    end: str
    look: FrontLook
    last: Comparison
    probe: str

    @property
    def names(self) -> tuple[str, str, str]:
        """The three, in this order."""
        return self.start, self.kept, self.end


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """A chosen checkpoint on a second probe.

    Attributes:
        candidates: The models.
        there: The start against the checkpoint.
        at_end: The start against the last checkpoint.
        since: The checkpoint against the last one.
    """

    candidates: Candidates
    there: Comparison
    at_end: Comparison
    since: Comparison

    @property
    def outcome(self) -> Outcome:
        """``held`` if the loss since is beyond chance, ``did not hold`` if there is none, else ``not clear``.

        Where these questions show no loss at the end either, they cannot tell: ``not clear``.
        """
        change, (_, high) = estimated(self.since.all)
        if high < 0:
            return "held"
        return "not clear" if change < 0 or not self.shows_loss else "did not hold"

    @property
    def shows_loss(self) -> bool:
        """True if the last checkpoint has lost beyond chance on the second probe."""
        return estimated(self.at_end.all)[1][1] < 0

    def lines(self) -> list[str]:
        """Return both figures and the outcome, in three sentences."""
        look, last = self.candidates.look.comparison.all, self.candidates.last.all
        step, probe = self.candidates.look.step, self.candidates.probe
        change, interval = estimated(self.since.all)
        why = {"held": "", "not clear": ", the interval contains 0", "did not hold": ", nothing was lost since"}
        if self.outcome == "not clear" and not self.shows_loss:
            why["not clear"] = f", {probe} shows no loss at the end either, and so says nothing about it"
        return [
            f"chosen on {count(look.n)} questions: {points(estimated(look)[0])} points and {count(look.forgotten)} "
            f"forgotten at step {step:,}, {points(estimated(last)[0])} and {count(last.forgotten)} at the end",
            f"{probe}, {count(self.there.all.n)} questions that chose nothing: {_told(self.there)} there, "
            f"{_told(self.at_end)} at the end",
            f"since then {points(change)} points ({between(interval, points)}) on {probe}: the choice "
            f"{'is not clear' if self.outcome == 'not clear' else self.outcome}{why[self.outcome]}",
        ]


def _told(comparison: Comparison) -> str:
    change, interval = estimated(comparison.all)
    return f"{points(change)} points ({between(interval, points)}) and {count(comparison.all.forgotten)} forgotten"


def candidates_of(trajectory: Trajectory, run: Path, probe: Probe) -> Candidates:
    """Return the models whose confirmation on a probe decides whether a checkpoint is worth keeping.

    Raises:
        SnapshotError: If no checkpoint is to be kept, a model is gone, or the probe has questions of the run.
    """
    places = places_of(trajectory, run)
    saved = saved_look(trajectory, places.output_dir)
    if saved is None:
        raise SnapshotError(
            f"{run}: nothing to confirm: needed a saved checkpoint that lost less than the last one beyond chance, "
            "found none"
        )
    look, folder = saved
    if places.start.note:
        raise SnapshotError(f"{run}: needed the model before the training, to compare with; {places.start.note}")
    if places.end is None or not is_model(folder):
        gone = folder if places.end is not None else places.output_dir / f"checkpoint-{trajectory.steps[-1]}"
        raise SnapshotError(f"{gone}: needed this checkpoint, to compare on {probe.name}; it is gone")
    watched = set(trajectory.own.baseline.texts("content_hash").tolist())
    if shared := sum(item.content_hash in watched for item in probe):
        raise SnapshotError(
            f"{probe.name}: needed questions that chose nothing, and {shared:,} of its {len(probe):,} are those of the "
            "run; name another probe with --confirmation"
        )
    return Candidates(
        start=places.start.name,
        kept=str(folder),
        end=str(places.end),
        look=look,
        last=trajectory.own.comparisons[-1],
        probe=probe.name,
    )


def confirm(candidates: Candidates, start: Snapshot, kept: Snapshot, end: Snapshot) -> Confirmation:
    """Return the confirmation by the outcomes of the three models on the second probe."""
    start, kept, end = in_common_norm([start, kept, end])
    found = Confirmation(
        candidates=candidates,
        there=compare(before=start, after=kept),
        at_end=compare(before=start, after=end),
        since=compare(before=kept, after=end),
    )
    if not found.since.all.n:
        raise SnapshotError(f"{candidates.probe}: needed questions with right answers, none was scored")
    return found


def confirmation_json(found: Confirmation) -> dict[str, Any]:
    """Return the JSON values of a confirmation; changes are shares of the questions."""

    def values(comparison: Comparison) -> dict[str, Any]:
        change, interval = estimated(comparison.all)
        return {**_change(change, interval), "forgotten": comparison.all.forgotten, "n": comparison.all.n}

    look, candidates = found.candidates.look, found.candidates
    return {
        "checkpoint": candidates.kept,
        "step": look.step,
        "probe": candidates.probe,
        "chosen": {"there": values(look.comparison), "at_end": values(candidates.last)},
        "confirmed": {"there": values(found.there), "at_end": values(found.at_end), "since": values(found.since)},
        "outcome": found.outcome,
    }


def _change(change: float, interval: Interval) -> dict[str, Any]:
    return {"net_change": change, "interval": list(interval)}

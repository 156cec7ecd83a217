"""What is known of a run besides its rows, as ``run.json`` holds it.

    plan        the items that looks evaluate, and the looks
    origin      the lineage, the model and its fingerprint, the settings of the training
    course      looks and their seconds, checkpoints, findings of the guard, the figure of the task
    end         how far the training came, and which weights it left

A state is never changed: a run replaces it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from forgetwatch.run_folder.description import Ending, GuardFinding, State
from forgetwatch.run_folder.lineage import Lineage
from forgetwatch.run_folder.task_figure import TaskFigure


@dataclass(frozen=True, kw_only=True)
class LookPlan:
    """Items and looks of a run, decided once.

    Attributes:
        step: Step after which `looks` are counted: looks of the default schedule before it are left
            out but at saves.
        items: Number of probe items that the looks evaluate; None for all.
        generates: False if the looks leave out items whose answers are generated, other than
            `must_pass` ones.
        looks: Number of looks after the step that are kept; None for all that are planned.
    """

    step: int = 0
    items: int | None = None
    generates: bool = True
    looks: int | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self | None:
        """Read the decision from memory or description of a run.

        Returns:
            The decision, or None if none was made.
        """
        if not stored.get("decided"):
            return None
        return cls(
            step=int(stored.get("decided_after") or 0),
            items=stored.get("items"),
            generates=bool(stored.get("writes", True)),
            looks=stored.get("kept_looks"),
        )


def stored_plan(decision: LookPlan | None) -> dict[str, Any]:
    """Entries of memory and description that hold the decision."""
    decided = decision or LookPlan()
    return {
        "items": decided.items,
        "writes": decided.generates,
        "decided": decision is not None,
        "decided_after": decided.step,
        "kept_looks": decided.looks,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class RunState:
    """The state of a training under watch.

    Attributes:
        plan: Plan of items and looks; None before it is decided.
        planned: Looks planned after the baseline; None if unknown. Alarms are corrected for it.
        lineage: The watched trainings before this run; None for a first one.
        model: Architecture, tokenizer and template of the model; empty if unknown.
        training: Settings of the training: its trainer, rate, adapter and `RetentionLoss`; empty if
            unknown.
        started_with: Fingerprint of the model at the start of the run; None if unknown.
        looks: Seconds of each look after the baseline, by step; None if unknown.
        saved: Digest of the files of each checkpoint that the trainer saved, by step; None without
            a trainer.
        findings: What the guard has found, in the order in which it was.
        stopped: Step at which the guard stopped the run; None if it did not.
        task: Figure of the new task in the trainer's log so far; None if it has none.
        ending: How far the training came; running until it ends.
    """

    plan: LookPlan | None = None
    planned: int | None = None
    lineage: Lineage | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    started_with: str | None = None
    looks: Mapping[int, float | None] = field(default_factory=dict)
    saved: Mapping[int, str] | None = None
    findings: tuple[GuardFinding, ...] = ()
    stopped: int | None = None
    task: TaskFigure | None = None
    ending: Ending = field(default_factory=Ending)

    def until(self, step: int) -> Self:
        """State without what came after a step, which is taken again."""
        ending = self.ending
        return replace(
            self,
            looks={at: took for at, took in self.looks.items() if at <= step},
            saved=None
            if self.saved is None
            else {at: digest for at, digest in self.saved.items() if at <= step},
            findings=tuple(finding for finding in self.findings if finding.step <= step),
            ending=replace(
                ending, failed=tuple(failed for failed in ending.failed if failed[0] <= step)
            ),
        )

    def unreported(self, findings: Iterable[GuardFinding]) -> tuple[GuardFinding, ...]:
        """Findings of the guard that are not in the state yet."""
        reported = {(finding.what, finding.name) for finding in self.findings}
        return tuple(
            finding for finding in findings if (finding.what, finding.name) not in reported
        )

    def failed(self, step: int, cause: str) -> Self:
        """State after a look that failed: the looks before no longer show the model."""
        failed = dict(self.ending.failed) | {step: cause}
        ending = replace(self.ending, failed=tuple(sorted(failed.items())))
        return replace(self, ending=ending)

    def ended(self, *, last_step: int, delivered: int | None, is_stopped: bool) -> Self:
        """State at the end of the training; arguments as in `Run.note_end`."""
        word: State = "stopped" if is_stopped else "ended"
        ending = replace(self.ending, state=word, last_step=last_step, delivered=delivered)
        return replace(self, ending=ending)

    def running(self, *, max_steps: int | None = None) -> Self:
        """State of a training that runs, of so many steps if they are known."""
        ending = replace(self.ending, state="running", delivered=None)
        return replace(
            self, ending=ending if max_steps is None else replace(ending, max_steps=max_steps)
        )

    def described(
        self, *, probe: Mapping[str, Any], has_null: bool, last_step: int, without: Collection[int]
    ) -> dict[str, Any]:
        """The JSON values of ``run.json``, without looks that have no file.

        Args:
            probe: Metadata of the probe.
            has_null: True if the baseline was measured twice.
            last_step: Step of the last look.
            without: Steps of the looks that have no file.
        """
        ending = replace(self.ending, last_step=max(self.ending.last_step, last_step))
        saved = None if self.saved is None else sorted(self.saved.items())
        return {
            "probe": probe,
            **stored_plan(self.plan),
            "null": has_null,
            "looks": [
                {"step": step, "seconds": took}
                for step, took in sorted(self.looks.items())
                if step not in without
            ],
            "planned_looks": self.planned,
            "lineage": None if self.lineage is None else self.lineage.values,
            "model": dict(self.model),
            "training": dict(self.training),
            "task": None if self.task is None else self.task.stored,
            **ending.stored,
            "started_with": self.started_with,
            **({} if saved is None else {"saved": {str(at): digest for at, digest in saved}}),
            "guard": [vars(finding) for finding in self.findings],
        }

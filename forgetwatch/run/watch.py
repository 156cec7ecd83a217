"""Watch: a run in a training loop of one's own, without a Trainer.

    watch = Watch(probe, "run/")
    watch.look(model, tokenizer, step=0)        # the baseline
    ...
    watch.look(model, tokenizer, step=200)      # a Comparison: baseline -> step 200
    watch.close()

A look is one evaluation of the probe during the run. If several processes train one model, each
must call the watch at the same steps: they share the work, all get the comparison, and the main
process writes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, SupportsIndex

from torch import nn

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.probe import Probe
from forgetwatch.probes.ladder import without_trial
from forgetwatch.probes.named import load_probe
from forgetwatch.run.look import LookScorer
from forgetwatch.run.run import Run
from forgetwatch.run.run_drift import RunDrift
from forgetwatch.run_folder.description import RUN_FOLDER


class Watch:
    """Evaluates one probe again and again during a run, and follows the outcome of every item.

    Attributes:
        run: The state of the run: its baseline, its looks and its folder.

    Args:
        probe: A probe, or the path of one.
        output_dir: Folder of the run's files; the run folder is made in it.
        resume: True to resume the run in the existing run folder; by default an older one is
            renamed at the first look.
        twice: True to measure the baseline twice, for the flips of noise.
        target_probe: Questions of the new task, whose share of right answers at each look is its
            figure, and never forgetting.
        drift: True to measure at each look how far the model is from that of the first look, on
            short texts that the latter generates (`run.drift`); `Trajectory.drift` has the numbers.
        examples: Training examples for the drift, which is measured after their prompts too: a
            sequence of texts, or of examples as TRL's trainers take them. None: after the probe's
            prompts alone.
        folder: Name of the run folder in `output_dir`.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the
            device.
        strict: True to raise what fails beside the evaluation, such as the drift, which is logged
            otherwise.

    Raises:
        ProbeError: If the probe cannot be loaded.
        SnapshotError: If a reference cannot be read.
        WatchError: If `resume` finds no baseline, or one of another probe.
    """

    def __init__(
        self,
        probe: Probe | str | Path,
        output_dir: str | Path,
        *,
        resume: bool = False,
        twice: bool = True,
        target_probe: Probe | str | Path | None = None,
        drift: bool = False,
        examples: Any = None,
        folder: str = RUN_FOLDER,
        token_budget: int | None = None,
        strict: bool = False,
    ) -> None:
        probe = without_trial(probe if isinstance(probe, Probe) else load_probe(probe))
        measured = RunDrift(wanted=drift, examples=examples, strict=strict)
        target = load_probe(target_probe) if isinstance(target_probe, (str, Path)) else target_probe
        self.run = Run(probe, output_dir, folder=folder, drift=measured)
        self._looks = LookScorer(
            self.run, twice=twice, target_probe=target, token_budget=token_budget, strict=strict
        )
        if resume:
            self._looks.resume()

    @classmethod
    def of(cls, looks: LookScorer) -> Self:
        """The watch of a callback, which makes the looks itself."""
        watch = cls.__new__(cls)
        watch.run, watch._looks = looks.run, looks
        return watch

    def look(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        step: SupportsIndex,
        origin: Mapping[str, Any] | None = None,
    ) -> Comparison:
        """Evaluate the model, store the snapshot, and compare.

        The first look is the baseline. A second call at the latest step measures nothing: it logs
        that once, and returns the first one's comparison. A look that cannot be written stays in
        memory until the next one, or `close`, finds room, which is logged once.

        Args:
            model: A causal language model of transformers, as it is being trained.
            tokenizer: Its tokenizer; each look needs one that encodes the questions as that of the
                first look.
            step: Optimizer steps taken so far, a whole number from 0 to `LAST_STEP`. It rises from
                look to look, unless `origin` is given.
            origin: Metadata of the snapshot on the origin of weights that were saved, JSON values;
                None for those of the training at this moment.

        Raises:
            ScoringError: If the model cannot be scored.
            WatchError: If `step` is no whole number in its range, or below that of the latest look,
                or another process trains in the output_dir.
        """
        return self._looks.take(model, tokenizer, step=step, origin=origin).comparison

    def resume(self, step: SupportsIndex | None = None) -> None:
        """Continue the run of the folder, or go back to an earlier step.

        Args:
            step: A step from that of the baseline on, whose later looks are dropped; None keeps
                all.

        Raises:
            WatchError: If there is no baseline, or it is later.
        """
        if self.run.baseline is None:
            self._looks.resume(step=step)
        elif step is not None:
            self.run.forget_after(step)

    def trajectory(self) -> Trajectory:
        """All looks so far, in order.

        Raises:
            WatchError: If there is none yet.
        """
        return self.run.trajectory()

    def close(self) -> None:
        """Store what is left, and let another training have the output_dir."""
        self.run.close()

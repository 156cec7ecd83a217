"""Watch: the core of measuring a run. A baseline, then looks, each compared with it and written down.

    watch = Watch(probe, "run/")
    watch.look(model, tokenizer, step=0)        # the baseline
    ...
    watch.look(model, tokenizer, step=200)      # a Comparison: baseline -> step 200

Needs no Trainer; `ForgetWatchCallback` is an adapter over it.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from forgetwatch.compare import Comparison, compare
from forgetwatch.errors import ForgetwatchError, ScoringError, WatchError
from forgetwatch.paired import guess_chance
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.scoring.scorer import Scorer, versions
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.trajectory import Trajectory, aligned
from forgetwatch.watch.run_folder import RunFolder
from forgetwatch.watch.say import say


class Watch:
    """Asks one probe again and again during a run, and keeps what became of each answer.

    Attributes:
        probe: The items.
        folder: The run folder, ``output_dir/_forgetwatch``.
        baseline: The snapshot that everything is compared with; None before the first look.
        comparisons: Baseline against each look so far, by step.
        seconds: What each look of this process took, by step.
        planned: Looks planned after the baseline; None if unknown. It sets how strict an alarm is.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the device.
        damaged: Files of looks that a resume could not read; they are put by under another name.

    Args:
        probe: A probe, or the path of one.
        output_dir: Where the run keeps its files; the run folder is made in it.
        resume: Go on with the run folder that is there; by default an older folder is renamed at the first look.
        writes: Whether this process writes files; all but one process of a distributed run do not.

    Raises:
        ProbeError: If the probe cannot be loaded.
        WatchError: If `resume` finds no baseline, or one of another probe.
    """

    def __init__(
        self, probe: Probe | str | Path, output_dir: str | Path, *, resume: bool = False, writes: bool = True
    ) -> None:
        self.probe = probe if isinstance(probe, Probe) else load_probe(probe)
        self.folder = RunFolder(output_dir)
        self.baseline: Snapshot | None = None
        self.comparisons: dict[int, Comparison] = {}
        self.seconds: dict[int, float] = {}
        self.planned: int | None = None
        self.token_budget: int | None = None
        self.damaged: list[Path] = []
        self._writes = writes
        self._scorer: Scorer | None = None
        self._looks: dict[int, dict[str, Any]] = {}
        self._right: dict[int, NDArray[np.float64]] = {}
        self._started = False
        if resume:
            self.resume()

    def resume(self, *, step: int | None = None, checksum: str | None = None) -> None:
        """Go on with the run that the folder holds.

        Args:
            step: The step from which the run goes on; later looks are deleted. None keeps all.
            checksum: Checksum of the run's baseline; None accepts the one in the folder.

        Raises:
            WatchError: If there is no such baseline, or it was made with another probe.
        """
        baseline = self.folder.baseline(checksum=checksum, step=step)
        made_with = baseline.meta.get("probe", {})
        if made_with.get("fingerprint") != self.probe.fingerprint:
            raise WatchError(
                f"the run's baseline was made with probe {made_with.get('name')!r} "
                f"(fingerprint {str(made_with.get('fingerprint'))[:12]}), and this is probe {self.probe.name!r} "
                f"({self.probe.fingerprint[:12]}); resume with the probe in {self.folder.path / 'probe.jsonl'}"
            )
        self.baseline = baseline
        if self._writes:
            if self.folder.owner() != baseline.checksum and (aside := self.folder.set_aside()):
                say(f"the folder held another run, and is now {aside}")
            self.folder.start(self.probe, baseline)
            if step is not None:
                self.folder.take_back(step)
                self.folder.drop_after(step)
        self._started = True
        self._keep(baseline, step=int(baseline.meta["step"]))
        for look, path in self.folder.looks().items():
            if step is None or look <= step:
                try:
                    self._keep(read_snapshot(path), step=look)
                except ForgetwatchError:
                    self.damaged.append(self.folder.put_by(path) if self._writes else path)
        self._describe()

    def look(self, model: nn.Module, tokenizer: Any, *, step: int) -> Comparison:
        """Ask the model every item, write the snapshot down, and compare it with the baseline.

        The first look is the baseline. A step that was looked at is not looked at again. The model, its mode and all
        random states come back as they were. What was measured is kept in `comparisons` also if it cannot be written.

        Args:
            model: A causal language model of transformers, as it is being trained.
            tokenizer: Its tokenizer.
            step: Optimizer steps taken so far.

        Raises:
            ScoringError: If the model cannot be scored.
            OSError: If the snapshot cannot be written.
        """
        if step in self.comparisons:
            return self.comparisons[step]
        started = time.perf_counter()
        if self._scorer is None:
            made = self.baseline.meta if self.baseline else {}
            # Looks of one run are made in the same batches, also by the process that goes on with it.
            self._scorer = Scorer(
                self.probe,
                tokenizer,
                model,
                way=made.get("way"),
                noise=made.get("noise"),
                token_budget=(made.get("batch") or {}).get("tokens") or self.token_budget,
            )
        snapshot = self._scorer.score(model, step=step)
        if self.baseline is None:
            self._check_baseline(snapshot, step=step)
            self.baseline = snapshot
        comparison = self._keep(snapshot, step=step)
        self.seconds[step] = time.perf_counter() - started
        if self._writes:
            self._write(snapshot, step=step)
        return comparison

    def _check_baseline(self, snapshot: Snapshot, *, step: int) -> None:
        """Refuse a baseline that measures nothing, and say what it leaves out."""
        unscored = Counter(outcome for outcome in snapshot.texts("outcome") if outcome != "ok")
        reasons = "; ".join(f"{count:,} {why.removeprefix('unscored: ')}" for why, count in unscored.most_common(3))
        if unscored.total() == len(snapshot):
            raise ScoringError(
                f"no item of probe {self.probe.name!r} ({len(snapshot):,} items) can be scored: {reasons}"
            )
        if self._writes and unscored:
            say(f"{unscored.total():,} of {len(snapshot):,} items are unscored: {reasons}")
        if self._writes and step:
            say(f"the baseline is taken at step {step}: what was forgotten before it cannot be seen")

    def _write(self, snapshot: Snapshot, *, step: int) -> None:
        if self.baseline is None:
            return
        if not self._started:
            if aside := self.folder.set_aside():
                say(f"the folder of an earlier run is now {aside}")
            self.folder.start(self.probe, self.baseline)
            self._started = True
        if snapshot is not self.baseline:
            self.folder.add(snapshot, step=step)
        self._describe()

    def forget_after(self, step: int) -> None:
        """Drop the looks later than `step`: the run takes those steps again."""
        for kept in (self.comparisons, self.seconds, self._looks, self._right):
            for later in [look for look in kept if look > step]:
                del kept[later]
        if self._writes and self._started:
            self.folder.drop_after(step)
            self._describe()

    def trajectory(self) -> Trajectory:
        """All looks so far, in order.

        Raises:
            WatchError: If there is none yet.
        """
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self._right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        return Trajectory(steps, comparisons, right, guess_chance(self.baseline), self.planned)

    def _keep(self, snapshot: Snapshot, *, step: int) -> Comparison:
        if self.baseline is None:
            raise WatchError("a look was kept before there was a baseline; call look() first")
        self.comparisons[step] = compare(before=self.baseline, after=snapshot)
        self._right[step] = aligned(self.baseline, snapshot)
        self._looks[step] = {"step": step, "checksum": snapshot.checksum, "seconds": snapshot.meta["seconds"]}
        return self.comparisons[step]

    def _describe(self) -> None:
        """Write what the run is, for people and other programs."""
        if self.baseline is None or not self._writes:
            return
        self.folder.describe(
            {
                "probe": self.baseline.meta["probe"],
                "baseline": {"step": self.baseline.meta["step"], "checksum": self.baseline.checksum},
                "looks": [self._looks[step] for step in sorted(self._looks)],
                "planned_looks": self.planned,
                "versions": versions(),
            }
        )

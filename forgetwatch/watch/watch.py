"""Watch: the core of measuring a run. A baseline, then looks, each compared with it and written down.

    watch = Watch(probe, "run/")
    watch.look(model, tokenizer, step=0)        # the baseline
    ...
    watch.look(model, tokenizer, step=200)      # a Comparison: baseline -> step 200

Needs no Trainer; `ForgetWatchCallback` is an adapter over it. Where several processes train one model, each calls it at
the same steps: they share the work, all have the comparison, and the first writes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch import nn

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.subset import Subset
from forgetwatch.errors import ForgetwatchError, ScoringError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.run_folder import PROBE, RunFolder
from forgetwatch.scoring.generation import Generator
from forgetwatch.scoring.processes import on_all_processes, on_main_process, rank
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.watch.console import say
from forgetwatch.watch.looks import Looks

_FEWEST_TOKENS: Final = 64
"""Tokens of the smallest batch with which the baseline is measured again."""


class Watch(Looks):
    """Asks one probe again and again during a run, and keeps what became of each answer.

    Attributes:
        folder: The run folder, ``output_dir/_forgetwatch``.
        seconds: What each look of this process took, by step.
        asking_seconds: What the latest of them took to ask the model; before it, what the baseline of a run that goes
            on took, for as many items.
        writing_seconds: What of it went into writing answers.
        writer: What writes answers, where items need that; None for the model itself.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the device.
        damaged: Files of looks that a resume could not read; they are put by under another name.

    Args:
        probe: A probe, or the path of one.
        output_dir: Where the run keeps its files; the run folder is made in it.
        resume: Go on with the run folder that is there; by default an older folder is renamed at the first look.
        twice: Whether the baseline is measured twice, to show what noise flips.
        against: Further references by name: a snapshot, the path of one, or ``"previous"`` for the look before.

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
        against: Mapping[str, Snapshot | str | Path] | None = None,
    ) -> None:
        super().__init__(probe if isinstance(probe, Probe) else load_probe(probe), against=against)
        self.folder = RunFolder(output_dir)
        self.seconds: dict[int, float] = {}
        self.asking_seconds = self.writing_seconds = 0.0
        self.writer: Generator | None = None
        self.token_budget: int | None = None
        self.damaged: list[Path] = []
        self._twice = twice
        self._scorer: Scorer | None = None
        self._started = False
        if resume:
            self.resume()

    @property
    def _speaks(self) -> bool:
        """Whether this process tells; one of several does."""
        return rank() == 0

    def resume(
        self,
        *,
        step: int | None = None,
        checksum: str | None = None,
        carried: Sequence[Path] = (),
        baseline: Snapshot | None = None,
        items: int | None = None,
    ) -> None:
        """Go on with the run that the folder holds.

        Args:
            step: The step from which the run goes on; later looks are deleted. None keeps all.
            checksum: Checksum of the run's baseline; None accepts the one in the folder.
            carried: Where checkpoints carry copies of it.
            baseline: The run's baseline from elsewhere, where the folder and the copies are gone.
            items: How many items the run's looks ask.

        Raises:
            LostBaselineError: If there is no such baseline.
            WatchError: If it was made with another probe.
        """

        def restore() -> tuple[Snapshot, Snapshot | None, dict[int, Snapshot], dict[int, Snapshot], list[Path]]:
            found, null = (baseline, None) if baseline else self.folder.baseline(checksum=checksum, carried=carried)
            self.check_fingerprint(found.meta)
            if self.folder.owner() != found.checksum and (aside := self.folder.set_aside()):
                say(f"the folder held another run, and is now {aside}")
            self.folder.start(self.probe, found, null)
            if step is not None:
                self.folder.restore(carried)
                self.folder.drop_after(step)
            damaged: list[Path] = []
            looks, again = (self._readable(self.folder.looks(kind), damaged) for kind in ("step", "again"))
            return found, null, looks, again, damaged

        self.baseline, self.null, looks, again, self.damaged = on_main_process(restore)
        self._started = True
        self.items = items if items is not None else Subset.common([self.baseline, *looks.values()]).items
        self.keep(self.baseline, step=int(self.baseline.meta["step"]))
        for look, snapshot in sorted(looks.items()):
            self.keep(snapshot, step=look)
            if look in again:
                self.compare_again(again[look], step=look)
        self._took(self.baseline, share=(self.items or len(self.probe)) / len(self.probe))
        self._write_down()

    def check_fingerprint(self, meta: Mapping[str, Any]) -> None:
        """Refuse the baseline of another probe, by its metadata.

        Raises:
            WatchError: If it is one.
        """
        made_with = meta.get("probe") or {}
        if made_with.get("fingerprint", "") not in (None, self.probe.fingerprint):
            raise WatchError(
                f"the run's baseline was made with probe {made_with.get('name')!r} "
                f"(fingerprint {str(made_with.get('fingerprint'))[:12]}), and this is probe {self.probe.name!r} "
                f"({self.probe.fingerprint[:12]}); resume with the probe in {self.folder.path / PROBE}"
            )

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
        snapshot = self._measure(model, tokenizer, step=step)
        if self.baseline is None:
            self._check_baseline(snapshot, step=step)
            self.baseline = snapshot
            if self._twice:
                self.null = self._measure_twice(model, tokenizer, step=step)
        comparison = self.keep(snapshot, step=step)
        self.seconds[step] = time.perf_counter() - started
        self._write_down(snapshot, step=step)
        return comparison

    def look_again(self, model: nn.Module, tokenizer: Any, *, step: int) -> Comparison | None:
        """Measure a stored look again, with the weights that it was taken of: what flips is noise of this machine.

        Later looks have these flips as their noise. None where there is no such look.

        Raises:
            ScoringError: If the model cannot be scored.
            OSError: If the snapshot cannot be written.
        """
        if not self.has_snapshot(step):
            return None
        snapshot = self._measure(model, tokenizer, step=step)
        again = self.compare_again(snapshot, step=step)
        on_main_process(lambda: self.folder.add(snapshot, step=step, kind="again") if self._started else None)
        self._write_down()
        return again

    def adopt(self, baseline: Snapshot) -> None:
        """Compare with a snapshot from elsewhere instead of the first look.

        Raises:
            WatchError: If it is of another probe, or a look was taken already.
        """
        if self.baseline is not None:
            raise WatchError("the run has a baseline; one from elsewhere comes before the first look")
        self.check_fingerprint(baseline.meta)
        self.baseline = replace(baseline, meta={**baseline.meta, "step": -1})
        self.keep(self.baseline, step=-1)

    def ask_only(self, *, items: int | None, writes: bool) -> None:
        """From now on ask fewer items of the probe; all comparisons of the run are over these. See `Looks.cut`.

        Raises:
            WatchError: If the looks so far are not at hand, since nothing was `undecided`.
        """
        self.cut(items=items, writes=writes)
        self._scorer = None
        self._write_down()

    def _measure(self, model: nn.Module, tokenizer: Any, *, step: int) -> Snapshot:
        """The outcomes of the model, in the same batches at every look."""
        if self._scorer is None:
            made = self.baseline.meta if self.baseline else {}
            # Looks of one run are made in the same batches, also by the process that goes on with it.
            self._scorer = on_all_processes(
                lambda: Scorer(
                    self.probe.head(self.items or len(self.probe)),
                    tokenizer,
                    model,
                    layout=made.get("way"),
                    noise=made.get("noise"),
                    token_budget=(made.get("batch") or {}).get("tokens") or self.token_budget,
                    generates=self.writes,
                )
            )
        snapshot = self._scorer.score(model, step=step, generator=self.writer)
        self._took(snapshot, share=1.0)
        return self.subset.describe(snapshot, fingerprint=self.probe.fingerprint)

    def _measure_twice(self, model: nn.Module, tokenizer: Any, *, step: int) -> Snapshot | None:
        """The baseline's weights in batches of half the tokens."""
        if self._scorer is None:
            return None
        engine = self._scorer.engine
        tokens = max(_FEWEST_TOKENS, engine.token_budget // 2)
        twice = on_all_processes(
            lambda: Scorer(self.probe, tokenizer, model, layout=engine.layout, noise=engine.noise, token_budget=tokens)
        )
        return twice.score(model, step=step, generator=self.writer, again=True)

    def _took(self, snapshot: Snapshot, *, share: float) -> None:
        """Keep what asking took, or that share of it."""
        self.asking_seconds, self.writing_seconds = (
            share * float(snapshot.meta.get(name) or 0.0) for name in ("seconds", "written_seconds")
        )

    def _check_baseline(self, snapshot: Snapshot, *, step: int) -> None:
        """Refuse a baseline that measures nothing, and say what it leaves out."""
        outcomes = list(zip(snapshot.texts("outcome"), np.isnan(snapshot.floats("correct")), strict=True))
        unscored = Counter(outcome for outcome, without in outcomes if without)
        wrong = Counter(outcome for outcome, without in outcomes if outcome != "ok" and not without)
        if unscored.total() == len(snapshot):
            raise ScoringError(
                f"no item of probe {self.probe.name!r} ({len(snapshot):,} items) can be scored: {_reasons(unscored)}"
            )
        if self._speaks and unscored:
            say(f"{unscored.total():,} of {len(snapshot):,} items are unscored: {_reasons(unscored)}")
        if self._speaks and wrong:
            say(f"{wrong.total():,} of {len(snapshot):,} answers count as wrong: {_reasons(wrong)}")
        if self._speaks and step > 0:
            say(f"the baseline is taken at step {step}: what was forgotten before it cannot be seen")

    def _write_down(self, snapshot: Snapshot | None = None, *, step: int = 0) -> None:
        """Write what the run is, and a look; in the first process."""

        def write() -> bool:
            if self.baseline is None:
                return False
            if not self._started and (aside := self.folder.set_aside()):
                say(f"the folder of an earlier run is now {aside}")
            elif self._started and not self.folder.is_started:
                say(f"{self.folder.path} was taken away; it is made again, without the looks that were in it")
            if not (self._started and self.folder.is_started):
                self.folder.start(self.probe, self.baseline, self.null)
            if snapshot is not None and snapshot is not self.baseline:
                self.folder.add(snapshot, step=step)
            self.folder.describe(self.description())
            return True

        self._started = on_main_process(write)

    def forget_after(self, step: int) -> None:
        """Drop the looks later than `step`: the run takes those steps again."""
        self.drop_after(step)
        self.seconds = {look: took for look, took in self.seconds.items() if look <= step}
        if self._started:
            on_main_process(lambda: self.folder.drop_after(step))
            self._take_up_last()
            self._write_down()

    def _take_up_last(self) -> None:
        """Have the rows of the look that is the last now: a report lists what flipped in them."""
        last = max(self.comparisons)

        def read() -> dict[int, Snapshot]:
            path = self.folder.looks().get(last)
            return {} if path is None else self._readable({last: path}, self.damaged)

        if not self.has_snapshot(last):
            self._snapshots |= on_main_process(read)

    def _readable(self, files: Mapping[int, Path], damaged: list[Path]) -> dict[int, Snapshot]:
        """The snapshots that can be read; the others are put by."""
        found = {}
        for step, path in files.items():
            try:
                found[step] = read_snapshot(path)
            except ForgetwatchError:
                damaged.append(self.folder.quarantine(path))
        return found


def _reasons(outcomes: Counter[str]) -> str:
    return "; ".join(f"{count:,} {why.removeprefix('unscored: ')}" for why, count in outcomes.most_common(3))

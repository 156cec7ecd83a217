"""Watch: measures a run. A baseline, then looks, each compared with it and stored.

    watch = Watch(probe, "run/")
    watch.look(model, tokenizer, step=0)        # the baseline
    ...
    watch.look(model, tokenizer, step=200)      # a Comparison: baseline -> step 200

A look is one evaluation of the probe during the run. A Watch needs no Trainer; `ForgetWatchCallback` is an adapter
over it. If several processes train one model, each must call it at the same steps: they share the work, all get the
comparison, and the main process writes.

A look that cannot be written, such as on a full disk, stays in memory (`pending`) until the next one, or
`store_pending`, finds room.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
from torch import nn

from forgetwatch.comparing import Comparison, Subset, decided_by, has_graded_answers, rules_of, vanished_note
from forgetwatch.drift import RunDrift, adapter_start, adapters_off
from forgetwatch.errors import MismatchError, SnapshotError, WatchError
from forgetwatch.grading import RULES
from forgetwatch.measures import VANISHED_SHARE_NOTED
from forgetwatch.pairing import rows_of_baseline
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.progress import Failures, log, shown
from forgetwatch.run_folder import (
    PROBE,
    RUN_FOLDER,
    GuardFinding,
    Lineage,
    Resumed,
    RunFolder,
    TaskFigure,
    checkpoint_folder,
    files_digest,
)
from forgetwatch.scoring import Scorer, check_arguments, on_all_processes, on_main_process, rank
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.watch.budget import Decision, evaluated
from forgetwatch.watch.looks import LookHistory, checked_step
from forgetwatch.watch.measurer import LookScorer
from forgetwatch.watch.run_again import with_again

_UNLIKE: Final = 0.15
"""Share of the answers that change, from which two measurements are not of one model: casting changes far fewer."""

_DELAY: Final = 5.0
"""Seconds of a look during the training before its progress is shown."""


class Watch(LookHistory):
    """Evaluates one probe again and again during a run, and follows the outcome of every item.

    Attributes:
        folder: The run folder, ``output_dir/_forgetwatch``.
        seconds: Seconds of each look of this process, by step.
        measurer: Evaluates the model.
        drift: Measures the drift from the base.
        notes: Sentences on files that a resume did not find or did not use.

    Args:
        probe: A probe, or the path of one.
        output_dir: Folder of the run's files; the run folder is made in it.
        resume: True to resume the run in the existing run folder; by default an older one is renamed at the first look.
        twice: True to measure the baseline twice, for the flips that noise makes.
        task: Questions of the new task, whose share of right answers at each look is its figure; they are never counted
            as forgotten. None: the figure that a trainer logs.
        drift: True to measure at each look how far the model is from that of the first look, on short texts that the
            latter generates (`drift.run_drift`); `Trajectory.drift` has the numbers.
        folder: Name of the run folder in `output_dir`.
        examples: Training examples for the drift, which is measured after their prompts too: a sequence of texts, or
            of examples as TRL's trainers take them. None: after the probe's prompts alone.

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
        task: Probe | str | Path | None = None,
        drift: bool = False,
        examples: Any = None,
        folder: str = RUN_FOLDER,
    ) -> None:
        self.folder = RunFolder(output_dir, name=folder)
        self.seconds: dict[int, float] = {}
        self.notes: tuple[str, ...] = ()
        super().__init__(probe if isinstance(probe, Probe) else load_probe(probe))
        self.measurer = LookScorer()
        self.task_probe = load_probe(task) if isinstance(task, (str, Path)) else task
        self._task_scorer: Scorer | None = None
        self.drift = RunDrift(wanted=drift, examples=examples)
        self._failures = Failures(strict=False, is_main_process=rank() == 0)
        self._twice = twice
        self.last_step: int | None = None  # whose look asks the lost in other words; None if not known
        self._started = False
        self._is_cleared = False  # the folder of an earlier run is set aside, or there was none
        self._unstored: dict[int, Snapshot] = {}
        self._vanished_noted = 0.0  # share of vanished answers that was logged last
        self._repeated: set[int] = set()  # steps of which a repeated call was logged
        if resume:
            self.resume()

    @property
    def pending(self) -> tuple[int, ...]:
        """Steps of the looks that are not stored yet, since they could not be written; rising."""
        steps = list(self._unstored)
        if not self._started and self.baseline is not None and (first := self.baseline.meta["step"]) >= 0:
            steps.append(first)
        return tuple(sorted(steps))

    def store_pending(self) -> None:
        """Store the looks that are not stored yet; nothing if all are.

        Raises:
            OSError: If they still cannot be written.
        """
        if self.pending and (failure := self._store()) is not None:
            raise failure

    def report_findings(self, findings: Sequence[GuardFinding]) -> None:
        """Store the findings of the guard with the run, so that reports of the folder show them."""
        if tuple(findings) != self.findings:
            self.findings = tuple(findings)
            self._store()

    def report_task(self, task: TaskFigure | None) -> None:
        """Store the figure of the new task with the run, where there is one. Every process calls it."""
        if task is not None:
            self.task = task
        if not self.pending:  # else it is stored with these, and their failure was reported
            self._store()

    def measure_with(self, *, token_budget: int | None, drift: RunDrift | None = None) -> None:
        """Set the means of measuring, before the first look; see `LookScorer`. Without a drift the own one stays."""
        self.measurer = LookScorer(token_budget=token_budget)
        self.drift = drift or self.drift

    def plan(self, looks: int) -> None:
        """Set the number of looks planned after the baseline, by which alarms are corrected, and store it."""
        self.planned = max(1, looks)
        if self._started:
            self._store()

    def decide(self, decision: Decision) -> None:
        """Set items and looks; the items at the latest before the first look after the baseline."""
        before = self.subset
        self._use(decision)
        if self.baseline is not None and self.subset != before:
            (start,) = self.comparisons
            self.comparisons.clear()
            self.firsts.clear()
            self._right.clear()
            self._add(self.baseline, step=start)
        self._store()

    def resume(
        self,
        *,
        run: str | None = None,
        step: SupportsIndex | None = None,
        carried: Sequence[Path] = (),
        baseline: Snapshot | None = None,
        decision: Decision | None = None,
        completions: str | None = None,
    ) -> None:
        """Resume the run in the run folder.

        Args:
            run: Id of the run; None for that of the run in the folder.
            step: The step from which the run resumes; later looks are deleted. None keeps all.
            carried: Folders in which checkpoints carry copies of it.
            baseline: The run's baseline from elsewhere, if the folder and the copies are lost.
            decision: Decision on the items that the run's looks evaluate; None for the one in the folder, or for what
                the stored looks have in common.
            completions: Checksum of the base's completions that the checkpoint names; None for that in the folder.

        Raises:
            LostBaselineError: If there is no such baseline.
            WatchError: If it was made with another probe, or `step` is no whole number in its range.
        """
        until = None if step is None else checked_step(step)

        def restore() -> Resumed:
            self.folder.claim(on_wait=log)
            return self.folder.resume(
                run=run,
                step=until,
                carried=carried,
                baseline=baseline,
                probe_of=lambda found: self._probe_of(found.meta),
                log=log,
            )

        # Before and after: restoring may move the run folder, and the completions with it.
        budget = self.measurer.token_budget
        self.drift.resume([self.folder.path, *carried], checksum=completions, token_budget=budget)
        resumed = on_main_process(restore)
        completions = completions or resumed.described.completions
        self.drift.resume([self.folder.path, *carried], checksum=completions, token_budget=budget)
        self.folder.run, self.notes = resumed.run, resumed.notes
        start, looks = resumed.baseline, resumed.contents.looks
        self._follow_order(start)
        # Also where the checkpoint is of before the decision: trackers have its rows already.
        decision = decision or Decision.of(resumed.described.values)
        # A reader, or a kill before the next look, must find the plan and the findings.
        self.planned = resumed.described.planned
        last = max((int(start.meta["step"]), *looks)) if until is None else until
        self.findings = tuple(finding for finding in resumed.described.findings if finding.step <= last)
        self._started = True
        self.keep_norm(start.meta)
        self._log_categories(start)
        if decision is None and (items := Subset.common([start, *looks.values()]).items) is not None:
            decision = Decision(items=items)
        decision = self._without_regraded(start, decision)
        self.drift.log_if_lost(completions)
        self.baseline, self.null = start, resumed.null
        self.lineage = resumed.lineage
        self._first = None if resumed.lineage is None else resumed.lineage.first
        self.model_facts, self.started_with = resumed.model, resumed.started_with
        if self.saved is not None:
            stored = resumed.described.values.get("saved") or {}
            self.saved |= {int(at): str(one) for at, one in stored.items() if int(at) <= last}
        if self.task_probe is not None and (figure := resumed.described.task) is not None:
            self.task = TaskFigure(figure.name, tuple(one for one in figure.values if one[0] <= last))
        self._use(decision)
        self._add(start, step=int(start.meta["step"]))
        for look, snapshot in sorted(looks.items()):
            self._add(snapshot, step=look)
        self.measurer.set_seconds(start, share=(self.items or len(start)) / len(start))
        self._store()

    def _without_regraded(self, start: Snapshot, decision: Decision | None) -> Decision | None:
        """Return the decision without generated answers if this version grades them by other rules."""
        if not has_graded_answers(start) or rules_of(start) == RULES:
            return decision
        made = replace(decision or Decision(), generates=False, regraded=True)
        if rank() == 0:
            left = "the other items are evaluated on"
            if any(item.must_pass and self.probe.is_generated(item) for item in self.probe):
                left = f"also not to must_pass items, and {left}"
            if not evaluated(self.probe, made):
                left = "no other items are left, so no more looks are taken, and the training continues"
            log(
                f"the run's generated answers were graded by version {rules_of(start)} of the grading rules, and this "
                f"forgetwatch has version {RULES}: no more answers are generated, {left}"
            )
        return made

    def keep_norm(self, meta: Mapping[str, Any]) -> None:
        """Use the norm of the run's baseline from here on: all looks of a run are decided by one norm."""
        kept = self._probe_of(meta)
        if kept is not self.probe and rank() == 0:
            log(f"the run's baseline was decided by the norm {kept.norm!r}, and the run keeps it")
        self.probe = kept

    def in_norm(self, baseline: Snapshot) -> Snapshot:
        """Return a baseline from elsewhere, decided by the norm of this probe; an error if that is not possible."""
        if self._probe_of(baseline.meta) is self.probe:
            return baseline
        made = decided_by(baseline, dict.fromkeys(baseline.norms, self.probe.norm))
        if rank() == 0 and len(made.notes) > len(baseline.notes):
            log(f"the named baseline was {made.notes[-1]}")
        # The fingerprint covers the norm, and a resume finds the run's probe by it.
        return replace(made, meta={**made.meta, "probe": {**made.meta["probe"], "fingerprint": self.probe.fingerprint}})

    def in_order(self, baseline: Snapshot) -> Snapshot:
        """Return a baseline from elsewhere with its rows in the order of the probe: looks evaluate its first items."""
        place = {(item.task, item.id): number for number, item in enumerate(self.probe)}
        keys = zip(baseline.texts("task").tolist(), baseline.texts("item_id").tolist(), strict=True)
        order = np.argsort([place.get(key, len(place)) for key in keys], kind="stable")
        return replace(baseline, table=baseline.table.take(order))

    def _follow_order(self, start: Snapshot) -> None:
        """Put the items into the order of the baseline of a run, which the callback may have changed."""
        keys = zip(start.texts("task").tolist(), start.texts("item_id").tolist(), strict=True)
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        items = tuple(sorted(self.probe, key=lambda item: place.get((item.task, item.id), len(place))))
        self.probe = self.probe if items == self.probe.items else self.probe.with_items(items)

    def _probe_of(self, meta: Mapping[str, Any]) -> Probe:
        """Return the probe of a baseline, by its metadata: this one, with the norm of the baseline."""
        made_with = meta.get("probe") or {}
        if made_with.get("fingerprint", "") is None:
            return self.probe
        if (found := self.probe.with_fingerprint(made_with.get("fingerprint"))) is None:
            raise WatchError(
                f"the run's baseline was made with probe {made_with.get('name')!r} "
                f"(fingerprint {str(made_with.get('fingerprint'))[:12]}), and this is probe {self.probe.name!r} "
                f"({self.probe.fingerprint[:12]}); resume with the probe in {self.folder.path / PROBE}"
            )
        return found

    def _log_categories(self, baseline: Snapshot) -> None:
        """Log that items have other categories in the probe than in the run's baseline."""
        names = {(item.task, item.id): item.category for item in self.probe}
        rows = zip(*(baseline.texts(name) for name in ("task", "item_id", "category")), strict=True)
        kept = {(task, item): category for task, item, category in rows}
        renamed = [(names[item], category) for item, category in kept.items() if names.get(item, category) != category]
        if renamed and rank() == 0:
            log(
                f"{len(renamed):,} items have other categories in the probe than in the run's baseline (first: "
                f"{renamed[0][0]!r}, in the run {renamed[0][1]!r}); the run keeps those of the baseline"
            )

    def look(
        self, model: nn.Module, tokenizer: Any, *, step: SupportsIndex, origin: Mapping[str, Any] | None = None
    ) -> Comparison:
        """Evaluate the model on every item, store the snapshot, and compare it with the baseline.

        The first look is the baseline. A second call at the latest step measures nothing: it logs that once, and
        returns the first one's comparison. The model, its mode and all random states come back as they were. The result
        is in `comparisons` even if it cannot be written; it is then `pending`.

        Args:
            model: A causal language model of transformers, as it is being trained.
            tokenizer: Its tokenizer; each look needs one that encodes the questions as that of the first look.
            step: Optimizer steps taken so far, a whole number from 0 to `LAST_STEP`. It rises from look to look, unless
                `origin` is given.
            origin: Metadata of the snapshot on the origin of weights that were saved, JSON values; None for those of
                the training at this moment.

        Raises:
            ScoringError: If the model cannot be scored.
            WatchError: If `step` is no whole number in its range, or below that of the latest look, or another process
                trains in the output_dir.
            OSError: If the snapshot cannot be written.
        """
        step = checked_step(step)
        on_all_processes(lambda: check_arguments(model, tokenizer))  # or the others would wait for this one
        latest = max(self.comparisons, default=step)
        if step < latest and origin is None:
            raise WatchError(self._falling(step, latest=latest))
        if step in self.comparisons:
            if step not in self._repeated and rank() == 0:
                log(f"step {step} has its look already; nothing was measured")
            self._repeated.add(step)
            if step in self.pending:
                self._store_look(step)
            return self.comparisons[step]
        self._open()
        started, null, is_baseline = time.perf_counter(), None, self.baseline is None
        if is_baseline:
            try:
                snapshot, null = self._measure_baseline(model, tokenizer, step=step)
            except BaseException:
                self.folder.release()  # a run without a baseline has nothing to keep apart
                self.folder.run = None
                raise
        else:
            # Nothing is awaited during the training: only a look that takes long is shown.
            with shown(f"look at step {step}", delay=_DELAY if step else 0.0, is_main_process=rank() == 0) as progress:
                snapshot = self.measurer.look(model, tokenizer, self.evaluated, step=step, progress=progress)
        snapshot = replace(snapshot, meta={**snapshot.meta, **(origin or {})})
        budget = self.measurer.token_budget
        snapshot = self.drift.added_to(snapshot, model, tokenizer, self.probe, step=step, token_budget=budget)
        if self.baseline is not None and step == self.last_step:
            with self._failures.tolerate("asking the lost in other words", step=step):
                snapshot = with_again(snapshot, self.baseline, model, tokenizer, self.probe, token_budget=budget)
        snapshot = self.folder.stamped(snapshot, "baseline" if is_baseline else "step")
        if is_baseline:
            self.baseline, self.null = snapshot, None if null is None else self.folder.stamped(null, "null")
        comparison = self._add(snapshot, step=step)
        if comparison.all.vanished_share > self._vanished_noted + VANISHED_SHARE_NOTED:
            self._vanished_noted = comparison.all.vanished_share
            if rank() == 0:
                log(f"step {step}: {vanished_note(comparison.all)}; a later look says so again if there are more")
        if self.task_probe is not None:
            with self._failures.tolerate("asking the new task", step=step):
                self._ask_task(model, tokenizer, self.task_probe, step=step)
        self.seconds[step] = time.perf_counter() - started
        # The baseline has a file of its own, which is written with the folder.
        if not is_baseline:
            self._unstored[step] = snapshot
        # Last: if the file cannot be written, the comparison, its rows and its cost are kept.
        self._store_look(step)
        return comparison

    def _ask_task(self, model: nn.Module, tokenizer: Any, task: Probe, *, step: int) -> None:
        """Add the share of right answers of the new task, among those with an outcome, to its figure."""
        if self._task_scorer is None:
            self._task_scorer = Scorer(task, tokenizer, model, token_budget=self.measurer.token_budget)
        right = self._task_scorer.score(model, step=step).floats("correct")
        if np.isfinite(right).any():
            values = () if self.task is None else self.task.values
            self.task = TaskFigure(f"{task.name}_accuracy", (*values, (step, float(np.nanmean(right)))))

    def _measure_baseline(self, model: nn.Module, tokenizer: Any, *, step: int) -> tuple[Snapshot, Snapshot | None]:
        """Return the outcomes of what the run begins with (`drift.adapters`), and those of a second measurement."""
        start = adapter_start(model)
        with adapters_off(model) if start.is_off else nullcontext():
            measured = self.measurer.baseline(
                model, tokenizer, self.evaluated, step=step, twice=self._twice, weights=self.started_with
            )
        changed = ""
        if start.is_off:
            number, items = self.measurer.changed(measured[0], model, tokenizer, self.evaluated, step=step)
            changed = f"; the adapter changes {number} of the first {items} answers before step 1"
        if start.line and rank() == 0:
            log(start.line + changed)
        return measured

    def _falling(self, step: int, *, latest: int) -> str:
        remedy = "count the steps over the whole run, not anew in each epoch"
        if step >= min(self.comparisons):
            remedy = f"call forget_after({step}) if the training went back to this step, or {remedy}"
        return f"look: needed a step that rises, got step {step} after step {latest}; {remedy}"

    def adopt(self, baseline: Snapshot) -> None:
        """Compare with a snapshot from elsewhere instead of the first look, decided by the norm of this probe.

        Raises:
            WatchError: If it is of another probe, a look was taken already, or another process trains in the folder.
            MismatchError: If it is of another norm, and has not the scores to be decided again.
        """
        if self.baseline is not None:
            raise WatchError("the run has a baseline already; adopt one from elsewhere before the first look")
        self._open()
        adopted = self.folder.stamped(self.in_order(self.in_norm(baseline)), "baseline")
        adopted = replace(adopted, meta={**adopted.meta, "step": -1})  # a step that no look of this run has
        self.baseline = adopted
        self._add(adopted, step=-1)

    def descend(self, lineage: Lineage) -> None:
        """Count against the base of earlier trainings too, from the first look on.

        Raises:
            WatchError: If a look was taken already.
            MismatchError: If no question of the probe was measured on that base, or it was scored by other settings.
        """
        if self.baseline is not None:
            raise WatchError("the run has a baseline already; name its lineage before the first look")
        if lineage.first is not None:
            hashes = set(lineage.first.texts("content_hash"))
            if not any(item.content_hash in hashes for item in self.probe):
                raise MismatchError(f"the first base was measured on other questions than those of {self.probe.name}")
            made_with = lineage.first.meta.get("probe") or {}
            for name, own in (("scoring", self.probe.scoring), ("rendering", self.probe.rendering)):
                if made_with.get(name, own) != own:
                    raise MismatchError(f"the first base was measured with {name} {made_with[name]!r}, this is {own!r}")
            decoding = self.probe.settings.get("decoding")
            if decoding is not None and made_with.get("decoding", decoding) != decoding:
                raise MismatchError("the answers of the first base were generated by other settings (decoding)")
            if any(norm != self.probe.norm for norm in lineage.first.norms.values()):
                decided = decided_by(lineage.first, dict.fromkeys(lineage.first.norms, self.probe.norm))
                lineage = replace(lineage, first=decided)
        self.lineage, self._first = lineage, lineage.first

    def leave_unlike_lineage(self) -> bool:
        """Leave the lineage, and return True, if the baseline is not what the earlier training ended with.

        A model that was made anew from the configuration of a checkpoint has its name, and answers otherwise.
        """
        if self.lineage is None or self.lineage.end is None or self.baseline is None:
            return False
        end = rows_of_baseline(self.lineage.end, self.baseline)
        start = rows_of_baseline(self.baseline, end)
        right, chosen = (
            [one.floats("correct") for one in (end, start)],
            [one.ints("chosen") for one in (end, start)],
        )
        # By the option that was chosen: of weak models many answers are wrong in both.
        differs = np.where((chosen[0] >= 0) & (chosen[1] >= 0), chosen[0] != chosen[1], right[0] != right[1])
        both = np.isfinite(right[0]) & np.isfinite(right[1])
        if not both.any() or differs[both].mean() <= _UNLIKE:
            return False
        self.leave_first()
        self.lineage = None
        self._store()
        return True

    def note_saved(self, step: int) -> None:
        """Note that this run has just saved the checkpoint of a step, by its files."""
        folder = checkpoint_folder(self.folder.output_dir, step)
        if self.saved is not None and (digest := on_main_process(lambda: files_digest(folder))):
            self.saved[step] = digest
            self._store()

    def claim(self) -> None:
        """Keep other trainings out of the output_dir.

        Raises:
            WatchError: If another process has it.
        """
        on_main_process(lambda: self.folder.claim(on_wait=log))

    def release(self) -> None:
        """Let another training have the output_dir; the end of the process does this too."""
        on_main_process(self.folder.release)

    def _open(self) -> None:
        """Claim the output_dir and give the run an id, before its first look."""

        def begin() -> str:
            self.folder.claim(on_wait=log)
            return self.folder.new_run()

        if self.folder.run is None:
            self.folder.run = on_main_process(begin)

    def _store_look(self, step: int) -> None:
        """Write what is not stored yet, and raise an OSError if this look cannot be; others are kept in memory."""
        failure = self._store()
        if failure is not None and step in self._unstored:
            raise failure

    def _store(self) -> OSError | None:
        """Write all looks that are not stored yet, and the description of the run, in the main process.

        Return the failure of a look that cannot be written, None if all are stored; that of the folder is raised.
        """

        def write() -> tuple[bool, list[int], OSError | None]:
            left, failure = list[int](), None
            if self.baseline is None:
                return False, left, failure
            if self._started:
                self.folder.check_own()
            elif not self._is_cleared and (aside := self.folder.set_aside()):
                log(f"the folder of an earlier run is now {aside}")
            self._is_cleared = True  # a folder that is there later is the beginning of this run's
            if self._started and not self.folder.is_started:
                log(f"{self.folder.path} has disappeared; it is made again, without the earlier looks")
            if not (self._started and self.folder.is_started):
                self.folder.start(self.probe, self.baseline, self.null, self._first)
            self.drift.save(self.folder.path)
            for step, look in self._unstored.items():
                try:
                    self.folder.add(look, step=step)
                except OSError as error:  # the others may have room
                    left.append(step)
                    # A plain one: it is sent to the other processes, and not every error can be.
                    failure = failure or OSError(error.errno, error.strerror or str(error), error.filename)
            # run.json comes last, and names only files that exist.
            self.folder.describe({**self._description(without=left), "completions": self.drift.checksum})
            return True, left, failure

        # Sent to all: later calls between processes depend on it, and all must make the same ones.
        self._started, left, failure = on_main_process(write)
        self._unstored = {look: self._unstored[look] for look in left}
        return failure

    def forget_after(self, step: SupportsIndex) -> None:
        """Drop the looks later than `step`: the run takes those steps again.

        Args:
            step: A step from that of the baseline on; -1 for a baseline from elsewhere.

        Raises:
            WatchError: If the baseline is later.
        """
        until = checked_step(step, lowest=-1)
        if self.comparisons and until < (first := min(self.comparisons)):
            raise WatchError(f"forget_after: needed step {first}, that of the baseline, or a later one, got {until}")
        self._drop_after(until)
        self.seconds = {look: took for look, took in self.seconds.items() if look <= until}
        self._unstored = {look: rows for look, rows in self._unstored.items() if look <= until}
        last = max(self.comparisons, default=-1)
        # A report lists the flips of the look that is now the last.
        if last in self._unstored:
            self._snapshots[last] = self._unstored[last]
        if self._started:
            self._snapshots |= on_main_process(lambda: self._reopen(until, last=last))
            self._store()

    def _reopen(self, step: int, *, last: int) -> dict[int, Snapshot]:
        """Drop the files of the looks later than a step; return the rows of the last one left, unless in memory."""
        self.folder.check_own()
        self.folder.drop_after(step)
        path = None if last in self._snapshots else self.folder.looks().get(last)
        try:
            return {} if path is None else {last: read_snapshot(path)}
        except SnapshotError:
            return {}

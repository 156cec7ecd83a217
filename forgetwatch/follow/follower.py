"""Follow a training from another process: score each checkpoint that it saves, once, as soon as it is complete.

    training   checkpoint-200   checkpoint-400   ...         it is neither changed nor slowed by waiting
                     |                |
    follower      loaded, scored, compared with the base ─▶ run folder, page, guard, trackers

A follower needs nothing of the training but its folder. The looks are a `Watch`'s, in a run folder
of the follower's own; they are its memory, so that a follower that was killed scores no checkpoint
twice. In fp32 on a CPU the rows are bitwise those that the callback measures in the training, since
batches are planned alike: where the training is watched, its checkpoints name the batches of its
baseline. For the same reason the base is scored when the first checkpoint is there.

Several processes that a launcher began follow together: the main process decides what is scored,
all score.
"""

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from forgetwatch.endpoint.address import is_endpoint
from forgetwatch.errors import (
    ForgetwatchError,
    LostBaselineError,
    MismatchError,
    ScoringError,
    SnapshotError,
    WatchError,
)
from forgetwatch.follow.deliveries import Deliveries
from forgetwatch.follow.folders import (
    CheckpointGoneError,
    CheckpointStore,
    SavedCheckpoint,
    identity_of,
    is_replaced,
    lost_base,
    watched_budget,
    weight_digests,
    weights_of,
)
from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.follow.queue import CheckpointQueue, End
from forgetwatch.follow.server import CheckpointServer
from forgetwatch.follow.signals import set_by_signals
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import cause_of, log
from forgetwatch.run.look import LookScorer
from forgetwatch.run.run import Look, Run
from forgetwatch.run.run_drift import RunDrift
from forgetwatch.run_folder.description import BASELINE, FOLLOW_FOLDER
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model_loading import (
    ADAPTER,
    base_of_adapter,
    load_model,
    load_outline,
)
from forgetwatch.scoring.processes import failed_together, on_all_processes, on_main_process, rank
from forgetwatch.scoring.tokenizer_loading import has_tokenizer
from forgetwatch.snapshot import Snapshot, read_snapshot

_PATIENCE: Final = 5.0
"""Seconds that a follower waits for another one of the same run folder, which may be ending."""


_CHECKSUM: Final = "base_checksum"
"""Name under which the baseline's metadata has the checksum of the snapshot that it is."""


class _Base:
    """The base: a snapshot, which is read at once, or a model, whose configuration and tokenizer are tried."""

    def __init__(self, base_given: str, *, loading: Loading) -> None:
        path = Path(base_given)
        self.given = base_given
        self.snapshot: Snapshot | None = None
        if path.is_file():
            snapshot = read_snapshot(path)
            metadata = {
                "base": base_given,
                _CHECKSUM: snapshot.checksum,
            }  # by which `check` knows it again
            self.snapshot = replace(snapshot, meta={**snapshot.meta, **metadata})
        elif not (path / ADAPTER).is_file() and not is_endpoint(base_given):
            load_outline(base_given, loading=loading)
        elif lost := lost_base(path):
            raise WatchError(f"--base {path} {lost}")

    def check(self, baseline: Snapshot, run: Path) -> None:
        """Refuse a run folder whose looks have another base."""
        base_made = str(baseline.meta.get("base"))
        is_same = base_made == self.given or Path(base_made).resolve() == Path(self.given).resolve()
        if (
            is_same
            and self.snapshot is not None
            and baseline.meta.get(_CHECKSUM) != self.snapshot.checksum
        ):
            base_made, is_same = "other rows", False
        if not is_same:
            raise WatchError(
                f"{run}: its looks are compared with {base_made}, and --base is {self.given}; give "
                "--run another folder"
            )

    def tokenizer_for(self, checkpoint: Path) -> str | None:
        """Folder or id of the tokenizer for a checkpoint without a tokenizer.

        Returns:
            The base's, or None if the checkpoint has a tokenizer.
        """
        # An adapter has that of its own base, and a snapshot has none to lend.
        if (
            (checkpoint / ADAPTER).is_file()
            or has_tokenizer(str(checkpoint))
            or self.snapshot is not None
        ):
            return None
        is_bare_adapter = (Path(self.given) / ADAPTER).is_file() and not has_tokenizer(self.given)
        return base_of_adapter(Path(self.given)) if is_bare_adapter else self.given


class _FollowError(WatchError):
    """An error that every further checkpoint would meet too."""


class Follower:
    """Follows one training.

    Attributes:
        run: The looks so far, which it stores.
        queue: The checkpoints that are to be scored; it names those that were not.
        scored: Steps that this process has scored.

    Args:
        output_dir: Folder of the checkpoints, a path or a URL.
        probe: The items.
        settings: The settings.
        run: The run folder; None for ``_forgetwatch_follow`` in `output_dir`.
        on_look: Called in the main process with one line for each checkpoint that was scored.

    Raises:
        ForgetwatchError: If something that is named cannot be used.
    """

    def __init__(
        self,
        output_dir: str,
        probe: Probe,
        settings: FollowSettings,
        *,
        run: Path | None = None,
        on_look: Callable[[str], object] = log,
    ) -> None:
        self._store = CheckpointStore(output_dir, settings.name)
        if run is None:
            if self._store.path is None:
                raise WatchError(
                    f"{output_dir}: needed a folder of this machine for the looks; name it with "
                    "--run"
                )
            # As it was given, since the path is shown.
            run = (self._store.path if "://" in output_dir else Path(output_dir)) / FOLLOW_FOLDER
        drift = RunDrift(wanted=settings.full)
        self.run = Run(probe, run.parent, folder=run.name, drift=drift)
        self._looks = LookScorer(self.run)
        self.scored: list[int] = []
        self._settings = settings
        self._base = _Base(settings.base, loading=settings.loading)
        self._out = Deliveries(
            settings,
            title=f"follow {output_dir.rstrip('/').rsplit('/', 1)[-1]}",
            config={
                "base": settings.base,
                "probe": probe.name,
                "fingerprint": probe.fingerprint,
                "items": len(probe),
            },
            on_look=on_look,
        )
        self._stop = threading.Event()
        self.queue = CheckpointQueue(
            self._store,
            looks=lambda: {
                step: str(files_scored.get("signature") or "")
                for step, files_scored in self._weights().items()
            },
            stop=self._stop,
            poll=settings.poll,
            idle=settings.idle,
            once=settings.once,
        )
        self._failures_so_far = 0
        self._server = (
            CheckpointServer(settings.endpoint, settings.serve, settings.loading, stop=self._stop)
            if settings.endpoint
            else None
        )

    def follow(self) -> End:
        """Score checkpoints until the training or the follower ends.

        Returns:
            The reason of the end.

        Raises:
            ForgetwatchError: If no checkpoint can be compared with the base, or another one follows
                into it.
        """
        with set_by_signals(self._stop):
            on_main_process(self._claim)
            try:
                self._resume()
                end = self._until_end()
                self._note_end(end)
                return end
            finally:
                self._finish()

    @property
    def unstored(self) -> list[str]:
        """Names of the looks that could not be stored."""
        baseline = self.run.baseline
        start = None if baseline is None else baseline.meta["step"]
        return ["the base" if step == start else f"step {step}" for step in self.run.pending]

    def _until_end(self) -> End:
        while True:
            if self.run.pending:
                with suppress(ForgetwatchError):
                    self.run.store()
            next_item = on_main_process(lambda: self.queue.next(brief=bool(self.run.pending)))
            if isinstance(next_item, str):
                return next_item
            if next_item is None:
                continue
            self._take(next_item)
            if on_main_process(lambda: self._out.stops):
                return "guard"

    def _note_end(self, end: End) -> None:
        # Checkpoints after the last look that were not scored are noted too.
        run, queue = self.run, self.queue
        if run.baseline is None:
            return
        last_step, seen, is_over = on_main_process(
            lambda: (queue.unscored, queue.last_step, queue.is_over)
        )
        if end == "guard":
            step = max(run.comparisons)
            run.note_end(last_step=step, delivered=step, is_stopped=True)
            return
        for step in last_step:
            if step > max(run.comparisons) and step not in dict(run.state.ending.failed):
                run.note_failed(step, "not scored")
        if is_over:
            run.note_end(last_step=seen, delivered=seen, is_stopped=False)

    def _claim(self) -> None:
        # The folder must be writable before anything is scored.
        folder = self.run.folder
        run = folder.path
        there = next(path for path in (run.absolute(), *run.absolute().parents) if path.exists())
        if not (there.is_dir() and os.access(there, os.W_OK)):
            why = f"{there} {'cannot be written to' if there.is_dir() else 'is a file'}"
            raise WatchError(
                f"{run}: the looks cannot be stored there, since {why}; name another folder "
                "with --run"
            )
        try:
            folder.claim(patience=_PATIENCE, on_wait=log)
        except WatchError as error:
            raise WatchError(
                f"{run}: another process follows into this folder; stop it, or name another "
                "folder with --run"
            ) from error

    def _resume(self) -> None:
        # An earlier follower has left the looks; what is done next is logged.
        run = self.run
        path = run.folder.path
        if (why := on_main_process(self._replaced)) is not None:
            self._log(f"the looks in {path} {why}; they are kept aside, and following begins anew")
        elif on_main_process(lambda: run.folder.is_started):
            try:
                self._looks.resume()
            except LostBaselineError as error:
                self._log(f"the baseline in {path} is lost ({error}); following begins anew")
        if run.baseline is not None:
            self._base.check(run.baseline, path)
            for note in run.notes:
                self._log(note)
            self._log(f"{path} has {len(run.comparisons) - 1} checkpoints of this run; they stay")
        self._log(f"following {self._store.given} with {run.probe.name}, {len(run.probe):,} items")

    def _replaced(self) -> str | None:
        # The stored looks are not those of this base and this training.
        folder, loading = self.run.folder, self._settings.loading
        with suppress(SnapshotError, ScoringError):
            base = read_snapshot(folder.path / BASELINE).meta.get("base_weights")
            if isinstance(base, dict) and is_replaced(base, loading=loading):
                return f"are compared with {base['model']}, which has other weights now"
        stored = {}
        for step, path in folder.looks().items():
            with suppress(SnapshotError):
                stored[step] = read_snapshot(path).meta.get("weights") or {}
        for facts in list(stored.values())[-1:]:
            if (base := facts.get("base")) and is_replaced(base, loading=loading):
                return f"are of adapters of {base['model']}, which has other weights now"
        changed = []
        for saved in self._there():
            look = stored.get(saved.step)
            if look is None and saved.replaces(stored, by_step=True):
                return f"are of another training than {saved.name}"
            if look is not None and "digest" in look:
                # All files of the last one are read: a copy may have kept size and time.
                is_same = saved.step != max(stored) and saved.signature == look.get("signature")
                changed.append(not is_same and self._is_changed(saved, look["digest"]))
        return (
            "are of another training, whose checkpoints were here"
            if changed and all(changed)
            else None
        )

    def _there(self) -> list[SavedCheckpoint]:
        # Whole now.
        names = {} if self._store.path is None else self._store.names()
        there = []
        for step, name in names.items():
            with suppress(OSError):
                there.append(self._store.read(step, name))
        return [checkpoint for checkpoint in there if checkpoint is not None]

    def _are_replaced(self) -> bool:
        # All of several checkpoints that were scored and are there have other files now.
        weights = self._weights()
        there = [
            (checkpoint, weights[checkpoint.step])
            for checkpoint in self._there()
            if weights.get(checkpoint.step, {}).get("signature")
        ]
        are_new = len(there) > 1 and all(
            checkpoint.signature != stored["signature"] for checkpoint, stored in there
        )
        return are_new and all(
            self._is_changed(checkpoint, str(stored.get("digest"))) for checkpoint, stored in there
        )

    def _is_stale(self, checkpoint: SavedCheckpoint) -> bool:
        # A later training has saved its checkpoints beside this one.
        facts = {checkpoint.step: checkpoint.facts}
        return any(one.step != checkpoint.step and one.replaces(facts) for one in self._there())

    def _is_other(self, checkpoint: SavedCheckpoint) -> bool:
        # The base is a folder; the checkpoint has other files of weights.
        if not Path(self._base.given).is_dir():
            return False
        with self._store.held(checkpoint) as path:
            return weight_digests(path) != weight_digests(Path(self._base.given))

    def _is_changed(self, saved: SavedCheckpoint, digest: str) -> bool:
        # False if the files cannot be read.
        with self._store.held(saved) as path, suppress(ScoringError):
            return str(weights_of(path, loading=self._settings.loading)["digest"]) != digest
        return False

    def _weights(self) -> dict[int, Mapping[str, Any]]:
        # Keys are steps; empty where a look has no such metadata.
        return {
            step: look.after.get("weights") or {} for step, look in self.run.comparisons.items()
        }

    def _take(self, checkpoint: SavedCheckpoint) -> None:
        # A checkpoint that cannot be scored is logged, and the next is taken.
        try:
            self._score(checkpoint)
        except (_FollowError, MismatchError):
            raise
        except (ForgetwatchError, OSError) as error:
            self._failures_so_far += 1
            failed_together(error, number=self._failures_so_far)
            # What was copied is there whatever happens to the checkpoint.
            gone = not isinstance(error, CheckpointGoneError) and on_main_process(
                lambda: self._store.path is not None and self._store.is_gone(checkpoint)
            )
            why = f"{checkpoint.name} was deleted while it was read" if gone else str(error)
            self._log(
                why
                if why.startswith(checkpoint.name)
                else f"{checkpoint.name} could not be scored: {why}"
            )
            self.queue.fail(checkpoint)
            with self._out.failures.tolerate(
                "noting a checkpoint that failed", step=checkpoint.step
            ):
                self.run.note_failed(checkpoint.step, cause_of(error))
        self.queue.restart_clock()

    def _score(self, checkpoint: SavedCheckpoint) -> None:
        run, step = self.run, checkpoint.step
        with ExitStack() as stack:
            path = on_main_process(lambda: stack.enter_context(self._store.held(checkpoint)))
            if lost := lost_base(path):
                raise _FollowError(f"{checkpoint.name} {lost}")
            loading = self._settings.loading
            weights: dict[str, Any] = on_main_process(lambda: weights_of(path, loading=loading))
            weights |= checkpoint.facts
            self._check_base(checkpoint, weights.get("base") or {})
            if on_main_process(lambda: self._is_stale(checkpoint)):
                self._log(f"{checkpoint.name} is of an earlier training, and is left out")
                self.queue.deal_with(checkpoint)
                return
            by_step = checkpoint.name not in self.queue.failed  # a mended one is newer
            if on_main_process(
                lambda: (
                    self._are_replaced() or checkpoint.replaces(self._weights(), by_step=by_step)
                )
            ):
                raise _FollowError(
                    f"the checkpoints that are scored in {run.folder.path} and "
                    f"{checkpoint.name} are of two trainings; "
                    "start again: the looks are moved aside, and the follower begins anew"
                )
            self._score_base(checkpoint)
            if step in run.comparisons:  # that of the base, at step 0
                return
            self._log(f"{checkpoint.name} is complete; it is scored")
            started = time.perf_counter()
            origin = {
                "model": f"{self._store.given.rstrip('/')}/{checkpoint.name}",
                "weights": weights,
            }
            look = self._look(str(path), step=step, origin=origin, checkpoint=checkpoint)
        self.scored.append(step)
        self.queue.deal_with(checkpoint)
        self._out.deliver(look, started=started, max_steps=checkpoint.max_steps)

    def _look(
        self,
        checkpoint_folder: str,
        *,
        step: int,
        origin: Mapping[str, Any],
        checkpoint: SavedCheckpoint | None = None,
    ) -> Look:
        settings, tokenizer_of = self._settings, None
        if self._server is not None:
            snapshot, null = self._server.measure(checkpoint_folder, self.run)
            snapshot = replace(snapshot, meta={**snapshot.meta, **origin, "step": step})
            seconds = float(snapshot.meta["seconds"])
            return self.run.add(snapshot, step=step, null=null, seconds=seconds)
        if checkpoint is not None:
            tokenizer_of = on_main_process(
                lambda: self._base.tokenizer_for(Path(checkpoint_folder))
            )
        if tokenizer_of is not None and rank() == 0:
            self.queue.log_once(
                "the checkpoints are saved without a tokenizer; that of the base is used"
            )
        load = partial(load_model, loading=settings.loading)
        model, tokenizer = on_all_processes(
            lambda: load(checkpoint_folder, tokenizer_of=tokenizer_of)
        )
        try:
            if checkpoint is not None:
                on_main_process(lambda: self._store.check_unchanged(checkpoint))
            self._looks.restart_for(model, tokenizer)
            return self._looks.take(model, tokenizer, step=step, origin=origin)
        except MismatchError as error:
            name, base = (
                checkpoint_folder if checkpoint is None else checkpoint.name,
                f"the base {settings.base}",
            )
            raise _FollowError(
                f"{name} cannot be compared with {base}, which has another tokenizer or "
                f"template: {error}"
            ) from error
        finally:
            del model
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # for the training, which may run on the same GPU

    def _score_base(self, checkpoint: SavedCheckpoint) -> None:
        # In the batches of the watched run that saved this checkpoint, if one did.
        run = self.run
        if run.baseline is not None:
            return
        if self._base.snapshot is not None:
            run.adopt(self._base.snapshot)
            return
        self._looks.use_batches(
            on_main_process(lambda: watched_budget(self._store, checkpoint, run.probe))
        )
        try:
            base_name, loading = self._base.given, self._settings.loading
            origin: dict[str, Any] = {"base": base_name}
            if Path(base_name).is_dir():
                origin["base_weights"] = on_main_process(
                    lambda: identity_of(base_name, loading=loading)
                )
            if checkpoint.step == 0 and on_main_process(lambda: self._is_other(checkpoint)):
                # The base is no look of this training: the first checkpoint has that step.
                scored = score_checkpoint(base_name, run.probe, loading=loading)
                run.adopt(replace(scored, meta={**scored.meta, **origin}))
                return
            look = self._look(base_name, step=0, origin=origin)
        except (ForgetwatchError, OSError) as error:
            raise _FollowError(f"the base cannot be scored: {error}") from error
        with self._out.failures.tolerate("sending the row of the base", step=0):
            self._out.runs.take(look)

    def _check_base(self, checkpoint: SavedCheckpoint, base: Mapping[str, str]) -> None:
        # Adapters of one run need the same weights of the base.
        earlier = [look.get("base") or {} for look in self._weights().values()]
        if any(
            metadata.get("model") == base.get("model")
            and metadata.get("digest") != base.get("digest")
            for metadata in earlier
        ):
            raise _FollowError(
                f"{checkpoint.name} is an adapter of {base['model']}, which has other weights now "
                f"than under the looks in {self.run.folder.path}; start again: they are moved "
                "aside, and the follower begins anew"
            )

    def _finish(self) -> None:
        # Whatever has happened.
        self._out.finish(self.run)
        if rank() == 0:  # the others are not waited for: one of them may have failed alone
            self.run.folder.release()

    def show(self) -> None:
        """Print the table of the last look, if any, in the main process."""
        latest = self.queue.latest
        self._out.show(self.run, max_steps=latest.max_steps if latest else None)

    def _log(self, line: str) -> None:
        if rank() == 0:
            log(line)

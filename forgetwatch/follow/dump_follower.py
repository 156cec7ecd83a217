"""Follow the files that a training writes at its steps: each step is a look, as soon as its files are whole.

    files of a step ─▶ unchanged since the last listing ─▶ snapshot ─▶ run folder, page, guard, trackers

The first step, or outcomes that are named, is the base. The run folder is its memory: started again,
it reads no step twice. A file that cannot be read yet is left for a later listing, and named at the
end.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from forgetwatch.errors import ForgetwatchError, SnapshotError, WatchError
from forgetwatch.follow.deliveries import Deliveries
from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.follow.queue import End
from forgetwatch.follow.signals import set_by_signals
from forgetwatch.grading.outcome_rule import OutcomeRule
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.progress import log
from forgetwatch.readers.dumps import files_of_steps, named, read_step, unlike_questions
from forgetwatch.readers.log import QuestionText
from forgetwatch.run.run import Run
from forgetwatch.run_folder.description import FOLLOW_FOLDER
from forgetwatch.snapshot import SAMPLED, Snapshot

_TASK: Final = "answers"
"""Task of questions that name none: the folder may be moved."""


class DumpFollower:
    """Follows one training by what it writes.

    Attributes:
        run: The looks so far; None before the first.
        failed: What could not be read, by step.

    Args:
        output_dir: Folder of the files.
        settings: Settings, of which a base is a file of outcomes, and the name a form of paths.
        rule: How outcomes between wrong and right are read.
        metric: Metric that makes right or wrong, if there are several.
        folder: The run folder; None for ``_forgetwatch_follow`` in `output_dir`.
        on_look: Called with one line for each step.
    """

    def __init__(
        self,
        output_dir: Path,
        settings: FollowSettings,
        *,
        rule: OutcomeRule,
        metric: str | None = None,
        folder: Path | None = None,
        on_look: Callable[[str], object] = log,
    ) -> None:
        self.run: Run | None = None
        self.failed: dict[int, str] = {}
        self._output_dir, self._settings = output_dir, settings
        self._rule, self._metric = rule, metric
        self._folder = folder or output_dir / FOLLOW_FOLDER
        self._seen: dict[int, list[tuple[str, int, int]]] = {}
        self._stop = threading.Event()
        self._out = Deliveries(
            settings,
            title=f"follow {output_dir.resolve().name}",
            config={"files": str(output_dir)},
            on_look=on_look,
        )

    def follow(self) -> End:
        """Read steps until the training or the follower ends.

        Returns:
            The reason of the end.

        Raises:
            ForgetwatchError: If the looks cannot be stored, or the base cannot be read.
        """
        active = time.monotonic()
        with set_by_signals(self._stop):
            try:
                while True:
                    active = time.monotonic() if self._scan() else active
                    settings = self._settings
                    if self._out.stops:
                        return "guard"
                    if settings.once:
                        return "once"
                    if settings.idle is not None and time.monotonic() - active > settings.idle:
                        return "idle"
                    if self._stop.wait(settings.poll):
                        return "stopped"
            finally:
                if self.run is not None:
                    self._note_end(self.run)
                    self._out.finish(self.run)
                    with suppress(ForgetwatchError):
                        self.run.close()

    def show(self) -> None:
        """Print the table of the last look, if any."""
        if self.run is not None:
            self._out.show(self.run, max_steps=None)

    def _note_end(self, run: Run) -> None:
        # A step that was read no more leaves the last look that of an earlier model.
        for step, error in sorted(self.failed.items()):
            if step > max(run.comparisons):
                with suppress(ForgetwatchError):
                    run.note_failed(step, error)

    def _scan(self) -> bool:
        # True if a step is new or being written.
        paths = files_of_steps([self._output_dir], self._settings.name)
        taken = {} if self.run is None else self.run.comparisons
        is_new = False
        for step in sorted(paths):
            states = [(path, path.stat()) for path in paths[step]]
            sizes = [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]
            before, self._seen[step] = self._seen.get(step), sizes
            if step in taken:
                if before not in (None, sizes):
                    log(f"step {step} was written again after it was read; its look stays")
                continue
            is_whole = before == sizes or self._settings.once or step < max(paths)
            is_new |= before != sizes
            if is_whole and not (before == sizes and step in self.failed):
                self._read(step, paths[step])
                if self._out.stops:
                    break
        return is_new

    def _read(self, step: int, paths: list[Path]) -> None:
        started = time.perf_counter()
        try:
            look = read_step(paths, metric=self._metric, rule=self._rule)
            run = self.run or self._begin(look)
            if step in run.comparisons:  # of an earlier follower
                return
            look = self._of_run(look, step=step)
            if run.baseline is not None and (unlike := unlike_questions(run.baseline, look)):
                raise SnapshotError(f"{unlike} than the first step")
        except SnapshotError as error:  # it may be written still
            self.failed[step] = str(error)
            return
        self.failed.pop(step, None)
        added = run.add(look, step=step, seconds=time.perf_counter() - started)
        if len(run.comparisons) == 1:
            self._out.runs.take(added)
        else:
            self._out.deliver(added, started=started, max_steps=None)

    def _begin(self, first_look: Snapshot) -> Run:
        base = self._settings.base
        start = (
            read_step([Path(base)], metric=self._metric, rule=self._rule) if base else first_look
        )
        table = named(start, _TASK).table
        rows = table.filter(table["sample"].to_numpy() == 0).to_pylist()
        probe = Probe(
            [_item(row) for row in rows],
            name=self._output_dir.resolve().name,
        )
        run = Run(probe, self._folder.parent, folder=self._folder.name)
        self.run = run
        if run.folder.is_started:
            run.resume()
            log(f"{run.folder.path} has {len(run.comparisons) - 1} steps of this run; they stay")
        elif base:
            run.adopt(self._of_run(start, step=-1))
        else:
            run.open()
        return run

    def _of_run(self, look: Snapshot, *, step: int) -> Snapshot:
        if self.run is None:
            raise WatchError(f"{self._output_dir}: no step was read yet")
        probe = self.run.probe
        of_probe = {"name": probe.name, "fingerprint": probe.fingerprint, "items": len(probe)}
        # A question is known by its text here, as in any other probe.
        hashes = {(item.task, item.id): item.content_hash for item in probe}
        table = named(look, _TASK).table
        keys = zip(table["task"].to_pylist(), table["item_id"].to_pylist(), strict=True)
        column = pa.array([hashes.get(key, key[1]) for key in keys], pa.string())
        position = table.column_names.index("content_hash")
        table = table.set_column(position, "content_hash", column)
        meta = {**look.meta, "probe": of_probe, "step": step, SAMPLED: True}
        return replace(look, table=table, meta=meta)


def _item(row: Mapping[str, Any]) -> Item:
    question = QuestionText.from_column(row["question"] or row["item_id"])
    return Item(
        id=row["item_id"],
        task=row["task"],
        category=row["category"],
        prompt=question.prompt or "-",
        answer=question.answers[:1] or "-",
        match="exact",
    )

"""Logs of Inspect, ``.eval`` (a ZIP file) and ``.json``, to a Snapshot.

    header.json                 task, model, status; before the end of a run: _journal/start.json
    summaries.json              a line on each sample; before the end: _journal/summaries/1.json, 2.json, ...
    samples/<id>_epoch_1.json   all of it, transcripts too

The summaries are enough, but where they shorten a question, or an older version kept its options out of them: then the
samples are read. A metric is a scorer, or scorer/key where its value is an object. Right is "C", "yes", "true" or 1;
wrong is "I", "no", "false" or 0. "P" (partly right) and "N" (no answer) count as wrong, and a note says how many there
are; Inspect's own accuracy gives "P" half a point. A sample without scores, after an error say, is unscored. Epochs
are samples. Ids are often positions, so rows pair by a hash of input, target and choices.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.readers.archive import Archive
from forgetwatch.readers.inspect_sample import WANTED, Sample, clean, is_shortened
from forgetwatch.readers.json_pieces import Progress, built, parts, picked
from forgetwatch.readers.log import Log
from forgetwatch.readers.question_text import Kept
from forgetwatch.snapshot import Snapshot

Spans = Mapping[str, tuple[int, int]]
"""Where the values of an object begin and end, by name."""

_HEADERS: Final = ("header.json", "_journal/start.json")
_SUMMARIES: Final = "summaries.json"
_JOURNAL: Final = re.compile(r"_journal/summaries/(\d{1,9})\.json")
_SAMPLE: Final = re.compile(r"samples/.+\.json")
_ZIP: Final = b"PK\x03\x04"
_OPENING: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{(?:\s*"(?:version|status|invalidated|location)"\s*:\s*(?:\d+|"[^"]*"|true|false|null)\s*,)+'
    rb'\s*"eval"\s*:\s*\{'
)
"""How a JSON log begins."""
_GRADES: Final = {"P": "partly right (P)", "N": "no answer (N)"}


def recognises(path: Path) -> bool:
    """Whether a file is a log of Inspect, by its content."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.startswith(_ZIP):
        return _OPENING.match(head) is not None
    with Archive(path) as archive:
        return not archive.names.isdisjoint(_HEADERS)


def read(path: Path, *, metric: str | None, progress: Progress | None = None, kept: Kept | None = None) -> Snapshot:
    """The outcomes in a log.

    Args:
        path: The file.
        metric: What makes `correct`, a scorer or scorer/key; None for the default of `readers.log`.
        progress: Called with the samples (in JSON the bytes) that are read, and how many there are in all.
        kept: Keeps some of the questions.

    Raises:
        SnapshotError: If the file is cut, damaged or without samples, or the metric is no correctness.
    """
    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    try:
        if is_zip:
            with Archive(path) as archive:
                return _snapshot(path, _header(archive), _of_archive(archive, progress), metric, kept)
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
        top = {name: (start, end) for name, start, end in parts(data, 0)}
        return _snapshot(path, _described(data, top), _of_json(data, top, progress), metric, kept)
    except ValueError as error:
        raise SnapshotError(f"{path}: not a log of Inspect that can be read; is it cut? ({error})") from error


def _snapshot(
    path: Path, header: Mapping[str, Any], samples: Iterable[Sample], metric: str | None, kept: Kept | None
) -> Snapshot:
    log, grades = Log(path, "inspect", kept), Counter[tuple[str, str]]()
    task, scorer = clean(str(header.get("task") or "")), None if metric is None else metric.split("/")[0]
    judged = False
    for sample in samples:
        k = len(sample.choices) or None
        log.add(
            task=task,
            item_id=sample.item_id,
            question=sample.question,
            metrics=sample.scores,
            sample=sample.epoch - 1,
            unscored=sample.unscored,
            k=k,
            gold=sample.golds[0] if sample.golds else None,
            golds=list(sample.golds) if len(sample.golds) > 1 else None,
            chosen=sample.chosen(scorer) if k else None,
            output=sample.answer(scorer) if sample.output is None else sample.output,
        )
        grades.update(sample.grades.items())
        judged = judged or bool(sample.scores)
    if not len(log):
        raise SnapshotError(f"{path}: the log has no samples; was it written with log_samples off, or cut at once?")
    if not judged:
        raise SnapshotError(f"{path}: none of its {len(log):,} samples has a score; score it first (`inspect score`)")
    used = log.metric(metric)
    notes = [
        f"{count:,} answers are {_GRADES[grade]} by {name} and count as wrong"
        for (name, grade), count in sorted(grades.items())
        if name == used
    ]
    if (status := header.get("status")) != "success":
        notes.append(f"the run did not end well: its status is {status or 'started'!r:.40}")
    meta = {"model": header.get("model"), "time": header.get("created")}
    return log.snapshot(used, {name: value for name, value in meta.items() if isinstance(value, str)}, tuple(notes))


def _header(archive: Archive) -> dict[str, Any]:
    name = next((name for name in _HEADERS if name in archive.names), None)
    if name is None:
        raise SnapshotError(f"{archive.path}: a ZIP file without {' or '.join(_HEADERS)}; needed a log of Inspect")
    data = archive.read(name)
    return _described(data, {name: (start, end) for name, start, end in parts(data, 0)})


def _described(data: bytes, top: Spans) -> dict[str, Any]:
    """The status, and what is said of the evaluation but for the list of its sample ids, which may be long."""
    status = {"status": built(data, *top["status"])} if "status" in top else {}
    return status | (picked(data, *top["eval"], ("task", "model", "created")) if "eval" in top else {})


def _of_archive(archive: Archive, progress: Progress | None) -> Iterator[Sample]:
    """The samples of the summaries, or where there are none, of the samples' own files."""
    whole = sorted(name for name in archive.names if _SAMPLE.fullmatch(name))
    kept = _kept(archive)
    total, number, optionless = len(kept) or len(whole), 0, None
    for place, record in _summaries(archive, WANTED):
        if place in kept:
            number += 1
            name = f"samples/{record.get('id')}_epoch_{record.get('epoch')}.json"
            if name in archive.names:
                if optionless is None:  # older versions kept the options out of the summaries
                    optionless = "choices" not in record and bool(_whole(archive, name).get("choices"))
                if optionless or is_shortened(record):
                    record = _whole(archive, name)
            yield Sample.from_record(record)
            _tell(progress, number, total)
    for name in whole if not kept else []:
        number += 1
        yield Sample.from_record(_whole(archive, name))
        _tell(progress, number, total)


def _whole(archive: Archive, name: str) -> dict[str, Any]:
    data = archive.read(name)
    return picked(data, 0, len(data), WANTED)


def _kept(archive: Archive) -> frozenset[int]:
    """The places of the summaries to read: of a sample that was run again, the last."""
    last = {(str(one.get("id")), str(one.get("epoch"))): place for place, one in _summaries(archive, ("id", "epoch"))}
    return frozenset(last.values())


def _summaries(archive: Archive, wanted: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The place and the wanted fields of each summary, in the order in which they were written."""
    written = sorted((int(named[1]), named[0]) for name in archive.names if (named := _JOURNAL.fullmatch(name)))
    place = 0
    for name in [_SUMMARIES] if _SUMMARIES in archive.names else [name for _, name in written]:
        data = archive.read(name)
        for _, start, end in parts(data, 0):
            yield place, picked(data, start, end, wanted)
            place += 1


def _of_json(data: bytes, top: Spans, progress: Progress | None) -> Iterator[Sample]:
    if "samples" in top:
        for _, start, end in parts(data, top["samples"][0]):
            yield Sample.from_record(picked(data, start, end, WANTED))
            _tell(progress, end, len(data))


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)

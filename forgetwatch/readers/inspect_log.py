"""Logs of Inspect, ``.eval`` (a ZIP file) and ``.json``, to a Snapshot.

    header.json                 task, model, status; before the end of a run: _journal/start.json
    summaries.json              a record of each sample; before the end: _journal/summaries/1.json, 2.json, ...
    samples/<id>_epoch_1.json   the whole sample, with its transcript

The summaries are enough unless they shorten a question, or an older version left its options out: then the whole
samples are read. A metric is a scorer, or scorer/key if the scorer's value is an object. Right is "C", "yes", "true" or
1; wrong is "I", "no", "false" or 0. "P" (partly right) and "N" (no answer) count as wrong, and a note gives their
number; Inspect's own accuracy gives "P" half a point. A sample without scores, as after an error, is unscored. Epochs
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
from forgetwatch.files import file_errors, read_content
from forgetwatch.readers.archive import Archive
from forgetwatch.readers.inspect_sample import FIELDS, Sample, clean, is_shortened
from forgetwatch.readers.json_pieces import build, pick, spans
from forgetwatch.readers.log import Log, Reading
from forgetwatch.snapshot import Snapshot

Spans = Mapping[str, tuple[int, int]]
"""(start, end) of the values of an object in bytes, by name."""

_HEADERS: Final = ("header.json", "_journal/start.json")
_SUMMARIES: Final = "summaries.json"
_JOURNAL: Final = re.compile(r"_journal/summaries/(\d{1,9})\.json")
_SAMPLE: Final = re.compile(r"samples/.+\.json")
_ZIP: Final = b"PK\x03\x04"
_OPENING: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{(?:\s*"(?:version|status|invalidated|location)"\s*:\s*(?:\d+|"[^"]*"|true|false|null)\s*,)+'
    rb'\s*"eval"\s*:\s*\{'
)
"""Beginning of a JSON log: a few scalar members, then `eval`. A prefix of the file is enough to recognise it."""
_GRADES: Final = {"P": "partly right (P)", "N": "no answer (N)"}


def is_inspect_log(path: Path) -> bool:
    """True if a file is a log of Inspect, by its content."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.startswith(_ZIP):
        return _OPENING.match(head) is not None
    with Archive(path) as archive:
        return not archive.names.isdisjoint(_HEADERS)


def read(path: Path, reading: Reading) -> Snapshot:
    """The outcomes in a log.

    Args:
        path: The file.
        reading: Metric (a scorer or scorer/key), progress in samples (of JSON in bytes), and questions to keep.

    Raises:
        SnapshotError: If the file is cut, damaged or without samples, or the metric is no correctness.
    """
    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    with file_errors(path, "a log of Inspect"):
        if is_zip:
            with Archive(path) as archive:
                return _snapshot(path, _header(archive), _archive_samples(archive, reading), reading)
        data = read_content(path, "a log of Inspect").removeprefix(codecs.BOM_UTF8)
        top = {name: (start, end) for name, start, end in spans(data, 0)}
        return _snapshot(path, _description(data, top), _json_samples(data, top, reading), reading)


def _snapshot(path: Path, header: Mapping[str, Any], samples: Iterable[Sample], reading: Reading) -> Snapshot:
    log, grades = Log(path, "inspect", reading.questions), Counter[tuple[str, str]]()
    task = clean(str(header.get("task") or ""))
    scorer = None if reading.metric is None else reading.metric.split("/")[0]
    has_scores = False
    for sample in samples:
        k = len(sample.choices) or None
        log.add(
            task=task,
            item_id=sample.item_id,
            question=sample.question,
            metrics=sample.scores,
            sample=sample.epoch - 1,  # epochs count from 1, samples from 0
            unscored=sample.unscored,
            k=k,
            gold=sample.golds[0] if sample.golds else None,
            golds=list(sample.golds) if len(sample.golds) > 1 else None,
            chosen=sample.chosen(scorer) if k else None,  # a letter in an open answer names no option
            output=sample.answer(scorer) if sample.output is None else sample.output,
        )
        grades.update(sample.grades.items())
        has_scores = has_scores or bool(sample.scores)
    if not len(log):
        raise SnapshotError(f"{path}: the log has no samples; was it written with log_samples off, or cut at once?")
    if not has_scores:
        raise SnapshotError(f"{path}: none of its {len(log):,} samples has a score; score it first (`inspect score`)")
    metric = log.metric(reading.metric)
    notes = [
        f"{count:,} answers are {_GRADES[grade]} by {name} and count as wrong"
        for (name, grade), count in sorted(grades.items())
        if name == metric
    ]
    if (status := header.get("status")) != "success":
        notes.append(f"the run did not end well: its status is {status or 'started'!r:.40}")
    meta = {"model": header.get("model"), "time": header.get("created")}
    return log.snapshot(metric, {name: value for name, value in meta.items() if isinstance(value, str)}, tuple(notes))


def _header(archive: Archive) -> dict[str, Any]:
    """Description of the run in an archive."""
    name = next((name for name in _HEADERS if name in archive.names), None)
    if name is None:
        raise SnapshotError(f"{archive.path}: a ZIP file without {' or '.join(_HEADERS)}; needed a log of Inspect")
    data = archive.read(name)
    return _description(data, {name: (start, end) for name, start, end in spans(data, 0)})


def _description(data: bytes, top: Spans) -> dict[str, Any]:
    """Status, task, model and time of a run; the list of its sample ids may be long, and is not built."""
    status = {"status": build(data, *top["status"])} if "status" in top else {}
    return status | (pick(data, *top["eval"], ("task", "model", "created")) if "eval" in top else {})


def _archive_samples(archive: Archive, reading: Reading) -> Iterator[Sample]:
    """The samples of an archive, from its summaries; if there are none, from the samples' own files."""
    files = sorted(name for name in archive.names if _SAMPLE.fullmatch(name))
    latest = _latest_summaries(archive)
    total, number, optionless = len(latest) or len(files), 0, None
    # Two passes over the summaries: which one counts is known only after the last.
    for index, record in _summaries(archive, FIELDS):
        if index in latest:
            number += 1
            name = f"samples/{record.get('id')}_epoch_{record.get('epoch')}.json"
            if name in archive.names:
                if optionless is None:  # older versions kept the options out of the summaries
                    optionless = "choices" not in record and bool(_whole_sample(archive, name).get("choices"))
                if optionless or is_shortened(record):
                    record = _whole_sample(archive, name)
            yield Sample.from_record(record)
            reading.report(number, total)
    for name in files if not latest else []:
        number += 1
        yield Sample.from_record(_whole_sample(archive, name))
        reading.report(number, total)


def _whole_sample(archive: Archive, name: str) -> dict[str, Any]:
    data = archive.read(name)
    return pick(data, 0, len(data), FIELDS)


def _latest_summaries(archive: Archive) -> frozenset[int]:
    """Indices of the summaries to read: of a sample that was run again, only the last."""
    last = {
        (str(record.get("id")), str(record.get("epoch"))): index
        for index, record in _summaries(archive, ("id", "epoch"))
    }
    return frozenset(last.values())


def _summaries(archive: Archive, fields: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(index, fields) of each summary, in the order in which they were written."""
    # By number: sorted as text, 10.json would come before 2.json.
    journal = sorted((int(match[1]), match[0]) for name in archive.names if (match := _JOURNAL.fullmatch(name)))
    index = 0
    for name in [_SUMMARIES] if _SUMMARIES in archive.names else [name for _, name in journal]:
        data = archive.read(name)
        for _, start, end in spans(data, 0):
            yield index, pick(data, start, end, fields)
            index += 1


def _json_samples(data: bytes, top: Spans, reading: Reading) -> Iterator[Sample]:
    if "samples" in top:
        # Cut out of the bytes one by one, so that the transcripts are never decoded.
        for _, start, end in spans(data, top["samples"][0]):
            yield Sample.from_record(pick(data, start, end, FIELDS))
            reading.report(end, len(data))

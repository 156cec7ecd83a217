"""Logs of Inspect, ``.eval`` (a ZIP file) and ``.json``, to a Snapshot.

    header.json                 task, model, status; before the end of a run: _journal/start.json
    summaries.json              a record of each sample; before the end: _journal/summaries/1.json, 2.json, ...
    samples/<id>_epoch_1.json   the whole sample, with its transcript

The summaries are enough unless they shorten a question, or an older version left its options out:
then the whole samples are read. A metric is a scorer, or scorer/key if the scorer's value is an
object. Right is "C", "yes", "true" or 1; wrong is "I", "no", "false" or 0. "P" (partly right) is a score of
0.5, "N" (no answer) is wrong. A sample without scores, as
after an error, is unscored. Epochs are samples. Ids are often positions, so rows pair by a hash of
input, target and choices. Message ids are new in every run, and a text may be given alone or in a
list: `_plain` keeps the content that a model is shown.
"""

from __future__ import annotations

import codecs
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from forgetwatch.errors import SnapshotError
from forgetwatch.files.json_pieces import build, pick, spans
from forgetwatch.files.reading import file_errors, read_content, read_head, unpacked_limit
from forgetwatch.readers.log import Log, Reading
from forgetwatch.snapshot import Snapshot

Spans = Mapping[str, tuple[int, int]]
"""(start, end) of the values of an object in bytes, by name."""

_HEADERS: Final = ("header.json", "_journal/start.json")
_SUMMARIES: Final = "summaries.json"
_JOURNAL: Final = re.compile(r"_journal/summaries/(\d{1,9})\.json")
_SAMPLE: Final = re.compile(r"samples/.+\.json")
_ZIP: Final = b"PK\x03\x04"
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""Header of 30 bytes before each member: signature, then the lengths of the name and the extra field after it."""
_STORED: Final = 0
_DEFLATED: Final = 8
_ZSTANDARD: Final = 93
_BLOCK: Final = 2**20
_OPENING: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{(?:\s*"(?:version|status|invalidated|location)"\s*:\s*(?:\d+|"[^"]*"|true|false|null)\s*,)+'
    rb'\s*"eval"\s*:\s*\{'
)
"""Beginning of a JSON log: a few scalar members, then `eval`. A prefix of the file is enough to recognise it."""
_FIELDS: Final = frozenset(
    (
        "id",
        "epoch",
        "input",
        "choices",
        "target",
        "score",
        "scores",
        "error",
        "completed",
        "invalidation",
        "output",
    )
)
"""The fields that are read; transcripts are stepped over."""
_SHORTENED: Final = "...\n(content truncated)"
"""End of a text that a summary shortens."""
_MEDIUM: Final = re.compile(r"\([A-Z][a-z_]+\)")
"""Placeholder of an image or a document in a summary."""
_MOST_EPOCHS: Final = 2**31
"""Bound of an epoch: the column `sample` of a snapshot is int32."""


def is_inspect_log(path: Path) -> bool:
    """Is a file a log of Inspect, by content?"""
    head = read_head(path)
    if not head.startswith(_ZIP):
        return _OPENING.match(head) is not None
    with Archive(path) as archive:
        return not archive.names.isdisjoint(_HEADERS)


def read(path: Path, reading: Reading) -> Snapshot:
    """Read the outcomes in a log.

    The metric is a scorer or scorer/key; progress is in samples, of JSON in bytes.

    Its metric is a scorer or scorer/key, its progress in samples (of JSON in bytes).
    """
    with file_errors(path, "a log of Inspect"):
        if read_head(path).startswith(_ZIP):
            with Archive(path) as archive:
                return _snapshot(
                    path, _header(archive), _archive_samples(archive, reading), reading
                )
        data = read_content(path, "a log of Inspect").removeprefix(codecs.BOM_UTF8)
        top = {name: (start, end) for name, start, end in spans(data, 0)}
        return _snapshot(path, _description(data, top), _json_samples(data, top, reading), reading)


def _snapshot(
    path: Path, header: Mapping[str, Any], samples: Iterable[_Sample], reading: Reading
) -> Snapshot:
    log, notes = Log(path, "inspect", reading), list[str]()
    task = _clean(str(header.get("task") or ""))
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
            chosen=sample.chosen(scorer)
            if k
            else None,  # a letter in an open answer names no option
            output=sample.answer(scorer) if sample.output is None else sample.output,
        )
        has_scores = has_scores or bool(sample.scores)
    if not len(log):
        raise SnapshotError(
            f"{path}: the log has no samples; was it written with log_samples off, or cut at once?"
        )
    if not has_scores:
        raise SnapshotError(
            f"{path}: none of its {len(log):,} samples has a score; score it first (`inspect "
            "score`)"
        )
    metric = log.metric(reading.metric)
    if (status := header.get("status")) != "success":
        notes.append(f"the run did not end well: its status is {status or 'started'!r:.40}")
    meta = {"model": header.get("model"), "time": header.get("created")}
    return log.snapshot(
        metric,
        {name: value for name, value in meta.items() if isinstance(value, str)},
        tuple(notes),
    )


def _header(archive: Archive) -> dict[str, Any]:
    name = next((name for name in _HEADERS if name in archive.names), None)
    if name is None:
        raise SnapshotError(
            f"{archive.path}: a ZIP file without {' or '.join(_HEADERS)}; needed a log of Inspect"
        )
    data = archive.read(name)
    return _description(data, {name: (start, end) for name, start, end in spans(data, 0)})


def _description(data: bytes, top: Spans) -> dict[str, Any]:
    # The list of sample ids may be long, and is not built.
    status = {"status": build(data, *top["status"])} if "status" in top else {}
    return status | (
        pick(data, *top["eval"], ("task", "model", "created")) if "eval" in top else {}
    )


def _archive_samples(archive: Archive, reading: Reading) -> Iterator[_Sample]:
    # From the summaries; if there are none, from the samples' own files.
    # Two passes over the summaries: of a sample that was run again, only the last counts.
    latest = {
        (str(record.get("id")), str(record.get("epoch"))): index
        for index, record in _summaries(archive, ("id", "epoch"))
    }
    counting, number, optionless = frozenset(latest.values()), 0, None
    for index, record in _summaries(archive, _FIELDS):
        if index in counting:
            number += 1
            name = f"samples/{record.get('id')}_epoch_{record.get('epoch')}.json"
            if name in archive.names:
                if optionless is None:  # older versions kept the options out of the summaries
                    optionless = "choices" not in record and bool(
                        _whole_sample(archive, name).get("choices")
                    )
                if optionless or _is_shortened(record):
                    record = _whole_sample(archive, name)
            yield _Sample.from_record(record)
            reading.report(number, len(counting))
    if not counting:
        files = sorted(name for name in archive.names if _SAMPLE.fullmatch(name))
        for number, name in enumerate(files, start=1):
            yield _Sample.from_record(_whole_sample(archive, name))
            reading.report(number, len(files))


def _whole_sample(archive: Archive, name: str) -> dict[str, Any]:
    data = archive.read(name)
    return pick(data, 0, len(data), _FIELDS)


def _summaries(archive: Archive, fields: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    # Names are sorted by number: as text, 10.json would come before 2.json.
    journal = sorted(
        (int(match[1]), match[0]) for name in archive.names if (match := _JOURNAL.fullmatch(name))
    )
    index = 0
    for name in [_SUMMARIES] if _SUMMARIES in archive.names else [name for _, name in journal]:
        data = archive.read(name)
        for _, start, end in spans(data, 0):
            yield index, pick(data, start, end, fields)
            index += 1


def _json_samples(data: bytes, top: Spans, reading: Reading) -> Iterator[_Sample]:
    if "samples" in top:
        # Cut out of the bytes one by one, so that the transcripts are never decoded.
        for _, start, end in spans(data, top["samples"][0]):
            yield _Sample.from_record(pick(data, start, end, _FIELDS))
            reading.report(end, len(data))


class Archive:
    """An open ZIP file, whose members are stored, deflated or packed with Zstandard; they are read within bounds.

    Nothing is written to disk, so the path of a member has no effect. Python's zipfile reads
    Zstandard only from 3.14 on; pyarrow has a decoder for every version.

    Attributes:
        path: The file.
        names: Names of its members.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with file_errors(path, "a ZIP file"):
            self._zip = zipfile.ZipFile(path)
        self.names = frozenset(self._zip.namelist())
        # For all members together: many that are within their own limits could still fill the
        # memory.
        self._budget = unpacked_limit(path.stat().st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Content of a member.

        Raises:
            SnapshotError: If the member is encrypted, packed otherwise, damaged, or above the
            limit.
        """
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:  # the format's mark of encryption
            raise SnapshotError(
                f"{self.path}: its member {name!r} is encrypted; needed a log without a password"
            )
        if info.compress_type not in (_STORED, _DEFLATED, _ZSTANDARD):
            raise SnapshotError(
                f"{self.path}: its member {name!r} is packed with ZIP method "
                f"{info.compress_type}; stored, deflated and Zstandard can be read"
            )
        limit = min(unpacked_limit(info.compress_size), self._budget)
        with file_errors(self.path, f"its member {name!r}"):
            if info.compress_type == _ZSTANDARD:
                return self._read_zstandard(info, limit)
            with self._zip.open(info) as file:
                return self._read_bounded(file, info, limit)

    def _read_zstandard(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            mark, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if mark != _ZIP:
                raise zipfile.BadZipFile("no member at the offset in the directory")
            # The extra field here and in the directory may differ in length, so the data begin
            # after this one.
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        content = self._read_bounded(
            pa.CompressedInputStream(pa.py_buffer(packed), "zstd"), info, limit
        )
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile("its size or checksum is not that of the directory")
        return content

    def _read_bounded(self, file: Any, info: zipfile.ZipInfo, limit: int) -> bytes:
        # The size in the directory may be wrong, so the bytes that come out are counted.
        blocks, size = [], 0
        while block := file.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise SnapshotError(
                    f"{self.path}: its member {info.filename!r} grows from {info.compress_size:,} "
                    f"to more than {limit:,} bytes; no log does, so it is not read"
                )
            blocks.append(block)
        self._budget -= size
        return b"".join(blocks)


@dataclass(frozen=True)
class _Sample:
    """One answer of a log."""

    item_id: str  # the sample's id in the data set, often its position
    epoch: int  # from 1
    question: tuple[Any, Any, Any]  # input, targets and choices
    choices: tuple[str, ...]  # empty for an open question
    golds: tuple[int, ...]  # indices of the right options; empty if the targets name no options
    scores: Mapping[str, Any]  # by scorer, or scorer/key
    answers: Mapping[str, str]  # extracted answers by scorer
    unscored: str | None  # the reason if there is no score
    output: str | None  # generated text

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read a summary or a whole sample.

        Raises:
            ValueError: Names a field that is not what Inspect writes.
        """
        item_id, epoch = record.get("id"), record.get("epoch", 1)
        # Not isinstance: a boolean is an instance of int, and no id.
        if type(item_id) not in (int, str) or item_id == "":
            raise ValueError(f"a sample's id must be a number or text, got {item_id!r:.40}")
        if type(epoch) is not int or not 1 <= epoch < _MOST_EPOCHS:
            raise ValueError(f"sample {item_id!r:.40}: epoch must count from 1, got {epoch!r:.40}")
        choices = _texts(record, "choices")
        targets = _texts(record, "target")
        scores, answers = _scores(record)
        return cls(
            item_id=_clean(str(item_id)),
            epoch=epoch,
            question=(_plain(record.get("input")), targets, choices or None),
            choices=choices,
            golds=_options(targets, choices),
            scores=scores,
            answers=answers,
            unscored=None if scores else _reason(record),
            output=_clean(answer_text)
            if (answer_text := _output(record.get("output"))) is not None
            else None,
        )

    def chosen(self, scorer: str | None) -> int | None:
        """Index of the option that the scorer extracted.

        Returns:
            The index, or None if none or several were extracted.
        """
        indices = _options((self.answer(scorer) or "",), self.choices)
        return indices[0] if len(indices) == 1 else None

    def answer(self, scorer: str | None) -> str | None:
        """Answer that the scorer extracted.

        Returns:
            The answer, else that of the first scorer with an answer, else None.
        """
        return self.answers.get(scorer or "", next(iter(self.answers.values()), None))


def _is_shortened(record: Mapping[str, Any]) -> bool:
    # The question is shortened, or pictures are left out.
    texts = [
        record.get("input"),
        *(target if isinstance(target := record.get("target"), list) else [target]),
    ]
    for message in texts[0] if isinstance(texts[0], list) else []:
        content = message.get("content") if isinstance(message, Mapping) else None
        # Content is one text or a list of parts; both are checked as parts.
        listed = content if isinstance(content, list) else [{"text": content}]
        texts_shown = [part.get("text") for part in listed if isinstance(part, Mapping)]
        if isinstance(content, list) and any(
            isinstance(text, str) and _MEDIUM.fullmatch(text) for text in texts_shown
        ):
            return True
        texts += texts_shown
    return any(isinstance(text, str) and text.endswith(_SHORTENED) for text in texts)


def _scores(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    scores = record.get("scores")
    if scores is None:
        scores = (
            {} if record.get("score") is None else {"score": record["score"]}
        )  # before there were several scorers
    if not isinstance(scores, Mapping):
        raise ValueError(f"scores must be an object, got {scores!r:.40}")
    values: dict[str, Any] = {}
    answers = {}
    for name, score in scores.items():
        scorer = _clean(name)
        if not isinstance(score, Mapping):
            raise ValueError(f"the score of {scorer!r:.40} must be an object, got {score!r:.40}")
        value = score.get("value")
        nested = (
            {f"{scorer}/{key}": number for key, number in value.items()}
            if isinstance(value, Mapping)
            else None
        )
        values |= {scorer: value} if nested is None else nested
        if isinstance(answer := score.get("answer"), str):
            answers[scorer] = answer
    return values, answers


def _reason(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    if isinstance(error, Mapping):
        error = error.get("message")
    if error:
        return _clean("error: " + " ".join(str(error)[:200].split())[:80])
    if record.get("invalidation"):
        return "invalidated"
    return "not finished" if record.get("completed") is False else "no scores in the log"


def _plain(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_message(part) if isinstance(part, Mapping) else part for part in content]


def _message(message: Mapping[str, Any]) -> list[Any]:
    content, given = message.get("content"), message.get("tool_calls")
    listed = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    parts = [_part(part) if isinstance(part, Mapping) else part for part in listed]
    calls = [call for call in given if isinstance(call, Mapping)] if isinstance(given, list) else []
    return [
        message.get("role"),
        parts,
        [[call.get("function"), call.get("arguments")] for call in calls],
    ]


def _part(part: Mapping[str, Any]) -> Any:
    part_type = part.get("type")
    return (
        part.get("text")
        if part_type == "text"
        else [part_type, part.get(part_type) if isinstance(part_type, str) else None]
    )


def _output(output: Any) -> str | None:
    if not isinstance(output, Mapping):
        return None
    if isinstance(completion := output.get("completion"), str):
        return completion
    options = output.get("choices")
    first_option = options[0] if isinstance(options, list) and options else None
    message = first_option.get("message") if isinstance(first_option, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    listed = content if isinstance(content, list) else []
    texts = [
        part.get("text")
        for part in listed
        if isinstance(part, Mapping) and part.get("type") == "text"
    ]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def _options(named: tuple[str, ...], choices: tuple[str, ...]) -> tuple[int, ...]:
    # Letters ("A", "BD"), numbers after Z, or whole texts; empty if one of them names no option.
    found: list[int | None] = []
    # Several right options are one text ("BD", "B, D") or a list of texts.
    for text in named if choices else ():
        tokens = text.replace(",", " ").split()
        # "BD" is two letters, "12" one number.
        marks = [mark for token in tokens for mark in ([token] if token.isdecimal() else token)]
        indices = [_option_index(mark) for mark in marks] or [None]
        if all(index is not None and index < len(choices) for index in indices):
            found += indices
        else:
            found.append(
                next(
                    (n for n, choice in enumerate(choices) if choice.strip() == text.strip()), None
                )
            )
    distinct = sorted({index for index in found if index is not None})
    return tuple(distinct) if None not in found else ()


def _option_index(mark: str) -> int | None:
    # A is 0, Z is 25, "1" is 26; None for any other mark.
    # After Z the options are numbered from 1.
    if mark.isascii() and mark.isdecimal() and len(mark) < 5:
        return int(mark) + 25
    return ord(mark.upper()) - ord("A") if len(mark) == 1 and "A" <= mark.upper() <= "Z" else None


def _texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = record.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in listed):
        raise ValueError(f"{name} must be text or a list of texts, got {value!r:.40}")
    return tuple(listed)


def _clean(text: str) -> str:
    # JSON can hold lone surrogates and UTF-8 cannot.
    return text.encode("utf-8", "replace").decode()

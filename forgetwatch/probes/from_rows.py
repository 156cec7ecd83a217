r"""A table of questions as a probe: a CSV, TSV, JSONL, JSON or Parquet file, a list of dicts, a `datasets.Dataset`.

    probe_from("mine.csv")                            columns by their usual names
    probe_from(rows, columns={"prompt": "frage"})     or by names that are given

**Columns.** `USUAL_NAMES` lists the names by which a column is recognised, case aside; of several the first of the list
is taken, so that `prompt` is preferred to `text`. These tables need no `columns`:

    question, options, answer           question, A, B, C, D, answer           goal, sol1, sol2, label
    ctx, endings, label                 prompt, choice_a, choice_b, correct    question, answer

**Options** are a list, the text of a list in JSON or Python, ``{"text": [...], "label": [...]}``, or a column each. For
log-likelihoods an option that does not begin with a space gets one, so that it does not stick to the question.

**Answers** of questions with options are an option's text, its label or letter, its index from 0, or a list of these.
With the options ``['Lima', 'Santiago']`` the answers ``Santiago``, ``B`` and ``1`` are the same. Without options the
answer is open, and graded by the column `match`, or else by its form: ``5``, ``$5`` and ``5 %`` as a number,
``Apollo 11`` as words that the output must contain.

**Prompts.** A bare question ("...?") with options is framed as in the shipped probes, "Question: ...\nAnswer:". A
column that is named `prompt` is taken as it is.

An error lists the mistakes of the first five wrong rows.
"""

from __future__ import annotations

import ast
import csv
import difflib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.files import (
    UnsuitableError,
    file_errors,
    parquet_batches,
    read_parquet,
    read_text,
    regular_size,
    unique_keys,
)
from forgetwatch.grading import find_numbers, normalise_numbers
from forgetwatch.item import Item, Rendering
from forgetwatch.probe import LETTERS, Norm, Probe, Scoring
from forgetwatch.probes.overlap import training_text

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of rows."""

_NEEDED: Final = "a table of questions"

Rows = list[tuple[str, Mapping[str, Any]]]
"""Rows, each after its position in the file, for messages."""

_LARGEST_CELL: Final = 10_000_000
"""Maximum number of characters of a CSV cell; the default of `csv` is too small for passages."""

_SHOWN: Final = 5
"""Maximum number of wrong rows whose mistakes an error lists."""

USUAL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": (
        *("prompt", "question", "query", "problem", "goal", "question_stem", "input", "instruction", "ctx"),
        *("sentence", "messages", "text"),
    ),
    "choices": ("choices", "options", "endings", "candidates", "answers_options", "answer_options"),
    "answer": (
        *("answer", "answer_index", "answer_idx", "answerkey", "answer_key", "label", "gold", "correct"),
        *("correct_answer", "correct_option", "target", "solution", "output", "response", "completion"),
    ),
    "id": ("id", "item_id", "question_id", "uid", "key", "idx"),
    "task": ("task", "subject", "subset", "dataset", "source"),
    "category": ("category", "topic", "domain"),
    "match": ("match",),
    "cluster": ("cluster", "passage_id", "story_id", "group"),
    "system": ("system", "system_prompt"),
    "must_pass": ("must_pass",),
    "reasoning": ("reasoning", "rationale", "explanation"),
}
"""The parts of an item that a column can hold, and the usual names of such a column in lower case."""

_NUMBERED: Final = re.compile(r"(?:choice|option|answer|opt|sol|ending|mc_answer)?[ _]?([a-j]|[0-9]|10)", re.IGNORECASE)
"""Names of columns that hold one option each."""


def probe_from(
    source: str | Path | Iterable[Mapping[str, Any]],
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    name: str = "",
    task: str = "",
    category: str = "",
    scoring: Scoring = "loglikelihood",
    norm: Norm = "sum",
    rendering: Rendering | None = None,
    decoding: Decoding | Mapping[str, Any] | None = None,
) -> Probe:
    """Make a probe of a table's rows.

    Args:
        source: A file (CSV, TSV, JSONL, JSON, Parquet), or rows: a list of dicts, a `datasets.Dataset`.
        columns: Names of columns by the part of an item that they contain, if they have no usual name; ``choices`` may
            be several columns.
        name: Name of the probe; by default the file's.
        task: The task of rows without one; by default the probe's name.
        category: The category of rows without one.
        scoring: See `Probe`.
        norm: See `Probe`.
        rendering: See `Probe`; by default plain, and chat where prompts are messages.
        decoding: See `Probe`.

    Raises:
        ProbeError: If there is no row, a column is missing, or rows are wrong; names the first of them.
    """
    rows, where = _rows(source)
    name = name or (Path(source).stem if isinstance(source, (str, Path)) else "mine")
    if not rows:
        raise ProbeError(f"{where}: needed rows, and there are none")
    of, option_columns = _find_columns(dict.fromkeys(key for _, row in rows for key in row), columns or {}, where)
    items: list[Item] = []
    wrong: list[str] = []
    for number, (place, row) in enumerate(rows):
        reader = _RowReader(row, of, option_columns, space=scoring == "loglikelihood")
        item = reader.item(default_id=str(number), task=task or name, category=category)
        if item is None:
            wrong.append(f"{place}: {', '.join(reader.mistakes)}")
        else:
            items.append(item)
    times = Counter((item.task, item.id) for item in items)
    wrong += [f"id {id_!r} occurs {n} times in task {own!r}" for (own, id_), n in times.items() if n > 1]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise ProbeError(
            f"{where}: {len(wrong):,} of {len(rows):,} rows cannot be used: {'; '.join(wrong[:_SHOWN])}{more}"
        )
    chat = any(item.system or not isinstance(item.prompt, str) for item in items)
    return Probe(
        items,
        name=name,
        scoring=scoring,
        norm=norm,
        rendering=rendering or ("chat" if chat else "plain"),
        decoding=decoding,
    )


def _rows(source: Any) -> tuple[Rows, str]:
    """The rows, each with its position for messages, and the name of the table."""
    if isinstance(source, (str, Path)):
        return read_rows(source), str(source)
    rows = [(f"row {number}", row) for number, row in enumerate(source)]
    if bad := [type(row).__name__ for _, row in rows if not isinstance(row, Mapping)]:
        raise ProbeError(f"rows: needed one dict a question, got {bad[0]}; of a DatasetDict give one split")
    return rows, "rows"


def _find_columns(
    names: Iterable[str], given: Mapping[str, str | Sequence[str]], where: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(Column by the part of an item that it holds, the columns that hold one option each, if there are such).

    Columns that are given are taken, and the other parts are searched by their usual names.
    """
    names = list(names)
    if unknown := sorted(set(given) - set(USUAL_NAMES)):
        near = did_you_mean(unknown[0], USUAL_NAMES)
        raise ProbeError(f"{where}: {unknown[0]!r} is not a part of an item{near}; there are {', '.join(USUAL_NAMES)}")
    wanted = {part: [given[part]] if isinstance(given[part], str) else list(given[part]) for part in given}
    if missing := [name for part in wanted.values() for name in part if name not in names]:
        near = did_you_mean(str(missing[0]), names)
        raise ProbeError(f"{where}: no column {missing[0]!r}{near}; there are {', '.join(names)}")
    taken = {name for part in wanted.values() for name in part}
    # A column that is given for one part is never guessed for another.
    lower = {name.lower().strip(): name for name in names if name not in taken}
    of = {part: str(columns[0]) for part, columns in wanted.items() if len(columns) == 1}
    for part, usual in USUAL_NAMES.items():
        if part not in wanted and (found := next((lower[name] for name in usual if name in lower), None)):
            of[part] = found
    options = tuple(map(str, wanted.get("choices", ())))
    if len(options) < 2:
        numbered = ((_NUMBERED.fullmatch(name.strip()), name) for name in names if name not in {*of.values(), *taken})
        # Padded to two characters, so that option 10 comes after option 9.
        in_order = sorted((match[1].upper().zfill(2), name) for match, name in numbered if match)
        options = tuple(name for _, name in in_order) if len(in_order) > 1 and "choices" not in of else ()
    for part in ("prompt", "answer"):
        if part not in of:
            usual = USUAL_NAMES[part]
            close = [name for name in names if difflib.get_close_matches(name.lower().strip(), usual, n=1, cutoff=0.7)]
            quoted, bare = (repr(close[0]), close[0]) if close else ("...", "...")
            raise ProbeError(
                f"{where}: no column that is known to hold the {part}; there are {', '.join(names)}; name it: "
                f"columns={{{part!r}: {quoted}}}, in the shell --column {part}={bare}"
            )
    return of, options


class _RowReader:
    """Reads one row to an item, and collects what is wrong with it."""

    def __init__(self, row: Mapping[str, Any], of: Mapping[str, str], options: Sequence[str], *, space: bool) -> None:
        self._values = {part: row.get(column) for part, column in of.items()}
        self._option_cells = [row.get(column) for column in options]
        self._of = of
        self._options = options
        self._space = space
        self.mistakes: list[str] = []

    def item(self, *, default_id: str, task: str, category: str) -> Item | None:
        """The item; None where something is wrong, and `mistakes` then lists it."""
        prompt, (choices, labels) = self._prompt(), self._choices()
        answer, match = self._answer(choices, labels)
        if self.mistakes:
            return None
        if choices and self._space and isinstance(prompt, str):
            if self._of["prompt"].lower().strip() != "prompt" and prompt.rstrip().endswith("?"):
                prompt = f"Question: {prompt.strip()}\nAnswer:"
            if not prompt[-1:].isspace():
                choices = tuple(choice if choice[:1].isspace() else f" {choice}" for choice in choices)
        reasoning = self._text("reasoning")
        try:
            return Item(
                id=self._text("id") or default_id,
                task=self._text("task") or task,
                category=self._text("category") or category,
                prompt=prompt,
                choices=choices,
                answer=answer,
                match=match,
                cluster=self._text("cluster") or None,
                system=self._text("system") or None,
                must_pass=self._text("must_pass").lower() in ("1", "true", "yes"),
                meta={"reasoning": reasoning} if reasoning else {},
            )
        except ProbeError as error:
            self.mistakes.append(str(error))
            return None

    def _text(self, part: str) -> str:
        value = self._values.get(part)
        return "" if value is None else str(value).strip()

    def _prompt(self) -> Any:
        value = self._values["prompt"]
        if isinstance(value, (list, tuple)) and value:
            return tuple(value)
        if not isinstance(value, str) or not value.strip():
            self.mistakes.append(f"column {self._of['prompt']!r} holds no question ({_short(value)})")
        return value

    def _choices(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The options, and the labels that the table itself gives them."""
        if self._options:
            given = tuple(str(cell) for cell in self._option_cells if _is_filled(cell))
            if not given:
                self.mistakes.append(f"columns {', '.join(self._options)} hold no option")
            return given, ()
        if "choices" not in self._of:
            return (), ()
        value = _parse_literal(self._values["choices"])
        labels: tuple[str, ...] = ()
        if isinstance(value, Mapping) and {"text", "label"} <= set(value):
            value, labels = value["text"], tuple(map(str, value["label"] or ()))
        elif isinstance(value, Mapping):
            labels, value = tuple(map(str, value)), list(value.values())
        if not isinstance(value, (list, tuple)) or not value or not all(map(_is_filled, value)):
            column = self._of["choices"]
            self.mistakes.append(f"column {column!r} holds no list of options ({_short(self._values['choices'])})")
            return (), ()
        return tuple(map(str, value)), labels

    def _answer(self, choices: Sequence[str], labels: Sequence[str]) -> tuple[Any, str | None]:
        """The answer (indices of options, or texts of an open answer), and the match of an open one."""
        value, column = _parse_literal(self._values["answer"]), self._of["answer"]
        if not _is_filled(value) or value in ([], ()):
            self.mistakes.append(f"column {column!r} holds no answer ({_short(value)})")
            return None, None
        if not choices:
            if self._options or "choices" in self._of:
                return None, None  # `_choices` has reported that the options are missing
            match = self._text("match")
            texts = _open_answers(self._values["answer"], is_json=match.startswith("json"))
            by_form = "number" if all(_is_number(normalise_numbers(text.strip())) for text in texts) else "contains"
            return texts if len(texts) > 1 else texts[0], match or by_form
        given = list(value) if isinstance(value, (list, tuple)) else [value]
        indices = [_option_of(answer, choices, labels) for answer in given]
        if wrong := [answer for answer, index in zip(given, indices, strict=True) if index is None]:
            self.mistakes.append(
                f"column {column!r} holds {_short(wrong[0])}, which is not one of the {len(choices)} options, nor "
                "their letter, nor their index from 0"
            )
            return None, None
        return indices[0] if len(indices) == 1 else indices, None


def _option_of(answer: Any, choices: Sequence[str], labels: Sequence[str]) -> int | None:
    """Index of the option that an answer names; None if it names none.

    The text of an option takes precedence over its label, that over the letter, and that over the index: with the
    options 2, 1, 0 the text ``"0"`` is the third option and the number 0 the first.
    """
    # A column of whole numbers with an empty cell may be read as floats.
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, bool) or not isinstance(answer, (int, str)):
        return None
    if isinstance(answer, str):
        text = answer.strip()
        texts = [choice.strip() for choice in choices]
        if texts.count(text) == 1:
            return texts.index(text)
        if text in labels:
            return labels.index(text)
        bare = text.strip("().").upper()  # "(b)" and "B." are letters too
        if len(bare) == 1 and bare in LETTERS[: len(choices)]:
            return LETTERS.index(bare)
        if not text.isascii() or not text.isdigit():
            return None
        answer = int(text)
    return answer if 0 <= answer < len(choices) else None


def _open_answers(value: Any, *, is_json: bool) -> tuple[str, ...]:
    """The texts of an open answer: one, or each of a list. A JSON value is one text, unless it is a list of texts."""
    given = value if is_json else _parse_literal(value)
    if isinstance(given, (list, tuple)) and (not is_json or all(isinstance(text, str) for text in given)):
        return tuple(map(str, given))
    if isinstance(given, str) or not (is_json or isinstance(given, Mapping)):
        return (str(given),)
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),)


def _is_number(text: str) -> bool:
    """True for one number with at most a sign next to it: ``$5``, ``5 %``, not ``Apollo 11``."""
    found = find_numbers(text)
    return len(found) == 1 and len(text) <= found[0].end + 2 and not any(map(str.isalpha, text[: found[0].start]))


def _is_filled(cell: Any) -> bool:
    return cell is not None and bool(str(cell).strip())


def _parse_literal(value: Any) -> Any:
    """The list or object that a text spells in JSON or Python; any other value unchanged."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    # CSV files written from Python contain lists as `['a', 'b']`, which is not JSON.
    for read in (json.loads, ast.literal_eval):
        try:
            return read(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def _short(value: Any) -> str:
    """A value for a message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def read_rows(path: str | Path) -> Rows:
    """Read the rows of a file in the format of its suffix; ProbeError if it cannot be read in that format."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ProbeError(f"{path}: needed a file that ends in {', '.join(SUFFIXES)}")
    with file_errors(path, _NEEDED, ProbeError):
        if path.suffix == ".parquet":
            return [(f"row {number}", row) for number, row in enumerate(read_parquet(path).to_pylist())]
        text = read_text(path, _NEEDED, ProbeError)
        if path.suffix in (".csv", ".tsv"):
            return _csv(text, path)
        if path.suffix != ".json":
            lines = enumerate(text.split("\n"), start=1)
            return [(f"line {n}", _object(line, f"{path}, line {n}")) for n, line in lines if line.strip()]
        try:
            given = json.loads(text, object_pairs_hook=unique_keys)
        except UnsuitableError as error:
            raise ProbeError(f"{path}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ProbeError(f"{path}: not JSON ({error}); is the file cut?") from error
        if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
            raise ProbeError(f"{path}: needed a list of objects, one a question")
        return [(f"row {number}", row) for number, row in enumerate(given)]


def _csv(text: str, path: Path) -> Rows:
    # The separator that is most frequent in the header: spreadsheets of some languages write semicolons.
    first = text.partition("\n")[0]
    delimiter = "\t" if path.suffix == ".tsv" else max(",;\t", key=first.count)
    csv.field_size_limit(_LARGEST_CELL)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found: Rows = []
    try:
        names = reader.fieldnames or ()
        if twice := [name for name in names if list(names).count(name) > 1]:
            raise ProbeError(f"{path}: the column {twice[0]!r} is in the header twice; rename one of them")
        for row in reader:
            if None in row:
                raise ProbeError(
                    f"{path}, line {reader.line_num}: more cells than the {len(names)} columns; put "
                    "cells that hold the separator in quotes"
                )
            found.append((f"line {reader.line_num}", row))
    except csv.Error as error:
        raise ProbeError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except UnsuitableError as error:
        raise ProbeError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"{where}: not a JSON object ({error}); is the file cut?") from error
    if not isinstance(row, dict):
        raise ProbeError(f"{where}: needed a JSON object, got {type(row).__name__}")
    return row


def training_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Rows of training files one after the other, each as one text; every line of a file of another format.

    JSONL and Parquet are read row by row, whatever their size.

    Raises:
        ProbeError: If a file cannot be read.
    """
    for path in paths:
        with file_errors(path, "training data", ProbeError):
            if path.suffix == ".parquet":
                for batch in parquet_batches(path, rows=1000, kept=False):
                    yield from map(training_text, batch.to_pylist())
            elif path.suffix in (".csv", ".tsv", ".json"):
                yield from (training_text(row) for _, row in read_rows(path))
            else:
                is_json = path.suffix in (".jsonl", ".ndjson")
                regular_size(path)
                # A wrong byte somewhere in a training set must not end the search.
                with path.open(encoding="utf-8", errors="replace") as file:
                    for number, line in enumerate(file, start=1):
                        row = _object(line, f"{path}, line {number}") if is_json and line.strip() else line
                        yield training_text(row)

r"""Rows of one's own to a probe: a CSV or JSONL file, a list of dicts, a `datasets.Dataset`.

    probe_from("mine.csv")                            columns by their usual names, see columns.py
    probe_from(rows, columns={"prompt": "frage"})     or as one names them

Options may be a list, a list written in JSON or Python, ``{"text": [...], "label": [...]}``, or a column each. The
answer may be an option's text, its letter or label, its index (from 0), or a list of these. An option that does not
begin with a space gets one, so that it does not stick to the question. A bare question ("...?") with options is asked
as the shipped probes ask, "Question: ...\nAnswer:"; a column named `prompt` is taken as it stands. Without options the
answer is what the model has to write: a number, or words that its text must contain, unless a column `match` says
otherwise. Every mistake of the first wrong rows is told at once.

What the cells of a table of one's own mean: lists that are written out, answers that name an option, open answers.

"['Lima', 'Santiago']"  two options            "B", "1", "Santiago"  the second of them
"5", "$5", "5 %"        judged as a number     "Apollo 11"           words that must stand in the answer

Which column of a table is what: names that people give to questions, options and answers.

    question, options, answer           question, A, B, C, D, answer           goal, sol1, sol2, label
    ctx, endings, label                 prompt, choice_a, choice_b, correct    question, answer

The first known name that is there is taken, so that `prompt` goes before `text`. A mapping of one's own replaces any
of it: ``columns={"prompt": "frage", "choices": ["a", "b", "c"]}``.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.grading.numbers import find_numbers, normalise_numbers
from forgetwatch.item import Item, Rendering
from forgetwatch.probe import LETTERS, Norm, Probe, Scoring
from forgetwatch.probes.tables import Rows, read_rows

_SHOWN: Final = 5
"""Wrong rows whose mistakes are told."""


def probe_from(
    source: str | Path | Iterable[Mapping[str, Any]],
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    name: str = "",
    task: str = "",
    category: str = "",
    scoring: Scoring = "loglikelihood",
    norm: Norm | None = None,
    rendering: Rendering | None = None,
    decoding: Decoding | Mapping[str, Any] | None = None,
) -> Probe:
    """The probe that some rows are.

    Args:
        source: A file (CSV, TSV, JSONL, JSON, Parquet), or rows: a list of dicts, a `datasets.Dataset`.
        columns: Column by what it is, where it has no usual name; ``choices`` may be several columns.
        name: Name of the probe; by default the file's.
        task: The task of rows without one; by default the probe's name.
        category: The category of rows without one.
        scoring: See `Probe`.
        norm: See `Probe`.
        rendering: See `Probe`; by default plain, and chat where prompts are messages.
        decoding: See `Probe`.

    Raises:
        ProbeError: If there is no row, a column is missing, or rows cannot be used; the first are named.
    """
    rows, where = _rows(source)
    name = name or (Path(source).stem if isinstance(source, (str, Path)) else "mine")
    if not rows:
        raise ProbeError(f"{where}: needed rows, and there are none")
    found = find_columns(dict.fromkeys(key for _, row in rows for key in row), columns or {}, where)
    space = scoring == "loglikelihood"
    items: list[Item] = []
    wrong: list[str] = []
    for number, (place, row) in enumerate(rows):
        made = _Row(row, found, space=space)
        item = made.item(id=str(number), task=task or name, category=category)
        if item is None:
            wrong.append(f"{place}: {', '.join(made.mistakes)}")
        else:
            items.append(item)
    wrong += _twice(items)
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
    if isinstance(source, (str, Path)):
        return read_rows(source), str(source)
    rows = [(f"row {number}", row) for number, row in enumerate(source)]
    if bad := [type(row).__name__ for _, row in rows if not isinstance(row, Mapping)]:
        raise ProbeError(f"rows: needed one dict a question, got {bad[0]}; of a DatasetDict give one split")
    return rows, "rows"


def _twice(items: Sequence[Item]) -> list[str]:
    times = Counter((item.task, item.id) for item in items)
    return [f"id {name!r} stands {count} times in task {task!r}" for (task, name), count in times.items() if count > 1]


class _Row:
    """One row on its way to an item, and what is wrong with it."""

    def __init__(self, row: Mapping[str, Any], columns: Columns, *, space: bool) -> None:
        self._row = row
        self._columns = columns
        self._space = space
        self.mistakes: list[str] = []

    def item(self, *, id: str, task: str, category: str) -> Item | None:
        """The item; None where something is wrong, and `mistakes` says what."""
        prompt, choices, labels = self._prompt(), *self._choices()
        answer, match = self._answer(choices, labels)
        if self.mistakes:
            return None
        if choices and self._space and self._is_bare(prompt):
            prompt = f"Question: {prompt.strip()}\nAnswer:"
        if choices and self._space and isinstance(prompt, str) and not prompt[-1:].isspace():
            choices = tuple(choice if choice[:1].isspace() else f" {choice}" for choice in choices)
        reasoning = self._text("reasoning")
        try:
            return Item(
                id=self._text("id") or id,
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

    def _value(self, part: str) -> Any:
        column = self._columns.of.get(part)
        return None if column is None else self._row.get(column)

    def _text(self, part: str) -> str:
        value = self._value(part)
        return "" if value is None else str(value).strip()

    def _prompt(self) -> Any:
        value = self._value("prompt")
        if isinstance(value, (list, tuple)) and value:
            return tuple(value)
        if not isinstance(value, str) or not value.strip():
            self.mistakes.append(f"column {self._columns.of['prompt']!r} holds no question ({shown(value)})")
        return value

    def _is_bare(self, prompt: Any) -> bool:
        named = self._columns.of["prompt"].lower().strip() == "prompt"
        return not named and isinstance(prompt, str) and prompt.rstrip().endswith("?")

    def _choices(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The options, and the labels that the table itself gives them."""
        if self._columns.choices:
            cells = [self._row.get(name) for name in self._columns.choices]
            given = tuple(str(cell) for cell in cells if is_there(cell))
            if not given:
                self.mistakes.append(f"columns {', '.join(self._columns.choices)} hold no option")
            return given, ()
        if "choices" not in self._columns.of:
            return (), ()
        value = parsed(self._value("choices"))
        labels: tuple[str, ...] = ()
        if isinstance(value, Mapping) and {"text", "label"} <= set(value):
            value, labels = value["text"], tuple(map(str, value["label"] or ()))
        elif isinstance(value, Mapping):
            labels, value = tuple(map(str, value)), list(value.values())
        if not isinstance(value, (list, tuple)) or not value or not all(map(is_there, value)):
            column = self._columns.of["choices"]
            self.mistakes.append(f"column {column!r} holds no list of options ({shown(self._value('choices'))})")
            return (), ()
        return tuple(map(str, value)), labels

    def _answer(self, choices: Sequence[str], labels: Sequence[str]) -> tuple[Any, str | None]:
        value, column = parsed(self._value("answer")), self._columns.of["answer"]
        if not is_there(value) or value in ([], ()):
            self.mistakes.append(f"column {column!r} holds no answer ({shown(value)})")
            return None, None
        given = list(value) if isinstance(value, (list, tuple)) else [value]
        if not choices:
            if self._columns.choices or "choices" in self._columns.of:
                return None, None  # that the options are missing has been said
            match = self._text("match")
            texts = open_answers(self._value("answer"), is_json=match.startswith("json"))
            return texts if len(texts) > 1 else texts[0], match or match_of(texts)
        places = [place_of(one, choices, labels) for one in given]
        if wrong := [one for one, place in zip(given, places, strict=True) if place is None]:
            self.mistakes.append(
                f"column {column!r} holds {shown(wrong[0])}, which is none of the {len(choices)} options, nor their "
                "letter, nor their index from 0"
            )
            return None, None
        return places[0] if len(places) == 1 else places, None


def is_there(cell: Any) -> bool:
    """Whether there is anything in a cell."""
    return cell is not None and bool(str(cell).strip())


def place_of(answer: Any, choices: Sequence[str], labels: Sequence[str]) -> int | None:
    """Which option an answer names: by its text, its label, its letter or its index."""
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
        bare = text.strip("().").upper()
        if len(bare) == 1 and bare in LETTERS[: len(choices)]:
            return LETTERS.index(bare)
        if not text.isascii() or not text.isdigit():
            return None
        answer = int(text)
    return answer if 0 <= answer < len(choices) else None


def open_answers(value: Any, *, is_json: bool) -> tuple[str, ...]:
    """The texts of an open answer: one, or each of a list; a JSON value is one, but for a list of texts."""
    given = value if is_json else parsed(value)
    if isinstance(given, (list, tuple)) and (not is_json or all(isinstance(one, str) for one in given)):
        return tuple(map(str, given))
    if isinstance(given, str) or not (is_json or isinstance(given, Mapping)):
        return (str(given),)
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),)


def parsed(value: Any) -> Any:
    """A list or object that is written out as text, as JSON or as Python; anything else as it is."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            return read(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def match_of(answers: Sequence[str]) -> str:
    """How an open answer is judged where the table does not say."""
    return "number" if all(_is_number(normalise_numbers(text.strip())) for text in answers) else "contains"


def _is_number(text: str) -> bool:
    """Whether a text is one number and at most a sign beside it: ``$5``, ``5 %``, not ``Apollo 11``."""
    found = find_numbers(text)
    return len(found) == 1 and len(text) <= found[0].end + 2 and not any(map(str.isalpha, text[: found[0].start]))


def shown(value: Any) -> str:
    """A value for a message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
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
"""What a column may be, and the names it usually has, case aside."""

_NUMBERED: Final = re.compile(r"(?:choice|option|answer|opt|sol|ending|mc_answer)?[ _]?([a-j]|[0-9]|10)", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """Which column is what.

    Attributes:
        of: Column by what it is; no entry where there is none.
        choices: The columns that hold one option each; empty where one column holds them all, or there are none.
    """

    of: Mapping[str, str]
    choices: tuple[str, ...] = ()


def find_columns(names: Iterable[str], given: Mapping[str, str | Sequence[str]], where: str) -> Columns:
    """The columns of a table, by the names that they usually have.

    Args:
        names: The table's columns.
        given: What is said of some; these are not guessed. ``choices`` may name several columns.
        where: The table, for messages.

    Raises:
        ProbeError: If a column that is named is not there, or none holds the question or the answer.
    """
    names = list(names)
    if unknown := sorted(set(given) - set(KNOWN)):
        raise ProbeError(f"{where}: {unknown[0]!r} is nothing that a column can be; there are {', '.join(KNOWN)}")
    wanted = {part: [given[part]] if isinstance(given[part], str) else list(given[part]) for part in given}
    if missing := [name for part in wanted.values() for name in part if name not in names]:
        raise ProbeError(f"{where}: no column {missing[0]!r}; there are {', '.join(names)}")
    taken = {name for part in wanted.values() for name in part}
    lower = {name.lower().strip(): name for name in names if name not in taken}
    of = {part: str(columns[0]) for part, columns in wanted.items() if len(columns) == 1}
    for part, usual in KNOWN.items():
        if part not in wanted and (found := next((lower[name] for name in usual if name in lower), None)):
            of[part] = found
    choices = tuple(map(str, wanted.get("choices", ())))
    if len(choices) < 2:
        choices = () if "choices" in of else _numbered(name for name in names if name not in {*of.values(), *taken})
    if lacking := [part for part in ("prompt", "answer") if part not in of]:
        raise ProbeError(
            f"{where}: no column that is known to hold the {lacking[0]}; there are {', '.join(names)}; name it: "
            f"columns={{{lacking[0]!r}: ...}}, in the shell --column {lacking[0]}=..."
        )
    return Columns(of, choices)


def _numbered(names: Iterable[str]) -> tuple[str, ...]:
    """Columns such as A, B, C or choice_1, choice_2; at least two."""
    found = sorted((match[1].upper().zfill(2), name) for name in names if (match := _NUMBERED.fullmatch(name.strip())))
    return tuple(name for _, name in found) if len(found) > 1 else ()

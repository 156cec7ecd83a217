r"""A table of questions as a probe: a CSV, TSV, JSONL, JSON or Parquet file, a list of dicts, a `datasets.Dataset`.

    probe_from("mine.csv")                            columns by their usual names
    probe_from(rows, columns={"prompt": "frage"})     or by names that are given

**Columns.** `USUAL_NAMES` lists the names by which a column is recognised, case aside; of several that hold values the
first of the list is taken, so that `prompt` is preferred to `text`. Passages, contexts and instructions are put before
the question. These tables need no `columns`:

    question, options, answer           question, A, B, C, D, answer           goal, sol1, sol2, label
    ctx, endings, label                 prompt, choice_a, choice_b, correct    passage, question, answer
    instruction, input, output          question, distractor1, distractor2, correct_answer

**Options** are a list, the text of a list in JSON or Python, ``{"text": [...], "label": [...]}``, a list of such
objects, a column each, or columns of wrong ones beside the right answer. A blank option is left out, and the others
keep their letters. True and false without options are ``yes`` and ``no``. For log-likelihoods an option that does not
begin with a space gets one, so that it does not stick to the question.

**Answers.** How a column names the right option is decided over all rows (`read_key`). Without options the answer is
open, and graded by the column `match`, or else by its form: ``5``, ``$5`` and ``5 %`` as a number, ``Apollo 11`` as
words that the output must contain. Of solutions that end in ``#### 5`` or in a box that part is the answer.

**Prompts.** If most questions with options end in "?", all are framed as in the shipped probes, "Question:
...\nAnswer:". A column that is named `prompt` is taken as it is. What would be asked without a part of it is refused:
pictures, sound, a turn of the assistant at the end, and equal questions with unlike answers.

An error lists the mistakes of the first five wrong rows.

**Plan.** How a table of questions is read: decided once from all names and all values of its columns, never row by row.

    what            a column or columns                                     found by
    question        the question itself                                     its name
    before          passage, context, instruction: put before the question  its name
    options         one column of lists, a column for each option, or       its name
                    columns of wrong options beside the right answer
    key             the right option, read in one way in every row          its values
    answer          without options: the text that an output must match     its values
    not used        all other columns that hold a value                     shown, so that one can be pinned

A key is a text of an option, a label that the table gives the option, a letter, an index from 0 or from 1, or a mark
for each option. Each way is tried on the whole column. Where two ways fit every row and name unlike options, nothing is
guessed: the error names both, and the setting that decides.

    answers of all rows      ways that fit          read as
    0 2 1 3                  from-0                 index from 0
    4 1 2                    from-1                 index from 1, of four options
    1 2 1                    from-0, from-1         an error: --key from-0 or --key from-1 decides

**Files** of rows: questions, and the examples of a training set.

A table is CSV, TSV, JSON lines, Parquet, or one JSON document: a list of objects, or an object that holds one such list
among other members. A text beside that list that belongs before each question, such as the `task_prefix` of BIG-bench,
is a column of every row.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError, SnapshotError, did_you_mean
from forgetwatch.files import begins_array, file_errors, regular_size, table_rows, table_suffix
from forgetwatch.grading import find_numbers, normalise_numbers
from forgetwatch.grading.mathematics import check_installed
from forgetwatch.item import Item, Rendering
from forgetwatch.probe import LETTERS, Norm, Probe, Scoring
from forgetwatch.probes.checking import training_text, unanswerable
from forgetwatch.progress import log

Key = Literal["text", "label", "letter", "from-0", "from-1", "one-hot"]
KEYS: Final[tuple[Key, ...]] = get_args(Key)
"""Ways in which a column can name the right option."""

BEFORE: Final = (
    *("instruction", "passage", "context", "article", "paragraph", "background", "story", "document", "support"),
    *("premise", "body", "task_prefix"),
)
"""Usual names of columns that belong before the question."""

_SPELLED: Final[dict[Key, str]] = {
    "text": "texts of the options",
    "label": "labels of the options",
    "letter": "letters",
    "from-0": "indices from 0",
    "from-1": "indices from 1",
    "one-hot": "a mark for each option",
}

_LONG: Final = 30
"""Median number of words beyond which an open answer is a rationale, which no output repeats."""

_FORMULAS: Final = 0.05
"""Share of formulas among the open answers of a column from which on it is read as mathematics."""

_FORMULA: Final = re.compile(r"\\[a-zA-Z]{2,}|\^|\A\$[^$]+\$\Z")
_SYMBOLS: Final = re.compile(r"[\[({].*[,;].*[\])}]|[=<>+*/|≤≥π√∞]|\$.*\$|\d[a-z]\b")
_COMMAND: Final = re.compile(r"\\[a-zA-Z]+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_LATEX_UNIT: Final = re.compile(r"[\s~]*\\(?:text|mbox|mathrm)\s*\{[^{}]*\}\s*\Z")
_MARK: Final = re.compile(r"\s*(?:\(([A-Za-z])\)|([A-Z])[.)])\s*")
"""A letter as a list of options marks it: (a), A. or B)."""

_LETTER_LINE: Final = re.compile(r"\s*\(?([A-Z])[).:]?[ \t]*\n\s*\S.*", re.DOTALL)
"""A letter on a line of its own, and below it what explains it."""
_FINAL: Final = re.compile(r"####\s*(.+?)\s*\Z", re.DOTALL)
_WITH_UNIT: Final = re.compile(r"\s*([-+]?\d[\d.,/:]*)\s*\([^()]*\)\s*")
_BOXED: Final = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")


class Options(NamedTuple):
    """Options of a row.

    Attributes:
        texts: Their texts in order, None for a blank one.
        labels: The labels that the table gives them; empty for none.
        are_numbers: True if the table has them as numbers, not as texts.
    """

    texts: tuple[str | None, ...]
    labels: tuple[str, ...] = ()
    are_numbers: bool = False


def is_filled(cell: Any) -> bool:
    """Return whether a cell holds a value; None, NaN, blank text and empty lists hold none."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return False
    return bool(str(cell).strip()) and cell not in ([], (), {})


@dataclass(frozen=True, kw_only=True)
class KeyReading:
    """The way in which the right options of all rows are read.

    Attributes:
        key: The way.
        indices: Right options of each row, None where this way names none.
    """

    key: Key
    indices: tuple[tuple[int, ...] | None, ...]

    @property
    def fits(self) -> bool:
        """True if every row has a right option."""
        return None not in self.indices


def read_key(answers: Sequence[Any], options: Sequence[Options], *, column: str, key: Key | None) -> KeyReading:
    """Decide in which way a column names the right options of all rows.

    Args:
        answers: Cell of each row.
        options: Options of each row.
        column: Name of the column, for messages.
        key: The way, if it is given.

    Raises:
        ProbeError: If two ways fit every row and name unlike options.
    """
    ways = KEYS if key is None else (key,)
    found = [KeyReading(key=way, indices=tuple(map(_named(way), answers, options))) for way in ways]
    fitting = [one for one in found if one.fits]
    if not fitting:
        return max(found, key=lambda one: sum(row is not None for row in one.indices))
    # The table's own labels are meant where it has them: ARC has labels 1 to 4, and keys 1 to 4.
    if fitting[0].key != "text" or len({one.indices for one in fitting}) == 1:
        labelled = [one for one in fitting if one.key == "label"]
        fitting = labelled or fitting
    unlike = {one.indices: one for one in reversed(fitting)}
    if len(unlike) > 1:
        one, other = sorted(unlike.values(), key=lambda reading: KEYS.index(reading.key))[:2]
        row = next(at for at, pair in enumerate(zip(one.indices, other.indices, strict=True)) if pair[0] != pair[1])
        raise ProbeError(
            f"column {column!r} can hold {_SPELLED[one.key]} or {_SPELLED[other.key]}: both fit every row, and "
            f"{str(answers[row])!r:.40} would be {_shown(one, row, options)} or {_shown(other, row, options)}; "
            f"key={one.key!r} or key={other.key!r} says which, in the shell --key {one.key} or --key {other.key}"
        )
    return next(iter(unlike.values()))


def _shown(reading: KeyReading, row: int, options: Sequence[Options]) -> str:
    indices = reading.indices[row] or (0,)
    return f"{str(options[row].texts[indices[0]]).strip()!r:.40}"


def _named(way: Key) -> Callable[[Any, Options], tuple[int, ...] | None]:
    """Return the function from a cell and the options of its row to the right options.

    None if it names none in this way.
    """

    def found(answer: Any, options: Options) -> tuple[int, ...] | None:
        texts = options.texts
        if way == "one-hot":
            return _marked(answer, texts)
        one = _ONE[way]
        parts = list(answer) if isinstance(answer, (list, tuple)) else [answer]
        if way == "letter" and isinstance(answer, str) and len(parts[0].strip()) > 1:
            # Several right options are written as "A,C" and "AC".
            bare = re.sub(r"[\s,;.()]|and", "", answer)
            if len(bare) > 1 and bare.isupper() and list(bare) == sorted(set(bare)) and bare[0] >= "A":
                parts = list(bare)
        indices = [one(part, options) for part in parts]
        named = tuple(index for index in indices if index is not None and texts[index] is not None)
        return named if named and len(set(named)) == len(indices) else None

    return found


def _number(answer: Any) -> int | None:
    """Return the whole number of a cell; a column of whole numbers with an empty cell may be read as floats."""
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    text = answer.strip() if isinstance(answer, str) else ""
    return int(text.removesuffix(".0")) if text.isascii() and text.removesuffix(".0").isdigit() else None


def _by_text(answer: Any, options: Options) -> int | None:
    # A number is the text of an option only where the options are numbers: among texts it is an index.
    if isinstance(answer, bool) or not (isinstance(answer, str) or options.are_numbers):
        return None
    number = _number(answer)
    wanted = answer.strip() if isinstance(answer, str) else str(answer if number is None else number)
    bare = [None if text is None else text.strip() for text in options.texts]
    return bare.index(wanted) if bare.count(wanted) == 1 else None


def _by_label(answer: Any, options: Options) -> int | None:
    text = str(answer).strip()
    return options.labels.index(text) if text in options.labels else None


def _by_letter(answer: Any, options: Options) -> int | None:
    bare = answer.strip().strip("().").upper() if isinstance(answer, str) else ""  # "(b)" and "B." are letters too
    return LETTERS.index(bare) if len(bare) == 1 and bare in LETTERS[: len(options.texts)] else None


def _from_0(answer: Any, options: Options) -> int | None:
    number = _number(answer)
    return number if number is not None and 0 <= number < len(options.texts) else None


def _from_1(answer: Any, options: Options) -> int | None:
    number = _number(answer)
    return number - 1 if number is not None and 1 <= number <= len(options.texts) else None


_ONE: Final[Mapping[str, Callable[[Any, Options], int | None]]] = {
    "text": _by_text,
    "label": _by_label,
    "letter": _by_letter,
    "from-0": _from_0,
    "from-1": _from_1,
}


def _marked(answer: Any, texts: Sequence[str | None]) -> tuple[int, ...] | None:
    if not isinstance(answer, (list, tuple)) or len(answer) != len(texts) or len(texts) < 2:
        return None
    if any(mark not in (0, 1) for mark in answer) or not any(answer):
        return None
    return tuple(index for index, mark in enumerate(answer) if mark)


_AnswerPart = Literal["####", "\\boxed{}", "(unit)", "(letter)", ""]


@dataclass(frozen=True)
class OpenAnswers:
    r"""What of a column of open answers an output can match.

    Attributes:
        kind: ``####`` or ``\boxed{}`` for the part that these mark; ``(unit)`` for the number before a unit in
            brackets; ``(letter)`` for the letter in the first line; empty for the whole text.
        mathematical: True if the column holds formulas: those are compared by their value.
    """

    kind: _AnswerPart = ""
    mathematical: bool = False

    def text(self, answer: str) -> str:
        """Return the part of an answer that an output can match."""
        part = self._part(answer)
        if mark := _MARK.fullmatch(part):
            return (mark[1] or mark[2]).upper()
        bare = _LATEX_UNIT.sub("", part) if self.mathematical else ""
        return bare if any(map(str.isdigit, bare)) else part

    def match(self, text: str) -> str:
        """Return the rule by which an output is compared with such a part, by its form."""
        bare = normalise_numbers(text.strip())
        if _is_number(bare):
            return "number"
        if len(bare) == 1 and bare in LETTERS:
            return "letter"  # "A" as a word is in most English sentences
        is_short = len(_WORD.findall(_COMMAND.sub(" ", bare))) < 2
        if self.mathematical and (_FORMULA.search(bare) or (is_short and _SYMBOLS.search(bare))):
            return "math"
        return "contains"

    def _part(self, answer: str) -> str:
        if self.kind == "####" and (found := _FINAL.search(answer)):
            return found[1]
        if self.kind == "\\boxed{}" and (boxes := _BOXED.findall(answer)):
            return str(boxes[-1]).strip()
        if self.kind == "(unit)" and (number := _WITH_UNIT.fullmatch(answer)):
            return number[1]
        if self.kind == "(letter)" and (letter := _LETTER_LINE.fullmatch(answer)):
            return letter[1]
        return answer


def _is_number(text: str) -> bool:
    """Return True for one number with at most a sign next to it: ``$5``, ``5 %``, not ``Apollo 11``."""
    found = find_numbers(text)
    return len(found) == 1 and len(text) <= found[0].end + 2 and not any(map(str.isalpha, text[: found[0].start]))


def read_open_answers(answers: Iterable[Any], *, column: str) -> OpenAnswers:
    """Decide what of the open answers of a column an output can match.

    Raises:
        ProbeError: If they are rationales, which no output repeats, or formulas, and the package that compares these
            is not installed.
    """
    each = (one for answer in answers for one in (answer if isinstance(answer, (list, tuple)) else (answer,)))
    texts = [text for text in each if isinstance(text, str) and text.strip()]
    found = OpenAnswers(_kind(texts, column))
    parts = [found.text(text) for text in texts]
    formulas = sum(found.match(part) != "number" and _FORMULA.search(part) is not None for part in parts)
    if formulas < _FORMULAS * len(parts) or not formulas:
        return found
    try:
        check_installed()
    except ProbeError as error:
        raise ProbeError(f"column {column!r} holds formulas such as {_first_formula(parts)!r:.60}: {error}") from error
    return replace(found, mathematical=True)


def _first_formula(parts: Iterable[str]) -> str:
    return next(part for part in parts if _FORMULA.search(part))


def _kind(texts: Sequence[str], column: str) -> _AnswerPart:
    """Return the mark of the part that an output can match, in all answers of a column."""
    if texts and all(map(_FINAL.search, texts)):
        return "####"
    if texts and all(map(_BOXED.search, texts)):
        return "\\boxed{}"
    if texts and 2 * sum(_WITH_UNIT.fullmatch(text) is not None for text in texts) >= len(texts):
        return "(unit)"
    if texts and all(map(_LETTER_LINE.fullmatch, texts)):
        return "(letter)"
    words = sorted(len(text.split()) for text in texts)
    if words and words[len(words) // 2] > _LONG:
        raise ProbeError(
            f"column {column!r} holds texts of {words[len(words) // 2]} words at the median, which no output repeats; "
            "name a column with the short answer, or a column `match` that says how to grade"
        )
    return ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The columns of a table of questions, and what they are for.

    Attributes:
        question: Column of the question.
        before: Columns that are put before the question, in this order.
        options: The column of all options, or one column each; empty for open answers.
        wrong: Columns of wrong options beside the right answer.
        answer: Column of the right option, or of the open answer.
        key: Way in which it names the right option; None for an open answer, and beside wrong options.
        open: What of an open answer an output can match.
        not_used: Columns that hold a value and are not used.
        framed: Questions are asked as ``Question: ...`` and ``Answer:``, as those of the shipped probes.
    """

    question: str
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    answer: str
    key: Key | None = None
    open: OpenAnswers = OpenAnswers()
    not_used: tuple[str, ...] = ()
    framed: bool = False

    def __str__(self) -> str:
        parts = [f"question: {self.question}" + (f" after {', '.join(self.before)}" if self.before else "")]
        parts[0] += ", asked as 'Question: ... Answer:'" if self.framed else ""
        if self.wrong:
            parts.append(f"options: {self.answer} and {', '.join(self.wrong)}")
        elif self.options:
            shown = self.options if len(self.options) < 3 else (self.options[0], "...", self.options[-1])
            parts.append(f"options: {', '.join(shown)}")
        if self.key is not None:
            parts.append(f"key: {_SPELLED[self.key]} in {self.answer}")
        elif not self.wrong:
            part = {
                "####": " after ####",
                "\\boxed{}": " in \\boxed{}",
                "(unit)": " without its unit",
                "(letter)": " in the first line",
            }
            as_formulas = ", formulas by their value" if self.open.mathematical else ""
            parts.append(f"answer: {self.answer}{part.get(self.open.kind, '')}{as_formulas}")
        if self.not_used:
            parts.append(f"not used: {', '.join(self.not_used)}")
        return "; ".join(parts)


def cells(rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Return the cells of a column, None where a row lacks it."""
    return [row.get(column) for row in rows]


SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of rows."""

Rows = list[tuple[str, Mapping[str, Any]]]
"""Rows, each after its position in the file, for messages."""


def read_rows(path: str | Path) -> Rows:
    """Read the rows of a file; ProbeError if it cannot be read as a table."""
    path = Path(path)
    if table_suffix(path) not in SUFFIXES:
        raise ProbeError(f"{path}: needed a file that ends in {', '.join(SUFFIXES)}")
    try:
        rows = list(table_rows(path))
        is_document = table_suffix(path) == ".json" and len(rows) == 1 and not begins_array(path)
    except SnapshotError as error:
        raise ProbeError(str(error)) from error
    if not is_document:
        return [*rows]
    return [(f"row {number}", row) for number, row in enumerate(_listed_rows(rows[0][1], path), start=1)]


def _listed_rows(given: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """Return the rows of an object with one list of objects, and texts that belong to each row."""
    lists = {name: rows for name, rows in given.items() if _are_rows(rows)}
    if len(lists) != 1:
        found = f", got an object with several: {', '.join(lists)}" if lists else ""
        raise ProbeError(f"{path}: needed a list of objects, one a question, or an object with one such list{found}")
    (rows,) = lists.values()
    shared = {name: text for name, text in given.items() if name.lower() in BEFORE and isinstance(text, str)}
    return [{**shared, **row} for row in rows]


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def flat(rows: Rows) -> Rows:
    """Return rows without the objects in which some data sets hold a question, and the scores of its options.

    {"question": {"stem": "Capital?", "choices": [...]}, "answerKey": "B"}     ARC, OpenBookQA, CommonsenseQA
    {"messages": [..., {"role": "assistant", "content": "Lima"}]}               the last turn is the answer
    {"input": "Capital?", "target_scores": {"Lima": 0, "Santiago": 1}}          BIG-bench
    """
    if all(isinstance(row.get("question"), Mapping) and "stem" in row["question"] for _, row in rows):
        rows = [
            (at, {**row["question"], **{name: row[name] for name in row if name != "question"}}) for at, row in rows
        ]
    if all(_ends_with_answer(row.get("messages")) and len(row) == 1 for _, row in rows):
        rows = [
            (at, {"messages": list(row["messages"][:-1]), "answer": row["messages"][-1]["content"]}) for at, row in rows
        ]
    if all(_is_scored(row.get("target_scores")) and "answer" not in row for _, row in rows):
        rows = [(at, _with_options(row)) for at, row in rows]
    return rows


def _ends_with_answer(value: Any) -> bool:
    """Return True for messages of which the last is a text by the assistant, after another one."""
    last = value[-1] if isinstance(value, (list, tuple)) and len(value) > 1 else None
    return isinstance(last, Mapping) and last.get("role") == "assistant" and isinstance(last.get("content"), str)


def _is_scored(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) > 1 and set(value.values()) == {0, 1}


def _with_options(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = row["target_scores"]
    kept = {name: cell for name, cell in row.items() if name not in ("target_scores", "target")}
    right = [LETTERS[index] for index, mark in enumerate(scores.values()) if mark]
    return {**kept, "choices": list(scores), "answer": right}


def training_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the rows of training files one after the other, each as one text; every line of a file of another format.

    JSONL and Parquet are read row by row, whatever their size.

    Raises:
        ProbeError: If a file cannot be read.
    """
    for path in paths:
        suffix = table_suffix(path)
        try:
            if suffix == ".json":
                yield from (training_text(row) for _, row in read_rows(path))
            elif suffix in SUFFIXES:
                yield from (training_text(row) for _, row in table_rows(path, kept=False))
            else:
                with file_errors(path, "training data"):
                    regular_size(path)
                    # A wrong byte somewhere in a training set must not end the search.
                    with path.open(encoding="utf-8", errors="replace") as file:
                        yield from map(training_text, file)
        except SnapshotError as error:
            raise ProbeError(str(error)) from error


_EXAMPLES: Final = 3
"""Questions that are logged with their keys."""

_LONGEST_SHOWN: Final = 60
"""Characters of a question or an answer in that line."""

_UNLIKE: Final = 0.02
"""Share of questions that may be asked twice with unlike answers: benchmarks have a few by mistake."""

_SHOWN: Final = 5
"""Maximum number of wrong rows whose mistakes an error lists."""

PLACES: Final = ("idx", "index")
"""Names of columns that may be no more than the place of a row."""

USUAL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": (
        *("prompt", "question", "query", "problem", "goal", "stem", "question_stem", "input", "instruction", "ctx"),
        *("sentence", "messages", "problem_text", "text", "content"),
    ),
    "context": BEFORE,
    "choices": ("choices", "options", "endings", "candidates", "answers_options", "answer_options"),
    "answer": (
        *("answer", "answer_index", "answer_idx", "answerkey", "answer_key", "label", "gold", "correct"),
        *("correct_answer", "correct answer", "correct_option", "best_answer", "cop", "golden", "final_answer"),
        *("target", "solution", "output", "response", "completion", "ideal", "answer_number"),
    ),
    "id": (
        *("id", "item_id", "question_id", "qid", "uid", "key", "doc_id", "sample_id", "task_id", "example_id"),
        *PLACES,
    ),
    "task": ("task", "subject", "subset", "dataset", "source"),
    "category": ("category", "topic", "domain"),
    "match": ("match",),
    "cluster": ("cluster", "passage_id", "story_id", "group"),
    "system": ("system", "system_prompt"),
    "must_pass": ("must_pass",),
    "reasoning": ("reasoning", "rationale", "explanation"),
}
"""The parts of an item that a column can hold, and the usual names of such a column in lower case."""

_PLAN_WORDS: Final = {"question": "prompt", "before": "context", "options": "choices", "key": "answer"}
"""Words of a plan for parts of an item: a plan that was shown can be given as it is."""

_NUMBERED: Final = re.compile(
    r"(?:choice|option|answer|ans|opt|op|sol|ending|mc_answer)?[ _]?([a-j]|[0-9]|10)", re.IGNORECASE
)
"""Names of columns that hold one option each."""


def is_part_of_question(name: str) -> bool:
    """Return whether a column of this name holds options, or what belongs before a question."""
    bare = name.lower().strip()
    return bare in (*USUAL_NAMES["choices"], *BEFORE) or _NUMBERED.fullmatch(bare) is not None


_LIKE_CONTEXT: Final = re.compile(
    r"(?:^|[_ ])(?:passage|context|article|paragraph|premise|story)(?:$|[_ ])", re.IGNORECASE
)
"""Names of columns that may hold what a question is about."""

_WRONG: Final = re.compile(r"(?:distractor|(?:incorrect|wrong)[ _]answer)s?[ _]?[0-9]*", re.IGNORECASE)
"""Names of columns that hold wrong options, beside the right answer."""


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
    key: Key | None = None,
) -> Probe:
    """Make a probe of a table's rows.

    Args:
        source: A file (CSV, TSV, JSONL, JSON, Parquet), or rows: a list of dicts, a `datasets.Dataset`.
        columns: Names of columns by the part of an item that they contain, if they have no usual name; ``choices`` may
            be several columns. The words of a plan are parts too: question, before, options, key.
        name: Name of the probe; by default the file's.
        task: The task of rows without one; by default the probe's name.
        category: The category of rows without one.
        scoring: See `Probe`.
        norm: See `Probe`.
        rendering: See `Probe`; by default plain, and chat where prompts are messages.
        decoding: See `Probe`.
        key: Way in which the answers name options, such as ``from-1``; by default it is decided over all rows.

    Raises:
        ProbeError: If there is no row, a column is missing, rows are wrong, or two readings fit all of them.
    """
    rows, where = _rows(source)
    name = name or (Path(source).stem if isinstance(source, (str, Path)) else "mine")
    if not rows:
        raise ProbeError(f"{where}: needed rows, and there are none")
    rows = flat(rows)
    table = [row for _, row in rows]
    plan, of = make_plan(table, columns or {}, where, key=key)
    reader = _Reader(plan, of, table, where, space=scoring == "loglikelihood", key=key)
    items: list[Item] = []
    wrong: list[str] = []
    for number, (place, _) in enumerate(rows):
        item, mistakes = reader.item(number, task=task or name, category=category)
        if item is None:
            wrong.append(f"{place}: {', '.join(mistakes)}")
        else:
            items.append(item)
    answers: dict[Any, set[Any]] = {}
    for item in items:
        answers.setdefault((item.task, str(item.prompt), item.choices), set()).add(item.answers)
    if (unlike := sum(len(given) - 1 for given in answers.values())) > _UNLIKE * len(items):
        unused = f"; not used: {', '.join(plan.not_used)}" if plan.not_used else ""
        raise ProbeError(
            f"{where}: {unlike:,} of {len(items):,} questions are asked again with another answer: a part of them is "
            f"missing{unused}; --column context=COLUMN puts a column of texts before the question"
        )
    times = Counter((item.task, item.id) for item in items)
    wrong += [f"id {id_!r} occurs {n} times in task {own!r}" for (own, id_), n in times.items() if n > 1]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise ProbeError(
            f"{where}: {len(wrong):,} of {len(rows):,} rows cannot be used: {'; '.join(wrong[:_SHOWN])}{more}"
        )
    chat = any(item.system or not isinstance(item.prompt, str) for item in items)
    probe = Probe(
        items,
        name=name,
        scoring=scoring,
        norm=norm,
        rendering=rendering or ("chat" if chat else "plain"),
        decoding=decoding,
        plan=str(reader.plan),
    )
    log(f"{where}: {probe.plan}")  # after every error: a refusal is one line
    for item in items[:_EXAMPLES]:
        log(f"  {_example(item)}")
    if never := unanswerable(items):
        log(
            f"{where}: {len(never):,} of {len(items):,} answers are graded as wrong even if an output is the answer, "
            f"such as {str(never[0].answers[0])!r:.60} (id {never[0].id}); a column `match` says how to grade"
        )
    return probe


def _example(item: Item) -> str:
    question = " ".join(training_text(item.prompt).removesuffix("\nAnswer:").split())
    right = (
        [item.choices[int(index)].strip() for index in item.answers] if item.choices else list(map(str, item.answers))
    )
    of = f" (of {len(item.choices)} options)" if item.choices else f" (match {item.match})"
    if len(question) > _LONGEST_SHOWN:
        question = f"{question[: _LONGEST_SHOWN // 2]} ... {question[-_LONGEST_SHOWN // 2 :]}"
    return f"{item.id}: {question!r} -> {' | '.join(right)[:_LONGEST_SHOWN]!r}{of}"


def _rows(source: Any) -> tuple[Rows, str]:
    if isinstance(source, (str, Path)):
        return read_rows(source), str(source)
    rows = [(f"row {number}", row) for number, row in enumerate(source)]
    if bad := [type(row).__name__ for _, row in rows if not isinstance(row, Mapping)]:
        raise ProbeError(f"rows: needed one dict a question, got {bad[0]}; of a DatasetDict give one split")
    return rows, "rows"


def make_plan(
    rows: Sequence[Mapping[str, Any]],
    given: Mapping[str, str | Sequence[str]],
    where: str,
    *,
    key: Key | None = None,
) -> tuple[Plan, dict[str, str]]:
    """Decide what each column of a table is for.

    Args:
        rows: All rows.
        given: Columns by the part of an item that they hold; the other parts are searched by their usual names.
        where: Name of the table, for messages.
        key: Way in which the answers name options; None to decide it.

    Returns:
        (The plan without its key and open answers; the column of each further part of an item).

    Raises:
        ProbeError: If a column that is given is missing, or the question or the answer is not found.
    """
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    given = {_PLAN_WORDS.get(part, part): columns for part, columns in given.items()}
    if unknown := sorted(set(given) - set(USUAL_NAMES)):
        near = did_you_mean(unknown[0], USUAL_NAMES)
        raise ProbeError(f"{where}: {unknown[0]!r} is not a part of an item{near}; there are {', '.join(USUAL_NAMES)}")
    wanted = {part: [given[part]] if isinstance(given[part], str) else list(given[part]) for part in given}
    if missing := [name for part in wanted.values() for name in part if name not in names]:
        near = did_you_mean(str(missing[0]), names)
        raise ProbeError(f"{where}: no column {missing[0]!r}{near}; there are {', '.join(names)}")
    taken = {str(name) for part in wanted.values() for name in part}
    # A column that is given for one part is never guessed for another.
    lower = {name.lower().strip(): name for name in names if name not in taken}
    filled = {name: sum(map(is_filled, cells(rows, name))) for name in names}
    of = {part: str(columns[0]) for part, columns in wanted.items() if len(columns) == 1}
    for part, usual in USUAL_NAMES.items():
        there = [lower[name] for name in usual if name in lower] if part not in wanted and part != "context" else []
        # Of several columns the first that holds values: a table may have an empty `answer` beside a filled `label`.
        if there:
            of[part] = next((name for name in there if 2 * filled[name] >= len(rows)), there[0])
    if {"instruction", "input"} <= set(lower) and of.get("prompt") in (lower["instruction"], lower["input"]):
        of["prompt"] = lower["input"]  # the instruction is put before it, and may need none
    wrong = tuple(name for name in names if _WRONG.fullmatch(name.strip()) and name not in {*taken, *of.values()})
    if "choices" in of and "choices" not in wanted and not filled[of["choices"]]:
        del of["choices"]  # a column of options that no row has
    options = tuple(map(str, wanted.get("choices", ()))) or ((of["choices"],) if "choices" in of else ())
    if not options and not wrong:
        numbered = [(_NUMBERED.fullmatch(name.strip()), name) for name in names if name not in {*of.values(), *taken}]
        # Padded to two characters, so that option 10 comes after option 9.
        in_order = sorted((match[1].upper().zfill(2), name) for match, name in numbered if match)
        options = tuple(name for _, name in in_order) if len(in_order) > 1 else ()
        # Letters of other scripts, in the order of the table.
        letters = tuple(name for name in names if len(name.strip()) == 1 and name.strip().isalpha())
        options = options or (letters if len(letters) > 1 and not any(map(str.isascii, letters)) else ())
    for part in ("prompt", "answer"):
        if part not in of:
            usual = USUAL_NAMES[part]
            close = [name for name in names if difflib.get_close_matches(name.lower().strip(), usual, n=1, cutoff=0.7)]
            quoted, bare = (repr(close[0]), close[0]) if close else ("...", "...")
            raise ProbeError(
                f"{where}: no column that is known to hold the {part}; there are {', '.join(names)}; name it: "
                f"columns={{{part!r}: {quoted}}}, in the shell --column {part}={bare}"
            )
    before = tuple(map(str, wanted.get("context", ())))
    if "context" not in wanted:
        before = tuple(lower[name] for name in BEFORE if name in lower and lower[name] not in of.values())
        before = tuple(name for name in before if filled[name])
    used = {*of.values(), *options, *wrong, *before}
    not_used = tuple(name for name in names if name not in used and filled[name])
    if seen := [name for name in not_used if any(map(_is_medium, cells(rows, name)))]:
        raise ProbeError(
            f"{where}: the column {seen[0]!r} holds pictures or sound, which are not put before a question; remove it "
            "if the questions need none"
        )
    if alike := [name for name in not_used if _LIKE_CONTEXT.search(name) and "context" not in wanted]:
        raise ProbeError(
            f"{where}: the column {alike[0]!r} is named like what belongs before a question, and is not used; "
            f"columns={{'context': {alike[0]!r}}} or --column context={alike[0]} puts it there; else remove it"
        )
    plan = Plan(
        question=of["prompt"],
        before=before,
        options=options,
        wrong=wrong,
        answer=of["answer"],
        not_used=not_used,
    )
    return plan, {part: column for part, column in of.items() if part not in ("prompt", "choices", "answer", "context")}


class _Reader:
    """Reads the rows of a table to items by its plan, of which the reading of the answers is decided here."""

    def __init__(
        self,
        plan: Plan,
        of: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]],
        where: str,
        *,
        space: bool,
        key: Key | None,
    ) -> None:
        self._of, self._rows, self._space = of, rows, space
        self._answers = [_parse_literal(cell) for cell in cells(rows, plan.answer)]
        self._mistakes: list[list[str]] = [[] for _ in rows]
        answered = [at for at, answer in enumerate(self._answers) if is_filled(answer)]
        # True and false are the options of a question that has no others.
        self._is_yes_no = not plan.options and not plan.wrong and bool(answered) and "match" not in of
        self._is_yes_no = self._is_yes_no and all(isinstance(self._answers[at], bool) for at in answered)
        self._plan = plan
        # Decided for the file: one probe has one form.
        texts = [text.rstrip() for text in cells(rows, plan.question) if isinstance(text, str)]
        has_options = bool(plan.options or plan.wrong or self._is_yes_no)
        is_bare = has_options and space and plan.question.lower().strip() != "prompt"
        framed = is_bare and 2 * sum(text.endswith("?") for text in texts) >= len(rows)
        self._plan = plan = replace(plan, framed=framed)
        self._options = [self._row_options(at) for at in range(len(rows))]
        self._reading: KeyReading | None = None
        self._open = OpenAnswers()
        usable = [at for at in answered if self._options[at] is not None]
        try:
            if plan.options:
                found = read_key(
                    [self._answers[at] for at in usable],
                    [self._options[at] or Options(()) for at in usable],
                    column=plan.answer,
                    key=key,
                )
                named = dict(zip(usable, found.indices, strict=True))
                self._reading = KeyReading(key=found.key, indices=tuple(named.get(at) for at in range(len(rows))))
            elif not plan.wrong and not self._is_yes_no and "match" not in of:
                self._refuse_labels()
                self._open = read_open_answers(self._answers, column=plan.answer)
        except ProbeError as error:
            raise ProbeError(f"{where}: {error}") from error
        self.plan = replace(plan, key=self._reading.key if self._reading else None, open=self._open)

    def _refuse_labels(self) -> None:
        """Refuse labels of a class as open answers: nobody answers a question with a label that it does not name."""
        plan, labels = self._plan, {answer for answer in self._answers if isinstance(answer, str)}
        is_label = plan.answer.lower().strip() in ("label", "labels", "class") and all(map(str.isalpha, labels))
        if not is_label or not 2 <= 2 * len(labels) <= len(self._rows):
            return
        asked = [str(row.get(name)) for row in self._rows for name in (plan.question, *plan.before)]
        words = set(re.findall(r"\w+", " ".join(asked).lower()))
        if not {label.lower() for label in labels} & {*words, "yes", "no", "true", "false"}:
            raise ProbeError(
                f"column {plan.answer!r} holds labels ({', '.join(sorted(labels)[:_SHOWN])}) that no question names, "
                "and no model answers with; needed the answer, or a column `match` with its rule, such as refuses"
            )

    def item(self, at: int, *, task: str, category: str) -> tuple[Item | None, list[str]]:
        """Return the item of a row, or None and what is wrong with it."""
        mistakes = self._mistakes[at]
        prompt = self._prompt(at)
        choices, answer, match = self._answer(at)
        if mistakes:
            return None, mistakes
        if choices and self._space and isinstance(prompt, str) and not prompt[-1:].isspace():
            choices = tuple(choice if choice[:1].isspace() else f" {choice}" for choice in choices)
        reasoning = self._text(at, "reasoning")
        try:
            item = Item(
                id=self._text(at, "id") or str(at),
                task=self._text(at, "task") or task,
                category=self._text(at, "category") or category,
                prompt=prompt,
                choices=choices,
                answer=answer,
                match=match,
                cluster=self._text(at, "cluster") or None,
                system=self._text(at, "system") or None,
                must_pass=self._text(at, "must_pass").lower() in ("1", "true", "yes"),
                meta={"reasoning": reasoning} if reasoning else {},
            )
        except ProbeError as error:
            return None, [str(error)]
        return item, []

    def _text(self, at: int, part: str) -> str:
        value = self._rows[at].get(self._of[part]) if part in self._of else None
        return str(value).strip() if is_filled(value) else ""

    def _prompt(self, at: int) -> Any:
        """Return the question, framed if it is a bare one with options, after what belongs before it."""
        plan, row = self._plan, self._rows[at]
        value = row.get(plan.question)
        if isinstance(value, (list, tuple)) and value:
            if isinstance(value[-1], Mapping) and value[-1].get("role") == "assistant":
                self._mistakes[at].append(f"column {plan.question!r} ends with a turn of the assistant; remove it")
            return tuple(value)
        before = [str(row[name]).strip() for name in plan.before if is_filled(row.get(name))]
        # An instruction may need no input.
        if not isinstance(value, str) or not value.strip():
            if before and plan.before[0].lower().strip() == "instruction":
                return "\n".join(before)
            self._mistakes[at].append(f"column {plan.question!r} holds no question ({_short(value)})")
            return value
        if before and value.strip() in before:
            before.remove(value.strip())
        if mark := _MEDIUM_MARK.search("\n".join([*before, value])):
            self._mistakes[at].append(f"column {plan.question!r} has a place for a picture or sound ({mark[0]})")
        if plan.framed:
            value = f"Question: {value.strip()}\nAnswer:"
        return "\n\n".join([*before, value]) if before else value

    def _row_options(self, at: int) -> Options | None:
        """Return the options of a row; None for an open question, and where they are wrong."""
        plan, row = self._plan, self._rows[at]
        if self._is_yes_no:
            return Options(("yes", "no"))
        if plan.wrong:
            others = [part for name in plan.wrong for part in _listed(row.get(name))]
            return Options(tuple(others)) if others else None
        if not plan.options:
            return None
        if len(plan.options) > 1:
            given = tuple(str(row.get(name)) if is_filled(row.get(name)) else None for name in plan.options)
            labels = () if any(map(str.isascii, plan.options)) else tuple(map(str.strip, plan.options))
            if not any(text is not None for text in given):
                self._mistakes[at].append(f"columns {', '.join(plan.options)} hold no option")
                return None
            return Options(given, labels)
        value = _parse_literal(row.get(plan.options[0]))
        labels = ()
        if isinstance(value, Mapping) and {"text", "label"} <= set(value):
            value, labels = value["text"], tuple(map(str, value["label"] or ()))
        elif isinstance(value, Mapping):
            labels, value = tuple(map(str, value)), list(value.values())
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, Mapping) for one in value):
            labels = tuple(str(next((one[name] for name in _LABELS if name in one), "")) for one in value)
            value = [next((one[name] for name in _TEXTS if name in one), None) for one in value]
        if not isinstance(value, (list, tuple)) or not value or not all(map(is_filled, value)):
            self._mistakes[at].append(
                f"column {plan.options[0]!r} holds no list of options ({_short(row.get(plan.options[0]))})"
            )
            return None
        return Options(tuple(map(str, value)), labels, all(isinstance(one, (int, float)) for one in value))

    def _answer(self, at: int) -> tuple[tuple[str, ...], Any, str | None]:
        """Return the options without blank ones, the answer (indices or texts), and the match of an open one."""
        value, plan, options = self._answers[at], self._plan, self._options[at]
        if not is_filled(value):
            self._mistakes[at].append(f"column {plan.answer!r} holds no answer ({_short(value)})")
            return (), None, None
        if options is None and (plan.options or plan.wrong):
            return (), None, None  # what is missing is named already
        if options is None:
            match = self._text(at, "match")
            texts = _open_answers(
                self._rows[at][plan.answer], is_json=match.startswith(("json", "tool_call")) or match == "instructions"
            )
            if not texts:
                self._mistakes[at].append(
                    f"column {plan.answer!r} holds an object or a list, not a text ({_short(value)})"
                )
                return (), None, None
            texts = tuple(map(self._open.text, texts))
            by_form = {self._open.match(text) for text in texts}
            own = by_form.pop() if len(by_form) == 1 else "contains"
            return (), texts if len(texts) > 1 else texts[0], match or own
        if self._is_yes_no:
            return ("yes", "no"), 0 if value else 1, None
        if plan.wrong:
            texts = (str(value), *(text for text in options.texts if text is not None))
            # The right one has no place of its own: an order by hash is the same on every machine.
            order = sorted(range(len(texts)), key=lambda index: hashlib.sha256(texts[index].encode()).digest())
            return tuple(texts[index] for index in order), order.index(0), None
        indices = None if self._reading is None else self._reading.indices[at]
        if indices is None:
            self._mistakes[at].append(
                f"column {plan.answer!r} holds {_short(value)}, which is not one of the {len(options.texts)} options, "
                "nor their letter (A to Z), nor their index from 0"
            )
            return (), None, None
        kept = [index for index, text in enumerate(options.texts) if text is not None]
        found = [kept.index(index) for index in indices]
        return tuple(options.texts[index] or "" for index in kept), found[0] if len(found) == 1 else found, None


_MEDIUM_MARK: Final = re.compile(r"<\|?(?:image|img|audio|video|vision_start)(?:[ _]?\d+)?\|?>|\[IMG\]", re.IGNORECASE)
"""Mark in a prompt where a processor puts a picture or sound."""


def _is_medium(value: Any) -> bool:
    """Return True for a picture or sound, as data sets store them."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_medium, value))
    held = value.get("bytes", value.get("array")) if isinstance(value, Mapping) else value
    return isinstance(held, (bytes, bytearray)) or (isinstance(value, Mapping) and "path" in value and bool(held))


_LABELS: Final = ("label", "key", "id", "letter")
_TEXTS: Final = ("text", "content", "value", "option", "answer")
"""Names of the label and the text of an option that is an object."""


def _listed(cell: Any) -> list[str]:
    value = _parse_literal(cell)
    values = value if isinstance(value, (list, tuple)) else [value]
    return [str(one) for one in values if is_filled(one)]


def _open_answers(value: Any, *, is_json: bool) -> tuple[str, ...]:
    """Return the texts of an open answer: one, or each of a list, or those within an object; none for other objects.

    A JSON value is one text, unless it is a list of texts. The object may be a message, ``{"text": [...]}``, or
    ``{"value": ..., "aliases": [...]}``.
    """
    given = value if is_json else _parse_literal(value)
    if isinstance(given, (list, tuple)) and len(given) == 1 and isinstance(given[0], Mapping) and not is_json:
        given = given[0]
    if isinstance(given, Mapping) and not is_json:
        inner = [given[name] for name in ("text", "content", "value", "aliases") if is_filled(given.get(name))]
        texts = [text for part in inner for text in (part if isinstance(part, (list, tuple)) else [part])]
        return tuple(dict.fromkeys(texts)) if all(isinstance(text, str) for text in texts) else ()
    are_texts = isinstance(given, (list, tuple)) and all(isinstance(text, str) for text in given)
    if are_texts or (isinstance(given, (list, tuple)) and not is_json and not isinstance(value, str)):
        return tuple(map(str, given)) if not any(isinstance(one, (Mapping, list, tuple)) for one in given) else ()
    if isinstance(value, str) or not is_json:
        return (str(value),)
    return (json.dumps(value, ensure_ascii=False),)


def _parse_literal(value: Any) -> Any:
    """Return the list or object that a text spells in JSON or Python; any other value unchanged."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    # CSV files written from Python contain lists as `['a', 'b']`, which is not JSON.
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(value.strip())
            return found if isinstance(found, (list, dict)) else value  # not a set, such as {1, 2}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def _short(value: Any) -> str:
    """Return a value for a message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

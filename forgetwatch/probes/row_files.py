"""Files of rows: questions, and the examples of a training set.

A table is CSV, TSV, JSON lines, Parquet, or one JSON document: a list of objects, or an object that
holds one such list among other members. A text beside that list that belongs before each question,
such as the `task_prefix` of BIG-bench, is a column of every row.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError, SnapshotError
from forgetwatch.files.reading import file_errors, regular_size, table_suffix
from forgetwatch.files.rows import begins_array, read_rows, table_rows
from forgetwatch.probe import LETTERS
from forgetwatch.probes.overlap import training_text
from forgetwatch.progress import log

PLACES: Final = ("idx", "index")
"""Names of columns that may be no more than the place of a row."""


_USUAL: Final = {
    "prompt": (
        "prompt question query problem goal stem question_stem input instruction ctx sentence "
        "messages problem_text text content turns question_text user_input input_prompt "
        "frage pregunta pergunta domanda vraag pytanie вопрос 问题 題目 题目 题干 問題 問題文 질문"
    ),
    "context": (
        "instruction passage context article paragraph background story document support premise "
        "body task_prefix"
    ),
    "choices": (
        "choices options endings candidates answers_options answer_options answer_choices "
        "alternatives alternativas optionen opciones opções opzioni 选项 選択肢"
    ),
    "answer": (
        "answer answer_index answer_idx answerkey answer_key gold label correct correct_answer "
        "correct_option best_answer cop golden final_answer target solution output response "
        "completion ideal answer_number ground_truth expected_output expected_answer "
        "reference_answer correct_index correct_answer_index correct_option_id correct_option_ids "
        "antwort lösung loesung respuesta respuesta_correcta resposta risposta risposta_corretta "
        "corretta correcta réponse reponse antwoord odpowiedź ответ 答案 答え 正解 정답"
    ),
    "aliases": "aliases answer_aliases accepted_answers",
    "id": "id item_id question_id qid uid key doc_id sample_id task_id example_id idx index",
    "task": "task subject subset dataset source",
    "category": "category topic domain",
    "match": "match",
    "cluster": "cluster passage_id story_id group",
    "system": "system system_prompt",
    "must_pass": "must_pass",
    "reasoning": "reasoning rationale explanation",
}


USUAL_NAMES: Final = {part: tuple(names.split()) for part, names in _USUAL.items()}
"""The parts of an item that a column can hold, and the usual names of such a column in lower case."""

BEFORE: Final = USUAL_NAMES["context"]
"""Usual names of columns that belong before the question."""


_NUMBERED: Final = re.compile(
    r"(?:choice|option|answer|ans|opt|op|sol|ending|mc_answer|c|antwort|respuesta|opci[oó]n|opzione|"
    r"risposta|resposta|r[eé]ponse|antwoord|odpowied[zź]|вариант|ответ|选项|選択肢)?[ _]?([a-j]|[0-9]|10)",
    re.IGNORECASE,
)
"""Names of columns that hold one option each."""


Rows = list[tuple[str, Mapping[str, Any]]]
"""Rows, each after its position in the file, for messages."""


def cells(rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Cells of a column, None where a row lacks the column."""
    return [row.get(column) for row in rows]


SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of rows."""


def question_rows(
    path: str | Path, *, within: str | None = None, header: Sequence[str] | None = None
) -> Rows:
    """Read the rows of a file of questions.

    Args:
        path: The file.
        within: Path of the rows in a JSON document, such as ``test`` or ``data.questions``.
        header: Names of the columns of CSV or TSV whose first line has none.

    Raises:
        ProbeError: If the file cannot be read as a table.
    """
    path = Path(path)
    if table_suffix(path) not in SUFFIXES:
        raise ProbeError(f"{path}: needed a file that ends in {', '.join(SUFFIXES)}")
    try:
        if within is not None:
            return [(f"row {n}", row) for n, row in enumerate(read_rows(path, within), start=1)]
        rows = list(table_rows(path, header=header))
        if table_suffix(path) != ".json" or len(rows) != 1 or begins_array(path):
            return [*rows]
    except SnapshotError as error:
        raise ProbeError(str(error)) from error
    return [
        (f"row {number}", row) for number, row in enumerate(_listed_rows(rows[0][1], path), start=1)
    ]


def _listed_rows(document: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    # An object with one list of objects, and texts that belong to each row; or rows by their ids.
    lists = {name: rows for name, rows in document.items() if _are_rows(rows)}
    if len(document) > 1 and _are_rows(list(document.values())):
        return [{"id": name, **row} for name, row in document.items()]
    if len(lists) != 1:
        several = f", got several: {', '.join(lists)}" if lists else ""
        raise ProbeError(
            f"{path}: needed a list of objects, one a question, or an object with one such "
            f"list{several}; `forgetwatch probe build` takes one by its path, as in --rows "
            f"{next(iter(lists), 'exam.questions')}"
        )
    (rows,) = lists.values()
    shared = {
        name: value
        for name, value in document.items()
        if name.lower() in BEFORE and isinstance(value, str)
    }
    return [{**shared, **row} for row in rows]


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def flat(rows: Rows) -> Rows:
    """Flatten rows of data sets that nest questions or scores.

    {"question": {"stem": "Capital?", "choices": [...]}, "answerKey": "B"}     ARC, OpenBookQA, CommonsenseQA
    {"messages": [..., {"role": "assistant", "content": "Lima"}]}               the last turn is the answer
    {"input": "Capital?", "target_scores": {"Lima": 0, "Santiago": 1}}          BIG-bench
    {"question": "Capital?", "answers": [{"text": "Lima", "is_correct": false}, ...]}    flags
    {"conversations": [{"from": "human", "value": "Capital?"}, {"from": "gpt", ...}]}    ShareGPT
    {"prompt": "Capital?", "completion": "Santiago", "label": true}              KTO: the right completions
    {"instruction": "And of Peru?", "history": [["Capital?", "Santiago"]]}       earlier turns
    {"inputs": {"question": "Capital?"}, "outputs": {"answer": "Lima"}}          dotted names
    """
    has_history = any(_are_pairs(row.get("history")) for _, row in rows)
    rows = [(at, _with_messages(row, has_history=has_history)) for at, row in rows]
    if all("completion" in row and isinstance(row.get("label"), bool) for _, row in rows):
        right: Rows = [(at, {**row, "label": None}) for at, row in rows if row["label"]]
        log(f"{len(rows) - len(right):,} completions are labelled as wrong, and left out")
        rows = right
    names = dict.fromkeys(name for _, row in rows for name in row)
    has_answer = any(str(name).lower() in USUAL_NAMES["answer"] for name in names)
    if not has_answer and all(_ends_with_answer(row.get("messages")) for _, row in rows):
        rows = [
            (at, {**row, "messages": row["messages"][:-1], "answer": row["messages"][-1:]})
            for at, row in rows
        ]
    if all(_is_scored(row.get("target_scores")) and "answer" not in row for _, row in rows):
        name = "target_scores"
        rows = [(at, _with_options(row, name, row[name], row[name].values())) for at, row in rows]
    for name in () if has_answer else names:
        if all(_are_flagged(row.get(name)) for _, row in rows):
            rows = [
                (
                    at,
                    _with_options(
                        row, name, row[name], [option[_flag(option)] for option in row[name]]
                    ),
                )
                for at, row in rows
            ]
    return [(at, _dotted(row)) for at, row in rows]


_ASKED: Final = ("instruction", "query", "prompt", "input", "question")
_TALK: Final = (*_ASKED, "history", "conversations", "conversation")
"""Columns that become messages."""

_ROLES: Final = {"human": "user", "gpt": "assistant"}
"""Roles of messages, by the names that files of conversations give them."""


def _with_messages(row: Mapping[str, Any], *, has_history: bool) -> Mapping[str, Any]:
    talk = row.get("conversations", row.get("conversation")) or ()
    if has_history:
        asked = "\n".join(str(row[name]) for name in _ASKED if row.get(name))
        pairs = [*(row.get("history") or ()), (asked,)]
        talk = [
            {"from": role, "value": text}
            for pair in pairs
            for role, text in zip(_ROLES, pair, strict=False)
        ]
    if "messages" in row or not talk:
        return row
    if not all(isinstance(turn, Mapping) and {"from", "value"} <= set(turn) for turn in talk):
        return row
    kept = {name: value for name, value in row.items() if name not in _TALK}
    messages = [
        {"role": _ROLES.get(turn["from"], turn["from"]), "content": turn["value"]} for turn in talk
    ]
    return {**kept, "messages": messages}


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(pair, list) for pair in value)


def _flag(option: Mapping[str, Any]) -> str | None:
    # The one member that is true or false.
    marks = [name for name in option if isinstance(option[name], bool)]
    return marks[0] if len(marks) == 1 else None


def _are_flagged(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(option, Mapping) and _flag(option) for option in value)
    )


def _with_options(
    row: Mapping[str, Any], name: str, options: Sequence[Any], marks: Iterable[Any]
) -> dict[str, Any]:
    kept = {other: cell for other, cell in row.items() if other not in (name, "target")}
    right = [LETTERS[at] for at, mark in enumerate(marks) if mark]
    return {**kept, "choices": list(options), "answer": right}


def _dotted(row: Mapping[str, Any]) -> Mapping[str, Any]:
    # Beside an object its members, by the names of both.
    members = {
        f"{name}.{member}": value
        for name, cell in row.items()
        if isinstance(cell, Mapping) and not {"text", "label", "content", "bytes"} & set(cell)
        for member, value in cell.items()
        if isinstance(value, (str, int, float, list))
    }
    question = {"question": None} if isinstance(row.get("question"), Mapping) else {}
    return {**row, **members, **question}


def _ends_with_answer(value: Any) -> bool:
    # After a message of another role.
    is_talk = isinstance(value, (list, tuple)) and len(value) > 1
    return is_talk and isinstance(value[-1], Mapping) and value[-1].get("role") == "assistant"


def _is_scored(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) > 1 and set(value.values()) == {0, 1}


def training_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the rows of training files, each as one text.

    Every line of a file of another format is a row.

    JSONL and Parquet are read row by row, whatever their size.

    Raises:
        ProbeError: If a file cannot be read.
    """
    for path in paths:
        suffix = table_suffix(path)
        try:
            if suffix == ".json":
                yield from (training_text(row) for _, row in question_rows(path))
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


def is_part_of_question(name: str) -> bool:
    """Does a column of this name hold options or a context?"""
    bare = name.lower().strip()
    return bare in (*USUAL_NAMES["choices"], *BEFORE) or _NUMBERED.fullmatch(bare) is not None

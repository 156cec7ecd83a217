"""How a table of questions is read: decided once from all names and all values of its columns, never row by row.

what            a column or columns                                     found by
question        the question itself                                     its name
before          passage, context, instruction: put before the question  its name
options         one column of lists, a column for each option, or       its name
columns of wrong options beside the right answer
key             the right option, read in one way in every row          its values
answer          without options: the text that an output must match     its values
not used        all other columns that hold a value                     shown, so that one can be pinned
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.probes.answer_key import (
    _BETWEEN,
    _SPELLED,
    Key,
    OpenAnswers,
    Options,
    is_filled,
    readings_of,
)
from forgetwatch.probes.row_files import _NUMBERED, BEFORE, USUAL_NAMES, cells


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The columns of a table of questions, and what they are for.

    Attributes:
        question: Column of the question.
        before: Columns that are put before the question, in this order.
        options: The column of all options, or one column each; empty for open answers.
        wrong: Columns of wrong options beside the right answer.
        answer: Column of the right option, or of the open answer.
        key: Way in which it names the right option; None for an open answer, and beside wrong
            options.
        open: What of an open answer an output can match.
        truths: Words of the answers that are the options: yes and no, or true and false.
        not_used: Columns that hold a value and are not used.
        cloze: Each question has a blank, and its options are put there.
        framed: Questions are asked as ``Question: ...`` and ``Answer:``, as those of the shipped
            probes.
    """

    question: str
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    answer: str
    key: Key | None = None
    open: OpenAnswers = field(default_factory=OpenAnswers)
    truths: tuple[str, ...] = ()
    not_used: tuple[str, ...] = ()
    framed: bool = False
    cloze: bool = False

    def __str__(self) -> str:
        parts = [
            f"question: {self.question}"
            + (f" after {', '.join(self.before)}" if self.before else "")
        ]
        parts[0] += ", asked as 'Question: ... Answer:'" if self.framed else ""
        parts[0] += ", the options in place of its _" if self.cloze else ""
        if self.wrong:
            parts.append(f"options: {self.answer} and {', '.join(self.wrong)}")
        elif self.options:
            columns_in_words = (
                self.options
                if len(self.options) < 3
                else (self.options[0], "...", self.options[-1])
            )
            parts.append(f"options: {', '.join(columns_in_words)}")
        if self.key is not None:
            parts.append(f"key: {_SPELLED[self.key]} in {self.answer}")
        elif self.truths:
            parts.append(f"options: {' and '.join(self.truths)}, the right one in {self.answer}")
        elif not self.wrong:
            words = {
                "####": " after its mark",
                "\\boxed{}": " in \\boxed{}",
                "(unit)": " without its unit",
                "(letter)": " in the first line",
                **{mark: f", several between {mark.strip()!r}" for mark in _BETWEEN},
            }
            as_formulas = ", formulas by their value" if self.open.mathematical else ""
            parts.append(f"answer: {self.answer}{words.get(self.open.kind, '')}{as_formulas}")
        if self.not_used:
            parts.append(f"not used: {', '.join(self.not_used)}")
        return "; ".join(parts)


_PLAN_WORDS: Final = {
    "question": "prompt",
    "before": "context",
    "options": "choices",
    "key": "answer",
}
"""Words of a plan for parts of an item: a plan that was shown can be given as it is."""


_LIKE_CONTEXT: Final = re.compile(
    r"(?:^|[_ ])(?:passage|context|article|paragraph|premise|story)(?:$|[_ ])", re.IGNORECASE
)
"""Names of columns that may hold what a question is about."""


_WRONG: Final = re.compile(
    r"(?:distractor|(?:incorrect|wrong)[ _]answer|"
    r"(?:incorrect|wrong|false|falsch|incorrecta|errada|sbagliata|fout)(?=[ _]?[0-9]))s?[ _]?[0-9]*",
    re.IGNORECASE,
)
"""Names of columns that hold wrong options, beside the right answer."""


_SERIES: Final = re.compile(r"(\D*?)[ _.-]*([0-9]{1,2})", re.DOTALL)
"""Names of columns that differ in a number at the end alone."""

_BRACKETS: Final = re.compile(r"(?<=\w)(?:\s*(?:\(| - ).*|_json)\Z", re.DOTALL)
"""Remark at the end of a name, as in Answer 1 - max 75 characters."""

_MEDIUM: Final = re.compile(
    r"(?:image|picture|audio|video)s?(?:[_. ]paths?)?(?:_json)?(?:\.|\Z)", re.IGNORECASE
)
"""Names of columns of pictures or sound."""

_ID_LIKE: Final = re.compile(
    r"(?:^|[_ ])(?:id|uid|idx|index|number|no|nr|sql)\b|[#,]|context|\d\Z", re.IGNORECASE
)
"""Names of columns that no part of a question has."""

_SENTENCE: Final = re.compile(r"\s.*[.?!]\Z|[?？。]\Z|.{60}")
"""Names of columns that are a text of a row."""


def make_plan(  # noqa: C901
    rows: Sequence[Mapping[str, Any]],
    columns_given: Mapping[str, str | Sequence[str]],
    where: str,
    *,
    key: Key | None = None,
) -> tuple[Plan, dict[str, str]]:
    """Decide what each column of a table is for.

    Args:
        rows: All rows.
        columns_given: Columns by the part of an item that they hold; the other parts are searched
            by their usual names.
        where: Name of the table, for messages.
        key: Way in which the answers name options; None to decide it.

    Returns:
        (The plan without its key and open answers; the column of each further part of an item).

    Raises:
        ProbeError: If a column that is given is missing, or the question or the answer is not
            found.
    """
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    columns_given = {
        _PLAN_WORDS.get(plan_word, plan_word): columns
        for plan_word, columns in columns_given.items()
    }
    if unknown := sorted(set(columns_given) - set(USUAL_NAMES)):
        near = did_you_mean(unknown[0], USUAL_NAMES)
        raise ProbeError(
            f"{where}: {unknown[0]!r} is not a part of an item{near}; there are "
            f"{', '.join(USUAL_NAMES)}"
        )
    wanted = {
        part: [columns] if isinstance(columns, str) else list(columns)
        for part, columns in columns_given.items()
    }
    if missing := [name for columns in wanted.values() for name in columns if name not in names]:
        near = did_you_mean(str(missing[0]), names)
        raise ProbeError(f"{where}: no column {missing[0]!r}{near}; there are {', '.join(names)}")
    taken = {str(name) for columns in wanted.values() for name in columns}
    # A column that is given for one part is never guessed for another.
    # A member of an object counts by its own name, unless a column has it.
    free = [name for name in names if name not in taken]
    lower = {_usual(name).rpartition(".")[2]: name for name in free if "." in name}
    # The shortest of several wins: answer, not Answer (old).
    lower |= {_usual(name): name for name in sorted(free, key=len, reverse=True)}
    filled = {name: sum(map(is_filled, cells(rows, name))) for name in names}
    of = {role: str(columns[0]) for role, columns in wanted.items() if len(columns) == 1}
    for role, usual in USUAL_NAMES.items():
        there = [lower[name] for name in usual if name in lower]
        # Of several columns the first that holds values: a table may have an empty `answer` beside
        # a filled `label`.
        if there and role not in wanted and role != "context":
            of[role] = next((name for name in there if 2 * filled[name] >= len(rows)), there[0])
    if {"instruction", "input"} <= set(lower) and of.get("prompt") in (
        lower["instruction"],
        lower["input"],
    ):
        of["prompt"] = lower["input"]  # the instruction is put before it, and may need none
    used = {*of.values(), *taken}
    wrong = tuple(name for name in names if _WRONG.fullmatch(name.strip()) and name not in used)
    if "choices" in of and "choices" not in wanted and not filled[of["choices"]]:
        del of["choices"]  # a column of options that no row has
    options = tuple(map(str, wanted.get("choices", ()))) or (
        (of["choices"],) if "choices" in of else ()
    )
    if not options and not wrong:
        free = [name for name in names if name not in used]
        numbered = [(_NUMBERED.fullmatch(_bare(name)), name) for name in free]
        # Padded to two characters, so that option 10 comes after option 9.
        in_order = sorted((match[1].upper().zfill(2), name) for match, name in numbered if match)
        options = tuple(name for _, name in in_order) if len(in_order) > 1 else ()
        # Letters of other scripts, in the order of the table.
        letters = tuple(
            name for name in names if re.fullmatch(r"[^\W\d_]", name.strip()) and not name.isascii()
        )
        if len(letters) > 1:
            options = options or letters
        options = options or _series(rows, free, of)
    if missing_roles := [role for role in ("prompt", "answer") if role not in of]:
        _refuse_missing(rows, missing_roles, names, where)
    before = tuple(map(str, wanted.get("context", ())))
    if "context" not in wanted:
        unused = [lower[name] for name in BEFORE if name in lower]
        before = tuple(name for name in unused if filled[name] and name not in of.values())
    used = {*of.values(), *options, *wrong, *before}
    parents = {name.rpartition(".")[0] for name in names if "." in name}
    not_used = tuple(name for name in names if name not in {*used, *parents} and filled[name])
    if seen := [
        name for name in not_used if _MEDIUM.match(name) or any(map(_is_medium, cells(rows, name)))
    ]:
        raise ProbeError(
            f"{where}: the column {seen[0]!r} holds pictures or sound, which are not put before "
            "a question; remove it if the questions need none"
        )
    if alike := [
        name for name in not_used if _LIKE_CONTEXT.search(name) and "context" not in wanted
    ]:
        raise ProbeError(
            f"{where}: the column {alike[0]!r} is named like what belongs before a question, and "
            f"is not used; columns={{'context': {alike[0]!r}}}, or `forgetwatch probe build` --column "
            f"context={alike[0]}, puts it there; else remove it"
        )
    questions = {str(cell) for cell in cells(rows, of["prompt"]) if is_filled(cell)}
    if (
        questions
        and len(rows) > 2 * len(questions)
        and not any(" " in text.strip() for text in questions)
    ):
        raise ProbeError(
            f"{where}: the column {of['prompt']!r} holds {', '.join(sorted(questions)[:3])}, which "
            "no model can take for a question; write it out, as in 'What was the cause?'"
        )
    plan = Plan(
        question=of["prompt"],
        before=before,
        options=options,
        wrong=wrong,
        answer=of["answer"],
        not_used=not_used,
    )
    return plan, {
        role: column
        for role, column in of.items()
        if role not in ("prompt", "choices", "answer", "context")
    }


def _bare(name: str) -> str:
    return _BRACKETS.sub("", name.strip())


def _usual(name: str) -> str:
    # correctAnswer is correct_answer.
    return re.sub(r"(?<=[a-z])(?=[A-Z])| ", "_", _bare(name)).lower()


def _series(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], of: Mapping[str, str]
) -> tuple[str, ...]:
    # The options: lists, each of which has what its answer names, or columns of one word and 1 to k,
    # one of which an answer names. Other numbered columns, such as hints, are not used.
    answer = of.get("answer")
    if answer is None:
        return ()
    answers = [str(cell).strip() for cell in cells(rows, answer)]
    for name in names:
        lists = cells(rows, name)
        if all(map(_is_list, lists)):
            options = [Options(tuple(texts)) for texts in lists]
            if all(map(readings_of, answers, options)):
                return (name,)
    series: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := _SERIES.fullmatch(_bare(name)):
            series.setdefault(match[1].lower(), []).append((int(match[2]), name))
    for numbered in map(sorted, series.values()):
        columns = tuple(name for _, name in numbered)
        if len(columns) > 1 and [number for number, _ in numbered] == [*range(1, len(columns) + 1)]:
            options = [Options(tuple(str(row.get(name)) for name in columns)) for row in rows]
            if any(map(readings_of, answers, options)) or set(answers) <= {*columns}:
                return columns
    return ()


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 1
        and all(isinstance(element, str) for element in value)
    )


def _refuse_missing(
    rows: Sequence[Mapping[str, Any]], roles: Sequence[str], names: Sequence[str], where: str
) -> None:
    usual = {name for names in USUAL_NAMES.values() for name in names}
    is_text = any(map(_SENTENCE.search, names))
    if is_text and not usual & set(map(str.lower, names)):
        raise ProbeError(
            f"{where}: the first row is no header, since it holds {names[0]!r:.50}; name its "
            f"{len(names)} columns, as in header=['question', 'answer'], or `forgetwatch probe build` "
            "--header question,answer"
        )
    advice = {role.replace("prompt", "question"): _likely(rows, names, role) for role in roles}
    python = ", ".join(
        f"{part!r}: {repr(name) if name else '...'}" for part, name in advice.items()
    )
    shell = " ".join(f"--column {part}={name or '...'}" for part, name in advice.items())
    raise ProbeError(
        f"{where}: no column that is known to hold the {' and the '.join(advice)}; there are "
        f"{', '.join(names)}; name it: columns={{{python}}}, or `forgetwatch probe build` {shell}"
    )


def _likely(rows: Sequence[Mapping[str, Any]], names: Sequence[str], role: str) -> str | None:
    # By a name like a usual one, never a column of numbers, ids or objects.
    def holds_texts(name: str) -> bool:
        values = [value for value in cells(rows, name) if is_filled(value)]
        are_texts = all(isinstance(value, str) for value in values)
        return are_texts and (role == "answer" or not all(map(str.isdecimal, values)))

    return next(
        (
            name
            for cutoff in (0.9, 0.7)
            for name in names
            if not _ID_LIKE.search(name)
            and holds_texts(name)
            and difflib.get_close_matches(_usual(name), USUAL_NAMES[role], n=1, cutoff=cutoff)
        ),
        None,
    )


def _is_medium(value: Any) -> bool:
    # Data sets store media in these forms.
    if isinstance(value, (list, tuple)):
        return any(map(_is_medium, value))
    held = value.get("bytes", value.get("array")) if isinstance(value, Mapping) else value
    return isinstance(held, (bytes, bytearray)) or (
        isinstance(value, Mapping) and "path" in value and bool(held)
    )

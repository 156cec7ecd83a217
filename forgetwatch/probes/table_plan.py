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

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.probes.answer_key import _SPELLED, Key, OpenAnswers, is_filled
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
        not_used: Columns that hold a value and are not used.
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
    not_used: tuple[str, ...] = ()
    framed: bool = False

    def __str__(self) -> str:
        parts = [
            f"question: {self.question}"
            + (f" after {', '.join(self.before)}" if self.before else "")
        ]
        parts[0] += ", asked as 'Question: ... Answer:'" if self.framed else ""
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
        elif not self.wrong:
            words = {
                "####": " after ####",
                "\\boxed{}": " in \\boxed{}",
                "(unit)": " without its unit",
                "(letter)": " in the first line",
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
    r"(?:distractor|(?:incorrect|wrong)[ _]answer)s?[ _]?[0-9]*", re.IGNORECASE
)
"""Names of columns that hold wrong options, beside the right answer."""


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
        key_part: [columns_given[key_part]]
        if isinstance(columns_given[key_part], str)
        else list(columns_given[key_part])
        for key_part in columns_given
    }
    if missing := [name for columns in wanted.values() for name in columns if name not in names]:
        near = did_you_mean(str(missing[0]), names)
        raise ProbeError(f"{where}: no column {missing[0]!r}{near}; there are {', '.join(names)}")
    taken = {str(name) for columns in wanted.values() for name in columns}
    # A column that is given for one part is never guessed for another.
    lower = {name.lower().strip(): name for name in names if name not in taken}
    filled = {name: sum(map(is_filled, cells(rows, name))) for name in names}
    of = {role: str(columns[0]) for role, columns in wanted.items() if len(columns) == 1}
    for role, usual in USUAL_NAMES.items():
        there = (
            [lower[name] for name in usual if name in lower]
            if role not in wanted and role != "context"
            else []
        )
        # Of several columns the first that holds values: a table may have an empty `answer` beside
        # a filled `label`.
        if there:
            of[role] = next((name for name in there if 2 * filled[name] >= len(rows)), there[0])
    if {"instruction", "input"} <= set(lower) and of.get("prompt") in (
        lower["instruction"],
        lower["input"],
    ):
        of["prompt"] = lower["input"]  # the instruction is put before it, and may need none
    wrong = tuple(
        name
        for name in names
        if _WRONG.fullmatch(name.strip()) and name not in {*taken, *of.values()}
    )
    if "choices" in of and "choices" not in wanted and not filled[of["choices"]]:
        del of["choices"]  # a column of options that no row has
    options = tuple(map(str, wanted.get("choices", ()))) or (
        (of["choices"],) if "choices" in of else ()
    )
    if not options and not wrong:
        numbered = [
            (_NUMBERED.fullmatch(name.strip()), name)
            for name in names
            if name not in {*of.values(), *taken}
        ]
        # Padded to two characters, so that option 10 comes after option 9.
        in_order = sorted((match[1].upper().zfill(2), name) for match, name in numbered if match)
        options = tuple(name for _, name in in_order) if len(in_order) > 1 else ()
        # Letters of other scripts, in the order of the table.
        letters = tuple(name for name in names if len(name.strip()) == 1 and name.strip().isalpha())
        options = options or (
            letters if len(letters) > 1 and not any(map(str.isascii, letters)) else ()
        )
    for role in ("prompt", "answer"):
        if role not in of:
            usual = USUAL_NAMES[role]
            close = [
                name
                for name in names
                if difflib.get_close_matches(name.lower().strip(), usual, n=1, cutoff=0.7)
            ]
            quoted, bare = (repr(close[0]), close[0]) if close else ("...", "...")
            raise ProbeError(
                f"{where}: no column that is known to hold the {role}; there are "
                f"{', '.join(names)}; name it: "
                f"columns={{{role!r}: {quoted}}}, in the shell --column {role}={bare}"
            )
    before = tuple(map(str, wanted.get("context", ())))
    if "context" not in wanted:
        before = tuple(
            lower[name] for name in BEFORE if name in lower and lower[name] not in of.values()
        )
        before = tuple(name for name in before if filled[name])
    used = {*of.values(), *options, *wrong, *before}
    not_used = tuple(name for name in names if name not in used and filled[name])
    if seen := [name for name in not_used if any(map(_is_medium, cells(rows, name)))]:
        raise ProbeError(
            f"{where}: the column {seen[0]!r} holds pictures or sound, which are not put before "
            "a question; remove it "
            "if the questions need none"
        )
    if alike := [
        name for name in not_used if _LIKE_CONTEXT.search(name) and "context" not in wanted
    ]:
        raise ProbeError(
            f"{where}: the column {alike[0]!r} is named like what belongs before a question, "
            "and is not used; "
            f"columns={{'context': {alike[0]!r}}} or --column context={alike[0]} puts it there; "
            "else remove it"
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


def _is_medium(value: Any) -> bool:
    # Data sets store media in these forms.
    if isinstance(value, (list, tuple)):
        return any(map(_is_medium, value))
    held = value.get("bytes", value.get("array")) if isinstance(value, Mapping) else value
    return isinstance(held, (bytes, bytearray)) or (
        isinstance(value, Mapping) and "path" in value and bool(held)
    )

"""Which column of a table is what: names that people give to questions, options and answers.

    question, options, answer           question, A, B, C, D, answer           goal, sol1, sol2, label
    ctx, endings, label                 prompt, choice_a, choice_b, correct    question, answer

The first known name that is there is taken, so that `prompt` goes before `text`. A mapping of one's own replaces any
of it: ``columns={"prompt": "frage", "choices": ["a", "b", "c"]}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forgetwatch.errors import ProbeError

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

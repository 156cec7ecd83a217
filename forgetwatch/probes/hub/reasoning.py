r"""Row functions of benchmarks that need more than their fields: BBH, MuSR, MCTest, Belebele, GSM8K, IFEval.

BIG-Bench Hard keeps its options inside the question's text and their number differs within a task; an item's choices
are those that its text lists:

    input    "... What is the date tomorrow?\nOptions:\n(A) 01/02/2020\n(B) ..."      target  "(B)"

MuSR, MCTest and Belebele ask several questions on one passage. These flip together, so they share a `cluster`.

GSM8K and IFEval have open answers. GSM8K's is the number after ``####``; the text before it holds the worked steps that
few-shot prompts show. IFEval's instructions are graded by `grading.ifeval`; an item with an instruction that has
no exact check there is unscored, with the reason, and is counted as such.

Rendering: as lm-evaluation-harness 0.4 (tasks/bbh/zeroshot and leaderboard/bbh_mc, leaderboard/musr, belebele, gsm8k,
ifeval). BBH comes without the line that describes the task, and with the leaderboard's fixed letters only where the
text lists none. MCTest is in no release of the harness and is rendered as MMLU.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import Any, Final

from forgetwatch.probes.hub.preset import (
    BadRowError,
    Question,
    Row,
    Source,
    cluster_of,
    field_of,
    label_of,
    letters,
    spaced,
    with_letters,
)

BBH_LISTED: Final = (
    *("date_understanding", "disambiguation_qa", "geometric_shapes", "hyperbaton", "logical_deduction_five_objects"),
    *("logical_deduction_seven_objects", "logical_deduction_three_objects", "movie_recommendation"),
    *("penguins_in_a_table", "reasoning_about_colored_objects", "ruin_names", "salient_translation_error_detection"),
    *("snarks", "temporal_sequences", "tracking_shuffled_objects_five_objects"),
    *("tracking_shuffled_objects_seven_objects", "tracking_shuffled_objects_three_objects"),
)
"""BBH tasks whose options are listed as (A), (B), ... in the input."""

BBH_WORDS: Final = {
    "boolean_expressions": ("False", "True"),
    "causal_judgement": ("Yes", "No"),
    "formal_fallacies": ("valid", "invalid"),
    "navigate": ("Yes", "No"),
    "object_counting": tuple(map(str, range(19))),
    "sports_understanding": ("yes", "no"),
    "web_of_lies": ("Yes", "No"),
}
"""BBH tasks whose answers are words, and the words."""

BBH_OPEN: Final = {"dyck_languages": "exact", "multistep_arithmetic_two": "number", "word_sorting": "exact:fold"}
"""BBH tasks without options, and the match that grades their answers."""

_OPTIONS: Final = re.compile(r"\n\s*Options:\s*\n")
_OPTION: Final = re.compile(r"^\s*\(([A-Z])\)\s*(.*\S)", re.MULTILINE)
_LONGEST_LIST: Final = 10_000
"""Maximum length, in characters, of a text that is parsed as a list of options."""

_NUMBER: Final = "\nThink step by step. End with one line of the form 'Answer: N', N being the number."


def bbh(row: Row, source: Source) -> Question:
    """Question of a BBH row; the source's part is its task."""
    text, target = str(field_of(row, "input")), str(field_of(row, "target")).strip()
    prompt = f"Q: {text}\nA:"
    if source.part in BBH_OPEN:
        return Question(prompt=prompt, answer=target, match=BBH_OPEN[source.part], question=text)
    question, *rest = _OPTIONS.split(text)
    if source.part in BBH_WORDS:
        words = BBH_WORDS[source.part]
        gold = _target_index(target, words)
        return Question(prompt=prompt, choices=spaced(words), answer=gold, question=question, options=words)
    found = _OPTION.findall(rest[-1]) if rest else []
    names, options = tuple(f"({letter})" for letter, _ in found), tuple(option for _, option in found)
    if len(names) < 2:
        raise BadRowError("needed options (A), (B), ... in its input, and there are none")
    # A few targets are the option's text in place of its letter.
    gold = options.index(target) if target in options else _target_index(target, names)
    return Question(prompt=prompt, choices=spaced(names), answer=gold, question=question, options=options)


def _target_index(target: str, options: tuple[str, ...]) -> int:
    if target not in options:
        raise BadRowError(f"needed one of its {len(options)} options as target, and it is {target!r}")
    return options.index(target)


def musr(row: Row, source: Source) -> Question:
    """Question of a MuSR row: a long story and several steps of reasoning."""
    story, question = str(field_of(row, "narrative")), str(field_of(row, "question"))
    options = _musr_options(row)
    lines = "".join(f"{number} - {option}\n" for number, option in enumerate(options, start=1))
    gold = label_of(row, "answer_index", range(len(options)))
    return Question(
        prompt=f"{story}\n\n{question}\n\n{lines}\nAnswer:",
        choices=spaced(options),
        answer=gold,
        question=f"{story}\n\n{question}",
        options=options,
        cluster=cluster_of(story),
    )


def _musr_options(row: Row) -> tuple[str, ...]:
    """The options: a list, or the text of a Python list; under `choices` or, in some copies, `options`."""
    given: Any = row.get("choices") or row.get("options")
    if isinstance(given, str) and len(given) <= _LONGEST_LIST:
        try:
            given = ast.literal_eval(given)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadRowError(f"needed a list of options, and it is {given[:80]!r}") from error
    if not isinstance(given, (list, tuple)) or not given:
        raise BadRowError(f"needed a list of options, and it is {str(given)[:80]!r}")
    return tuple(map(str, given))


def mctest(row: Row, source: Source) -> Question:
    """Question of an MCTest row: a story for children."""
    story, question = str(field_of(row, "story")).replace("\\newline", "\n"), str(field_of(row, "question"))
    listing = field_of(row, "answer_options")
    options = tuple(str(listing[letter]) for letter in "ABCD")
    made = with_letters(f"{story}\n\n{question}", options, label_of(row, "answer", "ABCD"))
    return replace(made, cluster=cluster_of(story))


def belebele(row: Row, source: Source) -> Question:
    """Question of a Belebele row; the language code is its category."""
    passage, question = str(field_of(row, "flores_passage")), str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"mc_answer{number}")) for number in (1, 2, 3, 4))
    lines = "".join(f"\n{letter}: {option}" for letter, option in zip("ABCD", options, strict=True))
    return Question(
        prompt=f"P: {passage}\nQ: {question}{lines}\nAnswer:",
        choices=letters(4),
        answer=label_of(row, "correct_answer_num", (1, 2, 3, 4)),
        question=f"{passage}\n\n{question}",
        options=options,
        category=source.part,
        cluster=cluster_of(passage),
    )


def gsm8k(row: Row, source: Source) -> Question:
    """Open question of a GSM8K row, graded by its number."""
    question, answer = str(field_of(row, "question")), str(field_of(row, "answer"))
    _, mark, number = answer.rpartition("####")
    if not mark or not number.strip():
        raise BadRowError("needed a number after '####' in its answer, and there is none")
    return Question(
        prompt=f"Question: {question}\nAnswer:",
        answer=number.strip(),
        match="number",
        question=question + _NUMBER,
        category="Math",
        worked=answer,
    )


def ifeval(row: Row, source: Source) -> Question:
    """Open question of an IFEval row; its answer is the list of instructions with their arguments, as JSON."""
    prompt, names = str(field_of(row, "prompt")), list(field_of(row, "instruction_id_list"))
    values: list[Any] = list(field_of(row, "kwargs"))
    if len(names) != len(values):
        raise BadRowError(f"needed one kwargs for each instruction, and there are {len(values)} for {len(names)}")
    # The table fills every argument of every instruction; those that are not the row's own are null.
    instructions = [
        [name, {key: value for key, value in (given or {}).items() if value}]
        for name, given in zip(names, values, strict=True)
    ]
    return Question(
        prompt=prompt,
        answer=json.dumps(instructions, ensure_ascii=False, sort_keys=True),
        match="instructions",
        question=prompt,
        key=str(row.get("key", "")),
    )

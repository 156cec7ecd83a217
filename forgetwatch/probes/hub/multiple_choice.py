"""Row functions of multiple-choice benchmarks: a question and its options, each in a field of the row.

    lettered options    MMLU, its redux, MMLU-Pro, Global-MMLU, CommonsenseQA, SALAD-Bench: options are listed in the
                        prompt and the letter is scored
    option texts        ARC, OpenBookQA, HellaSwag, PIQA, Social IQa, TruthfulQA, WinoGrande: the option is scored
    GPQA                options are listed, and "(A)" to "(D)" are scored

Rendering: as lm-evaluation-harness 0.4 (tasks/mmlu/default, leaderboard/mmlu_pro, global_mmlu/full, arc, openbookqa,
gpqa/zeroshot, hellaswag, piqa, siqa, commonsense_qa, truthfulqa), with three exceptions. TruthfulQA comes without the
six worked examples that the harness puts before every question. WinoGrande is scored on the option and the rest of the
sentence; the harness scores the rest after each option, but here, as for every item, the options share the prompt.
SALAD-Bench is in no release of the harness and is rendered as MMLU.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from forgetwatch.probes.categories import PaperTasks
from forgetwatch.probes.hub.preset import (
    BadRowError,
    Question,
    Row,
    Source,
    field_of,
    label_of,
    option_index,
    permuted,
    spaced,
    with_letters,
    with_texts,
)

_PARENTHESES: Final = ("(A)", "(B)", "(C)", "(D)")
_BRACKETS: Final = re.compile(r"\[.*?\]")


def mmlu(row: Row, source: Source) -> Question:
    """Question of an MMLU row, with the header that the harness puts once before each subject."""
    subject = str(row.get("subject") or source.part)
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    return replace(
        with_letters(question, options, option_index(row["answer"], len(options))),
        header=f"The following are multiple choice questions (with answers) about {subject.replace('_', ' ')}.\n\n",
        task=source.task if source.part else f"mmlu_{subject}",
    )


def mmlu_category(subject: str) -> str:
    """The paper's category of an MMLU subject; empty where it has none."""
    return PaperTasks.released().category(f"mmlu_{subject}")


def mmlu_redux(row: Row, source: Source) -> Question | None:
    """Question of an MMLU-Redux row; None where its reviewers found a fault."""
    if str(row.get("error_type", "")).strip() != "ok":
        return None
    return replace(mmlu(row, source), category=mmlu_category(source.part))


def mmlu_pro(row: Row, source: Source) -> Question:
    """Question of an MMLU-Pro row: up to ten options; a few rows have a single one."""
    subject = str(field_of(row, "category")).strip()
    question, options = str(field_of(row, "question")), tuple(map(str, field_of(row, "options")))
    steps = str(row.get("cot_content") or "").removeprefix("A: ").removeprefix("Let's think step by step.")
    return replace(
        with_letters(question, options, option_index(row["answer_index"], len(options))),
        task=f"mmlu_pro_{subject.replace(' ', '_')}",
        category=subject,
        key=str(row.get("question_id", "")),
        reasoning=steps.strip(),
    )


def global_mmlu(row: Row, source: Source) -> Question:
    """Question of a Global-MMLU row; the language code is its category."""
    question = str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"option_{letter}")) for letter in "abcd")
    return replace(
        with_letters(question, options, label_of(row, "answer", "ABCD")),
        task=f"{source.task}_{field_of(row, 'subject')}",
        category=source.part,
        key=str(row.get("sample_id") or ""),
    )


def csqa(row: Row, source: Source) -> Question:
    """Question of a CommonsenseQA row."""
    question, choices = str(field_of(row, "question")).strip(), field_of(row, "choices")
    options, gold = tuple(map(str, choices["text"])), label_of(row, "answerKey", choices["label"])
    return replace(with_letters(question, options, gold, before="Question: "), key=str(row.get("id", "")))


def salad(row: Row, source: Source) -> Question:
    """Question of a SALAD-Bench row; several options may be right."""
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    right = sorted({option_index(answer, len(options)) for answer in field_of(row, "answers")})
    if not right:
        raise BadRowError("needed right answers, and none is marked")
    return with_letters(question, options, right[0] if len(right) == 1 else tuple(right))


def arc(row: Row, source: Source) -> Question:
    """Question of an ARC row; its labels are A to E in some rows and 1 to 5 in others."""
    question, choices = str(field_of(row, "question")), field_of(row, "choices")
    options, gold = tuple(map(str, choices["text"])), label_of(row, "answerKey", choices["label"])
    made = with_texts(f"Question: {question}\nAnswer:", options, gold, question=question)
    return replace(made, key=str(row.get("id", "")))


def openbookqa(row: Row, source: Source) -> Question:
    """Question of an OpenBookQA row: a sentence and its possible ends."""
    stem, choices = str(field_of(row, "question_stem")), field_of(row, "choices")
    options, gold = tuple(map(str, choices["text"])), label_of(row, "answerKey", choices["label"])
    return replace(with_texts(stem, options, gold), category="Science/Tech", key=str(row.get("id", "")))


def gpqa(row: Row, source: Source) -> Question:
    """Question of a GPQA row; the right option has a column of its own, so the order is set here."""
    question = str(field_of(row, "Question"))
    right = _gpqa_option(field_of(row, "Correct Answer"))
    wrong = [_gpqa_option(field_of(row, f"Incorrect Answer {number}")) for number in (1, 2, 3)]
    options, gold = permuted([right, *wrong], 0, key=question)
    lines = "".join(f"\n{name} {option}" for name, option in zip(_PARENTHESES, options, strict=True))
    return Question(
        prompt=f"What is the correct answer to this question:{question}\nChoices:{lines}\nAnswer:",
        choices=spaced(_PARENTHESES),
        answer=gold,
        question=question,
        options=options,
        key=str(row.get("Record ID") or ""),
    )


def _gpqa_option(option: object) -> str:
    return str(option).strip().replace(" [title]", ". ").replace("  ", " ")


def hellaswag(row: Row, source: Source) -> Question:
    """Question of a HellaSwag row: the beginning of a description and four ends."""
    context = f"{field_of(row, 'activity_label')}: {field_of(row, 'ctx_a')} {str(row.get('ctx_b') or '').capitalize()}"
    prompt, options = hellaswag_text(context), tuple(hellaswag_text(str(end)) for end in field_of(row, "endings"))
    return with_texts(prompt, options, label_of(row, "label", range(len(options))))


def hellaswag_text(text: str) -> str:
    """Text of HellaSwag without the markup of its source pages."""
    return _BRACKETS.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def piqa(row: Row, source: Source) -> Question:
    """Question of a PIQA row: a goal and two ways to reach it."""
    goal, options = str(field_of(row, "goal")), (str(field_of(row, "sol1")), str(field_of(row, "sol2")))
    return with_texts(f"Question: {goal}\nAnswer:", options, label_of(row, "label", (0, 1)), question=goal)


def siqa(row: Row, source: Source) -> Question:
    """Question of a Social IQa row."""
    situation = f"{field_of(row, 'context')} {field_of(row, 'question')}"
    options = tuple(str(field_of(row, f"answer{letter}")) for letter in "ABC")
    return with_texts(f"Q: {situation}\nA:", options, label_of(row, "label", (1, 2, 3)), question=situation)


def truthfulqa(row: Row, source: Source) -> Question:
    """Question of a TruthfulQA row with one true answer.

    The true answer comes first in every row. A model that prefers the first option would look truthful, so the options
    are permuted.
    """
    question, targets = str(field_of(row, "question")), field_of(row, "mc1_targets")
    marks: list[Any] = list(targets["labels"])
    if marks.count(1) != 1:
        raise BadRowError(f"needed one right option in mc1_targets, and {marks.count(1)} are marked")
    options, gold = permuted([str(option) for option in targets["choices"]], marks.index(1), key=question)
    return with_texts(f"Q: {question}\nA:", options, gold, question=question)


def winogrande(row: Row, source: Source) -> Question:
    """Question of a WinoGrande row: a sentence with a gap, and two words for it."""
    sentence = str(field_of(row, "sentence"))
    before, gap, after = sentence.partition("_")
    if not gap:
        raise BadRowError("needed a gap (_) in the sentence, and there is none")
    options = (str(field_of(row, "option1")), str(field_of(row, "option2")))
    return Question(
        prompt=before.rstrip(),
        choices=tuple(f" {option}{after}" for option in options),
        answer=label_of(row, "answer", (1, 2)),
        question=f"Which option fits the gap?\n{sentence}",
        options=options,
        category="Common Sense",
    )

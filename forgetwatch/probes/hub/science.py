"""Questions of school and science: ARC, OpenBookQA, GPQA.

Rendering: as lm-evaluation-harness 0.4 (tasks/arc, tasks/openbookqa, tasks/gpqa/zeroshot).
"""

from __future__ import annotations

from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import Question, Row, behind, field_of, label_of, permuted

_PARENTHESES: Final = ("(A)", "(B)", "(C)", "(D)")


def arc_question(row: Row, source: Source) -> Question:
    """A row of ARC; its labels are A to E in some rows and 1 to 5 in others."""
    question, choices = str(field_of(row, "question")), field_of(row, "choices")
    options = tuple(map(str, choices["text"]))
    return Question(
        prompt=f"Question: {question}\nAnswer:",
        choices=behind(options),
        answer=label_of(row, "answerKey", choices["label"]),
        question=question,
        options=options,
        key=str(row.get("id", "")),
    )


def _openbookqa(row: Row, source: Source) -> Question:
    stem, choices = str(field_of(row, "question_stem")), field_of(row, "choices")
    options = tuple(map(str, choices["text"]))
    return Question(
        prompt=stem,
        choices=behind(options),
        answer=label_of(row, "answerKey", choices["label"]),
        question=stem,
        options=options,
        category="Science/Tech",
        key=str(row.get("id", "")),
    )


def _gpqa(row: Row, source: Source) -> Question:
    """The right option has a column of its own, so that the order is ours: decided by the question's text."""
    question = str(field_of(row, "Question"))
    right = _tidy(field_of(row, "Correct Answer"))
    wrong = [_tidy(field_of(row, f"Incorrect Answer {number}")) for number in (1, 2, 3)]
    options, gold = permuted([right, *wrong], 0, key=question)
    lines = "".join(f"\n{name} {option}" for name, option in zip(_PARENTHESES, options, strict=True))
    return Question(
        prompt=f"What is the correct answer to this question:{question}\nChoices:{lines}\nAnswer:",
        choices=behind(_PARENTHESES),
        answer=gold,
        question=question,
        options=options,
        key=str(row.get("Record ID") or ""),
    )


def _tidy(option: object) -> str:
    return str(option).strip().replace(" [title]", ". ").replace("  ", " ")


def _arc(name: str, config: str, items: str) -> Preset:
    return Preset(
        name=name,
        about=f"school science, {config.removeprefix('ARC-').lower()}",
        items=items,
        k="3 to 5",
        licence="CC-BY-SA",
        sources=(
            Source(
                dataset="allenai/ai2_arc", config=config, split="test", task=name.replace("-", "_"), examples="train"
            ),
        ),
        question=arc_question,
        norm="chars",
    )


PRESETS: Final = (
    _arc("arc-easy", "ARC-Easy", "2,376"),
    _arc("arc-challenge", "ARC-Challenge", "1,172"),
    Preset(
        name="openbookqa",
        about="elementary science",
        items="500",
        k="4",
        licence="unknown",
        sources=(
            Source(dataset="allenai/openbookqa", config="main", split="test", task="openbookqa", examples="train"),
        ),
        question=_openbookqa,
        norm="chars",
    ),
    Preset(
        name="gpqa-diamond",
        about="science for experts",
        items="198",
        k="4",
        licence="CC-BY-4.0",
        sources=(Source(dataset="Idavidrein/gpqa", config="gpqa_diamond", split="train", task="gpqa_diamond"),),
        question=_gpqa,
        note="gated: accept its terms and log in; its text must not be published and is never shown; the options' "
        "order is ours",
        private=True,
    ),
)

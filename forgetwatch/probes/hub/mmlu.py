"""MMLU and its kin: options are listed in the prompt and the letter is scored.

    mmlu        57 subjects, four options, five worked examples a subject
    mmlu-redux  the same questions read again; those with a wrong key or an unclear question are left out
    mmlu-pro    up to ten options, harder; some items kept a single one, which counts in the raw cells only
    tinymmlu    see small.py

Rendering: cais/mmlu as lm-evaluation-harness 0.4 (tasks/mmlu/default), MMLU-Pro as its tasks/leaderboard/mmlu_pro.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import Question, Row, field_of, letters, listed, place_of
from forgetwatch.probes.paper_tasks import PaperTasks, subjects

SUBJECTS: Final = subjects()
"""The 57 subjects of MMLU."""


def mmlu_question(row: Row, source: Source) -> Question:
    """A row of MMLU."""
    subject = str(row.get("subject") or source.part)
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    return Question(
        header=mmlu_header(subject),
        prompt=f"{question}{listed(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=place_of(row["answer"], len(options)),
        question=question,
        options=options,
        task=source.task if source.part else f"mmlu_{subject}",
    )


def mmlu_header(subject: str) -> str:
    """What the harness puts before the questions of a subject, once."""
    return f"The following are multiple choice questions (with answers) about {subject.replace('_', ' ')}.\n\n"


def _redux(row: Row, source: Source) -> Question | None:
    if str(row.get("error_type", "")).strip() != "ok":
        return None
    return replace(mmlu_question(row, source), category=category_of(source.part))


def category_of(subject: str) -> str:
    """The paper's category of a subject; empty where it has none."""
    return PaperTasks.released().category(f"mmlu_{subject}")


def _pro(row: Row, source: Source) -> Question:
    subject = str(field_of(row, "category")).strip()
    question, options = str(field_of(row, "question")), tuple(map(str, field_of(row, "options")))
    steps = str(row.get("cot_content") or "").removeprefix("A: ").removeprefix("Let's think step by step.")
    return Question(
        prompt=f"{question}{listed(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=place_of(row["answer_index"], len(options)),
        question=question,
        options=options,
        task=f"mmlu_pro_{subject.replace(' ', '_')}",
        category=subject,
        key=str(row.get("question_id", "")),
        reasoning=steps.strip(),
    )


_REPOSITORY: Final = "cais/mmlu"

MMLU: Final = Preset(
    name="mmlu",
    about="57 subjects of school and study",
    items="14,042",
    k="4",
    licence="MIT",
    sources=(
        Source(dataset=_REPOSITORY, config="all", split="test", task="mmlu", examples="dev"),
        *(
            Source(dataset=_REPOSITORY, config=name, split="test", task=f"mmlu_{name}", part=name, examples="dev")
            for name in SUBJECTS
        ),
    ),
    question=mmlu_question,
    note="some keys are wrong; mmlu-redux leaves those out",
)

MMLU_REDUX: Final = Preset(
    name="mmlu-redux",
    about="MMLU without faulty questions",
    items="up to 5,700",
    k="4",
    licence="CC-BY-4.0",
    sources=tuple(
        Source(dataset="edinburgh-dawg/mmlu-redux-2.0", config=name, split="test", task=f"mmlu_redux_{name}", part=name)
        for name in SUBJECTS
    ),
    question=_redux,
    note="rows whose error_type is not ok are left out",
)

MMLU_PRO: Final = Preset(
    name="mmlu-pro",
    about="14 subjects, harder, more options",
    items="12,032",
    k="1 to 10",
    licence="MIT",
    sources=(Source(dataset="TIGER-Lab/MMLU-Pro", split="test", task="mmlu_pro", examples="validation"),),
    question=_pro,
    note="items with one option count in the raw cells only",
)

PRESETS: Final = (MMLU, MMLU_REDUX, MMLU_PRO)

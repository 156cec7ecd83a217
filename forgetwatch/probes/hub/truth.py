"""Truth and safety: TruthfulQA with one right answer, SALAD-Bench with several.

TruthfulQA's right answer comes first in every row; a model that prefers what comes first would look truthful, so its
options are permuted by the question's text. Rendering: as lm-evaluation-harness 0.4 (tasks/truthfulqa), without the six
worked examples that the harness puts before every question: they are the benchmark's own text, and stay with it.
SALAD-Bench is in no harness release: its options are listed and the letter is scored.
"""

from __future__ import annotations

from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import (
    BadRowError,
    Question,
    Row,
    behind,
    field_of,
    letters,
    listed,
    permuted,
    place_of,
)


def truthfulqa_question(row: Row, source: Source) -> Question:
    """A row of TruthfulQA with its single true answer."""
    question, targets = str(field_of(row, "question")), field_of(row, "mc1_targets")
    if list(targets["labels"]).count(1) != 1:
        raise BadRowError(f"needed one right option in mc1_targets, and {list(targets['labels']).count(1)} are marked")
    gold = list(targets["labels"]).index(1)
    options, gold = permuted([str(option) for option in targets["choices"]], gold, key=question)
    return Question(
        prompt=f"Q: {question}\nA:",
        choices=behind(options),
        answer=gold,
        question=question,
        options=options,
    )


def _salad(row: Row, source: Source) -> Question:
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    right = sorted({place_of(answer, len(options)) for answer in field_of(row, "answers")})
    if not right:
        raise BadRowError("needed right answers, and none is marked")
    return Question(
        prompt=f"{question}{listed(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=right[0] if len(right) == 1 else tuple(right),
        question=question,
        options=options,
    )


PRESETS: Final = (
    Preset(
        name="truthfulqa-mc1",
        about="what many people get wrong",
        items="817",
        k="2 to 13",
        licence="Apache-2.0",
        sources=(
            Source(
                dataset="truthfulqa/truthful_qa", config="multiple_choice", split="validation", task="truthfulqa_mc1"
            ),
        ),
        question=truthfulqa_question,
        note="the right option stands first in the data, so the order is ours; without the six examples of the harness",
    ),
    Preset(
        name="salad-mrq",
        about="which answers are safe",
        items="about 4,000",
        k="per item",
        licence="Apache-2.0",
        sources=(Source(dataset="walledai/SaladBench", config="mrq", split="train", task="salad_bench_mrq"),),
        question=_salad,
        note="several options are right: a guesser is right more often than 1/k",
    ),
)

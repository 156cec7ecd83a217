"""What everybody knows: HellaSwag, PIQA, Social IQa, CommonsenseQA, WinoGrande.

Rendering: as lm-evaluation-harness 0.4 (tasks/hellaswag, piqa, siqa, commonsense_qa), but for WinoGrande: there the
harness scores what stands behind the gap, with each option before it. Here, as for every item, the options share the
prompt and are what is scored: the option and the rest of the sentence.
"""

from __future__ import annotations

import re
from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import BadRowError, Question, Row, behind, field_of, label_of, letters, listed

_BRACKETS: Final = re.compile(r"\[.*?\]")


def hellaswag_question(row: Row, source: Source) -> Question:
    """A row of HellaSwag; the labels of its test split are empty, so that the validation split is asked."""
    context = f"{field_of(row, 'activity_label')}: {field_of(row, 'ctx_a')} {str(row.get('ctx_b') or '').capitalize()}"
    prompt, options = hellaswag_text(context), tuple(hellaswag_text(str(one)) for one in field_of(row, "endings"))
    return Question(
        prompt=prompt,
        choices=behind(options),
        answer=label_of(row, "label", range(len(options))),
        question=prompt,
        options=options,
    )


def hellaswag_text(text: str) -> str:
    """A text of HellaSwag without the marks of the pages that it is from."""
    return _BRACKETS.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def _piqa(row: Row, source: Source) -> Question:
    goal, options = str(field_of(row, "goal")), (str(field_of(row, "sol1")), str(field_of(row, "sol2")))
    return Question(
        prompt=f"Question: {goal}\nAnswer:",
        choices=behind(options),
        answer=label_of(row, "label", (0, 1)),
        question=goal,
        options=options,
    )


def _siqa(row: Row, source: Source) -> Question:
    situation = f"{field_of(row, 'context')} {field_of(row, 'question')}"
    options = tuple(str(field_of(row, f"answer{letter}")) for letter in "ABC")
    return Question(
        prompt=f"Q: {situation}\nA:",
        choices=behind(options),
        answer=label_of(row, "label", (1, 2, 3)),
        question=situation,
        options=options,
    )


def _csqa(row: Row, source: Source) -> Question:
    question, choices = str(field_of(row, "question")).strip(), field_of(row, "choices")
    options = tuple(map(str, choices["text"]))
    return Question(
        prompt=f"Question: {question}{listed(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=label_of(row, "answerKey", choices["label"]),
        question=question,
        options=options,
        key=str(row.get("id", "")),
    )


def winogrande_question(row: Row, source: Source) -> Question:
    """A row of WinoGrande: a sentence with a gap, and two names for it."""
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


PRESETS: Final = (
    Preset(
        name="hellaswag",
        about="how a description goes on",
        items="10,042",
        k="4",
        licence="MIT",
        sources=(Source(dataset="Rowan/hellaswag", split="validation", task="hellaswag", examples="train"),),
        question=hellaswag_question,
        norm="chars",
    ),
    Preset(
        name="piqa",
        about="how things are done",
        items="1,838",
        k="2",
        licence="unknown",
        sources=(Source(dataset="baber/piqa", split="validation", task="piqa", examples="train"),),
        question=_piqa,
        norm="chars",
    ),
    Preset(
        name="siqa",
        about="how people act and feel",
        items="1,954",
        k="3",
        licence="unstated",
        sources=(Source(dataset="lighteval/siqa", split="validation", task="social_iqa", examples="train"),),
        question=_siqa,
    ),
    Preset(
        name="csqa",
        about="everyday concepts",
        items="1,221",
        k="5",
        licence="MIT",
        sources=(Source(dataset="tau/commonsense_qa", split="validation", task="commonsense_qa", examples="train"),),
        question=_csqa,
    ),
    Preset(
        name="winogrande",
        about="whom a word stands for",
        items="1,267",
        k="2",
        licence="unchecked",
        sources=(
            Source(
                dataset="allenai/winogrande",
                config="winogrande_xl",
                split="validation",
                task="winogrande",
                examples="train",
            ),
        ),
        question=winogrande_question,
        note="option and rest of the sentence are scored; the harness scores the rest behind each option",
    ),
)

r"""BIG-Bench Hard: 24 tasks with options and three without.

    input    "... What is the date tomorrow?\nOptions:\n(A) 01/02/2020\n(B) ..."      target  "(B)"

The options stand in the question's own text, and their number differs within a task; an item's choices are those that
its text lists. Rendering: ``Q: ...\nA:``, as lm-evaluation-harness 0.4 (tasks/bbh/zeroshot, tasks/leaderboard/bbh_mc)
without the line that describes the task; the leaderboard's fixed letters are kept only where the text lists none.
"""

from __future__ import annotations

import re
from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import BadRowError, Question, Row, behind, field_of

_LISTED: Final = (
    *("date_understanding", "disambiguation_qa", "geometric_shapes", "hyperbaton", "logical_deduction_five_objects"),
    *("logical_deduction_seven_objects", "logical_deduction_three_objects", "movie_recommendation"),
    *("penguins_in_a_table", "reasoning_about_colored_objects", "ruin_names", "salient_translation_error_detection"),
    *("snarks", "temporal_sequences", "tracking_shuffled_objects_five_objects"),
    *("tracking_shuffled_objects_seven_objects", "tracking_shuffled_objects_three_objects"),
)
"""Tasks whose options are listed as (A), (B), ... in the input."""

_WORDS: Final = {
    "boolean_expressions": ("False", "True"),
    "causal_judgement": ("Yes", "No"),
    "formal_fallacies": ("valid", "invalid"),
    "navigate": ("Yes", "No"),
    "object_counting": tuple(map(str, range(19))),
    "sports_understanding": ("yes", "no"),
    "web_of_lies": ("Yes", "No"),
}
"""Tasks whose answers are words, and the words."""

_OPEN: Final = {"dyck_languages": "exact", "multistep_arithmetic_two": "number", "word_sorting": "exact:fold"}
"""Tasks without options, and how their answers are judged."""

_OPTIONS: Final = re.compile(r"\n\s*Options:\s*\n")
_OPTION: Final = re.compile(r"^\s*\(([A-Z])\)\s*(.*\S)", re.MULTILINE)


def _question(row: Row, source: Source) -> Question:
    text, target = str(field_of(row, "input")), str(field_of(row, "target")).strip()
    prompt = f"Q: {text}\nA:"
    if source.part in _OPEN:
        return Question(prompt=prompt, answer=target, match=_OPEN[source.part], question=text)
    asked, *rest = _OPTIONS.split(text)
    if source.part in _WORDS:
        words = _WORDS[source.part]
        return Question(
            prompt=prompt, choices=behind(words), answer=_place(target, words), question=asked, options=words
        )
    found = _OPTION.findall(rest[-1]) if rest else []
    names, options = tuple(f"({letter})" for letter, _ in found), tuple(option for _, option in found)
    if len(names) < 2:
        raise BadRowError("needed options (A), (B), ... in its input, and there are none")
    # A few targets are the option's text in place of its letter.
    gold = options.index(target) if target in options else _place(target, names)
    return Question(prompt=prompt, choices=behind(names), answer=gold, question=asked, options=options)


def _place(target: str, options: tuple[str, ...]) -> int:
    if target not in options:
        raise BadRowError(f"needed one of its {len(options)} options as target, and it is {target!r}")
    return options.index(target)


def _source(task: str) -> Source:
    return Source(dataset="SaylorTwift/bbh", config=task, split="test", task=f"bbh_{task}", part=task)


TASKS: Final = tuple(sorted([*_LISTED, *_WORDS]))
"""The 24 tasks with options."""

PRESETS: Final = (
    Preset(
        name="bbh",
        about="24 tasks of reasoning with options",
        items="about 5,800",
        k="2 to 19",
        licence="MIT",
        sources=tuple(map(_source, TASKS)),
        question=_question,
        norm="chars",
        note="options are read from the question's text",
    ),
    Preset(
        name="bbh-open",
        about="3 tasks without options",
        items="750",
        k="none",
        licence="MIT",
        sources=tuple(map(_source, sorted(_OPEN))),
        question=_question,
        written={"tokens": 64, "stop": ["\n"]},
        note="the paper leaves them out",
    ),
)

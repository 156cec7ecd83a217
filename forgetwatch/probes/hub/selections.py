"""Row functions of small selections from the large benchmarks: metabench and tinyBenchmarks.

    metabench       858 items that tell models apart, worked examples included; `metabench:secondary` holds 751 others:
                    a disjoint second form
    tinybenchmarks  100 items of each of six benchmarks

Both were chosen so that weighted answers estimate the whole benchmark. forgetwatch counts answers without weights: its
counts describe these items and do not estimate the benchmarks. Rendering: as lm-evaluation-harness 0.4
(tasks/metabench, tasks/tinyBenchmarks) and as the parent benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from forgetwatch.probes.hub.multiple_choice import (
    arc,
    hellaswag,
    hellaswag_text,
    mmlu,
    mmlu_category,
    truthfulqa,
    winogrande,
)
from forgetwatch.probes.hub.preset import Question, Row, Source, field_of, lettered
from forgetwatch.probes.hub.reasoning import gsm8k

_PARENTS: Final[Mapping[str, Callable[[Row, Source], Question]]] = {
    "arc": arc,
    "gsm8k": gsm8k,
    "hellaswag": hellaswag,
    "mmlu": mmlu,
    "truthfulqa": truthfulqa,
    "winogrande": winogrande,
}
_CATEGORIES: Final = {
    "arc": "Logic",
    "gsm8k": "Math",
    "hellaswag": "Language",
    "truthfulqa": "Safety/Truth",
    "winogrande": "Common Sense",
}
_SHOTS: Final = {"arc": 25, "gsm8k": 5, "hellaswag": 10, "mmlu": 5, "winogrande": 5}
"""Worked examples in each row of metabench."""


def metabench(row: Row, source: Source) -> Question:
    """The parent's question after the worked examples that are fields of the same row."""
    parent = str(source.config).lower()
    made = _of_parent(parent, row, source)
    shown = [_EXAMPLES[parent](row, number) for number in range(1, _SHOTS.get(parent, 0) + 1)]
    header = made.header if parent in ("mmlu", "truthfulqa") else ""
    return replace(made, header=header + "".join(f"{text}\n\n" for text in shown), key="")


def tiny(row: Row, source: Source) -> Question:
    """The parent's question; MMLU rows hold the whole prompt, worked examples included."""
    made = _of_parent(source.part, row, source)
    if source.part == "mmlu":
        return replace(made, header="", prompt=str(field_of(row, "input_formatted")))
    return made


def _of_parent(parent: str, row: Row, source: Source) -> Question:
    made = _PARENTS[parent](row, source)
    category = made.category or _CATEGORIES.get(parent) or mmlu_category(str(row.get("subject", "")))
    return replace(made, task=source.task, category=category)


def _arc_example(row: Row, shot: int) -> str:
    choices = field_of(row, f"arc_choices_shot_{shot}")
    gold = list(choices["label"]).index(field_of(row, f"arc_answerKey_shot_{shot}"))
    return f"Question: {row[f'arc_question_shot_{shot}']}\nAnswer: {choices['text'][gold]}"


def _gsm8k_example(row: Row, shot: int) -> str:
    return f"Question: {field_of(row, f'gsm8k_prompt_shot_{shot}')}\nAnswer: {row[f'gsm8k_answer_shot_{shot}']}"


def _hellaswag_example(row: Row, shot: int) -> str:
    context = f"{row[f'hellaswag_ctx_a_shot_{shot}']} {str(row[f'hellaswag_ctx_b_shot_{shot}']).capitalize()}"
    ending = row[f"hellaswag_endings_shot_{shot}"][int(field_of(row, f"hellaswag_label_shot_{shot}"))]
    prompt = hellaswag_text(f"{row[f'hellaswag_activity_labels_shot_{shot}']}: {context}")
    return f"{prompt} {hellaswag_text(ending)}"


def _mmlu_example(row: Row, shot: int) -> str:
    lines = lettered(field_of(row, f"mmlu_choices_shot_{shot}"))
    answer = "ABCD"[int(row[f"mmlu_answers_shot_{shot}"])]
    return f"{str(row[f'mmlu_question_shot_{shot}']).strip()}{lines}\nAnswer: {answer}"


def _winogrande_example(row: Row, shot: int) -> str:
    answer = row[f"winogrande_option{field_of(row, f'winogrande_answer_shot_{shot}')}_shot_{shot}"]
    return str(row[f"winogrande_prompt_shot_{shot}"]).replace("_", str(answer))


_EXAMPLES: Final[Mapping[str, Callable[[Row, int], str]]] = {
    "arc": _arc_example,
    "gsm8k": _gsm8k_example,
    "hellaswag": _hellaswag_example,
    "mmlu": _mmlu_example,
    "winogrande": _winogrande_example,
}
"""Functions of a row and a shot's number to a worked example of metabench; TruthfulQA has none."""

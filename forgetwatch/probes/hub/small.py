"""Small selections from the large benchmarks: metabench and tinyBenchmarks.

    metabench       858 items that tell models apart, worked examples included; `metabench:secondary` holds 751 others:
                    a disjoint second form
    tinybenchmarks  100 items of each of six benchmarks

Both were chosen so that weighted answers estimate the whole benchmark. forgetwatch counts answers and weights none:
its counts are those of these items, not estimates of the benchmarks. Rendering: as lm-evaluation-harness 0.4
(tasks/metabench, tasks/tinyBenchmarks) and as the parents'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from forgetwatch.probes.hub import everyday, mmlu, science, truth, written
from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import Question, Row, field_of, listed

_PARENTS: Final[Mapping[str, Callable[[Row, Source], Question]]] = {
    "arc": science.arc_question,
    "gsm8k": written.gsm8k_question,
    "hellaswag": everyday.hellaswag_question,
    "mmlu": mmlu.mmlu_question,
    "truthfulqa": truth.truthfulqa_question,
    "winogrande": everyday.winogrande_question,
}
_CATEGORIES: Final = {
    "arc": "Logic",
    "gsm8k": "Math",
    "hellaswag": "Language",
    "truthfulqa": "Safety/Truth",
    "winogrande": "Common Sense",
}
_SHOTS: Final = {"arc": 25, "gsm8k": 5, "hellaswag": 10, "mmlu": 5, "winogrande": 5}


def _metabench(row: Row, source: Source) -> Question:
    """A parent's question behind the worked examples that stand in the same row."""
    parent = str(source.config).lower()
    made = _PARENTS[parent](row, source)
    shown = [_SHOWN[parent](row, number) for number in range(1, _SHOTS.get(parent, 0) + 1)]
    category = made.category or _CATEGORIES.get(parent) or mmlu.category_of(str(row.get("subject", "")))
    header = made.header if parent in ("mmlu", "truthfulqa") else ""
    return replace(
        made, header=header + "".join(f"{text}\n\n" for text in shown), task=source.task, category=category, key=""
    )


def _shown_arc(row: Row, shot: int) -> str:
    choices = field_of(row, f"arc_choices_shot_{shot}")
    place = list(choices["label"]).index(field_of(row, f"arc_answerKey_shot_{shot}"))
    return f"Question: {row[f'arc_question_shot_{shot}']}\nAnswer: {choices['text'][place]}"


def _shown_gsm8k(row: Row, shot: int) -> str:
    return f"Question: {field_of(row, f'gsm8k_prompt_shot_{shot}')}\nAnswer: {row[f'gsm8k_answer_shot_{shot}']}"


def _shown_hellaswag(row: Row, shot: int) -> str:
    begun = f"{row[f'hellaswag_ctx_a_shot_{shot}']} {str(row[f'hellaswag_ctx_b_shot_{shot}']).capitalize()}"
    ending = row[f"hellaswag_endings_shot_{shot}"][int(field_of(row, f"hellaswag_label_shot_{shot}"))]
    asked = everyday.hellaswag_text(f"{row[f'hellaswag_activity_labels_shot_{shot}']}: {begun}")
    return f"{asked} {everyday.hellaswag_text(ending)}"


def _shown_mmlu(row: Row, shot: int) -> str:
    lines = listed(field_of(row, f"mmlu_choices_shot_{shot}"))
    answer = "ABCD"[int(row[f"mmlu_answers_shot_{shot}"])]
    return f"{str(row[f'mmlu_question_shot_{shot}']).strip()}{lines}\nAnswer: {answer}"


def _shown_winogrande(row: Row, shot: int) -> str:
    answer = row[f"winogrande_option{field_of(row, f'winogrande_answer_shot_{shot}')}_shot_{shot}"]
    return str(row[f"winogrande_prompt_shot_{shot}"]).replace("_", str(answer))


_SHOWN: Final[Mapping[str, Callable[[Row, int], str]]] = {
    "arc": _shown_arc,
    "gsm8k": _shown_gsm8k,
    "hellaswag": _shown_hellaswag,
    "mmlu": _shown_mmlu,
    "winogrande": _shown_winogrande,
}


def _tiny(row: Row, source: Source) -> Question:
    made = _PARENTS[source.part](row, source)
    category = made.category or _CATEGORIES.get(source.part) or mmlu.category_of(str(row.get("subject", "")))
    made = replace(made, task=source.task, category=category)
    if source.part == "mmlu":  # its rows hold the whole prompt, worked examples included
        return replace(made, header="", prompt=str(field_of(row, "input_formatted")))
    return made


def _of_metabench(config: str, split: str, part: str) -> Source:
    task = f"metabench_{config.lower()}{'_secondary' if part else ''}"
    return Source(dataset="HCAI/metabench", config=config, split=split, task=task, part=part)


def _of_tiny(dataset: str, config: str | None, split: str, part: str, **fields: Any) -> Source:
    return Source(dataset=f"tinyBenchmarks/{dataset}", config=config, split=split, task=dataset, part=part, **fields)


_CONFIGS: Final = ("ARC", "GSM8K", "HellaSwag", "MMLU", "TruthfulQA", "Winogrande")

PRESETS: Final = (
    Preset(
        name="metabench",
        about="858 items that tell models apart",
        items="858 + 751",
        k="as parent",
        licence="unchecked",
        sources=(
            *(_of_metabench(config, "primary", "") for config in _CONFIGS),
            *(_of_metabench(config, "secondary", "secondary") for config in _CONFIGS),
        ),
        question=_metabench,
        norm="chars",
        written={"tokens": 512, "stop": ["Question:"]},
        note="metabench:secondary is a disjoint second form; prompts of up to 25 worked examples",
    ),
    Preset(
        name="tinybenchmarks",
        about="100 items of each of six benchmarks",
        items="600",
        k="as parent",
        licence="unchecked",
        sources=(
            _of_tiny("tinyAI2_arc", "ARC-Challenge", "test", "arc", examples="train"),
            _of_tiny("tinyGSM8k", "main", "test", "gsm8k", examples="train"),
            _of_tiny("tinyHellaswag", None, "validation", "hellaswag", examples="train"),
            _of_tiny("tinyMMLU", "all", "test", "mmlu"),
            _of_tiny("tinyTruthfulQA", "multiple_choice", "validation", "truthfulqa"),
            _of_tiny("tinyWinogrande", "winogrande_xl", "validation", "winogrande", examples="train"),
        ),
        question=_tiny,
        norm="chars",
        written={"tokens": 512, "stop": ["Question:"]},
        note="counts of these items, not weighted estimates",
    ),
)

"""Benchmarks that are answered in the model's own words: GSM8K and IFEval.

GSM8K's answer is the number behind ``####``; what stands before it are the worked steps that few-shot prompts show.
IFEval's instructions are judged by `extraction.instructions`; an item with an instruction that has no exact check
there is never asked: it is unscored, with the reason, and counted as such.

Rendering: as lm-evaluation-harness 0.4 (tasks/gsm8k, tasks/ifeval).
"""

from __future__ import annotations

import json
from typing import Any, Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import BadRowError, Question, Row, field_of

_NUMBER: Final = "\nThink step by step. End with one line of the form 'Answer: N', N being the number."


def gsm8k_question(row: Row, source: Source) -> Question:
    """A row of GSM8K."""
    question, answer = str(field_of(row, "question")), str(field_of(row, "answer"))
    _, mark, number = answer.rpartition("####")
    if not mark or not number.strip():
        raise BadRowError("needed a number behind '####' in its answer, and there is none")
    return Question(
        prompt=f"Question: {question}\nAnswer:",
        answer=number.strip(),
        match="number",
        question=question + _NUMBER,
        category="Math",
        worked=answer,
    )


def _ifeval(row: Row, source: Source) -> Question:
    prompt, names = str(field_of(row, "prompt")), list(field_of(row, "instruction_id_list"))
    values: list[Any] = list(field_of(row, "kwargs"))
    if len(names) != len(values):
        raise BadRowError(f"needed one kwargs for each instruction, and there are {len(values)} for {len(names)}")
    asked = [
        [name, {key: one for key, one in (given or {}).items() if one}]
        for name, given in zip(names, values, strict=True)
    ]
    return Question(
        prompt=prompt,
        answer=json.dumps(asked, ensure_ascii=False, sort_keys=True),
        match="instructions",
        question=prompt,
        key=str(row.get("key", "")),
    )


PRESETS: Final = (
    Preset(
        name="gsm8k",
        about="sums in words",
        items="1,319",
        k="none",
        licence="MIT",
        sources=(Source(dataset="openai/gsm8k", config="main", split="test", task="gsm8k", examples="train"),),
        question=gsm8k_question,
        written={"tokens": 512, "stop": ["Question:"]},
        note="base models need worked examples: shots=5",
    ),
    Preset(
        name="ifeval",
        about="instructions that can be checked",
        items="541",
        k="none",
        licence="Apache-2.0",
        sources=(Source(dataset="google/IFEval", split="train", task="ifeval"),),
        question=_ifeval,
        written={"tokens": 1280},
        note="items that need a language detector or a sentence splitter are unscored, not asked",
    ),
)

"""Rows in the shape of every benchmark, with invented text."""

from __future__ import annotations

from typing import Any

from forgetwatch.probes.hub import PRESETS, Source

ARC = {
    "id": "x1",
    "question": "What melts?",
    "choices": {"text": ["ice", "fire"], "label": ["1", "2"]},
    "answerKey": "1",
}
HELLASWAG = {
    "activity_label": "Baking",
    "ctx_a": "A man opens a tin. [header] flour",
    "ctx_b": "he",
    "ctx": "",
    "endings": ["bakes  bread. [title] well", "flies away.", "sleeps.", "sings."],
    "label": "0",
}
GSM8K = {"question": "Two and two?", "answer": "It is 2+2=<<2+2=4>>4.\n#### 1,004"}
MMLU = {"question": " Which is a colour? ", "subject": "anatomy", "choices": ["red", "two", "up", "cat"], "answer": 0}
TRUTHFUL = {
    "question": "Do fish swim?",
    "mc1_targets": {"choices": ["They do.", "They do not.", "Never."], "labels": [1, 0, 0]},
}
WINOGRANDE = {"sentence": "The cup fell on the _ and broke.", "option1": "floor", "option2": "cloud", "answer": "1"}
MUSR = {
    "narrative": "A long story.",
    "question": "Who?",
    "choices": "['Ann', \"O'Neil\"]",
    "answer_index": 1,
    "answer_choice": "O'Neil",
}
BBH_LISTED = {"input": "Pick a day.\nOptions:\n(A) Monday\n(B) Moonday\n(C) Sunday", "target": "(C)"}

_ROWS: dict[str, dict[str, Any]] = {
    "mmlu": MMLU,
    "mmlu-redux": MMLU | {"error_type": "ok"},
    "mmlu-pro": {
        "question_id": 7,
        "question": "Which?",
        "options": ["a", "b", "c"],
        "answer": "B",
        "answer_index": 1,
        "category": "computer science",
        "cot_content": "A: Let's think step by step. It is b.",
    },
    "arc-easy": ARC,
    "arc-challenge": ARC,
    "gpqa-diamond": {
        "Record ID": "rec1",
        "Question": "What is it?",
        "Correct Answer": " gold\n",
        "Incorrect Answer 1": "tin",
        "Incorrect Answer 2": "lead",
        "Incorrect Answer 3": "zinc",
    },
    "hellaswag": HELLASWAG,
    "piqa": {"goal": "Open a door", "sol1": "turn the knob", "sol2": "eat the knob", "label": 0},
    "siqa": {
        "context": "Kim fell.",
        "question": "How was Kim?",
        "answerA": "sore",
        "answerB": "blue",
        "answerC": "tall",
        "label": "1",
    },
    "csqa": {
        "id": "c1",
        "question": " Where is a cup? ",
        "choices": {"label": ["A", "B", "C", "D", "E"], "text": ["shelf", "sea", "sun", "sock", "song"]},
        "answerKey": "A",
    },
    "winogrande": WINOGRANDE,
    "truthfulqa-mc1": TRUTHFUL,
    "salad-mrq": {"question": "Which are safe?", "choices": ["x", "y", "z"], "answers": [2, 0], "categories": ["O1"]},
    "musr": MUSR,
    "mctest": {
        "story": "Once.\\newlineEnd.",
        "question": "When?",
        "answer_options": {"A": "once", "B": "twice", "C": "never", "D": "often"},
        "answer": "A",
    },
    "gsm8k": GSM8K,
    "ifeval": {
        "key": 1000,
        "prompt": "Write two words, no comma.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{"num_words": None, "relation": None}],
    },
    "belebele": {
        "flores_passage": "A passage.",
        "question": "What? ",
        "mc_answer1": "p",
        "mc_answer2": "q",
        "mc_answer3": "r",
        "mc_answer4": "s",
        "correct_answer_num": "3",
    },
    "global-mmlu": {
        "sample_id": "anatomy/test/0",
        "subject": "anatomy",
        "question": "Frage?",
        "option_a": "a",
        "option_b": "b",
        "option_c": "c",
        "option_d": "d",
        "answer": "D",
    },
}

_BBH_WORDS = {
    "boolean_expressions": ("not True is", "False"),
    "causal_judgement": ("Did it?\nOptions:\n- Yes\n- No", "No"),
    "formal_fallacies": ("So?\nOptions:\n- valid \n- invalid", "valid"),
    "navigate": ("Back?\nOptions:\n- Yes\n- No", "Yes"),
    "object_counting": ("How many?", "12"),
    "sports_understanding": ("Plausible?", "yes"),
    "web_of_lies": ("True?", "No"),
    "dyck_languages": ("Close ( [", "] )"),
    "multistep_arithmetic_two": ("1 + 2 =", "3"),
    "word_sorting": ("Sort b a", "a b"),
}


def row_of(name: str, source: Source) -> dict[str, Any]:
    """A row in the shape of a preset's source."""
    if name.startswith("bbh"):
        words = _BBH_WORDS.get(source.part)
        return {"input": words[0], "target": words[1]} if words else dict(BBH_LISTED)
    return dict(_ROWS[name])


NAMES = tuple(PRESETS)

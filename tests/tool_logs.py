"""Small logs in the forms of the tools that `readers.tools` declares, each of three questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

RIGHT = (True, False, True)
"""Outcomes of the three questions in every log below."""


def lines(rows: list[Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def evalscope(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {
                "index": n,
                "target": "A",
                "messages": [
                    {"id": f"run-{id(right)}-{n}", "role": "user", "content": f"Q{n}?"},
                    {"id": "x", "role": "assistant", "content": "A" if one else "B"},
                ],
                "sample_score": {
                    "score": {"value": {"acc": float(one)}, "prediction": "A" if one else "B"},
                    "sample_id": n,
                    "group_id": n,
                },
            }
            for n, one in enumerate(right)
        ]
    )


def opencompass(right: tuple[bool, ...]) -> str:
    details = {
        str(n): {"prompt": f"Q{n}?", "predictions": "B", "references": "A", "correct": [one]}
        for n, one in enumerate(right)
    }
    return json.dumps({"accuracy": 66.7, "details": {"type": "GEN", **details}})


def opencompass_ppl(right: tuple[bool, ...]) -> str:
    details = {str(n): {"pred": "B", "refr": "A", "is_correct": one} for n, one in enumerate(right)}
    return json.dumps({"details": {"type": "PPL", **details}, "accuracy": 66.7})


def helm(right: tuple[bool, ...]) -> str:
    return json.dumps(
        [
            {
                "instance_id": f"id{n}",
                "train_trial_index": 0,
                "stats": [
                    {"name": {"name": "num_references", "split": "test"}, "count": 1, "mean": 4.0},
                    {"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": float(one)},
                ],
            }
            for n, one in enumerate(right)
        ]
    )


def olmes(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {
                "doc_id": n,
                "native_id": f"native-{n}",
                "metrics": {"acc_raw": int(one), "logits_per_token_corr": -1.5},
                "model_output": [{"sum_logits": -3.0, "num_tokens": 2}],
                "label": 0,
            }
            for n, one in enumerate(right)
        ]
    )


def evalplus(right: tuple[bool, ...]) -> str:
    tasks = {
        f"HumanEval/{n}": [
            {"task_id": f"HumanEval/{n}", "solution": "def f(): ...", "base_status": "pass", "plus_status": plus}
        ]
        for n, plus in enumerate("pass" if one else "fail" for one in right)
    }
    return json.dumps({"date": "2026-01-02 03:04", "hash": "0f", "eval": tasks})


def bigcode(right: tuple[bool, ...]) -> str:
    return json.dumps(
        {
            str(n): [[0, {"task_id": n, "passed": one, "result": "passed", "completion_id": 0}]]
            for n, one in enumerate(right)
        }
    )


def human_eval(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {"task_id": f"HumanEval/{n}", "completion": "    return 1", "result": "passed", "passed": one}
            for n, one in enumerate(right)
        ]
    )


def evals(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {"spec": {"completion_fns": ["gpt"], "eval_name": "sums.dev.v0", "split": "dev"}},
            {"run_id": "1", "event_id": 0, "sample_id": "sums.dev.0", "type": "sampling", "data": {"prompt": "Q0?"}},
            *(
                {
                    "run_id": "1",
                    "event_id": n + 1,
                    "sample_id": f"sums.dev.{n}",
                    "type": "match",
                    "data": {"correct": one, "expected": "A", "picked": "A", "sampled": "A"},
                }
                for n, one in enumerate(right)
            ),
            {"final_report": {"accuracy": 0.67}},
        ]
    )


def mmlu_pro(right: tuple[bool, ...]) -> str:
    return json.dumps(
        [
            {
                "question_id": n,
                "question": f"Q{n}?",
                "options": ["a", "b", "c"],
                "answer": "B",
                "answer_index": 1,
                "category": "law",
                "pred": "B" if one else "C",
                "model_outputs": "The answer is",
            }
            for n, one in enumerate(right)
        ]
    )


def qwen_math(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {
                "idx": n,
                "question": f"Q{n}?",
                "gt": "4",
                "code": ["is 4"],
                "pred": ["4"],
                "report": [None],
                "score": [one],
            }
            for n, one in enumerate(right)
        ]
    )


def promptfoo(right: tuple[bool, ...]) -> str:
    results = [
        {
            "success": one,
            "failureReason": 0 if one else 1,
            "promptIdx": 0,
            "testIdx": n,
            "vars": {"question": f"Q{n}?"},
            "prompt": {"raw": f"Answer: Q{n}?", "label": "Answer: {{question}}"},
            "provider": {"id": "mine", "label": ""},
            "response": {"output": "A"},
        }
        for n, one in enumerate(right)
    ]
    return json.dumps({"evalId": "eval-1", "results": {"version": 3, "results": results}, "config": {}})


def deepeval(right: tuple[bool, ...]) -> str:
    cases = [
        {
            "name": f"test_case_{n}",
            "input": f"Q{n}?",
            "actualOutput": "A",
            "expectedOutput": "A",
            "success": one,
            "metricsData": [{"name": "Correctness [GEval]", "threshold": 0.5, "success": one, "score": 0.9}],
        }
        for n, one in enumerate(right)
    ]
    return json.dumps({"testRunData": {"testCases": cases, "metricsScores": []}})


WRITERS: dict[str, Callable[[tuple[bool, ...]], str]] = {
    "EvalScope": evalscope,
    "OpenCompass": opencompass,
    "OpenCompass by log-likelihood": opencompass_ppl,
    "HELM": helm,
    "OLMES": olmes,
    "EvalPlus": evalplus,
    "human-eval": human_eval,
    "MMLU-Pro": mmlu_pro,
    "promptfoo": promptfoo,
}

"""Small logs in the forms of the tools that `readers.tools` declares, each of three questions.

Small rows, files and results in the format of lm-evaluation-harness.

Rows and files as lighteval writes its details, in both schemas, small and made here.

ZIP files as other tools write them, and damaged ones: any compression, any flags, wrong sizes.
"""

import json
import random
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError

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
                    {
                        "name": {"name": "exact_match", "split": "test"},
                        "count": 1,
                        "mean": float(one),
                    },
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
            {
                "task_id": f"HumanEval/{n}",
                "solution": "def f(): ...",
                "base_status": "pass",
                "plus_status": plus,
            }
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
            {
                "task_id": f"HumanEval/{n}",
                "completion": "    return 1",
                "result": "passed",
                "passed": one,
            }
            for n, one in enumerate(right)
        ]
    )


def evals(right: tuple[bool, ...]) -> str:
    return lines(
        [
            {"spec": {"completion_fns": ["gpt"], "eval_name": "sums.dev.v0", "split": "dev"}},
            {
                "run_id": "1",
                "event_id": 0,
                "sample_id": "sums.dev.0",
                "type": "sampling",
                "data": {"prompt": "Q0?"},
            },
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
    return json.dumps(
        {"evalId": "eval-1", "results": {"version": 3, "results": results}, "config": {}}
    )


def deepeval(right: tuple[bool, ...]) -> str:
    cases = [
        {
            "name": f"test_case_{n}",
            "input": f"Q{n}?",
            "actualOutput": "A",
            "expectedOutput": "A",
            "success": one,
            "metricsData": [
                {"name": "Correctness [GEval]", "threshold": 0.5, "success": one, "score": 0.9}
            ],
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


DATE = "2026-01-02T03-04-05.000006"


def choice_row(
    doc_id: int,
    scores: Sequence[float],
    gold: int,
    *,
    choices: Sequence[str] | None = None,
    metrics: dict[str, Any] | None = None,
    as_file: bool = True,
    **changes: Any,
) -> dict[str, Any]:
    """Row of a multiple-choice task, in the form of a file or of results; `acc` by the sum unless metrics are given."""
    options = choices or [f"option {letter}" for letter in "ABCDEFGH"[: len(scores)]]
    question = f"Question {doc_id}?"
    best = max(range(len(scores)), key=scores.__getitem__)
    graded = metrics if metrics is not None else {"acc": float(best == gold)}
    arguments: Any = [[f"{question}\nAnswer:", f" {option}"] for option in options]
    answers: Any = [[score, False] for score in scores]
    if as_file:
        arguments = {
            f"gen_args_{n}": {"arg_0": p, "arg_1": c} for n, (p, c) in enumerate(arguments)
        }
        answers = [[str(part) for part in answer] for answer in answers]
    return {
        "doc_id": doc_id,
        "doc": {"question": question, "choices": list(options), "answer": gold},
        "target": str(gold) if as_file else gold,
        "arguments": arguments,
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": list(graded),
        "doc_hash": f"d{doc_id}",
        "prompt_hash": f"p{doc_id}",
        "target_hash": f"t{gold}",
        **graded,
        **changes,
    }


def open_row(
    doc_id: int, output: str, metrics: dict[str, Any], *, filtered: str = "none", **changes: Any
) -> dict[str, Any]:
    """Row of a generation task."""
    return {
        "doc_id": doc_id,
        "doc": {"question": f"Question {doc_id}?", "answer": str(doc_id)},
        "target": str(doc_id),
        "arguments": {"gen_args_0": {"arg_0": f"Question {doc_id}?", "arg_1": {"until": ["\n"]}}},
        "resps": [[output]],
        "filtered_resps": [output.strip()],
        "filter": filtered,
        "metrics": list(metrics),
        "doc_hash": f"d{doc_id}",
        "prompt_hash": f"p{doc_id}",
        "target_hash": f"t{doc_id}",
        **metrics,
        **changes,
    }


def write_samples(
    folder: Path, task: str, rows: Sequence[dict[str, Any]], *, date: str = DATE
) -> Path:
    """Write a file of samples under the harness's name and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def results(
    tasks: dict[str, Sequence[dict[str, Any]]], *, config: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Results of a run over tasks, with their samples."""
    return {
        "results": {task: {"alias": task} for task in tasks},
        "configs": {
            task: {"task": task, "target_delimiter": " ", **(config or {})} for task in tasks
        },
        "versions": dict.fromkeys(tasks, 2.0),
        "n-shot": dict.fromkeys(tasks, 3),
        "n-samples": {
            task: {"original": 99, "effective": len(rows)} for task, rows in tasks.items()
        },
        "samples": {task: list(rows) for task, rows in tasks.items()},
        "config": {
            "model": "hf",
            "model_args": "pretrained=org/tuned,dtype=bfloat16",
            "model_sha": "c0ffee",
            "fewshot_seed": 1234,
        },
        "date": 1767319445.0,
        "lm_eval_version": "0.4.12",
    }


def write_json(path: Path, value: Any) -> Path:
    """Write one JSON document and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


LIGHTEVAL_DATE = "2026-01-02T03-04-05.678901"
PER_CHARACTER = "acc:logprob_normalization=LogProbCharNorm(name='norm', ignore_first_space=False)"

# As the writer of 0.13.0 made them; `null` where every row of a task was null.
DOC = [
    *[("query", pa.string()), ("choices", pa.list_(pa.string())), ("gold_index", pa.int64())],
    *[
        ("instruction", pa.null()),
        ("images", pa.null()),
        ("specific", pa.null()),
        ("unconditioned_query", pa.null()),
    ],
    *[("original_query", pa.null()), ("id", pa.string()), ("task_name", pa.string())],
    *[("fewshot_samples", pa.list_(pa.null())), ("sampling_methods", pa.list_(pa.string()))],
    *[
        ("fewshot_sorting_class", pa.null()),
        ("generation_size", pa.int64()),
        ("stop_sequences", pa.list_(pa.null())),
    ],
    *[("use_logits", pa.bool_()), ("num_samples", pa.int64()), ("generation_grammar", pa.null())],
]
RESPONSE = [
    *[
        ("input", pa.null()),
        ("input_tokens", pa.list_(pa.int64())),
        ("text", pa.list_(pa.string())),
    ],
    *[
        ("output_tokens", pa.list_(pa.list_(pa.int64()))),
        ("text_post_processed", pa.list_(pa.string())),
    ],
    *[("reasonings", pa.list_(pa.null())), ("logprobs", pa.list_(pa.float64()))],
    *[
        ("argmax_logits_eq_gold", pa.list_(pa.bool_())),
        ("logits", pa.null()),
        ("unconditioned_logprobs", pa.null()),
    ],
    *[("truncated_tokens_count", pa.int64()), ("padded_tokens_count", pa.int64())],
]
# As the writer of 0.10.0 made them for a multiple-choice task.
OLD = [
    *[
        ("choices", pa.list_(pa.string())),
        ("cont_tokens", pa.list_(pa.list_(pa.int64()))),
        ("example", pa.string()),
    ],
    *[
        ("full_prompt", pa.string()),
        ("gold", pa.list_(pa.null())),
        ("gold_index", pa.list_(pa.int64())),
    ],
    *[("input_tokens", pa.list_(pa.list_(pa.int64()))), ("instruction", pa.string())],
    ("metrics", pa.struct([("acc", pa.int64()), ("acc_norm", pa.int64())])),
    *[
        ("num_asked_few_shots", pa.int64()),
        ("num_effective_few_shots", pa.int64()),
        ("padded", pa.list_(pa.int64())),
    ],
    *[("pred_logits", pa.list_(pa.null())), ("prediction_logits", pa.list_(pa.null()))],
    *[
        ("predictions", pa.list_(pa.list_(pa.float64()))),
        ("specifics", pa.null()),
        ("truncated", pa.list_(pa.int64())),
    ],
]


def question(index: int) -> dict[str, Any]:
    rng = random.Random(index)
    k = 2 + index % 4
    choices = [" " + "x" * rng.randrange(1, 9) + str(i) for i in range(k)]
    return {"query": f"Question {index}?", "choices": choices, "gold": rng.randrange(k)}


def scored(seed: int, items: int = 40) -> list[dict[str, Any]]:
    """Rows with log-likelihoods, and the two metrics that follow from them."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(items):
        row = question(index)
        logprobs = -rng.exponential(5.0, len(row["choices"]))
        norm = logprobs / [len(text) for text in row["choices"]]
        right = [int(np.argmax(scores) == row["gold"]) for scores in (logprobs, norm)]
        rows.append(
            {
                **row,
                "id": str(index),
                "logprobs": logprobs.tolist(),
                "acc": right[0],
                "norm": right[1],
            }
        )
    return rows


def new(
    row: dict[str, Any], *, metric: dict[str, Any], task: str = "toy|0", **response: Any
) -> dict[str, Any]:
    doc = {"query": row["query"], "choices": row["choices"], "gold_index": row["gold"]}
    given = {"input_tokens": [3, 4], "text": [], "logprobs": [], **response}
    return {
        "doc": {**doc, "id": row["id"], "task_name": task},
        "metric": metric,
        "model_response": given,
    }


def write_new(path: Path, rows: list[dict[str, Any]], gold: pa.DataType | None = None) -> Path:
    names = dict.fromkeys(name for row in rows for name in row["metric"])
    kinds = {
        name: pa.float64()
        if any(type(r["metric"].get(name)) is float for r in rows)
        else pa.int64()
        for name in names
    }
    doc = pa.struct([(name, gold if gold and name == "gold_index" else kind) for name, kind in DOC])
    schema = pa.schema(
        [
            ("doc", doc),
            ("metric", pa.struct(list(kinds.items()))),
            ("model_response", pa.struct(RESPONSE)),
        ]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def write_old(path: Path, rows: list[dict[str, Any]]) -> Path:
    made = [
        {
            **{
                "example": row["query"],
                "full_prompt": f"Few shots. {row['query']}",
                "choices": row["choices"],
            },
            **{
                "gold_index": [row["gold"]],
                "metrics": {"acc": row["acc"], "acc_norm": row["norm"]},
            },
            "predictions": [[logprob, 0.0] for logprob in row["logprobs"]],
        }
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(made, schema=pa.schema(OLD)), path)
    return path


def write(path: Path, rows: list[dict[str, Any]], schema: str) -> Path:
    if schema == "old":
        return write_old(path, rows)
    return write_new(
        path,
        [
            new(
                row,
                metric={"acc": row["acc"], PER_CHARACTER: row["norm"]},
                logprobs=row["logprobs"],
            )
            for row in rows
        ],
    )


STORED, DEFLATED, ZSTANDARD = 0, 8, 93


def packed(content: bytes, method: int) -> bytes:
    if method == ZSTANDARD:
        return bytes(pa.compress(content, codec="zstd", asbytes=True))
    if method == DEFLATED:
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(content) + deflate.flush()
    return content


def write_zip(
    path: Path,
    members: Mapping[str, bytes],
    *,
    method: int = DEFLATED,
    flags: int = 0,
    size: int | None = None,
) -> Path:
    """Write a ZIP file; `size` is the size it records for every member, the true one where it is None."""
    written, directory = b"", b""
    for name, content in members.items():
        body = packed(content, method)
        recorded = len(content) if size is None else size
        common = struct.pack(
            "<HHHHHIIIHH",
            20,
            flags,
            method,
            0,
            0,
            zlib.crc32(content),
            len(body),
            recorded,
            len(name),
            0,
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(written)) + name.encode()
        written += b"PK\x03\x04" + common + name.encode() + body
    count = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(written), 0)
    path.write_bytes(written + directory + b"PK\x05\x06" + end)
    return path


def error_start(path: Path, read: Callable[..., Any]) -> str:
    """Beginning of the error of a reader about a file; empty if it is read."""
    try:
        read(path, metric=None)
    except SnapshotError as error:
        return f"{path}: ..." if str(path) in str(error) and "\n" not in str(error) else str(error)
    return ""

"""Rows and files as lighteval writes its details, in both schemas, small and made here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DATE = "2026-01-02T03-04-05.678901"
PER_CHARACTER = "acc:logprob_normalization=LogProbCharNorm(name='norm', ignore_first_space=False)"

# As the writer of 0.13.0 made them; `null` where every row of a task was null.
DOC = [
    *[("query", pa.string()), ("choices", pa.list_(pa.string())), ("gold_index", pa.int64())],
    *[("instruction", pa.null()), ("images", pa.null()), ("specific", pa.null()), ("unconditioned_query", pa.null())],
    *[("original_query", pa.null()), ("id", pa.string()), ("task_name", pa.string())],
    *[("fewshot_samples", pa.list_(pa.null())), ("sampling_methods", pa.list_(pa.string()))],
    *[("fewshot_sorting_class", pa.null()), ("generation_size", pa.int64()), ("stop_sequences", pa.list_(pa.null()))],
    *[("use_logits", pa.bool_()), ("num_samples", pa.int64()), ("generation_grammar", pa.null())],
]
RESPONSE = [
    *[("input", pa.null()), ("input_tokens", pa.list_(pa.int64())), ("text", pa.list_(pa.string()))],
    *[("output_tokens", pa.list_(pa.list_(pa.int64()))), ("text_post_processed", pa.list_(pa.string()))],
    *[("reasonings", pa.list_(pa.null())), ("logprobs", pa.list_(pa.float64()))],
    *[("argmax_logits_eq_gold", pa.list_(pa.bool_())), ("logits", pa.null()), ("unconditioned_logprobs", pa.null())],
    *[("truncated_tokens_count", pa.int64()), ("padded_tokens_count", pa.int64())],
]
# As the writer of 0.10.0 made them for a multiple-choice task.
OLD = [
    *[("choices", pa.list_(pa.string())), ("cont_tokens", pa.list_(pa.list_(pa.int64()))), ("example", pa.string())],
    *[("full_prompt", pa.string()), ("gold", pa.list_(pa.null())), ("gold_index", pa.list_(pa.int64()))],
    *[("input_tokens", pa.list_(pa.list_(pa.int64()))), ("instruction", pa.string())],
    ("metrics", pa.struct([("acc", pa.int64()), ("acc_norm", pa.int64())])),
    *[("num_asked_few_shots", pa.int64()), ("num_effective_few_shots", pa.int64()), ("padded", pa.list_(pa.int64()))],
    *[("pred_logits", pa.list_(pa.null())), ("prediction_logits", pa.list_(pa.null()))],
    *[("predictions", pa.list_(pa.list_(pa.float64()))), ("specifics", pa.null()), ("truncated", pa.list_(pa.int64()))],
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
        rows.append({**row, "id": str(index), "logprobs": logprobs.tolist(), "acc": right[0], "norm": right[1]})
    return rows


def new(row: dict[str, Any], *, metric: dict[str, Any], task: str = "toy|0", **response: Any) -> dict[str, Any]:
    doc = {"query": row["query"], "choices": row["choices"], "gold_index": row["gold"]}
    given = {"input_tokens": [3, 4], "text": [], "logprobs": [], **response}
    return {"doc": {**doc, "id": row["id"], "task_name": task}, "metric": metric, "model_response": given}


def write_new(path: Path, rows: list[dict[str, Any]], gold: pa.DataType | None = None) -> Path:
    names = dict.fromkeys(name for row in rows for name in row["metric"])
    kinds = {
        name: pa.float64() if any(type(r["metric"].get(name)) is float for r in rows) else pa.int64() for name in names
    }
    doc = pa.struct([(name, gold if gold and name == "gold_index" else kind) for name, kind in DOC])
    schema = pa.schema(
        [("doc", doc), ("metric", pa.struct(list(kinds.items()))), ("model_response", pa.struct(RESPONSE))]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def write_old(path: Path, rows: list[dict[str, Any]]) -> Path:
    made = [
        {
            **{"example": row["query"], "full_prompt": f"Few shots. {row['query']}", "choices": row["choices"]},
            **{"gold_index": [row["gold"]], "metrics": {"acc": row["acc"], "acc_norm": row["norm"]}},
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
        [new(row, metric={"acc": row["acc"], PER_CHARACTER: row["norm"]}, logprobs=row["logprobs"]) for row in rows],
    )

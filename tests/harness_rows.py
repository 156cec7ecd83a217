"""Small rows, files and results in the format of lm-evaluation-harness."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
        arguments = {f"gen_args_{n}": {"arg_0": p, "arg_1": c} for n, (p, c) in enumerate(arguments)}
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


def write_samples(folder: Path, task: str, rows: Sequence[dict[str, Any]], *, date: str = DATE) -> Path:
    """Write a file of samples under the harness's name and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def results(tasks: dict[str, Sequence[dict[str, Any]]], *, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Results of a run over tasks, with their samples."""
    return {
        "results": {task: {"alias": task} for task in tasks},
        "configs": {task: {"task": task, "target_delimiter": " ", **(config or {})} for task in tasks},
        "versions": dict.fromkeys(tasks, 2.0),
        "n-shot": dict.fromkeys(tasks, 3),
        "n-samples": {task: {"original": 99, "effective": len(rows)} for task, rows in tasks.items()},
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

"""Real logs of lm-evaluation-harness by others, against counts made from the raw rows and published results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgetwatch import compare, load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import NONE

CHOICES = (
    *("arc_anti_scale_1", "arc_base_scale_0", "d_mc_full", "d_mc_hswag_wino", "d_null_full", "d_null_hswag_wino"),
    *("f_mc", "f_null"),
)


def samples(folder: Path, model: str) -> Path:
    (found,) = (folder / "lm_eval" / "truthfulqa_multi" / f"meta-llama__{model}").glob("samples_*")
    return found


@pytest.mark.parametrize(
    ("before", "counts"), [("Llama-3.1-8B", (817, 102, 179)), ("Meta-Llama-3-8B", (817, 123, 168))]
)
def test_questions_pair_although_every_doc_hash_of_the_tool_differs(
    real_data: Path, before: str, counts: tuple[int, ...]
) -> None:
    found = compare(before=samples(real_data, before), after=samples(real_data, f"{before}-Instruct"))
    assert (found.all.n, found.all.forgotten, found.all.gained) == counts
    assert "prompts that differ by their own tool's hash: 817" in found.notes
    assert found.before["metric"] == "bleu_acc"
    assert found.before["model"] == f"meta-llama/{before}"
    assert found.labels == (before, f"{before}-Instruct")


@pytest.mark.parametrize(
    ("before", "after", "metric", "counts", "accuracy", "rate"),
    [
        ("arc_base_scale_0", "arc_anti_scale_1", "acc", (1172, 430, 42), (0.512798635, 0.181740614), 0.234224050),
        ("d_null_full", "d_mc_full", "acc_norm", (1172, 19, 444), (0.493174061, 0.855802048), 0.0),
    ],
)
def test_real_results_with_samples_give_the_counts_of_the_raw_rows(
    real_data: Path,
    before: str,
    after: str,
    metric: str,
    counts: tuple[int, ...],
    accuracy: tuple[float, ...],
    rate: float,
) -> None:
    folder = real_data / "lm_eval_json"
    found = compare(before=folder / f"{before}.json", after=folder / f"{after}.json", metric=metric)
    whole = found.all
    assert (whole.n, whole.forgotten, whole.gained) == counts
    assert (whole.accuracy_before, whole.accuracy_after) == pytest.approx(accuracy, abs=1e-9)
    assert whole.chance.paper is not None
    assert whole.chance.paper.forgetting == pytest.approx(rate, abs=1e-9)
    assert list(found.by("category")) == ["Logic"]


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("metric", ["acc", "acc_norm"])
def test_the_recomputed_choice_agrees_with_the_harness_on_every_item(real_data: Path, name: str, metric: str) -> None:
    path = real_data / "lm_eval_json" / f"{name}.json"
    read = load_snapshot(path, metric=metric)
    raw = json.loads(path.read_text(encoding="utf-8"))
    rows = [(task, row) for task, of_task in raw["samples"].items() for row in of_task]
    correct = [row.get(metric, row["acc"]) for _, row in rows]  # WinoGrande and TruthfulQA have acc only
    assert read.floats("correct").tolist() == correct
    assert read.texts("task").tolist() == [task for task, _ in rows]
    assert read.ints("k").tolist() == [len(row["resps"]) for _, row in rows]
    chosen, gold = read.ints("chosen"), read.ints("gold")
    assert not np.any((chosen == NONE) | (gold == NONE))
    assert np.array_equal(chosen == gold, np.array(correct) == 1)
    assert not any("contradict" in note for note in read.notes)
    assert read.table["choice_logprobs"].to_pylist() == [[resp[0][0] for resp in row["resps"]] for _, row in rows]
    golds = [row["target"] if task != "winogrande" else int(row["doc"]["answer"]) - 1 for task, row in rows]
    assert gold.tolist() == golds
    totals = [value[f"{metric},none"] for value in raw["results"].values() if f"{metric},none" in value]
    if len(totals) == len(raw["results"]):
        assert np.mean(totals) == pytest.approx(read.floats("correct").mean(), abs=1e-12)


def counted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_every_other_log_is_read_or_refused_with_a_reason(real_data: Path) -> None:
    found = {}
    for path in sorted((real_data / "lm_eval" / "misc").rglob("samples_*")):
        if "masakhaner" in path.name:
            with pytest.raises(SnapshotError, match=r"right or wrong .* f1,flexible-extract \(row 1: \['DATE"):
                load_snapshot(path)
            continue
        read = load_snapshot(path)
        rows, metric = counted(path), read.meta["metric"]
        assert read.floats("correct").tolist() == [row[metric] for row in rows]
        found[path.name] = metric
    assert sum(metric == "acc" for metric in found.values()) == 10
    assert sum(metric == "exact_match" for metric in found.values()) == 4
    assert {metric for name, metric in found.items() if "truthfulqa_gen" in name} == {"bleu_acc"}


def test_the_latest_run_of_a_folder_counts_and_folders_of_several_models_are_listed(real_data: Path) -> None:
    misc = real_data / "lm_eval" / "misc"
    read = load_snapshot(misc / "outputs")
    tasks = [f"negotiationtom_{name}" for name in ("belief", "desire", "intention")]
    assert sorted(set(read.texts("task"))) == tasks
    assert read.meta["metrics"] == {tasks[0]: "acc", tasks[1]: "acc", tasks[2]: "exact_match"}
    assert read.meta["model"] == "Qwen/Qwen3-8B"
    latest = [next(misc.rglob(f"samples_{task}_2026-07-08T18-15-33.115417.jsonl")) for task in tasks]
    right = [row.get("acc", row.get("exact_match")) for path in latest for row in counted(path)]
    assert read.floats("correct").tolist() == right
    with pytest.raises(SnapshotError, match=r"got 9 folders with samples: african_nlp_benchmarks, .* and 4 more"):
        load_snapshot(misc)

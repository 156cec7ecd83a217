"""`readers.tools`: logs of further tools, in the forms that these tools write.

Real logs of lm-evaluation-harness by others, against counts made from the raw rows and published results.

The same questions and log-likelihoods give the same comparison, whichever harness logged them.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tool_logs import (
    DATE,
    RIGHT,
    WRITERS,
    bigcode,
    choice_row,
    deepeval,
    evals,
    evalscope,
    helm,
    human_eval,
    lines,
    mmlu_pro,
    new,
    promptfoo,
    qwen_math,
    write_new,
    write_old,
    write_samples,
)
from typer.testing import CliRunner

from forgetwatch import Snapshot, compare, save_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.measures.option_columns import option_scores
from forgetwatch.metrics.choices import decide
from forgetwatch.readers.joining import concatenate
from forgetwatch.readers.log import QuestionStore
from forgetwatch.readers.outcomes import load_snapshot
from forgetwatch.readers.tools import DUMPS, TOOLS, find_tool
from forgetwatch.snapshot import NONE

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: str | Path) -> str:
    """Run a command; its standard output."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_declaration_is_tested() -> None:
    # Those of trainings are read in `test_dumps`.
    assert {tool.name for tool in TOOLS} - DUMPS.keys() == {
        name.split(" by ")[0] for name in WRITERS
    }


@pytest.mark.parametrize("name", WRITERS)
def test_outcomes_are_those_of_the_log(name: str, tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_text(WRITERS[name](RIGHT))
    found = load_snapshot(file)
    assert found.meta["tool"] == name.split(" by ")[0]
    assert found.floats("correct").tolist() == list(RIGHT)
    assert found.ints("sample").tolist() == [0, 0, 0]
    assert len(set(found.texts("item_id"))) == len(set(found.texts("content_hash"))) == 3


@pytest.mark.parametrize("name", WRITERS)
def test_two_logs_of_one_tool_pair_in_any_order_of_rows(name: str, tmp_path: Path) -> None:
    """`compare` reads them without an option, and the one lost answer is lost."""
    for side, right in (("before", RIGHT), ("after", (True, False, False))):
        (tmp_path / f"{side}.json").write_text(WRITERS[name](right))
    done = run("compare", tmp_path / "before.json", tmp_path / "after.json", "--json", "-")
    counts = json.loads(done)["groups"][0]
    assert (counts["forgotten"], counts["gained"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "place", "task"),
    [
        ("EvalScope", "{date}/reviews/{model}/gsm8k_main.jsonl", "gsm8k_main"),
        ("OpenCompass", "{date}/results/{model}/lukaemon_mmlu.json", "lukaemon_mmlu"),
        (
            "HELM",
            "{date}/mmlu:subject=anatomy,method=joint,model={model}/per_instance_stats.json",
            "",
        ),
        ("OLMES", "{date}/{model}/task-003-arc_easy-predictions.jsonl", "arc_easy"),
    ],
)
def test_folder_is_one_log_of_the_latest_run(
    name: str, place: str, task: str, tmp_path: Path
) -> None:
    for date, right in (("20260101", (False, False, False)), ("20260102", RIGHT)):
        file = tmp_path / place.format(date=date, model="mine")
        file.parent.mkdir(parents=True)
        file.write_text(WRITERS[name](right))
    found = load_snapshot(tmp_path)
    assert found.floats("correct").tolist() == list(RIGHT)
    assert set(found.texts("task")) == {task or "mmlu:subject=anatomy,method=joint"}
    assert found.texts("task").tolist() == load_snapshot(file).texts("task").tolist()


def test_folder_of_two_models_is_refused(tmp_path: Path) -> None:
    for model in ("base", "tuned"):
        file = tmp_path / "reviews" / model / "gsm8k.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(evalscope(RIGHT))
    with pytest.raises(SnapshotError, match="the log of one model, got 2: base, tuned"):
        load_snapshot(tmp_path)


def test_results_of_two_providers_are_refused_with_an_option_that_works(tmp_path: Path) -> None:
    document = json.loads(promptfoo(RIGHT))
    document["results"]["results"][2]["provider"]["id"] = "other"
    file = tmp_path / "two.json"
    file.write_text(json.dumps(document))
    with pytest.raises(SnapshotError, match=r"got 2: mine, other; .* --where provider\.id=MODEL"):
        load_snapshot(file)
    fields = ("--map", "item_id=testIdx", "--map", "correct=success")
    run(
        *("convert", file, "--rows", "results.results", "--where", "provider.id=mine", *fields),
        *("-o", tmp_path / "mine.parquet"),
    )
    assert len(load_snapshot(tmp_path / "mine.parquet")) == 2


def test_repeated_questions_are_samples(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl_results.jsonl"
    file.write_text(human_eval(RIGHT) + human_eval((False, False, True)))
    found = load_snapshot(file)
    assert found.ints("sample").tolist() == [0, 0, 0, 1, 1, 1]
    assert found.floats("correct").tolist() == [1, 0, 1, 0, 0, 1]


def test_plus_tests_are_those_of_the_base_and_more(tmp_path: Path) -> None:
    document = {"eval": {"HumanEval/0": [{"base_status": "fail", "plus_status": "pass"}]}}
    file = tmp_path / "eval_results.json"
    file.write_text(json.dumps(document))
    assert load_snapshot(file).floats("correct").tolist() == [0]
    document["eval"]["HumanEval/0"][0] = {"base_status": "pass", "plus_status": "fail"}
    file.write_text(json.dumps(document))
    assert load_snapshot(file).floats("correct").tolist() == [0]
    assert load_snapshot(file, metric="base").floats("correct").tolist() == [1]


def test_answers_that_were_not_found_are_unscored(tmp_path: Path) -> None:
    rows = json.loads(mmlu_pro(RIGHT))
    rows[1]["pred"] = None
    file = tmp_path / "law_result.json"
    file.write_text(json.dumps(rows))
    found = load_snapshot(file)
    assert found.is_unscored.tolist() == [False, True, False]
    assert found.ints("k").tolist() == [3, 3, 3]
    assert (found.ints("gold").tolist(), found.ints("chosen").tolist()) == ([1, 1, 1], [1, -1, 1])


def test_errors_of_a_provider_are_unscored(tmp_path: Path) -> None:
    document = json.loads(promptfoo(RIGHT))
    document["results"]["results"][1] |= {"failureReason": 2, "error": "429: slow down"}
    (tmp_path / "p.json").write_text(json.dumps(document))
    assert (
        load_snapshot(tmp_path / "p.json").texts("outcome")[1] == "unscored: error: 429: slow down"
    )


def test_questions_of_helm_are_those_beside_the_statistics(tmp_path: Path) -> None:
    """An index after another order of the instances is another question."""
    (tmp_path / "per_instance_stats.json").write_text(helm(RIGHT))
    before = load_snapshot(tmp_path / "per_instance_stats.json")
    instances = [
        {"id": f"id{n}", "input": {"text": f"Q{2 - n}?"}, "split": "test"} for n in range(3)
    ]
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    after = load_snapshot(tmp_path / "per_instance_stats.json")
    assert before.texts("item_id").tolist() == after.texts("item_id").tolist()
    assert not set(before.texts("content_hash")) & set(after.texts("content_hash"))


def ungraded(name: str) -> str:
    """Outputs that no tool has graded, as ToRA and OpenCompass write them."""
    if name.startswith("ToRA"):
        return lines(
            [
                {"idx": n, "question": f"Q{n}?", "gt": "4", "pred": [text]}
                for n, text in enumerate("454")
            ]
        )
    rows = {
        str(n): {"origin_prompt": f"Q{n}?", "prediction": f"It is {text}.", "gold": "4"}
        for n, text in enumerate("454")
    }
    return json.dumps(rows)


COMMANDS = dict(
    re.findall(
        r"^\| ([^|]+) \| `(--[^`]+)`",
        (ROOT / "docs" / "how-to" / "logs.md").read_text(),
        flags=re.MULTILINE,
    )
)


GRADED: dict[str, Callable[[bool], dict[str, Any]]] = {
    "ragas": lambda right: {"response": "A", "faithfulness": 0.9 if right else 0.2},
    "MLflow": lambda right: {"outputs": "A", "answer_correctness/v1/score": 5 if right else 2},
    "Phoenix": lambda right: {"output": "A", "label": "correct" if right else "incorrect"},
    "tau2-bench": lambda right: {
        "reward_info": {"reward": float(right)},
        "termination_reason": "user_stop",
    },
}
"""What a row of each log of scores has besides its question."""
ASKED = {"ragas": "user_input", "MLflow": "inputs"}
ASKED |= {"Phoenix": "input", "tau2-bench": "task_id"}


@pytest.mark.parametrize("name", COMMANDS)
def test_logs_of_rarely_met_tools_are_converted_by_the_documented_command(
    name: str, tmp_path: Path
) -> None:
    written = {
        "BigCode": bigcode,
        "deepeval": deepeval,
        "OpenAI Evals": evals,
        "Qwen2.5-Math": qwen_math,
    }
    file = tmp_path / "log.json"
    if (tool := name.partition(",")[0]) in GRADED:
        written[name] = lambda right: lines(
            {ASKED[tool]: f"Q{n}?", **GRADED[tool](one)} for n, one in enumerate(right)
        )
    file.write_text(written[name](RIGHT) if name in written else ungraded(name))
    if name == "tau2-bench":
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text(json.dumps({"simulations": rows}))
    with pytest.raises(SnapshotError, match="forgetwatch convert"):
        load_snapshot(file)
    run("convert", file, *COMMANDS[name].split(), "-o", tmp_path / "outcomes.parquet")
    assert load_snapshot(tmp_path / "outcomes.parquet").floats("correct").tolist() == list(RIGHT)


def test_row_of_another_form_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(human_eval(RIGHT) + '{"task_id": "HumanEval/3"}\n')
    with pytest.raises(
        SnapshotError,
        match=r"results.jsonl, row 4: not a row of human-eval \(KeyError\('passed'\)\)",
    ):
        load_snapshot(file)


def test_question_text_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "gsm8k.jsonl"
    file.write_text(evalscope(RIGHT))
    store = QuestionStore(load_snapshot(file).texts("content_hash"))
    load_snapshot(file, kept=store)
    assert sorted(text.prompt for text in store.texts.values()) == ["Q0?", "Q1?", "Q2?"]


def test_convert_keeps_question_and_output(tmp_path: Path) -> None:
    """`flips` shows them, though the log is gone."""
    for side, right in (("before", RIGHT), ("after", (False, False, False))):
        (tmp_path / f"{side}.jsonl").write_text(evalscope(right))
        run("convert", tmp_path / f"{side}.jsonl", "-o", tmp_path / f"{side}.parquet")
        (tmp_path / f"{side}.jsonl").unlink()
    shown = run("flips", tmp_path / "before.parquet", tmp_path / "after.parquet")
    assert "Q0?" in shown
    assert "Q2?" in shown
    assert "Q1?" not in shown


def test_questions_of_a_plain_table_are_shown(tmp_path: Path) -> None:
    rows = [{"item_id": n, "correct": 1, "question": f"Capital {n}?"} for n in range(3)]
    (tmp_path / "b.jsonl").write_text(lines(rows))
    asked = [{"role": "user", "content": "Capital 9?"}]
    rows[2] |= {"correct": 0, "question": asked}
    (tmp_path / "a.jsonl").write_text(lines(rows))
    assert "Capital 2?" in run("flips", tmp_path / "b.jsonl", tmp_path / "a.jsonl")
    assert json.loads(load_snapshot(tmp_path / "a.jsonl").table["question"][2].as_py()) == asked


def test_own_table_with_names_of_a_tool_is_a_table(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        lines([{"item_id": "a", "correct": 1, "task_id": "1", "completion": "x", "passed": 1}])
    )
    assert find_tool(file) is None
    assert load_snapshot(file).floats("correct").tolist() == [1]


def test_tables_of_wandb_are_tables(tmp_path: Path) -> None:
    file = tmp_path / "answers.table.json"
    file.write_text(
        json.dumps({"columns": ["item_id", "correct"], "data": [["a", 1], ["b", 0]], "ncols": 2})
    )
    assert load_snapshot(file).floats("correct").tolist() == [1, 0]


CHOICES = (
    *(
        "arc_anti_scale_1",
        "arc_base_scale_0",
        "d_mc_full",
        "d_mc_hswag_wino",
        "d_null_full",
        "d_null_hswag_wino",
    ),
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
    found = compare(
        before=samples(real_data, before), after=samples(real_data, f"{before}-Instruct")
    )
    assert (found.all.n, found.all.forgotten, found.all.gained) == counts
    assert "prompts that differ by their own tool's hash: 817" in found.notes
    assert found.before["metric"] == "bleu_acc"
    assert found.before["model"] == f"meta-llama/{before}"
    assert found.labels == (before, f"{before}-Instruct")


@pytest.mark.parametrize(
    ("before", "after", "metric", "counts", "accuracy", "rate"),
    [
        (
            "arc_base_scale_0",
            "arc_anti_scale_1",
            "acc",
            (1172, 430, 42),
            (0.512798635, 0.181740614),
            0.234224050,
        ),
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
def test_the_recomputed_choice_agrees_with_the_harness_on_every_item(
    real_data: Path, name: str, metric: str
) -> None:
    path = real_data / "lm_eval_json" / f"{name}.json"
    read = load_snapshot(path, metric=metric)
    raw = json.loads(path.read_text(encoding="utf-8"))
    rows = [(task, row) for task, of_task in raw["samples"].items() for row in of_task]
    correct = [
        row.get(metric, row["acc"]) for _, row in rows
    ]  # WinoGrande and TruthfulQA have acc only
    assert read.floats("correct").tolist() == correct
    assert read.texts("task").tolist() == [task for task, _ in rows]
    assert read.ints("k").tolist() == [len(row["resps"]) for _, row in rows]
    chosen, gold = read.ints("chosen"), read.ints("gold")
    assert not np.any((chosen == NONE) | (gold == NONE))
    assert np.array_equal(chosen == gold, np.array(correct) == 1)
    assert not any("contradict" in note for note in read.notes)
    assert read.table["choice_logprobs"].to_pylist() == [
        [resp[0][0] for resp in row["resps"]] for _, row in rows
    ]
    golds = [
        row["target"] if task != "winogrande" else int(row["doc"]["answer"]) - 1
        for task, row in rows
    ]
    assert gold.tolist() == golds
    totals = [
        value[f"{metric},none"] for value in raw["results"].values() if f"{metric},none" in value
    ]
    if len(totals) == len(raw["results"]):
        assert np.mean(totals) == pytest.approx(read.floats("correct").mean(), abs=1e-12)


def counted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_every_other_log_is_read_or_refused_with_a_reason(real_data: Path) -> None:
    found = {}
    for path in sorted((real_data / "lm_eval" / "misc").rglob("samples_*")):
        if "masakhaner" in path.name:
            with pytest.raises(
                SnapshotError, match=r"right or wrong .* f1,flexible-extract \(row 1: \['DATE"
            ):
                load_snapshot(path)
            continue
        read = load_snapshot(path)
        rows, metric = counted(path), read.meta["metric"]
        assert read.floats("correct").tolist() == [row[metric] for row in rows]
        found[path.name] = metric
    assert sum(metric == "acc" for metric in found.values()) == 10
    assert sum(metric == "exact_match" for metric in found.values()) == 4
    assert {metric for name, metric in found.items() if "truthfulqa_gen" in name} == {"bleu_acc"}


def test_the_latest_run_of_a_folder_counts_and_folders_of_several_models_are_listed(
    real_data: Path,
) -> None:
    misc = real_data / "lm_eval" / "misc"
    read = load_snapshot(misc / "outputs")
    tasks = [f"negotiationtom_{name}" for name in ("belief", "desire", "intention")]
    assert sorted(set(read.texts("task"))) == tasks
    assert read.meta["metrics"] == {tasks[0]: "acc", tasks[1]: "acc", tasks[2]: "exact_match"}
    assert read.meta["model"] == "Qwen/Qwen3-8B"
    latest = [
        next(misc.rglob(f"samples_{task}_2026-07-08T18-15-33.115417.jsonl")) for task in tasks
    ]
    right = [row.get("acc", row.get("exact_match")) for path in latest for row in counted(path)]
    assert read.floats("correct").tolist() == right
    with pytest.raises(
        SnapshotError, match=r"got 9 folders with samples: african_nlp_benchmarks, .* and 4 more"
    ):
        load_snapshot(misc)


ITEMS = 1500
LENGTH: dict[str, Callable[[str], int]] = {
    "sum": lambda _: 1,
    "chars": len,
    "with space": lambda text: len(text) + 1,
}


def answers(seed: int, norm: str, items: int = ITEMS) -> list[dict[str, Any]]:
    """Questions with four options of different lengths, in every second one gold likelier; correct by two norms."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    rows = []
    for index in range(items):
        lengths = fixed.integers(2, 30, 4)
        choices = [chr(ord("a") + option) * int(length) for option, length in enumerate(lengths)]
        gold, known = int(fixed.integers(4)), index % 2
        logprobs = -rng.gamma(2.0, 1.0, 4) * lengths**0.7
        logprobs[gold] *= 0.5 if known else 1.0
        scores = logprobs / [LENGTH[norm](text) for text in choices]
        right = [int(np.argmax(values) == gold) for values in (logprobs, scores)]
        rows.append(
            {"query": f"Question {index}?", "choices": choices, "gold": gold, "id": str(index)}
            | {"logprobs": logprobs.tolist(), "acc": right[0], "norm": right[1]}
        )
    return rows


def as_lm_eval(
    folder: Path,
    model: str,
    rows: list[dict[str, Any]],
    task: str = "toy",
    *,
    by_length: bool = True,
) -> Path:
    metrics = [
        {"acc": float(row["acc"])} | ({"acc_norm": float(row["norm"])} if by_length else {})
        for row in rows
    ]
    made = [
        choice_row(n, row["logprobs"], row["gold"], choices=row["choices"], metrics=values)
        for n, (row, values) in enumerate(zip(rows, metrics, strict=True))
    ]
    return write_samples(folder / f"org__{model}", task, made)


def as_lighteval(
    folder: Path, model: str, rows: list[dict[str, Any]], *, schema: str, space: str = ""
) -> Path:
    path = folder / "details" / "org" / model / DATE / f"details_toy_{DATE}.parquet"
    rows = [{**row, "choices": [space + text for text in row["choices"]]} for row in rows]
    if schema == "old":
        return write_old(path, rows)
    metrics = [{"acc": row["acc"], "acc_norm": row["norm"]} for row in rows]
    made = [
        new(row, metric=values, task="toy", logprobs=row["logprobs"])
        for row, values in zip(rows, metrics, strict=True)
    ]
    return write_new(path, made)


def document(before: Path, after: Path, metric: str) -> dict[str, Any]:
    """The JSON document of the command, without the paths and the name of the tool."""
    out = before.parent / "out.json"
    found = CliRunner().invoke(
        app, ["compare", str(before), str(after), "--metric", metric, "--json", str(out)]
    )
    assert found.exit_code == 0, found.output
    written: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    for side in ("before", "after"):
        for name in ("source", "tool"):
            written[side].pop(name)
    return written


@pytest.mark.parametrize("metric", ["acc", "acc_norm"])
@pytest.mark.parametrize(("schema", "space"), [("old", ""), ("new", ""), ("new", " ")])
def test_two_tools_logs_of_the_same_answers_give_equal_json(
    tmp_path: Path, metric: str, schema: str, space: str
) -> None:
    sides = {"before": answers(1, "chars"), "after": answers(2, "chars")}
    lm_eval = [as_lm_eval(tmp_path / "lm_eval", model, rows) for model, rows in sides.items()]
    lighteval = [
        as_lighteval(tmp_path / "lighteval", model, rows, schema=schema, space=space)
        for model, rows in sides.items()
    ]
    one, other = (document(before, after, metric) for before, after in (lm_eval, lighteval))
    assert one == other
    assert one["before"]["probe"] == {"norm": "sum" if metric == "acc" else "chars"}
    assert one["groups"][0]["chance"]["guess_corrected"]["n"] == ITEMS


def explained(snapshot: Snapshot) -> tuple[int, int]:
    """Number of wrong answers, and of those that are the best option by the scores that the norm makes."""
    options = option_scores(snapshot)
    assert options is not None
    wrong = snapshot.floats("correct") == 0
    best = decide(options.scores, options.k, options.golds).chosen == snapshot.ints("chosen")
    return int(wrong.sum()), int((wrong & best).sum())


def test_every_wrong_answer_is_explained_under_a_length_norm(tmp_path: Path) -> None:
    path = as_lighteval(tmp_path, "model", answers(1, "chars"), schema="old")
    snapshot = load_snapshot(path, metric="acc_norm")
    wrong, known = explained(snapshot)
    assert wrong == known > 500
    # The same log by its sums alone: they choose other options.
    unnamed = replace(
        snapshot, meta={name: value for name, value in snapshot.meta.items() if name != "probe"}
    )
    assert explained(unnamed)[1] < 0.9 * wrong


def test_a_norm_over_lengths_with_the_leading_space_is_recovered(tmp_path: Path) -> None:
    rows = answers(1, "with space")
    paths = [
        as_lighteval(tmp_path / "spaced", "model", rows, schema="new", space=" "),
        as_lm_eval(tmp_path / "lm_eval", "model", rows),
    ]
    snapshot = load_snapshot(paths[0], metric="acc_norm")
    assert snapshot.norms == {"toy": "chars_with_space"}
    wrong, known = explained(snapshot)
    assert wrong == known > 500
    scores = [
        np.array(row["logprobs"]) / [len(text) + 1 for text in row["choices"]] for row in rows
    ]
    assert snapshot.ints("chosen").tolist() == [int(np.argmax(values)) for values in scores]
    assert load_snapshot(paths[1], metric="acc_norm").norms == {
        "toy": "chars"
    }  # the harness's own definition


def test_two_tools_logs_of_scores_minus_priors_give_equal_counts(tmp_path: Path) -> None:
    found = []
    for model, seed in (("before", 1), ("after", 2)):
        rows, rng = answers(seed, "sum", 400), np.random.default_rng(seed)
        for row in rows:
            row["priors"] = (-rng.gamma(2.0, 5.0, 4)).tolist()
            row["right"] = float(
                np.argmax(np.subtract(row["logprobs"], row["priors"])) == row["gold"]
            )
        lm_eval = []
        for n, row in enumerate(rows):
            made = choice_row(n, row["logprobs"], row["gold"], choices=row["choices"], metrics={})
            resps = [[[str(value), "False"]] for value in (*row["logprobs"], *row["priors"])]
            lm_eval.append(
                {
                    **made,
                    "resps": resps,
                    "metrics": ["acc_mutual_info"],
                    "acc_mutual_info": row["right"],
                }
            )
        lighteval = [
            new(
                row,
                metric={"acc_mutual_info": row["right"]},
                task="toy",
                logprobs=[*row["logprobs"], *row["priors"]],
            )
            for row in rows
        ]
        found.append(
            (
                write_samples(tmp_path / model, "toy", lm_eval),
                write_new(tmp_path / f"{model}.p", lighteval),
            )
        )
    one, other = (compare(before=before, after=after) for before, after in zip(*found, strict=True))
    assert one.before["probe"] == other.before["probe"] == {"norm": "unconditional"}
    assert one.all.chance == other.all.chance
    assert one.all.chance.guess_corrected is not None


def test_each_task_of_lightevals_folder_keeps_its_own_norm(tmp_path: Path) -> None:
    folder = tmp_path / "details" / "org" / "model" / DATE
    for task, metric, norm in (("lengths", "acc_norm", "norm"), ("sums", "acc", "acc")):
        rows = [
            new(row, metric={metric: row[norm]}, task=task, logprobs=row["logprobs"])
            for row in answers(1, "chars", 400)
        ]
        write_new(folder / f"details_{task}_{DATE}.parquet", rows)
    snapshot = load_snapshot(tmp_path, metric="acc_norm")
    assert snapshot.norms == snapshot.meta["norms"] == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(snapshot)
    assert wrong == known


def test_lengths_with_the_space_are_not_guessed_if_only_some_options_have_one(
    tmp_path: Path,
) -> None:
    rows = answers(1, "with space", 400)
    for number, row in enumerate(rows):
        row["choices"] = [" " * (number % 2) + text for text in row["choices"]]
    metrics = [{"acc_norm": row["norm"]} for row in rows]
    made = [
        new(row, metric=values, logprobs=row["logprobs"])
        for row, values in zip(rows, metrics, strict=True)
    ]
    snapshot = load_snapshot(write_new(tmp_path / "a.parquet", made))
    assert snapshot.norms == {}
    assert snapshot.missing("chosen")
    assert (
        "which option was chosen does not follow from the log-likelihoods: 400 items"
        in snapshot.notes
    )


def of_two_tasks(folder: Path, model: str, seed: int) -> Path:
    """An lm-eval log of two tasks: one with a metric by length, the other with the metric of the sum alone."""
    as_lm_eval(folder, model, answers(seed, "chars", 400), "lengths")
    return as_lm_eval(folder, model, answers(seed + 10, "sum", 400), "sums", by_length=False).parent


def test_each_task_of_a_log_keeps_its_own_norm(tmp_path: Path) -> None:
    before, after = (
        of_two_tasks(tmp_path, model, seed) for model, seed in (("before", 1), ("after", 2))
    )
    snapshot = load_snapshot(before, metric="acc_norm")
    assert "probe" not in snapshot.meta
    assert snapshot.norms == snapshot.meta["norms"] == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(snapshot)
    assert wrong == known
    whole = compare(before=before, after=after, metric="acc_norm")
    for task in ("lengths", "sums"):
        sides = [next(folder.glob(f"samples_{task}_*")) for folder in (before, after)]
        alone = compare(
            before=sides[0], after=sides[1], metric="acc_norm" if task == "lengths" else "acc"
        )
        assert whole.by("task")[task].chance == alone.all.chance


def test_the_norms_of_a_log_stay_in_a_saved_snapshot(tmp_path: Path) -> None:
    snapshot = load_snapshot(of_two_tasks(tmp_path, "model", 1), metric="acc_norm")
    save_snapshot(snapshot, tmp_path / "saved.parquet")
    assert load_snapshot(tmp_path / "saved.parquet").norms == snapshot.norms


def test_files_of_different_norms_keep_their_norms_when_they_are_joined(tmp_path: Path) -> None:
    folder = of_two_tasks(tmp_path, "model", 1)
    files = [
        load_snapshot(next(folder.glob(f"samples_{task}_*")), metric=metric)
        for task, metric in (("sums", "acc"), ("lengths", "acc_norm"))
    ]
    whole = concatenate(files)
    assert whole.norms == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(whole)
    assert wrong == known


def test_a_norm_that_was_inferred_is_noted_where_it_differs_and_never_refused(
    tmp_path: Path,
) -> None:
    spaced, plain = answers(1, "with space"), answers(2, "chars")
    before = as_lighteval(tmp_path, "before", spaced, schema="new", space=" ")
    after = as_lighteval(tmp_path, "after", plain, schema="new", space=" ")
    notes = compare(before=before, after=after, metric="acc_norm").notes
    assert "norms of the score that decides differ: toy chars_with_space and chars" in notes


def test_an_unknown_norm_in_a_file_is_one_sentence(tmp_path: Path) -> None:
    snapshot = load_snapshot(
        as_lm_eval(tmp_path, "model", answers(1, "chars", 20)), metric="acc_norm"
    )
    odd = replace(snapshot, meta={**snapshot.meta, "probe": {"norm": "charz"}})
    with pytest.raises(SnapshotError, match="unknown norm 'charz'; needed one of sum, chars"):
        compare(before=odd, after=odd)

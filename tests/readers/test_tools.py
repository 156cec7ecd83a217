"""`readers.tools`: logs of further tools, in the forms that these tools write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tool_logs import (
    RIGHT,
    WRITERS,
    bigcode,
    deepeval,
    evals,
    evalscope,
    helm,
    human_eval,
    lines,
    mmlu_pro,
    promptfoo,
    qwen_math,
)
from typer.testing import CliRunner

from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.readers import QuestionStore, load_snapshot
from forgetwatch.readers.tools import TOOLS, find_tool

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: str | Path) -> str:
    """Run a command; its standard output."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_declaration_is_tested() -> None:
    assert {tool.name for tool in TOOLS} == {name.split(" by ")[0] for name in WRITERS}


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
        ("HELM", "{date}/mmlu:subject=anatomy,method=joint,model={model}/per_instance_stats.json", ""),
        ("OLMES", "{date}/{model}/task-003-arc_easy-predictions.jsonl", "arc_easy"),
    ],
)
def test_folder_is_one_log_of_the_latest_run(name: str, place: str, task: str, tmp_path: Path) -> None:
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
    assert load_snapshot(tmp_path / "p.json").texts("outcome")[1] == "unscored: error: 429: slow down"


def test_questions_of_helm_are_those_beside_the_statistics(tmp_path: Path) -> None:
    """An index after another order of the instances is another question."""
    (tmp_path / "per_instance_stats.json").write_text(helm(RIGHT))
    before = load_snapshot(tmp_path / "per_instance_stats.json")
    instances = [{"id": f"id{n}", "input": {"text": f"Q{2 - n}?"}, "split": "test"} for n in range(3)]
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    after = load_snapshot(tmp_path / "per_instance_stats.json")
    assert before.texts("item_id").tolist() == after.texts("item_id").tolist()
    assert not set(before.texts("content_hash")) & set(after.texts("content_hash"))


def ungraded(name: str) -> str:
    """Outputs that no tool has graded, as ToRA and OpenCompass write them."""
    if name.startswith("ToRA"):
        return lines([{"idx": n, "question": f"Q{n}?", "gt": "4", "pred": [text]} for n, text in enumerate("454")])
    rows = {
        str(n): {"origin_prompt": f"Q{n}?", "prediction": f"It is {text}.", "gold": "4"} for n, text in enumerate("454")
    }
    return json.dumps(rows)


COMMANDS = dict(
    re.findall(r"^\| ([^|]+) \| `(--[^`]+)`", (ROOT / "docs" / "how-to" / "logs.md").read_text(), flags=re.MULTILINE)
)


@pytest.mark.parametrize("name", COMMANDS)
def test_logs_of_rarely_met_tools_are_converted_by_the_documented_command(name: str, tmp_path: Path) -> None:
    written = {"BigCode": bigcode, "deepeval": deepeval, "OpenAI Evals": evals, "Qwen2.5-Math": qwen_math}
    file = tmp_path / "log.json"
    file.write_text(written[name](RIGHT) if name in written else ungraded(name))
    with pytest.raises(SnapshotError, match="forgetwatch convert"):
        load_snapshot(file)
    run("convert", file, *COMMANDS[name].split(), "-o", tmp_path / "outcomes.parquet")
    assert load_snapshot(tmp_path / "outcomes.parquet").floats("correct").tolist() == list(RIGHT)


def test_row_of_another_form_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(human_eval(RIGHT) + '{"task_id": "HumanEval/3"}\n')
    with pytest.raises(SnapshotError, match=r"results.jsonl, row 4: not a row of human-eval \(KeyError\('passed'\)\)"):
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
    file.write_text(lines([{"item_id": "a", "correct": 1, "task_id": "1", "completion": "x", "passed": 1}]))
    assert find_tool(file) is None
    assert load_snapshot(file).floats("correct").tolist() == [1]


def test_tables_of_wandb_are_tables(tmp_path: Path) -> None:
    file = tmp_path / "answers.table.json"
    file.write_text(json.dumps({"columns": ["item_id", "correct"], "data": [["a", 1], ["b", 0]], "ncols": 2}))
    assert load_snapshot(file).floats("correct").tolist() == [1, 0]

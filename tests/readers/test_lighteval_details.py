"""lighteval's details in both schemas, file and folder, and what is not in them."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forgetwatch import compare
from forgetwatch.errors import SnapshotError
from forgetwatch.readers.lighteval_details import holds_details, read, recognises
from forgetwatch.snapshot import NONE

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
    """What a model says of each question: log-likelihoods, and the two judgements that follow from them."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(items):
        asked = question(index)
        logprobs = -rng.exponential(5.0, len(asked["choices"]))
        norm = logprobs / [len(text) for text in asked["choices"]]
        right = [int(np.argmax(scores) == asked["gold"]) for scores in (logprobs, norm)]
        rows.append({**asked, "id": str(index), "logprobs": logprobs.tolist(), "acc": right[0], "norm": right[1]})
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


@pytest.mark.parametrize("schema", ["new", "old"])
@pytest.mark.parametrize("by", ["acc", "norm"])
def test_the_counts_are_those_of_the_rows_whatever_their_order(tmp_path: Path, schema: str, by: str) -> None:
    before, after = scored(1), scored(2)
    metric = {"acc": "acc", "norm": PER_CHARACTER if schema == "new" else "acc_norm"}[by]
    paths = [
        write(tmp_path / f"{name}.parquet", random.Random(name).sample(rows, len(rows)), schema)
        for name, rows in (("before", before), ("after", after))
    ]
    one, other = (read(path, metric=metric) for path in paths)
    cells = [(b[by], a[by]) for b, a in zip(before, after, strict=True)]
    counted = compare(before=one, after=other).all
    assert (counted.n, counted.forgotten, counted.gained) == (40, cells.count((1, 0)), cells.count((0, 1)))
    assert 0 < counted.forgotten != counted.gained > 0


@pytest.mark.parametrize("schema", ["new", "old"])
@pytest.mark.parametrize("by", ["acc", "norm"])
def test_the_choice_is_the_one_that_the_metric_judged(tmp_path: Path, schema: str, by: str) -> None:
    rows = scored(3)
    metric = {"acc": "acc", "norm": PER_CHARACTER if schema == "new" else "acc_norm"}[by]
    found = read(write(tmp_path / "details_toy|0_x.parquet", rows, schema), metric=metric)
    assert found.ints("k").tolist() == [len(row["choices"]) for row in rows]
    assert found.ints("gold").tolist() == [row["gold"] for row in rows]
    for row, chosen, logged, margin in zip(
        rows, found.ints("chosen"), found.table["choice_logprobs"].to_pylist(), found.floats("margin"), strict=True
    ):
        units = [len(text) for text in row["choices"]] if by == "norm" else [1] * len(row["choices"])
        scores = np.array(row["logprobs"]) / units * np.mean(units)
        assert chosen == np.argmax(scores)
        assert logged == row["logprobs"]
        assert margin == pytest.approx(np.diff(np.sort(scores))[-1])
    assert ((found.ints("chosen") == found.ints("gold")) == (found.floats("correct") == 1)).all()


def test_where_no_score_gives_the_judgement_back_the_choice_is_unknown(tmp_path: Path) -> None:
    rows = [new(row, metric={"mine": 1 - row["acc"]}, logprobs=row["logprobs"]) for row in scored(4)]
    found = read(write_new(tmp_path / "a.parquet", rows), metric=None)
    assert found.missing("chosen")
    assert found.notes == ("40 answers whose log-likelihoods do not say which option was chosen",)


def test_a_task_with_two_kinds_of_metrics_is_one_answer_a_question(tmp_path: Path) -> None:
    rows = scored(5)
    twice = [new(row, metric={"acc": row["acc"], "em": None}, logprobs=row["logprobs"]) for row in rows]
    twice += [new(row, metric={"acc": None, "em": i % 2}, text=[f"answer {i}"]) for i, row in enumerate(rows)]
    path = write_new(tmp_path / "a.parquet", twice)
    by_score, by_text = read(path, metric="acc"), read(path, metric="em")
    assert by_score.table["correct"].to_pylist() == [row["acc"] == 1 for row in rows]
    assert by_text.table["correct"].to_pylist() == [i % 2 == 1 for i in range(40)]
    assert by_score.texts("output").tolist() == [f"answer {i}" for i in range(40)]
    assert by_score.missing("k") is False
    assert by_text.missing("k") is by_text.missing("gold") is by_text.missing("chosen") is True


def test_ids_that_two_splits_share_are_two_questions(tmp_path: Path) -> None:
    rows = [{**row, "id": str(i % 20)} for i, row in enumerate(scored(6))]
    found = read(write(tmp_path / "a.parquet", rows, "new"), metric="acc")
    assert len(found) == len(set(found.texts("item_id"))) == len(set(found.texts("content_hash"))) == 40
    back = read(write(tmp_path / "b.parquet", rows[::-1], "new"), metric="acc")
    assert compare(before=found, after=back).all.forgotten == compare(before=found, after=back).all.gained == 0


def test_the_same_question_twice_stays_twice(tmp_path: Path) -> None:
    rows = [scored(7)[0]] * 2
    assert len(read(write(tmp_path / "a.parquet", rows, "old"), metric="acc")) == 2


def test_shares_of_several_samples_are_no_correctness(tmp_path: Path) -> None:
    rows = [new(row, metric={"pass@k:k=2&n=3": i / 3}, text=["a", "b", "c"]) for i, row in enumerate(scored(8, 4))]
    with pytest.raises(SnapshotError, match=r"pass@k:k=2&n=3 \(row 2: 0.333.*\)"):
        read(write_new(tmp_path / "a.parquet", rows), metric=None)


def test_several_right_options_are_kept(tmp_path: Path) -> None:
    row = {**scored(9)[3], "gold": [2, 0]}
    path = write_new(
        tmp_path / "a.parquet",
        [new(row, metric={"acc": 1}, logprobs=[-1.0, -2.0, -3.0, -4.0, -5.0])],
        pa.list_(pa.int64()),
    )
    found = read(path, metric=None)
    assert (found.table["golds"][0].as_py(), found.ints("chosen")[0]) == ([0, 2], 0)


@pytest.mark.parametrize(("choices", "k"), [(["A", "B", "C"], 3), (["Paris"], NONE), (["Paris", "the city"], NONE)])
def test_written_answers_have_options_where_letters_name_them(tmp_path: Path, choices: list[str], k: int) -> None:
    row = {"query": "?", "choices": choices, "gold": 0, "id": "1"}
    found = read(write_new(tmp_path / "a.parquet", [new(row, metric={"em": 1}, text=["A"])]), metric=None)
    assert (found.ints("k")[0], found.texts("output")[0]) == (k, "A")


def test_a_folder_is_the_latest_run_of_one_model(tmp_path: Path) -> None:
    rows = scored(10)
    folder = tmp_path / "details" / "org" / "model"
    for date, tasks in ((DATE, ("a", "b:c")), ("2026-01-01T00-00-00.000001", ("a", "b:c", "d"))):
        for task in tasks:
            write(folder / date / f"details_{task}|0_{date}.parquet", rows, "old")
    found = read(tmp_path, metric="acc")
    assert sorted(set(found.texts("task"))) == ["a|0", "b:c|0"]
    assert (len(found), found.meta["model"]) == (80, "org/model")
    assert f"the run of {DATE}; 1 older in this folder left out" in found.notes
    assert holds_details(tmp_path)
    write(tmp_path / "details" / "other" / DATE / f"details_a|0_{DATE}.parquet", rows, "old")
    with pytest.raises(SnapshotError, match=r"details of 2 models \(org/model, other\)"):
        read(tmp_path, metric="acc")


def test_a_folder_without_details_or_with_a_pointer_is_named(tmp_path: Path) -> None:
    assert not holds_details(tmp_path)
    with pytest.raises(SnapshotError, match="found none"):
        read(tmp_path, metric=None)
    (tmp_path / f"details_a|0_{DATE}.parquet").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(SnapshotError, match="Git LFS pointer"):
        read(tmp_path, metric=None)


def test_both_schemas_are_told_from_other_tables(tmp_path: Path) -> None:
    assert recognises(pq.read_schema(write(tmp_path / "a", scored(1), "new")))
    assert recognises(pq.read_schema(write(tmp_path / "b", scored(1), "old")))
    assert not recognises(pa.schema([("item_id", pa.string()), ("correct", pa.bool_())]))
    assert not recognises(pa.schema([(name, pa.string()) for name in ("doc", "metric", "model_response")]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metrics": 1}, "metrics must be an object, got 1"),
        ({"choices": [1, 2]}, r"choices must be a list of texts, got \[1, 2\]"),
        ({"gold_index": ["A"]}, "gold_index must be an index or a list of them"),
        ({"gold_index": [9]}, "gold is 9, outside the 2 options"),
        ({"gold_index": [2**62]}, "gold"),
        ({"example": None}, "example must be text, got None"),
        ({"predictions": "x"}, "predictions must be a list"),
    ],
)
def test_a_field_of_another_type_is_one_sentence(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    row = {"example": "?", "full_prompt": "?", "choices": ["a", "b"], "gold_index": [0], "gold": []}
    row |= {"metrics": {"acc": 1}, "predictions": [-1.0, -2.0], **change}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    with pytest.raises(SnapshotError, match=says) as caught:
        read(tmp_path / "a.parquet", metric=None)
    assert "a.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


def said(path: Path) -> str:
    """How the error about a file begins; empty where it is read."""
    try:
        read(path, metric=None)
    except SnapshotError as error:
        return f"{path}: ..." if str(path) in str(error) and "\n" not in str(error) else str(error)
    return ""


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    field=st.sampled_from(["example", "choices", "gold_index", "gold", "acc", "predictions", "full_prompt"]), value=ANY
)
def test_any_value_in_any_field_is_read_or_one_sentence(tmp_path: Path, field: str, value: Any) -> None:
    row: dict[str, Any] = {"example": "?", "full_prompt": "?", "choices": ["a", "b"], "gold_index": [0], "gold": []}
    row |= {"predictions": [-1.0, -2.0], "metrics": {"acc": value if field == "acc" else 1}}
    if field != "acc":
        row[field] = value
    try:
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    except (pa.ArrowException, TypeError):
        return  # no Parquet file can hold it
    assert said(tmp_path / "a.parquet") in ("", f"{tmp_path / 'a.parquet'}: ...")


def test_what_lightevals_own_writer_writes_is_read(tmp_path: Path) -> None:
    tracker = pytest.importorskip("lighteval.logging.evaluation_tracker")
    from lighteval.logging.info_loggers import DetailsLogger
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    rows = scored(11)
    made = tracker.EvaluationTracker(output_dir=str(tmp_path))
    for row in rows:
        doc = Doc(query=row["query"], choices=row["choices"], gold_index=row["gold"], id=row["id"], task_name="toy|0")
        response = ModelResponse(input_tokens=[1], logprobs=row["logprobs"])
        made.details_logger.details["toy|0"].append(DetailsLogger.Detail(doc, response, {"acc": row["acc"]}))
    from datasets import Dataset

    made.general_config_logger.model_name = "org/model"
    listed = [asdict(detail) for detail in made.details_logger.details["toy|0"]]
    made.save_details(DATE, {"toy|0": Dataset.from_list(listed)})
    found = read(tmp_path, metric=None)
    assert found.table["correct"].to_pylist() == [row["acc"] == 1 for row in rows]
    assert found.meta["model"] == "org/model"
    assert ((found.ints("chosen") == found.ints("gold")) == (found.floats("correct") == 1)).all()

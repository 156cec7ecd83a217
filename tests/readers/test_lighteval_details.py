"""lighteval's details in both schemas, file and folder, with the choices that they do not log."""

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
from tool_logs import LIGHTEVAL_DATE, PER_CHARACTER, error_start, new, scored, write, write_new

from forgetwatch import compare
from forgetwatch.errors import SnapshotError
from forgetwatch.readers import lighteval
from forgetwatch.readers.log import Reading
from forgetwatch.snapshot import NONE, Snapshot


def read(path: Path, *, metric: str | None) -> Snapshot:
    return lighteval.read(path, Reading(metric=metric))


@pytest.mark.parametrize("schema", ["new", "old"])
@pytest.mark.parametrize("by", ["acc", "norm"])
def test_the_counts_are_those_of_the_rows_in_any_order(
    tmp_path: Path, schema: str, by: str
) -> None:
    before, after = scored(1), scored(2)
    metric = {"acc": "acc", "norm": PER_CHARACTER if schema == "new" else "acc_norm"}[by]
    paths = [
        write(tmp_path / f"{name}.parquet", random.Random(name).sample(rows, len(rows)), schema)
        for name, rows in (("before", before), ("after", after))
    ]
    one, other = (read(path, metric=metric) for path in paths)
    cells = [(b[by], a[by]) for b, a in zip(before, after, strict=True)]
    counted = compare(before=one, after=other).all
    assert (counted.n, counted.forgotten, counted.gained) == (
        40,
        cells.count((1, 0)),
        cells.count((0, 1)),
    )
    assert 0 < counted.forgotten != counted.gained > 0


@pytest.mark.parametrize("schema", ["new", "old"])
@pytest.mark.parametrize("by", ["acc", "norm"])
def test_the_choice_is_the_one_behind_the_metric(tmp_path: Path, schema: str, by: str) -> None:
    rows = scored(3)
    metric = {"acc": "acc", "norm": PER_CHARACTER if schema == "new" else "acc_norm"}[by]
    found = read(write(tmp_path / "details_toy|0_x.parquet", rows, schema), metric=metric)
    assert found.ints("k").tolist() == [len(row["choices"]) for row in rows]
    assert found.ints("gold").tolist() == [row["gold"] for row in rows]
    for row, chosen, logged, margin in zip(
        rows,
        found.ints("chosen"),
        found.table["choice_logprobs"].to_pylist(),
        found.floats("margin"),
        strict=True,
    ):
        units = (
            [len(text) for text in row["choices"]] if by == "norm" else [1] * len(row["choices"])
        )
        scores = np.array(row["logprobs"]) / units * np.mean(units)
        assert chosen == np.argmax(scores)
        assert logged == row["logprobs"]
        assert margin == pytest.approx(np.diff(np.sort(scores))[-1])
    assert ((found.ints("chosen") == found.ints("gold")) == (found.floats("correct") == 1)).all()


def test_the_choice_is_unknown_if_no_norm_agrees_with_the_metric(tmp_path: Path) -> None:
    rows = [
        new(row, metric={"mine": 1 - row["acc"]}, logprobs=row["logprobs"]) for row in scored(4)
    ]
    found = read(write_new(tmp_path / "a.parquet", rows), metric=None)
    assert found.missing("chosen")
    assert found.notes == (
        "which option was chosen does not follow from the log-likelihoods: 40 items",
    )


def test_two_rows_of_one_question_with_different_metrics_are_one_answer(tmp_path: Path) -> None:
    rows = scored(5)
    twice = [
        new(row, metric={"acc": row["acc"], "em": None}, logprobs=row["logprobs"]) for row in rows
    ]
    twice += [
        new(row, metric={"acc": None, "em": i % 2}, text=[f"answer {i}"])
        for i, row in enumerate(rows)
    ]
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
    assert (
        len(found)
        == len(set(found.texts("item_id")))
        == len(set(found.texts("content_hash")))
        == 40
    )
    back = read(write(tmp_path / "b.parquet", rows[::-1], "new"), metric="acc")
    assert (
        compare(before=found, after=back).all.forgotten
        == compare(before=found, after=back).all.gained
        == 0
    )


def test_a_question_that_occurs_twice_is_two_items(tmp_path: Path) -> None:
    rows = [scored(7)[0]] * 2
    assert len(read(write(tmp_path / "a.parquet", rows, "old"), metric="acc")) == 2


def test_shares_of_several_samples_are_no_correctness(tmp_path: Path) -> None:
    rows = [
        new(row, metric={"pass@k:k=2&n=3": i / 3}, text=["a", "b", "c"])
        for i, row in enumerate(scored(8, 4))
    ]
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


@pytest.mark.parametrize(
    ("choices", "k"), [(["A", "B", "C"], 3), (["Paris"], NONE), (["Paris", "the city"], NONE)]
)
def test_generated_answers_have_options_if_letters_name_them(
    tmp_path: Path, choices: list[str], k: int
) -> None:
    row = {"query": "?", "choices": choices, "gold": 0, "id": "1"}
    found = read(
        write_new(tmp_path / "a.parquet", [new(row, metric={"em": 1}, text=["A"])]), metric=None
    )
    assert (found.ints("k")[0], found.texts("output")[0]) == (k, "A")


def test_a_folder_is_the_latest_run_of_one_model(tmp_path: Path) -> None:
    rows = scored(10)
    folder = tmp_path / "details" / "org" / "model"
    for date, tasks in (
        (LIGHTEVAL_DATE, ("a", "b:c")),
        ("2026-01-01T00-00-00.000001", ("a", "b:c", "d")),
    ):
        for task in tasks:
            write(folder / date / f"details_{task}|0_{date}.parquet", rows, "old")
    found = read(tmp_path, metric="acc")
    assert sorted(set(found.texts("task"))) == ["a|0", "b:c|0"]
    assert (len(found), found.meta["model"]) == (80, "org/model")
    assert f"the run of {LIGHTEVAL_DATE}; 1 older in this folder left out" in found.notes
    assert lighteval.recognises(tmp_path)
    write(
        tmp_path / "details" / "other" / LIGHTEVAL_DATE / f"details_a|0_{LIGHTEVAL_DATE}.parquet",
        rows,
        "old",
    )
    with pytest.raises(SnapshotError, match=r"details of 2 models \(org/model, other\)"):
        read(tmp_path, metric="acc")


def test_a_folder_without_details_or_with_a_pointer_is_refused(tmp_path: Path) -> None:
    assert not lighteval.recognises(tmp_path)
    with pytest.raises(SnapshotError, match="found none"):
        read(tmp_path, metric=None)
    (tmp_path / f"details_a|0_{LIGHTEVAL_DATE}.parquet").write_text(
        "version https://git-lfs.github.com/spec/v1\n"
    )
    with pytest.raises(SnapshotError, match="Git LFS pointer"):
        read(tmp_path, metric=None)


def test_both_schemas_are_distinguished_from_other_tables(tmp_path: Path) -> None:
    for schema in ("new", "old"):
        assert lighteval.recognises(write(tmp_path / schema, scored(1), schema))
    for names in (("item_id", "correct"), ("doc", "metric", "model_response")):
        pq.write_table(pa.table({name: ["text"] for name in names}), tmp_path / "other")
        assert not lighteval.recognises(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": 1}, "metrics must be an object, got 1"),
        ({"choices": [1, 2]}, r"choices must be a list of texts, got \[1, 2\]"),
        ({"gold_index": ["A"]}, "gold_index must be an index or a list of them"),
        ({"gold_index": [9]}, "needed one of its 2 options as gold, got 9"),
        ({"gold_index": [2**62]}, "gold"),
        ({"example": None}, "example must be text, got None"),
        ({"predictions": "x"}, "predictions must be a list"),
    ],
)
def test_a_field_of_another_type_is_one_sentence(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    row = {"example": "?", "full_prompt": "?", "choices": ["a", "b"], "gold_index": [0], "gold": []}
    row |= {"metrics": {"acc": 1}, "predictions": [-1.0, -2.0], **change}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    with pytest.raises(SnapshotError, match=message) as caught:
        read(tmp_path / "a.parquet", metric=None)
    assert "a.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    field=st.sampled_from(
        ["example", "choices", "gold_index", "gold", "acc", "predictions", "full_prompt"]
    ),
    value=ANY,
)
def test_any_value_in_any_field_is_read_or_one_sentence(
    tmp_path: Path, field: str, value: Any
) -> None:
    row: dict[str, Any] = {
        "example": "?",
        "full_prompt": "?",
        "choices": ["a", "b"],
        "gold_index": [0],
        "gold": [],
    }
    row |= {"predictions": [-1.0, -2.0], "metrics": {"acc": value if field == "acc" else 1}}
    if field != "acc":
        row[field] = value
    try:
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    except (pa.ArrowException, TypeError):
        return  # no Parquet file can hold it
    assert error_start(tmp_path / "a.parquet", read) in ("", f"{tmp_path / 'a.parquet'}: ...")


def test_details_of_lightevals_own_writer_are_read(tmp_path: Path) -> None:
    tracker = pytest.importorskip("lighteval.logging.evaluation_tracker")
    from lighteval.logging.info_loggers import DetailsLogger
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    rows = scored(11)
    made = tracker.EvaluationTracker(output_dir=str(tmp_path))
    for row in rows:
        doc = Doc(
            query=row["query"],
            choices=row["choices"],
            gold_index=row["gold"],
            id=row["id"],
            task_name="toy|0",
        )
        response = ModelResponse(input_tokens=[1], logprobs=row["logprobs"])
        made.details_logger.details["toy|0"].append(
            DetailsLogger.Detail(doc, response, {"acc": row["acc"]})
        )
    from datasets import Dataset

    made.general_config_logger.model_name = "org/model"
    listed = [asdict(detail) for detail in made.details_logger.details["toy|0"]]
    made.save_details(LIGHTEVAL_DATE, {"toy|0": Dataset.from_list(listed)})
    found = read(tmp_path, metric=None)
    assert found.table["correct"].to_pylist() == [row["acc"] == 1 for row in rows]
    assert found.meta["model"] == "org/model"
    assert ((found.ints("chosen") == found.ints("gold")) == (found.floats("correct") == 1)).all()

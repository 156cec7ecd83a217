"""Logs of Inspect in every shape: packed three ways, as JSON, unfinished, damaged, and real ones."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_logs import DEFLATED, STORED, ZSTANDARD, error_start, write_zip

from forgetwatch import compare
from forgetwatch.errors import SnapshotError
from forgetwatch.files.json_pieces import Progress
from forgetwatch.readers import inspect_log
from forgetwatch.readers.inspect_log import is_inspect_log
from forgetwatch.readers.log import Reading
from forgetwatch.snapshot import NONE, Snapshot

EVAL = {"task": "toy", "model": "org/model", "dataset": {}}
HEADER: dict[str, Any] = {"version": 2, "status": "success", "eval": EVAL}
LONG = "a page " * 1_000


def sample(index: int, value: Any, *, epoch: int = 1, **fields: Any) -> dict[str, Any]:
    scores = {"match": {"value": value, "answer": f"answer {index}", "explanation": "why"}}
    named = {"id": index, "epoch": epoch, "input": f"Question {index}?", "target": f"{index}"}
    return {**named, "scores": scores, **fields}


def read(path: Path, *, metric: str | None, progress: Progress | None = None) -> Snapshot:
    return inspect_log.read(path, Reading(metric=metric, progress=progress))


def members(
    samples: list[dict[str, Any]], header: dict[str, Any] | None = None
) -> dict[str, bytes]:
    described = HEADER if header is None else header
    return {
        "header.json": json.dumps(described).encode(),
        "summaries.json": json.dumps(samples).encode(),
    }


def log(path: Path, samples: list[dict[str, Any]], method: int = DEFLATED) -> Path:
    return write_zip(path, members(samples), method=method)


def as_json(path: Path, samples: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({**HEADER, "samples": samples, "reductions": []}))
    return path


BEFORE = [sample(i, "CI"[i % 3 == 0]) for i in range(30)]
AFTER = [sample(i, "CI"[i % 5 == 0], uuid="new") for i in reversed(range(30))]


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD, None])
def test_every_packing_gives_the_same_counts(tmp_path: Path, method: int | None) -> None:
    before, after = (
        as_json(tmp_path / name, rows) if method is None else log(tmp_path / name, rows, method)
        for name, rows in (("before", BEFORE), ("after", AFTER))
    )
    assert is_inspect_log(before)
    counted = compare(before=read(before, metric=None), after=read(after, metric="match")).all
    # right before: not a multiple of 3; right after: not a multiple of 5
    assert (counted.n, counted.forgotten, counted.gained) == (30, 4, 8)
    found = read(before, metric=None)
    assert (found.meta["model"], found.meta["metric"], found.texts("task")[0]) == (
        "org/model",
        "match",
        "toy",
    )
    assert found.texts("output")[:2].tolist() == ["answer 0", "answer 1"]


def test_grades_booleans_numbers_and_words_are_right_or_wrong(tmp_path: Path) -> None:
    values = ["C", "I", "P", "N", True, False, 1, 0.0, "yes", "No", "TRUE", "1", "0.0", None]
    found = read(
        log(tmp_path / "a", [sample(i, value) for i, value in enumerate(values)]), metric=None
    )
    right = [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
        False,
        True,
        False,
        True,
        True,
        False,
        None,
    ]
    assert found.table["correct"].to_pylist() == right
    assert found.floats("score")[:4].tolist() == [1.0, 0.0, 0.5, 0.0]


def test_a_share_is_no_correctness(tmp_path: Path) -> None:
    for value in (1.5, "-0.5", "maybe", [1, 0]):
        with pytest.raises(
            SnapshotError,
            match=r"no metric in this log is right or wrong for each item; it has match",
        ):
            read(log(tmp_path / "a", [sample(1, "C"), sample(2, value)]), metric=None)


def test_several_scorers_and_keys_are_metrics(tmp_path: Path) -> None:
    rows = [sample(i, "C") for i in range(4)]
    for i, row in enumerate(rows):
        row["scores"]["two"] = {
            "value": {"exact": i % 2 == 0, "length": i + 0.5},
            "answer": f"other {i}",
        }
    path = log(tmp_path / "a", rows)
    found = read(path, metric="two/exact")
    assert found.table["correct"].to_pylist() == [True, False, True, False]
    assert found.texts("output")[0] == "other 0"
    assert read(path, metric=None).meta["metric"] == "match"
    with pytest.raises(
        SnapshotError, match=r"two/length \(row 1: 0.5\) is not right or wrong.*match, two/exact"
    ):
        read(path, metric="two/length")


def test_a_sample_without_scores_is_unscored_with_its_reason(tmp_path: Path) -> None:
    rows = [
        sample(1, "C"),
        {**sample(2, "C"), "scores": {}, "error": "RuntimeError('x')\nTraceback"},
        {**sample(3, "C"), "scores": None, "error": {"message": "out of time", "traceback": "..."}},
        {**sample(4, "C"), "scores": {}, "completed": False},
        {**sample(5, "C"), "scores": {}},
        sample(6, float("nan")),
    ]
    found = read(log(tmp_path / "a", rows), metric=None)
    assert found.table["correct"].to_pylist() == [True, None, None, None, None, None]
    assert found.texts("outcome").tolist() == [
        "ok",
        "unscored: error: RuntimeError('x') Traceback",
        "unscored: error: out of time",
        "unscored: not finished",
        "unscored: no scores in the log",
        "unscored: no match in the log",
    ]


def test_epochs_are_samples_of_one_item(tmp_path: Path) -> None:
    before = [sample(i, "C", epoch=e) for e in (1, 2) for i in range(5)]
    after = [sample(i, "CI"[e == 2 and i == 3], epoch=e) for e in (1, 2) for i in range(5)]
    one, other = (
        read(log(tmp_path / n, rows), metric=None) for n, rows in (("b", before), ("a", after))
    )
    counted = compare(before=one, after=other).all
    assert (counted.n, counted.forgotten, counted.gained) == (5, 0.5, 0)


def test_the_choice_is_the_letter_that_the_scorer_extracted(tmp_path: Path) -> None:
    def row(index: int, target: Any, answer: str, choices: list[str]) -> dict[str, Any]:
        made = sample(index, "I", choices=choices, target=target)
        made["scores"] = {"choice": {"value": "I", "answer": answer}}
        return made

    abc = ["red", "blue", "green"]
    rows = [
        row(1, "B", "C", abc),
        row(2, ["A", "C"], "A, C", abc),
        row(3, "A,B", "", abc),
        row(4, "blue", "red", abc),
        row(5, "D", "E", abc),
        row(6, "1", "Z", [str(i) for i in range(30)]),
        row(7, "A", "B", ["B", "A"]),
    ]
    found = read(log(tmp_path / "a", rows), metric=None)
    assert found.ints("k").tolist() == [3, 3, 3, 3, 3, 30, 2]
    assert found.ints("gold").tolist() == [1, 0, 0, 1, NONE, 26, 0]
    assert found.table["golds"].to_pylist()[1:3] == [[0, 2], [0, 1]]
    assert found.ints("chosen").tolist() == [2, NONE, NONE, 0, NONE, 25, 1]


def test_options_that_summaries_leave_out_are_in_the_samples(tmp_path: Path) -> None:
    rows = [sample(i, "C", target="A") for i in range(3)]
    whole = {
        f"samples/{row['id']}_epoch_1.json": {**row, "choices": ["x", f"y{row['id']}"]}
        for row in rows
    }
    output = {
        "choices": [
            {"message": {"content": [{"type": "text", "text": "A it is"}, {"type": "image"}]}}
        ]
    }
    packed = {
        name: json.dumps({**row, "output": output, "events": [{}]}).encode()
        for name, row in whole.items()
    }
    found = read(write_zip(tmp_path / "a", {**members(rows), **packed}), metric=None)
    assert found.ints("k").tolist() == [2, 2, 2]
    assert found.texts("output")[0] == "A it is"
    complete = read(log(tmp_path / "b", list(whole.values())), metric=None)
    assert compare(before=found, after=complete).all.n == 3


def test_a_question_that_a_summary_shortens_is_read_whole(tmp_path: Path) -> None:
    whole = [sample(i, "C", input=f"{LONG}{i}") for i in range(2)]
    whole.append(
        sample(
            2,
            "C",
            input=[{"id": "x", "role": "user", "content": [{"type": "text", "text": f"{LONG}2"}]}],
        )
    )
    whole.append(
        sample(
            3,
            "C",
            input=[{"role": "user", "content": [{"type": "image", "image": "attachment://1"}]}],
        )
    )
    cut = f"{LONG[:5120]}...\n(content truncated)"
    short = [{**row, "input": cut} for row in whole]
    short[2]["input"] = [{"role": "user", "content": [{"type": "text", "text": cut}]}]
    short[3]["input"] = [{"role": "user", "content": [{"type": "text", "text": "(Image)"}]}]
    samples = {f"samples/{row['id']}_epoch_1.json": json.dumps(row).encode() for row in whole}
    found = read(write_zip(tmp_path / "a", {**members(short), **samples}), metric=None)
    same = read(as_json(tmp_path / "b", whole), metric=None)
    assert found.texts("content_hash").tolist() == same.texts("content_hash").tolist()
    assert len(set(found.texts("content_hash"))) == 4


def test_message_ids_do_not_change_the_question(tmp_path: Path) -> None:
    def message_of(message_id: str, content: Any) -> dict[str, Any]:
        return sample(
            1,
            "C",
            input=[{"id": message_id, "role": "user", "source": "input", "content": content}],
        )

    hashes = [
        read(log(tmp_path / "a", [row]), metric=None).texts("content_hash")[0]
        for row in (
            message_of("x", "Why?"),
            message_of("y", "Why?"),
            message_of("z", [{"type": "text", "text": "Why?"}]),
        )
    ]
    assert len(set(hashes)) == 1


def test_an_unfinished_log_is_read_from_its_journal_with_a_note(tmp_path: Path) -> None:
    again = [sample(1, "I"), sample(2, "C")]
    path = write_zip(
        tmp_path / "a",
        {
            "_journal/start.json": json.dumps({"version": 2, "eval": HEADER["eval"]}).encode(),
            "_journal/summaries/10.json": json.dumps(again).encode(),
            "_journal/summaries/9.json": json.dumps([sample(1, "C"), sample(3, "C")]).encode(),
        },
    )
    found = read(path, metric=None)
    assert dict(zip(found.texts("item_id"), found.table["correct"].to_pylist(), strict=True)) == {
        "3": True,
        "1": False,  # run again: the last counts
        "2": True,
    }
    assert found.notes == ("the run did not end well: its status is 'started'",)


def test_a_log_without_summaries_is_read_from_its_samples(tmp_path: Path) -> None:
    samples = {f"samples/{row['id']}_epoch_1.json": json.dumps(row).encode() for row in BEFORE}
    reports: list[tuple[int, int]] = []
    path = write_zip(tmp_path / "a", {"header.json": json.dumps(HEADER).encode(), **samples})
    found = read(path, metric=None, progress=lambda done, total: reports.append((done, total)))
    assert compare(before=read(log(tmp_path / "b", BEFORE), metric=None), after=found).all.n == 30
    assert reports[-1] == (30, 30)


def test_an_old_log_with_one_score_is_read(tmp_path: Path) -> None:
    row = {**sample(1, "C"), "score": {"value": "C", "answer": "x"}}
    del row["scores"]
    assert read(as_json(tmp_path / "a", [row]), metric="score").table["correct"].to_pylist() == [
        True
    ]


def test_no_file_is_written_for_any_name_of_a_member(tmp_path: Path) -> None:
    outside = {"../../evil.json": b"{}", "/evil.json": b"{}", "samples/../../1_epoch_1.json": b"{}"}
    path = write_zip(tmp_path / "a", {**members(BEFORE), **outside})
    there = sorted(tmp_path.parent.rglob("*"))
    assert len(read(path, metric=None)) == 30
    assert sorted(tmp_path.parent.rglob("*")) == there


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"header.json": b"{", "summaries.json": b"[]"}, "is it cut"),
        ({"header.json": b'{"eval": {}}', "summaries.json": b'[{"id": 1'}, "is it cut"),
        ({"header.json": b"{}", "summaries.json": b"[]"}, "the log has no samples"),
        ({"readme.txt": b""}, "a ZIP file without header.json or _journal/start.json"),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": null}]'},
            "id must be a number or text, got None",
        ),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1, "epoch": 0}]'},
            "epoch must count from 1, got 0",
        ),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1, "epoch": 1e400}]'},
            "epoch must count from 1, got inf",
        ),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1, "scores": []}]'},
            "scores must be an object",
        ),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1, "scores": {"a": 1}}]'},
            "the score of 'a' must be",
        ),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1, "target": 3}]'},
            "target must be text or a list",
        ),
        ({"header.json": b"{}", "summaries.json": b'[{"id": "\xff"}]'}, "not UTF-8 text, at byte"),
        (
            {"header.json": b"{}", "summaries.json": b'[{"id": 1}]'},
            "none of its 1 samples has a score",
        ),
        ({"header.json": b"[]", "summaries.json": b"3"}, "needed an object or a list"),
    ],
)
def test_an_error_is_one_sentence_with_its_cause(
    tmp_path: Path, content: dict[str, bytes], message: str
) -> None:
    path = write_zip(tmp_path / "log.eval", content)
    with pytest.raises(SnapshotError, match=message) as caught:
        read(path, metric=None)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_cut_log_is_refused_by_name(tmp_path: Path, share: float) -> None:
    for path in (log(tmp_path / "a", BEFORE), as_json(tmp_path / "b", BEFORE)):
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
        with pytest.raises(SnapshotError, match="is it cut"):
            read(path, metric=None)


def test_other_files_are_not_recognised(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as file:
        file.writestr("word/document.xml", "<x/>")
    (tmp_path / "b").write_text('{"item_id": "1", "correct": 1}\n')
    (tmp_path / "c").write_text('{"results": {}, "samples": {}}')
    assert not any(is_inspect_log(tmp_path / name) for name in "abc")
    assert is_inspect_log(as_json(tmp_path / "d", BEFORE))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["C", "P", "A"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "content", "a"]), inner)
    ),
    max_leaves=5,
)
FIELDS = (
    "id",
    "epoch",
    "input",
    "target",
    "choices",
    "scores",
    "error",
    "completed",
    "output",
    "score",
)


@settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3), eval_=JSON, status=JSON)
def test_any_value_in_any_field_is_read_or_one_sentence(
    tmp_path: Path, fields: Any, eval_: Any, status: Any
) -> None:
    document = {"status": status, "eval": eval_, "samples": [{**sample(1, "C"), **fields}]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert error_start(tmp_path / "a.json", read) in ("", f"{tmp_path / 'a.json'}: ...")


def test_real_logs_are_read_or_refused_for_want_of_scores(real_data: Path) -> None:
    found = {}
    for path in sorted((real_data / "inspect").glob("*.[ej]*")):
        assert is_inspect_log(path)
        if not error_start(path, read):
            found[path.name] = read(path, metric=None)
        else:
            with pytest.raises(SnapshotError, match=r"none of its (1|10) samples has a score"):
                read(path, metric=None)
    assert len(found) == 24
    by_model = {
        snapshot.meta["model"]: snapshot for snapshot in found.values() if len(snapshot) == 100
    }
    before, after = by_model["google/gemini-2.5-flash"], by_model["google/gemini-2.5-pro"]
    counted = compare(before=before, after=after).all
    assert (counted.n, counted.accuracy_before, counted.accuracy_after) == (100, 0.58, 0.66)
    assert (counted.forgotten, counted.gained) == (2, 10)


def test_accuracies_of_real_logs_are_those_that_inspect_wrote(real_data: Path) -> None:
    checked = 0
    for path in sorted((real_data / "inspect").glob("*popularity*.eval")):
        results = json.loads(zipfile.ZipFile(path).read("header.json")).get("results") or {}
        for score in results.get("scores", []):
            correct = read(path, metric=score["name"]).floats("correct")
            assert correct.mean() == pytest.approx(score["metrics"]["accuracy"]["value"])
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize("extension", ["eval", "json"])
def test_logs_of_inspects_own_writer_are_read(tmp_path: Path, extension: str) -> None:
    inspect_log = pytest.importorskip("inspect_ai.log")
    made = inspect_log.EvalLog.model_validate(
        {
            **{
                "version": 2,
                "status": "success",
                "samples": [{**row, "choices": ["x", "y"]} for row in BEFORE],
            },
            "eval": {
                "task": "toy",
                "model": "m",
                "created": "2026-01-01T00:00:00+00:00",
                "dataset": {},
                "config": {},
            },
        }
    )
    path = tmp_path / f"log.{extension}"
    inspect_log.write_eval_log(made, str(path))
    assert is_inspect_log(path)
    found = read(path, metric=None)
    by_id = dict(zip(found.texts("item_id"), found.table["correct"].to_pylist(), strict=True))
    assert by_id == {str(row["id"]): row["scores"]["match"]["value"] == "C" for row in BEFORE}
    assert set(found.ints("k")) == {2}

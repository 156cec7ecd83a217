"""Logs of lm-evaluation-harness in every layout, made here.

Choices from scores and logged correctness, and options from targets.

Scores that no model can have given, in tables of three formats and in logs: refused, or missing and counted.
"""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import write_jsonl, write_table
from tool_logs import DATE, choice_row, open_row, results, write_json, write_samples

from forgetwatch import Snapshot, compare, load_snapshot, save_snapshot
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.readers.option_scores import choose_target, reconcile, target_options
from forgetwatch.snapshot import NONE, NOT_FINITE

SCORES = [(-3.0, -1.5, -2.0), (-1.0, -4.0, -2.5), (-2.0, -3.0, -0.25), (-9.0, -1.0, -1.0)]
GOLDS = [1, 2, 2, 2]
ROWS = [
    choice_row(n, scores, gold) for n, (scores, gold) in enumerate(zip(SCORES, GOLDS, strict=True))
]


def columns(read: Snapshot, *names: str) -> list[Any]:
    return [read.table[name].to_pylist() for name in names]


def test_a_file_of_multiple_choice_gives_every_column(tmp_path: Path) -> None:
    read = load_snapshot(write_samples(tmp_path, "arc_easy", ROWS))
    assert read.texts("item_id").tolist() == ["0", "1", "2", "3"]
    assert read.texts("task").tolist() == ["arc_easy"] * 4
    assert read.texts("category").tolist() == ["Logic"] * 4  # the paper's table
    assert columns(read, "k", "gold", "chosen") == [[3] * 4, GOLDS, [1, 0, 2, 1]]
    assert read.table["correct"].to_pylist() == [True, False, True, False]
    assert read.texts("source_prompt_hash").tolist() == ["p0", "p1", "p2", "p3"]
    assert read.table["choice_logprobs"].to_pylist() == [list(scores) for scores in SCORES]
    assert (
        read.table["choice_chars"].to_pylist()
        == read.table["choice_bytes"].to_pylist()
        == [[8, 8, 8]] * 4
    )
    assert read.floats("margin").tolist() == [0.5, 1.5, 1.75, 0.0]
    weights = np.exp(np.array(SCORES))
    shares = weights[np.arange(4), GOLDS] / weights.sum(axis=1)
    assert read.floats("gold_share") == pytest.approx(shares)
    assert read.table["unstable"].to_pylist() == [None, None, None, True]
    assert any("equal scores in 1 of 4 items" in note for note in read.notes)
    assert read.meta["tool"] == "lm-evaluation-harness"
    assert read.missing("output")


def test_results_with_samples_an_array_and_a_file_give_the_same_questions_and_counts(
    tmp_path: Path,
) -> None:
    raw = [
        choice_row(n, scores, gold, as_file=False)
        for n, (scores, gold) in enumerate(zip(SCORES, GOLDS, strict=True))
    ]
    paths = [
        write_samples(tmp_path, "arc_easy", ROWS),
        write_json(tmp_path / "all.json", results({"arc_easy": raw})),
        write_json(tmp_path / f"samples_arc_easy_{DATE}.json", raw),
    ]
    file, *others = (load_snapshot(path) for path in paths)
    for other in others:
        for name in (
            "content_hash",
            "task",
            "k",
            "gold",
            "chosen",
            "correct",
            "choice_logprobs",
            "margin",
        ):
            assert other.table[name] == file.table[name]
        whole = compare(before=file, after=other).all
        assert (whole.n, whole.forgotten, whole.gained) == (4, 0, 0)


def test_results_describe_the_run(tmp_path: Path) -> None:
    made = results({"arc_easy": ROWS, "boolq": ROWS})
    read = load_snapshot(write_json(tmp_path / "all.json", made))
    assert read.meta["model"] == "org/tuned"
    assert read.label == "tuned"
    assert read.meta["revision"] == "c0ffee"
    assert read.meta["seeds"] == {"fewshot_seed": 1234}
    assert read.meta["task_versions"] == {"arc_easy": 2.0, "boolq": 2.0}
    assert read.meta["num_fewshot"] == {"arc_easy": 3, "boolq": 3}
    assert read.meta["harness_version"] == "0.4.12"
    samples = write_samples(tmp_path / "org__other", "arc_easy", ROWS[:3])
    assert load_snapshot(samples).meta["model"] == "org/other"
    del made["samples"]
    write_json(samples.parent / f"results_{DATE}.json", made)
    read = load_snapshot(samples)
    assert (read.meta["model"], read.meta["num_fewshot"]) == ("org/tuned", {"arc_easy": 3})
    assert "arc_easy: the log holds 3 of the 4 items that the run's results count" in read.notes
    (samples.parent / f"results_{DATE}.json").write_text("{")
    assert any(
        "cannot be read, so nothing is known of the run" in note
        for note in load_snapshot(samples).notes
    )


def test_totals_without_samples_are_refused_with_the_remedy(tmp_path: Path) -> None:
    made = results({"arc_easy": ROWS})
    del made["samples"]
    with pytest.raises(SnapshotError, match="--log_samples"):
        load_snapshot(write_json(tmp_path / "results.json", made))


def test_rows_of_several_filters_are_one_answer(tmp_path: Path) -> None:
    def rows(right: list[int], name: str) -> list[dict[str, Any]]:
        return [
            open_row(n, f" A{n}", {"exact_match": value}, filtered=name)
            for n, value in enumerate(right)
        ]

    strict, flexible = rows([1, 0, 0], "strict-match"), rows([1, 1, 0], "flexible-extract")
    one = write_samples(tmp_path / "a", "gsm8k", [*strict, *flexible])
    mixed = write_samples(
        tmp_path / "b",
        "gsm8k",
        [row for pair in zip(flexible, strict, strict=True) for row in pair],
    )
    for path in (one, mixed):
        read = load_snapshot(path, metric="exact_match,flexible-extract")
        assert read.floats("correct").tolist() == [1, 1, 0]
        assert read.texts("output").tolist() == [" A0", " A1", " A2"]
        assert load_snapshot(path, metric="exact_match,strict-match").floats(
            "correct"
        ).tolist() == [1, 0, 0]
    read = load_snapshot(one)
    assert read.meta["metric"] == "exact_match,strict-match"
    assert "also there: exact_match,flexible-extract (--metric)" in read.notes[0]
    assert load_snapshot(one, metric="exact_match").meta["metric"] == "exact_match,strict-match"
    with pytest.raises(
        SnapshotError,
        match=r"no metric 'acc' in this log; .* exact_match,strict-match, exact_match,f",
    ):
        load_snapshot(one, metric="acc")


def test_an_answer_that_stands_twice_is_one_item_in_every_filter(tmp_path: Path) -> None:
    rows = [
        open_row(n, "x", {"exact_match": n % 2}, filtered=name) for name in "ab" for n in (7, 8, 7)
    ]
    read = load_snapshot(write_samples(tmp_path, "t", rows), metric="exact_match,b")
    assert read.texts("item_id").tolist() == ["7", "8"]
    assert read.floats("correct").tolist() == [1, 0]
    assert "answers that stand in the log twice and count once: 1" in read.notes
    rows[2] = {**rows[2], "exact_match": 0}
    with pytest.raises(SnapshotError, match="item '7' has two answers, in rows 1 and 3 of the log"):
        load_snapshot(write_samples(tmp_path, "u", rows), metric="exact_match,b")


def test_rows_that_repeat_responses_without_a_filters_name_are_scored_by_another_filter(
    tmp_path: Path,
) -> None:
    rows = [
        open_row(n, f" A{n}", {"exact_match": int(n < right)}) for right in (1, 3) for n in range(4)
    ]
    rows = [
        {name: value for name, value in row.items() if name not in ("filter", "metrics")}
        for row in rows
    ]
    path = write_samples(tmp_path, "t", rows)
    assert load_snapshot(path).floats("correct").tolist() == [1, 0, 0, 0]
    assert load_snapshot(path, metric="exact_match,filter 2").floats("correct").tolist() == [
        1,
        1,
        1,
        0,
    ]


def test_category_of_a_document_is_read_where_the_paper_has_none(tmp_path: Path) -> None:
    named = (
        {"category": "law"},
        {"subject": "physics", "category": ""},
        {"subject": "history " * 20},
        {},
    )
    rows = [{**row, "doc": {**row["doc"], **more}} for row, more in zip(ROWS, named, strict=True)]
    read = load_snapshot(write_samples(tmp_path, "mine", rows))
    assert read.texts("category").tolist() == ["law", "physics", "", ""]
    assert set(load_snapshot(write_samples(tmp_path, "arc_easy", rows)).texts("category")) == {
        "Logic"
    }


def test_questions_pair_in_any_order_and_with_any_id(tmp_path: Path) -> None:
    rng = random.Random(1)
    after = [
        {**row, "doc_id": 90 - n, "doc": dict(reversed(row["doc"].items()))}
        for n, row in enumerate(ROWS)
    ]
    after[0] = {**after[0], "acc": 0.0, "prompt_hash": "chat"}
    rng.shuffle(after)
    found = compare(
        before=write_samples(tmp_path, "t", ROWS), after=write_samples(tmp_path / "b", "t", after)
    )
    assert (found.all.n, found.all.forgotten, found.all.gained) == (4, 1, 0)
    assert "prompts that differ by their own tool's hash: 1" in found.notes


def test_options_in_another_order_are_another_question(tmp_path: Path) -> None:
    other = choice_row(0, SCORES[0], 0, choices=["option B", "option A", "option C"])
    paths = (
        write_samples(tmp_path, "t", ROWS),
        write_samples(tmp_path / "b", "t", [other, *ROWS[1:]]),
    )
    with pytest.raises(MismatchError, match="1 items before and 1 after have no partner"):
        compare(before=paths[0], after=paths[1])


def test_older_rows_without_filter_metrics_and_hashes_are_read(tmp_path: Path) -> None:
    older = [
        {
            name: value
            for name, value in row.items()
            if name not in ("filter", "metrics") and "hash" not in name
        }
        for row in ROWS
    ]
    read, newer = (
        load_snapshot(write_samples(tmp_path / str(n), "t", rows))
        for n, rows in enumerate((older, ROWS))
    )
    for name in ("content_hash", "correct", "chosen", "gold"):
        assert read.table[name] == newer.table[name]
    assert read.missing("source_prompt_hash")


@pytest.mark.parametrize(
    ("metric", "chosen", "norm"),
    [("acc", 0, "sum"), ("acc_norm", 1, "chars"), ("acc_bytes", 2, "bytes")],
)
def test_each_metric_has_its_own_choice(
    tmp_path: Path, metric: str, chosen: int, norm: str
) -> None:
    choices = ["a", "abcdefgh", "ééééééé"]  # 1, 8 and 7 characters; 1, 8 and 14 bytes
    scores = [-1.0, -2.0, -3.0]
    metrics = {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 0.0}
    path = write_samples(
        tmp_path, "t", [choice_row(0, scores, 0, choices=choices, metrics=metrics)]
    )
    read = load_snapshot(path, metric=metric)
    assert read.ints("chosen").tolist() == [chosen]
    assert read.floats("correct").tolist() == [metrics[metric]]
    assert read.meta["probe"] == {"norm": norm}
    units = {"sum": [1, 1, 1], "chars": [1, 8, 7], "bytes": [1, 8, 14]}[norm]
    nats = np.array(scores) / units * np.mean(units)
    best, second = np.sort(nats)[::-1][:2]
    assert read.floats("margin")[0] == pytest.approx(best - second)
    assert read.floats("gold_share")[0] == pytest.approx(np.exp(nats[0]) / np.exp(nats).sum())


def test_acc_mutual_info_halves_the_options(tmp_path: Path) -> None:
    row = choice_row(
        0, [-1.0, -2.0, -1.0, -5.0], 1, choices=["x", "y", "x", "y"], metrics={"acc": 0.0}
    )
    row |= {"acc_mutual_info": 1.0, "metrics": ["acc", "acc_mutual_info"]}
    path = write_samples(tmp_path, "t", [row])
    read = load_snapshot(path, metric="acc_mutual_info")
    assert columns(read, "k", "chosen", "gold") == [[2], [1], [1]]
    assert columns(read, "choice_logprobs", "choice_priors") == [[[-1.0, -2.0]], [[-1.0, -5.0]]]
    assert read.floats("margin").tolist() == [3.0]
    assert load_snapshot(path, metric="acc").ints("chosen").tolist() == [0]


def test_gold_follows_from_right_and_wrong_if_the_context_varies(tmp_path: Path) -> None:
    rows = []
    for n, (scores, right) in enumerate([((-2.0, -1.0), 1.0), ((-2.0, -1.0), 0.0)]):
        requests = {
            f"gen_args_{o}": {"arg_0": f"{n} and then {o}", "arg_1": " it rained."}
            for o in range(2)
        }
        rows.append(
            choice_row(
                n, scores, 0, metrics={"acc": right}, arguments=requests, target="it rained."
            )
        )
    read = load_snapshot(write_samples(tmp_path, "winogrande", rows))
    assert columns(read, "k", "chosen", "gold") == [[2, 2], [1, 1], [1, 0]]
    assert read.missing("choice_chars")


def test_the_logged_correctness_is_kept_and_contradictions_are_counted(tmp_path: Path) -> None:
    rows = [choice_row(n, (-1.0, -2.0, -3.0), n % 3) for n in range(300)]
    rows[3] = {**rows[3], "acc": 0.0}  # gold is 0, the best is 0
    rows[4] = {**rows[4], "acc": 1.0}  # gold is 1, the best is 0
    read = load_snapshot(write_samples(tmp_path, "t", rows))
    assert read.floats("correct")[3:5].tolist() == [0, 1]
    assert read.ints("chosen")[:5].tolist() == [0, 0, 0, 1, 1]
    assert np.isnan(read.floats("margin")).nonzero()[0].tolist() == [3, 4]
    assert any("contradict right or wrong in 2 items" in note for note in read.notes)


def test_a_metric_that_contradicts_the_scores_leaves_no_choice(tmp_path: Path) -> None:
    rows = [choice_row(n, (-1.0, -2.0), n % 2, metrics={"exact_match": 0}) for n in range(10)]
    read = load_snapshot(write_samples(tmp_path, "t", rows))
    assert read.missing("chosen")
    assert read.missing("margin")
    assert read.ints("gold").tolist() == [0, 1] * 5
    assert any("does not follow from the log-likelihoods: 10 items" in note for note in read.notes)


def test_repeats_are_samples_if_each_has_a_metric_value(tmp_path: Path) -> None:
    each = [open_row(n, "", {"exact_match": [1, 0, n]}, resps=[["a", "b", "c"]]) for n in range(2)]
    read = load_snapshot(write_samples(tmp_path / "a", "t", each))
    assert columns(read, "item_id", "sample") == [["0"] * 3 + ["1"] * 3, [0, 1, 2] * 2]
    assert read.floats("correct").tolist() == [1, 0, 0, 1, 0, 1]
    assert read.texts("output").tolist() == ["a", "b", "c"] * 2
    together = [open_row(n, "", {"exact_match": n}, resps=[["a", "b", "c"]]) for n in range(2)]
    read = load_snapshot(write_samples(tmp_path / "b", "t", together))
    assert columns(read, "item_id", "sample", "output") == [["0", "1"], [0, 0], ["a", "a"]]
    mixed = [
        *together,
        *(open_row(0, "", {"all": [1, 1, 0]}, resps=[["a", "b", "c"]], filtered="f"),),
    ]
    with pytest.raises(
        SnapshotError, match="line 3: 3 repeats have a metric, and 1 under another filter"
    ):
        load_snapshot(write_samples(tmp_path / "c", "t", mixed))


def test_an_answer_without_a_metric_value_is_unscored(tmp_path: Path) -> None:
    rows = [
        open_row(n, "x", {"exact_match": value})
        for n, value in enumerate([1, None, float("nan"), 0])
    ]
    read = load_snapshot(write_samples(tmp_path, "t", rows))
    assert read.table["correct"].to_pylist() == [True, None, None, False]
    assert read.texts("outcome").tolist() == [
        "ok",
        *["unscored: no exact_match in the log"] * 2,
        "ok",
    ]


def test_one_logged_likelihood_is_no_choice(tmp_path: Path) -> None:
    rows = [choice_row(0, [-1.0], 0, metrics={"acc": 1})]
    assert load_snapshot(write_samples(tmp_path, "lambada", rows)).missing("k")
    only = write_json(
        tmp_path / "o.json", results({"t": rows}, config={"output_type": "multiple_choice"})
    )
    assert load_snapshot(only).ints("k").tolist() == [1]


@pytest.mark.parametrize(
    "value",
    [1.5, [1, 1], ["a", "b"], "[0.1 0.9]", {"gold": 1}, 1e400, 10**400, -1, "D", [[[[[[[[1]]]]]]]]],
)
def test_a_metric_that_is_no_correctness_is_refused_with_its_value(
    tmp_path: Path, value: Any
) -> None:
    rows = [open_row(0, "x", {"score": 1}), open_row(1, "x", {"score": value})]
    path = write_samples(tmp_path, "t", rows)
    with pytest.raises(
        SnapshotError, match=r"no metric in this log is right or wrong .* score \(row 2: "
    ):
        load_snapshot(path)
    with pytest.raises(
        SnapshotError, match=r"score \(row 2: .*\) is not right or wrong for each item"
    ):
        load_snapshot(path, metric="score")


def test_different_metrics_are_not_compared(tmp_path: Path) -> None:
    with_norm = [{**row, "acc_norm": 1.0, "metrics": ["acc", "acc_norm"]} for row in ROWS]
    before, after = (
        write_samples(tmp_path, "t", with_norm),
        write_samples(tmp_path / "b", "t", ROWS),
    )
    with pytest.raises(
        MismatchError, match=r"graded by acc_norm and .* by acc; name a metric that both have"
    ):
        compare(before=load_snapshot(before, metric="acc_norm"), after=after)
    with pytest.raises(SnapshotError, match="no metric 'acc_norm'"):
        compare(before=before, after=after, metric="acc_norm")


def test_the_latest_run_of_each_task_in_a_folder_counts(tmp_path: Path) -> None:
    home = tmp_path / "out" / "org__model"
    wrong = [{**row, "acc": 0.0} for row in ROWS]
    write_samples(home, "arc_easy", ROWS, date="2026-03-01T00-00-00.1")
    write_samples(home, "arc_easy", wrong, date="2025-12-31T23-59-59.9")
    write_samples(
        home, "gsm_8k", [open_row(0, "x", {"exact_match": 1})], date="2024-01-01T00-00-00"
    )
    (home / "samples_notes.txt").write_text("nothing of the harness")
    for folder in (home, tmp_path / "out"):
        read = load_snapshot(folder)
        assert read.texts("task").tolist() == ["arc_easy"] * 4 + ["gsm_8k"]
        assert read.floats("correct").tolist() == [1, 0, 1, 0, 1]
        assert read.meta["metrics"] == {"arc_easy": "acc", "gsm_8k": "exact_match"}
        assert "right or wrong is exact_match where there is no acc: gsm_8k" in read.notes
    write_samples(tmp_path / "out" / "org__tuned", "arc_easy", ROWS)
    with pytest.raises(
        SnapshotError, match="got 2 folders with samples: org__model, org__tuned; give one of them"
    ):
        load_snapshot(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resps": 3}, "line 2: resps must be a list, got int"),
        ({"metrics": "acc"}, "line 2: metrics must be a list of names"),
        ({"filter": ["none"]}, "line 2: the filter must be text, got list"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        load_snapshot(write_samples(tmp_path, "t", [ROWS[0], {**ROWS[1], **change}]))


def test_a_cut_file_and_a_row_without_its_question_are_named(tmp_path: Path) -> None:
    path = write_samples(tmp_path, "t", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SnapshotError, match=r"line 4: .*is the file cut"):
        load_snapshot(path)
    with pytest.raises(SnapshotError, match="line 2: a row of lm-evaluation-harness needs 'doc'"):
        load_snapshot(write_samples(tmp_path, "t", [ROWS[0], {"doc_id": 1, "target": 0}]))
    whole = json.dumps(results({"t": ROWS}))
    (tmp_path / "cut.json").write_text(whole[:-2])
    with pytest.raises(
        SnapshotError,
        match=r"cut.json: needed JSON: Unterminated string .* .near byte .*is the file cut",
    ):
        load_snapshot(tmp_path / "cut.json")


def test_a_saved_snapshot_holds_one_metric(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    read = load_snapshot(write_samples(tmp_path, "t", ROWS))
    save_snapshot(read, path)
    for metric in (None, "acc", "acc,none"):
        assert load_snapshot(path, metric=metric).table == read.table
    with pytest.raises(
        SnapshotError, match="no metric 'acc_norm' to choose; the snapshot has only acc"
    ):
        load_snapshot(path, metric="acc_norm")
    # A file that forgetwatch scored has no metric, and a choice among them is not silently ignored.
    save_snapshot(
        replace(read, meta={"scorer": "forgetwatch-ll@1", "probe": {"norm": "sum"}}), path
    )
    with pytest.raises(
        SnapshotError, match=r"no metric 'acc' to choose; forgetwatch scored it.*leave out the m"
    ):
        load_snapshot(path, metric="acc")
    table = tmp_path / "a.csv"
    table.write_text("item_id,correct\na,1\n")
    assert load_snapshot(table, metric="acc").floats("correct").tolist() == [1]


def test_renamed_files_of_one_task_pair(tmp_path: Path) -> None:
    before, after = (
        write_samples(tmp_path, "t", ROWS).rename(tmp_path / f"{name}.log")
        for name in ("before", "after")
    )
    assert compare(before=before, after=after).all.n == 4


def test_settings_of_the_harness_that_differ_are_noted(tmp_path: Path) -> None:
    before, after = results({"t": ROWS, "u": ROWS}), results({"t": ROWS, "u": ROWS})
    after |= {
        "n-shot": {"t": 3, "u": 0},
        "versions": {"t": 1.0, "u": 2.0},
        "chat_template_sha": "abc",
    }
    found = compare(
        before=write_json(tmp_path / "b.json", before), after=write_json(tmp_path / "a.json", after)
    )
    assert "examples in the prompt differ: u 3 and 0" in found.notes
    assert "versions of the task differ: t 2.0 and 1.0" in found.notes
    assert "a chat template was used after only" in found.notes
    assert len(found.notes) == 5  # and the ties of both
    same = compare(before=tmp_path / "b.json", after=tmp_path / "b.json").notes
    assert all("equal scores" in note for note in same[1:])
    assert same[0] == "both sides are one file, so that nothing can differ"


def test_different_filters_are_not_compared(tmp_path: Path) -> None:
    paths = [
        write_samples(tmp_path / name, "t", [open_row(0, "x", {"exact_match": 1}, filtered=name)])
        for name in ("strict", "flexible", "none")
    ]
    with pytest.raises(
        MismatchError, match=r"graded by exact_match,strict and .* by exact_match,flexible; name a"
    ):
        compare(before=paths[0], after=paths[1])
    assert compare(before=paths[0], after=paths[2]).all.retained == 1  # older logs name no filter


def test_progress_ends_at_the_last_byte(tmp_path: Path) -> None:
    long = [open_row(n, "word " * 2000, {"exact_match": 1}) for n in range(300)]
    home = write_samples(tmp_path / "m", "t", long).parent
    size = write_samples(home, "u", long).stat().st_size * 2
    seen: list[tuple[int, int]] = []
    load_snapshot(home, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    seen.clear()
    path = write_json(tmp_path / "all.json", results({"t": long}))
    load_snapshot(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert len(seen) > 2


def test_gold_is_null_if_the_log_does_not_determine_it(tmp_path: Path) -> None:
    rows = [
        choice_row(0, SCORES[1], 9, metrics={"acc": 0.0}),
        choice_row(1, SCORES[0], 9, metrics={"acc": 1.0}),
    ]
    read = load_snapshot(write_samples(tmp_path, "t", rows))
    assert read.ints("gold").tolist() == [NONE, 1]
    assert read.ints("chosen").tolist() == [0, 1]


CASES = [  # scores, right, golds, chosen, completed golds
    ([-2, -1, -3], 1, [], 1, [1]),  # a right answer names gold
    ([-2, -1], 0, [], 1, [0]),  # so does a wrong one of two
    ([-2, -1, -3], 0, [], 1, []),  # and of three it does not
    ([-2, -1, -3], 0, [0], 1, [0]),
    ([-1, -1, -3], 1, [0], 0, [0]),  # the first of equals
    ([-2, -1, -3], 0, [1], 0, [1]),  # contradicts: the best that is not right
    ([-2, -1, -3], 1, [2], 2, [2]),  # contradicts: the right one
    ([-2, -1, -3], 0, [0, 1, 2], NONE, [0, 1, 2]),  # no option can be wrong
    ([-2, -1, -3], -1, [2], 1, [2]),  # no correctness
    ([np.nan, -1, -3], 1, [], NONE, []),  # no scores
    ([-3, -1, -2], 1, [0, 1], 1, [0, 1]),  # several right
    ([-np.inf, -np.inf], 1, [0], 0, [0]),
]


@pytest.mark.parametrize(("scores", "right", "golds", "chosen", "completed"), CASES)
def test_choices_agree_with_what_was_logged(
    scores: list[float], right: int, golds: list[int], chosen: int, completed: list[int]
) -> None:
    named = np.zeros(len(scores), bool)
    named[golds] = True
    found = reconcile(
        np.array(scores, float), np.array([len(scores)]), named, np.array([right], np.int8)
    )
    assert found.chosen.tolist() == [chosen]
    assert np.flatnonzero(found.golds).tolist() == completed
    assert found.first_gold.tolist() == [min(completed, default=NONE)]
    assert named.nonzero()[0].tolist() == golds  # what came in is left alone


@given(st.data())
@settings(max_examples=80, derandomize=True)
def test_a_choice_is_right_exactly_where_it_was_logged_as_right(data: st.DataObject) -> None:
    k, rows = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scores = rng.integers(-4, 0, (rows, k)).astype(float)
    golds = rng.random((rows, k)) < 0.3
    right = rng.integers(0, 2, rows).astype(np.int8)
    found = reconcile(scores.ravel(), np.full(rows, k), golds.ravel(), right)
    completed = found.golds.reshape(rows, k)
    settled = (found.chosen != NONE) & completed.any(axis=1)
    assert np.array_equal(completed[np.arange(rows), found.chosen][settled], right[settled] == 1)
    clear = settled & ~found.against
    assert np.array_equal(found.chosen[clear], np.argmax(scores, axis=1)[clear])
    assert np.array_equal(found.tied, np.isclose(np.diff(np.sort(scores, axis=1))[:, -1], 0))
    assert np.isnan(found.margin[found.against]).all()
    assert ((found.share[clear] >= 0) & (found.share[clear] <= 1)).all()


def test_digits_are_read_in_the_way_that_fits_the_outcomes() -> None:
    index, text = np.array([0, 1, 2]), np.array([1, 2, NONE])
    best = np.array([1, 2, 2])
    assert choose_target(index, text, best, np.array([1, 1, 1], np.int8)).tolist() == [1, 2, 2]
    assert choose_target(index, text, best, np.array([0, 0, 1], np.int8)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("target", "k", "texts", "found"),
    [
        (2, 3, None, ([2], NONE)),
        (-100, 3, None, ([], NONE)),
        (True, 3, None, ([], NONE)),
        ("2", 3, ["2", "3", "4"], ([2], 0)),
        ("10", 3, ["10", "3", "4"], ([], 0)),
        (" Paris ", 2, ["Rome", "Paris"], ([], 1)),
        ("C", 3, ["Rome", "Paris", "Oslo"], ([], 2)),
        ("A", 2, ["B", "A"], ([], 1)),
        ("same", 2, ["same", "same"], ([], NONE)),
        ("[0, 2]", 3, None, ([0, 2], NONE)),
        ([2, 0, 7], 3, None, ([0, 2], NONE)),
        (["a"], 3, None, ([], NONE)),
        ("²", 3, None, ([], NONE)),
        ("9" * 400, 3, None, ([], NONE)),
        (None, 3, None, ([], NONE)),
        (1.0, 3, None, ([], NONE)),
    ],
)
def test_a_target_names_options_by_index_letter_or_text(
    target: object, k: int, texts: list[str] | None, found: tuple[list[int], int]
) -> None:
    assert target_options(target, k, texts) == found


FORMATS = pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
GOOD: dict[str, Any] = {
    "k": 3, "gold": 0, "chosen": 0, "correct": True,
    "choice_logprobs": [-1.0, -2.0, -3.0], "gold_share": 0.7, "margin": 1.0,
}  # fmt: skip


def table(folder: Path, suffix: str, **of_second: Any) -> Snapshot:
    """Three items; the second has other values."""
    rows = [{"item_id": name, **GOOD, **(of_second if name == "b" else {})} for name in "abc"]
    return load_snapshot(write_table(folder / f"t{suffix}", rows))


@FORMATS
@pytest.mark.parametrize("logprobs", [[-1.0, math.nan, -3.0], [-math.inf] * 3])
def test_an_answer_whose_scores_are_not_finite_is_wrong_and_counted(
    tmp_path: Path, suffix: str, logprobs: list[float]
) -> None:
    found = table(tmp_path, suffix, choice_logprobs=logprobs)
    assert found.table["choice_logprobs"].to_pylist() == [[-1, -2, -3], None, [-1, -2, -3]]
    assert found.notes == (
        "answers whose log-likelihoods are not finite, and that count as wrong: 1 of 3",
    )
    columns = {
        name: found.table[name][1].as_py()
        for name in ("outcome", "correct", "chosen", "gold_share", "margin")
    }
    assert columns == {
        "outcome": NOT_FINITE,
        "correct": False,
        "chosen": None,
        "gold_share": 0.0,
        "margin": None,
    }
    assert found.table["correct"].to_pylist() == [True, False, True]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_an_option_without_a_number_makes_the_items_scores_missing(
    tmp_path: Path, suffix: str
) -> None:
    found = table(tmp_path, suffix, choice_logprobs=[-1.0, None, -3.0])
    assert found.table["choice_logprobs"][1].as_py() is None
    assert (found.is_not_finite.any(), found.table["correct"].to_pylist()) == (False, [True] * 3)


@pytest.mark.parametrize("broken", [10, 200])
def test_known_answers_that_are_not_finite_after_are_lost(tmp_path: Path, broken: int) -> None:
    """200 right answers, of which 100 were clearly known, and 20 wrong; the first ones have NaN after."""
    scores = [
        [-1.0, -9.0, -9.0, -9.0] if row % 2 else [-2.0, -2.1, -2.2, -2.3] for row in range(200)
    ]
    rows = [
        {"item_id": str(n), **GOOD, "k": 4, "choice_logprobs": values}
        for n, values in enumerate(scores)
    ]
    rows = [
        {name: value for name, value in row.items() if name not in ("gold_share", "margin")}
        for row in rows
    ]
    wrong = {"gold": 1, "correct": False, "choice_logprobs": [-1.0, -9.0, -9.0, -9.0]}
    rows += [{**rows[0], "item_id": f"w{n}", **wrong} for n in range(20)]
    after = [{**row, "choice_logprobs": [math.nan] * 4} for row in rows[:broken]] + rows[broken:]
    found = compare(
        before=write_table(tmp_path / "a.parquet", rows),
        after=write_table(tmp_path / "b.parquet", after),
    )
    values = [found.all[name] for name in ("known", "known_lost", "known_lost_net")]
    assert values == [100, broken / 2, broken / 2]


@FORMATS
def test_minus_infinity_for_one_option_is_a_score(tmp_path: Path, suffix: str) -> None:
    found = table(tmp_path, suffix, choice_logprobs=[-1.0, -math.inf, -3.0])
    assert found.table["choice_logprobs"][1].as_py() == [-1.0, -math.inf, -3.0]
    assert found.notes == ()


@FORMATS
@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"choice_logprobs": [-1.0, math.inf, -3.0]},
            "choice_logprobs has plus infinity.*leave the item's list empty",
        ),
        (
            {"choice_logprobs": [-1.0, -2.0]},
            "one value of choice_logprobs for each of the 3 options, got 2; correct k",
        ),
        ({"gold_share": 70.0}, "needed gold_share from 0 to 1, got 70; divide percentages by 100"),
        ({"gold_share": -0.2}, "needed gold_share from 0 to 1, got -0.2$"),
        ({"gold_share": math.inf}, "needed gold_share from 0 to 1, got inf$"),
    ],
)
def test_an_impossible_score_is_refused_by_row(
    tmp_path: Path, suffix: str, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(SnapshotError, match=rf"t{suffix}: row 2 \(item 'b'\): .*{says}"):
        table(tmp_path, suffix, **values)


@FORMATS
def test_rounded_and_missing_shares_are_read(tmp_path: Path, suffix: str) -> None:
    assert table(tmp_path, suffix, gold_share=1.0000001).table["gold_share"][1].as_py() == 1.0
    assert table(tmp_path, suffix, gold_share=math.nan).table["gold_share"].null_count == 1


@FORMATS
def test_an_infinite_margin_is_missing_and_counted(tmp_path: Path, suffix: str) -> None:
    found = table(tmp_path, suffix, margin=math.inf)
    assert found.table["margin"].to_pylist() == [1.0, None, 1.0]
    assert found.notes == ("margin of 1 of 3 rows is infinite, and counts as missing",)


def test_a_log_counts_items_without_usable_scores(tmp_path: Path) -> None:
    logged = ([-1.0, -2.0], [math.nan, -2.0], [-math.inf, -math.inf])
    rows = [choice_row(number, scores, 0) for number, scores in enumerate(logged)]
    found = load_snapshot(write_samples(tmp_path, "t", rows))
    assert found.table["choice_logprobs"].to_pylist() == [[-1.0, -2.0], None, None]
    assert (
        "answers whose log-likelihoods are not finite, and that count as wrong: 2 of 3"
        in found.notes
    )
    assert found.is_not_finite.tolist() == [False, True, True]


def test_a_log_with_plus_infinity_is_refused_by_line(tmp_path: Path) -> None:
    path = write_samples(
        tmp_path, "t", [choice_row(0, [-1.0, -2.0], 0), choice_row(1, [math.inf, -2.0], 0)]
    )
    with pytest.raises(SnapshotError, match=r"line 2: needed a log-likelihood, got .inf.;"):
        load_snapshot(path)


def test_one_question_with_unlike_numbers_of_options_is_refused_by_name(tmp_path: Path) -> None:
    def side(name: str, k: int) -> Path:
        rows = [{"item_id": "a", "k": 4}, {"item_id": "b", "k": k}]
        return write_jsonl(
            tmp_path / name,
            [{"task": "t", "content_hash": row["item_id"], "correct": 1, **row} for row in rows],
        )

    says = (
        r"item 'b' of task 't' has 4 options in before and 5 in after, with equal content hashes \(1 such items\); "
        "needed the same options on both sides"
    )
    with pytest.raises(MismatchError, match=says):
        compare(before=side("before.jsonl", 4), after=side("after.jsonl", 5))
    assert compare(before=side("before.jsonl", 4), after=side("after.jsonl", 4)).all.n == 2


def test_without_hashes_an_item_with_another_number_of_options_is_another_question(
    tmp_path: Path,
) -> None:
    def side(name: str, k: int) -> Path:
        return write_jsonl(
            tmp_path / name, [{"item_id": i, "correct": 1, "k": 4 if i == "a" else k} for i in "ab"]
        )

    with pytest.raises(MismatchError, match="1 ids have unlike questions"):
        compare(before=side("before.jsonl", 4), after=side("after.jsonl", 5))


def test_a_file_compared_with_itself_is_noted(tmp_path: Path) -> None:
    table(tmp_path, ".jsonl")
    path, copy = tmp_path / "t.jsonl", tmp_path / "u.jsonl"
    copy.write_bytes(path.read_bytes())
    assert (
        compare(before=path, after=path).notes[0]
        == "both sides are one file, so that nothing can differ"
    )
    assert compare(before=path, after=copy).notes[0].startswith("both sides have the same outcomes")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_jsonl(copy, [{**row, "margin": 2.0} for row in rows])
    assert not any("both sides" in note for note in compare(before=path, after=copy).notes)

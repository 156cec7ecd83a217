"""Settings of two snapshots that must not differ, and those that are only noted.

One rule for the items that a run evaluates, whoever cuts snapshots to them.

The target metric: from what a trainer logged, or from a table; every model has one value or there is an error.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import decided, probe, snapshot

from forgetwatch import Item, Probe, Snapshot, Trajectory, compare, save_snapshot
from forgetwatch.comparing.checks import check_settings, repeated_prompts, setting_differences
from forgetwatch.comparing.ranking import read_target
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.sentences import summary
from forgetwatch.run_folder.task_figure import TRAINER_STATE


def graded(metric: str, *, task: str = "t", **by_task: str) -> Snapshot:
    """Log of one task whose answers were graded by a metric; others by task."""
    return snapshot([True], task=[task], meta={"metric": metric, "metrics": by_task})


@pytest.mark.parametrize(
    ("before", "after"),
    [("acc", "acc,none"), ("acc,none", "acc"), ("acc,none", "acc,none"), ("acc", "acc")],
)
def test_a_filter_may_be_left_out(before: str, after: str) -> None:
    check_settings(graded(before), graded(after), allow_prompt_mismatch=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [("acc", "acc_norm"), ("exact_match,strict", "exact_match,flexible"), ("acc,none", "em,none")],
)
def test_a_task_graded_by_unlike_metrics_or_filters_is_refused(before: str, after: str) -> None:
    with pytest.raises(
        MismatchError, match=f"task 't': .* is graded by {before} and .* by {after}; name a metric"
    ):
        check_settings(graded(before), graded(after), allow_prompt_mismatch=False)


def test_autocast_that_differs_is_noted_where_both_sides_name_it() -> None:
    metadata = {}, {"autocast": None}, {"autocast": "bfloat16"}
    early, without, within = (snapshot([True], meta=meta) for meta in metadata)
    note = "autocast differs, and rounding with it: none before, bfloat16 after"
    assert setting_differences(without, within) == (note,)
    assert within.meta != without.meta
    for before, after in ((without, without), (within, within), (early, within), (within, early)):
        assert setting_differences(before, after) == ()


def test_metrics_of_tasks_that_one_side_lacks_may_differ() -> None:
    check_settings(graded("acc"), graded("em", task="u"), allow_prompt_mismatch=False)
    check_settings(graded("acc"), graded("em", t="acc"), allow_prompt_mismatch=False)
    check_settings(
        graded("acc"), snapshot([True]), allow_prompt_mismatch=False
    )  # own snapshots name no metric


def log(**meta: Any) -> Snapshot:
    return snapshot([True], meta={"date": "2026-01-01", **meta})


@pytest.mark.parametrize(("tasks", "more"), [(3, ""), (4, " and 1 more")])
def test_of_many_tasks_with_another_setting_three_are_named(tasks: int, more: str) -> None:
    names = [f"t{i}" for i in range(tasks)]
    before, after = (log(task_versions=dict.fromkeys(names, version)) for version in (1, 2))
    expected = f"versions of the task differ: t0 1 and 2, t1 1 and 2, t2 1 and 2{more}"
    assert setting_differences(before, after) == (expected,)
    assert setting_differences(before, log(task_versions={"other": 2})) == ()
    before, after = (
        snapshot([True] * tasks, task=names, meta={"norms": dict.fromkeys(names, norm)})
        for norm in ("sum", "bytes")
    )
    expected = f"norms of the score that decides differ: t0 sum and bytes, t1 sum and bytes, t2 sum and bytes{more}"
    assert setting_differences(before, after) == (expected,)


@pytest.mark.parametrize(
    ("before", "after", "when"),
    [("a", "b", "with another text"), ("a", None, "before only"), (None, "b", "after only")],
)
def test_a_chat_template_of_one_side_is_noted_with_the_side(
    before: str | None, after: str | None, when: str
) -> None:
    sides = (log(chat_template_sha=before), log(chat_template_sha=after))
    assert setting_differences(*sides) == (f"a chat template was used {when}",)
    assert setting_differences(sides[0], sides[0]) == ()


@pytest.mark.parametrize(
    ("name", "values"), [("scoring", ("letters", "generate")), ("rendering", ("plain", "chat"))]
)
def test_a_permitted_prompt_is_no_permission_for_another_scoring(
    name: str, values: tuple[str, str]
) -> None:
    before, after = (snapshot([True], meta={"probe": {name: value}}) for value in values)
    with pytest.raises(MismatchError, match="score both with the same probe") as refused:
        check_settings(before, after, allow_prompt_mismatch=False)
    assert ("--allow-prompt-mismatch" in str(refused.value)) == (name == "rendering")
    if name == "rendering":
        check_settings(before, after, allow_prompt_mismatch=True)
        return
    with pytest.raises(MismatchError, match="was scored with scoring 'letters'"):
        check_settings(before, after, allow_prompt_mismatch=True)


def test_one_percent_of_the_items_is_not_one_percent_of_the_answers() -> None:
    """One item of sixty differs, 1.7 %; with two samples each these are sixty items of 120 answers."""
    ids = [str(i // 2) for i in range(120)]
    columns = {"item_id": ids, "content_hash": ids, "sample": [0, 1] * 60}
    before = snapshot([True] * 120, prompt_hash=["same"] * 120, **columns)
    after = snapshot([True] * 120, prompt_hash=["other"] * 2 + ["same"] * 118, **columns)
    with pytest.raises(MismatchError, match="the prompts of 1 of 60 items differ"):
        compare(before=before, after=after)
    assert compare(before=before, after=after, allow_prompt_mismatch=True).items.prompt_differs == 1


def test_unlike_questions_of_equal_prompts_are_named() -> None:
    ids = ["a", "b", "c", "d", "e", "e"]
    columns = {
        "item_id": ids,
        "sample": [0, 0, 0, 0, 0, 1],
        "content_hash": ["h1", "h2", "h3", "h3", "h4", "h4"],
        "prompt_hash": ["p1", "p1", "p2", "p2", "p3", "p3"],
    }
    # c and d are one question, e has two samples: only a and b differ in what the model never read.
    made = snapshot([True] * 6, **{**columns, "task": ["t", "t", "t", "u", "t", "t"]})
    assert repeated_prompts(made) == (
        "2 items have the token ids of another one, such as 'a' and 'b': the chat template or the "
        "tokenizer leaves out what they differ in, so the model cannot tell them apart; leave out "
        "these items, or mend the template"
    )
    twins = snapshot([True, False], content_hash=["h1", "h2"], prompt_hash=["p1", "p1"])
    assert [
        note
        for note in compare(before=twins, after=twins).notes
        if note == repeated_prompts(twins) != ""
    ]
    unscored = snapshot(
        [None, True],
        content_hash=["h1", "h2"],
        prompt_hash=["p1", "p1"],
        outcome=["unscored", "ok"],
    )
    assert repeated_prompts(unscored) == ""
    assert repeated_prompts(snapshot([True, False])) == ""


def test_equal_ids_with_another_key_are_named_as_such() -> None:
    plain = {"content_hash": [None, None], "k": [4, 4]}
    sides = [snapshot([True, False], gold=gold, **plain) for gold in ([0, 1], [1, 2])]
    says = "no item in common; 2 ids are on both sides, and all of them differ in gold"
    with pytest.raises(MismatchError, match=says):
        compare(before=sides[0], after=sides[1])
    hashed = [snapshot([True, False], content_hash=[f"{side}1", f"{side}2"]) for side in "ab"]
    with pytest.raises(MismatchError, match="all of them differ in content_hash"):
        compare(before=hashed[0], after=hashed[1])
    with pytest.raises(
        MismatchError, match="no item in common; they are outcomes on different probes"
    ):
        compare(
            before=hashed[0], after=replace(hashed[1], table=snapshot([True], item_id=["x"]).table)
        )


def test_categories_that_differ_are_noted_and_those_before_are_used() -> None:
    sides = [snapshot([True] * 3, category=names) for names in (["A", "B", ""], ["A", "C", "D"])]
    made = compare(before=sides[0], after=sides[1])
    assert (
        "items whose category differs: 1; that of snapshot, the side before, is used" in made.notes
    )
    assert list(made.by("category")) == ["A", "B", "D"]
    assert not [
        note
        for note in compare(before=sides[0], after=sides[0]).notes
        if "whose category differs" in note
    ]


def test_sides_that_were_decided_by_unlike_norms_are_refused_and_logs_of_other_tools_noted() -> (
    None
):
    scores, lengths = np.array([[-4.0, -3.0]] * 3), np.array([[2, 1]] * 3)
    by_sum, by_bytes = (decided(scores, norm=norm, lengths=lengths) for norm in ("sum", "bytes"))
    with pytest.raises(
        MismatchError, match=r"was decided by the norm 'sum' and .* by 'bytes'; score both with"
    ):
        compare(before=by_sum, after=by_bytes)
    with pytest.raises(MismatchError, match="by the norm"):
        compare(before=by_sum, after=by_sum, repeat=by_bytes)
    log = replace(by_bytes, meta={**by_bytes.meta, "tool": "lm-evaluation-harness"})
    assert "norms of the score that decides differ" in " ".join(
        compare(before=by_sum, after=log).notes
    )


LEFT_OUT = "unscored: its answer was not asked for"


def look(
    correct: list[bool | None],
    *,
    step: int = 0,
    of: int | None = None,
    fingerprint: str | None = "f",
) -> Snapshot:
    probe: dict[str, Any] = {"fingerprint": fingerprint, "items": len(correct)}
    return snapshot(
        correct,
        outcome=["ok" if right is not None else LEFT_OUT for right in correct],
        meta={"step": step, "probe": probe if of is None else {**probe, "of": of}},
    )


def run_of(folder: Path, baseline: Snapshot, later: Snapshot) -> Path:
    folder.mkdir()
    save_snapshot(baseline, folder / "baseline.parquet")
    save_snapshot(later, folder / "step-000005.parquet")
    return folder


def test_the_shortest_prefix_and_every_item_left_out_are_common_to_all_looks() -> None:
    looks = [look([True] * 5), look([True, True, None, True], of=5), look([True] * 3, of=5)]
    assert Subset.common(looks) == Subset(items=3, total=5, left_out=frozenset({("t", "2")}))
    assert [Subset.common(looks).apply(each).texts("item_id").tolist() for each in looks] == [
        ["0", "1"]
    ] * 3
    assert Subset.common(looks[:1]) == Subset.common([]) == Subset()


def test_a_prefix_counts_items_and_keeps_all_samples() -> None:
    samples = snapshot(
        [True] * 4, item_id=["a", "b", "a", "b"], content_hash=list("ABAB"), sample=[0, 0, 1, 1]
    )
    assert Subset(items=1, total=2).apply(samples).texts("item_id").tolist() == ["a", "a"]


def test_the_whole_subset_is_the_snapshot_itself_and_one_of_nothing_keeps_the_items_left_out() -> (
    None
):
    whole, unscored = look([True, None]), look([None, None])
    assert Subset().apply(whole) is whole
    assert len(Subset.from_look(unscored).apply(unscored)) == 2


def test_the_subset_of_a_probe_keeps_generated_answers_that_must_pass() -> None:
    items = [
        Item(id="choices", task="t", prompt="Q", choices=(" a", " b"), answer=0),
        Item(id="generated", task="t", prompt="Q", answer="a", match="exact"),
        Item(id="must", task="t", prompt="Q2", answer="a", match="exact", must_pass=True),
    ]
    probe = Probe(items)
    assert Subset.from_probe(probe, items=None, generates=True) == Subset()
    assert Subset.from_probe(probe, items=2, generates=False) == Subset(
        items=2, total=3, left_out=frozenset({("t", "generated")})
    )


def test_a_look_carries_its_prefix_under_the_fingerprint_of_the_whole_probe() -> None:
    cut = Subset(items=2, total=3).describe(
        look([True, True], fingerprint="of the prefix"), fingerprint="f"
    )
    assert cut.meta["probe"] == {"fingerprint": "f", "items": 2, "of": 3}
    assert Subset.from_look(cut) == Subset(items=2, total=3)
    whole = look([True] * 3)
    assert Subset().describe(whole, fingerprint="g") is whole


def test_a_reference_is_cut_by_its_questions_in_whatever_order_it_holds_them() -> None:
    turned = snapshot([True, False, True], item_id=["2", "1", "0"], content_hash=["h2", "h1", "h0"])
    cut = Subset(items=2, total=3).apply_to_reference(turned, baseline=look([True] * 3))
    assert cut.texts("item_id").tolist() == ["1", "0"]
    assert Subset().apply_to_reference(turned, baseline=look([True] * 3)) is turned


def test_a_comparison_a_trajectory_and_stages_cut_alike(tmp_path: Path) -> None:
    whole, later = look([True] * 3), look([True, False], step=5, of=3)
    pair = compare(before=whole, after=later)
    assert (pair.all.n, pair.all.forgotten) == (2, 1)
    assert pair.notes == ("over the first 2 of 3 items, those that the looks of this run evaluate",)
    stages = [run_of(tmp_path / name, whole, later) for name in ("sft", "dpo")]
    run, line = Trajectory.from_run(stages[0]), read_stages(stages)
    assert [(each.all.n, each.all.forgotten) for each in run.comparisons] == [(2, 0), (2, 1)]
    assert [(each.all.n, each.all.forgotten) for each in line.comparisons] == [
        (2, 0),
        (2, 1),
        (2, 1),
    ]
    assert "answers 1 of 2 questions" in line.comparisons[-1].notes[-1]


def test_a_comparison_counts_items_left_out_as_unscored() -> None:
    pair = compare(before=look([True, True, True]), after=look([True, None, False]))
    assert (pair.all.n, pair.items.unscored) == (2, 1)


def test_a_baseline_without_a_fingerprint_is_cut_like_one_of_the_same_probe() -> None:
    looks = [look([True] * 5, fingerprint=None), look([True, False, True], step=5, of=5)]
    assert Subset.common(looks) == Subset(items=3, total=5)
    assert trajectory_of(looks).comparisons[-1].all.n == 3


def test_looks_of_unlike_probes_are_refused_by_all(tmp_path: Path) -> None:
    whole, other = look([True] * 3), look([True, False], step=5, of=3, fingerprint="g")
    assert Subset.common([whole, other]) == Subset()
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        compare(before=whole, after=other)
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        trajectory_of([whole, other])
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        read_stages(
            [
                run_of(tmp_path / "sft", whole, other),
                run_of(tmp_path / "dpo", whole, look([True] * 3, step=5)),
            ]
        )


def test_metadata_that_name_a_part_without_its_size_are_refused() -> None:
    with pytest.raises(SnapshotError, match="as whole numbers, got items None of 3"):
        Subset.from_metadata({"probe": {"of": 3}})
    assert Subset.from_metadata({"probe": None}) == Subset()


def test_categories_without_an_item_are_named_in_the_look_and_on_its_page() -> None:
    made = probe(items=10)
    items = [
        replace(item, category="Law" if number > 5 else "Math") for number, item in enumerate(made)
    ]
    subset = Subset.from_probe(Probe(items, name="mine"), items=4, generates=True)
    assert subset.missing_categories == ("Law",)
    look = subset.describe(snapshot([True] * 4, meta={"probe": {"name": "mine"}}), fingerprint="f")
    assert Subset.from_metadata(look.meta).missing_categories == ("Law",)
    words = " ".join(summary(same := compare(before=look, after=look), first_table(same)).sure)
    assert "the first 4 of 10 questions" in words
    assert "No question of Law is among those that the looks evaluate." in words
    assert (
        Subset.from_probe(Probe(items, name="mine"), items=8, generates=True).missing_categories
        == ()
    )
    assert Subset.from_metadata({"probe": {"missing_categories": "Law"}}).missing_categories == ()


HISTORY = [
    {"loss": 2.0, "step": 10, "epoch": 0.1},
    {"eval_loss": 1.5, "eval_accuracy": 0.6, "step": 10, "epoch": 0.1},
    {"eval_loss": 1.2, "eval_accuracy": 0.7, "step": 20, "epoch": 0.2},
]


def checkpoint(folder: Path, step: int, history: object = HISTORY) -> str:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / TRAINER_STATE).write_text(json.dumps({"global_step": step, "log_history": history}))
    return str(path)


def scored(model: str | None = None, step: int | None = None) -> Snapshot:
    return snapshot([True], meta={} if model is None else {"model": model, "step": step})


def test_a_table_gives_each_model_its_value_by_name_whatever_their_order(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("after,pass@1\nb.parquet,0.7\nother,0.1\nm,0.6\n")
    target = read_target(str(table), [("a.parquet", scored("org/m")), ("b.parquet", scored())])
    assert (target.name, target.values, target.less_is_better) == ("pass@1", (0.6, 0.7), False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("after,x\nb,1\n", "no row for a; add one whose first column is 'a'"),
        ("after,x\na,1\na,2\n", "row 3: 'a' is there twice"),
        ("after,x\na,\n", r"row 2 \('a'\): needed a number, got ''"),
        ("after,x\na,inf\n", "needed a number, got 'inf'"),
        ("after,x,y\na,1,2\n", "row 1: needed two columns, the model and its metric, got 3"),
        ("after,x\na\n", "row 2: needed two columns"),
        ("", "needed two columns"),
        (None, "no such file; needed a table of the target in CSV"),
    ],
)
def test_a_malformed_table_is_one_clear_error(tmp_path: Path, text: str | None, says: str) -> None:
    table = tmp_path / "t.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises(SnapshotError, match=says):
        read_target(str(table), [("a", scored())])


def test_a_second_measurement_of_other_questions_is_refused() -> None:
    before, other = (
        snapshot([True, False]),
        snapshot([True, False], content_hash=["x", "y"], item_id=["x", "y"]),
    )
    with pytest.raises(
        MismatchError, match="has no item of snapshot; a second measurement is of the same weights"
    ):
        compare(before=before, after=before, repeat=other)

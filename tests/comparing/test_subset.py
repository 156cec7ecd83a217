"""One rule for the items that a run evaluates, whoever cuts snapshots to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import probe, snapshot

from forgetwatch import Item, Probe, Snapshot, Trajectory, compare, save_snapshot
from forgetwatch.comparing import Subset, read_stages
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.report.sentences import summary

LEFT_OUT = "unscored: its answer was not asked for"


def look(
    correct: list[bool | None], *, step: int = 0, of: int | None = None, fingerprint: str | None = "f"
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
    assert [Subset.common(looks).apply(each).texts("item_id").tolist() for each in looks] == [["0", "1"]] * 3
    assert Subset.common(looks[:1]) == Subset.common([]) == Subset()


def test_a_prefix_counts_items_and_keeps_all_samples() -> None:
    samples = snapshot([True] * 4, item_id=["a", "b", "a", "b"], content_hash=list("ABAB"), sample=[0, 0, 1, 1])
    assert Subset(items=1, total=2).apply(samples).texts("item_id").tolist() == ["a", "a"]


def test_the_whole_subset_is_the_snapshot_itself_and_one_of_nothing_keeps_the_items_left_out() -> None:
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
    cut = Subset(items=2, total=3).describe(look([True, True], fingerprint="of the prefix"), fingerprint="f")
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
    assert [(each.all.n, each.all.forgotten) for each in line.comparisons] == [(2, 0), (2, 1), (2, 1)]
    assert "answers 1 of 2 questions" in line.comparisons[-1].notes[-1]


def test_a_comparison_counts_items_left_out_as_unscored() -> None:
    pair = compare(before=look([True, True, True]), after=look([True, None, False]))
    assert (pair.all.n, pair.items.unscored) == (2, 1)


def test_a_baseline_without_a_fingerprint_is_cut_like_one_of_the_same_probe() -> None:
    looks = [look([True] * 5, fingerprint=None), look([True, False, True], step=5, of=5)]
    assert Subset.common(looks) == Subset(items=3, total=5)
    assert Trajectory.of(looks).comparisons[-1].all.n == 3


def test_looks_of_unlike_probes_are_refused_by_all(tmp_path: Path) -> None:
    whole, other = look([True] * 3), look([True, False], step=5, of=3, fingerprint="g")
    assert Subset.common([whole, other]) == Subset()
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        compare(before=whole, after=other)
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        Trajectory.of([whole, other])
    with pytest.raises(MismatchError, match="not outcomes on the same items"):
        read_stages([run_of(tmp_path / "sft", whole, other), run_of(tmp_path / "dpo", whole, look([True] * 3, step=5))])


def test_metadata_that_name_a_part_without_its_size_are_refused() -> None:
    with pytest.raises(SnapshotError, match="as whole numbers, got items None of 3"):
        Subset.from_metadata({"probe": {"of": 3}})
    assert Subset.from_metadata({"probe": None}) == Subset()


def test_categories_without_an_item_are_named_in_the_look_and_on_its_page() -> None:
    made = probe(items=10)
    items = [replace(item, category="Law" if number > 5 else "Math") for number, item in enumerate(made)]
    subset = Subset.from_probe(Probe(items, name="mine"), items=4, generates=True)
    assert subset.missing_categories == ("Law",)
    look = subset.describe(snapshot([True] * 4, meta={"probe": {"name": "mine"}}), fingerprint="f")
    assert Subset.from_metadata(look.meta).missing_categories == ("Law",)
    words = " ".join(summary(compare(before=look, after=look)).sure)
    assert "the first 4 of 10 questions" in words
    assert "No question of Law is among those that the looks evaluate." in words
    assert Subset.from_probe(Probe(items, name="mine"), items=8, generates=True).missing_categories == ()
    assert Subset.from_metadata({"probe": {"missing_categories": "Law"}}).missing_categories == ()

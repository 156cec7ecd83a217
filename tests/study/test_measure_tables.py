"""Passages and drift in a study and in a merge: every measure with a table of its own has one there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from merge_sweeps import made_sweep
from passage_texts import read

from forgetwatch import compare, load_snapshot, save_snapshot
from forgetwatch.measures import LookDrift
from forgetwatch.merge import merge_markdown, merge_page
from forgetwatch.report import measure_tables
from forgetwatch.study import Sources, publication, read_plan, run_study, study_markdown

BITS = [1.0, 1.1, 1.2, 1.3]
MOVED = LookDrift(completions=9, tokens=90, kl_sampled=0.06, kl_sampled_se=0.01, overlap=0.8, overlap_se=0.02)


def test_a_study_has_the_tables_of_passages_and_drift(tmp_path: Path) -> None:
    questions = [True, False, True, True]
    for name, more in (("base", 0.0), ("tuned", 0.5)):
        save_snapshot(read(bits=[bits + more for bits in BITS], questions=questions), tmp_path / f"{name}.parquet")
    (tmp_path / "made.yaml").write_text(
        "stages:\n  - name: tuning\n    pairs:\n      - {name: one, before: base.parquet, after: tuned.parquet}\n"
    )
    plan = read_plan(tmp_path / "made.yaml")
    study = run_study(plan, Sources(tmp_path, lambda given, *_: load_snapshot(given)), on_pair=lambda *_: None)
    text = study_markdown(study)
    assert "## Passages: what it can still predict" in text
    assert "| one | 4 | 1.150 | 1.650 | +0.500 (+0.500 to +0.500) | " in text
    assert "How far it moved" not in text
    (pair,) = study.compared
    moved = replace(study, results=(replace(pair, comparison=replace(pair.comparison, drift={"probe": MOVED})),))
    text = study_markdown(moved)
    assert "## How far it moved from the base" in text
    assert "| one, probe prompts | 0.060 (0.040 to 0.080) | – | 0.80 | – |" in text
    assert publication.study_json(moved)["stages"][0]["pairs"][0]["drift"]["probe"]["kl_sampled"] == 0.06
    publication.write_numbers(moved, tmp_path / "out")
    page = (tmp_path / "out" / "study.html").read_text()
    assert page.count("<td>0.060 (0.040 to 0.080)</td>") == 1
    assert "<td>1.650</td>" in page


def test_a_merge_has_the_table_of_passages() -> None:
    sweep = made_sweep()
    assert "Passages" not in merge_markdown(sweep)
    found = compare(before=read(bits=BITS), after=read(bits=[bits + 0.5 for bits in BITS]))
    points = tuple(replace(point, from_a=found, from_b=found) for point in sweep.chosen_on.points)
    with_texts = replace(sweep, chosen_on=replace(sweep.chosen_on, points=points))
    row = "0.2, against tuned"
    assert f"| {row} | 4 | 1.150 | 1.650 |" in merge_markdown(with_texts)
    assert f"<bdi>{row}</bdi></th><td>4</td><td>1.150</td><td>1.650</td>" in merge_page(with_texts)


def test_a_measure_that_no_comparison_has_makes_no_table() -> None:
    found = compare(before=read(bits=BITS), after=read(bits=BITS))
    ((title, headings, rows),) = measure_tables([("a", found), ("b", found)])
    assert title.startswith("Passages")
    assert headings[:2] == ["", "passages"]
    assert [row[0] for row in rows] == ["a", "b"]
    assert measure_tables([]) == []

"""A study from its file to its pages: numbers, tables, seeds, resumption, and pairs that cannot be compared.

Passages and drift in a study and in a merge: every measure with a table of its own has one there.

Studies of models: each is scored once, by its own probe, in one process or in several.
"""

import base64
import csv
import hashlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_sweeps import made_sweep
from numpy.typing import NDArray
from pages import HOSTILE
from passage_texts import read as read_measure_tables
from ranks import launched
from safetensors.torch import load_file, save_file
from support import model, probe, snapshot, tokenizer
from tool_logs import choice_row, open_row, write_samples
from typer.testing import CliRunner

from forgetwatch import Item, Probe, Snapshot, compare, load_snapshot, save_snapshot, score
from forgetwatch.cli import app
from forgetwatch.comparing.paper_means import Spread
from forgetwatch.errors import ScoringError, StudyError
from forgetwatch.measures.base_drift import LookDrift
from forgetwatch.merge.report import merge_markdown, merge_page
from forgetwatch.probes.worked_examples import few_shot
from forgetwatch.report.cells import measure_tables
from forgetwatch.study import publication
from forgetwatch.study.factors import findings
from forgetwatch.study.pair_rows import study_csv
from forgetwatch.study.pairs import Resolve, Sources, Study, Value, run_study
from forgetwatch.study.paper_tables import rows
from forgetwatch.study.plan import Source, read_plan
from forgetwatch.study.publication import study_markdown

K = np.repeat([2, 4, 4, 5, 3, 10], 20)
TASK = np.repeat([f"t{n}" for n in range(6)], 20)
CATEGORY = np.repeat(["Math", "Math", "Law", "Arts", "Arts", "Arts"], 20)
"""Six tasks of 20 items in three categories."""

Right = NDArray[np.bool_]


def answers(seed: int, share: float = 0.6) -> Right:
    return np.random.default_rng(seed).random(len(K)) < share


def table_of(right: Right, **columns: Any) -> pa.Table:
    given = {
        "item_id": [f"q{n}" for n in range(len(K))],
        "content_hash": [f"h{n}" for n in range(len(K))],
        "task": list(TASK),
        "category": list(CATEGORY),
        "k": pa.array(K, pa.int32()),
        "correct": list(right),
    }
    return pa.table({**given, **columns})


def write(folder: Path, name: str, right: Right) -> str:
    pq.write_table(table_of(right), folder / name)
    return name


def write_sides(folder: Path) -> None:
    write(folder, "b.parquet", answers(0))
    write(folder, "a.parquet", answers(1))


def write_numbered(folder: Path, files: int) -> None:
    """Write files of unlike answers: 0.parquet, 1.parquet, ..."""
    for n in range(files):
        write(folder, f"{n}.parquet", answers(n))


def study_file(folder: Path, *pairs: str, top: str = "") -> Path:
    path = folder / "made.yaml"
    path.write_text(
        f"{top}\nstages:\n  - name: tuning\n    pairs:\n"
        + "".join(f"      - {pair}\n" for pair in pairs)
    )
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["study", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return 1, done.stdout, f"{done.stderr}{done.exception}"
    return done.exit_code, done.stdout, done.stderr


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "study.json").read_text())
    return found


def pairs_of(found: dict[str, Any]) -> dict[str, Any]:
    return {pair["name"]: pair for stage in found["stages"] for pair in stage["pairs"]}


def read(source: Source, probe: Probe | None) -> Snapshot:
    assert probe is None, f"{source.given} is no model to be scored"
    return load_snapshot(source.location, metric=source.metric)


def studied(path: Path, resolve: Resolve = read) -> Study:
    """The study of a file; models are kept in the folder `out` next to it."""
    return run_study(
        read_plan(path), Sources(path.parent / "out", resolve), on_pair=lambda *_: None
    )


def by_hand(
    before: Sequence[Right], after: Sequence[Right]
) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """The paper's rates and ceilings [seeds, 4] by category and in total, straight from the arrays."""
    of_category: dict[str, NDArray[Any]] = {}
    for category in ("Math", "Law", "Arts"):
        of_tasks = []
        for task in sorted(set(TASK[category == CATEGORY])):
            at, k = task == TASK, float(K[task == TASK][0])
            of_seeds = []
            for one, other in zip(before, after, strict=True):
                acc, now = one[at].mean(), other[at].mean()
                chance = (1 - acc) * (1 - now) / (k - 1)
                lost, won = (one & ~other)[at].mean(), (~one & other)[at].mean()
                of_seeds.append(
                    [lost - chance, won - chance, (k * acc - 1) / (k - 1), (k * now - 1) / (k - 1)]
                )
            of_tasks.append(
                np.maximum(of_seeds, 0)
            )  # the paper's max(., 0), for each task and seed
        of_category[category] = np.mean(of_tasks, axis=0)
    return of_category, np.mean(list(of_category.values()), axis=0)


def test_values_deviations_and_ceilings_over_seeds_are_numpys(tmp_path: Path) -> None:
    before, after = [answers(n) for n in range(3)], [answers(n, 0.5) for n in (10, 11, 12)]
    names = {
        side: [write(tmp_path, f"{side}{n}.parquet", one) for n, one in enumerate(seeds)]
        for side, seeds in (("before", before), ("after", after))
    }
    path = study_file(tmp_path, json.dumps({"name": "a", **names}))
    study = studied(path)
    (pair,) = study.compared
    of_category, of_all = by_hand(before, after)
    for which, rate in enumerate(("forgetting", "backward transfer")):
        found = {**pair.values(rate), "Total": pair.total(rate)}  # type: ignore[arg-type]
        for name, expected in {**of_category, "Total": of_all}.items():
            assert found[name].rate.mean == pytest.approx(expected[:, which].mean())
            assert found[name].rate.sd == pytest.approx(expected[:, which].std(ddof=1))
            assert found[name].ceiling.mean == pytest.approx(expected[:, 2 + which].mean())
    shown = {row[0]: row[1] for row in rows(study, "tuning", "forgetting")}
    assert list(shown) == ["Math", "Law", "Arts", "Total"]
    mean, sd, ceiling = (
        100 * of_all[:, 0].mean(),
        100 * of_all[:, 0].std(ddof=1),
        100 * of_all[:, 2].mean(),
    )
    assert shown["Total"] == f"{mean:.1f} ± {sd:.1f} ({ceiling:.1f})"


def test_a_category_named_total_and_items_without_one_have_rows_of_their_own(
    tmp_path: Path,
) -> None:
    labels = np.where(CATEGORY == "Math", "Total", np.where(CATEGORY == "Law", "", CATEGORY))
    for n in range(2):
        pq.write_table(table_of(answers(n), category=list(labels)), tmp_path / f"{n}.parquet")
    path = study_file(tmp_path, "{name: a, before: 0.parquet, after: 1.parquet}")
    study = studied(path)
    of_category, of_all = by_hand([answers(0)], [answers(1)])
    expected = [*(of_category[name][0, 0] for name in ("Math", "Law", "Arts")), of_all[0, 0]]
    shown = rows(study, "tuning", "forgetting")
    assert [row[0] for row in shown] == ["Total", "Arts", "no category", "Total"]
    # Items without a category come last in the order of the means.
    assert [float(row[1].split()[0]) for row in shown] == pytest.approx(
        [round(100 * max(expected[at], 0), 1) for at in (0, 2, 1, 3)]
    )
    (written,) = csv.DictReader(io.StringIO(study_csv(study)))
    columns = [
        f"{where}paper.forgetting.mean"
        for where in ("category.Total.", "category.Arts.", "category..", "")
    ]
    assert [float(written[name]) for name in columns] == pytest.approx(
        [expected[at] for at in (0, 2, 1, 3)]
    )
    status, _, _ = run(path, "-o", tmp_path / "out")
    assert status == 0
    paper = pairs_of(document(tmp_path / "out"))["a"]["paper"]["forgetting"]
    assert paper["by_category"]["Total"]["mean"] == pytest.approx(expected[0])
    assert paper["mean"] == pytest.approx(expected[3])
    assert "no category" in (tmp_path / "out" / "study.html").read_text()


def test_latex_has_the_tables_with_its_signs_escaped(tmp_path: Path) -> None:
    for n in range(2):
        pq.write_table(table_of(answers(n), category=["R&D_1"] * len(K)), tmp_path / f"{n}.parquet")
    study = studied(
        study_file(tmp_path, "{name: 50 %~^, before: [0.parquet, 1.parquet], after: 1.parquet}")
    )
    lines = publication.study_latex(study).splitlines()
    assert lines[1:6] == [
        r"\begin{table}",
        r"\centering\small",
        r"\caption{tuning: forgetting, \%, and its ceiling}",
        r"\begin{tabular}{lr}",
        r"\toprule",
    ]
    assert lines[6] == r" & 50 \%\textasciitilde{}\textasciicircum{} \\"
    assert lines[8].startswith(r"R\&D\_1 & ")
    assert lines[8].count(r" $\pm$ ") == 1
    assert [line for line in lines if line.startswith("Total & ")] == [lines[10], lines[24]]


def test_undefined_numbers_are_left_out() -> None:
    nan = float("nan")
    ceiling = Spread(mean=0.0, sd=nan)
    assert Value(Spread(mean=0.01, sd=0.002), ceiling).text == "1.0 ± 0.2 (0.0)"
    assert Value(Spread(mean=0.123, sd=nan), Spread(mean=0.5, sd=nan)).text == "12.3 (50.0)"
    assert Value(Spread(mean=nan, sd=nan), ceiling).text == "–"


def test_categories_have_one_order_in_all_stages_and_a_file_may_name_others(tmp_path: Path) -> None:
    write_numbered(tmp_path, 2)
    for n in range(2):
        pq.write_table(
            table_of(answers(n)).take(np.arange(len(K))[::-1]), tmp_path / f"back{n}.parquet"
        )
    stages = [
        {
            "name": name,
            "pairs": [{"name": name, "before": f"{name}0.parquet", "after": f"{name}1.parquet"}],
        }
        for name in ("", "back")
    ]
    stages[0]["name"], stages[0]["pairs"][0]["name"] = "first", "forwards"  # type: ignore[index]
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps({"stages": stages}))
    study = studied(path)
    for stage in ("first", "back"):
        assert [row[0] for row in rows(study, stage, "forgetting")] == [
            "Math",
            "Law",
            "Arts",
            "Total",
        ]
    (tmp_path / "map.csv").write_text(
        "task,category\n" + "".join(f"t{n},{'one' if n < 4 else 'two'}\n" for n in range(6))
    )
    path.write_text(json.dumps({"categories": "map.csv", "stages": stages}))
    study = studied(path)
    assert [row[0] for row in rows(study, "first", "forgetting")] == ["one", "two", "Total"]


def test_questions_that_are_left_out_are_counted_in_every_table_of_pairs(tmp_path: Path) -> None:
    before = [None if n < 3 else right for n, right in enumerate(answers(0))]
    pq.write_table(
        table_of(answers(0), correct=pa.array(before, pa.bool_())).slice(0, 110),
        tmp_path / "b.parquet",
    )
    pq.write_table(table_of(answers(1)).slice(10), tmp_path / "a.parquet")
    write(tmp_path, "whole.parquet", answers(2))
    pq.write_table(
        table_of(answers(0), correct=pa.array(before, pa.bool_())), tmp_path / "unscored.parquet"
    )
    path = study_file(
        tmp_path,
        "{name: sides, before: b.parquet, after: a.parquet}",
        "{name: unscored, before: unscored.parquet, after: whole.parquet}",
        "{name: none, before: whole.parquet, after: whole.parquet}",
        top="on_mismatch: intersect",
    )
    status, out, _ = run(path, "-o", tmp_path / "out")
    assert status == 0
    assert "left out in 2 pairs: questions unscored, or on one side alone" in out
    counted = {name: one["items"] for name, one in pairs_of(document(tmp_path / "out")).items()}
    names = ("unscored", "only_before", "only_after")
    assert [counted["sides"][name] for name in names] == [0, 10, 10]
    assert [counted["unscored"][name] for name in names] == [3, 0, 0]
    text = (tmp_path / "out" / "study.md").read_text()
    every = text.split("## Every pair")[1].split("## Corrected")[0]
    lines = {line.split(" | ")[0]: line.split(" | ") for line in every.splitlines()}
    assert lines["| pair"][-2:] == ["unscored", "on one side |"]
    assert lines["| sides"][-2:] == ["–", "20 |"]
    assert lines["| unscored"][-2:] == ["3", "– |"]
    assert "none: both sides are one file, so that nothing can differ" in text.split("## Notes")[1]
    page = (tmp_path / "out" / "study.html").read_text()
    assert '<td data-name="unscored">3</td>' in page
    assert "No count has the questions that are unscored" in page


@pytest.mark.parametrize("side", ["before", "after"])
def test_files_and_samples_of_one_are_seeds_and_one_answer_is_compared_with_each(
    tmp_path: Path, side: str
) -> None:
    one, several = answers(0), [answers(n) for n in (1, 2, 3)]
    write(tmp_path, "one.parquet", one)
    for n, right in enumerate(several):
        write(tmp_path, f"s{n}.parquet", right)
    parts = [
        table_of(right, sample=pa.array([n] * len(K), pa.int32()))
        for n, right in enumerate(several)
    ]
    pq.write_table(pa.concat_tables(parts), tmp_path / "samples.parquet")
    other = "after" if side == "before" else "before"
    files = "[s0.parquet, s1.parquet, s2.parquet]"
    path = study_file(
        tmp_path,
        f"{{name: files, {side}: one.parquet, {other}: {files}}}",
        f"{{name: samples, {side}: one.parquet, {other}: samples.parquet}}",
        f"{{name: both, {side}: samples.parquet, {other}: {files}}}",
    )
    study = studied(path)
    assert not study.failed
    first, second, third = study.compared
    assert first.means == second.means
    assert first.comparison.all.forgotten == second.comparison.all.forgotten
    lost = [(one & ~right if side == "before" else right & ~one).sum() for right in several]
    assert first.comparison.all.forgotten == np.mean(lost)
    assert first.comparison.items.compared == len(K)
    assert third.comparison.samples == 3
    assert third.comparison.all.forgotten == 0


def test_unlike_numbers_of_samples_are_a_sentence_of_the_study(tmp_path: Path) -> None:
    for count in (2, 3):
        parts = [
            table_of(answers(n), sample=pa.array([n] * len(K), pa.int32())) for n in range(count)
        ]
        pq.write_table(pa.concat_tables(parts), tmp_path / f"{count}.parquet")
    path = study_file(
        tmp_path,
        "{name: unlike, before: 2.parquet, after: 3.parquet}",
        "{name: listed, before: 2.parquet, after: [3.parquet, 3.parquet]}",
    )
    study = studied(path)
    unlike, listed = (one.reason for one in study.failed)
    assert "2 has 2 answers to an item and 3 has 3; give as many on both sides" in unlike
    assert "3 has 3 answers to an item, and in a list each file is one seed" in listed


def test_items_that_one_seed_lacks_are_named_and_may_be_left_out(tmp_path: Path) -> None:
    write_numbered(tmp_path, 3)
    pq.write_table(table_of(answers(3)).slice(4), tmp_path / "short.parquet")
    pq.write_table(
        table_of(answers(3), item_id=[f"x{n}" for n in range(len(K))]), tmp_path / "others.parquet"
    )
    path = study_file(
        tmp_path,
        "{name: error, before: 0.parquet, after: [1.parquet, short.parquet, 2.parquet]}",
        "{name: left, on_mismatch: intersect, before: 0.parquet, after: [1.parquet, short.parquet, 2.parquet]}",
        "{name: unlike, on_mismatch: intersect, before: 0.parquet, after: [1.parquet, others.parquet]}",
    )
    study = studied(path)
    error, unlike = (one.reason for one in study.failed)
    assert "short.parquet is one of 3 seeds, which need the same items: 4 are not in all" in error
    assert "with on_mismatch: intersect" in error
    assert "they have no item in common" in unlike
    (left,) = study.compared
    assert (left.comparison.all.n, left.comparison.items.only_before) == (
        pytest.approx(len(K) - 4),
        4,
    )
    lost = [(answers(0) & ~answers(n))[4:].sum() for n in (1, 3, 2)]
    assert left.comparison.all.forgotten == pytest.approx(np.mean(lost))
    assert any(
        "4 items that are not in the files of all its seeds are left out" in note
        for note in left.comparison.notes
    )


def test_the_released_codes_rule_has_its_ceilings_too(tmp_path: Path) -> None:
    write_numbered(tmp_path, 2)
    path = study_file(
        tmp_path, "{name: a, before: 0.parquet, after: 1.parquet}", top="chance: paper-compat"
    )
    study = studied(path)
    found = study.compared[0].values("forgetting")
    ceilings = [max((4 * answers(0)[task == TASK].mean() - 1) / 3, 0) for task in sorted(set(TASK))]
    assert found["Missing"].ceiling.mean == pytest.approx(
        np.mean(ceilings)
    )  # its k is 4 for every task it lacks
    run(path, "-o", tmp_path / "out")
    assert "As in the paper&#39;s released code" in (tmp_path / "out" / "study.html").read_text()


@pytest.mark.parametrize(("seeds", "without_a_task"), [(1, ""), (3, "t5")])
def test_averages_show_the_loss_of_tasks_and_hide_what_gains_cancel(
    tmp_path: Path, seeds: int, without_a_task: str
) -> None:
    """Over seeds too, and with items without a task, which are a task of their own."""
    task = np.where(without_a_task == TASK, "", TASK)
    sides = {
        side: [answers(first + 2 * n) for n in range(seeds)]
        for side, first in (("before", 3), ("after", 4))
    }
    names = {side: [f"{side}{n}.parquet" for n in range(seeds)] for side in sides}
    for side, rights in sides.items():
        for name, right in zip(names[side], rights, strict=True):
            pq.write_table(table_of(right, task=list(task)), tmp_path / name)
    found = studied(study_file(tmp_path, json.dumps({"name": "a", **names}))).compared[0].averages
    before, after = np.array(sides["before"]), np.array(sides["after"])
    of_tasks = [(before[:, task == name], after[:, task == name]) for name in sorted(set(task))]
    lost = [one.mean() - now.mean() for one, now in of_tasks]
    assert found.tasks == 6
    assert found.conventional == pytest.approx(np.mean([max(0, fall) for fall in lost]))
    assert found.forgetting == pytest.approx(
        np.mean([(one & ~now).mean() for one, now in of_tasks])
    )
    fell = sum(
        (one & ~now).sum() / seeds
        for (one, now), fall in zip(of_tasks, lost, strict=True)
        if fall > 0
    )
    assert found.in_tasks_that_fell == pytest.approx(fell)
    assert found.conventional < found.forgetting


def test_a_pair_that_cannot_be_compared_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    write_sides(tmp_path)
    pq.write_table(
        table_of(answers(2), content_hash=[f"x{n}" for n in range(len(K))]),
        tmp_path / "other.parquet",
    )
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    path = study_file(
        tmp_path,
        "{name: missing, before: b.parquet, after: gone.parquet}",
        "{name: unlike, before: b.parquet, after: other.parquet}",
        "{name: damaged, before: cut.parquet, after: a.parquet}",
        "{name: fine, size: 7B, before: b.parquet, after: a.parquet}",
    )
    status, out, err = run(path, "-o", tmp_path / "out")
    assert status == 1
    assert "3 of 4 pairs could not be compared: missing, unlike, damaged" in err
    found = pairs_of(document(tmp_path / "out"))
    assert document(tmp_path / "out")["failed"] == ["missing", "unlike", "damaged"]
    assert "gone.parquet: no such file" in found["missing"]["error"]
    assert found["unlike"]["error"].startswith("unlike: ")
    assert "have no item in common" in found["unlike"]["error"]
    assert "--" not in found["unlike"]["error"]
    assert "cut.parquet" in found["damaged"]["error"]
    assert found["fine"]["error"] is None
    assert found["fine"]["groups"][0]["forgotten"] == (answers(0) & ~answers(1)).sum()
    assert out.count("not compared") == 3
    for name in ("missing", "unlike", "damaged"):
        assert f"{name}: " in (tmp_path / "out" / "study.html").read_text()


def test_a_pair_without_a_scored_question_is_named_and_no_page_has_the_folders_of_this_machine(
    tmp_path: Path,
) -> None:
    write(tmp_path, "b.parquet", answers(0))
    pq.write_table(
        table_of(answers(1), correct=pa.nulls(len(K), pa.bool_())), tmp_path / "n.parquet"
    )
    path = study_file(
        tmp_path,
        "{name: nothing, before: b.parquet, after: n.parquet}",
        "{name: missing, before: b.parquet, after: gone.parquet}",
        "{name: fine, before: b.parquet, after: b.parquet}",
    )
    assert run(path, "-o", tmp_path / "out")[0] == 1
    found = pairs_of(document(tmp_path / "out"))
    assert found["nothing"]["error"] == "nothing: none of the 120 items was scored on both sides"
    for name in ("study.html", "study.md"):
        text = (tmp_path / "out" / name).read_text()
        assert "gone.parquet: no such file" in text
        assert str(tmp_path) not in text


def test_a_stage_may_have_a_formula_in_its_name(tmp_path: Path) -> None:
    write_numbered(tmp_path, 2)
    path = tmp_path / "s.yaml"
    pair = {"name": r"$\frac$", "size": "1B", "before": "0.parquet", "after": "1.parquet"}
    other = {"name": "b", "size": "2B", "before": "1.parquet", "after": "0.parquet"}
    path.write_text(
        json.dumps({"stages": [{"name": r"from $\frac$ to $x_1", "pairs": [pair, other]}]})
    )
    assert run(path, "-o", tmp_path / "out")[0] == 0


def test_the_table_of_corrections_has_those_that_use_the_wrong_answers(tmp_path: Path) -> None:
    chosen = np.random.default_rng(0).integers(0, K, (2, len(K)))
    gold = np.zeros(len(K), int)
    for n in range(2):
        right = chosen[n] == gold
        pq.write_table(
            table_of(
                right, gold=pa.array(gold, pa.int32()), chosen=pa.array(chosen[n], pa.int32())
            ),
            tmp_path / f"{n}.parquet",
        )
    path = study_file(tmp_path, "{name: a, before: 0.parquet, after: 1.parquet}")
    study = studied(path)
    found = study.compared[0].comparison.all.chance.guess_corrected
    assert found is not None
    corrected = study_markdown(study).split("## Corrected for guessing, %")[1].splitlines()
    assert "forgotten, guess-corrected | gained, guess-corrected" in corrected[2]
    cells = corrected[4].split(" | ")
    assert cells[3].startswith(f"{max(100 * found.forgetting, 0):.1f} (")
    assert cells[4].startswith(f"{max(100 * found.backward_transfer, 0):.1f} (")


def test_nothing_is_read_where_the_file_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, "b.parquet", answers(0))
    pair = "{name: a, before: b.parquet, after: b.parquet}"
    status, _, err = run(study_file(tmp_path, pair, pair), "-o", tmp_path / "out")
    assert status == 1
    assert "the name is there twice" in err
    assert "pair 1 of" not in err
    assert not (tmp_path / "out").exists()


def test_the_name_of_a_report_is_no_folder(tmp_path: Path) -> None:
    write(tmp_path, "b.parquet", answers(0))
    path = study_file(
        tmp_path, "{name: a, before: b.parquet, after: b.parquet}", top="name: report.html"
    )
    for options in (("-o", tmp_path / "report.html"), ()):  # named, and by the name of the study
        status, _, err = run(path, *options)
        assert status == 1
        assert "report.html: needed a folder, which holds the page and tables" in err
        assert "name a folder with --output" in err
        assert not (tmp_path / "report.html").exists()
    assert run(path, "-o", tmp_path / "out")[0] == 0


def test_the_terminals_table_has_a_row_a_pair_in_80_columns_and_each_pair_its_line(
    tmp_path: Path,
) -> None:
    write_sides(tmp_path)
    names = ["a" * 70, "漢字 " * 30, "short"]
    path = study_file(
        tmp_path, *(f"{{name: {name}, before: b.parquet, after: a.parquet}}" for name in names)
    )
    status, out, err = run(path, "-o", tmp_path / "out")
    assert status == 0
    from rich.cells import cell_len

    table = out.splitlines()[:-1]  # the last is the path of the report
    rows_of = table[3 : 3 + len(names)]
    assert max(map(cell_len, table)) <= 80
    assert "NOT CLEAR 3 of 3 pairs" in table
    of_tasks = [(answers(0)[task == TASK], answers(1)[task == TASK]) for task in sorted(set(TASK))]
    visible = 100 * np.mean([max(0, one.mean() - now.mean()) for one, now in of_tasks])
    lost = 100 * np.mean([(one & ~now).mean() for one, now in of_tasks])
    assert rows_of[-1].split()[-2:] == [f"{visible:.1f}", f"{lost:.1f}"]
    assert visible < lost
    lines = [line for line in err.splitlines() if "pair " in line]
    assert [line.split()[2] for line in lines] == ["1", "2", "3"]
    assert lines[2].endswith("short: b.parquet -> a.parquet")


def test_sides_may_be_rows_of_one_file(tmp_path: Path) -> None:
    rights = {name: answers(n) for n, name in enumerate(("x", "y", "z"))}
    parts = [table_of(right, model=[name] * len(K)) for name, right in rights.items()]
    pq.write_table(pa.concat_tables(parts), tmp_path / "all.parquet", row_group_size=50)
    side = "{path: all.parquet, where: {model: %s}}"
    path = study_file(tmp_path, f"{{name: a, before: {side % 'x'}, after: {side % 'z'}}}")
    study = studied(path)
    group = study.compared[0].comparison.all
    assert (group.n, group.forgotten) == (len(K), (rights["x"] & ~rights["z"]).sum())


def test_the_files_of_a_study_agree_and_show_names_as_text(tmp_path: Path) -> None:
    write(tmp_path, "b.parquet", answers(0))
    labels = np.array([f"{HOSTILE[n % 3]} & 50 % of $x_1$ #{n % 4}" for n in range(len(K))])
    pq.write_table(table_of(answers(0), category=list(labels)), tmp_path / "b.parquet")
    pq.write_table(table_of(answers(1), category=list(labels)), tmp_path / "a.parquet")
    pair = json.dumps(
        {"name": "=1+1 <b> & x_1", "size": "7B", "before": "b.parquet", "after": "a.parquet"}
    )
    other = json.dumps(
        {"name": "b", "size": "70B", "data": "1K", "before": "a.parquet", "after": "b.parquet"}
    )
    path = study_file(tmp_path, pair, other, top="name: <script>alert(1)</script>")
    folder = tmp_path / "out"
    status, out, err = run(path, "-o", folder, "--json", "-")
    assert status == 0, err
    assert json.loads(out) == document(folder)
    page = (folder / "study.html").read_text()
    script = page.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert page.count("<script") == page.count("</script") == 2, (
        "the data and the one script that the page admits"
    )
    assert "onerror=alert(3)>" not in page
    assert " of 2 pairs" in page.partition('class="verdict"')[2][:100]
    table = list(csv.DictReader(io.StringIO((folder / "study.csv").read_text())))
    numbers = pairs_of(document(folder))
    assert [row["pair"] for row in table] == ["'=1+1 <b> & x_1", "b"]
    # The points of the page are the rows of the table, and both are the numbers of the document.
    points = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["rows"]
    for row, point, (name, one) in zip(table, points, numbers.items(), strict=True):
        assert (point["pair"], point["stage"], point["size"]) == (
            name,
            row["stage"],
            float(row["size"]),
        )
        assert float(row["forgotten"]) == one["groups"][0]["forgotten"]
        assert not any(column.endswith(".sd") for column in row)  # one seed
        for rate, paper in one["paper"].items():
            assert float(row[f"paper.{rate}.mean"]) == paper["mean"]
            assert point[f"paper.{rate}.mean"] == pytest.approx(100 * paper["mean"])
            for category, value in paper["by_category"].items():
                own = f"category.{category}.paper.{rate}"
                assert float(row[f"{own}.mean"]) == value["mean"]
                assert float(row[f"{own}.ceiling"]) == value["ceiling"]["mean"]


def test_no_torch_where_only_files_are_named(tmp_path: Path) -> None:
    write_sides(tmp_path)
    path = study_file(
        tmp_path, "{name: a, before: b.parquet, after: a.parquet}", top="probe: standard"
    )
    code = f"""
import sys
from forgetwatch.cli import app
from forgetwatch.comparing.paper_means import Spread
app(["study", {str(path)!r}, "-o", {str(tmp_path / "out")!r}], standalone_mode=False)
print(sorted({{"torch", "transformers", "datasets"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_of_several_processes_the_first_alone_reads_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = study_file(tmp_path, "{name: a, before: gone.parquet, after: gone.parquet}")
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_RANK", "1"), ("RANK", "1")):
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as patch:
        patch.setattr("forgetwatch.cli.study.run_study", None)
        assert run(path, "-o", tmp_path / "out") == (0, "", "")
    monkeypatch.setenv("RANK", "0")
    assert run(path, "-o", tmp_path / "out")[0] == 1


def probe_of(items: int = 12) -> Probe:
    made = [
        Item(
            id=f"i{n}",
            task=f"t{n % 2}",
            category="c",
            prompt=f"Question {n}?",
            choices=(" a", " b", " c"),
            answer=n % 3,
        )
        for n in range(items)
    ]
    return Probe(made, name="made", scoring="generate", rendering="chat")


def outcomes(given: str, probe: Probe, right: Sequence[bool]) -> Snapshot:
    """Outcomes of a model that was never loaded."""
    return snapshot(
        right,
        meta={
            "model": given,
            "probe": {"name": probe.name, "rendering": probe.rendering, "scoring": probe.scoring},
        },
        item_id=[item.id for item in probe],
        content_hash=[item.content_hash for item in probe],
        prompt_hash=[f"{given} {item.id}" for item in probe],
        task=[item.task for item in probe],
        k=[3] * len(probe),
    )


class Scored(list[str]):
    """Names of the models that were scored, in their order; scores one when it is called."""

    def __call__(self, source: Source, probe: Probe | None) -> Snapshot:
        assert probe is not None
        self.append(Path(source.location).name)
        return outcomes(source.location, probe, [n % 2 == 0 for n in range(len(probe))])


@pytest.fixture
def probed(tmp_path: Path) -> Path:
    """Folder with a probe, three models and an adapter."""
    probe_of().save(tmp_path / "p.jsonl")
    for name in ("base", "tuned", "late"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    return tmp_path


MODELS = "probe: p.jsonl\nallow_prompt_mismatch: true"


def test_a_killed_study_scores_no_model_twice_and_a_changed_one_again(probed: Path) -> None:
    pairs = ("{name: a, before: base, after: tuned}", "{name: b, before: base, after: late}")
    path = study_file(probed, *pairs, top=MODELS)
    scored = Scored()

    def killed(source: Source, probe: Probe | None) -> Snapshot:
        if source.location.endswith("late"):
            raise KeyboardInterrupt
        return scored(source, probe)

    with pytest.raises(KeyboardInterrupt):
        studied(path, killed)
    assert scored == ["base", "tuned"]
    assert len(studied(path, scored).compared) == 2
    assert scored == ["base", "tuned", "late"]
    (probed / "base" / "config.json").write_text("{ }")  # other weights in the same folder
    studied(path, scored)
    assert scored[3:] == ["base"]
    kept = next((probed / "out" / "snapshots").glob("tuned-*.parquet"))
    kept.write_bytes(kept.read_bytes()[:-20])
    studied(path, scored)
    assert scored[4:] == ["tuned"]


def test_of_several_processes_the_first_alone_keeps_snapshots(probed: Path) -> None:
    path = study_file(probed, "{name: a, before: base, after: tuned}", top=MODELS)
    for is_first, kept in ((False, 0), (True, 2)):
        sources = Sources(probed / "out", Scored(), is_first=is_first, is_alone=False)
        assert len(run_study(read_plan(path), sources, on_pair=lambda *_: None).compared) == 1
        assert len(list((probed / "out").glob("snapshots/*.parquet"))) == kept


def test_a_model_that_cannot_be_scored_is_tried_once_for_all_its_pairs(probed: Path) -> None:
    pairs = ("base, after: late", "late, after: tuned", "base, after: tuned")
    path = study_file(
        probed, *(f"{{name: p{n}, before: {pair}}}" for n, pair in enumerate(pairs)), top=MODELS
    )
    scored = Scored()

    def score(source: Source, probe: Probe | None) -> Snapshot:
        snapshot = scored(source, probe)
        if source.location.endswith("late"):
            raise ScoringError("late: does not fit into memory")
        return snapshot

    for _ in range(2):  # the next run tries it again
        scored.clear()
        study = studied(path, score)
        assert [one.reason for one in study.failed] == [
            f"p{n}: late: does not fit into memory" for n in range(2)
        ]
        assert len(study.compared) == 1
        assert scored.count("late") == 1


def test_a_model_is_scored_again_with_other_settings_and_for_other_labels(probed: Path) -> None:
    def scored(settings: str) -> list[str]:
        names = Scored()
        path = study_file(
            probed, "{name: a, before: base, after: tuned}", top=f"{MODELS}\n{settings}"
        )
        assert len(studied(path, names).compared) == 1
        return names

    cool, warm = (f"decoding: {{temperature: {degrees}, samples: 2}}" for degrees in (0.6, 0.7))
    assert scored(cool) == ["base", "tuned"]
    assert scored(cool) == []
    assert scored(warm) == ["base", "tuned"]
    assert scored(cool) == [], "both are kept"
    items = [replace(item, category="other") for item in probe_of()]
    replace(probe_of(), items=tuple(items)).save(probed / "p.jsonl")
    assert scored(cool) == ["base", "tuned"], "labels are no part of the fingerprint"


def test_an_adapter_whose_base_changed_is_scored_again(probed: Path) -> None:
    config = probed / "adapter" / "adapter_config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"base_model_name_or_path": str(probed / "base")}))
    path = study_file(probed, "{name: a, before: tuned, after: adapter}", top=MODELS)
    scored = Scored()
    studied(path, scored)
    studied(path, scored)
    assert scored == ["tuned", "adapter"]
    (probed / "base" / "config.json").write_text("{ }")
    studied(path, scored)
    assert scored == ["tuned", "adapter", "adapter"]
    # Its own base: an error of the one who loads it.
    config.write_text(json.dumps({"base_model_name_or_path": str(config.parent)}))
    studied(path, scored)
    assert scored == ["tuned", "adapter", "adapter", "adapter"]


def test_a_base_with_worked_examples_and_a_tuned_model_in_a_chat_answer_the_same_questions(
    probed: Path,
) -> None:
    chat = replace(probe_of(), decoding={"tokens": 7})
    plain = replace(
        few_shot(replace(chat, rendering="plain"), list(chat)[:4], shots=2), name="made-base"
    )
    chat.save(probed / "chat.jsonl")
    plain.save(probed / "plain.jsonl")
    pair = "{name: a, before: {path: base, probe: plain.jsonl}, after: tuned}"

    def score(source: Source, probe: Probe | None) -> Snapshot:
        assert probe is not None
        assert probe.decoding is not None
        given = source.location
        decoding = probe.decoding.to_json()  # type: ignore[union-attr]
        assert [decoding[name] for name in ("temperature", "top_p", "tokens")] == [0.6, 0.95, 7]
        return outcomes(
            given, probe, [not given.endswith("tuned") or n > 2 for n in range(len(probe))]
        )

    top = "probe: chat.jsonl\ndecoding: {temperature: 0.6, top_p: 0.95}\n"
    refused = study_file(probed, pair, top=top)
    study = studied(refused, score)
    assert "or set allow_prompt_mismatch: true" in study.failed[0].reason
    assert "--" not in study.failed[0].reason
    # Of one rendering: the worked examples are a part of the question.
    replace(chat, rendering="plain", name="made-bare").save(probed / "bare.jsonl")
    bare = pair.replace("after: tuned", "after: {path: tuned, probe: bare.jsonl}")
    study = studied(study_file(probed, bare, top=top), score)
    assert "have no item in common" in study.failed[0].reason
    allowed = study_file(probed, pair, top=top + "allow_prompt_mismatch: true\n")
    study = studied(allowed, score)
    assert (study.compared[0].comparison.all.n, study.compared[0].comparison.all.forgotten) == (
        12,
        3,
    )


MERGE = "{name: merged, before: base, after: {merge: [base, tuned], alpha: %s}}"


@pytest.mark.parametrize(
    ("lost", "answer"),
    [(0.5, "supported"), (0.4, "supported"), (0.1, "contradicted"), (0.38, "cannot tell here")],
)
def test_the_fourth_finding_compares_a_merge_with_the_training_between_its_models(
    probed: Path, lost: float, answer: str
) -> None:
    """The training loses .4 of 100 questions in each of four families, and the merge another share."""
    probe_of(100).save(probed / "p.jsonl")
    pairs = []
    for name in "abcd":
        (probed / name).mkdir()
        (probed / name / "config.json").write_text("{}")
        pairs += [f"{{name: {name}, family: {name}, before: base, after: {name}}}"]
        pairs += [
            f"{{name: m{name}, family: {name}, before: base, after: {{merge: [base, {name}], alpha: .2}}}}"
        ]
    sides = {name: number for number, name in enumerate("abcd")}

    def score(source: Source, probe: Probe | None) -> Snapshot:
        assert probe is not None
        if source.merge is None:
            share = 0.0 if source.given == "base" else 0.4
        else:
            share = lost + 0.01 * (max(sides.get(Path(one).name, 0) for one in source.merge) % 2)
        return outcomes(source.given, probe, [n >= round(share * 100) for n in range(len(probe))])

    # A training that was scored with another probe, and a merge that names its models the other way round.
    probe_of(50).save(probed / "other.jsonl")
    pairs.insert(
        0,
        "{name: other, before: {path: base, probe: other.jsonl}, after: {path: a, probe: other.jsonl}}",
    )
    pairs[-1] = pairs[-1].replace("[base, d], alpha: .2", "[d, base], alpha: .8")
    found = findings(studied(study_file(probed, *pairs, top=MODELS), score))[3]
    assert (found.number, found.answer) == (4, answer)
    assert "forgetting of the merge less that of the training " in found.numbers
    assert "4 pairs of 4 families" in found.numbers


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (MERGE % "2", "alpha: needed the share of tuned, 0 to 1, got '2'"),
        (MERGE % "much", "alpha: needed the share of tuned, 0 to 1, got 'much'"),
        (
            "{name: m, before: base, after: {merge: base, alpha: .2}}",
            "merge: needed two models, [A, B], got 'base'",
        ),
        (
            "{name: m, before: base, after: {merge: [base, tuned]}}",
            "alpha: needed the share of tuned, 0 to 1, got no",
        ),
        (
            "{name: m, before: base, after: {merge: [base, tuned], share: .2}}",
            "unknown key 'share'",
        ),
        (
            MERGE % ".2",
            "merge: needed a probe (probe: NAME, or --probe), which scores the merged model",
        ),
    ],
)
def test_a_merge_that_cannot_be_made_is_an_error_of_the_file(
    probed: Path, pair: str, said: str
) -> None:
    path = study_file(probed, pair, top="" if "needed a probe" in said else MODELS)
    with pytest.raises(StudyError) as raised:
        read_plan(path)
    assert said in str(raised.value)


def test_a_model_without_a_probe_is_a_pair_that_failed(probed: Path) -> None:
    write(probed, "a.parquet", answers(0))
    status, _, err = run(
        study_file(probed, "{name: a, before: base, after: a.parquet}"), "-o", probed / "out"
    )
    assert status == 1
    assert "a: " in err
    assert "which needs --probe" in err


PAIRS = {
    "Meta-Llama-3_1-8B": ("Meta-Llama-3_1-8B-Instruct", 5.00, 12.34),
    "Meta-Llama-3_1-70B": ("Meta-Llama-3_1-70B-Instruct", 4.02, 14.11),
    "Mistral-7B-v0.1": ("Mistral-7B-Instruct-v0.1", 9.06, 3.48),
    "Mistral-7B-v0.2-hf": ("Mistral-7B-Instruct-v0.2", 6.33, 6.17),
    "Mixtral-8x7B-v0.1": ("Mixtral-8x7B-Instruct-v0.1", 6.26, 7.93),
    "Yi-6B": ("Yi-6b-Chat", 2.68, 4.41),
}
"""Bases, their instruct models, and the totals of the paper's table in percent, clipped per task."""


def right_by_question(path: Path) -> dict[tuple[str, str, str], bool]:
    columns = pq.read_table(
        path, columns=["task", "item_id", "content_hash", "correct"]
    ).to_pydict()
    keys = zip(columns["task"], columns["item_id"], columns["content_hash"], strict=True)
    return dict(zip(keys, map(bool, columns["correct"]), strict=True))


def test_the_six_pairs_of_mmlu_pro_equal_a_count_from_the_files(
    real_data: Path, tmp_path: Path
) -> None:
    folder = real_data / "mmlu_pro"
    entries = [
        json.dumps(
            {
                "name": before,
                "before": str(folder / f"{before}.parquet"),
                "after": str(folder / f"{after}.parquet"),
            }
        )
        for before, (after, _, _) in PAIRS.items()
    ]
    status, _, err = run(study_file(tmp_path, *entries), "-o", tmp_path / "out", "--latex")
    assert status == 0, err
    found = pairs_of(document(tmp_path / "out"))
    assert len(found) == 6
    latex = (tmp_path / "out" / "study.tex").read_text()
    totals = [
        f"{lost:.1f} ({found[name]['paper']['forgetting']['ceiling']['mean'] * 100:.1f})"
        for name, (_, lost, _) in PAIRS.items()
    ]
    assert f"Total & {' & '.join(totals)} \\\\" in latex
    for before, (after, lost, won) in PAIRS.items():
        paper = found[before]["paper"]
        assert (100 * paper["forgetting"]["mean"], 100 * paper["backward_transfer"]["mean"]) == (
            pytest.approx(lost, abs=0.005),
            pytest.approx(won, abs=0.005),
        )
        one, other = (right_by_question(folder / f"{name}.parquet") for name in (before, after))
        assert one.keys() == other.keys()
        whole = found[before]["groups"][0]
        assert whole["n"] == len(one)
        assert whole["forgotten"] == sum(right and not other[key] for key, right in one.items())
        assert whole["gained"] == sum(not right and other[key] for key, right in one.items())
        by_task: dict[str, list[tuple[bool, bool]]] = {}
        for key, right in one.items():
            by_task.setdefault(key[0], []).append((right, other[key]))
        falls = [
            max(0, np.mean([a for a, _ in task]) - np.mean([b for _, b in task]))
            for task in by_task.values()
        ]
        assert found[before]["averages"]["conventional"] == pytest.approx(np.mean(falls))
    llama = found["Meta-Llama-3_1-8B"]["groups"][0]
    assert (llama["n"], llama["forgotten"], llama["gained"]) == (12032, 1127, 2053)
    assert llama["chance"]["paper"]["forgetting"] == pytest.approx(0.050102006, abs=5e-10)


BITS = [1.0, 1.1, 1.2, 1.3]
MOVED = LookDrift(
    completions=9, tokens=90, kl_sampled=0.06, kl_sampled_se=0.01, overlap=0.8, overlap_se=0.02
)


def test_a_study_has_the_tables_of_passages_and_drift(tmp_path: Path) -> None:
    questions = [True, False, True, True]
    for name, more in (("base", 0.0), ("tuned", 0.5)):
        save_snapshot(
            read_measure_tables(bits=[bits + more for bits in BITS], questions=questions),
            tmp_path / f"{name}.parquet",
        )
    (tmp_path / "made.yaml").write_text(
        "stages:\n  - name: tuning\n    pairs:\n      - {name: one, before: base.parquet, after: tuned.parquet}\n"
    )
    plan = read_plan(tmp_path / "made.yaml")
    study = run_study(
        plan,
        Sources(tmp_path, lambda source, _: load_snapshot(source.location)),
        on_pair=lambda *_: None,
    )
    text = study_markdown(study)
    assert "## Passages: what it can still predict" in text
    assert "| one | 4 | 1.150 | 1.650 | +0.500 (+0.500 to +0.500) |" in text
    assert "How far it moved" not in text
    (pair,) = study.compared
    moved = replace(
        study, results=(replace(pair, comparison=replace(pair.comparison, drift={"probe": MOVED})),)
    )
    text = study_markdown(moved)
    assert "## How far it moved from the base" in text
    assert "| one, probe prompts | 0.060 (0.040 to 0.080) | – | 0.80 | – |" in text
    assert (
        publication.study_json(moved)["stages"][0]["pairs"][0]["drift"]["probe"]["kl_sampled"]
        == 0.06
    )
    publication.write_numbers(moved, tmp_path / "out")
    page = (tmp_path / "out" / "study.html").read_text()
    assert page.count("<td>0.060 (0.040 to 0.080)</td>") == 1
    assert "<td>1.650</td>" in page


def test_a_merge_has_the_table_of_passages() -> None:
    sweep = made_sweep()
    assert "Passages" not in merge_markdown(sweep)
    found = compare(
        before=read_measure_tables(bits=BITS),
        after=read_measure_tables(bits=[bits + 0.5 for bits in BITS]),
    )
    points = tuple(replace(point, from_a=found, from_b=found) for point in sweep.chosen_on.points)
    with_texts = replace(sweep, chosen_on=replace(sweep.chosen_on, points=points))
    row = "0.2, against tuned"
    assert f"| {row} | 4 | 1.150 | 1.650 |" in merge_markdown(with_texts)
    assert f"<bdi>{row}</bdi></th><td>4</td><td>1.150</td><td>1.650</td>" in merge_page(with_texts)


def test_a_measure_that_no_comparison_has_makes_no_table() -> None:
    found = compare(before=read_measure_tables(bits=BITS), after=read_measure_tables(bits=BITS))
    ((title, headings, rows),) = measure_tables([("a", found), ("b", found)])
    assert title.startswith("Passages")
    assert headings[:2] == ["", "passages"]
    assert [row[0] for row in rows] == ["a", "b"]
    assert measure_tables([]) == []


STUDY = """
probe: chat.jsonl
decoding: {temperature: 0.6, top_p: 0.95, samples: 2, tokens: 3}
allow_prompt_mismatch: true
stages:
  - name: tuning
    pairs:
      - name: made
        before: {path: base, probe: plain.jsonl}
        after: tuned
"""

_LAUNCHED = """
import sys
from forgetwatch.scoring import model
model.CPU_TOKENS = 64
from forgetwatch.cli import main
main()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tok = tmp_path_factory.mktemp("scored"), tokenizer()
    for seed, name in enumerate(("base", "tuned")):
        model(tok, seed=seed).save_pretrained(folder / name)
        tok.save_pretrained(folder / name)
    chat = probe(12, scoring="generate", rendering="chat")
    chat.save(folder / "chat.jsonl")
    probe(12, scoring="generate").save(folder / "plain.jsonl")
    probe(40).save(folder / "scored.jsonl")
    (folder / "study.yaml").write_text(STUDY)
    pair = "{name: made, before: base, after: tuned}"
    (folder / "launched.yaml").write_text(
        f"probe: scored.jsonl\nstages: [{{name: tuning, pairs: [{pair}]}}]\n"
    )
    (folder / "launched.py").write_text(_LAUNCHED)
    return folder


def test_each_side_is_sampled_in_its_own_rendering_and_kept(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "cache"))
    arguments = ["study", str(saved / "study.yaml"), "-o", str(saved / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    kept = {
        path.name.split("-")[0]: load_snapshot(path)
        for path in (saved / "out" / "snapshots").iterdir()
    }
    for name, rendering in (("base", "plain"), ("tuned", "chat")):
        settings = kept[name].meta["probe"]
        assert settings["rendering"] == rendering
        decoding = settings["decoding"]
        assert (decoding["temperature"], decoding["top_p"], decoding["samples"]) == (0.6, 0.95, 2)
    (pair,) = json.loads((saved / "out" / "study.json").read_text())["stages"][0]["pairs"]
    assert (pair["samples"], pair["items"]["compared"]) == (2, 12)
    # Again without the cache, and with no model to load.
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "empty"))
    monkeypatch.setattr("forgetwatch.scoring.cached_score.load_model", None)
    before = (saved / "out" / "study.json").read_text()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (saved / "out" / "study.json").read_text() == before


def test_a_merged_side_has_the_outcomes_of_the_averaged_weights(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "cache-merged"))
    averaged, tok = model(tokenizer(), seed=0), tokenizer()
    other = model(tok, seed=1).state_dict()
    mixed = {
        name: 0.7 * tensor + 0.3 * other[name] for name, tensor in averaged.state_dict().items()
    }
    averaged.load_state_dict(mixed)
    (saved / "merged.yaml").write_text(
        (MODELS + "\nstages:\n  - name: m\n    pairs:\n      - %s\n") % (MERGE % ".3")
    )
    probe(40).save(saved / "p.jsonl")
    done = CliRunner().invoke(
        app, ["study", str(saved / "merged.yaml"), "-o", str(saved / "merged")]
    )
    assert done.exit_code == 0, done.output
    (pair,) = json.loads((saved / "merged" / "study.json").read_text())["stages"][0]["pairs"]
    expected = compare(
        before=score(model(tok, seed=0), tok, probe(40)), after=score(averaged, tok, probe(40))
    ).all
    group = pair["groups"][0]
    assert (group["n"], group["forgotten"], group["gained"]) == (
        40,
        expected.forgotten,
        expected.gained,
    )
    assert expected.forgotten + expected.gained > 0
    assert pair["after"] == ["base with 0.3 of tuned"]


def test_two_processes_write_the_study_of_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["launched.py", "study", "launched.yaml", "-o", "both"]
    both = launched(command, cwd=saved, FORGETWATCH_CACHE=str(saved / "cache-both"))
    assert [one.returncode for one in both] == [0, 0], both
    assert "pair 1 of 1, made" in both[0].stderr
    assert not both[1].stdout + both[1].stderr, "the second process prints nothing"
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "cache-alone"))
    done = CliRunner().invoke(
        app, ["study", str(saved / "launched.yaml"), "-o", str(saved / "alone")]
    )
    assert done.exit_code == 0, done.output
    one, other = (
        json.loads((saved / name / "study.json").read_text()) for name in ("both", "alone")
    )
    counts = [
        [
            (group["name"], group["n"], group["forgotten"], group["gained"])
            for group in pair["groups"]
        ]
        for document in (one, other)
        for pair in document["stages"][0]["pairs"]
    ]
    assert counts[0] == counts[1]
    assert counts[0][0][1] == 40


def test_a_model_whose_logits_are_not_finite_is_named_with_its_tensor(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    name, broken = "model.layers.0.input_layernorm.weight", saved / "broken"
    shutil.copytree(saved / "tuned", broken)
    weights = load_file(broken / "model.safetensors")
    weights[name][:3] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    study = (saved / "launched.yaml").read_text().replace("after: tuned", "after: broken")
    (saved / "broken.yaml").write_text(study)
    done = CliRunner().invoke(
        app, ["study", str(saved / "broken.yaml"), "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 1
    assert (
        f"forgetwatch: not compared: made: {broken}: the model's outputs are not finite ("
        in done.stderr
    )
    assert f"; its tensor {name} holds NaN (3 of " in done.stderr
    items = str(saved / "scored.jsonl")
    command = ["score", str(broken), "--probe", items, "-o", str(tmp_path / "s.parquet")]
    failed = CliRunner().invoke(app, command)
    assert str(failed.exception).startswith(f"{broken}: the model's outputs are not finite ("), (
        failed.output
    )
    assert "diverged" not in done.stderr


def test_folders_of_logs_of_a_base_and_of_three_seeds_are_a_pair(tmp_path: Path) -> None:
    """As configs/paper.sh writes them: scored tasks alike in each seed, and those that are sampled."""
    for side, seeds in (("base/org/a", [None]), ("tuned/org/b", [0, 1, 2])):
        for seed in seeds:
            folder = tmp_path / "logs" / side / ("" if seed is None else f"seed-{seed}")
            wrong = 0 if seed is None else 6 + 2 * seed
            scores = [
                (0.0, -1.0) if number >= (0 if seed is None else 4) else (-1.0, 0.0)
                for number in range(20)
            ]
            rows = [choice_row(number, one, 0) for number, one in enumerate(scores)]
            write_samples(folder, "hellaswag", rows)
            rows = [
                open_row(number, "x", {"exact_match": float(number >= wrong)})
                for number in range(20)
            ]
            write_samples(folder, "ifeval", rows)
    after = ", ".join(f"logs/tuned/org/b/seed-{seed}" for seed in range(3))
    pair = f"{{name: b, before: logs/base/org/a, after: [{after}]}}"
    path = study_file(tmp_path, pair, top="allow_prompt_mismatch: true\nchance: paper-compat")
    status, shown, failed = run(path, "-o", tmp_path / "out")
    assert (status, "b" in shown) == (0, True), failed
    groups = {one["name"]: one for one in pairs_of(document(tmp_path / "out"))["b"]["groups"]}
    assert groups["all"]["forgotten"] == pytest.approx(4 + 8)  # mean over the seeds

"""`forgetwatch probe plan`: numbers of the published table, and refusals."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support import decided, probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Item, Probe
from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError
from forgetwatch.metrics import alarm_level, detectable_change, detectable_estimate, detectable_known_lost
from forgetwatch.snapshot import save_snapshot


def plan(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["probe", "plan", *arguments])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 100
    return done.stdout


def test_items_for_a_change_and_the_change_that_items_show() -> None:
    lines = [line.split()[-3:] for line in plan("--items", "2000", "--change", "2%").splitlines()]
    assert lines[2] == ["979", "1,960", "3,923"]  # Connor, two-sided 5 %, 80 % power
    assert lines[3] == ["490", "980", "1,962"]  # with scores half of the variance
    assert lines[5] == ["1.0", "1.4", "2.0"]
    looks = [float(cell) for cell in lines[7]]  # an alarm needs more: .05 over twenty looks, one-sided
    level = 2 * alarm_level(1, groups=1, planned=20)
    wanted = [100 * detectable_estimate(2000, psi, alpha=level) for psi in (0.05, 0.10, 0.20)]
    assert looks == pytest.approx(wanted, abs=0.051)


def test_items_with_scores_show_known_and_lost_questions() -> None:
    lines = plan("--items", "2000").splitlines()
    rows = {title: row.split()[-3:] for title, row in pairwise(lines)}
    known = [float(n) for n in rows["fewest clearly known and lost, without lucky guesses, that it shows"]]
    assert known == [math.ceil(detectable_known_lost(2000, flips)) for flips in (0.05, 0.10, 0.20)]
    assert "alarm at each of 20 looks: all at p 0.0025" in lines
    assert lines[-1] == "scored items: half of the variance of the flips is taken, the least measured"


def test_half_of_the_alarm_is_that_of_the_whole_and_the_categories_share_the_rest(tmp_path: Path) -> None:
    probe(60).save(tmp_path / "p.jsonl")
    text = plan("--probe", str(tmp_path / "p.jsonl"), "--looks", "10")
    assert "alarm at each of 10 looks: all at p 0.0025, 2 categories at p 0.0013" in text


def test_items_without_options_are_planned_by_flips(tmp_path: Path) -> None:
    items = [Item(id=str(i), task="t", prompt=f"{i} + 1?", answer=str(i + 1), match="number") for i in range(300)]
    Probe(items, name="open").save(tmp_path / "p.jsonl")
    text = plan("--probe", str(tmp_path / "p.jsonl"))
    assert "known" not in text
    assert "scored items" not in text
    seen = [f"{100 * detectable_change(300, psi):.1f}" for psi in (0.05, 0.10, 0.20)]
    assert text.splitlines()[5].split()[-3:] == seen


def test_two_options_show_no_known_and_few_items_are_tested_by_flips(tmp_path: Path) -> None:
    two = [Item(id=str(i), task="t", prompt=f"{i}?", choices=(" yes", " no"), answer=i % 2) for i in range(49)]
    Probe(two, name="two").save(tmp_path / "p.jsonl")
    text = plan("--probe", str(tmp_path / "p.jsonl"))
    assert "known and lost" not in text  # with one wrong option no answer can move to another
    assert text.count("too few flips") >= 3


def test_each_category_of_a_probe_has_a_line(tmp_path: Path) -> None:
    probe(60).save(tmp_path / "p.jsonl")
    lines = [line.split() for line in plan("--probe", str(tmp_path / "p.jsonl"), "--flips", "30%").splitlines()]
    assert ["toy", "60"] in [line[:2] for line in lines]
    assert {"a", "b"} <= {line[0] for line in lines if line}


def test_a_change_larger_than_the_flips_is_said_to_be_impossible() -> None:
    assert "impossible" in plan("--change", "10%", "--flips", "0.05")
    assert "too few flips" in plan("--items", "20")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--change", "much"], "--change: needed a share above 0 and below 1, such as 2% or 0.02, got 'much'"),
        (["--change", "0"], "--change"),
        (["--flips", "120%"], "--flips"),
        (["--items", "0"], "--items: needed at least one item"),
        (["--power", "100%"], "--power"),
        (["--power", "2%"], "--power: needed at least 50%"),
        (["--looks", "0"], "--looks"),
        (["--items", "5", "--probe", "demo"], "exclude each other"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["probe", "plan", *arguments], env={"COLUMNS": "300", "TERM": "dumb"})
    assert done.exit_code == 2
    assert says in done.output


def test_a_probe_that_is_not_there_is_one_clear_error() -> None:
    error = CliRunner().invoke(app, ["probe", "plan", "--probe", "nowhere.jsonl"]).exception
    assert isinstance(error, ForgetwatchError)
    assert "no such file" in str(error)


def test_outcomes_of_a_base_give_the_verdicts_to_expect(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(-3.0, 2.0, (600, 4)) + np.array([2.0, 0.0, 0.0, 0.0])
    save_snapshot(decided(scores), tmp_path / "base.parquet")
    told = " ".join(plan("--items", "600", "--base", str(tmp_path / "base.parquet")).split())
    kept, forgot = map(int, re.findall(r"in about (\d+) %", told))
    assert "verdicts: of 600 questions, a harmless training will read KEPT in about " in told
    assert "one that loses 4 points FORGOT in about " in told
    assert kept > 50 > 100 - forgot
    save_snapshot(snapshot([True] * 60), tmp_path / "plain.parquet")
    told = plan("--items", "60", "--base", str(tmp_path / "plain.parquet"))
    assert "most answers of the base have no scores of options" in " ".join(told.split())

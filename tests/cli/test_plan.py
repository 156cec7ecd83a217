"""`forgetwatch plan`: numbers of the published table, and refusals."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from support import probe
from typer.testing import CliRunner

from forgetwatch import Item, Probe
from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError
from forgetwatch.metrics import DELTA, detectable_known_lost, log_score_sd


def plan(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", *arguments])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_items_for_a_change_and_the_change_that_items_see() -> None:
    lines = [line.split()[-3:] for line in plan("--items", "2000", "--change", "2%").splitlines()]
    assert lines[2] == ["979", "1,960", "3,923"]  # Connor, two-sided 5 %, 80 % power
    assert lines[5] == ["1.4", "2.0", "2.8"]
    looks = [float(cell) for cell in lines[7]]  # an alarm needs more: .025 over twenty looks, one-sided
    assert looks == pytest.approx([1.9, 2.7, 3.9], abs=0.15)


def test_items_with_scores_see_known_and_lost_questions_and_the_log_score() -> None:
    lines = plan("--items", "2000").splitlines()
    rows = {title: row.split()[-3:] for title, row in pairwise(lines)}
    known = [float(n) for n in rows["smallest net of known and lost that one comparison sees, questions"]]
    assert known == [math.ceil(detectable_known_lost(2000, flips)) for flips in (0.05, 0.10, 0.20)]
    seen = [float(nats) for nats in rows["smallest change of the log score that one comparison sees, nats"]]
    assert seen == pytest.approx([2.8 * log_score_sd(psi) / 2000**0.5 for psi in (0.05, 0.10, 0.20)], abs=6e-4)
    fading = [float(nats) for nats in rows["smallest fading that one look alarms on, nats"]]
    # An alarm needs more than one comparison, and more than the tolerated fall.
    assert all(alarmed - DELTA > one for alarmed, one in zip(fading, seen, strict=True))
    assert "alarm at p 0.0013" in lines[-2]  # half of .05 over twenty looks: fading has the other half


def test_items_without_options_have_no_log_score_and_all_of_the_alarms(tmp_path: Path) -> None:
    items = [Item(id=str(i), task="t", prompt=f"{i} + 1?", answer=str(i + 1), match="number") for i in range(300)]
    Probe(items, name="open").save(tmp_path / "p.jsonl")
    text = plan("--probe", str(tmp_path / "p.jsonl"))
    assert "log score" not in text
    assert "known" not in text
    assert "alarm at p 0.0025" in text


def test_two_options_and_few_items_are_shown_as_too_few(tmp_path: Path) -> None:
    two = [Item(id=str(i), task="t", prompt=f"{i}?", choices=(" yes", " no"), answer=i % 2) for i in range(49)]
    Probe(two, name="two").save(tmp_path / "p.jsonl")
    text = plan("--probe", str(tmp_path / "p.jsonl"))
    assert "known and lost" not in text  # with one wrong option no answer can move to another
    assert text.count("too few items") == 6  # three shares of flips, one comparison and one look


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
    done = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "300", "TERM": "dumb"})
    assert done.exit_code == 2
    assert says in done.output


def test_a_probe_that_is_not_there_is_one_clear_error() -> None:
    error = CliRunner().invoke(app, ["plan", "--probe", "nowhere.jsonl"]).exception
    assert isinstance(error, ForgetwatchError)
    assert "no such file" in str(error)

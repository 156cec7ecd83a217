"""Conditions on what vanished answers bound are undecided; rows that only one side has are named, and not measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import snapshot
from typer.testing import CliRunner

from forgetwatch.cli import app
from forgetwatch.policy import Sides, apply_policy, parse_policy
from forgetwatch.snapshot import Snapshot, save_snapshot

N = 800
BEFORE = [at < 640 for at in range(N)]


def sides(vanished: int) -> tuple[Snapshot, Snapshot]:
    after = [None if at < vanished else right for at, right in enumerate(BEFORE)]
    return snapshot(BEFORE), snapshot(after)


@pytest.mark.parametrize(
    "condition",
    ["net_change<-2%", "net_change_estimate<-2%", "forgetting>5%", "accuracy_after<50%", "forgotten>20"],
)
@pytest.mark.parametrize("vanished", [0, 5, 320])
def test_a_condition_is_open_beyond_one_percent_vanished(condition: str, vanished: int, tmp_path: Path) -> None:
    before, after = sides(vanished)
    if condition.startswith("net"):  # the others are no limits of a policy
        policy = parse_policy(f'critical: ["{condition}"]', "p")
        answer = apply_policy(policy, Sides(before=before, after=after)).answer
        assert answer == ("INCONCLUSIVE" if vanished > 8 else "PASS")
    for name, side in (("b", before), ("a", after)):
        save_snapshot(side, tmp_path / f"{name}.parquet")
    words = ["compare", str(tmp_path / "b.parquet"), str(tmp_path / "a.parquet"), "--fail-if", condition]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (4 if vanished > 8 else 0), done.output
    assert ("without the answers that vanished" in done.output.replace("\n", " ")) == (vanished > 8)


def test_a_condition_on_what_vanished_itself_decides() -> None:
    before, after = sides(320)
    policy = parse_policy('critical: ["newly_unscored>10"]', "p")
    assert apply_policy(policy, Sides(before=before, after=after)).answer == "FAIL"


def test_rows_that_one_side_alone_has_are_said_and_are_not_all_of_a_group(tmp_path: Path) -> None:
    before = snapshot(BEFORE, category=["Math"] * N)
    save_snapshot(before, tmp_path / "b.parquet")
    save_snapshot(before.head(480), tmp_path / "a.parquet")
    (tmp_path / "p.yaml").write_text("required: [category:Math]\ncritical: ['net_change<-2%']")
    words = ["gate", *(str(tmp_path / f"{name}.parquet") for name in "ba"), "--policy", str(tmp_path / "p.yaml")]
    done = CliRunner().invoke(app, [*words, "--on-mismatch", "intersect"])
    assert "left out: 320 items that one side alone has; 480 are compared" in done.stdout
    assert re.search(r"category:Math required: 480 items, 320 left out", done.stdout)
    assert done.exit_code == 4

"""The trainings of `remedies.py`, with a few steps, and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import remedies


@pytest.fixture(scope="module")
def world() -> remedies.World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forgetwatch.demo.BASE_STEPS", 150)
        return remedies.World()


def test_halves_and_the_new_task_share_no_question(world: remedies.World) -> None:
    names = [{item.id for item in probe} for probe in (world.usable, world.watched, world.new)]
    assert not names[0] & names[1]
    assert not names[2] & (names[0] | names[1])
    assert len(world.rows) == len(names[2])


def test_replayed_rows_hold_no_watched_question(world: remedies.World) -> None:
    texts = world.replay(5, seed=0)
    assert texts
    assert not any(str(item.prompt) in text for item in world.watched for text in texts)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.parametrize("remedy", remedies.DEMO)
def test_each_remedy_trains_and_is_measured(
    world: remedies.World, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "steps", 12)
    monkeypatch.setattr(world, "every", 6)
    found = remedies.cell(world, remedy, 0, tmp_path)
    assert found["looks"][-1]["step"] == (16 if "25" in remedy else 13 if "5 %" in remedy else 12)
    assert all(0 <= look["new"] <= 1 and 0 <= look["lost"] <= 1 for look in found["looks"])
    assert ("merged" in found) == (remedy == "nothing")


def test_the_table_pairs_by_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def made(remedy: str, seed: int, lost: float) -> str:
        return json.dumps(
            {"remedy": remedy, "seed": seed, "looks": [{"step": 15, "new": 0.95, "lost": lost}]}
        )

    rows = [
        made("nothing", 0, 0.4),
        made("nothing", 1, 0.6),
        made("LoRA", 0, 0.3),
        made("LoRA", 1, 0.5),
    ]
    (tmp_path / "cells.jsonl").write_text("\n".join(rows))
    remedies.table(tmp_path)
    assert "| LoRA | 95.0 % | 40.0 % | -10.0 (-10.0 to -10.0) | 40.0 % |" in capsys.readouterr().out

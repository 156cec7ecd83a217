"""A few damages from a seed, read and resumed; `damage.py` makes thousands."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import damage
import pytest
from damages import CLASSES, World

from forgetwatch import Trajectory
from forgetwatch.run_folder import Description, contents

SEED = 11


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return damage.make_world(tmp_path_factory.mktemp("world"), seed=SEED, items=24)


@pytest.fixture(scope="module")
def truth(world: World) -> damage.Truth:
    return damage.Truth(world.run)


def one(world: World, place: Path, truth: damage.Truth, name: str, *, seed: int = SEED) -> damage.Outcome:
    """Outcome of one damage of a class."""
    rng = random.Random(seed)
    shutil.copytree(world.run, place)
    damaged = damage.damage_folder(place, [name], rng, world)
    return damage.attempt(lambda: damage.read(place, truth, damaged))


def test_the_undamaged_run_has_all_that_can_be_damaged(world: World, truth: damage.Truth) -> None:
    run = Trajectory.from_run(world.run)
    assert (len(run), run.planned, run.notes) == (1 + damage.LOOKS, damage.LOOKS, ())
    assert len(run.findings) == 1
    assert truth.again == (60, 120)
    assert len({found.all.forgotten for found in run.comparisons}) > 5
    private = [item for item in truth.questions.values() if "private" in item.tags]
    assert len(private) == 1


@pytest.mark.parametrize("name", CLASSES)
def test_a_damaged_run_folder_is_read_right_or_refused(
    name: str, world: World, truth: damage.Truth, tmp_path: Path
) -> None:
    found = one(world, tmp_path / "run", truth, name)
    assert found.name in ("same", "noted", "refused"), found.detail


def test_a_reader_without_its_checks_is_found(
    world: World, truth: damage.Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "_check", lambda *_, **__: None)
    monkeypatch.setattr(contents, "_holds_questions", lambda *_: True)
    monkeypatch.setattr(Description, "probe_checksum", None)
    wrong = ("replaced by another run's, same probe", "rows forged with a checksum", "probe.jsonl edited")
    for name in wrong:
        found = [one(world, tmp_path / f"{name}{seed}", truth, name, seed=seed).name for seed in range(3)]
        assert set(found) & set(damage.FINDINGS), name


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, damage.Truth]:
    made = damage.make_watched(tmp_path_factory.mktemp("watched"), seed=SEED)
    return made, damage.Truth(made.run)


def test_a_run_resumes_right_in_a_damaged_folder(watched: tuple[World, damage.Truth], tmp_path: Path) -> None:
    seen = set()
    for number in range(6):
        classes, found = damage.resume_case(SEED, number, *watched, tmp_path)
        assert found.name in ("same", "noted", "refused"), (number, classes, found.detail)
        seen.add(found.name)
    assert "noted" in seen

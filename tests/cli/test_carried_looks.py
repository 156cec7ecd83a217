"""Checkpoints of a watched run carry their looks: comparing them needs no probe, and no model is loaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from commands import Run
from support import model, probe, tokenizer, trained
from transformers import AutoModelForCausalLM

from forgetwatch import ForgetWatchCallback, Trajectory

SAVES = {"save_strategy": "steps", "save_steps": 3, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base and a run that began with it."""
    folder = tmp_path_factory.mktemp("saved")
    tok = tokenizer()
    model(tok).save_pretrained(folder / "base")
    tok.save_pretrained(folder / "base")
    network = AutoModelForCausalLM.from_pretrained(folder / "base")
    watch = ForgetWatchCallback(probe(), every=3, max_overhead=None)
    trained(folder / "run", network=network, tok=tok, callbacks=[watch], steps=6, **SAVES)
    return folder


def test_a_base_and_a_checkpoint_are_compared_by_what_the_checkpoint_carries(saved: Path, command: Run) -> None:
    whole = Trajectory.from_run(saved / "run").comparisons[-1].all
    shown = command("compare", str(saved / "base"), str(saved / "run" / "checkpoint-6"))
    assert f"{whole.forgotten} of 30 forgotten, {whole.gained} gained" in shown.stdout
    assert f"{saved / 'base'}: the baseline that {saved / 'run' / 'checkpoint-6'} carries" in shown.stderr
    assert "its own look, without scoring it again (--probe scores it)" in shown.stderr
    assert "loading torch" not in shown.stderr


def test_two_checkpoints_are_compared_and_their_questions_are_those_of_the_run(saved: Path, command: Run) -> None:
    sides = [str(saved / "run" / f"checkpoint-{step}") for step in (3, 6)]
    assert " against " in command("compare", *sides).stdout
    shown = command("flips", str(saved / "base"), sides[1]).stdout
    assert "Q : " in shown


def test_a_checkpoint_of_another_base_or_without_a_look_needs_a_probe(
    saved: Path, command: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(saved / "base", other)
    missing = command("compare", str(other), str(saved / "run" / "checkpoint-6"))
    assert (missing.status, missing.last) == (
        1,
        f"forgetwatch: {other}: a model folder without a look of its own, which needs --probe to be scored",
    )
    bare = tmp_path / "checkpoint-6"
    shutil.copytree(saved / "run" / "checkpoint-6", bare, ignore=shutil.ignore_patterns("forgetwatch"))
    assert "without a look of its own" in command("compare", str(saved / "base"), str(bare)).last


def test_a_base_that_was_written_again_is_not_taken_for_the_baseline(saved: Path, command: Run) -> None:
    config = saved / "base" / "config.json"
    before = config.stat()
    try:
        os.utime(config, (before.st_atime, before.st_mtime + 3600))
        done = command("compare", str(saved / "base"), str(saved / "run" / "checkpoint-6"))
    finally:
        os.utime(config, (before.st_atime, before.st_mtime))
    assert "without a look of its own, which needs --probe" in done.last


def test_a_checkpoint_without_a_look_is_scored_on_the_items_of_its_run(
    saved: Path, command: Run, tmp_path: Path
) -> None:
    sides = [str(saved / "run" / f"checkpoint-{step}") for step in (3, 6)]
    whole = command("compare", *sides).stdout.splitlines()[1:4]
    shutil.copytree(saved / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint-3" / "forgetwatch")
    shown = command("compare", *(side.replace(str(saved), str(tmp_path)) for side in sides))
    assert "checkpoint-3: no look of its own; it is scored on the items of its run" in shown.stderr
    assert shown.stdout.splitlines()[1:4] == whole

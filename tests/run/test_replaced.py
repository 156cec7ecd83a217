"""Checkpoints that are not what they were: trained again in place, resumed elsewhere, of two trainings, exchanged."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import saved_runs as runs
import torch
from peft import LoraConfig, get_peft_model
from saved_runs import At, described, interrupt
from support import model, probe, tokenizer, trained, trainer
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.cli import app

pytestmark = pytest.mark.usefixtures("without_pictures")

TOK = tokenizer()
SAVES: dict[str, Any] = {"save_strategy": "steps", "save_steps": 4, "steps": 8}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))


def watched(folder: Path, *, seed: int = 0, **options: Any) -> Any:
    """Train with a look at each fourth step."""
    callback = ForgetWatchCallback(probe(60), every=4, max_overhead=None)
    return trained(
        folder, callbacks=[callback], network=model(TOK, seed=seed), **{**SAVES, **options}
    )


def compared(out: Path, *more: str) -> tuple[dict[str, Any], str]:
    """The counts between two checkpoints, and the lines on the error stream."""
    document = out.parent / "c.json"
    sides = [str(out / "checkpoint-4"), str(out / "checkpoint-8")]
    done = CliRunner().invoke(app, ["compare", *sides, "--json", str(document), *more])
    assert done.exit_code == 0, done.output
    whole = json.loads(document.read_text())["groups"][0]
    return {
        name: whole[name]
        for name in ("n", "forgotten", "gained", "accuracy_before", "accuracy_after")
    }, done.stderr


def trained_again(out: Path) -> None:
    trained(out, network=model(TOK, seed=5), **SAVES)


def weights_exchanged(out: Path) -> None:
    other = model(TOK, seed=6)
    other.save_pretrained(out / "checkpoint-8")


def sharded(out: Path) -> None:
    """Exchange weights that are in shards in a folder of the checkpoint."""
    for step in (4, 8):
        folder = out / f"checkpoint-{step}"
        (folder / "pytorch_model_fsdp_0").mkdir(exist_ok=True)
        torch.save(torch.ones(step), folder / "pytorch_model_fsdp_0" / "__0_0.distcp")


def copied_over(out: Path) -> None:
    shutil.copyfile(
        out / "checkpoint-4" / "model.safetensors", out / "checkpoint-8" / "model.safetensors"
    )


def linked(out: Path) -> None:
    """Put a link to a checkpoint of another training in the place of one."""
    trained(out.parent / "other", network=model(TOK, seed=7), **SAVES)
    kept = out / "checkpoint-8" / "forgetwatch"
    shutil.copytree(kept, out.parent / "other" / "checkpoint-8" / "forgetwatch")
    shutil.rmtree(out / "checkpoint-8")
    (out / "checkpoint-8").symlink_to(out.parent / "other" / "checkpoint-8")


@pytest.mark.parametrize(
    "replace", [trained_again, weights_exchanged, sharded, copied_over, linked]
)
def test_a_checkpoint_with_other_files_is_scored_and_named(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"
    watched(out)
    before, lines = compared(out)
    assert lines.count("its own look, without scoring it again") == 2
    replace(out)
    found, lines = compared(out)
    assert (
        "checkpoint-8: its files are not those of the look that it carries; it is scored on the items of"
        in lines
    )
    probe(60).save(tmp_path / "probe.jsonl")
    truth, _ = compared(out, "--probe", str(tmp_path / "probe.jsonl"))
    assert found == truth
    assert (found == before) == (replace is sharded)


def other_words(out: Path) -> None:
    words = tokenizer(words_of=["another tokenizer of other words"])
    words.save_pretrained(out / "checkpoint-8")


def other_template(out: Path) -> None:
    (out / "checkpoint-8" / "chat_template.jinja").write_text("{{ messages[0].content }}")


def other_look(out: Path) -> None:
    """Put the look of another run into a checkpoint."""
    watched(out.parent / "other", seed=7)
    look = Path("checkpoint-8", "forgetwatch", "step-000008.parquet")
    shutil.copyfile(out.parent / "other" / look, out / look)


def other_base(out: Path) -> None:
    """Exchange the base of an adapter, and leave the times of its files."""
    base = out.parent / "base"
    times = {file: file.stat().st_mtime_ns for file in base.iterdir()}
    model(TOK, seed=7).save_pretrained(base)
    for file, time in times.items():
        os.utime(file, ns=(time, time))


@pytest.mark.parametrize("replace", [other_words, other_template, other_look, other_base])
def test_what_decides_beside_the_weights_is_asked_too(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    out, base = tmp_path / "out", runs.base(tmp_path / "base")
    network = AutoModelForCausalLM.from_pretrained(base)
    if replace is other_base:
        network = get_peft_model(network, LoraConfig(r=4, target_modules="all-linear"))
    trained(out, callbacks=[ForgetWatchCallback(probe(60), every=4)], network=network, **SAVES)
    sides = ["compare", str(base), str(out / "checkpoint-8")]
    assert "the baseline that" in CliRunner().invoke(app, sides).stderr
    replace(out)
    done = CliRunner().invoke(app, sides)
    if replace is other_base:
        assert "base: a model folder without a look of its own, which needs --probe" in str(
            done.exception
        )
        done = CliRunner().invoke(
            app, ["compare", str(out / "checkpoint-4"), str(out / "checkpoint-8")]
        )
    assert (
        "checkpoint-8: its files are not those of the look that it carries; it is scored on"
        in done.stderr
    )


def test_a_resume_elsewhere_leaves_the_history_of_a_foreign_checkpoint(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 3)):
        watched(tmp_path / name, seed=seed)
    history = {
        path.name: path.read_bytes()
        for path in (tmp_path / "b" / "checkpoint-4" / "forgetwatch").iterdir()
    }
    run = described(tmp_path / "b")["run"]
    again = trainer(
        tmp_path / "b",
        callbacks=[ForgetWatchCallback(probe(60), every=4)],
        network=model(TOK),
        **SAVES,
    )
    again.add_callback(At(6, interrupt))  # before the next save
    with pytest.raises(KeyboardInterrupt):
        again.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-4"))
    assert described(tmp_path / "b")["run"] != run
    kept = tmp_path / "b" / "checkpoint-4" / "forgetwatch"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == history


@pytest.mark.parametrize("logs", [True, False])
def test_two_trainings_in_a_folder_are_followed_as_two_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logs: bool
) -> None:
    out, base = tmp_path / "out", runs.base(tmp_path / "base")

    def saved(step: int, loss: float) -> None:
        folder = runs.save(out, step, of=step if loss == 2.0 else step + 50)
        log = [{"step": 1, "loss": loss}] if logs else []
        runs.write_state(
            folder, step, max_steps=8, save_steps=4 if loss == 2.0 else 3, log_history=log
        )

    for step in (4, 8):
        saved(step, 2.0)
    assert runs.followed(out, base).scored == [4, 8]
    for step in (3, 6):
        saved(step, 1.0)
    made = runs.followed(out, base)
    assert "are of another training than checkpoint-" in capsys.readouterr().err
    assert (made.scored, Trajectory.from_run(out).steps) == ([3, 6], (0, 3, 6))
    assert Trajectory.from_run(out / "_forgetwatch_follow-1").steps == (0, 4, 8)

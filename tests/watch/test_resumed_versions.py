"""A run that began with another probe, or an earlier version of the grading rules, and is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import probe as toy
from support import trained, trainer

from forgetwatch import ForgetWatchCallback, Item, Probe, Trajectory, load_probe
from forgetwatch.errors import WatchError
from forgetwatch.grading import RULES
from forgetwatch.scoring import scorer

SAVES = {"save_strategy": "steps", "save_steps": 2}


def old_version() -> Probe:
    """Forty items of `standard` with other prompts."""
    items = [replace(item, prompt=f"Tell me. {item.prompt}") for item in load_probe("standard").head(40)]
    return replace(load_probe("standard"), items=tuple(items))


def new_version(name: str) -> Probe:
    return load_probe(name).head(40)


def train(folder: Path, callback: ForgetWatchCallback, *, steps: int) -> None:
    trainer(folder, steps=steps, callbacks=[callback], **SAVES).train(resume_from_checkpoint=steps > 2)


def test_a_run_with_a_probe_of_the_users_own_is_not_resumed_with_another(tmp_path: Path) -> None:
    train(tmp_path, ForgetWatchCallback(old_version(), every=2), steps=2)
    with pytest.raises(WatchError, match=r"resume with the probe in .*probe\.jsonl"):
        train(tmp_path, ForgetWatchCallback(new_version("standard"), every=2), steps=4)


def test_a_run_whose_answers_were_graded_by_earlier_rules_goes_on_without_generated_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    written = Item(id="w", task="t", prompt="w1 w2", answer="no", match="loops")
    probe = Probe([*load_probe("standard").head(10), written], decoding={"tokens": 4})
    monkeypatch.setattr(scorer, "RULES", 2)
    first = ForgetWatchCallback(probe, every=2, max_overhead=None)
    train(tmp_path, first, steps=2)
    assert first.watch is not None
    assert first.watch.run.generates
    monkeypatch.undo()
    second = ForgetWatchCallback(probe, every=2, max_overhead=None)
    train(tmp_path, second, steps=4)
    assert second.watch is not None
    assert not second.watch.run.generates
    assert second.watch.trajectory().steps == (0, 2, 4)
    assert f"by version 2 of the grading rules, and this forgetwatch has version {RULES}" in capfd.readouterr().err


def test_a_generated_must_pass_item_is_left_out_under_other_rules_and_later_looks_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    written = Item(id="w", task="t", prompt="w1 w2", answer="no", match="loops", must_pass=True)
    probe = Probe([*toy(10), written], decoding={"tokens": 4})
    monkeypatch.setattr(scorer, "RULES", 2)
    train(tmp_path, ForgetWatchCallback(probe, every=2, max_overhead=None), steps=2)
    monkeypatch.undo()
    for steps in (4, 6):  # the second resume finds out again that the rules differ
        callback = ForgetWatchCallback(probe, every=2, max_overhead=None)
        train(tmp_path, callback, steps=steps)
        assert callback.watch is not None
        assert {step: one.all.n for step, one in callback.watch.comparisons.items()} == dict.fromkeys(
            range(0, steps + 1, 2), 10
        )
    logged = capfd.readouterr().err
    assert logged.count("no more answers are generated, also not to must_pass items, and the other items are") == 2
    assert "failed" not in logged
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4, 6)


def test_a_run_of_generated_answers_alone_is_trained_on_without_looks_under_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    items = [Item(id=f"w{n}", task="t", prompt=f"w{n} w2", answer="no", match="loops") for n in range(4)]
    probe = Probe(items, decoding={"tokens": 4})
    monkeypatch.setattr(scorer, "RULES", 2)
    train(tmp_path, ForgetWatchCallback(probe, every=2), steps=2)
    monkeypatch.undo()
    capfd.readouterr()
    callback = ForgetWatchCallback(probe, every=2)
    run = trained(tmp_path, steps=4, callbacks=[callback], **SAVES, resume=True)
    assert run.state.global_step == 4
    assert callback.watch.trajectory().steps == (0, 2)
    logged = capfd.readouterr().err
    assert logged.count("no other items are left, so no more looks are taken, and the training continues") == 1
    assert "failed" not in logged
    assert "looks planned" not in logged

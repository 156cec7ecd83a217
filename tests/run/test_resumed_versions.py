"""A run that began with another probe, or an earlier version of the grading rules, and is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import trainer

from forgetwatch import ForgetWatchCallback, Item, Probe, load_probe
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


def test_a_run_whose_answers_were_graded_by_other_rules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Item(id="w", task="t", prompt="w1 w2", answer="no", match="loops")
    probe = Probe([*load_probe("standard").head(10), written], decoding={"tokens": 4})
    monkeypatch.setattr(scorer, "RULES", 2)
    train(tmp_path, ForgetWatchCallback(probe, every=2, max_overhead=None), steps=2)
    monkeypatch.undo()
    with pytest.raises(
        WatchError, match=f"by version 2 of the grading rules, and this forgetwatch has version {RULES}"
    ):
        train(tmp_path, ForgetWatchCallback(probe, every=2, max_overhead=None), steps=4)

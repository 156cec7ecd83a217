"""A callback that is given no probe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import tokenizer, trained, trainer

from forgetwatch import ForgetWatchCallback, load_probe
from forgetwatch.errors import WatchError
from forgetwatch.probe import combine
from forgetwatch.run import callback, default_probe

TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"


def test_the_default_probe_is_standard_and_behaviour_where_generating_is_cheap() -> None:
    chat, plain = tokenizer(), tokenizer()
    chat.chat_template, plain.chat_template = TEMPLATE, None
    assert default_probe(chat, fast=True)[0].name == "standard+behaviour"
    assert default_probe(chat, fast=False)[0].name == default_probe(plain, fast=True)[0].name == "standard"
    assert "needs a chat template" in default_probe(plain, fast=True)[1]


def test_resume_keeps_the_probe() -> None:
    plain = tokenizer()
    plain.chat_template = None
    both = combine(load_probe("standard"), load_probe("behaviour"))
    assert default_probe(plain, fast=False, fingerprint=both.fingerprint)[0].name == "standard+behaviour"
    chat = tokenizer()
    chat.chat_template = TEMPLATE
    assert default_probe(chat, fast=True, fingerprint=load_probe("standard").fingerprint)[0].name == "standard"


def test_a_resume_with_another_norm_than_the_run_began_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(callback, "load_probe", lambda name: load_probe(name).head(40))
    options = {"save_strategy": "steps", "save_steps": 2}
    old = replace(load_probe("standard").head(40), norm="bytes")
    trainer(tmp_path, steps=2, callbacks=[ForgetWatchCallback(old, every=2)], **options).train()
    capfd.readouterr()
    resumed = trainer(tmp_path, steps=4, callbacks=[ForgetWatchCallback(every=2)], **options)
    with pytest.raises(WatchError, match=r"the run's baseline was made with probe .* resume with the probe in .*probe"):
        resumed.train(resume_from_checkpoint=True)


def test_no_file_and_no_network_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "load_probe", lambda name: load_probe(name).head(40))
    trained(tmp_path, steps=2, callbacks=[ForgetWatchCallback(every=2, max_overhead=None)])
    described = json.loads((tmp_path / "_forgetwatch" / "run.json").read_text())
    assert (described["probe"]["name"], described["probe"]["items"]) == ("standard", 40)
    assert [look["step"] for look in described["looks"]] == [2]

"""Studies of models: each is scored once, by its own probe, in one process or in several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from ranks import launched
from safetensors.torch import load_file, save_file
from support import model, probe, tokenizer
from typer.testing import CliRunner

from forgetwatch import load_snapshot
from forgetwatch.cli import app

STUDY = """
probe: chat.jsonl
decoding: {temperature: 0.6, top_p: 0.95, samples: 2, tokens: 3}
allow_prompt_mismatch: true
stages:
  - name: tuning
    pairs:
      - name: made
        before: {path: base, probe: plain.jsonl}
        after: tuned
"""

_LAUNCHED = """
import sys
from forgetwatch.scoring import model
model.CPU_TOKENS = 64
from forgetwatch.cli import main
main()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tok = tmp_path_factory.mktemp("scored"), tokenizer()
    for seed, name in enumerate(("base", "tuned")):
        model(tok, seed=seed).save_pretrained(folder / name)
        tok.save_pretrained(folder / name)
    chat = probe(12, scoring="generate", rendering="chat")
    chat.save(folder / "chat.jsonl")
    probe(12, scoring="generate").save(folder / "plain.jsonl")
    probe(40).save(folder / "scored.jsonl")
    (folder / "study.yaml").write_text(STUDY)
    pair = "{name: made, before: base, after: tuned}"
    (folder / "launched.yaml").write_text(f"probe: scored.jsonl\nstages: [{{name: tuning, pairs: [{pair}]}}]\n")
    (folder / "launched.py").write_text(_LAUNCHED)
    return folder


def test_each_side_is_sampled_in_its_own_rendering_and_kept(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "cache"))
    arguments = ["study", str(saved / "study.yaml"), "-o", str(saved / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    kept = {path.name.split("-")[0]: load_snapshot(path) for path in (saved / "out" / "snapshots").iterdir()}
    for name, rendering in (("base", "plain"), ("tuned", "chat")):
        settings = kept[name].meta["probe"]
        assert settings["rendering"] == rendering
        decoding = settings["decoding"]
        assert (decoding["temperature"], decoding["top_p"], decoding["samples"]) == (0.6, 0.95, 2)
    (pair,) = json.loads((saved / "out" / "study.json").read_text())["stages"][0]["pairs"]
    assert (pair["samples"], pair["items"]["compared"]) == (2, 12)
    # Again without the cache, and with no model to load.
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "empty"))
    monkeypatch.setattr("forgetwatch.scoring.loading.load_model", None)
    before = (saved / "out" / "study.json").read_text()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (saved / "out" / "study.json").read_text() == before


def test_two_processes_write_the_study_of_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["launched.py", "study", "launched.yaml", "-o", "both"]
    both = launched(command, cwd=saved, FORGETWATCH_CACHE=str(saved / "cache-both"))
    assert [one.returncode for one in both] == [0, 0], both
    assert "pair 1 of 1, made" in both[0].stderr
    assert not both[1].stdout + both[1].stderr, "the second process prints nothing"
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved / "cache-alone"))
    done = CliRunner().invoke(app, ["study", str(saved / "launched.yaml"), "-o", str(saved / "alone")])
    assert done.exit_code == 0, done.output
    one, other = (json.loads((saved / name / "study.json").read_text()) for name in ("both", "alone"))
    counts = [
        [(group["name"], group["n"], group["forgotten"], group["gained"]) for group in pair["groups"]]
        for document in (one, other)
        for pair in document["stages"][0]["pairs"]
    ]
    assert counts[0] == counts[1]
    assert counts[0][0][1] == 40


def test_a_model_whose_logits_are_not_finite_is_named_with_its_tensor(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    name, broken = "model.layers.0.input_layernorm.weight", saved / "broken"
    shutil.copytree(saved / "tuned", broken)
    weights = load_file(broken / "model.safetensors")
    weights[name][:3] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    study = (saved / "launched.yaml").read_text().replace("after: tuned", "after: broken")
    (saved / "broken.yaml").write_text(study)
    done = CliRunner().invoke(app, ["study", str(saved / "broken.yaml"), "-o", str(tmp_path / "out")])
    assert done.exit_code == 1
    why = f"{broken}: the model's logits are not finite; its tensor {name} holds NaN (3 of "
    assert f"forgetwatch: not compared: made: {why}" in done.stderr
    items = str(saved / "scored.jsonl")
    command = ["score", str(broken), "--probe", items, "-o", str(tmp_path / "s.parquet")]
    failed = CliRunner().invoke(app, command)
    assert str(failed.exception).startswith(why), failed.output
    assert "diverged" not in done.stderr

"""A ladder in a training: at the levels of its model, and at the same levels in all that continues it."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, snapshot, tokenizer, trained
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from forgetwatch import (
    ForgetWatchCallback,
    Probe,
    Snapshot,
    Trajectory,
    compare,
    load_probe,
    load_snapshot,
    score,
)
from forgetwatch.cli import app
from forgetwatch.comparing.trajectory import this_stage
from forgetwatch.errors import ProbeError
from forgetwatch.probes import ladder
from forgetwatch.probes.named import load_tasks
from forgetwatch.run import known_baseline, questions
from forgetwatch.run.watch import Watch
from forgetwatch.run_folder.contents import run_probe

pytestmark = pytest.mark.usefixtures("without_pictures")

SAVES: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "steps": 4}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ladders of 100 questions, chosen by 80."""
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    for name, number in (("TRIED", 80), ("_OF_STANDARD", 40), ("_OF_KIND", 6)):
        monkeypatch.setattr(ladder, name, number)
    for cached in (ladder.at_named, ladder._tried):
        cached.cache_clear()
    yield
    for cached in (ladder.at_named, ladder._tried):
        cached.cache_clear()


@cache
def words() -> Any:
    """A tokenizer that knows the words of the shorter questions."""
    some = [
        item
        for name in ("ladder", "standard")
        for item in load_probe(name)
        if len(str(item.prompt)) < 600
    ]
    return tokenizer(
        words_of=[f"{item.shots} {item.prompt} {' '.join(item.choices)}" for item in some]
    )


def network(seed: int = 0) -> Any:
    return model(words(), seed=seed, positions=512)


def knowing(levels: int) -> Any:
    """A stand-in for the answers of a model: right up to a level."""

    def asked(model: Any, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> Snapshot:
        tasks = [item.task for item in probe]
        return snapshot([int(task[-1]) <= levels for task in tasks], task=tasks)

    return asked


def train(folder: Path, *, net: Any = None, probe: str | None = None, **options: Any) -> Any:
    named = {name: options.pop(name) for name in ("baseline", "items") if name in options}
    made = ForgetWatchCallback(probe, every=2, max_overhead=None, **named)
    return trained(
        folder, callbacks=[made], network=net or network(), tok=words(), **{**SAVES, **options}
    )


def name_of(folder: Path) -> str:
    found = run_probe(folder)
    assert found is not None
    return found.name


def test_a_ladder_is_asked_at_the_levels_of_the_model_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "asked", knowing(5))
    train(tmp_path / "a", probe="ladder")
    said = capfd.readouterr().err
    assert "ladder: chain 5, compared 5, date 5" in said
    assert "by 300 questions that are compared nowhere" in said
    assert name_of(tmp_path / "a") == "ladder-5555555555"
    found = run_probe(tmp_path / "a")
    assert found is not None
    assert len(found) == 100


def test_a_resumed_run_and_a_later_stage_keep_the_levels_whatever_the_model_answers_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "asked", knowing(5))
    train(tmp_path / "a", probe="ladder")
    monkeypatch.setattr(questions, "asked", knowing(2))
    train(tmp_path / "a", probe="ladder", steps=6, resume=True)
    assert name_of(tmp_path / "a") == "ladder-5555555555"
    assert Trajectory.from_run(tmp_path / "a").steps == (0, 2, 4, 6)
    later = AutoModelForCausalLM.from_pretrained(
        tmp_path / "a" / "checkpoint-6", dtype=torch.float32
    )
    train(tmp_path / "b", net=later, probe="ladder")
    run = Trajectory.from_run(tmp_path / "b")
    assert (name_of(tmp_path / "b"), run.number) == ("ladder-5555555555", 2)
    assert run.comparisons[-1].all.n == this_stage(run).comparisons[-1].all.n


def test_the_questions_that_choose_are_asked_once_of_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_baseline, "KEPT_SECONDS", 0.0)
    train(tmp_path / "a", probe="ladder")
    first = name_of(tmp_path / "a")
    monkeypatch.setattr(
        known_baseline.KnownBaseline,
        "write",
        lambda *given, **options: pytest.fail("measured again"),
    )
    train(tmp_path / "b", probe="ladder")
    assert name_of(tmp_path / "b") == first


def test_bases_of_unlike_levels_are_compared_over_the_questions_that_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = (load_probe(f"ladder-{level * 10}") for level in "34")
    shared = {item.content_hash for item in low} & {item.content_hash for item in high}
    found = compare(before=score(network(), words(), low), after=score(network(1), words(), high))
    assert len(shared) == 40
    assert found.all.n <= 40
    assert (found.items.only_before, found.items.only_after) == (60, 60)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for name, seed in (("base", 0), ("tuned", 1)):
        network(seed).save_pretrained(tmp_path / name)
        words().save_pretrained(tmp_path / name)
    return tmp_path


def said(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_line_fits_a_ladder_to_the_model_before_and_takes_the_levels_of_its_outcomes(
    saved: Path,
) -> None:
    base, tuned, file = (str(saved / name) for name in ("base", "tuned", "base.parquet"))
    first = said("compare", base, tuned, "--probe", "ladder", "--json", str(saved / "a.json"))
    (levels,) = re.findall(r"^ladder: (.*)$", first, flags=re.MULTILINE)
    name = json.loads((saved / "a.json").read_text())["after"]["probe"]["name"]
    assert ladder.described_levels(name) == levels
    said("score", base, "--probe", "ladder", "-o", file)
    assert load_snapshot(file).meta["probe"]["name"] == name
    assert f"ladder: {levels}" in said("compare", file, tuned, "--probe", "ladder")
    load_probe("quick").head(20).save(saved / "few.jsonl")
    said("score", base, "--probe", str(saved / "few.jsonl"), "-o", str(saved / "few.parquet"))
    with pytest.raises(
        ProbeError, match=r"few\.parquet: outcomes of quick; needed those of a ladder, or a model"
    ):
        said("compare", str(saved / "few.parquet"), tuned, "--probe", "ladder")


def test_following_takes_the_levels_of_the_run_that_is_watched(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "asked", knowing(5))
    train(saved / "a", probe="ladder")
    said("follow", str(saved / "a"), "--base", str(saved / "base"), "--probe", "ladder", "--once")
    found = Trajectory.from_run(saved / "a" / "_forgetwatch_follow")
    assert found.baseline.meta["probe"]["name"] == "ladder-5555555555"


def test_what_is_set_decides_the_probe_and_not_the_answers_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named baseline: its levels; a second model: levels of its own."""
    named = score(network(), words(), load_probe("ladder-4444444444"))
    monkeypatch.setattr(questions, "asked", knowing(5))
    train(tmp_path / "a", probe="ladder", baseline=named)
    assert name_of(tmp_path / "a") == "ladder-4444444444"
    made = ForgetWatchCallback("ladder", every=2, max_overhead=None)
    for level, folder in ((3, "c"), (5, "d")):
        monkeypatch.setattr(questions, "asked", knowing(level))
        trained(tmp_path / folder, callbacks=[made], network=network(level), tok=words(), **SAVES)
        assert name_of(tmp_path / folder) == f"ladder-{str(level) * 10}"


@pytest.mark.parametrize(
    "use", [lambda: Watch("ladder", "run"), lambda: load_tasks({"base": "ladder"})]
)
def test_the_pool_is_refused_where_no_model_is_at_hand(use: Any) -> None:
    with pytest.raises(
        ProbeError, match="ladder: needed its levels here, such as ladder-3345212455"
    ):
        use()

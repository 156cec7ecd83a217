"""The ladder in a training: the list that suits its model, and the same list in all that continues it."""

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
from forgetwatch.probes import ladder, named, shipped_probes
from forgetwatch.probes.named import load_tasks
from forgetwatch.run import known_baseline, questions
from forgetwatch.run.watch import Watch
from forgetwatch.run_folder.contents import run_probe

pytestmark = pytest.mark.usefixtures("without_pictures")

SAVES: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "steps": 4}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lists of 100 questions, 40 of them those of `standard`."""
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    whole = {name: shipped_probes.shipped_probe(name) for name in ladder.LISTS}
    standard = {item.content_hash for item in whole["ladder-1"]} & {
        item.content_hash for item in whole["ladder-2"]
    }

    def short(name: str) -> Probe:
        if name not in whole:
            return shipped_probes.shipped_probe(name)
        shared, others = (
            [item for item in whole[name] if (item.content_hash in standard) == is_shared]
            for is_shared in (True, False)
        )
        others = [item for item in others if len(str(item.prompt)) < 600]
        return whole[name].with_items([*shared[:40], *others[:60]])

    monkeypatch.setattr(named, "shipped_probe", short)
    return


@cache
def words() -> Any:
    """A tokenizer that knows the words of the shorter questions."""
    some = [
        item
        for name in ("ladder", *ladder.LISTS)
        for item in load_probe(name)
        if len(str(item.prompt)) < 600
    ]
    return tokenizer(
        words_of=[f"{item.shots} {item.prompt} {' '.join(item.choices)}" for item in some]
    )


def network(seed: int = 0) -> Any:
    return model(words(), seed=seed, positions=512)


def suited(number: int) -> Any:
    """A stand-in for the answers of a model that a list suits: 21 of its 30 are right, and no other."""

    def asked(model: Any, tokenizer: Any, probe: Probe, *, token_budget: int | None) -> Snapshot:
        tasks = [item.task for item in probe]
        places = [tasks[:row].count(task) for row, task in enumerate(tasks)]
        right = [
            task == f"ladder-{number}" and place < 21
            for task, place in zip(tasks, places, strict=True)
        ]
        return snapshot(right, task=tasks)

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


def test_the_list_that_suits_the_model_is_asked_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "asked", suited(2))
    train(tmp_path / "a", probe="ladder")
    said = capfd.readouterr().err
    assert "ladder: ladder-2, by 90 questions that are compared nowhere" in said
    assert name_of(tmp_path / "a") == "ladder-2"
    found = run_probe(tmp_path / "a")
    assert found is not None
    assert len(found) == 100


def test_a_resumed_run_and_a_later_stage_keep_the_list_whatever_the_model_answers_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "asked", suited(2))
    train(tmp_path / "a", probe="ladder")
    monkeypatch.setattr(questions, "asked", suited(1))
    train(tmp_path / "a", probe="ladder", steps=6, resume=True)
    assert name_of(tmp_path / "a") == "ladder-2"
    assert Trajectory.from_run(tmp_path / "a").steps == (0, 2, 4, 6)
    later = AutoModelForCausalLM.from_pretrained(
        tmp_path / "a" / "checkpoint-6", dtype=torch.float32
    )
    train(tmp_path / "b", net=later, probe="ladder")
    run = Trajectory.from_run(tmp_path / "b")
    assert (name_of(tmp_path / "b"), run.number) == ("ladder-2", 2)
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


def test_unlike_lists_are_compared_over_the_questions_that_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = (load_probe(name) for name in ("ladder-1", "ladder-2"))
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


def test_the_command_line_takes_the_list_of_the_model_before_or_of_its_outcomes(
    saved: Path,
) -> None:
    base, tuned, file = (str(saved / name) for name in ("base", "tuned", "base.parquet"))
    first = said("compare", base, tuned, "--probe", "ladder", "--json", str(saved / "a.json"))
    (suitable,) = re.findall(r"^ladder: (.*)$", first, flags=re.MULTILINE)
    name = json.loads((saved / "a.json").read_text())["after"]["probe"]["name"]
    assert name == suitable
    assert name in ladder.LISTS
    said("score", base, "--probe", "ladder", "-o", file)
    assert load_snapshot(file).meta["probe"]["name"] == name
    assert f"ladder: {suitable}" in said("compare", file, tuned, "--probe", "ladder")
    load_probe("quick").head(20).save(saved / "few.jsonl")
    said("score", base, "--probe", str(saved / "few.jsonl"), "-o", str(saved / "few.parquet"))
    with pytest.raises(
        ProbeError,
        match=r"few\.parquet: outcomes of quick; needed those of a list of the ladder, or a model",
    ):
        said("compare", str(saved / "few.parquet"), tuned, "--probe", "ladder")


def test_following_takes_the_list_of_the_run_that_is_watched(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "asked", suited(2))
    train(saved / "a", probe="ladder")
    said("follow", str(saved / "a"), "--base", str(saved / "base"), "--probe", "ladder", "--once")
    found = Trajectory.from_run(saved / "a" / "_forgetwatch_follow")
    assert found.baseline.meta["probe"]["name"] == "ladder-2"


def test_what_is_set_decides_the_probe_and_not_the_answers_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named baseline: its list; a second model: a list of its own."""
    named = score(network(), words(), load_probe("ladder-3"))
    monkeypatch.setattr(questions, "asked", suited(2))
    train(tmp_path / "a", probe="ladder", baseline=named)
    assert name_of(tmp_path / "a") == "ladder-3"
    made = ForgetWatchCallback("ladder", every=2, max_overhead=None)
    for number, folder in ((3, "c"), (2, "d")):
        monkeypatch.setattr(questions, "asked", suited(number))
        trained(tmp_path / folder, callbacks=[made], network=network(number), tok=words(), **SAVES)
        assert name_of(tmp_path / folder) == f"ladder-{number}"


@pytest.mark.parametrize(
    "use", [lambda: Watch("ladder", "run"), lambda: load_tasks({"base": "ladder"})]
)
def test_the_trial_is_refused_where_no_model_is_at_hand(use: Any) -> None:
    with pytest.raises(
        ProbeError, match="ladder: needed one of its lists here, ladder-1, ladder-2, ladder-3"
    ):
        use()

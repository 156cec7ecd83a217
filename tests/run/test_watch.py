"""Watch in a training loop without a Trainer.

The lost of a run with adapters, asked again at its last look.

A run whose probe has passages: its curve, its files, and a resume.
"""

import errno
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pages import table as table_of
from passage_texts import passages
from rich.console import Console
from support import model, probe, teach, tokenizer, trained, trainer
from typer.testing import CliRunner

import forgetwatch.files.table_files
from forgetwatch import (
    ForgetWatchCallback,
    Item,
    Probe,
    Snapshot,
    Trajectory,
    Watch,
    load_snapshot,
    score,
)
from forgetwatch.cli import app
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import ProbeError, ScoringError, WatchError
from forgetwatch.files.writing import write_atomically
from forgetwatch.probes.wordings import wordings_of
from forgetwatch.run.look import LookScorer
from forgetwatch.run.run import Run
from forgetwatch.run.schedule import LookPlan
from forgetwatch.run_folder.contents import StoredRun
from forgetwatch.run_folder.description import Description, GuardFinding
from forgetwatch.run_folder.folder import RunFolder
from forgetwatch.scoring import scorer

pytestmark = pytest.mark.usefixtures("without_pictures")

TOK = tokenizer()


def nudge(network: torch.nn.Module, seed: int) -> None:
    """Other weights."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)


def run(path: Path, steps: tuple[int, ...] = (0, 5, 10)) -> Watch:
    watch, network = Watch(probe(), path), model(TOK)
    for step in steps:
        watch.look(network, TOK, step=step)
        nudge(network, step)
    return watch


def test_looks_are_compared_with_the_first(tmp_path: Path) -> None:
    watch = run(tmp_path)
    first, last = watch.run.comparisons[0], watch.run.comparisons[10]
    assert (first.all.forgotten, first.all.gained) == (0, 0)
    assert last.all.forgotten + last.all.gained > 0
    before = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet").floats("correct")
    after = load_snapshot(tmp_path / "_forgetwatch" / "step-000010.parquet").floats("correct")
    assert last.all.forgotten == int(np.sum((before == 1) & (after == 0)))
    assert last.all.gained == int(np.sum((before == 0) & (after == 1)))


def test_the_run_folder_holds_the_run(tmp_path: Path) -> None:
    watch = run(tmp_path)
    folder = tmp_path / "_forgetwatch"
    assert sorted(path.name for path in folder.iterdir()) == [
        "baseline.parquet", "null.parquet", "probe.jsonl", "run.json", "step-000005.parquet", "step-000010.parquet",
    ]  # fmt: skip
    described = json.loads((folder / "run.json").read_text())
    assert described["format"] == "forgetwatch/run@4"
    assert described["probe"]["fingerprint"] == watch.run.probe.fingerprint
    assert [look["step"] for look in described["looks"]] == [5, 10]
    assert Trajectory.from_run(folder).steps == watch.trajectory().steps == (0, 5, 10)


def test_a_step_is_looked_at_once_and_the_log_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, network = Watch(probe(), tmp_path), model(TOK)
    for step in (0, 10):
        first = watch.look(network, TOK, step=step)
        nudge(network, 1)
        assert all(watch.look(network, TOK, step=step) is first for _ in range(3))
    logged = capsys.readouterr().err
    for step in (0, 10):
        assert logged.count(f"step {step} has its look already; nothing was measured") == 1


@pytest.mark.parametrize(
    "step", [0.0, 1.5, True, "../x", None, -1, 10**18, 10**30, np.float64(3), np.bool_(True)]
)
def test_what_is_no_step_is_refused_before_anything_is_measured(tmp_path: Path, step: Any) -> None:
    watch = Watch(probe(), tmp_path / "new")
    with pytest.raises(
        WatchError,
        match=r"^step=.*: needed a whole number of optimizer steps from 0 to 999999999999999999$",
    ):
        watch.look(model(TOK), TOK, step=step)
    assert not watch.run.comparisons
    assert not (tmp_path / "new").exists()


def test_an_adopted_baseline_has_lost_nothing(tmp_path: Path) -> None:
    watch = Watch(probe(), tmp_path)
    watch.run.adopt(score(model(TOK), TOK, probe()))
    assert watch.run.lost_must_pass(-1) == []
    assert watch.run.pending == ()
    with pytest.raises(
        WatchError, match=r"^step=1\.5: needed a whole number of optimizer steps from -1"
    ):
        watch.run.lost_must_pass(1.5)  # type: ignore[arg-type]


def test_every_step_that_is_taken_resumes(tmp_path: Path) -> None:
    watch, network = Watch(probe(), tmp_path), model(TOK)
    steps = (np.int64(0), np.uint8(7), 10**6, 10**18 - 1)
    for step in steps:
        watch.look(network, TOK, step=step)
    again = Watch(probe(), tmp_path, resume=True)
    assert list(again.run.comparisons) == [int(step) for step in steps]
    assert again.run.notes == ()


@pytest.mark.parametrize(("step", "stored"), [(5, (0, 20)), (0, (0, 20)), (20, (0, 20, 30))])
def test_a_step_that_falls_is_refused_with_the_remedy(
    tmp_path: Path, step: int, stored: tuple[int, ...]
) -> None:
    watch = run(tmp_path, stored)
    says = (
        f"look: needed a step that rises, got step {step} after step {stored[-1]}; call resume({step}) if the "
        "training went back to this step, or count the steps over the whole run, not anew in each epoch"
    )
    with pytest.raises(WatchError, match=f"^{re.escape(says)}$"):
        watch.look(model(TOK), TOK, step=step)
    assert tuple(watch.run.comparisons) == stored
    watch.resume(step)
    watch.look(model(TOK), TOK, step=step)
    assert max(watch.run.comparisons) == step


def test_a_run_does_not_go_back_before_its_baseline(tmp_path: Path) -> None:
    watch = run(tmp_path, (20, 30))
    with pytest.raises(
        WatchError, match=r"got step 5 after step 30; count the steps over the whole run"
    ):
        watch.look(model(TOK), TOK, step=5)
    with pytest.raises(
        WatchError, match="needed step 20, that of the baseline, or a later one, got 5"
    ):
        watch.resume(5)
    assert tuple(watch.run.comparisons) == (20, 30)


def test_saved_weights_may_be_of_any_step_and_the_latest_look_stays_the_latest(
    tmp_path: Path,
) -> None:
    watch = run(tmp_path, (0, 20))
    watch.look(model(TOK, seed=1), TOK, step=10, origin={"model": "run/checkpoint-10"})
    assert sorted(watch.run.comparisons) == [0, 10, 20]
    assert watch.trajectory().last.meta["step"] == 20


def renumbered(tok: Any) -> Any:
    """The tokenizer with other token ids for the same words."""
    from tokenizers import models

    words = tok.get_vocab()
    ids = {
        word: index if index < 4 else 4 + (index - 3) % (len(words) - 4)
        for word, index in words.items()
    }
    tok.backend_tokenizer.model = models.WordLevel(ids, unk_token="<unk>")
    return tok


def padded_left(tok: Any) -> Any:
    tok.padding_side, tok.truncation_side, tok.pad_token = "left", "left", "<eos>"
    return tok


@pytest.mark.parametrize("settings", [{}, {"scoring": "generate", "decoding": {"tokens": 4}}])
def test_another_tokenizer_is_refused_where_it_encodes_the_questions_otherwise(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, tok, network = probe(6, **settings), tokenizer(), model(TOK)
    watch = Watch(own, tmp_path, twice=False)
    first = watch.look(network, TOK, step=0)
    # A tokenizer with the same settings, as that of each checkpoint that is loaded, is not tried out.
    monkeypatch.setattr(scorer, "encode", None)
    for step, other in enumerate([tok, padded_left(tokenizer()), tok], start=1):
        assert watch.look(network, other, step=step).all.retained == first.all.retained
    monkeypatch.undo()
    with pytest.raises(
        ScoringError,
        match="the tokenizer at step 30 encodes the questions differently from the one at step 0",
    ):
        watch.look(network, renumbered(tokenizer()), step=30)
    assert 30 not in watch.run.comparisons


@pytest.mark.parametrize("settings", [{}, {"scoring": "generate", "decoding": {"tokens": 4}}])
def test_a_tokenizer_that_is_changed_in_place_is_refused_like_another_one(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    tok, network = tokenizer(), model(TOK)
    watch = Watch(probe(6, **settings), tmp_path, twice=False)
    watch.look(network, tok, step=0)
    tok(["a", "a b"], padding=True, truncation=True, max_length=8)  # as a trainer's collator does
    tok.add_tokens(["of no question"])
    network.resize_token_embeddings(len(tok))
    watch.look(network, tok, step=1)
    tok.add_tokens(
        [watch.run.probe.items[0].prompt.split()[-1] + " :", watch.run.probe.items[0].prompt]
    )
    network.resize_token_embeddings(len(tok))
    with pytest.raises(
        ScoringError, match="the tokenizer at step 2 encodes the questions differently"
    ):
        watch.look(network, tok, step=2)
    assert sorted(watch.run.comparisons) == [0, 1]


def test_embeddings_that_become_smaller_than_the_tokenizer_are_named(tmp_path: Path) -> None:
    network = model(TOK)
    watch = Watch(probe(6), tmp_path, twice=False)
    watch.look(network, TOK, step=0)
    network.resize_token_embeddings(5)
    with pytest.raises(ScoringError, match="model's vocabulary has 5 tokens"):
        watch.look(network, TOK, step=1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            lambda network: (TOK, network),
            "^model: needed a causal language model of transformers, got an object of",
        ),
        (
            lambda network: (None, TOK),
            "^model: needed a causal language model of transformers, got None$",
        ),
        (lambda network: (network, None), "^tokenizer: needed the model's tokenizer, got None$"),
        (
            lambda network: (network, network),
            "^tokenizer: needed the model's tokenizer, got an object of type Qwen3",
        ),
        (
            lambda network: (network, "gpt2"),
            "^tokenizer: needed the model's tokenizer, got an object of type str$",
        ),
    ],
)
def test_arguments_of_another_type_are_named(tmp_path: Path, given: Any, says: str) -> None:
    network = model(TOK)
    for act in (
        lambda: score(*given(network), probe()),
        lambda: Watch(probe(), tmp_path / "new").look(*given(network), step=0),
        lambda: run(tmp_path, (0,)).look(*given(network), step=5),
    ):
        with pytest.raises(ScoringError, match=says):
            act()
    assert not (tmp_path / "new").exists()


def test_a_new_run_renames_the_old_folder_at_its_first_look_and_logs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    watch = Watch(probe(), tmp_path)
    assert not (tmp_path / "_forgetwatch-1").exists()
    watch.look(model(TOK), TOK, step=0)
    assert (
        f"the folder of an earlier run is now {tmp_path / '_forgetwatch-1'}"
        in capsys.readouterr().err
    )
    assert len(list((tmp_path / "_forgetwatch-1").glob("step-*"))) == 2
    assert not list((tmp_path / "_forgetwatch").glob("step-*"))


def test_a_baseline_after_the_start_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, steps=(0,))
    assert "baseline is taken at" not in capsys.readouterr().err
    run(tmp_path, steps=(40,))
    assert "the baseline is taken at step 40" in capsys.readouterr().err


def test_unscored_items_are_logged_at_the_baseline_and_none_scored_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blank = Item(id="blank", task="t", prompt="Q", choices=(" w1", " "), answer=0)
    Watch(Probe([*probe(), blank]), tmp_path / "a").look(model(TOK), TOK, step=0)
    assert "1 of 31 items are unscored: 1 choice 1 has no text" in capsys.readouterr().err
    with pytest.raises(ScoringError, match=r"\(1 items\) can be scored: 1 choice 1 has no text"):
        Watch(Probe([blank]), tmp_path / "b").look(model(TOK), TOK, step=0)
    assert not (tmp_path / "b" / "_forgetwatch").exists()


def test_a_trajectory_needs_a_look(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="no look yet"):
        Watch(probe(), tmp_path).trajectory()


def test_resume_keeps_the_baseline_and_the_looks(tmp_path: Path) -> None:
    before = run(tmp_path)
    assert before.run.baseline is not None
    again = Watch(probe(), tmp_path, resume=True)
    assert again.run.baseline is not None
    assert again.run.baseline.checksum == before.run.baseline.checksum
    assert sorted(again.run.comparisons) == [0, 5, 10]
    assert again.run.comparisons[10].all == before.run.comparisons[10].all


def test_resume_at_a_step_replaces_later_looks(tmp_path: Path) -> None:
    run(tmp_path)
    watch = Watch(probe(), tmp_path)
    watch.resume(step=7)
    assert sorted(watch.run.comparisons) == [0, 5]
    folder = tmp_path / "_forgetwatch"
    assert [path.name for path in folder.glob("step-*")] == ["step-000005.parquet"]
    assert [look["step"] for look in json.loads((folder / "run.json").read_text())["looks"]] == [5]


def test_a_baseline_that_could_not_be_written_is_written_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, network = Watch(probe(), tmp_path), model(TOK)
    start, calls = RunFolder.start, []

    def full_once(self: RunFolder, *given: object) -> None:
        calls.append(given)
        if len(calls) == 1:
            raise OSError("No space left on device")
        start(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFolder, "start", full_once)
    watch.look(network, TOK, step=0)
    assert watch.run.pending == (0,)
    nudge(network, 1)
    watch.look(network, TOK, step=5)
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 5)


class FullDisk:
    """Files of these names cannot be written, until there is room."""

    def __init__(self, patch: pytest.MonkeyPatch, *names: str) -> None:
        self.names = names
        patch.setattr(forgetwatch.files.table_files, "write_atomically", self.write)

    def write(self, path: Path, write: Any) -> None:
        if path.name in self.names:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomically(path, write)


def listed(folder: Path) -> list[int]:
    """Steps of the looks in ``run.json``; each has its file."""
    described = json.loads((folder / "run.json").read_text())
    steps = [look["step"] for look in described["looks"]]
    assert all((folder / f"step-{step:06d}.parquet").is_file() for step in steps)
    return [0, *steps]


def test_a_look_that_met_a_full_disk_is_stored_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = FullDisk(monkeypatch, "step-000020.parquet", "step-000030.parquet")
    watch, network, folder = run(tmp_path, (0, 10)), model(TOK), tmp_path / "_forgetwatch"
    for step in (20, 30, 30):  # a repeated call tries again
        watch.look(network, TOK, step=step)
        nudge(network, step)
    watch.look(network, TOK, step=40)  # of which there is room
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "not stored" in line)
    assert re.search(
        r"step 20: scored, and not stored: disk full at .*; it is stored when there is room$", line
    )
    assert watch.run.pending == (20, 30)
    assert listed(folder) == [0, 10, 40]
    assert "No space left on device" in str(watch.run.store())
    disk.names = ("step-000030.parquet",)
    watch.run.plan(9)  # whatever writes next
    assert watch.run.pending == (30,)
    disk.names = ()
    assert watch.run.store() is None
    assert watch.run.pending == ()
    assert listed(folder) == [0, 10, 20, 30, 40]
    again = Watch(probe(), tmp_path, resume=True)
    assert again.run.notes == ()
    assert {step: one.all for step, one in again.run.comparisons.items()} == {
        step: one.all for step, one in watch.run.comparisons.items()
    }


def test_a_repeated_look_is_stored_if_it_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, disk = run(tmp_path, (0,)), FullDisk(monkeypatch, "step-000010.parquet")
    watch.look(model(TOK), TOK, step=10)
    assert watch.run.pending == (10,)
    disk.names = ()
    assert watch.look(model(TOK), TOK, step=10) is watch.run.comparisons[10]
    assert watch.run.pending == ()
    assert listed(tmp_path / "_forgetwatch") == [0, 10]


def test_what_is_not_stored_is_dropped_with_its_step_and_kept_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, "step-000010.parquet", "step-000020.parquet")
    watch = Watch(probe(), tmp_path)
    for step in (0, 10, 20):
        watch.look(model(TOK, seed=step), TOK, step=step)
    assert watch.run.pending == (10, 20)
    watch.resume(10)
    assert watch.run.pending == (10,)
    assert watch.trajectory().last.meta["step"] == 10
    disk.names = ()
    assert watch.run.store() is None
    assert listed(tmp_path / "_forgetwatch") == [0, 10]


def test_a_baseline_that_could_not_be_written_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, "baseline.parquet")
    watch = Watch(probe(), tmp_path)
    assert watch.run.pending == ()
    for step in (0, 5):
        watch.look(model(TOK, seed=step), TOK, step=step)
    assert watch.run.pending == (0, 5)
    disk.names = ()
    assert watch.run.store() is None
    assert watch.run.pending == ()
    assert Trajectory.from_run(tmp_path).steps == (0, 5)
    assert not (
        tmp_path / "_forgetwatch-1"
    ).exists()  # what was written of the folder is none of an earlier run


def test_a_damaged_look_does_not_stop_a_resume(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "_forgetwatch" / "step-000005.parquet").write_bytes(b"PAR1")
    watch = Watch(probe(), tmp_path, resume=True)
    assert sorted(watch.run.comparisons) == [0, 10]
    assert len(watch.run.notes) == 1
    assert re.match(r"step-000005\.parquet: .*it is left out$", watch.run.notes[0])
    assert (tmp_path / "_forgetwatch" / "step-000005.parquet.damaged").is_file()
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 10)


def test_resume_with_another_probe_or_without_a_baseline_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(
        WatchError, match=r"made with probe 'toy'.*this is probe 'toy'.*probe\.jsonl"
    ):
        Watch(probe(29), tmp_path, resume=True)
    with pytest.raises(WatchError, match="its baseline is gone"):
        Watch(probe(), tmp_path / "elsewhere", resume=True)


def test_a_baseline_of_another_norm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="the run's baseline was made with probe 'toy'"):
        Watch(probe(), tmp_path).run.adopt(score(model(TOK), TOK, probe(norm="bytes")))


def test_a_missing_probe_fails_in_the_constructor(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="no such file, and no such shipped probe"):
        Watch("standart", tmp_path)


def test_the_last_remaining_look_has_its_rows(tmp_path: Path) -> None:
    """A report of a run that was turned back lists what flipped at the look that is the last now."""
    tok = tokenizer()
    watch = Watch(probe(), tmp_path)
    for step in (0, 4, 8):
        made = model(tok, seed=step)
        with torch.no_grad():
            for weight in made.parameters():
                weight.mul_(10)  # so that random models answer unlike each other
        watch.look(made, tok, step=step)
    watch.resume(4)
    trajectory = watch.trajectory()
    assert trajectory.last.meta["step"] == trajectory.steps[-1] == 4
    changed = flips(trajectory.baseline, trajectory.last)
    assert (
        sum(flip.what == "forgotten" for flip in changed)
        == trajectory.comparisons[-1].all.forgotten
        > 0
    )


def test_a_resume_stores_the_plan_and_the_findings_again(tmp_path: Path) -> None:
    watch = run(tmp_path)
    watch.run.plan(12)
    watch.run.note([GuardFinding("policy", "all accuracy", step, "a line") for step in (5, 10)])
    Watch(probe(), tmp_path, resume=True)
    stored = StoredRun.read(tmp_path)
    assert (stored.planned, [finding.step for finding in stored.findings]) == (12, [5, 10])
    Watch(probe(), tmp_path).resume(step=5)
    assert [finding.step for finding in StoredRun.read(tmp_path).findings] == [5]


def test_answers_that_vanish_are_logged_at_the_first_look_that_misses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, measure = run(tmp_path, (0,)), LookScorer._evaluate

    def failing(self: Watch, *given: Any, **options: Any) -> Snapshot:
        look = measure(self, *given, **options)
        right = [None, *look.table["correct"].to_pylist()[1:]]
        return replace(
            look,
            table=look.table.set_column(
                look.table.column_names.index("correct"), "correct", [right]
            ),
        )

    monkeypatch.setattr(LookScorer, "_evaluate", failing)
    for step in (10, 20):
        watch.look(model(TOK), TOK, step=step)
    lines = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "were scored on one side alone" in line
    ]
    assert len(lines) == 1
    assert lines[0].startswith("forgetwatch: step 10: 1 of ")


ITEMS = 64


def probe_of_run_again() -> Probe:
    return Probe(
        [
            Item(
                id=str(n),
                task="t",
                prompt=f"w{n}",  # the tokenizer spells frames with a label alike
                choices=[f" w{n + 30}", f" w{n + 31}", f" w{n + 32}"],
                answer=0,
            )
            for n in range(ITEMS)
        ],
        name="taught",
    )


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """A model that knows all questions in every wording."""
    asked = [None, *wordings_of(["short", "right"])]
    prompts = [
        (item, one.asks(str(item.prompt)) if one else (item.prompt, ""))
        for item in probe_of_run_again()
        for one in asked
    ]
    texts = [f"{made[0]}{item.choices[0]}" for item, made in prompts if made]
    return dict(teach(model(TOK, dropout=0.0), TOK, texts, 120).state_dict())


def knowing(weights: dict[str, torch.Tensor]) -> Any:
    network = model(TOK, dropout=0.0)
    network.load_state_dict(weights)
    return network


def test_the_last_look_with_adapters_asks_the_lost_in_other_words(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM"
    )
    options: dict[str, Any] = {"peft_config": lora, "learning_rate": 5e-2}
    watched = ForgetWatchCallback(probe=probe_of_run_again(), every=3, max_overhead=None)
    run = trained(tmp_path / "a", callbacks=[watched], network=knowing(weights), **options)
    plain = trained(tmp_path / "b", network=knowing(weights), **options)
    pairs = zip(run.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert (
        "questions in other words, of the model with and without its adapters"
        in capsys.readouterr().err
    )
    trajectory = Trajectory.from_run(tmp_path / "a")
    *earlier, last = trajectory.comparisons
    assert not any(look.again for look in earlier)
    assert last.again is not None
    counts = last.again.counts
    assert 0 < counts.lost <= ITEMS // 16
    assert counts.kept <= counts.lost
    assert last.again.wordings == ("short", "right")
    marked = {
        flip.item_id: flip.again
        for flip in flips(trajectory.baseline, trajectory.last)
        if flip.again
    }
    assert marked == {item: status for (_, item), status in last.again.status.items()}
    page = (tmp_path / "a" / "_forgetwatch" / "report.html").read_text()
    assert (
        f"Of {counts.lost} clearly known answers that were lost, {counts.lost_elsewhere} are lost in every"
        in page
    )
    assert last.to_dict()["again"]["lost"] == counts.lost


def test_without_adapters_and_with_adapters_of_another_training_nothing_is_asked(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    trained(
        tmp_path / "a",
        callbacks=[ForgetWatchCallback(probe=probe_of_run_again(), every=3)],
        network=knowing(weights),
    )
    lora = peft.LoraConfig(
        r=4, target_modules=["up_proj"], init_lora_weights=True, task_type="CAUSAL_LM"
    )
    adapted = peft.get_peft_model(knowing(weights), lora)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    trained(
        tmp_path / "b",
        callbacks=[ForgetWatchCallback(probe=probe_of_run_again(), every=3)],
        network=adapted,
    )
    assert "in other words" not in capsys.readouterr().err
    for name in ("a", "b"):
        assert Trajectory.from_run(tmp_path / name).comparisons[-1].again is None


def curve(run: Any) -> dict[int, float]:
    return {
        row["step"]: row["eval_forget/all/bits_per_byte"]
        for row in run.state.log_history
        if "eval_forget/all/bits_per_byte" in row
    }


@pytest.mark.parametrize("questions", [0, 30])
def test_a_run_logs_bits_per_byte_at_every_look(
    tmp_path: Path, questions: int, capsys: Any
) -> None:
    items = [*(probe(questions) if questions else ()), *passages()]
    run = trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(Probe(items, name="texts"), every=2, max_overhead=None)],
    )
    shown = capsys.readouterr()
    found = curve(run)
    assert list(found) == [0, 2, 4, 6]
    assert len(set(found.values())) == 4
    stored = Trajectory.from_run(tmp_path)
    assert [one.all["bits_per_byte_after"] for one in stored.comparisons] == pytest.approx(
        list(found.values())
    )
    assert "passages   12 passages: " in shown.out
    assert "items are unscored" not in shown.err
    assert "the noise is not known" not in shown.out
    assert ("12 passages" in shown.err) is not bool(questions)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table_of(stored.final, trajectory=stored))
    assert ("NO VERDICT" in shown.out) is not bool(questions)
    assert (tmp_path / "_forgetwatch" / "report.html").read_text().count('id="passages"') == 1


def test_a_resumed_run_keeps_its_passages(tmp_path: Path) -> None:
    texts = Probe([*probe(12), *passages()], name="texts")

    def watched(steps: int) -> Any:
        options = {"save_strategy": "steps", "save_steps": 3, "steps": steps}
        return trainer(
            tmp_path, callbacks=[ForgetWatchCallback(texts, every=3, max_overhead=None)], **options
        )

    watched(3).train()
    resumed = watched(6)
    resumed.train(resume_from_checkpoint=True)
    run = Trajectory.from_run(tmp_path)
    assert run.steps == (0, 3, 6)
    assert [one.all.passages for one in run.comparisons] == [12, 12, 12]


def test_the_commands_read_a_run_of_passages(tmp_path: Path) -> None:
    trained(
        tmp_path,
        callbacks=[
            ForgetWatchCallback(Probe(passages(), name="texts"), every=3, max_overhead=None)
        ],
    )
    folder = tmp_path / "_forgetwatch"
    looks = [
        str(folder / name)
        for name in ("baseline.parquet", "step-000003.parquet", "step-000006.parquet")
    ]
    runner = CliRunner()
    for arguments, says in (
        (["report", str(folder)], "12 passages: "),
        (["report", str(folder), "--detail"], "12 passages: "),
        (
            ["flips", str(folder)],
            "none forgotten; the 12 passages have no right answer, and none to flip",
        ),
        (["compare", *looks[:2]], "NO VERDICT"),
        (["compare", *looks], "step 6: passages alone"),
        (["compare", *looks[:2], "--fail-if", "bits_per_byte_change>5"], "gate PASS"),
    ):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output)
        assert says in " ".join(result.output.split()) or says in result.output, (
            arguments,
            result.output,
        )
    failed = runner.invoke(app, ["compare", *looks[:2], "--fail-if", "bits_per_byte_change>-5"])
    assert failed.exit_code != 0


def test_a_decision_is_stored_at_once(tmp_path: Path) -> None:
    """A kill before the next look must not lose it: a resume would decide otherwise."""
    run = Run(probe(), tmp_path)
    run.open()
    run.add(scorer.Scorer(probe(), TOK, model(TOK)).score(model(TOK), step=0), step=0)
    run.decide(LookPlan(items=20, looks=3))
    assert LookPlan.of(Description.read(tmp_path / "_forgetwatch").values) == run.state.plan
    run.close()

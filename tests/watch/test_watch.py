"""Watch in a training loop without a Trainer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from support import model, probe, tokenizer

from forgetwatch import Item, Probe, Trajectory, Watch, compare, load_snapshot, score
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import ProbeError, ScoringError, WatchError
from forgetwatch.run_folder import GuardFinding, RunFolder, StoredRun

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
    first, last = watch.comparisons[0], watch.comparisons[10]
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
    assert described["format"] == "forgetwatch/run@2"
    assert described["probe"]["fingerprint"] == watch.probe.fingerprint
    assert [look["step"] for look in described["looks"]] == [0, 5, 10]
    assert Trajectory.from_run(folder).steps == watch.trajectory().steps == (0, 5, 10)


def test_a_step_is_looked_at_once(tmp_path: Path) -> None:
    watch, network = Watch(probe(), tmp_path), model(TOK)
    first = watch.look(network, TOK, step=0)
    nudge(network, 1)
    assert watch.look(network, TOK, step=0) is first


def test_a_new_run_renames_the_old_folder_at_its_first_look_and_logs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    watch = Watch(probe(), tmp_path)
    assert not (tmp_path / "_forgetwatch-1").exists()
    watch.look(model(TOK), TOK, step=0)
    assert f"the folder of an earlier run is now {tmp_path / '_forgetwatch-1'}" in capsys.readouterr().err
    assert len(list((tmp_path / "_forgetwatch-1").glob("step-*"))) == 2
    assert not list((tmp_path / "_forgetwatch").glob("step-*"))


def test_a_baseline_after_the_start_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert not (tmp_path / "b").exists()


def test_a_trajectory_needs_a_look(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="no look yet"):
        Watch(probe(), tmp_path).trajectory()


def test_resume_keeps_the_baseline_and_the_looks(tmp_path: Path) -> None:
    before = run(tmp_path)
    assert before.baseline is not None
    again = Watch(probe(), tmp_path, resume=True)
    assert again.baseline is not None
    assert again.baseline.checksum == before.baseline.checksum
    assert sorted(again.comparisons) == [0, 5, 10]
    assert again.comparisons[10].all == before.comparisons[10].all


def test_resume_at_a_step_replaces_later_looks(tmp_path: Path) -> None:
    run(tmp_path)
    watch = Watch(probe(), tmp_path)
    watch.resume(step=7)
    assert sorted(watch.comparisons) == [0, 5]
    folder = tmp_path / "_forgetwatch"
    assert [path.name for path in folder.glob("step-*")] == ["step-000005.parquet"]
    assert [look["step"] for look in json.loads((folder / "run.json").read_text())["looks"]] == [0, 5]


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
    with pytest.raises(OSError, match="No space"):
        watch.look(network, TOK, step=0)
    nudge(network, 1)
    watch.look(network, TOK, step=5)
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 5)


def test_a_damaged_look_does_not_stop_a_resume(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "_forgetwatch" / "step-000005.parquet").write_bytes(b"PAR1")
    watch = Watch(probe(), tmp_path, resume=True)
    assert sorted(watch.comparisons) == [0, 10]
    assert len(watch.notes) == 1
    assert re.match(r"step-000005\.parquet: .*it is left out$", watch.notes[0])
    assert (tmp_path / "_forgetwatch" / "step-000005.parquet.damaged").is_file()
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 10)


def test_resume_with_another_probe_or_without_a_baseline_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(WatchError, match=r"made with probe 'toy'.*this is probe 'toy'.*probe\.jsonl"):
        Watch(probe(29), tmp_path, resume=True)
    with pytest.raises(WatchError, match="its baseline is gone"):
        Watch(probe(), tmp_path / "elsewhere", resume=True)


def test_resume_keeps_the_norm_of_the_baseline(tmp_path: Path) -> None:
    by_bytes = probe(norm="bytes")
    Watch(by_bytes, tmp_path).look(model(TOK), TOK, step=0)
    watch = Watch(probe(), tmp_path, resume=True)
    assert watch.probe.settings == by_bytes.settings
    watch.look(model(TOK, seed=1), TOK, step=5)
    assert load_snapshot(tmp_path / "_forgetwatch" / "step-000005.parquet").norms == dict.fromkeys(
        ("t0", "t1", "t2"), "bytes"
    )


def test_a_named_baseline_of_another_norm_is_decided_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, expected = (score(model(TOK), TOK, probe(norm=norm)) for norm in ("bytes", "sum"))
    watch = Watch(probe(), tmp_path)
    watch.adopt(old)
    found = watch.look(model(TOK, seed=1), TOK, step=0)
    assert found.all == compare(before=expected, after=score(model(TOK, seed=1), TOK, probe())).all
    assert "the named baseline was decided again by sum (recorded: bytes)" in capsys.readouterr().err
    # The run is one of this probe: a resume does not take the named baseline's norm for the run's.
    assert Watch(probe(), tmp_path, resume=True).probe.norm == "sum"


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
    watch.forget_after(4)
    trajectory = watch.trajectory()
    assert trajectory.last.meta["step"] == trajectory.steps[-1] == 4
    changed = flips(trajectory.baseline, trajectory.last)
    assert sum(flip.what == "forgotten" for flip in changed) == trajectory.comparisons[-1].all.forgotten > 0


def test_a_resume_stores_the_plan_and_the_findings_again(tmp_path: Path) -> None:
    watch = run(tmp_path)
    watch.plan(12)
    watch.report_findings([GuardFinding("net_loss", "all:all", step, "a line") for step in (5, 10)])
    Watch(probe(), tmp_path, resume=True)
    stored = StoredRun.read(tmp_path)
    assert (stored.planned, [finding.step for finding in stored.findings]) == (12, [5, 10])
    Watch(probe(), tmp_path).resume(step=5)
    assert [finding.step for finding in StoredRun.read(tmp_path).findings] == [5]

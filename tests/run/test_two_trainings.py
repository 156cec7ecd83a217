"""Two trainings in one output_dir: one refusal where the disk has locks, and two runs where it has none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import model, probe, tokenizer, trained, trainer

from forgetwatch import ForgetWatchCallback, Trajectory, Watch
from forgetwatch.errors import WatchError
from forgetwatch.run_folder import StoredRun
from forgetwatch.run_folder import folder as run_folder

TOK = tokenizer()

OTHER = """
import sys
from pathlib import Path
from support import model, probe, tokenizer, trainer
from forgetwatch import Watch
tok = tokenizer()
watch, network = Watch(probe(), sys.argv[1]), model(tok)
for step in range(0, int(sys.argv[2]) + 1, 5):
    watch.look(network, tok, step=step)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_training_is_refused_before_it_measures_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "_PATIENCE", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path), "5"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        assert other.stdout is not None
        assert "ready\n" in iter(other.stdout.readline, "")  # libraries print too
        for resume in (False, True):
            with pytest.raises(WatchError, match="no other training uses, and another process trains here"):
                Watch(probe(), tmp_path, resume=resume).look(model(TOK), TOK, step=0)
        other.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_forgetwatch", "_forgetwatch.lock"]
    assert Trajectory.from_run(tmp_path).steps == (0, 5)
    second = Watch(probe(), tmp_path)
    second.look(model(TOK), TOK, step=0)  # once the other has ended
    second.run.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_forgetwatch", "_forgetwatch-1", "_forgetwatch.lock"]


def test_two_trainings_in_one_folder_never_become_one_run(tmp_path: Path) -> None:
    """As in one process, or on a disk without locks."""
    one, other, network = Watch(probe(), tmp_path), Watch(probe(), tmp_path), model(TOK)
    one.look(network, TOK, step=0)
    one.look(network, TOK, step=5)
    other.look(network, TOK, step=0)
    with pytest.raises(WatchError, match="another training has begun here"):
        one.look(network, TOK, step=10)
    other.look(network, TOK, step=15)
    assert [Trajectory.from_run(tmp_path / name).steps for name in ("_forgetwatch-1", "_forgetwatch")] == [
        (0, 5),
        (0, 15),
    ]


def test_a_run_that_resumes_puts_its_own_folder_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, network = Watch(probe(), tmp_path), Watch(probe(), tmp_path), model(TOK)
    one.look(network, TOK, step=0)
    one.look(network, TOK, step=5)
    other.look(network, TOK, step=0)
    again = Watch(probe(), tmp_path)
    again.resume(run=one.run.folder.run, step=5)
    assert sorted(again.comparisons) == [0, 5]
    assert again.run.folder.run == one.run.folder.run
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 5)
    assert StoredRun.read(tmp_path / "_forgetwatch-2").baseline.meta["run"] == other.run.folder.run
    assert "_forgetwatch again" in capsys.readouterr().err


def test_a_run_keeps_its_id_over_resumes_and_a_new_one_gets_another(tmp_path: Path) -> None:
    trained(tmp_path, steps=4, callbacks=[ForgetWatchCallback(probe(), every=2)], save_strategy="epoch")
    run = StoredRun.read(tmp_path).baseline.meta["run"]
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    assert state["stateful_callbacks"]["forgetwatch"]["attributes"]["run"] == run
    assert StoredRun.read(checkpoint / "forgetwatch").baseline.meta["run"] == run
    trained(tmp_path, steps=8, callbacks=[ForgetWatchCallback(probe(), every=2)], resume=True)
    stored = StoredRun.read(tmp_path)
    assert {look.meta["run"] for look in (stored.baseline, *stored.looks)} == {run}
    assert [look.meta["step"] for look in stored.looks] == [2, 4, 6, 8]
    assert stored.notes == ()
    trainer(tmp_path, steps=2, callbacks=[ForgetWatchCallback(probe(), every=2)]).train()
    assert StoredRun.read(tmp_path).baseline.meta["run"] != run


def test_a_trainer_that_resumes_after_the_end_takes_a_step_and_no_look(tmp_path: Path) -> None:
    options = {"steps": 4, "save_strategy": "steps", "save_steps": 4}
    trainer(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **options).train()
    again = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **options, resume=True)
    assert again.state.global_step == 5  # the trainer's own step
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4)

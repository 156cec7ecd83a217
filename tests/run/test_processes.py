"""The callback in a run of several processes.

Two trainings in one output_dir: one refusal where the disk has locks, and two runs where it has none.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ranks import in_processes, launched
from support import model, probe, tokenizer, trained, trainer
from transformers import AutoModelForCausalLM

from forgetwatch import ForgetWatchCallback, Trajectory, Watch, load_snapshot, score
from forgetwatch.errors import WatchError
from forgetwatch.run_folder import folder as run_folder
from forgetwatch.run_folder.contents import StoredRun

pytestmark = pytest.mark.usefixtures("without_pictures")

_RANK = """
import hashlib, json, sys
from pathlib import Path
from forgetwatch import ForgetWatchCallback
from forgetwatch.run_folder.folder import RunFolder
from support import probe, trained

folder = Path(sys.argv[1])
found = {}

def run(name, items, **options):
    callbacks = [ForgetWatchCallback(probe(items), every=2, **options)] if items else []
    made = trained(folder / name, callbacks=callbacks, steps=4, ddp_backend="gloo", save_strategy="steps", save_steps=2)
    sums = hashlib.sha256(b"".join(weight.detach().numpy().tobytes() for weight in made.model.parameters()))
    looks = [row for row in made.state.log_history if "eval_forget/all/forgotten" in row]
    found[name] = {
        "weights": sums.hexdigest(),
        "curve": [[row["step"], row["eval_forget/all/forgotten"], row["eval_forget/all/gained"]] for row in looks],
        "rank": made.args.process_index,
    }

run("plain", 0)
run("watched", 37, max_overhead=None)
run("few", 2, log="full", drift=True)
add = RunFolder.add

def full(self, look, *, step):
    if step == 2:
        raise OSError("no space left on device")
    return add(self, look, step=step)

RunFolder.add = full
run("full", 37)
try:
    run("strict", 37, strict=True)
except Exception as error:
    found["strict"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


_NAMED = """
import json, sys
from pathlib import Path
from forgetwatch import ForgetWatchCallback
from forgetwatch.errors import WatchError
from support import probe, trained

try:
    trained(Path(sys.argv[1]), callbacks=[ForgetWatchCallback(probe(), baseline="base")], steps=2, ddp_backend="gloo")
except WatchError as error:
    print(json.dumps({"error": str(error)}))
"""


_STOPPED = """
import dataclasses, json, sys
from pathlib import Path
from saved_runs import At
from forgetwatch import ForgetWatchCallback, Probe, score
from forgetwatch.run.guard import Guard
from support import model, probe, tokenizer, trainer

folder, tok = Path(sys.argv[1]), tokenizer()
chosen = score(model(tok), tok, probe(12)).ints("chosen").tolist()
known = Probe([dataclasses.replace(item, answer=at, must_pass=True) for item, at in zip(probe(12), chosen)], name="own")
found = []
for resume in (False, True):
    guard = Guard("stop", no_worse_than=None)
    callback = ForgetWatchCallback(known, every=2, guard=guard, max_overhead=None, drift=False)
    turned = At(1, lambda control: made.model.base_model.norm.weight.data.neg_())
    callbacks = [callback] if resume else [turned, callback]
    made = trainer(folder / "run", callbacks=callbacks, steps=6, ddp_backend="gloo", learning_rate=1e-6)
    made.train(resume_from_checkpoint=resume)
    found.append(made.state.global_step)
print(json.dumps({"steps": found}))
"""


def launch(folder: Path, world: int, script: str = _RANK) -> list[dict[str, Any]]:
    """Results of each process of a run of `world` processes."""
    found = []
    for one in launched(["-c", script, str(folder)], cwd=folder, world=world):
        assert one.returncode == 0, one.stderr[-2000:]
        full = one.stderr.count("no space left on device")
        found.append({**json.loads(one.stdout.splitlines()[-1]), "warnings": full})
    return found


@pytest.mark.full("3", reason="further numbers of processes")
@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_leave_training_untouched_and_count_as_one(
    world: int, tmp_path: Path
) -> None:
    ranks = launch(tmp_path, world)
    for name in ("plain", "watched", "few", "full"):
        assert len({rank[name]["weights"] for rank in ranks}) == 1
        assert [rank[name]["rank"] for rank in ranks] == list(range(world))
        assert ranks[0][name]["weights"] == ranks[0]["plain"]["weights"]
    assert [step for step, _, _ in ranks[0]["watched"]["curve"]] == [0, 2, 4]
    # What the processes counted together is what one counts alone, of the checkpoints.
    looks = Trajectory.from_run(tmp_path / "watched")
    for step, comparison in zip(looks.steps, looks.comparisons, strict=True):
        counts = [step, comparison.all.forgotten, comparison.all.gained]
        assert counts in ranks[0]["watched"]["curve"]
    for step in (2, 4):
        saved = AutoModelForCausalLM.from_pretrained(
            tmp_path / "watched" / f"checkpoint-{step}"
        ).eval()
        alone = score(saved, tokenizer(), probe(37))
        together = load_snapshot(
            tmp_path / "watched" / "_forgetwatch" / f"step-00000{step}.parquet"
        )
        assert alone.floats("correct").tolist() == together.floats("correct").tolist()
    assert len(load_snapshot(tmp_path / "few" / "_forgetwatch" / "step-000004.parquet")) == 2
    # A full disk in the main process: it alone logs it, once in each run; a strict run stops in all processes.
    assert [rank["warnings"] for rank in ranks] == [2] + [0] * (world - 1)
    assert all("no space left" in rank["strict"] for rank in ranks)


def test_a_run_that_the_guard_stopped_stops_again_at_one_step_in_all_processes(
    tmp_path: Path,
) -> None:
    ranks = launched(["-c", _STOPPED, str(tmp_path)], cwd=tmp_path, world=2)
    assert [json.loads(one.stdout.splitlines()[-1])["steps"] for one in ranks] == [[2, 3], [2, 3]]
    lines = [one.stderr.count("the training stops again after its first step") for one in ranks]
    assert lines == [1, 0]


def test_a_model_as_the_baseline_of_several_processes_is_refused_with_the_way_to_a_snapshot(
    tmp_path: Path,
) -> None:
    assert all(
        "`forgetwatch score base --probe ... -o base.parquet`" in one["error"]
        for one in launch(tmp_path, 2, _NAMED)
    )


_ONE_WITHOUT = """
from support import model, probe, tokenizer
from forgetwatch import Watch

tok, watch = tokenizer(), Watch(probe(4), folder, twice=False)
watch.look(model(tok), tok, step=0)
found["error"] = error(lambda: watch.look(model(tok), tok if rank == 0 else None, step=1))
"""


def test_a_process_without_a_tokenizer_does_not_leave_the_others_waiting(tmp_path: Path) -> None:
    found = [one["error"] for one in in_processes(_ONE_WITHOUT, tmp_path)]
    assert all("tokenizer: needed the model's tokenizer, got None" in error for error in found)


_DECIDED = """
import json, os, sys
from pathlib import Path
from saved_runs import curve
from forgetwatch import ForgetWatchCallback
from forgetwatch.run import known_baseline, schedule
from support import probe, trained

folder, found = Path(sys.argv[1]), {}
known_baseline.KEPT_SECONDS = schedule.LOOKS_SECONDS = 0.0
os.environ["FORGETWATCH_CACHE"] = str(folder / "cache")
for name in ("first", "second"):
    callback = ForgetWatchCallback(probe(520), max_overhead=1e-6)
    made = trained(folder / name, callbacks=[callback], steps=6, ddp_backend="gloo")
    found[name] = {"items": callback.watch.run.items, "curve": sorted(curve(made).items())}
print(json.dumps(found))
"""


def test_several_processes_decide_together_and_find_one_baseline(tmp_path: Path) -> None:
    ranks = launched(["-c", _DECIDED, str(tmp_path)], cwd=tmp_path, world=2)
    assert [one.returncode for one in ranks] == [0, 0], ranks[0].stderr[-2000:]
    one, other = (json.loads(rank.stdout.splitlines()[-1]) for rank in ranks)
    assert one["first"]["items"] == one["second"]["items"] == other["second"]["items"] == 500
    assert one["first"]["curve"] == one["second"]["curve"]
    assert [
        rank.stderr.count("50 items measured again, 0 with another outcome") for rank in ranks
    ] == [1, 0]


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
            with pytest.raises(
                WatchError, match="no other training uses, and another process trains here"
            ):
                Watch(probe(), tmp_path, resume=resume).look(model(TOK), TOK, step=0)
        other.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_forgetwatch", "_forgetwatch.lock"]
    assert Trajectory.from_run(tmp_path).steps == (0, 5)
    second = Watch(probe(), tmp_path)
    second.look(model(TOK), TOK, step=0)  # once the other has ended
    second.run.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "_forgetwatch",
        "_forgetwatch-1",
        "_forgetwatch.lock",
    ]


def test_two_trainings_in_one_folder_never_become_one_run(tmp_path: Path) -> None:
    """As in one process, or on a disk without locks."""
    one, other, network = Watch(probe(), tmp_path), Watch(probe(), tmp_path), model(TOK)
    one.look(network, TOK, step=0)
    one.look(network, TOK, step=5)
    other.look(network, TOK, step=0)
    with pytest.raises(WatchError, match="another training has begun here"):
        one.look(network, TOK, step=10)
    other.look(network, TOK, step=15)
    assert [
        Trajectory.from_run(tmp_path / name).steps for name in ("_forgetwatch-1", "_forgetwatch")
    ] == [
        (0, 5),
        (0, 15),
    ]


def test_a_run_that_resumes_puts_its_own_folder_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other, network = Watch(probe(), tmp_path), Watch(probe(), tmp_path), model(TOK)
    one.look(network, TOK, step=0)
    one.look(network, TOK, step=5)
    other.look(network, TOK, step=0)
    again = Watch(probe(), tmp_path)
    again._looks.resume(run=one.run.folder.run, step=5)
    assert sorted(again.run.comparisons) == [0, 5]
    assert again.run.folder.run == one.run.folder.run
    assert Trajectory.from_run(tmp_path / "_forgetwatch").steps == (0, 5)
    assert StoredRun.read(tmp_path / "_forgetwatch-2").baseline.meta["run"] == other.run.folder.run
    assert "_forgetwatch again" in capsys.readouterr().err


def test_a_run_keeps_its_id_over_resumes_and_a_new_one_gets_another(tmp_path: Path) -> None:
    trained(
        tmp_path, steps=4, callbacks=[ForgetWatchCallback(probe(), every=2)], save_strategy="epoch"
    )
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
    again = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **options, resume=True
    )
    assert again.state.global_step == 5  # the trainer's own step
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4)

"""The word of a run is of the model that it delivers: outputs that are not finite, looks that failed, best checkpoints.

A taught model keeps what it knows, since it trains at a rate of next to nothing, until something happens to it.
"""

import copy
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from passage_texts import passages
from saved_runs import At, described
from support import facts, model, probe, teach, tokenizer, trained
from transformers import TrainerState
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, compare, load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.comparing.decision import decide_run
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.trajectory import right_answers, trajectory_of
from forgetwatch.errors import MismatchError, ScoringError
from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.follow.follower import Follower
from forgetwatch.run import trackers
from forgetwatch.run.guard import Guard
from forgetwatch.run.trainer import best_step
from forgetwatch.run_folder.description import Description, Ending, write_description
from forgetwatch.run_folder.task_figure import logged_figure
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import NOT_FINITE

pytestmark = pytest.mark.usefixtures("without_pictures")

QUESTIONS = Probe(facts(64), name="facts")
TEXTS = [f"{item.prompt}{item.choices[item.answers[0]]}" for item in QUESTIONS]


@pytest.fixture(scope="module")
def taught() -> Any:
    return teach(model(tokenizer(), dropout=0.0), tokenizer(), TEXTS, 60)


def poison(network: Any) -> None:
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(math.nan)


def run(folder: Path, network: Any, *callbacks: Any, steps: int = 12, **options: Any) -> Any:
    """A training that changes next to nothing; the watched run is in `_forgetwatch`."""
    settings = {
        "learning_rate": 1e-7,
        "save_strategy": "steps",
        "save_steps": 2,
        "logging_steps": 1,
        **options,
    }
    return trained(
        folder,
        network=copy.deepcopy(network),
        callbacks=callbacks,
        steps=steps,
        texts=TEXTS,
        **settings,
    )


def watch(**options: Any) -> ForgetWatchCallback:
    return ForgetWatchCallback(QUESTIONS, **{"every": 2, "max_overhead": None, **options})


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def report(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["report", str(folder), *arguments])
    return done.exit_code, " ".join(done.stdout.split())


class Noted(trackers.Tracker):
    """A tracker that keeps the verdicts it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.verdicts: list[str] = []

    def text(self, name: str, text: str, **named: Any) -> None:
        self.verdicts += [text] if name == "verdict" else []


POLICY = "policy: mine\ncritical: ['n<1']\non_fail: stop\n"


@pytest.mark.parametrize("action", ["warn", "save", "stop", "policy"])
def test_a_run_that_diverges_is_forgot_and_its_guard_acts(
    action: str, taught: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    guard: Any = str(tmp_path / "p.yaml") if action == "policy" else action
    made = run(tmp_path, taught, At(5, poison, to="model"), watch(guard=guard))
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--model-card"]).exit_code == 0
    out = shown(capsys)
    assert "the model's outputs are not finite since step 6 (64 of 64 answers)" in out
    assert "FORGOT " in out
    assert "KEPT" not in out
    stops = action in ("stop", "policy")
    assert made.state.global_step == (6 if stops else 12)
    assert (tmp_path / "checkpoint-6").exists() != stops  # a resume would take it
    assert ("stopped the run at step 6" in out) == stops
    if stops:
        assert described(tmp_path)["state"] == "stopped"
    for page in ("_forgetwatch/report.html", "README.md"):
        assert "FORGOT</" in (text := (tmp_path / page).read_text()) or "**FORGOT**" in text
        assert "not finite since step 6" in text
    assert "KEPT" not in text
    page = (tmp_path / "_forgetwatch" / "report.html").read_text()
    assert "now <bdi>not finite</bdi>" in page
    assert "do not use this model" in page
    assert "mixed in" not in page
    status, again = report(tmp_path, "--fail-if", "forgetting>5%")
    assert status == 3
    assert "gate FAIL" in again
    row = [one for one in made.state.log_history if "eval_forget/all/not_finite" in one]
    assert [one["step"] for one in row] == ([6] if stops else [6, 8, 10, 12])
    assert {one["eval_forget/all/not_finite"] for one in row} == {64}


def test_a_rollback_delivers_the_last_finite_checkpoint_and_is_judged_by_it(
    taught: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(tmp_path, taught, At(5, poison, to="model"), watch(guard="rollback"))
    assert made.state.global_step == 6
    assert all(torch.isfinite(weight).all() for weight in made.model.parameters())
    out = shown(capsys)
    assert "step 4 of 12: " in out
    assert "KEPT" in out
    assert "stopped the run at step 6; the weights left are those of step 4" in out
    ending = Description.read(tmp_path / "_forgetwatch").ending
    assert ending == Ending(state="stopped", last_step=6, max_steps=12, delivered=4)
    assert Trajectory.from_run(tmp_path).final_step == 4
    assert load_snapshot(tmp_path / "_forgetwatch" / "step-000006.parquet").is_not_finite.all()
    assert not (tmp_path / "checkpoint-6").exists()
    assert "not in these weights" not in out
    assert "at step 4 +0.0 points" in report(tmp_path, "--detail")[1]
    # The next training begins with these weights.
    run(tmp_path / "next", made.model, watch(lineage=tmp_path), steps=4)
    assert Trajectory.from_run(tmp_path / "next").number == 2


def test_a_stage_that_ended_not_finite_is_shown_beside_the_next(
    taught: Any, tmp_path: Path
) -> None:
    for name, callbacks in (("a", [At(3, poison, to="model")]), ("b", [])):
        run(tmp_path / name, taught, *callbacks, watch(guard=None), steps=4)
    stages = read_stages([tmp_path / "a", tmp_path / "b"])
    said = (
        "outputs are not finite (64 of 64 answers) at its end, and no stage is compared with that"
    )
    assert any(said in note for note in stages.final.notes)
    assert (
        CliRunner().invoke(app, ["report", str(tmp_path / "a"), str(tmp_path / "b")]).exit_code == 0
    )
    matrix = stages.matrix
    assert matrix is not None
    assert [row.since_previous is None for row in matrix.rows] == [False, True]


@pytest.mark.parametrize("ends", [False, True])
def test_a_follower_notes_how_far_it_came(ends: bool, taught: Any, tmp_path: Path) -> None:
    """A guard ends the follower at the look that trips it; following once in the middle ends nothing."""
    taught.save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    run(tmp_path, taught, *([At(2, poison, to="model")] if ends else []), steps=8, save_steps=4)
    if not ends:
        shutil.rmtree(tmp_path / "checkpoint-8")
    guard = Guard("stop") if ends else None
    settings = FollowSettings(base=str(tmp_path / "base"), once=True, guard=guard)
    follower = Follower(str(tmp_path), QUESTIONS, settings)
    follower.follow()
    ending = Description.read(follower.run.folder.path).ending
    assert ending is not None
    assert (ending.state, ending.delivered, ending.failed) == (
        ("stopped", 4, ()) if ends else ("running", None, ())
    )


def test_looks_that_fail_at_the_end_leave_it_open(
    taught: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Scorer.score

    def broken(self: Scorer, network: Any, *, step: int | None = None, **named: Any) -> Any:
        if step in (6, 8):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return plain(self, network, step=step, **named)

    noted = Noted("noted")
    monkeypatch.setattr(trackers, "TRACKERS", (noted,))
    monkeypatch.setattr(Scorer, "score", broken)
    run(tmp_path, taught, watch(), steps=8)
    said = "not measured since step 4: 2 looks failed (out of memory)"
    assert said in shown(capsys)
    assert [verdict.partition(":")[0] for verdict in noted.verdicts] == [
        "KEPT",
        "KEPT",
        *["NOT CLEAR"] * 3,
    ]
    assert noted.verdicts[-1] == f"NOT CLEAR: {said}"
    assert said in report(tmp_path)[1]
    status, out = report(tmp_path, "--fail-if", "forgetting>5%")
    assert status == 4
    assert "gate INCONCLUSIVE: not measured since step 4" in out
    assert report(tmp_path, "--policy", "fine-tune")[0] == 4
    assert "not measured since step 4" in (tmp_path / "_forgetwatch" / "report.html").read_text()
    json_path = tmp_path / "r.json"
    report(tmp_path, "--json", str(json_path))
    document = json.loads(json_path.read_text())
    assert {name: document["decision"][name] for name in ("word", "answer", "step")} == {
        "word": "NOT CLEAR",
        "answer": "INCONCLUSIVE",
        "step": 4,
    }
    assert document["ending"]["failed"] == [
        {"step": step, "cause": "out of memory"} for step in (6, 8)
    ]
    # No number on the hub of weights that were not measured.
    report(tmp_path, "--model-card")
    assert "metrics:" not in (tmp_path / "README.md").read_text()


def test_a_loss_of_the_last_look_stays_forgot_where_later_looks_failed(
    taught: Any, tmp_path: Path
) -> None:
    run(tmp_path, taught, At(5, poison, to="model"), watch(guard=None), steps=6)
    folder = tmp_path / "_forgetwatch"
    values = dict(Description.read(folder).values)
    write_description(
        folder, {**values, "failed": [{"step": 8, "cause": "x"}], "last_step": 8, "delivered": 8}
    )
    made = decide_run(Trajectory.from_run(folder))
    assert (made.word, made.reasons[0]) == (
        "FORGOT",
        "not measured since step 6: 1 look failed (x)",
    )


def test_the_best_checkpoint_that_is_loaded_at_the_end_is_the_one_that_is_judged(
    taught: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its loss is lowest at step 2, which has no look: one is taken of the loaded weights, under that step."""
    options = {
        "load_best_model_at_end": True,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_steps": 2,
    }
    # As a training that goes wrong after step 3; the poison leaves the first checkpoint as it is.
    made = run(tmp_path, taught, At(3, poison, to="model"), watch(every=[6]), steps=6, **options)
    assert made.state.best_global_step == 2
    out = shown(capsys)
    assert "step 2 of 6: " in out
    assert "KEPT" in out
    assert "the weights left are those of step 2" in out
    trajectory = Trajectory.from_run(tmp_path)
    assert (trajectory.steps, trajectory.final_step, trajectory.last.meta["step"]) == (
        (0, 2, 6),
        2,
        2,
    )
    assert trajectory.comparisons[-1].all.outcomes.not_finite == 64


def test_the_best_checkpoint_is_that_of_its_folder(taught: Any, tmp_path: Path) -> None:
    """The best loss is that of step 6, which is not saved: the weights that are loaded are those of step 4."""
    state = TrainerState(best_global_step=6, best_model_checkpoint=str(tmp_path / "checkpoint-4"))
    assert best_step(state) == 4
    assert best_step(replace(state, best_model_checkpoint="s3/best")) == 6


def test_a_run_that_was_killed_says_that_it_has_not_ended(taught: Any, tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    def kill(control: Any) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        run(tmp_path / "out", taught, watch(), At(5, kill))
    out = report(tmp_path / "out")[1]
    assert "out, step 4 of 12: " in out
    assert "KEPT" in out
    assert described(tmp_path / "out")["state"] == "running"


def test_a_folder_that_names_no_end_is_read_as_before(taught: Any, tmp_path: Path) -> None:
    run(tmp_path, taught, watch(), steps=4)
    folder = tmp_path / "_forgetwatch"
    values = dict(Description.read(folder).values)
    for name in ("state", "last_step", "max_steps", "failed", "delivered"):
        del values[name]
    write_description(folder, values)
    trajectory = Trajectory.from_run(folder)
    assert (trajectory.ending, trajectory.final_step, decide_run(trajectory).word) == (
        None,
        4,
        "KEPT",
    )


@pytest.mark.parametrize(
    "change", [{"state": "over"}, {"failed": [{"step": "x", "cause": ""}]}, {"last_step": None}]
)
def test_an_end_that_is_damaged_is_not_used_in_part(
    change: dict[str, Any], taught: Any, tmp_path: Path
) -> None:
    run(tmp_path, taught, watch(), steps=2)
    folder = tmp_path / "_forgetwatch"
    write_description(folder, {**Description.read(folder).values, **change})
    assert "is damaged" in str(Description.read(folder).problem)


def test_a_look_that_succeeds_again_covers_those_that_failed(
    taught: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Scorer.score

    def broken(self: Scorer, network: Any, *, step: int | None = None, **named: Any) -> Any:
        if step == 2:
            raise RuntimeError("a long message about what was wrong " * 5)
        return plain(self, network, step=step, **named)

    monkeypatch.setattr(Scorer, "score", broken)
    run(tmp_path, taught, watch(), steps=4)
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.ending is not None
    ((step, cause),) = trajectory.ending.failed
    assert (step, len(cause), decide_run(trajectory).word) == (2, 80, "KEPT")


def test_passages_alone_that_are_not_finite_are_no_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = Probe(passages(), name="texts")
    watching = ForgetWatchCallback(items, every=2, max_overhead=None, guard="stop")
    made = run(tmp_path, model(tokenizer()), At(3, poison, to="model"), watching, steps=8)
    assert made.state.global_step == 4
    out = shown(capsys)
    assert "the model's outputs are not finite since step 4 (12 of 12 passages)" in out
    assert "NO VERDICT" not in out


# Scoring


def test_a_model_without_a_finite_output_has_no_right_answer_and_is_no_base() -> None:
    tok = tokenizer()
    network = model(tok)
    before = score(network, tok, probe(60))
    poison(network)
    after = score(network, tok, probe(60))
    assert set(after.texts("outcome")) == {NOT_FINITE}
    assert (after.floats("correct") == 0).all()
    made = compare(before=before, after=after)
    assert made.all.forgotten == made.all.retained + made.all.forgotten > 0
    assert (made.all["not_finite"], made.all["known_lost"]) == (60, made.all["known"])
    assert any(note == "wrong, since their outputs after are not finite: 60" for note in made.notes)
    with pytest.raises(
        MismatchError, match=r"the model's outputs are not finite \(60 of 60 answers\)"
    ):
        compare(before=after, after=before)


def _with(snapshot: Any, rows: range) -> Any:
    """The snapshot with outputs that are not finite in some rows, as scoring stores them."""
    table = snapshot.table.to_pydict()
    for row in rows:
        values = {
            "outcome": NOT_FINITE,
            "correct": False,
            "chosen": None,
            "gold_share": 0.0,
            "margin": None,
        }
        for name, value in {**values, "choice_logprobs": None}.items():
            table[name][row] = value
    return type(snapshot).from_columns(table, snapshot.meta)


def test_one_answer_of_500_that_is_not_finite_is_wrong_after_and_left_out_before(
    taught: Any,
) -> None:
    tok = tokenizer()
    many = Probe(facts(500), name="many")
    base = score(taught, tok, many)
    one, more = (_with(base, range(number)) for number in (1, 6))
    after = compare(before=base, after=one)
    assert (after.all.n, after.all["not_finite"], len(after.notes)) == (500, 1, 1)
    assert "not finite" not in decide_word(after)
    before = compare(before=one, after=base)
    assert (before.all.n, before.all.gained, before.all.outcomes.vanished) == (499, 0, 0)
    assert before.notes == ("left out, since their outputs before are not finite: 1",)
    # Neither in the history of its looks, nor in its second measurement.
    right = right_answers(one, base)
    assert (math.isnan(right[0]), right[1:].tolist()) == (True, base.floats("correct")[1:].tolist())
    again = compare(before=base, after=base, repeat=one).all
    assert (again["null_n"], again["null_lost"]) == (499, 0)
    broken = compare(before=base, after=more)
    assert decide_word(broken) == "NOT CLEAR the model's outputs are not finite (6 of 500 answers)"


def decide_word(comparison: Any) -> str:
    from forgetwatch.comparing.decision import decide

    made = decide(comparison)
    return f"{made.word} {made.sentence}"


def test_a_baseline_that_is_not_finite_is_refused_before_the_first_step(tmp_path: Path) -> None:
    network = model(tokenizer())
    poison(network)
    with pytest.raises(
        ScoringError,
        match=r"not finite .* before the first step: nothing can be compared with them",
    ):
        trained(tmp_path, network=network, callbacks=[watch()], steps=2)


def test_a_token_that_is_ruled_out_is_a_score_and_all_of_them_are_none() -> None:
    tok = tokenizer()
    network, items = model(tok), facts(8)
    first = tok(items[0].choices[0])["input_ids"][-1]
    plain = network.forward

    def forward(input_ids: Any = None, **named: Any) -> Any:
        out = plain(input_ids=input_ids, **named)
        out.logits[..., first] = -math.inf
        return out

    network.forward = forward
    made = score(network, tok, Probe(items, name="f"))
    assert made.texts("outcome")[0] == "ok"
    assert made.table["choice_logprobs"][0].as_py()[0] == -math.inf
    assert made.table["margin"][0].as_py() is not None


def test_generated_answers_at_a_step_that_is_not_finite_are_wrong() -> None:
    tok = tokenizer()
    network = model(tok)
    asked = Probe(list(probe(8)), name="g", scoring="generate", decoding={"tokens": 4})
    good = score(network, tok, asked)
    assert NOT_FINITE not in set(good.texts("outcome"))
    poison(network)
    bad = score(network, tok, asked)
    assert set(bad.texts("outcome")) == {NOT_FINITE}
    assert (bad.floats("correct") == 0).all()


def test_a_loss_that_the_trainer_logs_as_0_is_no_figure() -> None:
    rows: list[dict[str, Any]] = [
        {"step": 1, "loss": 2.0, "grad_norm": 1.0},
        {"step": 2, "loss": 0.0, "grad_norm": 0.1},
    ]
    rows += [
        {"step": 3, "loss": 0.0, "grad_norm": math.nan},
        {"step": 4, "loss": math.nan, "grad_norm": 1.0},
    ]
    figure = logged_figure(rows)
    assert figure is not None
    assert (figure.values, figure.broken) == (((1, 2.0), (2, 0.0)), 3)
    assert (figure.at(2), figure.at(3), str(figure)) == (
        0.0,
        None,
        "loss 2 -> 0, not finite at step 3",
    )


def test_a_guard_with_a_policy_keeps_its_alarms(tmp_path: Path) -> None:
    from support import snapshot

    (tmp_path / "p.yaml").write_text(POLICY)
    guard = Guard.of(str(tmp_path / "p.yaml"), probe())
    assert guard is not None
    looks = [snapshot([True] * 400, meta={"step": 0})]
    looks += [snapshot([False] * 200 + [True] * 200, meta={"step": step}) for step in (1, 2)]
    found = guard.findings(trajectory_of(looks, planned=2))
    assert [one.what for one in found] == ["alarm"]

"""The files of a training's steps are its looks: which are found, what pairs, and what is said of the rest."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forgetwatch import compare
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import SnapshotError
from forgetwatch.readers.dumps import files_of_steps, is_dumps, read_dumps, step_of

QUESTIONS = 60
STEPS = (0, 10, 20, 30)
Rows = list[dict[str, Any]]


def right(question: int, step: int) -> float:
    """Whether the answer to a question is right at a step."""
    return float(random.Random(question * 1000 + step // 10).random() < 0.6)


def lines(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def table(path: Path, rows: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def verl(q: int, s: int) -> dict[str, Any]:
    return {"input": f"user\nq {q}", "output": "x", "gts": str(q), "score": right(q, s), "step": s}


def nemo(q: int, s: int) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"q {q}"}, {"role": "assistant", "content": "x"}]
    return {"content": [turns], "rewards": [right(q, s)], "idx": q}


def skyrl(q: int, s: int) -> dict[str, Any]:
    return {
        "input_prompt": f"q {q}",
        "output_response": "x",
        "score": [0.0, 0.0, right(q, s)],
        "env_extras": {"reward_spec": {"ground_truth": str(q)}},
        "data_source": "gsm8k",
    }


def areal(q: int, s: int) -> dict[str, Any]:
    row = {"task_id": f"q{q}", "sample_idx": 0, "head_version": s, "reward": right(q, s)}
    return row | {"prompt": f"q {q}", "completion": "x"}


def trl(q: int, s: int) -> dict[str, Any]:
    row = {"step": s, "prompt": f"q {q}", "completion": "x", "advantage": 0.5}
    return row | {"right_reward": right(q, s)}


def swift(q: int, s: int) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"q {q}"}, {"role": "assistant", "content": "a"}]
    return {"response": "a" if right(q, s) else "b", "labels": "A", "messages": turns}


def verifiers(q: int, s: int) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"q {q}"}]
    return {"example_id": q, "prompt": turns, "completion": turns, "answer": str(q), "reward": right(q, s)}  # fmt: skip


def art(q: int, s: int) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"q {q}"}, {"role": "assistant", "content": "x"}]
    return {"reward": 0.5, "metrics": {"correct": right(q, s)}, "messages": turns}


def tinker(q: int, s: int) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"q {q}"}, {"role": "assistant", "content": "x"}]
    row = {"idx": q, "benchmark": "gsm8k", "turns": turns, "reward": right(q, s), "error": None}
    return row | {"metrics": {"correct": right(q, s)}}


def agent(q: int, s: int) -> dict[str, Any]:
    # What a tool answers depends on the model, and is no part of the question.
    answer = {"role": "assistant", "content": "x"}
    turns = [
        {"role": "user", "content": f"q {q}"},
        answer,
        {"role": "tool", "content": f"{s}"},
        answer,
    ]
    return {"messages": turns, "reward": right(q, s), "metrics": {}}


def as_texts(q: int, s: int) -> dict[str, Any]:
    return {name: str(value) for name, value in verl(q, s).items()}


def sidecar(q: int, s: int) -> dict[str, Any]:
    return {
        "step": s,
        "uid": str(q * s),
        "prompt": f"q {q}",
        "response": "x",
        "reward": right(q, s),
    }


def named_rewards(q: int, s: int) -> dict[str, Any]:
    return trl(q, s) | {"rewards": {"right": right(q, s)}}


FORMS: dict[str, tuple[str, Callable[[int, int], dict[str, Any]]]] = {
    "verl": ("val/{N}.jsonl", verl),
    "NeMo RL": ("exp_001/val_data_step{N}.jsonl", nemo),
    "SkyRL": ("dumped_evals/global_step_{N}_evals/gsm8k.jsonl", skyrl),
    "TRL": ("completions/completions_{N:05d}.parquet", trl),
    "ms-swift": ("v0/checkpoint-{N}/infer_result/20260101.jsonl", swift),
    "prime-rl": ("evals/step_{N}/gsm8k/results.jsonl", verifiers),
    "Tinker": ("evals/checkpoint_{N}/gsm8k/trajectories.jsonl", tinker),
    "an agent": ("step-{N}/trajectories.jsonl", agent),
    "verl, texts": ("{N}.jsonl", as_texts),
    "a sidecar of SkyRL": ("diag_rollouts/step_{N}.jsonl", sidecar),
    "TRL, rewards by name": ("completions_{N:05d}.jsonl", named_rewards),
    "ART": ("trajectories/val/{N:04d}.jsonl", art),
}


@pytest.fixture(params=FORMS)
def dumped(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of four steps, each with its rows in another order, and files that are no answers."""
    form, row = FORMS[request.param]
    for step in STEPS:
        path = tmp_path / form.format(N=step)
        rows = [row(q, step) for q in range(QUESTIONS)]
        random.Random(step).shuffle(rows)
        (table if path.suffix == ".parquet" else lines)(path, rows)
    lines(tmp_path / "dumped_evals/global_step_10_evals/aggregated_results.jsonl", [{"x": 1}])
    lines(tmp_path / "config.json", [{"x": 1}])
    return tmp_path


def expected(step: int) -> tuple[int, int]:
    pairs = [(right(q, 0), right(q, step)) for q in range(QUESTIONS)]
    return sum(pair == (1, 0) for pair in pairs), sum(pair == (0, 1) for pair in pairs)


def test_steps_are_looks_and_flips_are_those_of_an_own_count(dumped: Path) -> None:
    assert is_dumps([dumped])
    dumps = read_dumps([dumped])
    run = trajectory_of(dumps.looks)
    assert run.steps == STEPS
    for step, look in zip(run.steps, run.comparisons, strict=True):
        assert (look.all.forgotten, look.all.gained) == expected(step)
    history = run.right
    assert history.shape == (4, QUESTIONS)
    assert np.nanmean(history[0]) == pytest.approx(np.mean([right(q, 0) for q in range(QUESTIONS)]))
    assert any("clearly known is not measured" in note for note in dumps.notes)


def test_rows_of_many_steps_in_one_file_are_told_apart_by_a_column(tmp_path: Path) -> None:
    lines(tmp_path / "rollout.jsonl", [areal(q, s) for s in STEPS for q in range(QUESTIONS)])
    assert is_dumps([tmp_path])
    assert trajectory_of(read_dumps([tmp_path]).looks).steps == STEPS
    rows = [
        {"at": s, "question": f"q {q}", "correct": right(q, s)}
        for s in STEPS
        for q in range(QUESTIONS)
    ]
    lines(tmp_path / "own" / "table.jsonl", rows)
    run = trajectory_of(read_dumps([tmp_path / "own"], form="at").looks)
    assert (run.steps, run.final.all.forgotten) == (STEPS, expected(30)[0])


def test_any_other_form_of_names_can_be_given(tmp_path: Path) -> None:
    for step in STEPS:
        path = tmp_path / f"run_{step}" / "val.csv"
        path.parent.mkdir()
        rows = [f"{q},{right(q, step):g}" for q in range(QUESTIONS)]
        path.write_text("\n".join(["item_id,correct", *rows]))
    run = trajectory_of(read_dumps([tmp_path], form="run_{N}/val.csv").looks)
    assert (run.steps, run.final.all.forgotten) == (STEPS, expected(30)[0])
    with pytest.raises(SnapshotError, match=r"--step names a column, or a form with \{N\}"):
        read_dumps([tmp_path])


def test_several_sets_of_a_step_are_categories(tmp_path: Path) -> None:
    for step in STEPS:
        for name in ("gsm8k", "math"):
            rows = [skyrl(q, step) | {"data_source": None} for q in range(QUESTIONS)]
            lines(tmp_path / f"global_step_{step}_evals" / f"{name}.jsonl", rows)
    run = trajectory_of(read_dumps([tmp_path]).looks)
    assert sorted(run.final.by("category")) == ["gsm8k", "math"]
    assert run.final.by("category")["math"].forgotten == expected(30)[0]


def test_several_samples_are_samples(tmp_path: Path) -> None:
    for step in STEPS:
        rows = [
            verl(q, step) | {"score": float((q + sample + step) % 3 > 0)}
            for q in range(QUESTIONS)
            for sample in range(4)
        ]
        random.Random(step).shuffle(rows)
        lines(tmp_path / f"{step}.jsonl", rows)
    looks = read_dumps([tmp_path]).looks
    assert looks[0].ints("sample").max() == 3
    assert trajectory_of(looks).final.all.n == QUESTIONS


def test_one_sample_without_a_second_measurement_is_never_kept(tmp_path: Path) -> None:
    rows = [{"item_id": str(q), "correct": q % 3 > 0} for q in range(3000)]
    for step in (0, 1):
        lines(
            tmp_path / f"{step}.jsonl",
            [
                {"input": row["item_id"], "output": "", "score": float(row["correct"])}
                for row in rows
            ],
        )
    before, after = read_dumps([tmp_path]).looks
    decision = decide(compare(before=before, after=after))
    assert decision.word == "NOT CLEAR"
    assert "flips may be sampling: one sample a question" in decision.sentence
    assert decide(compare(before=before, after=after, repeat=before)).word == "KEPT"


def test_a_loss_beyond_its_limit_is_said_whatever_sampling_does(tmp_path: Path) -> None:
    for step in (0, 1):
        lines(
            tmp_path / f"{step}.jsonl",
            [verl(q, 0) | {"score": float(q % 2 > step)} for q in range(400)],
        )
    before, after = read_dumps([tmp_path]).looks
    assert decide(compare(before=before, after=after)).word == "FORGOT"


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    for step in (*STEPS, 50, 60, 70):
        lines(tmp_path / f"{step}.jsonl", [verl(q, step) for q in range(QUESTIONS)])
    broken = tmp_path / "20.jsonl"
    broken.write_text(broken.read_text()[:-9])
    dumps = read_dumps([tmp_path])
    assert [look.meta["step"] for look in dumps.looks] == [0, 10, 30, 50, 60, 70]
    assert any(
        note.startswith("step 20 is left out: ") and "line 60" in note for note in dumps.notes
    )
    assert "steps without a file: 40" in dumps.notes
    assert [step for step, _ in dumps.failed] == [20]


def test_steps_that_were_written_again_count_once(tmp_path: Path) -> None:
    for number, steps in enumerate(((0, 10, 20), (10, 20, 30))):
        for step in steps:
            path = tmp_path / f"run{number}" / f"{step}.jsonl"
            lines(path, [verl(q, step + 100 * number) for q in range(QUESTIONS)])
            os.utime(path, (1000 + number, 1000 + number))
    dumps = read_dumps([tmp_path / "run1", tmp_path / "run0"])
    assert (
        "steps that are there twice: 10, 20; the files that were written last count" in dumps.notes
    )
    want = [right(q, 110) for q in range(QUESTIONS)]
    assert sorted(dumps.looks[1].floats("correct").tolist()) == sorted(want)


def test_without_step_0_the_first_is_the_base_and_a_line_says_so(tmp_path: Path) -> None:
    for step in (10, 20):
        lines(tmp_path / "run" / f"{step}.jsonl", [verl(q, step) for q in range(QUESTIONS)])
    lines(tmp_path / "base.jsonl", [verl(q, 0) for q in range(QUESTIONS)])
    assert any(
        note.startswith("no file of step 0: counted from step 10")
        for note in read_dumps([tmp_path / "run"]).notes
    )
    dumps = read_dumps([tmp_path / "run"], base=tmp_path / "base.jsonl")
    assert [look.meta["step"] for look in dumps.looks] == [-1, 10, 20]
    assert not any("no file of step 0" in note for note in dumps.notes)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("val_data_step40.jsonl", 40),
        ("40.jsonl", 40),
        ("completions_00040.parquet", 40),
        ("global_step_40_evals", 40),
        ("checkpoint-1500", 1500),
        ("org__model__checkpoint-200", 200),
        ("iter_0000100", 100),
        ("step=7", 7),
        ("samples_arc_2026-01-02.jsonl", None),
        ("llama3-8b", None),
    ],
)
def test_the_step_is_in_the_name(name: str, step: int | None) -> None:
    assert step_of(Path(name)) == step


def test_a_folder_without_steps_is_none(tmp_path: Path) -> None:
    lines(tmp_path / "notes.jsonl", [{"x": 1}])
    assert not files_of_steps([tmp_path])
    assert not is_dumps([tmp_path])

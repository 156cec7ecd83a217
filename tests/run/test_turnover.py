"""Training prompts that come again under GRPO: solved, lost, solved again, as an own count has them."""

from collections import defaultdict, deque
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from support import facts, model, tokenizer
from trl import GRPOConfig, GRPOTrainer

from forgetwatch import ForgetWatchCallback, Probe
from forgetwatch.run.turnover import Turnover


def trainer_of(*generations: dict[str, list[float]]) -> Any:
    """Stand-ins for a trainer after each of some generations: rewards by prompt."""
    for number, rewards in enumerate(generations):
        pairs = [(prompt, reward) for prompt, values in rewards.items() for reward in values]
        yield SimpleNamespace(
            _logs={
                "prompt": deque(prompt for prompt, _ in pairs),
                "completion": deque(f"{number} {at}" for at in range(len(pairs))),
                "rewards": {
                    "style": deque(7.0 for _ in pairs),
                    "right": deque(r for _, r in pairs),
                },
            }
        )


def test_prompts_that_come_again_are_counted() -> None:
    turnover = Turnover()
    generations = [
        {"a": [1, 1], "b": [0, 0], "c": [1, 0]},
        {"a": [0, 0], "b": [1, 1]},
        {"a": [1, 1], "c": [0, 0], "d": [1, 1]},
        {"a": [0, 1], "c": [1, 1]},
    ]
    for trainer in trainer_of(*generations):
        turnover.read(trainer)
        turnover.read(trainer)  # several steps of one generation
    # a: solved, lost, solved again, solved; b: solved later; c: solved, lost, solved again.
    assert (turnover.again, turnover.lost, turnover.solved_again) == (3, 2, 2)
    assert turnover.row == {
        "train_turnover/again": 3.0,
        "train_turnover/lost": 2.0,
        "train_turnover/solved_again": 2.0,
    }
    assert "3 came again; solved ones were lost 2 times" in turnover.line


def test_answers_of_an_evaluation_are_passed_over() -> None:
    turnover = Turnover()
    first, evaluated, second = trainer_of({"a": [1.0]}, {"a": [0.0]}, {"a": [1.0]})
    turnover.read(first)
    turnover.read(evaluated, is_counted=False)
    turnover.read(evaluated)
    turnover.read(second)
    assert (turnover.again, turnover.lost) == (1, 0)


@pytest.mark.parametrize(
    "trainer",
    [
        SimpleNamespace(),
        SimpleNamespace(_logs={"prompt": deque(), "completion": deque(), "rewards": {}}),
        next(trainer_of({})),
        SimpleNamespace(
            _logs={
                "prompt": deque("a"),
                "completion": deque("b"),
                "rewards": {"length": deque([31.0])},
            }
        ),
    ],
)
def test_other_trainers_and_rewards_have_no_turnover(trainer: Any) -> None:
    turnover = Turnover()
    turnover.read(trainer)
    assert (turnover.row, turnover.line) == ({}, "")


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_a_training_counts_what_its_completions_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"w{n} w{n + 1}" for n in range(4)]
    trainer = GRPOTrainer(
        model=model(tokenizer()),
        reward_funcs=lambda completions, **_: [
            float(sum(map(ord, text)) % 2) for text in completions
        ],
        args=GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=8,
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=2,
            temperature=2.0,
            learning_rate=1e-2,
            logging_steps=1,
            log_completions=True,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": word} for word in words]),
        processing_class=tokenizer(),
        callbacks=[ForgetWatchCallback(Probe(list(facts(8))), every=4, max_overhead=None)],
    )
    trainer.train()
    states: dict[str, list[bool]] = defaultdict(list)
    for path in sorted(tmp_path.rglob("completions_*.parquet")):
        table = pq.read_table(path).to_pylist()
        rewards = [
            name
            for name in table[0]
            if name not in ("step", "prompt", "completion", "advantage", "mode")
        ]
        scores: dict[str, list[float]] = defaultdict(list)
        for row in table:
            scores[row["prompt"]].append(row[rewards[0]])
        for prompt, values in scores.items():
            states[prompt].append(sum(values) / len(values) >= 0.5)
    assert sum(map(len, states.values())) == 16
    again = lost = back = 0
    for history in states.values():
        again += len(history) > 1
        was_lost = False
        for before, now in pairwise(history):
            lost += before and not now
            was_lost |= before and not now
            back += was_lost and now and not before
            was_lost &= not now
    assert again == 4
    assert lost > 0
    said = capsys.readouterr().err
    assert f"{again} came again; solved ones were lost {lost} times" in said
    assert f"lost ones solved again {back} times" in said
    rows = [row for row in trainer.state.log_history if "train_turnover/lost" in row]
    assert rows[-1]["train_turnover/lost"] == lost
    assert torch.isfinite(next(trainer.model.parameters())).all()

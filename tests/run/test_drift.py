"""Drift of a run from its base, measured at the looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, probe, tokenizer, trained
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback
from forgetwatch.run import drift_prompts, read_completions, sample_base
from forgetwatch.scoring import encode

TOK = tokenizer()
ROLES = ("user", "assistant", "user")


class Killed(TrainerCallback):
    """Ends the run at step 5, as if it were killed."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 5:
            raise KeyboardInterrupt


def drifts(run: Any) -> dict[int, tuple[float, float]]:
    """KL after prompts of the probe and of the training examples, by step, as the trainer logged them."""
    rows = [row for row in run.state.log_history if "eval_forget/all/kl_probe" in row]
    return {row["step"]: (row["eval_forget/all/kl_probe"], row["eval_forget/all/kl_training"]) for row in rows}


def watched() -> ForgetWatchCallback:
    return ForgetWatchCallback(probe(), every=3, log="full", share_text=True)


def test_the_base_has_not_moved_and_training_moves_it_and_nothing_else(tmp_path: Path) -> None:
    plain = trained(tmp_path / "a")
    run = trained(tmp_path / "b", callbacks=[watched()])
    found = drifts(run)
    assert sorted(found) == [0, 3, 6]
    assert found[0] == (0.0, 0.0)
    assert found[6][1] > found[3][1] > 0  # the training prompts move most: they are what is trained
    pairs = zip(run.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert {key for row in run.state.log_history for key in row if "overlap" in key} == {
        "eval_forget/all/overlap_probe",
        "eval_forget/all/overlap_training",
    }


def test_resume_keeps_the_completions_also_from_the_checkpoint(tmp_path: Path) -> None:
    options = {"steps": 6, "save_strategy": "steps", "save_steps": 2}
    whole = trained(tmp_path / "a", callbacks=[watched()], **options)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "b", callbacks=[watched(), Killed()], **options)
    (tmp_path / "b" / "_forgetwatch" / "completions.parquet").unlink()
    again = trained(tmp_path / "b", callbacks=[watched()], **options, resume=True)
    assert drifts(again) == drifts(whole)
    carried = read_completions(tmp_path / "b" / "checkpoint-6" / "forgetwatch" / "completions.parquet")
    assert carried.checksum == read_completions(tmp_path / "a" / "_forgetwatch" / "completions.parquet").checksum


@pytest.mark.parametrize(
    ("example", "prompt"),
    [
        ({"prompt": "w1 w2"}, "w1 w2"),
        ({"prompt": [{"role": "user", "content": "w1"}]}, "user : w1 assistant :"),
        ({"prompt_ids": [20, 21], "chosen_ids": [3]}, [20, 21]),
        ({"input_ids": [20, 21, 22, 23], "completion_mask": [0, 0, 0, 1]}, [20, 21, 22]),
        ({"input_ids": [20, 21, 22, 23]}, [20, 21]),
        ({"text": "w1 w2 w3 w4"}, "w1 w2"),
        (
            {
                "messages": [
                    {"role": role, "content": word} for role, word in zip(ROLES, ("w1", "w2", "w3"), strict=True)
                ]
            },
            "user : w1 assistant :",
        ),
        ({"prompt_input_ids": [20, 21], "input_ids": [20, 21, 22]}, [20, 21]),
        ({"input_ids": [20, 21, 22, 23], "assistant_masks": [0, 1, 0, 1]}, [20]),
        ("w1 w2 w3 w4", "w1 w2"),
    ],
)
def test_a_training_prompt_ends_before_the_first_trained_token(example: Any, prompt: Any) -> None:
    found = drift_prompts(probe(), [example], model(TOK), TOK)["training"]
    assert found == [tuple(TOK(prompt)["input_ids"] if isinstance(prompt, str) else prompt)]


def test_examples_that_can_only_be_iterated_give_no_training_prompts() -> None:
    assert set(drift_prompts(probe(), iter([{"prompt": "w1"}]), model(TOK), TOK)) == {"probe"}
    assert set(drift_prompts(probe(), None, model(TOK), TOK)) == {"probe"}


def test_conversations_that_the_template_refuses_give_no_training_prompts() -> None:
    refusing = tokenizer()
    refusing.chat_template = "{{ raise_exception('roles must alternate') }}"
    examples = [{"prompt": [{"role": "user", "content": "w1"}]}]
    assert set(drift_prompts(probe(), examples, model(TOK), refusing)) == {"probe"}


class Counting:
    """A tokenizer that counts the texts it is given."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, texts: Any, **options: Any) -> Any:
        self.texts += 1 if isinstance(texts, str) else len(texts)
        return TOK(texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(TOK, name)


def test_prompts_of_a_large_probe_are_chosen_before_they_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forgetwatch.run.drift.PROMPTS", 64)  # the tests have fewer
    large = probe(items=400)
    everything = [one.context for one in encode(large, TOK, max_length=512)]
    counting = Counting()
    found = drift_prompts(large, None, model(TOK), counting)["probe"]
    assert found == [everything[index * 400 // 64] for index in range(64)]
    assert counting.texts < 64 * 8


def test_examples_that_draw_random_numbers_leave_those_of_the_training_as_they_are() -> None:
    class Drawing:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> str:
            return f"w{1 + int(torch.rand(1) * 5)} w2 w3 w4"

    network, before = model(TOK), torch.random.get_rng_state()
    found = sample_base(network, TOK, probe(), Drawing(), token_budget=None)
    assert "training" in found.sets
    assert torch.equal(torch.random.get_rng_state(), before)

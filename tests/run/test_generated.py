"""Probes with generated and log-likelihood answers, inside a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from support import model, probe, tokenizer, trained, trainer
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from forgetwatch import ForgetWatchCallback, Item, Probe, Trajectory, Watch, load_snapshot, score
from forgetwatch.errors import ScoringError


def both() -> Probe:
    """Thirty log-likelihood items and eight with generated answers."""
    written = [
        Item(id=f"o{n}", task="open", prompt=f"w{n} w{n + 1}", answer=f"w{n}", match="contains") for n in range(8)
    ]
    return Probe([*probe(), *written], name="both", decoding={"tokens": 6})


def test_generating_answers_leaves_training_untouched(tmp_path: Path) -> None:
    plain = trained(tmp_path / "a", steps=4)
    run = trained(
        tmp_path / "b",
        steps=4,
        callbacks=[ForgetWatchCallback(both(), every=2, max_overhead=None)],
        save_strategy="steps",
        save_steps=4,
    )
    assert all(
        torch.equal(one, other) for one, other in zip(run.model.parameters(), plain.model.parameters(), strict=True)
    )
    # The text is that of the saved checkpoint, on its own.
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "b" / "checkpoint-4").eval()
    alone = score(saved, tokenizer(), both()).texts("output").tolist()
    assert load_snapshot(tmp_path / "b" / "_forgetwatch" / "step-000004.parquet").texts("output").tolist() == alone
    assert sum(text is not None for text in alone) == 8


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_generating_answers_leaves_reinforcement_learning_untouched(tmp_path: Path) -> None:
    def run(name: str, callbacks: list[ForgetWatchCallback]) -> Any:
        made = GRPOTrainer(
            model=model(tokenizer()),
            reward_funcs=lambda completions, **kwargs: [float(len(text)) for text in completions],
            args=GRPOConfig(
                output_dir=str(tmp_path / name),
                max_steps=3,
                per_device_train_batch_size=2,
                num_generations=2,
                max_completion_length=6,
                use_cpu=True,
                bf16=False,
                report_to="none",
                save_steps=3,
                learning_rate=1e-2,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list([{"prompt": f"w{n} w{n + 1}"} for n in range(8)]),
            processing_class=tokenizer(),
            callbacks=callbacks,
        )
        made.train()
        return made

    plain = run("a", [])
    watched = run("b", [ForgetWatchCallback(both(), every=1, max_overhead=None, log="full")])
    pairs = zip(watched.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "b" / "checkpoint-3").eval()
    look = load_snapshot(tmp_path / "b" / "_forgetwatch" / "step-000003.parquet")
    assert look.texts("output").tolist() == score(saved, tokenizer(), both()).texts("output").tolist()


def test_generated_answers_are_left_out_where_the_budget_does_not_allow_them(tmp_path: Path) -> None:
    trained(tmp_path, steps=12, callbacks=[ForgetWatchCallback(both(), every=4, max_overhead=1e-6)])
    looks = [load_snapshot(path) for path in sorted((tmp_path / "_forgetwatch").glob("step-*.parquet"))]
    assert [look.table["output"].null_count for look in looks] == [38, 38, 38]
    assert [int((look.texts("outcome") == "ok").sum()) for look in looks] == [30, 30, 30]


def test_a_probe_that_begins_with_many_scored_items_is_measured_twice_and_cut(tmp_path: Path) -> None:
    """Neither the second measurement nor the looks reach the first generated answer."""
    made = Probe([*probe(510), both()[-1]], decoding={"tokens": 6})
    callback = ForgetWatchCallback(made, every=10, max_overhead=1e-6)
    trainer(tmp_path, steps=20, callbacks=[callback]).train()
    assert callback.watch.run.null is not None
    assert (callback.watch.run.items, len(callback.watch.run.null)) == (250, 50)
    assert {step: one.all.n for step, one in callback.watch.comparisons.items()} == dict.fromkeys((0, 10, 20), 250)
    assert Trajectory.from_run(tmp_path).steps == (0, 10, 20)


def test_resume_knows_the_seconds_of_a_look_before_its_first(tmp_path: Path) -> None:
    watch = Watch(both(), tmp_path)
    watch.look(model(tokenizer()), tokenizer(), step=0)
    again = Watch(both(), tmp_path, resume=True)
    assert again.look_seconds == watch.look_seconds > 0


def test_answers_with_several_samples_are_restricted_by_items(tmp_path: Path) -> None:
    items = [
        Item(id=f"o{n}", task="open", prompt=f"w{n % 100} w{n % 100 + 1 + n // 100}", answer="w3", match="contains")
        for n in range(260)
    ]
    probe_of_samples = Probe(items, scoring="generate", decoding={"tokens": 2, "temperature": 1.0, "samples": 2})
    watch = ForgetWatchCallback(probe_of_samples, every=4, items=250, log="full", drift=False)
    run = trained(tmp_path, steps=12, callbacks=[watch])
    looks = [load_snapshot(path) for path in sorted((tmp_path / "_forgetwatch").glob("step-*.parquet"))]
    assert [len(look) for look in looks] == [500, 500, 500]
    trajectory = Trajectory.from_run(tmp_path)
    assert [comparison.all.n for comparison in trajectory.comparisons] == [250] * 4
    logged = [row["eval_forget/all/items"] for row in run.state.log_history if "eval_forget/all/items" in row]
    assert logged == [250] * 4


def test_an_answer_that_counts_as_wrong_is_not_called_unscored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, tok = model(tokenizer()).eval(), tokenizer()
    written = Probe([item for item in both() if not item.choices], name="written", decoding={"tokens": 2})
    Watch(written, tmp_path / "a").look(network, tok, step=0)  # all are cut at two tokens, and wrong
    logged = capsys.readouterr().err
    assert "8 of 8 answers count as wrong: 8 truncated" in logged
    assert "unscored" not in logged
    lenient = Probe(written.items, name="written", decoding={"tokens": 2, "no_answer": "unscored"})
    with pytest.raises(ScoringError, match="can be scored: 8 truncated"):
        Watch(lenient, tmp_path / "b").look(network, tok, step=0)

"""Probes with generated and log-likelihood answers, inside a trainer.

Generated items on a model that cannot generate in training: they are unscored, and the rest is evaluated.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import PromptTuningConfig, get_peft_model
from ranks import in_processes
from support import model, probe, tokenizer, trained, trainer
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from forgetwatch import (
    ForgetWatchCallback,
    Item,
    Probe,
    Trajectory,
    Watch,
    load_probe,
    load_snapshot,
    score,
)
from forgetwatch.errors import ScoringError
from forgetwatch.probe import combine
from forgetwatch.run import questions
from forgetwatch.run.questions import default_probe
from forgetwatch.scoring.scorer import Scorer

pytestmark = pytest.mark.usefixtures("without_pictures")


def both() -> Probe:
    """Thirty log-likelihood items and eight with generated answers."""
    written = [
        Item(id=f"o{n}", task="open", prompt=f"w{n} w{n + 1}", answer=f"w{n}", match="contains")
        for n in range(8)
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
        torch.equal(one, other)
        for one, other in zip(run.model.parameters(), plain.model.parameters(), strict=True)
    )
    # The text is that of the saved checkpoint, on its own.
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "b" / "checkpoint-4").eval()
    alone = score(saved, tokenizer(), both()).texts("output").tolist()
    assert (
        load_snapshot(tmp_path / "b" / "_forgetwatch" / "step-000004.parquet")
        .texts("output")
        .tolist()
        == alone
    )
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
    watched = run(
        "b", [ForgetWatchCallback(both(), every=1, max_overhead=None, log="full", drift=True)]
    )
    pairs = zip(watched.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "b" / "checkpoint-3").eval()
    look = load_snapshot(tmp_path / "b" / "_forgetwatch" / "step-000003.parquet")
    assert (
        look.texts("output").tolist() == score(saved, tokenizer(), both()).texts("output").tolist()
    )


def test_generated_answers_are_left_out_where_the_budget_does_not_allow_them(
    tmp_path: Path,
) -> None:
    trained(tmp_path, steps=12, callbacks=[ForgetWatchCallback(both(), every=4, max_overhead=1e-6)])
    looks = [
        load_snapshot(path) for path in sorted((tmp_path / "_forgetwatch").glob("step-*.parquet"))
    ]
    assert [look.table["output"].null_count for look in looks] == [38, 38, 38]
    assert [int((look.texts("outcome") == "ok").sum()) for look in looks] == [30, 30, 30]


def test_a_probe_that_begins_with_many_scored_items_is_measured_twice_and_cut(
    tmp_path: Path,
) -> None:
    """Neither the second measurement nor the looks reach the first generated answer."""
    made = Probe([*probe(510), both()[-1]], decoding={"tokens": 6})
    callback = ForgetWatchCallback(made, every=10, max_overhead=1e-6)
    trainer(tmp_path, steps=20, callbacks=[callback]).train()
    assert callback.watch.run.null is not None
    assert (callback.watch.run.items, len(callback.watch.run.null)) == (250, 50)
    assert {
        step: one.all.n for step, one in callback.watch.run.comparisons.items()
    } == dict.fromkeys((0, 10, 20), 250)
    assert Trajectory.from_run(tmp_path).steps == (0, 10, 20)


def test_resume_knows_the_seconds_of_a_look_before_its_first(tmp_path: Path) -> None:
    watch = Watch(both(), tmp_path)
    watch.look(model(tokenizer()), tokenizer(), step=0)
    again = Watch(both(), tmp_path, resume=True)
    assert again._looks.look_seconds == watch._looks.look_seconds > 0


def test_answers_with_several_samples_are_restricted_by_items(tmp_path: Path) -> None:
    items = [
        Item(
            id=f"o{n}",
            task="open",
            prompt=f"w{n % 100} w{n % 100 + 1 + n // 100}",
            answer="w3",
            match="contains",
        )
        for n in range(260)
    ]
    probe_of_samples = Probe(
        items, scoring="generate", decoding={"tokens": 2, "temperature": 1.0, "samples": 2}
    )
    watch = ForgetWatchCallback(probe_of_samples.head(250), every=4, log="full")
    run = trained(tmp_path, steps=12, callbacks=[watch])
    looks = [
        load_snapshot(path) for path in sorted((tmp_path / "_forgetwatch").glob("step-*.parquet"))
    ]
    assert [len(look) for look in looks] == [500, 500, 500]
    trajectory = Trajectory.from_run(tmp_path)
    assert [comparison.all.n for comparison in trajectory.comparisons] == [250] * 4
    logged = [
        row["eval_forget/all/items"]
        for row in run.state.log_history
        if "eval_forget/all/items" in row
    ]
    assert logged == [250] * 4


def test_an_answer_that_counts_as_wrong_is_not_called_unscored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, tok = model(tokenizer()).eval(), tokenizer()
    written = Probe(
        [item for item in both() if not item.choices], name="written", decoding={"tokens": 2}
    )
    Watch(written, tmp_path / "a").look(
        network, tok, step=0
    )  # all are cut at two tokens, and wrong
    logged = capsys.readouterr().err
    assert "8 of 8 answers count as wrong: 8 truncated" in logged
    assert "unscored" not in logged
    lenient = Probe(written.items, name="written", decoding={"tokens": 2, "no_answer": "unscored"})
    with pytest.raises(ScoringError, match="can be scored: 8 truncated"):
        Watch(lenient, tmp_path / "b").look(network, tok, step=0)


TOK = tokenizer()
REASON = "its weights are spread over several processes"


def written(count: int = 8) -> list[Item]:
    """Items with generated answers, in the tokenizer's chat template."""
    return [
        Item(
            id=f"o{n}",
            task="open",
            prompt=[{"role": "user", "content": f"w{n % 100} w{n % 100 + 1 + n // 100}"}],
            answer=f"w{n}",
            match="contains",
            rendering="chat",
        )
        for n in range(count)
    ]


def both_of_cannot_generate(**settings: Any) -> Probe:
    """Thirty scored items and eight generated ones, like the default probe with behaviour."""
    return Probe([*probe().items, *written()], name="both", decoding={"tokens": 6}, **settings)


def held_in_parts(seed: int = 0) -> Any:
    network = model(TOK, seed=seed)
    next(network.parameters()).ds_id = 0  # as if each process held a part, like ZeRO-3
    return network


_SHARDED = """
from support import model, tokenizer
from test_generated import both_of_cannot_generate as both
from forgetwatch import Watch
tok, network = tokenizer(), sharded(model(tokenizer()))
watch = Watch(both(), folder + "/run")
for step in (0, 2):
    comparison = watch.look(network, tok, step=step)
    outcomes = watch.run.latest().texts("outcome").tolist()
    found[str(step)] = [comparison.all.n, outcomes, watch.run.latest().floats("correct")[:30].tolist()]
network(torch.tensor([[1, 2, 3]])).logits.sum().backward()
found["trains"] = all(weight.grad is not None for weight in network.parameters())
"""


def test_a_sharded_model_is_evaluated_on_the_scored_items_of_the_default_probe(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_generated.py").symlink_to(__file__)
    ranks = in_processes(f"sys.path.insert(0, {str(tmp_path)!r})" + _SHARDED, tmp_path)
    whole = score(model(TOK), TOK, probe()).floats("correct").tolist()
    unscored = f"unscored: the model cannot generate here: {REASON}"
    for found in ranks:
        for step in ("0", "2"):
            assert found[step] == [30, ["ok"] * 30 + [unscored] * 8, whole]
        assert found["trains"]
    logged = [line for line in ranks[0]["stderr"].splitlines() if "cannot generate here" in line]
    assert len(logged) == 1
    assert f"8 of 38 items are unscored: 8 the model cannot generate here: {REASON}" in logged[0]
    assert "cannot generate" not in ranks[1]["stderr"]


def test_generated_items_are_unscored_with_the_reason_and_several_samples() -> None:
    decoding = {"tokens": 4, "samples": 2, "temperature": 1.0}
    network, samples = held_in_parts(), Probe(written(), scoring="generate", decoding=decoding)
    rows = Scorer(samples, TOK, network).score(network, again=True).table.to_pylist()
    assert [row["sample"] for row in rows] == [0, 1] * 8
    assert {(row["outcome"], row["correct"]) for row in rows} == {
        (f"unscored: the model cannot generate here: {REASON}", None)
    }


def test_scored_choices_do_not_stand_for_an_answer_that_cannot_be_generated() -> None:
    adapted = get_peft_model(
        model(TOK), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    ).eval()
    of_both = Probe(
        [replace(probe().items[0], id="a"), *written(1)], scoring="generate", decoding={"tokens": 4}
    )
    snapshot = Scorer(of_both, TOK, adapted).score(adapted, again=True)
    row = snapshot.table.to_pylist()[0]
    assert (row["correct"], row["chosen"]) == (None, None)
    assert "tokens of prompt learning" in row["outcome"]


def test_a_probe_of_generated_items_alone_is_refused_with_the_remedy(tmp_path: Path) -> None:
    network = held_in_parts()
    with pytest.raises(
        ScoringError, match=f"{REASON}; needed a probe with scored choices, or a checkpoint"
    ):
        Watch(Probe(written(), name="written"), tmp_path).look(network, TOK, step=0)


def test_a_second_measurement_of_generated_items_alone_does_not_end_the_run(tmp_path: Path) -> None:
    first_generated = Probe([*written(500), *probe().items], decoding={"tokens": 4})
    network, watch = held_in_parts(), Watch(first_generated, tmp_path)
    assert watch.look(network, TOK, step=0).all.n == 30


def test_a_baseline_from_elsewhere_is_compared_on_the_scored_items(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(both_of_cannot_generate(), tmp_path)
    watch.run.adopt(score(model(TOK), TOK, both_of_cannot_generate()))
    network = held_in_parts()
    assert [watch.look(network, TOK, step=step).all.n for step in (0, 2)] == [30, 30]
    assert (
        capfd.readouterr().err.count(
            "8 of 38 items are unscored at every look: 8 the model cannot generate"
        )
        == 1
    )


def test_the_default_probe_leaves_conduct_out_where_the_model_cannot_generate() -> None:
    chosen, why = default_probe(TOK, fast=True, obstacle=REASON)
    assert chosen.name == "standard"
    assert why == f"without conduct, whose answers this model cannot generate in training: {REASON}"
    with_both = combine(load_probe("standard"), load_probe("conduct"))
    resumed, _ = default_probe(TOK, fast=True, obstacle=REASON, fingerprint=with_both.fingerprint)
    assert resumed.name == "standard+conduct"


@pytest.mark.parametrize("log", ["counts", "full"])
def test_the_callback_leaves_conduct_out_on_prompt_learning(
    log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "load_probe", lambda name: load_probe(name).head(40))
    # As on a GPU, where generating is cheap.
    monkeypatch.setattr(
        questions,
        "default_probe",
        lambda tok, **given: default_probe(tok, **given | {"fast": True}),
    )
    adapted = get_peft_model(
        model(TOK, positions=2048), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    )
    callback = ForgetWatchCallback(every=2, max_overhead=None, log=log, drift=log == "full")
    trainer(tmp_path, steps=2, network=adapted, callbacks=[callback]).train()
    assert callback.watch.run.probe.name == "standard"
    assert [look.all.n for look in callback.watch.run.comparisons.values()] == [40, 40]
    logged = capfd.readouterr().err
    assert (
        logged.count(
            "evaluating standard: without conduct, whose answers this model cannot generate"
        )
        == 1
    )
    # Drift needs texts that the model generates: where it is wanted there is one line, and the run continues.
    why = "the drift from the base is not measured: the model cannot generate here: its generate does not know"
    assert logged.count(why) == (log == "full")

"""Generated items on a model that cannot generate in training: they are unscored, and the rest is evaluated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peft import PromptTuningConfig, get_peft_model
from ranks import in_processes
from support import model, probe, tokenizer, trainer

from forgetwatch import ForgetWatchCallback, Item, Probe, Watch, load_probe, score
from forgetwatch.errors import ScoringError
from forgetwatch.probe import combine
from forgetwatch.run import callback as callback_module
from forgetwatch.run import callback as trainer_module
from forgetwatch.run import default_probe
from forgetwatch.scoring import Scorer

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


def both(**settings: Any) -> Probe:
    """Thirty scored items and eight generated ones, like the default probe with behaviour."""
    return Probe([*probe().items, *written()], name="both", decoding={"tokens": 6}, **settings)


def held_in_parts(seed: int = 0) -> Any:
    network = model(TOK, seed=seed)
    next(network.parameters()).ds_id = 0  # as if each process held a part, like ZeRO-3
    return network


_SHARDED = """
from support import model, tokenizer
from test_cannot_generate import both
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


def test_a_sharded_model_is_evaluated_on_the_scored_items_of_the_default_probe(tmp_path: Path) -> None:
    (tmp_path / "test_cannot_generate.py").symlink_to(__file__)
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
    adapted = get_peft_model(model(TOK), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)).eval()
    of_both = Probe([replace(probe().items[0], id="a"), *written(1)], scoring="generate", decoding={"tokens": 4})
    snapshot = Scorer(of_both, TOK, adapted).score(adapted, again=True)
    row = snapshot.table.to_pylist()[0]
    assert (row["correct"], row["chosen"]) == (None, None)
    assert "tokens of prompt learning" in row["outcome"]


def test_a_probe_of_generated_items_alone_is_refused_with_the_remedy(tmp_path: Path) -> None:
    network = held_in_parts()
    with pytest.raises(ScoringError, match=f"{REASON}; needed a probe with scored choices, or a checkpoint"):
        Watch(Probe(written(), name="written"), tmp_path).look(network, TOK, step=0)


def test_a_second_measurement_of_generated_items_alone_does_not_end_the_run(tmp_path: Path) -> None:
    first_generated = Probe([*written(500), *probe().items], decoding={"tokens": 4})
    network, watch = held_in_parts(), Watch(first_generated, tmp_path)
    assert watch.look(network, TOK, step=0).all.n == 30


def test_a_baseline_from_elsewhere_is_compared_on_the_scored_items(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(both(), tmp_path)
    watch.run.adopt(score(model(TOK), TOK, both()))
    network = held_in_parts()
    assert [watch.look(network, TOK, step=step).all.n for step in (0, 2)] == [30, 30]
    assert capfd.readouterr().err.count("8 of 38 items are unscored at every look: 8 the model cannot generate") == 1


def test_the_default_probe_leaves_behaviour_out_where_the_model_cannot_generate() -> None:
    chosen, why = default_probe(TOK, fast=True, obstacle=REASON)
    assert chosen.name == "standard"
    assert why == f"without behaviour, whose answers this model cannot generate in training: {REASON}"
    with_both = combine(load_probe("standard"), load_probe("behaviour"))
    resumed, _ = default_probe(TOK, fast=True, obstacle=REASON, fingerprint=with_both.fingerprint)
    assert resumed.name == "standard+behaviour"


@pytest.mark.parametrize("log", ["counts", "full"])
def test_the_callback_leaves_behaviour_out_on_prompt_learning(
    log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer_module, "load_probe", lambda name: load_probe(name).head(40))
    # As on a GPU, where generating is cheap.
    monkeypatch.setattr(
        callback_module, "default_probe", lambda tok, **given: default_probe(tok, **given | {"fast": True})
    )
    adapted = get_peft_model(
        model(TOK, positions=2048), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    )
    callback = ForgetWatchCallback(every=2, max_overhead=None, log=log)
    trainer(tmp_path, steps=2, network=adapted, callbacks=[callback]).train()
    assert callback.watch.probe.name == "standard"
    assert [look.all.n for look in callback.watch.comparisons.values()] == [40, 40]
    logged = capfd.readouterr().err
    assert logged.count("evaluating standard: without behaviour, whose answers this model cannot generate") == 1
    # Drift needs texts that the model generates: where it is wanted there is one line, and the run continues.
    why = "the drift from the base is not measured: the model cannot generate here: its generate does not know"
    assert logged.count(why) == (log == "full")

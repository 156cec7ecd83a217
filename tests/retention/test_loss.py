"""RetentionLoss inside trainers: nothing at a weight of 0, one term a step, and answers that stay."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from ranks import launched
from saved_runs import examples, weights
from support import model, probe, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.errors import WatchError
from forgetwatch.retention.loss import Kept, Retention, RetentionLoss
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()


def taught(steps: int = 120) -> tuple[Any, Probe]:
    """A model that was taught the right option of 24 questions, and these questions."""
    items = [
        Item(
            id=str(n),
            task="t",
            prompt=f"Q w{n} :",
            choices=[f" w{n + 30}", f" w{n + 31}", f" w{n + 32}"],
            answer=0,
        )
        for n in range(24)
    ]
    network = model(TOK, dropout=0.0)
    batch = TOK(
        [f"{item.prompt}{item.choices[0]}" for item in items], return_tensors="pt", padding=True
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    for _ in range(steps):
        loss = network(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            labels=batch["input_ids"],
        )
        loss.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return network, Probe(items, name="taught")


@pytest.fixture(scope="module")
def start() -> tuple[dict[str, Any], Probe]:
    network, items = taught()
    return {name: value.clone() for name, value in network.state_dict().items()}, items


def fresh(state: dict[str, Any]) -> Any:
    network = model(TOK, dropout=0.0)
    network.load_state_dict(state)
    return network


PROMPTS = [{"prompt": f"Q w{n} :"} for n in range(16)]


def low_words(completions: list[str], **_: Any) -> list[float]:
    """Reward for words of low numbers, which none of the right options has."""
    return [
        float(sum(word in {f"w{n}" for n in range(20)} for word in one.split()))
        for one in completions
    ]


def train(
    folder: Path,
    network: Any,
    retention: Retention | None,
    *,
    method: str = "SFT",
    resume: Path | None = None,
    **options: Any,
) -> Any:
    import transformers
    import trl

    settings: dict[str, Any] = {
        "max_steps": 6,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
    }
    settings |= {
        "report_to": "none",
        "disable_tqdm": True,
        "learning_rate": 3e-3,
        "save_strategy": "no",
        "seed": 3,
    }
    settings |= {"logging_steps": 1, **options}
    if method == "Trainer":
        made = type("Own", (RetentionLoss, transformers.Trainer), {})
        arguments: Any = transformers.TrainingArguments(str(folder), **settings)
        ids = [
            TOK(" ".join(f"w{n % 40}" for n in range(at, at + 8)))["input_ids"] for at in range(16)
        ]
        data: Any = [{"input_ids": one, "labels": one} for one in ids]
    else:
        made = type("Own", (RetentionLoss, getattr(trl, f"{method}Trainer")), {})
        if method == "GRPO":
            settings = {"num_generations": 2, "max_completion_length": 4, **settings}
        arguments = getattr(trl, f"{method}Config")(str(folder), **settings)
        data = (
            Dataset.from_list(PROMPTS)
            if method == "GRPO"
            else examples("chat" if method == "SFT" else "pair")
        )
    more = {"reward_funcs": low_words} if method == "GRPO" else {}
    trainer = made(
        model=network,
        args=arguments,
        train_dataset=data,
        processing_class=TOK,
        retention=retention,
        **more,
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer


def terms(trainer: Any) -> list[float]:
    return [row["retention_loss"] for row in trainer.state.log_history if "retention_loss" in row]


@pytest.mark.parametrize("method", ["SFT", "Trainer", "GRPO"])
def test_a_weight_of_zero_is_bitwise_the_trainer_alone(
    tmp_path: Path, start: tuple[dict[str, Any], Probe], method: str
) -> None:
    import transformers
    import trl

    state, items = start
    with_none = train(tmp_path / "a", fresh(state), None, method=method)
    with_zero = train(
        tmp_path / "b", fresh(state), Retention(probe=items, weight=0.0), method=method
    )
    assert weights(with_zero) == weights(with_none)
    assert terms(with_zero) == []
    assert issubclass(
        type(with_zero),
        transformers.Trainer if method == "Trainer" else getattr(trl, f"{method}Trainer"),
    )


@pytest.mark.parametrize("kind", ["kl", "hinge"])
@pytest.mark.parametrize("method", ["SFT", "Trainer", "DPO", "GRPO"])
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
def test_answers_that_the_term_keeps_stay_right(
    tmp_path: Path, start: tuple[dict[str, Any], Probe], method: str, kind: Any
) -> None:
    state, items = start
    rate = {"learning_rate": 2e-2}
    network = fresh(state)
    if method == "DPO":
        fresh(state).save_pretrained(tmp_path / "start")
        network.config._name_or_path = str(tmp_path / "start")
    plain = train(tmp_path / "a", network, None, method=method, **rate)
    network = fresh(state)
    if method == "DPO":
        network.config._name_or_path = str(tmp_path / "start")
    retention = Retention(probe=items, weight=1.0 if method == "GRPO" else 8.0, kind=kind, batch=24)
    kept = train(tmp_path / "b", network, retention, method=method, **rate)
    right = [
        Scorer(items, TOK, one.model).score(one.model).floats("correct").sum()
        for one in (plain, kept)
    ]
    assert right[1] > right[0]
    assert terms(kept)[0] == pytest.approx(0.0, abs=1e-5)  # of an unchanged model


def test_the_term_is_the_formula_over_the_options(start: tuple[dict[str, Any], Probe]) -> None:
    state, items = start
    base, other = fresh(state), fresh(state)
    with torch.no_grad():
        other.lm_head.weight += 0.05 * torch.randn(
            other.lm_head.weight.shape, generator=torch.Generator().manual_seed(1)
        )
    for kind in ("kl", "hinge"):
        kept = Kept(Retention(probe=items, kind=kind, batch=24), base, TOK)
        before, after = (
            np.array(Scorer(items, TOK, one).score(one).table["choice_logprobs"].to_pylist())
            for one in (base, other)
        )
        before, after = (
            one - np.logaddexp.reduce(one, axis=1, keepdims=True) for one in (before, after)
        )
        known = (before[:, 0] > before[:, 1:].max(axis=1)) & (np.exp(before[:, 0]) >= 0.8)
        assert len(kept.questions) == known.sum() > 10
        lead = [one[:, 0] - one[:, 1:].max(axis=1) for one in (before, after)]
        expected = {
            "kl": (np.exp(before) * (before - after)).sum(axis=1),
            "hinge": np.maximum(0.0, np.minimum(lead[0], 2.0) - lead[1]),
        }[kind]
        assert float(kept.term(other, step=0).detach()) == pytest.approx(
            expected[known].mean(), abs=1e-5
        )


@pytest.mark.parametrize("method", ["SFT", "Trainer", "DPO", "GRPO"])
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
def test_a_step_of_accumulated_batches_has_the_term_once(
    tmp_path: Path,
    start: tuple[dict[str, Any], Probe],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a constant gradient as the term, the gradient of a step is larger by it, for any number of batches."""
    state, items = start
    monkeypatch.setattr(Kept, "term", lambda self, network, step: network.model.norm.weight.sum())
    found = {}
    for batches in (1, 4):
        for weight in (0.0, 0.25):
            network = fresh(state)
            if method == "DPO":
                fresh(state).save_pretrained(tmp_path / "start")
                network.config._name_or_path = str(tmp_path / "start")
            gradients: list[torch.Tensor] = []
            optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
            optimizer.register_step_pre_hook(
                lambda *_, net=network, into=gradients: into.append(
                    net.model.norm.weight.grad.clone()
                )
            )
            monkeypatch.setattr(
                "transformers.Trainer.create_optimizer", lambda self, *_, own=optimizer: own
            )
            options = {"max_steps": 1, "gradient_accumulation_steps": batches, "max_grad_norm": 0.0}
            made = make(tmp_path, network, Retention(probe=items, weight=weight), method, **options)
            made.optimizer = optimizer
            made.train()
            found[batches, weight] = gradients[0]
    for batches in (1, 4):
        added = found[batches, 0.25] - found[batches, 0.0]
        assert torch.allclose(added, torch.full_like(added, 0.25), atol=1e-4)


def make(folder: Path, network: Any, retention: Retention, method: str, **options: Any) -> Any:
    """The trainer of `train`, before its training."""
    made: list[Any] = []

    def keep(self: Any, *_: Any, **__: Any) -> None:
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetentionLoss, "train", keep)
        train(folder, network, retention, method=method, **options)
    return made[0]


def test_a_training_that_resumes_draws_the_questions_that_it_would_have_drawn(
    start: tuple[dict[str, Any], Probe], tmp_path: Path
) -> None:
    state, items = start
    saving = {"save_strategy": "steps", "save_steps": 3, "lr_scheduler_type": "constant"}
    retention = Retention(probe=items, weight=2.0, batch=2)
    whole = train(tmp_path / "whole", fresh(state), retention, **saving)
    resumed = train(
        tmp_path / "whole",
        fresh(state),
        retention,
        resume=tmp_path / "whole" / "checkpoint-3",
        **saving,
    )
    assert terms(resumed) == pytest.approx(terms(whole), abs=1e-6)
    assert len(set(terms(whole))) > 3


def test_the_weight_follows_its_schedule() -> None:
    given: dict[str, Any] = {"probe": "demo", "weight": 2.0}
    assert [Retention(**given).weight_at(share) for share in (0.0, 0.5, 1.0)] == [2.0, 2.0, 2.0]
    assert [
        Retention(**given, schedule="rising").weight_at(share) for share in (0.0, 0.5, 1.0)
    ] == [0.0, 1.0, 2.0]
    assert [
        Retention(**given, schedule="falling").weight_at(share) for share in (0.0, 0.5, 1.5)
    ] == [2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"weight": -1}, "weight=-1"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"kind": "l2"}, "kind='l2': needed one of kl, hinge"),
        ({"schedule": "up"}, "needed one of constant, rising, falling"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(WatchError, match=words):
        Retention(probe="demo", **setting)


def test_a_probe_of_which_nothing_can_be_kept_is_refused() -> None:
    network = model(TOK)
    two = Probe([Item(id="1", task="t", prompt="Q", choices=[" w1", " w2"], answer=0)], name="two")
    with pytest.raises(
        WatchError, match="two: needed questions with three or more scored options, found none"
    ):
        Kept(Retention(probe=two), network, TOK)
    items = probe(30)
    right = Scorer(items, TOK, network).score(network).floats("correct")
    wrong = items.with_items(
        [item for item, is_right in zip(items, right, strict=True) if not is_right]
    )
    with pytest.raises(WatchError, match="the model clearly knows none of its"):
        Kept(Retention(probe=wrong), network, TOK)


def test_only_questions_with_one_right_answer_under_the_sum_are_kept() -> None:
    network = model(TOK)
    options = [" w1", " w2", " w3"]
    two = Probe(
        [Item(id="1", task="t", prompt="Q", choices=options, answer=[0, 1])], name="two right"
    )
    with pytest.raises(
        WatchError, match="needed questions with three or more scored options, found none"
    ):
        Kept(Retention(two), network, TOK)
    with pytest.raises(WatchError, match="needed a probe that is decided by the sum"):
        Kept(Retention(probe(30, norm="bytes")), network, TOK)


def test_questions_that_are_watched_too_are_named(
    tmp_path: Path, start: tuple[dict[str, Any], Probe], capfd: pytest.CaptureFixture[str]
) -> None:
    from forgetwatch import ForgetWatchCallback

    state, items = start
    for watched, expected in ((items, True), (probe(30), False)):
        trainer = make(tmp_path, fresh(state), Retention(items), "SFT", max_steps=1)
        trainer.add_callback(ForgetWatchCallback(watched, max_overhead=None))
        trainer.train()
        assert ("questions are watched too" in capfd.readouterr().err) == expected


_RANK = """
import json, os, sys
import json
import os
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[2])))
from test_loss import TOK, fresh, taught, terms, train
from forgetwatch.retention.loss import Retention
from forgetwatch.retention.loss import Kept

network, items = taught()
own, term = [], Kept.term

def recorded(self, *args, **options):
    found = term(self, *args, **options)
    own.append(float(found) + int(os.environ["RANK"]))  # unlike in the two processes
    return found + int(os.environ["RANK"])

Kept.term = recorded
made = train(Path(sys.argv[1]), network, Retention(probe=items, weight=1.0), ddp_backend="gloo", max_steps=2)
print(json.dumps({"own": own, "logged": terms(made)}))
"""


@pytest.mark.full(reason="further numbers of processes")
def test_the_logged_term_is_the_mean_over_all_processes(tmp_path: Path) -> None:
    """Each process takes other questions, so that the term of one is not that of all."""
    here = str(Path(__file__).parent)
    path = os.pathsep.join((here, str(Path(here).parent), *sys.path))
    done = launched(["-c", _RANK, str(tmp_path), here], cwd=tmp_path, PYTHONPATH=path)
    assert [one.returncode for one in done] == [0, 0], done[0].stderr[-2000:]
    first, second = (json.loads(one.stdout.splitlines()[-1]) for one in done)
    mean = [(a + b) / 2 for a, b in zip(first["own"], second["own"], strict=True)]
    assert first["logged"] == pytest.approx(mean, abs=1e-5)
    assert abs(first["logged"][0] - first["own"][0]) > 0.4

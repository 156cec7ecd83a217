"""Calls of vLLM, recorded by stand-ins for it: vLLM itself has not been run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support import model, tokenizer

from forgetwatch import Item, Probe
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import Scorer, TrainerGenerator, vllm

TOK = tokenizer()
EOS = TOK.eos_token_id


class Engine:
    """TRL's engine, as far as it is used: settings, weights, sleep."""

    def __init__(self, answers: dict[tuple[int, ...], list[int]]) -> None:
        self.temperature, self.top_p, self.top_k, self.min_p = 0.9, 0.8, 7, 0.1
        self.repetition_penalty, self.max_completion_length, self.logprobs = 1.2, 99, 3
        self.generation_kwargs, self.structured_outputs_regex = {"a": 1}, "x"
        self.max_model_length = 20
        self._llm_weights_sleeping = True
        self.llm = SimpleNamespace(sleep=lambda level: self.log.append(f"sleep {level}"))
        self.log: list[Any] = []
        self.answers, self.fails = answers, False

    def sync_weights(self) -> None:
        self.log.append("sync")
        self._llm_weights_sleeping = False

    def generate(self, prompts: list[list[int]], images: Any, num_generations: int) -> tuple[Any, ...]:
        self.log.append((self.temperature, self.top_k, self.max_completion_length, self.generation_kwargs))
        if self.fails:
            raise RuntimeError("out of memory")
        self._llm_weights_sleeping = True
        return prompts, [self.answers[tuple(prompt)] for prompt in prompts], None, None

    @property
    def settings(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("log", "_llm_weights_sleeping", "llm")
        }


def trainer_of(engine: Any, network: Any = None, *, step: int = 4, loaded: int = 3) -> Any:
    network = network or torch.nn.Linear(1, 1)
    state = SimpleNamespace(global_step=step)
    return SimpleNamespace(vllm_generation=engine, state=state, _last_loaded_step=loaded, model=network)


def adapted(dtype: torch.dtype = torch.bfloat16, *others: str) -> Any:
    config = LoraConfig(r=2, target_modules=["q_proj", *others], init_lora_weights=False)
    return get_peft_model(model(TOK).to(dtype), config)


def test_a_trainers_engine_is_restored() -> None:
    ids = [tuple(TOK(text)["input_ids"]) for text in ("w1", "w2 w3")]
    engine = Engine({ids[0]: [*TOK("w7 w8")["input_ids"], EOS], ids[1]: TOK("w9 w9 w9")["input_ids"]})
    before, trainer = engine.settings, trainer_of(engine)
    generator = TrainerGenerator(trainer, TOK)
    written = generator.generate(ids, Decoding(tokens=3, stop=("w8",)), seed=5)
    assert [(one.text.strip(), one.truncated) for one in written] == [("w7", False), ("w9 w9 w9", True)]
    assert engine.log == ["sync", (0.0, -1, 3, {"stop": ["w8"]})]
    assert engine.settings == before
    assert trainer._last_loaded_step == 4
    generator.generate(ids, Decoding(tokens=3), seed=5)
    assert engine.log.count("sync") == 1  # the weights are those of this step already


def test_after_an_exception_the_engine_has_its_settings_and_sleeps_again() -> None:
    ids = [tuple(TOK("w1")["input_ids"])]
    engine = Engine({})
    engine.fails = True
    before = engine.settings
    with pytest.raises(RuntimeError):
        TrainerGenerator(trainer_of(engine), TOK).generate(ids, Decoding(tokens=3), seed=0)
    assert engine.settings == before
    assert engine.log[-1] == "sleep 2"
    assert engine._llm_weights_sleeping


def test_an_adapter_is_unmerged_if_handing_over_the_weights_fails() -> None:
    network = adapted(torch.float32)
    weights = {name: weight.clone() for name, weight in network.named_parameters()}
    engine = Engine({})

    def sync() -> None:  # as TRL does it: merged, pushed, and taken apart only if all goes well
        network.merge_adapter()
        raise RuntimeError("out of memory")

    engine.sync_weights = sync  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        TrainerGenerator(trainer_of(engine, network), TOK).generate([(5,)], Decoding(tokens=3), seed=0)
    assert not any(getattr(module, "merged", False) for module in network.modules())
    for name, weight in network.named_parameters():
        assert torch.equal(weight, weights[name])


class Merging:
    """TRL 1.16's engine on a model with adapters: `sync_weights` merges, pushes and unmerges.

    A server is also given the names of all weights, by one more pass with its own merge at the first time
    (`_weight_metadata`); an engine in the trainer's process that sleeps gets the weights again in `generate`.
    """

    def __init__(self, network: Any, *, mode: str) -> None:
        self.temperature, self.max_completion_length, self.generation_kwargs = 0.9, 99, {}
        self.network, self.mode = network, mode
        self.merges = 0
        self.pushed: list[torch.Tensor] = []
        if mode == "server":
            self._weight_metadata: list[str] | None = None
        else:
            self._llm_weights_sleeping = True
            self.llm = SimpleNamespace(sleep=lambda level: None)

    def _pass(self) -> list[str]:
        self.merges += 1
        self.network.merge_adapter()
        names = [name for name, _ in self.network.named_parameters()]
        self.pushed.append(next(w for n, w in self.network.named_parameters() if "q_proj.base_layer" in n).clone())
        self.network.unmerge_adapter()
        return names

    def sync_weights(self) -> None:
        if self.mode == "server" and self._weight_metadata is None:
            self._weight_metadata = self._pass()
        self._pass()
        self._llm_weights_sleeping = False

    def generate(self, prompts: list[list[int]], images: Any, num_generations: int) -> tuple[Any, ...]:
        if self.mode == "colocate" and self._llm_weights_sleeping:
            self.sync_weights()
        self._llm_weights_sleeping = self.mode == "colocate"
        return prompts, [[5] for _ in prompts], None, None


def bits_after_training(*, mode: str, every: int | None) -> tuple[dict[str, torch.Tensor], int, bool]:
    """Weights after eight steps of a trainer that generates at every fourth, the number of its own merges, and
    True if each look changed no bit; with a look of two samples every so many steps, and at the start."""
    torch.manual_seed(1)
    network = adapted(torch.bfloat16, "embed_tokens")
    engine = Merging(network, mode=mode)
    trainer = trainer_of(engine, network, step=0, loaded=-1)
    generator, own, same = TrainerGenerator(trainer, TOK), 0, True
    for step in range(8):
        trainer.state.global_step = step
        if every and step % every == 0:
            before = {name: weight.clone() for name, weight in network.state_dict().items()}
            for seed in range(2):
                generator.generate([(5,)], Decoding(tokens=3), seed=seed)
            assert not any(getattr(layer, "merged", False) for layer in network.modules())
            same &= all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
        if step % 4 == 0:  # grpo_trainer._generate_single_turn
            merges = engine.merges
            if trainer.state.global_step != trainer._last_loaded_step:
                engine.sync_weights()
                trainer._last_loaded_step = trainer.state.global_step
            engine.generate([[5]], None, 1)
            own += engine.merges - merges
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if "lora_" in name:
                    weight.mul_(1.01)
    return network.state_dict(), own, same


@pytest.mark.parametrize("mode", ["server", "colocate"])
def test_looks_leave_the_weights_below_adapters_and_the_trainers_merges_as_they_are(mode: str) -> None:
    alone, merges, _ = bits_after_training(mode=mode, every=None)
    for every in (1, 2, 3):
        weights, own, same = bits_after_training(mode=mode, every=every)
        assert (own, same) == (merges, True)
        assert all(torch.equal(weight, alone[name]) for name, weight in weights.items())


@pytest.mark.parametrize(("sleeps", "copies"), [(False, 1), (True, 3)])
def test_weights_below_adapters_are_copied_only_where_the_engine_gets_weights(
    sleeps: bool, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = adapted(torch.float32)
    copied: list[Any] = []
    keep = vllm._kept_weights
    monkeypatch.setattr(vllm, "_kept_weights", lambda model: copied.append(model) or keep(model))
    engine = Merging(network, mode="colocate" if sleeps else "server")
    generator = TrainerGenerator(trainer_of(engine, network, step=3, loaded=2), TOK)
    for seed in range(3):
        generator.generate([(5,)], Decoding(tokens=3), seed=seed)
    assert len(copied) == copies


def test_merging_and_unmerging_in_bf16_changes_bits() -> None:
    network = adapted()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    Merging(network, mode="colocate").sync_weights()
    assert not all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())


def test_the_engine_gets_the_weights_of_its_step_with_adapters() -> None:
    network = adapted()
    engine = Merging(network, mode="server")
    trainer = trainer_of(engine, network, step=3)
    generator = TrainerGenerator(trainer, TOK)
    generator.generate([(5,)], Decoding(tokens=3), seed=0)
    assert engine.pushed == []  # the trainer has handed over the weights of this step
    trainer.state.global_step = 4
    for _ in range(2):
        generator.generate([(5,)], Decoding(tokens=3), seed=0)
    assert len(engine.pushed) == 2  # one pass for the names, one for the weights
    network.merge_adapter()
    merged = next(weight for name, weight in network.named_parameters() if "q_proj.base_layer" in name)
    assert torch.equal(engine.pushed[0], merged)
    assert trainer._last_loaded_step == 3


def test_prompts_that_are_too_long_for_the_engine_are_refused() -> None:
    engine = Engine({})
    with pytest.raises(ScoringError, match="take 22 tokens, and the engine reads 20; set vllm_max_model_length"):
        TrainerGenerator(trainer_of(engine), TOK).generate([(5,) * 10], Decoding(tokens=12), seed=0)
    assert engine.log == []
    with pytest.raises(ScoringError, match="needed a trainer with use_vllm=True"):
        TrainerGenerator(SimpleNamespace(), TOK)


def test_no_engine_is_called_where_no_answer_can_be_generated() -> None:
    network, engine = model(TOK, positions=16), Engine({})
    items = [
        Item(id="1", task="t", prompt="w1 " * 20, answer="w2", match="contains"),
        Item(id="2", task="t", prompt="w1", choices=[" w2", " w3"], answer=0),
    ]
    scorer = Scorer(Probe(items, decoding={"tokens": 4}), TOK, network)
    rows = scorer.score(network, generator=TrainerGenerator(trainer_of(engine), TOK)).texts("outcome")
    assert rows.tolist() == ["unscored: 20 tokens and 4 for the answer, and the model reads 16", "ok"]
    assert engine.log == []

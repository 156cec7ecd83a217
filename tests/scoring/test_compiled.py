"""Compiled models: a look compiles nothing, and takes off the wrappers that carry no sharding."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from ranks import in_processes
from support import model, probe, tokenizer
from torch import distributed, nn

from forgetwatch import Item, Probe, score
from forgetwatch.scoring.model import base_model, unwrapped
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()


class Backend:
    """Compiles nothing, and counts what it is given to compile and the calls of that."""

    def __init__(self) -> None:
        self.compiled = self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        self.compiled += 1

        def run(*inputs: Any) -> Any:
            self.calls += 1
            return graph.forward(*inputs)

        return run


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def both() -> Probe:
    generated = [
        Item(id=f"o{n}", task="open", prompt=f"w{n} " * (n + 1), answer="w1", match="contains")
        for n in range(4)
    ]
    return Probe([*probe(12).items, *generated], decoding={"tokens": 4})


def step(network: Any) -> None:
    network.train()
    ids = torch.arange(32).reshape(2, 16)
    network(input_ids=ids, labels=ids, use_cache=False).loss.backward()


def test_a_look_compiles_nothing_and_leaves_the_compiled_training_step_in_use() -> None:
    network, backend = model(TOK), Backend()
    expected = score(network, TOK, both()).checksum
    network.compile(backend=backend)  # in place, as regional compilation and DeepSpeed do
    step(network)
    before = (backend.compiled, backend.calls)
    assert before[0] > 0
    scorer = Scorer(both(), TOK, network)
    assert scorer.score(network).checksum == expected
    scorer.score(network)
    assert (backend.compiled, backend.calls) == before
    step(network)
    assert (backend.compiled, backend.calls) == (before[0], 2 * before[1])


def test_the_callers_own_stance_comes_back() -> None:
    network, backend = model(TOK), Backend()
    network.compile(backend=backend)
    with torch.compiler.set_stance("force_eager"):
        score(network, TOK, probe(6))
        step(network)
    assert backend.compiled == 0
    step(network)
    assert backend.compiled > 0


@pytest.mark.usefixtures("group")
def test_wrappers_of_training_are_taken_off_in_any_order() -> None:
    def compiled(module: nn.Module) -> Any:
        return torch.compile(module, backend="eager")

    network, parallel = model(TOK), nn.parallel.DistributedDataParallel
    for wrap in (
        lambda module: parallel(compiled(module)),
        lambda module: compiled(parallel(module)),
        lambda module: compiled(parallel(compiled(module))),
        lambda module: nn.DataParallel(compiled(module)),
        lambda module: compiled(nn.DataParallel(module)),
    ):
        wrapped = wrap(network)
        assert unwrapped(wrapped) is base_model(wrapped) is network
        assert score(wrapped, TOK, probe(6)).checksum == score(network, TOK, probe(6)).checksum
    adapted = get_peft_model(compiled(network), LoraConfig(target_modules=["q_proj"]))
    # The name that torch.compile uses is that of a module inside: the adapter is no wrapper of training.
    assert unwrapped(adapted) is adapted
    assert base_model(adapted) is network


_COMPILED = """
from support import model, probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()
from torch._dynamo.testing import CompileCounterWithBackend
for name in ("fsdp2", "fsdp1", "inside"):
    network, counter = model(tok), CompileCounterWithBackend("eager")
    if name == "fsdp2":  # accelerate compiles first, and splits the compiled module
        root = sharded(network, torch.compile(network, backend=counter))
    elif name == "fsdp1":
        root = torch.compile(fsdp1(network), backend=counter)
    else:
        root = fsdp1(torch.compile(network, backend=counter))
    ids = torch.arange(32).reshape(2, 16)
    root.train()
    root(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    before = counter.frame_count
    scorer = Scorer(probe(13), tok, root, token_budget=40)
    found[name] = [scorer.score(root).checksum, scorer.score(root).checksum, scorer.engine.layout, before]
    found[name] += [counter.frame_count - before]
    root.train()
    root(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    found[name] += [counter.frame_count - before]
    torch._dynamo.reset()
"""


@pytest.mark.full(reason="a model that is compiled")
def test_a_compiled_model_in_parts_is_read_as_a_whole_one(tmp_path: Path) -> None:
    whole = model(TOK)
    scorer = Scorer(probe(13), TOK, whole, layout="trie", token_budget=40)
    expected = scorer.score(whole).checksum
    for found in in_processes(_COMPILED, tmp_path):
        for name in ("fsdp2", "fsdp1", "inside"):
            first, again, layout, before, in_looks, after = found[name]
            assert (first, again, layout) == (expected, expected, "trie"), name
            assert before > 0, name
            assert (in_looks, after) == (0, 0), name

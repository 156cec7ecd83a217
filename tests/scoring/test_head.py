"""Log-probabilities from the needed hidden states: equal to those of the model's own logits, for every kind of head.

Masks of trees, computed in pieces, and transfers of a batch.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from architectures import SIZES, largest_error
from ranks import in_processes
from support import model, probe, tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3TextConfig,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from forgetwatch.scoring import head as head_module
from forgetwatch.scoring import layout as layout_module
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.head import head_in_fp32
from forgetwatch.scoring.layout import plan, tensors_of, tree_options
from forgetwatch.scoring.model import ModelInfo
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()


def llama(kind: Any = LlamaForCausalLM, **options: Any) -> Any:
    torch.manual_seed(0)
    made = kind(LlamaConfig(**{**SIZES, **options})).eval()
    nn.init.normal_(made.lm_head.weight, std=0.5)
    return made


def check(network: Any, *, tolerance: float = 1e-4) -> Scorer:
    """Compare all log-likelihoods with one forward per choice of the model itself."""
    scorer = Scorer(probe(20), TOK, network)
    assert largest_error(network, scorer) < tolerance
    assert "forward" not in vars(network.get_output_embeddings())
    return scorer


class _Masked(LlamaForCausalLM):  # type: ignore[misc]
    """Some tokens are never generated, as with image tokens."""

    def forward(self, **kwargs: Any) -> Any:
        output = super().forward(**kwargs)
        output.logits[..., 100:] = torch.finfo(output.logits.dtype).min
        return output


class _Shifted(LlamaForCausalLM):  # type: ignore[misc]
    """A change of the logits that no number shows which the head returns: it is of a token that they do not have."""

    def forward(self, **kwargs: Any) -> Any:
        output = super().forward(**kwargs)
        output.logits = functional.pad(
            output.logits[..., :90], (0, max(0, output.logits.shape[-1] - 90)), value=-3.0
        )
        return output


class _Twice(LlamaForCausalLM):  # type: ignore[misc]
    def forward(self, **kwargs: Any) -> Any:
        output = super().forward(**kwargs)
        self.lm_head(torch.zeros(1, 1, self.config.hidden_size, dtype=output.logits.dtype))
        return output


class _Unnamed(LlamaForCausalLM):  # type: ignore[misc]
    """Multiplies by the weights itself."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **_: Any
    ) -> Any:
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids
        )
        return SimpleNamespace(
            logits=functional.linear(found.last_hidden_state, self.lm_head.weight)
        )


@pytest.mark.parametrize("kind", [_Masked, _Shifted, _Twice, _Unnamed])
def test_a_model_that_does_more_than_one_multiplication_is_read_too(kind: Any) -> None:
    check(llama(kind))


def test_a_soft_cap_and_a_scale_apply_to_our_logits_too() -> None:
    torch.manual_seed(0)
    config = Gemma2Config(
        **SIZES, head_dim=8, final_logit_softcapping=2.0, attn_implementation="eager"
    )
    network = Gemma2ForCausalLM(config).eval()
    nn.init.normal_(network.lm_head.weight, std=1.0)
    check(network)


class _Rounding(LlamaForCausalLM):  # type: ignore[misc]
    """Rounds the logits, as some patched models do."""

    def forward(self, **options: Any) -> Any:
        output = super().forward(**options)
        self.most = max(self.most, output.logits.shape[:-1].numel())
        return SimpleNamespace(logits=output.logits.to(torch.bfloat16))

    most = 0


def test_logits_that_a_model_rounds_are_read_as_it_rounds_them() -> None:
    network, exact = llama(_Rounding).to(torch.bfloat16), llama().to(torch.bfloat16)
    exact.load_state_dict(network.state_dict())
    items = probe(200)
    rounded, own = (Scorer(items, TOK, one).score(one) for one in (network, exact))
    sums = [np.concatenate(one.table["choice_logprobs"].to_pylist()) for one in (rounded, own)]
    # A logit has 8 binary digits; a choice has at most 3 tokens.
    assert sums[0] == pytest.approx(sums[1], abs=3 * 2**-8 * np.abs(sums[1]).max())
    changed = np.flatnonzero(rounded.ints("chosen") != own.ints("chosen"))
    assert len(changed) <= 2
    assert (own.floats("margin")[changed] < 0.05).all()


def test_a_model_that_ignores_positions_and_keeps_its_own_logits_stays_within_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, items = llama(_Rounding), probe(40)
    encoded = encode(items, TOK, max_length=64)
    batches = plan([item.content_hash for item in items], encoded, token_budget=1024)
    forward = ForwardPass(ModelInfo.of(network))
    monkeypatch.setattr("forgetwatch.scoring.forward.LOGIT_BUDGET", 20_000)
    with torch.no_grad():
        forward.check(network, encoded[0].context)
        network.most = 0
        forward.score(network, batches, encoded, layout="rows")
    longest = max(batch.width for batch in batches)
    assert network.most * len(TOK) <= max(20_000, longest * len(TOK))
    assert network.most > 0


def test_a_forward_that_somebody_gave_the_head_is_called() -> None:
    network = llama()
    network.lm_head.forward = lambda hidden: functional.linear(hidden, 2 * network.lm_head.weight)
    scorer = Scorer(probe(20), TOK, network)
    assert largest_error(network, scorer) < 1e-4
    assert "forward" in vars(network.lm_head)


class _Composite(nn.Linear):
    """A head that computes with a matrix of its own and one inside; in bf16 it takes no numbers in fp32."""

    def __init__(self, size: int, vocabulary: int) -> None:
        super().__init__(size, vocabulary, bias=False)
        self.inside = nn.Linear(size, size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.linear(self.inside(hidden), self.weight)


def test_a_head_that_does_more_than_multiply_keeps_its_own_arithmetic() -> None:
    network = llama()
    torch.manual_seed(1)
    network.lm_head = _Composite(32, len(TOK))
    check(network.to(torch.bfloat16), tolerance=0.1)


@pytest.mark.parametrize(
    "options", [{"target_modules": ["lm_head"]}, {"modules_to_save": ["lm_head"]}]
)
def test_adapters_on_the_head_are_read_a_few_positions_at_a_time(options: dict[str, Any]) -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(
        llama(),
        peft.LoraConfig(r=2, **{"target_modules": ["q_proj"], **options}, init_lora_weights=False),
    ).eval()
    sizes = []
    adapted.get_output_embeddings().register_forward_pre_hook(
        lambda _, args: sizes.append(args[0].shape)
    )
    scorer = Scorer(probe(20), TOK, adapted)
    assert largest_error(adapted, scorer) < 1e-4


def test_hooks_that_move_weights_between_devices_stay_in_place() -> None:
    accelerate = pytest.importorskip("accelerate")
    network = llama().to(torch.bfloat16)
    plain = Scorer(probe(20), TOK, network).score(network)
    dispatched = accelerate.dispatch_model(
        network, {"": "cpu"}, force_hooks=True, main_device="cpu"
    )
    accelerate.hooks.add_hook_to_module(
        dispatched.lm_head, accelerate.hooks.AlignDevicesHook("cpu")
    )
    before = dict(vars(dispatched.lm_head))
    scorer = Scorer(probe(20), TOK, dispatched)
    assert scorer.score(dispatched).checksum == plain.checksum
    assert vars(dispatched.lm_head) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pieces_of_any_size_give_the_same(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = llama().to(dtype)
    forward, items = ForwardPass(ModelInfo.of(network)), probe(30)
    encoded = encode(items, TOK, max_length=64)
    batches = plan([item.content_hash for item in items], encoded, token_budget=512)
    with torch.no_grad():
        whole = forward.score(network, batches, encoded, layout="rows", greedy=True)
        for weights, logits in ((32 * 10, 2**21), (2**25, 1), (32 * 50, 100)):
            monkeypatch.setattr(head_module, "_WEIGHTS", weights)
            monkeypatch.setattr(head_module, "_CPU_LOGITS", logits)
            cut = forward.score(network, batches, encoded, layout="rows", greedy=True)
            for index, scores in whole.items():
                assert cut[index].logprobs == pytest.approx(scores.logprobs, abs=1e-5)
                assert cut[index].spelled == pytest.approx(scores.spelled, abs=1e-6)
                assert cut[index].top == scores.top
                assert cut[index].greedy.tolist() == scores.greedy.tolist()


def test_a_batch_takes_one_transfer_each_way_and_is_launched_before_the_one_before_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []

    class Recorded:
        def __init__(self, numbers: Tensor) -> None:
            self.numbers = numbers
            events.append("launched")

        def wait(self) -> np.ndarray:
            events.append("read")
            return self.numbers.double().numpy()

    monkeypatch.setattr("forgetwatch.scoring.forward.Download", Recorded)
    network, items = llama(), probe(30)
    encoded = encode(items, TOK, max_length=64)
    batches = plan([item.content_hash for item in items], encoded, token_budget=128)
    forward = ForwardPass(ModelInfo.of(network))
    with torch.no_grad():
        forward.score(network, batches, encoded, layout="rows")
    count = len(batches)
    assert count > 3
    assert events == ["launched", *["launched", "read"] * (count - 1), "read"]


def test_the_head_comes_back_after_an_error() -> None:
    network = llama()
    with pytest.raises(RuntimeError, match="no"), head_in_fp32(network):
        raise RuntimeError("no")
    assert "forward" not in vars(network.lm_head)


_RANK = """
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from support import probe, tokenizer
from test_head import llama
from forgetwatch.scoring.scorer import Scorer
tok, found["heads"] = tokenizer(), {}
mesh = init_device_mesh("cpu", (world,))
def split(dtype):
    network = llama().to(dtype)
    weight = network.lm_head.weight.detach().clone()
    style = "colwise_gather_output"
    apply_tensor_parallelism(network, mesh, {"lm_head": style, "lm_head.weight": style})
    network.lm_head.weight.to_local().copy_(weight.chunk(world)[rank])
    network._tp_size = world
    return network
def sharded(dtype):
    network = llama().to(dtype)
    for part in [*network.model.layers, network.lm_head, network]:
        fully_shard(part, mesh=mesh)
    return network
def wrapped(dtype):
    network = llama().to(dtype)
    network.lm_head = fsdp1(network.lm_head)
    return fsdp1(network)
with torch.no_grad():
    for dtype in (torch.float32, torch.bfloat16):
        for make in (split, sharded, wrapped):
            network = make(dtype)
            scorer = Scorer(probe(20), tok, network, layout="rows")
            rows = scorer.score(network).table["choice_logprobs"].to_pylist()
            found["heads"][f"{make.__name__} {dtype}"] = rows
"""


def test_heads_that_are_split_over_processes_give_the_numbers_of_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(
        "transformers.distributed.tensor_parallel", reason="transformers 5 splits heads"
    )
    monkeypatch.syspath_prepend(Path(__file__).parent)
    for found in in_processes(_RANK, tmp_path):
        for name, rows in found["heads"].items():
            dtype = torch.bfloat16 if "bfloat16" in name else torch.float32
            network = llama().to(dtype)
            whole = (
                Scorer(probe(20), TOK, network, layout="rows")
                .score(network)
                .table["choice_logprobs"]
                .to_pylist()
            )
            # A split head has another kind of weight, and keeps its own arithmetic: in bf16 its logits are rounded.
            error = 0.1 if name == "split torch.bfloat16" else 2e-5
            assert np.concatenate(rows) == pytest.approx(np.concatenate(whole), abs=error), name


def test_the_replaced_head_needs_far_fewer_logits_than_the_model_would_return() -> None:
    network, largest = model(TOK), 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor) and out.shape[-1:] == (len(TOK),):
                largest = max(largest, out.shape[:-1].numel())
            return out

    scorer = Scorer(probe(200), TOK, network, layout="rows", noise=0.0, token_budget=4096)
    scorer.score(network)
    with Largest():
        scorer.score(network)
    positions = max(
        sum(len(row.positions) for row in batch.rows) for batch in scorer.engine._batches
    )
    assert 0 < largest <= positions


SIZES_OF_TENSORS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "head_dim": 8,
}
CONFIGS = {
    "full": LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "sliding": Gemma3TextConfig(
        **SIZES_OF_TENSORS,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
    ),
    "chunked": Llama4TextConfig(
        **SIZES_OF_TENSORS,
        attention_chunk_size=4,
        layer_types=["chunked_attention", "full_attention"] * 2,
    ),
}


@pytest.mark.parametrize("additive", [None, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_masks_in_pieces_are_those_of_a_whole_row(
    name: str, additive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = probe(30)
    encoded = encode(items, tokenizer(), max_length=100)
    batches = plan(
        [item.content_hash for item in items],
        encoded,
        token_budget=200,
        layout="trie",
        attention=1000,
    )
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            # What is computed for each pair: the finished mask is one tensor, of one or two bytes a pair.
            if isinstance(out, torch.Tensor) and out.dtype == torch.int64:
                largest = max(largest, out.numel())
            return out

    for batch in batches[:3]:
        made = tensors_of(batch)
        whole = tree_options(CONFIGS[name], made, additive=additive, prefix=3)
        monkeypatch.setattr(layout_module, "_MASK_PIECE", 400)
        with Largest():
            pieces = tree_options(CONFIGS[name], made, additive=additive, prefix=3)
        monkeypatch.undo()
        assert torch.equal(whole["position_ids"], pieces["position_ids"])
        masks = [one["attention_mask"] for one in (whole, pieces)]
        as_dicts = [one if isinstance(one, dict) else {"": one} for one in masks]
        assert as_dicts[0].keys() == as_dicts[1].keys()
        for kind, mask in as_dicts[0].items():
            assert torch.equal(mask, as_dicts[1][kind])
        rows, width = made.ids.shape
        assert largest <= max(400, rows * (width + 3))


def test_a_moved_batch_is_the_same_batch() -> None:
    items = probe(10)
    encoded = encode(items, tokenizer(), max_length=100)
    batch = plan([item.content_hash for item in items], encoded, token_budget=200)[0]
    made = tensors_of(batch)
    others = torch.arange(5).numpy(), torch.arange(0).numpy()
    moved, rest = made.moved(torch.device("cpu"), *others)
    for name in ("ids", "mask", "depths", "ends", "needed"):
        assert torch.equal(getattr(made, name), getattr(moved, name))
    assert [one.tolist() for one in rest] == [one.tolist() for one in others]
    assert moved.needed.tolist() == [
        number * batch.width + position
        for number, row in enumerate(batch.rows)
        for position in row.positions
    ]

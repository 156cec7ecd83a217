"""Masks of trees, computed in pieces, and transfers of a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support import probe, tokenizer
from transformers import Gemma3TextConfig, Llama4TextConfig, LlamaConfig

from forgetwatch.scoring import encode, plan, tensors_of, tree_options
from forgetwatch.scoring import layout as layout_module

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 8}
CONFIGS = {
    "full": LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "sliding": Gemma3TextConfig(**SIZES, sliding_window=4, layer_types=["sliding_attention", "full_attention"] * 2),
    "chunked": Llama4TextConfig(
        **SIZES, attention_chunk_size=4, layer_types=["chunked_attention", "full_attention"] * 2
    ),
}


@pytest.mark.parametrize("additive", [None, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_masks_in_pieces_are_those_of_a_whole_row(name: str, additive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    items = probe(30)
    encoded = encode(items, tokenizer(), max_length=100)
    batches = plan([item.content_hash for item in items], encoded, token_budget=200, layout="trie", attention=1000)
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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
        number * batch.width + position for number, row in enumerate(batch.rows) for position in row.positions
    ]

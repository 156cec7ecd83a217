"""Processes that hold parts of one model fall back to single rows together, for one reason, and no call is left out."""

from __future__ import annotations

from pathlib import Path

import torch
from architectures import SIZES
from ranks import in_processes
from support import model, probe, tokenizer
from transformers import Gemma2Config, Gemma2ForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import AttentionInterface

from forgetwatch.scoring import Scorer

TOK = tokenizer()

_LOUD = """
from support import model, probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()

trees = []

def notice(module, args, kwargs):
    mask = kwargs["attention_mask"]
    trees[:] = [mask is not None and mask.ndim == 4]

def refuse(module, args, kwargs):
    if trees[0]:
        raise RuntimeError("masks have two dimensions here")

def gradients(network):
    ids = torch.arange(32).reshape(2, 16)
    network.zero_grad()
    network(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    return [
        weight.grad.full_tensor() if hasattr(weight.grad, "full_tensor") else weight.grad.clone()
        for weight in network.parameters()
        if weight.grad is not None
    ]

for name in ("fsdp2", "fsdp1"):
    network = model(tok, dropout=0.0).train()
    inner = network.model
    network = (sharded if name == "fsdp2" else fsdp1)(network)
    before = gradients(network)
    Scorer(probe(13), tok, network, token_budget=40).score(network)
    found[name + " after a look"] = all(map(torch.equal, before, gradients(network)))
    # Where the weights of the root and of a layer are together, like the attention of a model that takes no such mask.
    inner.register_forward_pre_hook(notice, with_kwargs=True)
    inner.layers[1].self_attn.register_forward_pre_hook(refuse, with_kwargs=True)
    scorer = Scorer(probe(13), tok, network, token_budget=40)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, scorer.engine.fallback_reason]
    found[name] += [scorer.score(network).checksum]
    found[name] += [all(map(torch.equal, before, gradients(network)))]
"""


def test_a_model_in_parts_that_refuses_the_mask_is_read_in_single_rows(tmp_path: Path) -> None:
    whole = model(TOK, dropout=0.0)
    expected = Scorer(probe(13), TOK, whole, layout="rows", token_budget=40).score(whole).checksum
    reason = "RuntimeError: masks have two dimensions here"
    for found in in_processes(_LOUD, tmp_path):
        for name in ("fsdp2", "fsdp1"):
            assert found[f"{name} after a look"], name
            # Afterwards the model trains as before: no weights are left where the call was broken off.
            assert reason in found[name].pop(2), name
            assert found[name] == [expected, "rows", expected, True], name


_SOFT_CAP = """
from support import probe, tokenizer
from test_fallback_together import soft_capped
from forgetwatch.scoring.scorer import Scorer
tok, network = tokenizer(), sharded(soft_capped())
scorer = Scorer(probe(13), tok, network, token_budget=40)
snapshot = scorer.score(network)
found["way"] = [snapshot.checksum, snapshot.meta["way"], snapshot.meta["attention"]]
"""


def soft_capped() -> Gemma2ForCausalLM:
    """Gemma 2 with a stand-in of a flash kernel, which takes causal rows only and caps the scores."""

    def kernel(module: object, query: object, key: object, value: object, mask: object, **options: object) -> object:
        assert mask is None or mask.ndim == 2 or mask.shape[1] == 1  # type: ignore[attr-defined]
        options["softcap"] = None  # too large here to show
        return sdpa_attention_forward(module, query, key, value, mask, **options)  # type: ignore[arg-type]

    AttentionInterface.register("flash_stand_in", kernel)
    torch.manual_seed(0)
    config = Gemma2Config(**SIZES, head_dim=8, attn_logit_softcapping=50.0)
    network = Gemma2ForCausalLM._from_config(config, attn_implementation="eager").eval()
    network.config._attn_implementation = "flash_stand_in"
    return network


def test_a_soft_capped_model_in_parts_shares_rows(tmp_path: Path) -> None:
    whole = soft_capped()
    scorer = Scorer(probe(13), TOK, whole, layout="trie", token_budget=40)
    expected = scorer.score(whole).checksum
    (tmp_path / "test_fallback_together.py").symlink_to(__file__)
    for found in in_processes(f"sys.path.insert(0, {str(tmp_path)!r})" + _SOFT_CAP, tmp_path):
        assert found["way"] == [expected, "trie", "eager"]


_ONE_ALONE = """
from dataclasses import replace
from support import model, probe, tokenizer
from forgetwatch.scoring import parity
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()

def scored(name, change):
    network, calls = model(tok), []
    next(network.parameters()).ds_id = 0  # as if each process held a part
    network.register_forward_hook(lambda *_: calls.append(1))
    undo = change(network)
    scorer = Scorer(probe(13), tok, network, token_budget=40)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, scorer.engine.fallback_reason, len(calls)]
    undo()

compare, tree_error = parity.ParityCheck.compare, parity.ParityCheck.tree_error

def differing(process):
    def change(network):
        def compared(self, *given):
            made = compare(self, *given)
            return replace(made, difference=9.0) if rank == process else made
        parity.ParityCheck.compare = compared
        return lambda: setattr(parity.ParityCheck, "compare", compare)
    return change

def wrong_tree(process):
    def change(network):
        def found_wrong(self, *given, **named):
            made = tree_error(self, *given, **named)
            return "a wrong tree" if rank == process else made
        parity.ParityCheck.tree_error = found_wrong
        return lambda: setattr(parity.ParityCheck, "tree_error", tree_error)
    return change

def too_large(process):
    def change(network):
        def hook(module, args, kwargs):
            mask = kwargs["attention_mask"]
            if rank == process and mask.ndim == 4 and mask.shape[-1] > 11:  # not the short tree
                raise torch.OutOfMemoryError("CUDA out of memory")
        network.register_forward_pre_hook(hook, with_kwargs=True)
        return lambda: None
    return change

for process in (0, 1):
    scored(f"differs {process}", differing(process))
    scored(f"tree {process}", wrong_tree(process))
    scored(f"memory {process}", too_large(process))
"""


def test_what_one_process_sees_alone_is_decided_for_all(tmp_path: Path) -> None:
    whole = model(TOK)
    rows, trie = (
        Scorer(probe(13), TOK, whole, layout=layout, token_budget=40).score(whole).checksum  # type: ignore[arg-type]
        for layout in ("rows", "trie")
    )
    first, second = in_processes(_ONE_ALONE, tmp_path)
    for name in set(first) - {"stderr"}:
        # A process whose call fails makes fewer: between the parts of this model there is no exchange to wait in.
        calls = 3 if name.startswith("memory") else 4
        assert first[name][:calls] == second[name][:calls], name  # equally many calls: none waits for the other
    # The main process decides what was measured.
    assert first["differs 0"][:2] == first["tree 0"][:2] == [rows, "rows"]
    assert first["differs 0"][2].endswith(": shared rows differ from single ones by 9 nats")
    assert first["tree 0"][2].endswith(": a wrong tree")
    for name in ("differs 1", "tree 1"):
        assert first[name][:3] == [trie, "trie", ""]
    # What failed in any process failed in all.
    for name in ("memory 0", "memory 1"):
        assert first[name][:2] == [rows, "rows"]
        assert first[name][2].endswith(": shared rows do not fit into memory")


_PREFIX = """
import dataclasses, random
from support import WORDS, model, probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
tok, rng, items = tokenizer(), random.Random(0), probe(37)
few, other = (" ".join(rng.choices(WORDS[:40], k=300)) for _ in range(2))
def begun(number, item):
    return dataclasses.replace(item, prompt=f"{few if number < 11 else other} {item.prompt}") if number < 30 else item
items = dataclasses.replace(items, items=tuple(begun(number, item) for number, item in enumerate(items)))
network = model(tok, positions=2048)
alone = Scorer(items, tok, network, layout="prefix", token_budget=1024).score(network)
network = sharded(model(tok, positions=2048))
scorer = Scorer(items, tok, network, layout=alone.meta["way"], noise=0.0, token_budget=1024)
look = scorer.score(network)
rows = [[value for row in one.table["choice_logprobs"].to_pylist() for value in row] for one in (alone, look)]
found |= {"layouts": [alone.meta["way"], look.meta["way"]], "differs": max(abs(a - b) for a, b in zip(*rows))}
"""


def test_a_model_in_parts_reads_no_prefix_although_its_baseline_did(tmp_path: Path) -> None:
    for found in in_processes(_PREFIX, tmp_path):
        assert found["layouts"] == ["prefix", "trie"]
        assert found["differs"] < 1e-4

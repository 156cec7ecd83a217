"""Several processes that score one model together get the rows that one process gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import in_processes
from support import model, probe, tokenizer

from forgetwatch.scoring import Scorer

TOK = tokenizer()
BUDGET = 40

_RANK = """
from support import model, probe, tokenizer
from forgetwatch import Item, Probe
from forgetwatch.errors import ForgetwatchError
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.scorer import Scorer
tok, found["checksums"] = tokenizer(), {}
for items in (40, 37, 2):
    scorer = Scorer(probe(items), tok, model(tok), token_budget=budget)
    network = model(tok)
    scorer.score(network)
    found["checksums"][items] = scorer.score(network).checksum
network, calls = model(tok), []
next(network.parameters()).ds_id = 0  # as if each process held a part
network.register_forward_hook(lambda *_: calls.append(1))
scorer = Scorer(probe(37), tok, network, token_budget=budget)
found["sharded"] = [scorer.score(network).checksum, len(calls)]
scorer.score(network)
found["sharded"].append(len(calls))
for name, network in (("fsdp2", sharded(model(tok))), ("fsdp1", fsdp1(model(tok)))):
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    scorer = Scorer(probe(37), tok, network, token_budget=budget)
    scorer.score(network)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, len(calls)]
broken = model(tok)
if rank == 1:
    torch.nn.init.constant_(broken.lm_head.weight, float("nan"))
found["broken"] = error(lambda: Scorer(probe(37), tok, broken, token_budget=budget).score(broken))
def judge(output, item):
    return rank == 0
items = [Item(id=str(n), task="t", prompt=f"w{n} w2", answer="x", judge=judge) for n in range(5)]
judged = Scorer(Probe(items, decoding={"tokens": 4}), tok, model(tok)).score(model(tok))
found["judged"] = judged.table["correct"].to_pylist()
found["first"] = on_main_process(lambda: rank + 7)
def fail():
    raise ForgetwatchError("no")
found["failed"] = error(lambda: on_main_process(fail))
"""


@pytest.mark.parametrize("world", [2, 3])
def test_any_number_of_processes_gets_the_same_bits(world: int, tmp_path: Path) -> None:
    network = model(TOK)
    alone = {str(n): Scorer(probe(n), TOK, network, token_budget=BUDGET).score(network).checksum for n in (40, 37, 2)}
    ranks = in_processes(f"budget = {BUDGET}" + _RANK, tmp_path, world=world)
    assert [rank["checksums"] for rank in ranks] == [alone] * world
    # Where each holds a part of the model: the same rows, and as many calls each.
    assert len({tuple(rank["sharded"]) for rank in ranks}) == 1
    # And where each really does (FSDP in both its forms): the rows of a whole model, read in the same way.
    whole = Scorer(probe(37), TOK, network, layout="trie", token_budget=BUDGET).score(network).checksum
    for name in ("fsdp2", "fsdp1"):
        assert {tuple(rank[name][:2]) for rank in ranks} == {(whole, "trie")}
        assert len({rank[name][2] for rank in ranks}) == 1
    # An answer is graded once, whatever a judge would say in another process.
    assert [rank["judged"] for rank in ranks] == [[True] * 5] * world
    # What fails in one fails in all.
    assert all("not finite" in rank["broken"] for rank in ranks)
    assert "process 1 failed" in ranks[0]["broken"]
    assert [rank["first"] for rank in ranks] == [7] * world
    assert all(rank["failed"] == "ForgetwatchError: no" for rank in ranks)

"""From a model and a probe to the columns of a snapshot."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from support import log_likelihood, model, probe, tokenizer

from forgetwatch import Item, Probe, Snapshot, score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import Scorer

TOK = tokenizer()


@pytest.mark.parametrize("norm", ["sum", "chars", "bytes", "tokens"])
def test_the_chosen_option_can_be_derived_from_the_columns(norm: str) -> None:
    rows = score(model(TOK), TOK, probe(norm=norm)).table.to_pylist()
    for row in rows:
        unit = [1] * row["k"] if norm == "sum" else row[f"choice_{norm}"]
        scores = [lp / length for lp, length in zip(row["choice_logprobs"], unit, strict=True)]
        assert row["chosen"] == int(np.argmax(scores))
        assert row["correct"] == (row["chosen"] == row["gold"])


def test_mass_and_free_answer_are_those_of_the_next_token() -> None:
    network = model(TOK).eval()
    item = Item(id="1", task="t", prompt="Q : w1 Answer :", choices=(" w2", " w3"), answer=1)
    with torch.no_grad():
        next_token = network(torch.tensor([TOK("Q : w1 Answer :")["input_ids"]])).logits[0, -1].softmax(-1)
    ids = TOK.convert_tokens_to_ids(["w2", "w3"])
    row = score(network, TOK, Probe([item])).table.to_pylist()[0]
    assert row["option_mass"] == pytest.approx(float(next_token[ids].sum()), abs=1e-6)
    assert row["free_correct"] == (int(next_token.argmax()) == ids[1])
    best = TOK.convert_ids_to_tokens(int(next_token.argmax()))
    sure = Item(id="1", task="t", prompt="Q : w1 Answer :", choices=(f" {best}", " w3"), answer=0)
    assert score(network, TOK, Probe([sure])).table["free_correct"][0].as_py()


def test_the_same_weights_give_the_same_rows_in_any_order_of_the_items() -> None:
    items = list(probe(40))
    network = model(TOK)
    first = {row["item_id"]: row for row in score(network, TOK, Probe(items)).table.to_pylist()}
    random.Random(0).shuffle(items)
    second = score(network, TOK, Probe(items))
    assert [row["item_id"] for row in second.table.to_pylist()] == [item.id for item in items]
    assert {row["item_id"]: row for row in second.table.to_pylist()} == first


def test_the_metadata_names_model_scorer_and_settings() -> None:
    items = probe()
    snapshot = score(model(TOK), TOK, items)
    assert snapshot.meta["probe"] == {
        "name": "toy", "fingerprint": items.fingerprint, "items": 30,
        "scoring": "loglikelihood", "norm": "sum", "rendering": "plain",
    }  # fmt: skip
    assert snapshot.meta["dtype"] == "float32"
    assert {"forgetwatch", "torch", "transformers"} <= set(snapshot.meta["versions"])
    assert snapshot.missing("source_prompt_hash")
    assert not snapshot.missing("prompt_hash")


def test_items_that_cannot_be_scored_are_unscored_with_their_reason() -> None:
    items = [
        Item(id="long", task="t", prompt="w1 " * 200, choices=(" w2", " w3"), answer=0),
        Item(id="open", task="t", prompt="Q", answer="w1", match="exact"),
        Item(id="blank", task="t", prompt="Q", choices=(" w1", " "), answer=0),
        Item(id="fine", task="t", prompt="Q", choices=(" w1", " w2"), answer=0),
    ]
    rows = {row["item_id"]: row for row in score(model(TOK), TOK, Probe(items)).table.to_pylist()}
    assert rows["long"]["outcome"] == "unscored: 200 tokens, and the model reads 128"
    assert rows["open"]["outcome"] == "unscored: 1 tokens and 256 for the answer, and the model reads 128"
    assert rows["blank"]["outcome"] == "unscored: choice 1 has no text"
    assert [rows[name]["correct"] for name in ("long", "open", "blank")] == [None] * 3
    assert rows["fine"]["outcome"] == "ok"
    assert rows["fine"]["correct"] is not None


def test_a_probe_of_unscorable_items_gives_a_snapshot_and_no_error() -> None:
    items = Probe([Item(id="open", task="t", prompt="Q", answer="w1", match="exact")])
    assert score(model(TOK), TOK, items).table["correct"].to_pylist() == [None]


def test_margins_within_the_measured_noise_are_unstable() -> None:
    scorer = Scorer(probe(), TOK, model(TOK))
    assert not any(scorer.score(model(TOK)).table["unstable"].to_pylist())
    assert scorer.engine.noise is not None
    assert scorer.engine.noise < 1e-4
    scorer.engine.noise = math.inf
    assert all(scorer.score(model(TOK)).table["unstable"].to_pylist())


def test_letters_score_the_letter_and_count_its_other_spellings() -> None:
    network = model(TOK).eval()
    item = Item(id="1", task="t", prompt="Q : w1", choices=(" w2", " w3"), answer=1)
    snapshot = score(network, TOK, Probe([item], scoring="letters"))
    row = snapshot.table.to_pylist()[0]
    context = TOK("Q : w1\nA. w2\nB. w3\nAnswer:")["input_ids"]
    letters = TOK.convert_tokens_to_ids(["A", "B"])
    assert row["choice_logprobs"] == pytest.approx(
        [log_likelihood(network, tuple(context), (one,)) for one in letters], abs=1e-5
    )
    assert row["choice_chars"] == [1, 1]


def test_progress_counts_up_to_all_rows() -> None:
    seen: list[tuple[int, int]] = []
    score(model(TOK), TOK, probe(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_tokenizer_larger_than_the_model_is_refused() -> None:
    tok = tokenizer()
    tok.add_tokens(["new"])
    item = Item(id="1", task="t", prompt="new", choices=(" w1", " w2"), answer=0)
    with pytest.raises(ScoringError, match=r"token id 137, and the model's vocabulary has 137 tokens"):
        score(model(TOK), tok, Probe([item]))


def test_a_peft_model_is_scored_with_its_adapter() -> None:
    network = model(TOK)
    plain = score(network, TOK, probe())
    adapted = get_peft_model(network, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    assert logprobs(score(adapted, TOK, probe())) != logprobs(plain)
    with adapted.disable_adapter():
        assert logprobs(score(adapted, TOK, probe())) == pytest.approx(logprobs(plain), abs=1e-5)


def logprobs(snapshot: Snapshot) -> list[float]:
    return [value for row in snapshot.table["choice_logprobs"].to_pylist() for value in row]


def test_duplicate_questions_get_one_answer_in_any_order() -> None:
    network = model(TOK)
    twice = [
        Item(id=f"{copy}{item.id}", task=copy, prompt=item.prompt, choices=item.choices, answer=0)
        for copy in "ab"
        for item in probe(15)
    ]

    def logprobs(items: list[Item]) -> dict[str, list[float]]:
        rows = Scorer(Probe(items), TOK, network, token_budget=40).score(network).table.to_pylist()
        return {row["item_id"]: row["choice_logprobs"] for row in rows}

    found, turned = logprobs(twice), logprobs(twice[::-1])
    assert found == turned
    assert all(found[f"a{item.id}"] == found[f"b{item.id}"] for item in probe(15))

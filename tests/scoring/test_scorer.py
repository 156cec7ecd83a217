"""From a model and a probe to the columns of a snapshot.

The shipped probe `standard`, on a real architecture and on a model that knows nothing.

Questions in several wordings on a model.

Log-likelihoods of passages: those of a plain forward over the whole text.

Mass and conditional of models: as plain forwards give them, and each falling alone in a training made for it.
"""

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from passage_texts import passages
from peft import LoraConfig, get_peft_model
from ranks import in_processes
from scipy.special import logsumexp
from support import WORDS, facts, log_likelihood, model, probe, tokenizer

from forgetwatch import Item, Probe, Snapshot, compare, load_probe, score
from forgetwatch.errors import ScoringError
from forgetwatch.measures.aligned import snapshot_bits
from forgetwatch.measures.option_columns import option_scores
from forgetwatch.metrics.mass import split
from forgetwatch.probes.wordings import WORDINGS, worded
from forgetwatch.scoring.encoding import Encoded, check_wordings, encode
from forgetwatch.scoring.item_rows import decide, is_free_correct, lengths, option_mass
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.wording import Wording

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
        next_token = (
            network(torch.tensor([TOK("Q : w1 Answer :")["input_ids"]])).logits[0, -1].softmax(-1)
        )
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
    assert rows["long"]["outcome"] == "unscored: longer than the 128 tokens that the model reads"
    assert (
        rows["open"]["outcome"]
        == "unscored: no room for 256 tokens of an answer in the 128 that the model reads"
    )
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
    with pytest.raises(
        ScoringError, match=r"token id 137, and the model's vocabulary has 137 tokens"
    ):
        score(model(TOK), tok, Probe([item]))


def test_a_peft_model_is_scored_with_its_adapter() -> None:
    network = model(TOK)
    plain = score(network, TOK, probe())
    adapted = get_peft_model(
        network, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    )
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


def test_every_question_is_scored_and_a_model_that_knows_nothing_is_near_chance() -> None:
    probe = load_probe("quick")
    tok = tokenizer(words_of=[f"{item.prompt} {' '.join(item.choices)}" for item in probe])
    snapshot = score(model(tok, positions=512).eval(), tok, probe)
    assert set(snapshot.texts("outcome")) == {"ok"}
    right, chance = snapshot.floats("correct"), 1 / snapshot.floats("k")
    error = np.sqrt((chance * (1 - chance)).sum()) / len(probe)
    assert abs(right.mean() - chance.mean()) < 4 * error


def test_accuracy_of_random_choices_is_the_mean_of_one_over_k() -> None:
    for name in ("standard", "confirmation"):
        probe = load_probe(name)
        k, gold = (
            np.array([value(item) for item in probe])
            for value in (lambda one: one.k, lambda one: one.answer)
        )
        chosen = np.random.default_rng(0).integers(0, k, (400, len(probe)))
        accuracy = (chosen == gold).mean(axis=1)
        assert abs(accuracy.mean() - (1 / k).mean()) < 4 * accuracy.std() / np.sqrt(len(accuracy))
        # Who always takes the same place is right as often.
        places = [np.mean(gold == place) - np.mean((k > place) / k) for place in range(5)]
        assert np.abs(places).max() < 0.005


LOGPROBS = np.array([-4.0, -6.0, -6.5])
LENGTHS = {
    "bytes": np.array([2, 4, 6]),
    "chars": np.array([2, 4, 5]),
    "tokens": np.array([1, 2, 2]),
}


@pytest.mark.parametrize(
    ("norm", "chosen"), [("sum", 0), ("bytes", 2), ("chars", 2), ("tokens", 1)]
)
def test_the_norm_decides(norm: str, chosen: int) -> None:
    assert decide(LOGPROBS, lengths=LENGTHS, norm=norm, answers=[0]).chosen == chosen  # type: ignore[arg-type]


def test_share_and_margin_are_of_the_score_that_decides_in_nats() -> None:
    by_sum = decide(LOGPROBS, lengths=LENGTHS, norm="sum", answers=[0])
    weights = np.exp(LOGPROBS)
    assert by_sum.gold_share == pytest.approx(weights[0] / weights.sum())
    assert by_sum.margin == pytest.approx(2.0)
    by_bytes = decide(LOGPROBS, lengths=LENGTHS, norm="bytes", answers=[2])
    scores = LOGPROBS / np.array([2, 4, 6]) * 4.0  # times the mean length: nats again
    assert by_bytes.gold_share == pytest.approx(np.exp(scores[2]) / np.exp(scores).sum())
    assert by_bytes.margin == pytest.approx(scores[2] - scores[1])


def test_several_right_answers_share_the_gold() -> None:
    decision = decide(np.log([0.5, 0.3, 0.2]), lengths={}, norm="sum", answers=[1, 2])
    assert not decision.correct
    assert decision.gold_share == pytest.approx(0.5)
    assert decide(np.log([0.2, 0.5, 0.3]), lengths={}, norm="sum", answers=[1, 2]).correct


def test_of_equals_the_first_is_chosen_and_one_option_has_no_margin() -> None:
    assert decide(np.array([-1.0, -1.0]), lengths={}, norm="sum", answers=[0]).chosen == 0
    assert math.isnan(decide(np.array([-1.0]), lengths={}, norm="sum", answers=[0]).margin)


def test_lengths_leave_the_leading_space_out() -> None:
    encoded = Encoded(context=(1,), texts=(" né", "ab"), choices=((5, 6), (7,)), spellings=((), ()))
    assert {unit: values.tolist() for unit, values in lengths(encoded.texts, [*map(len, encoded.choices)]).items()} == {
        "chars": [2, 2], "bytes": [3, 2], "tokens": [2, 1],
    }  # fmt: skip


def test_option_mass_counts_every_continuation_once() -> None:
    # " New" (.3) holds " New York" (.1); " Oslo" (.2) stands twice
    encoded = Encoded(
        context=(1,), texts=("",) * 4, choices=((5,), (5, 6), (7,), (7,)), spellings=((),) * 4
    )
    assert option_mass(np.log([0.3, 0.1, 0.2, 0.2]), encoded, 0.05) == pytest.approx(0.55)


def test_free_correct_is_true_if_the_top_token_begins_a_right_answer() -> None:
    encoded = Encoded(context=(1,), texts=("", ""), choices=((5, 6), (7,)), spellings=((), (8,)))
    right, wrong = [(0, 5), (1, 7), (1, 8), ((0, 1), 8)], [(0, 6), (0, 8)]
    for answer, top in (*right, *wrong):
        item = Item(id="1", task="t", prompt="p", choices=("a", "b"), answer=answer)
        assert is_free_correct(item, encoded, top) is ((answer, top) in right)


SHORT, _, _, CHAT = WORDINGS


def asked(**settings: Any) -> Probe:
    return worded(
        Probe(facts(12), **settings), "each", [Wording(name="said", beginning="You say :"), CHAT]
    )


def test_a_snapshot_names_the_wording_and_scores_what_it_asks() -> None:
    tok = tokenizer()
    network, items = model(tok), asked()
    found = score(network, tok, items)
    assert found.texts("wording").tolist()[:3] == ["shipped", "said", "chat"]
    assert len(set(found.texts("content_hash").tolist())) == 12
    assert len(set(found.texts("prompt_hash").tolist())) == len(items)
    said = [item for item in items if item.wording and item.wording.name == "said"]
    written = [
        replace(
            item, wording=None, prompt=str(item.full_prompt), id=f"written {item.id}", cluster=None
        )
        for item in said
    ]
    plain = score(network, tok, Probe(written))
    of_said = [row for row, name in enumerate(found.texts("wording")) if name == "said"]
    logprobs = found.table["choice_logprobs"].to_pylist()
    for row, expected in zip(of_said, plain.table["choice_logprobs"].to_pylist(), strict=True):
        assert logprobs[row] == pytest.approx(expected, abs=1e-4)


def test_chat_without_a_template_is_refused() -> None:
    tok = tokenizer(template=False)
    with pytest.raises(ScoringError, match="the tokenizer has no chat template"):
        score(model(tok), tok, asked())


class Gluing:
    """A tokenizer that reads a hyphen and what follows it as one word."""

    chat_template = None
    bos_token_id = eos_token_id = 0

    def __call__(self, texts: Any, **_: Any) -> Any:
        many = [texts] if isinstance(texts, str) else texts
        ids = [
            [1 + sum(map(ord, word)) % 5000 for word in text.replace("- ", "-").split()]
            for text in many
        ]
        return {"input_ids": ids[0] if isinstance(texts, str) else ids}


def test_a_frame_that_changes_the_tokens_of_the_options_is_refused() -> None:
    glued = replace(SHORT, name="glued", frame="Q: {question} -")
    item = Item(
        id="a", task="t", prompt="Question: Which?\nAnswer:", choices=[" this", " that"], answer=0
    )
    items = Probe(
        [item, replace(item, id="b", wording=SHORT), replace(item, id="c", wording=glued)]
    )
    tok: Any = Gluing()
    encoded = encode(items, tok, max_length=100)
    with pytest.raises(
        ScoringError, match="the wording 'glued' changes the tokens of the options of item 'c'"
    ):
        check_wordings(items, encoded, tok, max_length=100)
    fits = items.with_items(items.items[:2])
    check_wordings(fits, encode(fits, tok, max_length=100), tok, max_length=100)


def test_wordings_are_scored_alike_whatever_their_order() -> None:
    tok = tokenizer()
    network, items = (
        model(tok),
        worded(Probe(facts(), name="facts"), "one", [Wording(name="said", beginning="So :")]),
    )
    one = score(network, tok, items)
    other = score(network, tok, items.with_items(items.items[::-1]))
    assert one.floats("correct").tolist() == other.floats("correct").tolist()[::-1]


def plain_forward(network: Any, ids: list[int]) -> float:
    """Log-likelihood of all ids but the first, by one forward of the model."""
    with torch.no_grad():
        logprobs = network.eval()(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return float(sum(logprobs[at - 1, token] for at, token in enumerate(ids) if at))


@pytest.mark.parametrize("bos", [False, True])
def test_a_text_is_scored_from_its_first_token_on_after_bos(bos: bool) -> None:
    tok = tokenizer(bos=bos)
    network, texts = model(tok), passages()
    rows = score(network, tok, Probe(texts)).table.to_pylist()
    for item, row in zip(texts, rows, strict=True):
        ids = tok(item.choices[0], add_special_tokens=False)["input_ids"]
        expected = plain_forward(network, [tok.bos_token_id, *ids])
        assert row["choice_logprobs"] == pytest.approx([expected], abs=1e-4)
        assert row["choice_bytes"] == row["choice_chars"] == [len(item.choices[0])]
        assert row["choice_tokens"] == [len(ids)]


def test_eos_stands_for_a_missing_bos() -> None:
    tok = tokenizer()
    tok.bos_token = None
    assert encode(Probe(passages(1)), tok, max_length=128)[0].context == (tok.eos_token_id,)


def test_without_a_start_token_the_first_token_is_not_scored_and_its_bytes_do_not_count() -> None:
    tok = tokenizer()
    tok.bos_token = tok.eos_token = None
    network, texts = model(tok), passages()
    rows = score(network, tok, Probe(texts)).table.to_pylist()
    for item, row in zip(texts, rows, strict=True):
        ids = tok(item.choices[0], add_special_tokens=False)["input_ids"]
        assert row["choice_logprobs"] == pytest.approx([plain_forward(network, ids)], abs=1e-4)
        assert row["choice_bytes"] == [len(item.choices[0]) - len(item.choices[0].split()[0])]
        assert row["choice_tokens"] == [len(ids) - 1]


def test_bytes_are_those_of_utf_8_with_a_leading_space() -> None:
    tok = tokenizer()
    text = " w1 größe 数学"
    row = score(
        model(tok), tok, Probe([Item(id="1", task="t", prompt="", choices=(text,))])
    ).table.to_pylist()[0]
    assert (row["choice_chars"], row["choice_bytes"]) == ([len(text)], [len(text.encode())])


def test_a_passage_has_no_outcome_and_is_not_unscored() -> None:
    tok = tokenizer()
    found = score(model(tok), tok, Probe([*probe(6), *passages(3)]))
    assert found.is_passage.tolist() == [False] * 6 + [True] * 3
    assert not found.is_unscored.any()
    row = found.table.to_pylist()[-1]
    nothing = (
        "k",
        "gold",
        "golds",
        "chosen",
        "correct",
        "gold_share",
        "option_mass",
        "free_correct",
        "margin",
    )
    assert all(row[name] is None for name in (*nothing, "unstable", "output"))
    assert row["outcome"] == "ok"
    assert math.isfinite(snapshot_bits(found))


def test_a_text_beyond_the_context_is_unscored_with_the_reason() -> None:
    tok = tokenizer()
    long = Item(id="long", task="t", prompt="", choices=(" ".join(WORDS[:60]),))
    found = score(model(tok, positions=48), tok, Probe([long, *passages(2)]))
    assert found.texts("outcome")[0] == "unscored: longer than the 48 tokens that the model reads"
    assert found.is_unscored.tolist() == [True, False, False]


@pytest.mark.parametrize("norm", ["bytes", "unconditional"])
def test_no_norm_changes_a_passage(norm: Any) -> None:
    tok = tokenizer()
    network = model(tok)
    one, other = (
        score(network, tok, Probe([*probe(4), *passages(3)], norm=n)) for n in ("sum", norm)
    )
    values = [
        [row[0] for row in side.table["choice_logprobs"].to_pylist()[4:]] for side in (one, other)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-4)
    assert other.is_passage.sum() == 3


def test_questions_are_scored_as_they_are_without_passages() -> None:
    tok = tokenizer()
    network = model(tok)
    alone, beside = (
        score(network, tok, probe(12)),
        score(network, tok, Probe([*passages(4), *probe(12)], name="both")),
    )
    for one, other in zip(alone.table.to_pylist(), beside.table.to_pylist()[4:], strict=True):
        assert other["choice_logprobs"] == pytest.approx(one["choice_logprobs"], abs=1e-5)
        assert (other["chosen"], other["content_hash"]) == (one["chosen"], one["content_hash"])


def test_several_processes_get_the_rows_of_one(tmp_path: Path) -> None:
    script = """
from support import model, probe, tokenizer
from passage_texts import passages
from forgetwatch import Probe
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()
scorer = Scorer(Probe([*probe(9), *passages()]), tok, model(tok), token_budget=60)
found["checksum"] = scorer.score(model(tok)).checksum
"""
    tok = tokenizer()
    alone = (
        Scorer(Probe([*probe(9), *passages()]), tok, model(tok), token_budget=60)
        .score(model(tok))
        .checksum
    )
    assert [found["checksum"] for found in in_processes(script, tmp_path)] == [alone, alone]


def taught(
    network: Any, prompts: Sequence[str], *answers: Sequence[str], steps: int, rate: float
) -> Any:
    """Copy of a model after learning one or several answers to each prompt."""
    network = copy.deepcopy(network)
    batches = []
    for texts in answers:
        ids = torch.tensor(
            [
                TOK(f"{prompt}{text}")["input_ids"]
                for prompt, text in zip(prompts, texts, strict=True)
            ]
        )
        asked = ids.shape[1] - len(TOK(texts[0])["input_ids"])
        batches.append((ids, torch.where(torch.arange(ids.shape[1]) < asked, -100, ids)))
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate)
    network.train()
    for _ in range(steps):
        for ids, labels in batches:
            network(input_ids=ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return network.eval()


def test_another_format_takes_the_mass_and_overwritten_facts_the_share_within_the_options() -> None:
    """The model at the start knows two formats; it is trained on the other one, or on another answer in the first."""
    questions = Probe(facts(60, ending=" Answer :"), name="facts")
    prompts = [str(item.prompt) for item in questions]
    right = [item.choices[int(item.answers[0])] for item in questions]
    other = [item.choices[(int(item.answers[0]) + 1) % 4] for item in questions]
    announced = [f" assistant{answer}" for answer in right]
    knows = taught(model(TOK, dropout=0.0), prompts, right, announced, steps=150, rate=3e-3)
    before = score(knows, TOK, questions)
    assert before.floats("correct").mean() > 0.95
    another_format = taught(knows, prompts, announced, steps=20, rate=1e-3)
    overwritten = taught(knows, prompts, other, steps=40, rate=1e-3)
    gone, swapped = (
        compare(before=before, after=score(one, TOK, questions)).all
        for one in (another_format, overwritten)
    )
    for group in (gone, swapped):
        assert group["log_mass_change"] is not None
        assert group["log_conditional_change"] is not None
    assert gone["log_mass_change"] < -2
    assert gone["log_mass_change"] < 5 * min(gone["log_conditional_change"], 0.0)
    assert swapped["log_conditional_change"] < -2
    assert swapped["log_conditional_change"] < 5 * min(swapped["log_mass_change"], 0.0)
    assert gone.forgotten < 20 < 50 < swapped.forgotten


@pytest.mark.parametrize("norm", ["sum", "bytes"])
def test_mass_and_conditional_are_those_of_plain_forwards(norm: str) -> None:
    """Also under a length norm, which they do not follow; the second model differs from the first in its weights."""
    questions = probe(24, norm=norm)
    networks = [model(TOK, seed=seed, dropout=0.0).eval() for seed in (0, 1)]
    found = split(*(option_scores(score(network, TOK, questions)) for network in networks))
    assert found is not None
    encoded = encode(questions, TOK, max_length=128)
    for network, mass, conditional in (
        (networks[0], found.mass_before, found.conditional_before),
        (networks[1], found.mass_after, found.conditional_after),
    ):
        for row, (item, one) in enumerate(zip(questions, encoded, strict=True)):
            plain = np.array(
                [log_likelihood(network, one.context, choice) for choice in one.choices]
            )
            assert mass[row] == pytest.approx(logsumexp(plain), abs=1e-4)
            assert conditional[row] == pytest.approx(
                plain[int(item.answers[0])] - logsumexp(plain), abs=1e-4
            )

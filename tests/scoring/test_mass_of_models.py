"""Mass and conditional of models: as plain forwards give them, and each falling alone in a training made for it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from support import facts, log_likelihood, model, probe, tokenizer

from forgetwatch import Probe, compare, score
from forgetwatch.measures.rows import option_scores
from forgetwatch.metrics import split
from forgetwatch.scoring import encode

TOK = tokenizer()


def taught(network: Any, prompts: Sequence[str], *answers: Sequence[str], steps: int, rate: float) -> Any:
    """Copy of a model after learning one or several answers to each prompt."""
    network = copy.deepcopy(network)
    batches = []
    for texts in answers:
        ids = torch.tensor([TOK(f"{prompt}{text}")["input_ids"] for prompt, text in zip(prompts, texts, strict=True)])
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
        compare(before=before, after=score(one, TOK, questions)).all for one in (another_format, overwritten)
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
            plain = np.array([log_likelihood(network, one.context, choice) for choice in one.choices])
            assert mass[row] == pytest.approx(logsumexp(plain), abs=1e-4)
            assert conditional[row] == pytest.approx(plain[int(item.answers[0])] - logsumexp(plain), abs=1e-4)

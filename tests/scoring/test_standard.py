"""The shipped probe `standard`, on a real architecture and on a model that knows nothing."""

from __future__ import annotations

import numpy as np
from support import model, tokenizer

from forgetwatch import load_probe, score


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
        k, gold = (np.array([value(item) for item in probe]) for value in (lambda one: one.k, lambda one: one.answer))
        chosen = np.random.default_rng(0).integers(0, k, (400, len(probe)))
        accuracy = (chosen == gold).mean(axis=1)
        assert abs(accuracy.mean() - (1 / k).mean()) < 4 * accuracy.std() / np.sqrt(len(accuracy))
        # Who always takes the same place is right as often.
        places = [np.mean(gold == place) - np.mean((k > place) / k) for place in range(5)]
        assert np.abs(places).max() < 0.005

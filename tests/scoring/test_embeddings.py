"""How near texts are by a model's own hidden states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import model, tokenizer

from forgetwatch.errors import ScoringError
from forgetwatch.scoring import nearness_by_model

TOK = tokenizer()
ROWS = ["w1 w2 w3 w4", "w50 w51", "w90 w91 w92 w93 w94"]
TEXTS = ["w50 w51", "w3 w4 w60", "", "w70 w71 w72 w73 w74 w75"]


def test_cosines_are_those_of_single_texts_less_the_mean_of_all() -> None:
    network = model(TOK).train()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    found = nearness_by_model(network, TOK, TEXTS, ROWS)
    assert network.training
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    network.eval()
    states = []
    for text in (*ROWS, *TEXTS):
        ids = TOK(text, return_tensors="pt")["input_ids"]
        if ids.shape[1]:
            with torch.no_grad():
                layers = network(input_ids=ids, output_hidden_states=True).hidden_states
            states.append(layers[len(layers) // 2][0].mean(0).double().numpy())
        else:
            states.append(np.zeros(network.config.hidden_size))
    centred = np.array(states) - np.mean(states, axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    assert found == pytest.approx((centred[3:] @ centred[:3].T).max(axis=1), abs=1e-5)
    assert found[0] == pytest.approx(1.0)  # the text is a row
    assert found.argmax() == 0


def test_rows_without_a_token_are_refused() -> None:
    with pytest.raises(ScoringError, match="needed training rows with tokens, found none"):
        nearness_by_model(model(TOK), TOK, TEXTS, ["", ""])

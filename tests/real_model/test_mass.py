"""Mass and conditional of a real model, against a plain forward for each option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from support import log_likelihood

from forgetwatch import load_probe, score
from forgetwatch.measures.rows import option_scores
from forgetwatch.metrics import split


@pytest.mark.full
def test_mass_and_conditional_of_standard_are_those_of_plain_forwards(tok: Any, load: Callable[..., Any]) -> None:
    network, probe = load(), load_probe("standard").head(16)
    options = option_scores(score(network, tok, probe))
    assert options is not None
    found = split(options, options)
    assert found is not None
    assert found.measured.all()
    for row, item in enumerate(probe):
        prompt = f"{item.shots}{item.prompt}"
        context = tok(prompt)["input_ids"]
        rest = [tok(prompt + choice)["input_ids"][len(context) :] for choice in item.choices]
        logs = [log_likelihood(network, tuple(context), tuple(ids)) for ids in rest]
        golds = [logs[int(answer)] for answer in item.answers]
        assert found.mass_before[row] == pytest.approx(logsumexp(logs), abs=1e-4), item.id
        assert found.conditional_before[row] == pytest.approx(logsumexp(golds) - logsumexp(logs), abs=1e-4), item.id
    assert np.median(np.exp(found.mass_before)) < 0.5

"""Distance of two models' weights."""

from __future__ import annotations

import math

import pytest

from forgetwatch.comparing import WeightDistance


def test_the_distance_of_a_layer_is_that_of_its_tensors_together() -> None:
    squares = {
        "model.embed_tokens.weight": (4.0, 1.0),
        "model.layers.10.mlp.weight": (9.0, 9.0),
        "model.layers.2.mlp.weight": (3.0, 0.0),
        "model.layers.2.norm.weight": (1.0, 1.0),
        "model.norm.weight": (0.0, 1.0),
    }
    found = WeightDistance.of(squares, turned=1)
    assert found.overall == pytest.approx(math.sqrt(12 / 17))
    assert list(found.layers) == ["model.embed_tokens", "model.layers.2", "model.layers.10", "model.norm"]
    assert list(found.layers.values())[:3] == [0.5, 0.5, 1.0]
    assert math.isnan(found.layers["model.norm"])

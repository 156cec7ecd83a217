"""Quantities of a group: their names, units and values."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
from support import decided, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing import group_values
from forgetwatch.measures import QUANTITIES, json_value, range_of, unit_of, value_at

RATES = ("forgetting", "backward_transfer")
PASSAGES = ("passages", "bits_per_byte")
"""Beginnings of the names of quantities that only passages have."""


def side(seed: int, samples: int = 1) -> Snapshot:
    """120 items with four options and their scores."""
    scores = np.random.default_rng(0).normal(-20, 2, (120, 4)) + np.random.default_rng(seed).normal(0, 1, (120, 4))
    ids = [str(i // samples) for i in range(120)]
    return decided(scores, item_id=ids, content_hash=ids, sample=[i % samples for i in range(120)])


def test_the_chance_of_a_group_has_the_documented_keys_and_the_values_of_its_parts() -> None:
    whole = compare(before=side(1), after=side(2)).all
    chance = group_values(whole)["chance"]
    adjusted = (*RATES, *(f"{name}_unclipped" for name in RATES), *(f"{name}_max" for name in RATES))
    errors = tuple(f"{name}_se" for name in RATES)
    assert {"expected", *adjusted} <= chance["paper"].keys()
    assert {"n", *RATES, *errors} <= chance["guess_corrected"].keys()
    assert chance["n"] == 120
    for part in ("paper", "guess_corrected"):
        for name in RATES:
            assert chance[part][name] == getattr(getattr(whole.chance, part), name)


def test_what_a_group_lacks_is_null() -> None:
    values = group_values(compare(before=snapshot([True, False]), after=snapshot([False, True])).all)
    assert values["log_score_change"] is values["chance"]["paper"] is None


def test_every_quantity_is_at_its_path_within_its_range() -> None:
    values = group_values(compare(before=side(1, samples=2), after=side(2, samples=2)).all)
    for name in QUANTITIES:
        value, (low, high) = value_at(values, name), range_of(name)
        assert value is None or low <= value <= high, name
    # No second measurement, form, no norm that divides by a length, and fewer than 20 known items less luck.
    missing = {name for name in QUANTITIES if value_at(values, name) is None and not name.startswith(PASSAGES)}
    unmeasured = {"null_n", "null_lost", "null_gained", "format_lost", "knowledge_lost", "forgotten_at_constant_mass"}
    ends = ("", "_interval_low", "_interval_high")
    of_share = {f"{name}{end}" for name in ("known_lost_net_share", "right_lost_share") for end in ends}
    assert missing == {*unmeasured, *of_share}


@pytest.mark.parametrize(
    ("name", "unit", "ends"),
    [
        ("forgotten", "count", (0.0, math.inf)),
        ("known_lost_net", "count", (-math.inf, math.inf)),
        ("known_lost_net_share", "share", (-math.inf, math.inf)),
        ("forgetting", "share", (0.0, 1.0)),
        ("net_change", "share", (-1.0, 1.0)),
        ("log_score_before", "nats", (-math.inf, 0.0)),
        ("log_score_change", "nats", (-math.inf, math.inf)),
        ("log_mass_change", "nats", (-math.inf, math.inf)),
        ("forgotten_log_conditional_change", "nats", (-math.inf, math.inf)),
        ("log_score_p_value", "share", (0.0, 1.0)),
        ("temperature_after", "ratio", (0.0, math.inf)),
        ("chance.n", "count", (0.0, math.inf)),
        ("chance.paper.forgetting", "share", (0.0, 1.0)),
        ("chance.paper.forgetting_unclipped", "share", (-1.0, 1.0)),
        ("chance.guess_corrected.backward_transfer", "share", (-1.0, 1.0)),
    ],
)
def test_each_quantity_has_its_unit_and_its_range(name: str, unit: str, ends: tuple[float, float]) -> None:
    assert name in QUANTITIES
    assert (unit_of(name), range_of(name)) == (unit, ends)


def test_numbers_that_json_lacks_are_null_at_any_depth() -> None:
    given = {"a": (1, math.nan), 2: {"b": math.inf, "c": [True, "x", -0.5]}}
    assert json_value(given) == {"a": [1, None], "2": {"b": None, "c": [True, "x", -0.5]}}
    assert list(chain(json_value(given))) == ["a", "2"]

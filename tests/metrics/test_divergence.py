"""KL to the base and the overlap of completions, against exact enumerations of small distributions and simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics.divergence import Drift, drift

BASE, NOW = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
ONE_KL = float(BASE @ np.log(BASE / NOW))
ONE_OVERLAP = float(np.sqrt(BASE * NOW).sum())

logprobs = st.floats(-30, 0)
completions = st.lists(st.lists(st.tuples(logprobs, logprobs), max_size=6), max_size=8)


def sides(rows: Sequence[Sequence[tuple[float, float]]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Both models' log-probabilities, by completion."""
    arrays = [np.array(row, np.float64).reshape(-1, 2) for row in rows]
    return [row[:, 0] for row in arrays], [row[:, 1] for row in arrays]


def sampled(rng: np.random.Generator, count: int, base: np.ndarray = BASE, now: np.ndarray = NOW) -> Drift:
    """Completions of the base that end with token 0 or after four tokens; each token is drawn like the others."""
    first, second = [], []
    for tokens in rng.choice(len(base), p=base, size=(count, 4)):
        ends = np.flatnonzero(tokens == 0)
        kept = tokens[: ends[0] + 1] if ends.size else tokens
        first.append(np.log(base[kept]))
        second.append(np.log(now[kept]))
    return drift(first, second)


def test_every_outcome_as_often_as_the_base_gives_it_is_the_exact_kl_and_overlap() -> None:
    tokens = np.repeat([0, 1, 2], [5, 3, 2])
    found = drift(list(np.log(BASE[tokens])[:, None]), list(np.log(NOW[tokens])[:, None]))
    assert found.kl_per_token == pytest.approx(ONE_KL)
    assert found.overlap == pytest.approx(ONE_OVERLAP)
    assert (found.completions, found.tokens) == (10, 10)


def test_a_long_sample_tends_to_the_exact_values() -> None:
    found = sampled(np.random.default_rng(0), 20_000)
    assert found.kl_per_token == pytest.approx(ONE_KL, abs=4 * found.kl_per_token_se)
    # Overlap of stopping at token 0 or after four tokens: each step goes on with the overlap of the tokens that go on.
    ends, goes_on = np.sqrt(BASE * NOW)[0], np.sqrt(BASE * NOW)[1:].sum()
    exact = ends * (1 + goes_on + goes_on**2 + goes_on**3) + goes_on**4
    assert found.overlap == pytest.approx(exact, abs=4 * found.overlap_se)


def test_standard_errors_are_the_spread_over_repeated_samples() -> None:
    rng = np.random.default_rng(1)
    found = [sampled(rng, 60) for _ in range(800)]
    for name in ("kl_per_token", "overlap"):
        spread = np.std([getattr(one, name) for one in found])
        stated = np.sqrt(np.mean([getattr(one, f"{name}_se") ** 2 for one in found]))
        assert stated == pytest.approx(spread, rel=0.1)  # the spread itself is known to 2.5 %


def test_tokens_of_one_completion_count_as_one_observation() -> None:
    rise = np.array([0.3, 0.1, 0.5, 0.2])
    zero = [np.zeros(10)] * 4
    long = drift(zero, [np.full(10, -one) for one in rise])
    short = drift([np.zeros(1)] * 4, [np.array([-one]) for one in rise])
    assert long.kl_per_token_se == pytest.approx(short.kl_per_token_se)


def test_the_variance_of_what_is_averaged_is_at_its_bound_and_below_it_where_mass_went_elsewhere() -> None:
    tokens = np.repeat([0, 1, 2], [50, 30, 20])
    for left in (1.0, 0.7):  # the rest is on tokens that the base never writes
        found = drift(list(np.log(BASE[tokens])[:, None]), list(np.log(left * NOW[tokens])[:, None]))
        assert found.overlap == pytest.approx(math.sqrt(left) * ONE_OVERLAP)
        assert found.overlap_se == pytest.approx(math.sqrt(left * (1 - ONE_OVERLAP**2) / 99))
        assert found.overlap_se <= math.sqrt((1 - found.overlap**2) / 99) * (1 + 1e-9)


def test_mass_that_moved_to_tokens_the_base_never_writes_is_seen() -> None:
    """No sampled token shows it directly: all that the base writes has become a little less likely."""
    found = drift([np.log([0.5, 0.5])] * 3, [np.log([0.45, 0.45])] * 3)
    assert found.kl_per_token == pytest.approx(-math.log(0.9))


@given(completions)
def test_a_model_is_at_no_distance_from_itself(rows: list[list[tuple[float, float]]]) -> None:
    base, _ = sides(rows)
    found = drift(base, base)
    if found.completions:
        assert (found.kl_per_token, found.overlap) == (0.0, 1.0)
    else:
        assert math.isnan(found.kl_per_token)
        assert math.isnan(found.overlap)
    assert math.isnan(found.kl_per_token_se)  # nothing differs, so nothing says how much it would vary


@given(completions, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_empty_completions_take_part_in_nothing(
    rows: list[list[tuple[float, float]]], random: object
) -> None:
    one = drift(*sides(rows))
    shuffled = [*rows, []]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = drift(*sides(shuffled))
    assert (one.completions, one.tokens) == (other.completions, other.tokens)
    for name in ("kl_per_token", "overlap"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9, nan_ok=True)


@given(completions)
def test_the_overlap_is_at_least_what_jensen_leaves(rows: list[list[tuple[float, float]]]) -> None:
    """mean exp(x/2) >= exp(mean x / 2): BC >= exp(-KL/2) for whole completions, in the sample as in truth."""
    found = drift(*sides(rows))
    if found.completions:
        per_completion = found.kl_per_token * found.tokens / found.completions
        assert found.overlap >= math.exp(-per_completion / 2) * (1 - 1e-9)
        assert found.overlap >= 0


def test_nothing_to_count_is_nan() -> None:
    for empty in ([], [np.empty(0)], [np.empty(0)] * 3):
        found = drift(empty, empty)
        assert (found.completions, found.tokens) == (0, 0)
        assert math.isnan(found.kl_per_token)
        assert math.isnan(found.overlap_se)


def test_one_completion_has_no_error() -> None:
    found = drift([np.log([0.5, 0.5])], [np.log([0.25, 0.5])])
    assert found.kl_per_token == pytest.approx(math.log(2) / 2)
    assert math.isnan(found.kl_per_token_se)


def test_a_token_that_is_ruled_out_now_is_infinitely_far_and_overlaps_in_nothing() -> None:
    found = drift([np.log([0.5]), np.log([0.5])], [np.array([-np.inf]), np.log([0.5])])
    assert found.kl_per_token == math.inf
    assert math.isnan(found.kl_per_token_se)
    assert found.overlap == 0.5


@pytest.mark.parametrize(
    ("base", "now", "message"),
    [
        ([np.zeros(1)], [], "the same completions, got 1 and 0"),
        ([np.zeros(1)], [np.zeros(2)], r"completion 0: .* shape \(1,\) and \(2,\)"),
        ([np.zeros((1, 1))], [np.zeros((1, 1))], "completion 0"),
        ([np.zeros(1), np.array([-np.inf])], [np.zeros(1)] * 2, "completion 1: the base cannot have sampled"),
        ([np.zeros(1)], [np.array([np.nan])], "completion 0: .* nan"),
    ],
)
def test_values_that_cannot_be_log_probabilities_are_refused(
    base: list[np.ndarray], now: list[np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        drift(base, now)

"""KL to the base and the overlap of completions, against exact enumerations of small distributions and simulation."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics.divergence import Drift, bucketed_kl, drift, first_tokens

BASE, NOW = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
ONE_KL = float(BASE @ np.log(BASE / NOW))
ONE_OVERLAP = float(np.sqrt(BASE * NOW).sum())

logprobs = st.floats(-30, 0)
completions = st.lists(st.lists(st.tuples(logprobs, logprobs), max_size=6), max_size=8)


def sides(
    rows: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Both models' log-probabilities, by completion."""
    arrays = [np.array(row, np.float64).reshape(-1, 2) for row in rows]
    return [row[:, 0] for row in arrays], [row[:, 1] for row in arrays]


def sampled(
    rng: np.random.Generator, count: int, base: np.ndarray = BASE, now: np.ndarray = NOW
) -> Drift:
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
    assert found.kl_sampled == pytest.approx(ONE_KL)
    assert found.overlap == pytest.approx(ONE_OVERLAP)
    assert (found.completions, found.tokens) == (10, 10)


def test_a_long_sample_tends_to_the_exact_values() -> None:
    found = sampled(np.random.default_rng(0), 20_000)
    assert found.kl_sampled == pytest.approx(ONE_KL, abs=4 * found.kl_sampled_se)
    # Overlap of stopping at token 0 or after four tokens: each step goes on with the overlap of the tokens that go on.
    ends, goes_on = np.sqrt(BASE * NOW)[0], np.sqrt(BASE * NOW)[1:].sum()
    exact = ends * (1 + goes_on + goes_on**2 + goes_on**3) + goes_on**4
    assert found.overlap == pytest.approx(exact, abs=4 * found.overlap_se)


def test_standard_errors_are_the_spread_over_repeated_samples() -> None:
    rng = np.random.default_rng(1)
    found = [sampled(rng, 60) for _ in range(800)]
    for name in ("kl_sampled", "overlap"):
        spread = np.std([getattr(one, name) for one in found])
        stated = np.sqrt(np.mean([getattr(one, f"{name}_se") ** 2 for one in found]))
        assert stated == pytest.approx(spread, rel=0.1)  # the spread itself is known to 2.5 %


def test_tokens_of_one_completion_count_as_one_observation() -> None:
    rise = np.array([0.3, 0.1, 0.5, 0.2])
    zero = [np.zeros(10)] * 4
    long = drift(zero, [np.full(10, -one) for one in rise])
    short = drift([np.zeros(1)] * 4, [np.array([-one]) for one in rise])
    assert long.kl_sampled_se == pytest.approx(short.kl_sampled_se)


def test_the_variance_of_what_is_averaged_is_at_its_bound_and_below_it_where_mass_went_elsewhere() -> (
    None
):
    tokens = np.repeat([0, 1, 2], [50, 30, 20])
    for left in (1.0, 0.7):  # the rest is on tokens that the base never writes
        found = drift(
            list(np.log(BASE[tokens])[:, None]), list(np.log(left * NOW[tokens])[:, None])
        )
        assert found.overlap == pytest.approx(math.sqrt(left) * ONE_OVERLAP)
        assert found.overlap_se == pytest.approx(math.sqrt(left * (1 - ONE_OVERLAP**2) / 99))
        assert found.overlap_se <= math.sqrt((1 - found.overlap**2) / 99) * (1 + 1e-9)


def test_mass_that_moved_to_tokens_the_base_never_writes_is_seen() -> None:
    """No sampled token shows it directly: all that the base writes has become a little less likely."""
    found = drift([np.log([0.5, 0.5])] * 3, [np.log([0.45, 0.45])] * 3)
    assert found.kl_sampled == pytest.approx(-math.log(0.9))


@given(completions)
def test_a_model_is_at_no_distance_from_itself(rows: list[list[tuple[float, float]]]) -> None:
    base, _ = sides(rows)
    found = drift(base, base)
    if found.completions:
        assert (found.kl_sampled, found.overlap) == (0.0, 1.0)
    else:
        assert math.isnan(found.kl_sampled)
        assert math.isnan(found.overlap)
    assert math.isnan(
        found.kl_sampled_se
    )  # nothing differs, so nothing says how much it would vary


@given(completions, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_empty_completions_take_part_in_nothing(
    rows: list[list[tuple[float, float]]], random: object
) -> None:
    one = drift(*sides(rows))
    shuffled = [*rows, []]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = drift(*sides(shuffled))
    assert (one.completions, one.tokens) == (other.completions, other.tokens)
    for name in ("kl_sampled", "overlap"):
        assert getattr(one, name) == pytest.approx(
            getattr(other, name), rel=1e-9, abs=1e-9, nan_ok=True
        )


@given(completions)
def test_the_overlap_is_at_least_what_jensen_leaves(rows: list[list[tuple[float, float]]]) -> None:
    """mean exp(x/2) >= exp(mean x / 2): BC >= exp(-KL/2) for whole completions, in the sample as in truth."""
    found = drift(*sides(rows))
    if found.completions:
        per_completion = found.kl_sampled * found.tokens / found.completions
        assert found.overlap >= math.exp(-per_completion / 2) * (1 - 1e-9)
        assert found.overlap >= 0


def test_nothing_to_count_is_nan() -> None:
    for empty in ([], [np.empty(0)], [np.empty(0)] * 3):
        found = drift(empty, empty)
        assert (found.completions, found.tokens) == (0, 0)
        assert math.isnan(found.kl_sampled)
        assert math.isnan(found.overlap_se)


def test_one_completion_has_no_error() -> None:
    found = drift([np.log([0.5, 0.5])], [np.log([0.25, 0.5])])
    assert found.kl_sampled == pytest.approx(math.log(2) / 2)
    assert math.isnan(found.kl_sampled_se)


def test_a_token_that_is_ruled_out_now_is_infinitely_far_and_overlaps_in_nothing() -> None:
    found = drift([np.log([0.5]), np.log([0.5])], [np.array([-np.inf]), np.log([0.5])])
    assert found.kl_sampled == math.inf
    assert math.isnan(found.kl_sampled_se)
    assert found.overlap == 0.5


@pytest.mark.parametrize(
    ("base", "now", "message"),
    [
        ([np.zeros(1)], [], "the same completions, got 1 and 0"),
        ([np.zeros(1)], [np.zeros(2)], r"completion 0: .* shape \(1,\) and \(2,\)"),
        ([np.zeros((1, 1))], [np.zeros((1, 1))], "completion 0"),
        (
            [np.zeros(1), np.array([-np.inf])],
            [np.zeros(1)] * 2,
            "completion 1: the base cannot have sampled",
        ),
        ([np.zeros(1)], [np.array([np.nan])], "completion 0: .* nan"),
    ],
)
def test_values_that_cannot_be_log_probabilities_are_refused(
    base: list[np.ndarray], now: list[np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        drift(base, now)


def distributions(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of a random base over a vocabulary, and of a model at a random distance from it."""
    one = rng.normal(scale=rng.choice([0.1, 1.0, 4.0, 12.0]), size=size)
    other = one + rng.normal(scale=rng.choice([0.01, 0.3, 3.0]), size=size)
    return one - np.logaddexp.reduce(one), other - np.logaddexp.reduce(other)


def likeliest(base: np.ndarray, now: np.ndarray, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    top = np.argsort(-base)[:count]
    return base[top], now[top]


def test_twenty_tokens_and_the_bucket_of_the_rest_are_a_lower_bound_and_without_the_bucket_they_are_none() -> (
    None
):
    rng = np.random.default_rng(5)
    wrong_without, tight = 0, []
    for number in range(1000):
        base, now = distributions(rng, [21, 100, 2000, 30_000][number % 4])
        full = float(np.exp(base) @ (base - now))
        top, top_now = likeliest(base, now)
        found = float(bucketed_kl(top[None], top_now[None])[0])
        assert 0 <= found <= full * (1 + 1e-9) + 1e-12
        # The KL of the coarse distributions, from the definition.
        rest, rest_now = (
            np.exp(np.sort(side[np.argsort(-base)[20:]])).sum() for side in (base, now)
        )
        without = float(np.exp(top) @ (top - top_now))
        if min(rest, rest_now) > 1e-6:
            assert found == pytest.approx(
                without + rest * math.log(rest / rest_now), rel=1e-6, abs=1e-10
            )
        wrong_without += not 0 <= without <= full
        tight.append(found / full)
    assert wrong_without > 300
    assert np.median(tight) > 0.5


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_a_vocabulary_of_no_more_tokens_gives_the_exact_kl(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(100):
        base, now = distributions(rng, size)
        found = bucketed_kl(*(side[None] for side in likeliest(base, now)))
        assert found[0] == pytest.approx(float(np.exp(base) @ (base - now)), rel=1e-9, abs=1e-12)


def test_a_rest_that_rounding_took_adds_nothing_and_is_never_infinite() -> None:
    one = np.float32(np.log([[0.75, 0.25]])).astype(np.float64)
    above = np.array([[np.log(0.75), np.log(0.25) + 1e-8]])  # adds up to more than 1
    for base in (one, above):
        for now in (one, above):
            assert 0 <= bucketed_kl(base, now)[0] < 1e-14
        assert 0.1 < bucketed_kl(base, np.log([[0.5, 0.1]]))[0] < np.inf
        assert 0.1 < bucketed_kl(np.log([[0.5, 0.1]]), base)[0] < np.inf
    assert bucketed_kl(np.array([[0.0, -200.0]]), np.array([[-1.0, -0.5]]))[0] == pytest.approx(
        1.0, abs=1e-5
    )


def test_a_likely_token_that_is_ruled_out_now_is_infinitely_far() -> None:
    ruled_out = np.array([[-np.inf, np.log(0.5)]])
    assert bucketed_kl(np.log([[0.5, 0.5]]), ruled_out)[0] == np.inf
    assert bucketed_kl(ruled_out, np.log([[0.25, 0.5]]))[0] == pytest.approx(
        0.5 * np.log(2), rel=1e-5
    )
    assert bucketed_kl(ruled_out, ruled_out)[0] == 0.0
    found = drift([np.zeros(1)] * 2, [np.zeros(1)] * 2, summed=[np.array([np.inf]), np.zeros(1)])
    assert (found.kl_summed, found.kl_sampled) == (np.inf, 0.0)
    assert math.isnan(found.kl_summed_se)


def test_the_summed_kl_is_a_mean_over_positions_with_an_error_by_completion() -> None:
    zero = [np.zeros(3), np.zeros(1), np.zeros(0)]
    values = [np.array([0.1, 0.2, 0.6]), np.array([0.3]), np.zeros(0)]
    found = drift(zero, zero, summed=values)
    as_sampled = drift(zero, [-one for one in values])
    assert found.kl_summed == pytest.approx(0.3)
    assert found.kl_summed_se == pytest.approx(as_sampled.kl_sampled_se)
    assert (as_sampled.kl_summed, as_sampled.kl_summed_se) == (None, None)


def test_the_summed_kl_is_less_noisy_than_the_sampled_one() -> None:
    """The same drift: 40 completions of 4 tokens, sampled 20 times from distributions that differ a little."""
    rng = np.random.default_rng(3)
    base = np.log(rng.dirichlet(np.ones(50)))
    now = base + rng.normal(scale=0.05, size=50)
    now -= np.logaddexp.reduce(now)
    kl = bucketed_kl(*(side[None] for side in likeliest(base, now)))
    for _ in range(20):
        tokens = rng.choice(50, p=np.exp(base), size=(40, 4))
        found = drift(list(base[tokens]), list(now[tokens]), summed=[np.repeat(kl, 4)] * 40)
        assert abs(found.kl_sampled - kl[0]) < 5 * found.kl_sampled_se
        assert found.kl_sampled_se > kl[0]
        assert found.kl_summed == pytest.approx(kl[0])


@pytest.mark.parametrize(
    ("base", "now", "message"),
    [
        (np.zeros(2), np.zeros(2), r"shape \(2,\) and \(2,\)"),
        (np.zeros((1, 2)), np.zeros((1, 3)), r"shape \(1, 2\) and \(1, 3\)"),
        (np.full((1, 2), 0.5), np.full((1, 2), -1.0), "at most 0, got 0.5"),
        (np.full((1, 2), -1.0), np.full((1, 2), np.nan), "at most 0, got nan"),
    ],
)
def test_values_that_are_no_log_probabilities_have_no_kl(
    base: np.ndarray, now: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bucketed_kl(base, now)


@pytest.mark.parametrize(
    "values", [[np.zeros(1)], [np.zeros(1), np.zeros(2)], [np.zeros(2), np.array([-1.0])]]
)
def test_a_kl_by_position_needs_one_for_each_token(values: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="needed a KL"):
        drift([np.zeros(2), np.zeros(1)], [np.zeros(2), np.zeros(1)], summed=values)


def tops(first: list[float], rest: list[list[float]] | None = None) -> np.ndarray:
    """Log-probabilities of three likely tokens at the first position, and at those after it."""
    with np.errstate(divide="ignore"):
        return np.log(np.array([first, *(rest or [])]))


def test_equal_models_begin_alike() -> None:
    rows = [tops([0.5, 0.25, 0.125], [[0.9, 0.05, 0.01]]), tops([0.4, 0.3, 0.2], [[0.6, 0.2, 0.1]])]
    found = drift(
        [np.zeros(2)] * 2,
        [np.zeros(2)] * 2,
        summed=[np.zeros(2)] * 2,
        tops=[(one, one) for one in rows],
    )
    assert found.first_token_kept == pytest.approx(1.0)
    assert found.kl_first_share is not None
    assert math.isnan(found.kl_first_share)  # no drift to share


def test_another_beginning_is_lost_mass_and_most_of_the_drift() -> None:
    rest = [[0.6, 0.2, 0.1]] * 9
    base, now = tops([0.5, 0.25, 0.125], rest), tops([0.1, 0.05, 0.025], rest)
    summed = bucketed_kl(base, now)
    found = drift([np.zeros(10)], [np.zeros(10)], summed=[summed], tops=[(base, now)])
    assert found.first_token_kept == pytest.approx(0.2)
    assert found.kl_first_share == pytest.approx(1.0)
    even = tops([0.5, 0.2, 0.1], [[0.5, 0.2, 0.1]] * 9)
    moved = tops([0.4, 0.25, 0.1], [[0.4, 0.25, 0.1]] * 9)
    spread = drift(
        [np.zeros(10)], [np.zeros(10)], summed=[bucketed_kl(even, moved)], tops=[(even, moved)]
    )
    assert spread.kl_first_share == pytest.approx(0.1)


def test_a_new_form_whose_first_token_the_base_knew_is_no_old_answer() -> None:
    _, kept = first_tokens([(np.log([[0.5, 0.25, 0.05]]), np.log([[0.05, 0.025, 0.9]]))])
    assert kept.tolist() == pytest.approx([(0.05 + 0.025 + 0.05) / 0.8])


def test_a_first_token_that_the_base_always_writes_is_passed_over() -> None:
    forced, free = [0.999, 0.0005, 0.0001], [0.5, 0.25, 0.125]
    positions, kept = first_tokens(
        [
            (tops(forced, [free]), tops(forced, [[0.25, 0.125, 0.0625]])),
            (tops(forced), tops([0.1, 0.1, 0.1])),
            (np.empty((0, 3)), np.empty((0, 3))),
        ]
    )
    assert positions.tolist() == [1, -1, -1]
    assert kept[0] == pytest.approx(0.5)
    assert np.isnan(kept[1:]).all()
    nothing = drift([np.zeros(1)], [np.zeros(1)], tops=[(tops(forced), tops(forced))])
    assert nothing.first_token_kept is not None
    assert math.isnan(nothing.first_token_kept)
    assert drift([np.zeros(1)], [np.zeros(1)]).first_token_kept is None

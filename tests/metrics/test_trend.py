"""Slopes over pairs of models with the family as the unit."""

import math

import numpy as np
import pytest

from forgetwatch.metrics.trend import family_mean, family_slopes

FAMILY = np.array([0, 0, 1, 1, 2, 2, 3, 3])


def test_families_of_one_pair_each_give_the_robust_error_hc2_and_its_degrees() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=12), rng.normal(size=12)
    found = family_slopes(y, {"x": x}, np.arange(12))["x"]
    design = np.stack([np.ones(12), x], axis=1)
    bread = np.linalg.inv(design.T @ design)
    beta = bread @ design.T @ y
    hat = design @ bread @ design.T
    residuals = (y - design @ beta) / np.sqrt(1 - np.diag(hat))
    variance = bread @ (design.T * residuals**2) @ design @ bread
    assert found.slope == pytest.approx(beta[1])
    assert found.error == pytest.approx(math.sqrt(variance[1, 1]))
    weights = (bread @ design.T)[1] / np.sqrt(1 - np.diag(hat))
    vectors = (np.eye(12) - hat) * weights
    gram = vectors.T @ vectors
    assert found.degrees == pytest.approx(np.trace(gram) ** 2 / (gram**2).sum())
    low, high = found.interval
    assert low < beta[1] < high
    assert (found.p_value < 0.05) == (not low <= 0 <= high)
    assert found.seen(2) > found.seen(1) > found.error


def test_of_equal_families_the_mean_has_the_t_interval_of_their_means() -> None:
    y = np.array([1.0, 3.0, 2.0, 2.0, 5.0, 7.0, 4.0, 4.0])
    found = family_mean(y, FAMILY)
    means = np.array([2.0, 2.0, 6.0, 4.0])
    assert found.slope == pytest.approx(3.5)
    assert found.error == pytest.approx(means.std(ddof=1) / 2)
    assert found.degrees == pytest.approx(3.0)


def test_the_slope_with_others_held_is_that_of_least_squares_in_any_units() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 8))
    y = 2 * one - other + 0.1 * rng.normal(size=8)
    found = family_slopes(y, {"one": 1e9 * one, "other": other}, FAMILY)
    beta = np.linalg.lstsq(np.stack([np.ones(8), one, other], axis=1), y, rcond=None)[0]
    assert [1e9 * found["one"].slope, found["other"].slope] == pytest.approx(beta[1:])
    plain = family_slopes(y, {"one": one, "other": other}, FAMILY)
    assert plain["one"].interval == pytest.approx([1e9 * end for end in found["one"].interval])


def test_what_is_not_determined_has_no_number() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=8), rng.normal(size=8)
    for covariates, family in (
        ({"x": x, "twice": 2 * x}, FAMILY),
        ({"constant": np.ones(8)}, FAMILY),
        ({name: rng.normal(size=8) for name in "abcdefgh"}, FAMILY),
    ):
        for slope in family_slopes(y, covariates, family).values():
            assert math.isnan(slope.slope)
            assert math.isnan(slope.interval[0])
            assert math.isnan(slope.p_value)
            assert math.isnan(slope.seen(1))
    alone = family_slopes(y, {"x": x}, np.zeros(8, int))["x"]  # one family has no error
    assert math.isfinite(alone.slope)
    assert math.isnan(alone.interval[0])
    with pytest.raises(ValueError, match="needed finite values"):
        family_slopes(y, {"x": np.where(x > 0, x, np.nan)}, FAMILY)
    with pytest.raises(ValueError, match=r"needed 8 values of each covariate, got \[7\]"):
        family_slopes(y, {"x": x[:7]}, FAMILY)


def test_a_covariate_that_one_family_alone_has_gives_no_interval() -> None:
    rng = np.random.default_rng(4)
    for family, has in (
        (FAMILY, FAMILY == 2),
        (np.arange(6), np.arange(6) == 3),
        (np.repeat(np.arange(8), 4), np.repeat(np.arange(8), 4) == 1),
    ):
        found = family_slopes(rng.normal(size=len(family)), {"has": has.astype(float)}, family)[
            "has"
        ]
        assert math.isfinite(found.slope)
        assert math.isnan(found.interval[0])
    two = family_slopes(rng.normal(size=8), {"has": (FAMILY >= 2).astype(float)}, FAMILY)["has"]
    assert math.isfinite(two.interval[0])


def test_no_more_families_than_columns_give_no_interval() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 4))
    assert math.isnan(family_slopes(y, {"x": x}, np.array([0, 0, 1, 1]))["x"].interval[0])
    assert math.isnan(
        family_slopes(y, {"x": x, "z": x**2}, np.array([0, 0, 1, 2]))["x"].interval[0]
    )
    one = family_mean(y[:1], np.zeros(1, int))
    assert one.slope == pytest.approx(y[0])
    assert math.isnan(one.interval[0])


@pytest.mark.full("8", reason="further worlds of a simulation")
@pytest.mark.parametrize("families", [4, 6, 8])
def test_a_word_of_two_families_is_seen_in_at_most_5_of_100_studies_without_a_difference(
    families: int,
) -> None:
    rng = np.random.default_rng(6)
    family = np.repeat(np.arange(families), 3)
    wrong, studies = 0, 600
    for _ in range(studies):
        y = rng.normal(size=families)[family] + rng.normal(size=len(family))
        wrong += family_slopes(y, {"x": (family < 2).astype(float)}, family)["x"].p_value < 0.05
    assert wrong / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)


@pytest.mark.parametrize(("pairs", "families"), [(6, 3), (12, 4), (30, 6)])
def test_permuted_covariates_go_with_the_outcome_in_at_most_5_of_100_studies(
    pairs: int, families: int
) -> None:
    rng = np.random.default_rng(3)
    family = np.sort(np.arange(pairs) % families)
    wrong, studies = 0, 600
    for _ in range(studies):
        y = rng.normal(size=families)[family] + rng.normal(size=pairs)
        x = rng.permutation(np.arange(pairs, dtype=float))
        wrong += family_slopes(y, {"x": x}, family)["x"].p_value < 0.05
    assert wrong / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)

"""The rule by which scores decide: known values, and the same from one item at a time as from many."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from forgetwatch.metrics.choices import (
    NORMS,
    OptionScores,
    decide,
    normalise,
    option_mask,
    ranking,
    right_at_constant_mass,
)
from forgetwatch.probe import Norm

LOGPROBS = np.array([-4.0, -6.0, -6.5, -1.0, -2.0])
K = np.array([3, 2])
LENGTHS = {
    "chars": np.array([2, 4, 5, 1, 4]),
    "bytes": np.array([2, 4, 6, 3, 3]),
    "tokens": np.array([1, 2, 2, 1, 1]),
}
PRIORS = np.array([-1.0, -5.0, -4.0, -0.5, -3.0])
BY_HAND = {  # log-likelihood / length * mean length, or minus the prior
    "sum": [-4.0, -6.0, -6.5, -1.0, -2.0],
    "chars": [-2 * 11 / 3, -1.5 * 11 / 3, -1.3 * 11 / 3, -2.5, -1.25],
    "chars_with_space": [-4 / 3 * 14 / 3, -1.2 * 14 / 3, -6.5 / 6 * 14 / 3, -1.75, -1.4],
    "bytes": [-8.0, -6.0, -6.5 / 6 * 4, -1.0, -2.0],
    "tokens": [-4.0 * 5 / 3, -3.0 * 5 / 3, -3.25 * 5 / 3, -1.0, -2.0],
    "unconditional": [-3.0, -1.0, -2.5, -0.5, 1.0],
}


@pytest.mark.parametrize("norm", NORMS)
def test_each_norm_gives_its_formula(norm: str) -> None:
    found = normalise(LOGPROBS, K, norm=norm, lengths=LENGTHS, priors=PRIORS)
    assert found == pytest.approx(BY_HAND[norm])
    first, second = BY_HAND[norm][:3], BY_HAND[norm][3:]
    assert decide(found, K, np.zeros(5, bool)).chosen.tolist() == [
        np.argmax(first),
        np.argmax(second),
    ]


def test_the_norms_have_the_names_that_probes_and_logs_use() -> None:
    assert NORMS == ("sum", "chars", "chars_with_space", "bytes", "tokens", "unconditional")


def test_the_norms_of_a_probe_are_norms_of_the_rule() -> None:
    assert set(get_args(Norm)) <= set(NORMS)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"norm": "charz"}, "unknown norm 'charz'; needed one of sum, chars"),
        (
            {"norm": "bytes", "lengths": {"chars": LENGTHS["chars"]}},
            "'bytes' needs the options' lengths in bytes",
        ),
        ({"norm": "tokens"}, "needs the options' lengths in tokens"),
        ({"norm": "unconditional"}, "without the prompt"),
    ],
)
def test_what_a_norm_lacks_is_an_error(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        normalise(LOGPROBS, K, **given_)


def test_of_equals_the_first_is_chosen_and_they_are_tied() -> None:
    found = decide(
        np.array([-1.0, -1.0, -3.0, -1.0]), np.array([3, 1]), np.array([0, 1, 0, 1], bool)
    )
    assert (found.chosen.tolist(), found.tied.tolist()) == ([0, 0], [True, False])
    assert found.margin == pytest.approx([0.0, np.nan], nan_ok=True)
    assert ranking(np.array([-1.0, -3.0, -1.0])).tolist() == [0, 2, 1]


def test_several_right_options_share_the_gold() -> None:
    found = decide(np.log([0.5, 0.3, 0.2]), np.array([3]), np.array([False, True, True]))
    assert found.share == pytest.approx([0.5])


def test_where_a_score_is_unknown_nothing_is_decided() -> None:
    scores = np.array([np.nan, -1.0, -np.inf, -np.inf, -1.0, -np.inf])
    found = decide(scores, np.array([2, 0, 2, 2]), np.array([0, 1, 1, 0, 1, 0], bool))
    assert found.chosen.tolist() == [-1, -1, 0, 0]
    assert found.share == pytest.approx([np.nan, np.nan, np.nan, 1.0], nan_ok=True)
    assert np.isnan(found.margin).all()


def test_an_empty_option_is_never_chosen_by_its_length() -> None:
    scores = normalise(
        np.array([-1.0, -2.0]), np.array([2]), norm="chars", lengths={"chars": np.array([0, 2])}
    )
    assert decide(scores, np.array([2]), np.zeros(2, bool)).chosen.tolist() == [1]


@given(st.integers(0, 10_000))
@settings(max_examples=60, derandomize=True)
def test_many_items_decide_as_each_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = rng.integers(1, 7, rng.integers(1, 12))
    cells, ends = int(k.sum()), np.cumsum(k)
    logprobs, golds = -rng.integers(1, 9, cells).astype(float), rng.random(cells) < 0.4
    lengths = {"bytes": rng.integers(1, 9, cells)}
    scores = normalise(logprobs, k, norm="bytes", lengths=lengths)
    found = decide(scores, k, golds)
    for item, part in enumerate(map(slice, ends - k, ends)):
        alone = logprobs[part] / lengths["bytes"][part] * lengths["bytes"][part].mean()
        assert np.array_equal(scores[part], alone)
        assert found.chosen[item] == np.argmax(alone)
        share = softmax(alone)[golds[part]].sum() if golds[part].any() else np.nan
        assert found.share[item] == pytest.approx(share, nan_ok=True)


def scored(logprobs: list[list[float]], lengths: list[list[int]] | None) -> OptionScores:
    """Options of some items of which the first is right, by a length or by the sum."""
    k, flat = np.array([len(row) for row in logprobs]), np.concatenate(logprobs).astype(float)
    golds = option_mask(k, np.arange(len(k)), np.zeros(len(k), np.int64))
    if lengths is None:
        return OptionScores(k, flat, golds, flat)
    unit = {"chars": np.concatenate(lengths)}
    factors = normalise(np.ones(len(flat)), k, norm="chars", lengths=unit)
    return OptionScores(k, normalise(flat, k, norm="chars", lengths=unit), golds, flat, factors)


def test_at_constant_mass_a_shift_of_all_options_changes_no_answer() -> None:
    rng = np.random.default_rng(4)
    logprobs = -rng.exponential(8, (400, 4))
    lengths = rng.integers(1, 12, (400, 4)).tolist()
    before = scored(logprobs.tolist(), lengths)
    right_before = decide(before.scores, before.k, before.golds).chosen == 0
    for nats in (-3.0, 3.0):
        after = scored((logprobs + nats).tolist(), lengths)
        right = decide(after.scores, after.k, after.golds).chosen == 0
        assert (right != right_before).sum() > 20
        np.testing.assert_array_equal(right_at_constant_mass(before, after, right), right_before)
        np.testing.assert_allclose(after.log_mass - before.log_mass, nats)


def test_at_constant_mass_other_changes_of_the_options_stay() -> None:
    # Both items lose the right answer: the first to option 1, which became likelier; the second to mass alone.
    lengths = [[4, 2], [4, 2]]
    before = scored([[-2.0, -3.0], [-4.0, -2.5]], lengths)
    after = scored([[-3.0, -1.0], [-1.0, 0.5]], lengths)
    right = decide(after.scores, after.k, after.golds).chosen == 0
    assert decide(before.scores, before.k, before.golds).chosen.tolist() == [0, 0]
    assert right.tolist() == [False, False]
    assert right_at_constant_mass(before, after, right).tolist() == [False, True]


def test_at_constant_mass_is_what_was_logged_where_no_length_decides() -> None:
    before, after = scored([[-4.0, -2.5]], None), scored([[-1.0, -0.5]], None)
    right = np.array([True])  # the log contradicts the scores, and stays
    assert right_at_constant_mass(before, after, right) is right
    assert not after.by_length.any()
    by_length = scored([[-1.0, -0.5]], [[2, 2]])
    assert right_at_constant_mass(before, by_length, right).tolist() == [True]


def test_at_constant_mass_impossible_options_and_missing_scores_are_left_alone() -> None:
    lengths = [[2, 1], [2, 1], [0, 1]]
    before = scored([[-1.0, -np.inf], [-np.inf, -np.inf], [-1.0, -2.0]], lengths)
    after = scored([[-2.0, -np.inf], [-1.0, -2.0], [-3.0, -1.0]], lengths)
    right = np.array([True, False, True])
    assert right_at_constant_mass(before, after, right).tolist() == right.tolist()
    none = OptionScores(np.array([0, 0, 0]), np.array([]), np.array([], bool))
    assert right_at_constant_mass(none, after, right).tolist() == right.tolist()


def test_at_constant_mass_an_answer_to_options_that_were_impossible_stays() -> None:
    """A shift by minus infinity would make the first option the choice: the second is chosen, and stays."""
    before = scored([[-np.inf, -np.inf], [-1.0, -2.0]], [[2, 1], [2, 1]])
    after = scored([[-9.0, -1.0], [-9.0, -1.0]], [[2, 1], [2, 1]])
    assert decide(after.scores, after.k, after.golds).chosen.tolist() == [1, 1]
    assert right_at_constant_mass(before, after, np.array([False, False])).tolist() == [
        False,
        False,
    ]

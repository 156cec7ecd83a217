from __future__ import annotations

import math

import numpy as np
import pytest

from forgetwatch import Item
from forgetwatch.scoring import Encoded, decide, is_free_correct, lengths, option_mass

LOGPROBS = np.array([-4.0, -6.0, -6.5])
LENGTHS = {"bytes": np.array([2, 4, 6]), "chars": np.array([2, 4, 5]), "tokens": np.array([1, 2, 2])}


@pytest.mark.parametrize(("norm", "chosen"), [("sum", 0), ("bytes", 2), ("chars", 2), ("tokens", 1)])
def test_the_norm_decides(norm: str, chosen: int) -> None:
    assert decide(LOGPROBS, lengths=LENGTHS, norm=norm, answers=[0]).chosen == chosen  # type: ignore[arg-type]


def test_share_and_margin_are_of_the_score_that_decides_in_nats() -> None:
    by_sum = decide(LOGPROBS, lengths=LENGTHS, norm="sum", answers=[0])
    weights = np.exp(LOGPROBS)
    assert by_sum.gold_share == pytest.approx(weights[0] / weights.sum())
    assert by_sum.margin == pytest.approx(2.0)
    by_bytes = decide(LOGPROBS, lengths=LENGTHS, norm="bytes", answers=[2])
    scores = LOGPROBS / np.array([2, 4, 6]) * 4.0  # times the mean length: nats again
    assert by_bytes.gold_share == pytest.approx(np.exp(scores[2]) / np.exp(scores).sum())
    assert by_bytes.margin == pytest.approx(scores[2] - scores[1])


def test_several_right_answers_share_the_gold() -> None:
    decision = decide(np.log([0.5, 0.3, 0.2]), lengths={}, norm="sum", answers=[1, 2])
    assert not decision.correct
    assert decision.gold_share == pytest.approx(0.5)
    assert decide(np.log([0.2, 0.5, 0.3]), lengths={}, norm="sum", answers=[1, 2]).correct


def test_of_equals_the_first_is_chosen_and_one_option_has_no_margin() -> None:
    assert decide(np.array([-1.0, -1.0]), lengths={}, norm="sum", answers=[0]).chosen == 0
    assert math.isnan(decide(np.array([-1.0]), lengths={}, norm="sum", answers=[0]).margin)


def test_lengths_leave_the_leading_space_out() -> None:
    encoded = Encoded(context=(1,), texts=(" né", "ab"), choices=((5, 6), (7,)), spellings=((), ()))
    assert {unit: values.tolist() for unit, values in lengths(encoded).items()} == {
        "chars": [2, 2], "bytes": [3, 2], "tokens": [2, 1],
    }  # fmt: skip


def test_option_mass_counts_every_continuation_once() -> None:
    # " New" (.3) holds " New York" (.1); " Oslo" (.2) stands twice
    encoded = Encoded(context=(1,), texts=("",) * 4, choices=((5,), (5, 6), (7,), (7,)), spellings=((),) * 4)
    assert option_mass(np.log([0.3, 0.1, 0.2, 0.2]), encoded, 0.05) == pytest.approx(0.55)


def test_free_correct_is_true_if_the_top_token_begins_a_right_answer() -> None:
    encoded = Encoded(context=(1,), texts=("", ""), choices=((5, 6), (7,)), spellings=((), (8,)))
    right, wrong = [(0, 5), (1, 7), (1, 8), ((0, 1), 8)], [(0, 6), (0, 8)]
    for answer, top in (*right, *wrong):
        item = Item(id="1", task="t", prompt="p", choices=("a", "b"), answer=answer)
        assert is_free_correct(item, encoded, top) is ((answer, top) in right)

"""The ladder: its levels follow the answers of a model, its name has them, and no question that chose them is asked."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from support import snapshot

from forgetwatch import Probe, Snapshot, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.ladder import KINDS, TRIED, at_levels, described_levels, fitted_levels
from forgetwatch.probes.shipped_probes import stratified

POOL = load_probe("ladder")
LEVELS = "3345212456"


def of(probe: Probe) -> list[tuple[str, int]]:
    """Kind and level of each question of the pool in a probe."""
    pairs = (item.task.split(":") for item in probe if item.task.split(":")[0] in KINDS)
    return [(kind, int(level)) for kind, level in pairs]


def answered(
    probe: Probe, easy: NDArray[np.float64], *, seed: int = 0, slope: float = 1.0
) -> Snapshot:
    """Answers of a model that is right in 5/8 at level `easy` of a kind, and in fewer above it."""
    rng = np.random.default_rng(seed)
    margin = np.array([easy[KINDS.index(kind)] - level for kind, level in of(probe)])
    right = rng.random(len(probe)) < 1 / 4 + 3 / 4 / (1 + np.exp(-slope * margin))
    return snapshot(right.tolist(), task=[item.task for item in probe])


def test_the_pool_has_six_thousand_questions_of_ten_kinds_at_eight_levels() -> None:
    cells = Counter(of(POOL))
    assert len(POOL) >= 6000
    assert set(cells) == {(kind, level) for kind in KINDS for level in range(1, 9)}
    assert (
        min(count for (kind, _), count in cells.items() if kind not in ("reading", "facts")) == 90
    )
    assert all(len(item.choices) == 4 for item in POOL)


def test_levels_are_those_at_which_a_model_is_right_in_about_seven_tenths() -> None:
    """Of 20 models with abilities of their own, a level is off by one at the most in nine of ten kinds."""
    off = []
    for seed in range(20):
        easy = np.random.default_rng(100 + seed).uniform(1.5, 8, len(KINDS))
        made = at_levels(POOL, partial(answered, easy=easy, seed=seed))
        wanted = np.clip(np.rint(easy - np.log(0.6 / 0.4)), 1, 8)
        off += [
            abs(int(digit) - level) for digit, level in zip(made.name[-10:], wanted, strict=True)
        ]
    assert np.mean(np.array(off) <= 1) >= 0.9
    assert np.mean(off) <= 0.7


def test_a_model_that_guesses_gets_the_lowest_levels_and_one_that_knows_all_the_highest() -> None:
    kinds, levels = (
        np.array(one)
        for one in zip(*((KINDS.index(kind), at) for kind, at in of(POOL)), strict=True)
    )
    right = np.random.default_rng(0).random(len(kinds)) < 1 / 4
    assert np.mean(fitted_levels(kinds, levels, right)) <= 1.5
    assert fitted_levels(kinds, levels, np.ones(len(kinds), bool)) == (8,) * len(KINDS)


def test_no_question_that_chose_the_levels_is_asked_and_another_probe_stays_as_it_is() -> None:
    asked: list[Probe] = []

    def answers(tried: Probe) -> Snapshot:
        asked.append(tried)
        return answered(tried, np.full(len(KINDS), 5.0))

    made = at_levels(POOL, answers)
    (tried,) = asked
    assert len(tried) == TRIED == len({item.id for item in tried})
    assert min(Counter(of(tried)).values()) >= 1
    assert not {item.content_hash for item in tried} & {item.content_hash for item in made}
    assert at_levels(demo := load_probe("demo"), answers) is demo


def test_a_ladder_has_800_of_standard_and_1200_near_its_levels_and_every_prefix_is_fair() -> None:
    ladder = load_probe(f"ladder-{LEVELS}")
    pool = of(ladder)
    assert (len(ladder), len(pool)) == (2000, 1200)
    assert Counter(kind for kind, _ in pool) == dict.fromkeys(KINDS, 120)
    assert {item.content_hash for item in load_probe("standard").items[:800]} <= {
        item.content_hash for item in ladder
    }
    at_level = sum(level == int(LEVELS[KINDS.index(kind)]) for kind, level in pool)
    assert at_level >= 800
    assert all(abs(level - int(LEVELS[KINDS.index(kind)])) <= 1 for kind, level in pool)
    for first in (500, 1000):
        assert stratified(ladder.items, first=first) == list(ladder.items)
        some = Counter(kind for kind, _ in of(ladder.head(first)))
        assert all(abs(some[kind] - first * 120 / 2000) <= 3 for kind in KINDS)


def test_the_name_has_the_levels() -> None:
    ladder = load_probe(f"ladder-{LEVELS}")
    assert ladder.fingerprint == load_probe(f"ladder-{LEVELS}").fingerprint
    assert ladder.fingerprint != load_probe("ladder-3345212455").fingerprint
    assert described_levels(ladder.name).startswith("chain 3, compared 3, date 4, ")
    assert described_levels(f"{ladder.name}+strata").endswith("units 6")
    assert len(load_probe(f"ladder-{LEVELS}+strata")) == 2160


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ladder-334521245", "needed a digit from 1 to 8 for each of chain, compared"),
        ("ladder-3345212459", "needed a digit from 1 to 8"),
        ("ladder:100", r"such as ladder-3345212455:100$"),
        (
            "ladder+strata",
            "needed the levels of a ladder beside another probe or a number, such as ladder-3345212455",
        ),
    ],
)
def test_a_name_without_levels_is_refused(name: str, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        load_probe(name)


def test_strata_are_forty_each_of_languages_code_instructions_and_behaviour() -> None:
    strata = load_probe("strata")
    assert len(strata) == 160
    assert sum(strata.is_generated(item) for item in strata) == 80
    assert len({item.task for item in strata if item.task.startswith("multilingual")}) == 6

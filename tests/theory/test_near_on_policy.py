"""SDFT, TTT-Discover and OAPL in two modes: written numbers, conditions held and broken, bounds of the drift."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from forgetwatch.theory import mixture, settings
from forgetwatch.theory import near_on_policy as theory

WITHIN = 1e-3
TIMES = (50, 200, 1000)

SDFT_MEANS_FIXED = {
    ("base", 0.7): {
        1: (0.8828, 0.8604, 0.8572),
        2: (0.8615, 0.8572, 0.8572),
        4: (0.8575, 0.8572, 0.8572),
        6: (0.8574, 0.8572, 0.8572),
    },
    ("ema", 0.7): {
        1: (0.8806, 0.8095, 0.7006),
        2: (0.8411, 0.7347, 0.7000),
        4: (0.8170, 0.7209, 0.7000),
        6: (0.8145, 0.7198, 0.7000),
    },
    ("base", 1e-6): {
        1: (0.1981, 0.0881, 0.0689),
        2: (0.0893, 0.0691, 0.0687),
        4: (0.0721, 0.0687, 0.0687),
        6: (0.0712, 0.0687, 0.0687),
    },
    ("ema", 1e-6): {
        1: (0.1670, 0.0516, 0.0195),
        2: (0.0453, 0.0143, 0.0050),
        4: (0.0170, 0.0035, 0.0008),
        6: (0.0143, 0.0025, 0.0005),
    },
}
SDFT_MOVING = {
    "base": {2: (0.8717, 0.0630, 0.0643), 3: (0.8572, 0.0299, 0.0317), 4: (0.8572, 0.0054, 0.0060)},
    "ema": {2: (0.7293, 0.0997, 0.2141), 3: (0.7026, 0.0326, 0.1056), 4: (0.7016, 0.0057, 0.0198)},
    "live": {2: (0.7109, 0.2211, 0.2248), 3: (0.7000, 0.0946, 0.1055), 4: (0.7000, 0.0135, 0.0198)},
}
THRESHOLDS = {
    1: {1: 0.3482, 2: 0.1547, 3: 0.0922, 4: 0.0611, 6: 0.0313, math.inf: 0.0},
    5: {1: 0.6351, 2: 0.2595, 3: 0.1487, 4: 0.0968, 6: 0.0491},
}
ENDS = {
    1: {
        1: (0.510, 0.185, 0),
        2: (0.673, 0.446, 0),
        3: (0.715, 0.522, 0.00088),
        4: (0.728, 0.548, 0.0090),
        6: (0.734, 0.559, 0.0146),
        math.inf: (0.734, 0.560, 0.0150),
    },
    5: {1: (0.205, 0), 2: (0.437, 0.183), 3: (0.498, 0.276), 4: (0.519, 0.309), 6: (0.527, 0.323)},
}
OAPL_MEANS_FIXED = {
    2: (0.7606, 0.4852, 0.0466, 0.0045),
    4: (0.7858, 0.5703, 0.0636, 0.0034),
    6: (0.7924, 0.5887, 0.0706, 0.0033),
}
OAPL_MOVING = {
    2: ((0.847, 0.27), (0.773, 0.61), (0.671, 2.04)),
    3: ((0.794, 0.09), (0.574, 0.11), (0.063, 0.06)),
    4: ((0.788, 0.02), (0.572, 0.02), (0.064, 0.09)),
    6: ((0.792, 0.002), (0.589, 0.001), (0.071, 0.010)),
}


def sdft(
    separation: float, teacher: theory.Teacher, demonstrated: float, time: float, **more: float
) -> theory.PolicyFlow:
    given = {"strength": 0.3, **more}
    return theory.sdft(
        separation=separation,
        mass=0.9,
        teacher=teacher,
        demonstrated=demonstrated,
        time=time,
        moves=bool(more),
        **given,
    )


@pytest.mark.parametrize(("teacher", "demonstrated"), SDFT_MEANS_FIXED)
def test_sdft_has_its_numbers(teacher: theory.Teacher, demonstrated: float) -> None:
    for separation, masses in SDFT_MEANS_FIXED[teacher, demonstrated].items():
        found = [sdft(separation, teacher, demonstrated, time).mass for time in TIMES]
        assert found == pytest.approx(masses, abs=WITHIN)


@pytest.mark.parametrize("teacher", SDFT_MOVING)
def test_sdft_drifts_below_its_bound(teacher: theory.Teacher) -> None:
    for separation, (mass, drift, bound) in SDFT_MOVING[teacher].items():
        found = sdft(separation, teacher, 0.7, 400, shift=1.0)
        assert (found.mass, found.drifts.max()) == pytest.approx((mass, drift), abs=WITHIN)
        assert found.bound == pytest.approx(bound, abs=2 * WITHIN)
        assert found.drifts.max() <= found.bound


def test_sdft_ends_where_its_condition_says() -> None:
    base = theory.sdft_condition(mass=0.9, strength=0.3, teacher="base", demonstrated=0.7)
    assert base.end == pytest.approx(expit(0.7 * logit(0.9) + 0.3 * logit(0.7)))
    assert sdft(2, "base", 0.7, 1000).mass == pytest.approx(base.end, abs=WITHIN)
    moving = theory.sdft_condition(mass=0.9, strength=0.3, teacher="live", demonstrated=0.7)
    assert (moving.holds, moving.end) == (True, 0.7)
    assert sdft(2, "live", 0.7, 1000).mass == pytest.approx(0.7, abs=WITHIN)
    for teacher in ("base", "ema", "live"):
        broken = theory.sdft_condition(mass=0.9, strength=0.3, teacher=teacher, demonstrated=0.0)
        assert (broken.holds, broken.end) == (False, 0.0)
    assert theory.sdft_condition(mass=0.9, strength=0, teacher="live", demonstrated=0.0).end == 0.9
    still = theory.sdft(
        separation=2, mass=0.9, strength=0, teacher="live", demonstrated=0.5, time=50
    )
    assert still.mass == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("log_utility", THRESHOLDS)
def test_ttt_discover_has_its_thresholds_and_ends(log_utility: float) -> None:
    for separation, least in THRESHOLDS[log_utility].items():
        found = theory.ttt_discover_threshold(
            separation=separation, mass=0.9, log_utility=log_utility
        )
        assert found == pytest.approx(least, abs=WITHIN)
    for separation, masses in ENDS[log_utility].items():
        for weight, mass in zip((1, 0.5, 0.1), masses, strict=False):
            told = theory.ttt_discover_condition(
                separation=separation, mass=0.9, log_utility=log_utility, weight=weight
            )
            assert told.end == pytest.approx(mass, abs=WITHIN)
            assert told.holds == (mass > 0)


def test_ttt_discover_flows_to_its_end() -> None:
    arguments = {"separation": 2.0, "mass": 0.9, "log_utility": 1.0}
    held = theory.ttt_discover(**arguments, weight=0.5, time=2000, moves=False)
    assert held.mass == pytest.approx(0.446, abs=WITHIN)
    broken = theory.ttt_discover(**arguments, weight=0.1, time=20_000, moves=False)
    assert broken.mass < 2e-3
    for separation, masses in {
        2.0: (0.0752, 0.0122, 0.0022),
        4.0: (0.0475, 0.0091, 0.0017),
    }.items():
        found = [
            theory.ttt_discover(
                separation=separation, mass=0.9, log_utility=1, weight=0, time=time, moves=False
            ).mass
            for time in TIMES
        ]
        assert found == pytest.approx(masses, abs=WITHIN)


def test_a_weight_can_be_chosen_by_the_mass_to_keep() -> None:
    least = theory.ttt_discover_threshold(separation=3, mass=0.9, log_utility=1, kept=0.5)
    told = theory.ttt_discover_condition(separation=3, mass=0.9, log_utility=1, weight=least)
    assert told.end == pytest.approx(0.5, abs=1e-6)


def test_separated_modes_keep_half_or_two_over_the_weight_whatever_the_reward() -> None:
    for log_utility in (0.5, 2.0, 20.0, 200.0):
        end = theory.ttt_discover_condition(
            separation=math.inf, mass=0.9, log_utility=log_utility, weight=0.8
        ).end
        assert end >= 0.5 or logit(end) >= logit(0.9) - 2 / 0.8


@pytest.mark.parametrize(
    ("separation", "weight", "mass", "drift", "bound"),
    [
        (2, 0.5, 0.3426, 0.975, 1.277),
        (4, 0.5, 0.5399, 0.167, 0.295),
        (6, 0.5, 0.5591, 0.0099, 0.0203),
        (2, 0.0, 0.9154, 4.34, math.inf),
        (4, 0.0, 0.277, 4.92, math.inf),
    ],
)
def test_ttt_discover_drifts_below_its_bound_and_without_a_weight_far(
    separation: float, weight: float, mass: float, drift: float, bound: float
) -> None:
    found = theory.ttt_discover(
        separation=separation, mass=0.9, log_utility=1, weight=weight, time=400
    )
    assert found.mass == pytest.approx(mass, abs=WITHIN)
    assert found.drifts.max() == pytest.approx(drift, abs=5 * WITHIN)
    assert found.bound == pytest.approx(bound, abs=2 * WITHIN)
    assert found.drifts.max() <= found.bound


def test_mass_alone_can_hide_a_loss() -> None:
    found = theory.ttt_discover(separation=2, mass=0.9, log_utility=1, weight=0, time=400)
    assert found.mass > 0.9
    assert found.drift > 4


def oapl(separation: float, syncs: int, **more: bool) -> mixture.Flow:
    return theory.oapl(
        separation=separation, mass=0.9, gap=1, beta=1, period=20, syncs=syncs, **more
    )


@pytest.mark.parametrize("separation", OAPL_MEANS_FIXED)
def test_oapl_has_its_numbers(separation: float) -> None:
    found = [oapl(separation, syncs, moves=False).mass for syncs in (1, 2, 5, 20)]
    assert found == pytest.approx(OAPL_MEANS_FIXED[separation], abs=WITHIN)


@pytest.mark.parametrize(("separation", "mass"), [(2, 0.6342), (4, 0.7527), (6, 0.7671)])
def test_oapl_keeps_its_mass_under_a_frozen_reference(separation: float, mass: float) -> None:
    found = theory.oapl(
        separation=separation, mass=0.9, gap=1, beta=1, period=2000, syncs=1, moves=False
    )
    assert found.mass == pytest.approx(mass, abs=WITHIN)
    told = theory.oapl_condition(mass=0.9, gap=1, beta=1, syncs=1)
    assert (told.holds, round(told.end, 4)) == (True, 0.768)


@pytest.mark.parametrize("separation", OAPL_MOVING)
def test_oapl_has_its_drift(separation: float) -> None:
    for syncs, (mass, drift) in zip((1, 2, 5), OAPL_MOVING[separation], strict=True):
        found = oapl(separation, syncs)
        assert found.mass == pytest.approx(mass, abs=WITHIN)
        assert found.drift == pytest.approx(drift, abs=5 * WITHIN)


def test_oapl_loses_a_constant_of_the_logit_at_each_sync() -> None:
    told = [theory.oapl_condition(mass=0.9, gap=1, beta=2, syncs=syncs) for syncs in (0, 1, 2, 5)]
    assert np.diff([logit(one.end) for one in told]) == pytest.approx([-0.5, -0.5, -1.5])
    assert [one.holds for one in told] == [True, True, False, False]
    assert theory.oapl_condition(mass=0.9, gap=0, beta=2, syncs=9).holds
    without = theory.oapl(separation=3, mass=0.9, gap=0, beta=1, period=20, syncs=2)
    assert (without.mass, without.drift) == pytest.approx((0.9, 0.0), abs=1e-6)


def test_the_first_force_on_the_old_mean_is_the_overlap() -> None:
    for separation, force in ((2, 0.21777), (4, 0.04859)):
        step = 1e-4
        found = theory.oapl(separation=separation, mass=0.9, gap=1, beta=1, period=step, syncs=1)
        assert found.drift / step == pytest.approx(force, abs=2e-4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sdft(2, "other", 0.7, 1), "teacher must be one of base, ema, live"),
        (lambda: sdft(2, "base", 0.7, 1, strength=2), "strength must be from 0 to 1"),
        (lambda: sdft(2, "base", 0.0, 1), "demonstrated must be a mass"),
        (
            lambda: theory.ttt_discover(separation=2, mass=0.9, log_utility=0, weight=1, time=1),
            "log_utility must be",
        ),
        (
            lambda: theory.ttt_discover(separation=2, mass=0.9, log_utility=1, weight=-1, time=1),
            "weight must be",
        ),
        (
            lambda: theory.ttt_discover_threshold(separation=2, mass=0.9, log_utility=1, kept=0.9),
            "kept must be",
        ),
        (
            lambda: theory.oapl(separation=2, mass=0.9, gap=1, beta=0, period=1, syncs=1),
            "beta above 0",
        ),
        (
            lambda: theory.oapl(separation=2, mass=0.9, gap=1, beta=1, period=1, syncs=-1),
            "syncs must be",
        ),
        (
            lambda: theory.oapl(separation=2, mass=1.0, gap=1, beta=1, period=1, syncs=1),
            "mass must be between",
        ),
    ],
)
def test_arguments_outside_their_range_are_refused(call: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()  # type: ignore[operator]


def test_the_table_has_each_method_held_and_broken() -> None:
    of_oapl = [one for one in settings.SETTINGS if one.method == "OAPL"]
    found = [(one, [one.run(d) for d in settings.SEPARATIONS]) for one in of_oapl]
    text = settings.table(found)
    assert "OAPL, held            mass           0.686        0.502" in text
    assert max(map(len, text.splitlines())) <= 105

"""The two-mode laboratory: its flows against written numbers, exact solutions and each other."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from forgetwatch.theory import mixture

FORWARD = {
    1.0: (0.742, 0.091, 0.030),
    2.0: (0.305, 0.031, 0.0094),
    4.0: (0.155, 0.0126, 0.0027),
    6.0: (0.142, 0.0107, 0.0021),
}
JOINT = {
    1: (0.916, 1.04),
    2: (0.894, 2.04),
    3: (0.573, 2.94),
    4: (0.025, 2.69),
    5: (0.006, 0.77),
    6: (0.005, 0.165),
}


def to_digits(written: float) -> float:
    """Half a unit of the last written digit, and a little for its own rounding."""
    digits = len(str(written).split(".")[1])
    return 0.51 * 10**-digits


@pytest.mark.parametrize(("separation", "masses"), FORWARD.items())
def test_forward_kl_on_new_data_forgets_the_old_mass(
    separation: float, masses: tuple[float, ...]
) -> None:
    for time, mass in zip((10, 100, 500), masses, strict=True):
        found = mixture.flow(objective="forward", separation=separation, mass=0.9, time=time)
        assert found.mass == pytest.approx(mass, abs=to_digits(mass))


def test_replay_under_forward_kl_keeps_its_share() -> None:
    for time, mass in ((10, 0.186), (100, 0.051), (500, 0.050)):
        found = mixture.flow(objective="forward", separation=4, mass=0.9, time=time, replay=0.05)
        assert found.mass == pytest.approx(mass, abs=to_digits(mass))
    for replay in (0.1, 0.4, 0.8):
        found = mixture.flow(objective="forward", separation=2, mass=0.5, time=2000, replay=replay)
        assert found.mass == pytest.approx(replay, abs=1e-6)


@pytest.mark.parametrize(
    ("separation", "masses"), [(2, (0.921, 0.715, 0.700)), (4, (0.870, 0.700, 0.700))]
)
def test_reverse_kl_goes_to_the_mass_of_the_target(
    separation: float, masses: tuple[float, ...]
) -> None:
    for time, mass in zip((10, 50, 100), masses, strict=True):
        found = mixture.flow(
            objective="reverse", separation=separation, mass=0.95, time=time, target=0.7
        )
        assert found.mass == pytest.approx(mass, abs=to_digits(mass))


def test_reverse_kl_ends_at_the_rate_of_the_overlap() -> None:
    for separation in (1.0, 2.0, 4.0):
        rate = mixture.reverse_rate(separation=separation, target=0.7)
        span = 0.3 / rate
        end = mixture.flow(
            objective="reverse", separation=separation, mass=0.7001, time=span, target=0.7
        )
        assert (end.mass - 0.7) / 0.0001 == pytest.approx(math.exp(-rate * span), rel=1e-2)
    assert mixture.reverse_rate(separation=0, target=0.7) == pytest.approx(0, abs=1e-12)
    assert mixture.reverse_rate(separation=12, target=0.7) == pytest.approx(0.21, abs=1e-6)


def test_expectation_maximization_forgets_in_a_few_steps() -> None:
    masses = mixture.expectation_maximization(separation=2, mass=0.9, steps=5).masses
    assert [round(float(masses[step]), 3) for step in (1, 2, 5)] == [0.530, 0.238, 0.043]


@pytest.mark.parametrize(("separation", "ends"), JOINT.items())
def test_forgetting_is_drift_with_much_overlap_and_mass_with_little(
    separation: int, ends: tuple[float, float]
) -> None:
    found = mixture.joint_flow(separation=separation, mass=0.9, time=200)
    assert found.mass == pytest.approx(ends[0], abs=to_digits(ends[0]))
    assert found.drift == pytest.approx(ends[1], abs=to_digits(ends[1]))


def test_modes_without_overlap_follow_the_exact_solution() -> None:
    # Without overlap r is 0 on new data: phi' = -b, which db/dt = -b^2 (1 - b) solves.
    end = mixture.flow(objective="forward", separation=40, mass=0.9, time=7.0).mass

    def elapsed(mass: float) -> float:
        return 1 / mass + math.log((1 - mass) / mass)

    assert elapsed(end) - elapsed(0.9) == pytest.approx(7.0, abs=1e-5)


@pytest.mark.parametrize("separation", [0.0, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("mass", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_misassignment_stays_below_its_bound(separation: float, mass: float) -> None:
    found = mixture.misassignment(separation=separation, mass=mass)

    def density(x: float) -> float:
        old, new = (
            math.exp(-((x - mode) ** 2) / 2) / math.sqrt(2 * math.pi) for mode in (0.0, separation)
        )
        return new * mass * old / (mass * old + (1 - mass) * new)

    assert found == pytest.approx(quad(density, -10, separation + 10, limit=200)[0], abs=1e-8)
    assert found <= mixture.misassignment_bound(separation=separation, mass=mass) + 1e-12


def test_where_all_mass_is_old_the_bound_is_the_mass() -> None:
    assert mixture.misassignment_bound(separation=2.0, mass=1.0) == 1.0
    assert mixture.misassignment(separation=2.0, mass=1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("replay", [0.0, 0.2, 0.6])
def test_importance_weights_leave_the_mean_gradient_and_are_bounded(replay: float) -> None:
    separation, mass, target = 2.0, 0.3, 0.8
    rng = np.random.default_rng(5)
    is_old = rng.random(400_000) < (1 - replay) * mass + replay
    x = rng.standard_normal(len(is_old)) + np.where(is_old, 0.0, separation)
    slopes, weights = mixture.reverse_gradients(
        x, separation=separation, mass=mass, target=target, replay=replay
    )
    step = 1e-5
    start, end = (
        mixture.flow(
            objective="reverse", separation=separation, mass=mass, time=time, target=target
        ).mass
        for time in (0.0, step)
    )
    population = (
        -(end - start) / step / (mass * (1 - mass))
    )  # db/dt = b (1 - b) phi', and phi' is minus the gradient
    assert slopes.mean() == pytest.approx(population, abs=5 * slopes.std() / math.sqrt(len(x)))
    assert weights.max() <= 1 / (1 - replay) + 1e-12
    assert weights.mean() == pytest.approx(1, abs=0.01)


def test_finite_batches_starve_the_old_mode_and_replay_feeds_it() -> None:
    arguments = {
        "separation": 4.0,
        "mass": 0.005,
        "target": 0.5,
        "steps": 400,
        "batch": 8,
        "rate": 0.5,
    }
    starved = mixture.sampled(**arguments, rng=np.random.default_rng(3))  # type: ignore[arg-type]
    fed = mixture.sampled(**arguments, replay=0.25, rng=np.random.default_rng(3))  # type: ignore[arg-type]
    population = mixture.flow(objective="reverse", separation=4, mass=0.005, time=200, target=0.5)
    assert fed.starved < 0.15 < starved.starved
    assert fed.largest_weight <= 1 / 0.75 + 1e-12
    assert starved.largest_weight == 1
    assert abs(fed.mass - population.mass) < 0.1
    assert starved.times[-1] == fed.times[-1] == 200


def test_a_path_begins_at_the_start_and_has_its_times() -> None:
    path = mixture.flow(objective="forward", separation=2, mass=0.9, time=10)
    assert (path.times[0], path.times[-1], path.masses[0]) == (0.0, 10.0, pytest.approx(0.9))
    assert (np.diff(path.masses) < 0).all()
    assert not path.drifts.any()
    assert mixture.flow(objective="forward", separation=2, mass=0.9, time=0).mass == pytest.approx(
        0.9
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"separation": -1.0}, "separation must be"),
        ({"mass": 1.0}, "mass must be between 0 and 1"),
        ({"time": math.inf}, "time must be finite"),
        ({"replay": 1.0}, "replay must be a share"),
        ({"target": 0.5}, "target is for objective='reverse'"),
        ({"objective": "reverse"}, "needs a target between 0 and 1"),
        (
            {"objective": "reverse", "target": 0.5, "replay": 0.1},
            "replay changes no population gradient",
        ),
        ({"objective": "sideways"}, "objective must be 'forward' or 'reverse'"),
    ],
)
def test_arguments_outside_their_range_are_refused(changes: dict[str, object], says: str) -> None:
    arguments: dict[str, object] = {
        "objective": "forward",
        "separation": 2.0,
        "mass": 0.9,
        "time": 1.0,
    }
    with pytest.raises(ValueError, match=says):
        mixture.flow(**arguments | changes)  # type: ignore[arg-type]

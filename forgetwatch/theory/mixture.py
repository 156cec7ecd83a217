"""Two-mode laboratory: how training moves an old and a new behaviour, in closed form where the equations allow it.

A learner is a mixture of an old and a new behaviour, two normal densities of variance 1 at a
distance `separation`:

    p_b(x) = b N(x; mu_old, 1) + (1 - b) N(x; mu_new, 1)        b = sigmoid(phi): the mass of the old behaviour

Training moves phi by gradient flow. There are two kinds of forgetting: the mass of the old
behaviour falls (`mass`), or its mean moves while the mass stays (`drift`, in the joint flow).

    forward KL to data       phi' = E_data[r_b(x)] - b                  r_b: probability that x comes from the old mode
    reverse KL to p_a        phi' = -b (1 - b) integral (N_old - N_new) log(p_b / p_a)

Cited (arXiv 2603.12163): the mixture and both flows. Forward KL on new data alone drives the old
    mass to 0, and with a
replayed share its optimum is that share. Reverse KL goes to the target's mass at a rate that the
overlap of the modes limits; replay with bounded importance weights ends the starvation of finite
batches and leaves the optimum as it is.

Derived here: the numbers of the flows, the joint flow of mass and means, and the bound on the
misassignment.

Everything is a population quantity but `sampled`, which follows gradients of finite batches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.special import expit, logit

Array: TypeAlias = NDArray[np.float64]
Objective = Literal["forward", "reverse"]

_REACH: Final = 12.0
"""Standard deviations beyond the modes up to which densities are integrated."""

_POINTS: Final = 4001
_POINTS_KEPT: Final = 401
"""Points of the integrals, and of a path that is returned."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Path of the old behaviour's mass, and of the modes where they move.

    Attributes:
        times: Times of the path, float64 [points]; one unit is a step of rate 1.
        masses: Mass of the old behaviour at these times, float64 [points].
        drifts: Distance of the old mode from where it was, in standard deviations, float64
            [points].
    """

    times: Array
    masses: Array
    drifts: Array

    @property
    def mass(self) -> float:
        """Mass of the old behaviour at the end."""
        return float(self.masses[-1])

    @property
    def drift(self) -> float:
        """Distance of the old mode from its start, at the end."""
        return float(self.drifts[-1])


def overlap(separation: float) -> float:
    """Bhattacharyya coefficient of the two modes, 1 if equal."""
    return math.exp(-(separation**2) / 8)


def responsibility(x: Array, *, separation: float, mass: float) -> Array:
    """Probability that points come from the old mode.

    The old mode lies at 0, the new one at `separation`.
    """
    return expit(logit(mass) - separation * (x - separation / 2))


def misassignment(*, separation: float, mass: float) -> float:
    """Mean probability that a new text counts as an old one."""
    x = grid(separation)
    return integral(normal(x - separation) * responsibility(x, separation=separation, mass=mass), x)


def misassignment_bound(*, separation: float, mass: float) -> float:
    """Bound `misassignment` from above.

    min(b, sqrt(b / (1 - b)) BC / 2), since r <= sqrt(r (1 - r)) where r <= 1/2.
    """
    if mass == 1.0:  # the limit: the second bound is infinite, whatever the overlap
        return mass
    return min(mass, 0.5 * math.sqrt(mass / (1 - mass)) * overlap(separation))


def reverse_rate(*, separation: float, target: float) -> float:
    """Rate at which reverse KL closes a small distance, in the logit.

    It is the variance of the responsibility under the target: a (1 - a) - E[r (1 - r)], 0 for modes
    that are the same.
    """
    x = grid(separation)
    r = responsibility(x, separation=separation, mass=target)
    return target * (1 - target) - integral(_mixture(x, separation, target) * r * (1 - r), x)


def flow(
    *,
    objective: Objective,
    separation: float,
    mass: float,
    time: float,
    replay: float = 0.0,
    target: float | None = None,
) -> Flow:
    """Gradient flow of the old behaviour's mass, with fixed modes.

    Args:
        objective: ``forward``: KL from data of the new behaviour, of which the share `replay` is
            old. ``reverse``: KL to a mixture whose old mass is `target`, on the learner's own
            samples.
        separation: Distance of the modes in standard deviations.
        mass: Old mass at the beginning, between 0 and 1.
        time: Time of training; one unit is a step of rate 1.
        replay: Share of old data, for ``forward``. Under reverse KL it changes no population
            gradient; see `sampled`.
        target: Old mass of the target, for ``reverse``.

    Raises:
        ValueError: If an argument is outside its range, or belongs to the other objective.
    """
    check_start(separation=separation, mass=mass, time=time)
    if objective == "forward":
        if target is not None:
            raise ValueError(
                f"target is for objective='reverse', got target={target} with 'forward'; use replay"
            )
        if not 0 <= replay < 1:
            raise ValueError(f"replay must be a share from 0 to below 1, got {replay}")
        return _flow(_forward(separation, replay), mass, time)
    if objective == "reverse":
        if target is None or not 0 < target < 1:
            raise ValueError(f"objective='reverse' needs a target between 0 and 1, got {target}")
        if replay:
            raise ValueError(
                "replay changes no population gradient under objective='reverse'; see sampled()"
            )
        x = grid(separation)
        return _flow(_reverse(x, separation, _log_mixture(x, separation, target)), mass, time)
    raise ValueError(f"objective must be 'forward' or 'reverse', got {objective!r}")


def expectation_maximization(*, separation: float, mass: float, steps: int) -> Flow:
    """Old mass after steps of expectation maximization on new data."""
    check_start(separation=separation, mass=mass, time=steps)
    masses = [mass]
    for _ in range(steps):
        masses.append(misassignment(separation=separation, mass=masses[-1]))
    return Flow(times=np.arange(steps + 1.0), masses=np.array(masses), drifts=np.zeros(steps + 1))


def joint_flow(*, separation: float, mass: float, time: float, shift: float = 1.0) -> Flow:
    """Forward KL on new data, where mass and means move.

    With much overlap the old mode goes to the new data and keeps its mass: forgetting is drift.
    With little overlap it stays where it is and loses its mass. Which of them depends on the rates
    too.

    Args:
        separation: Distance of the new data from the old mode.
        mass: Old mass at the beginning.
        time: Time of training.
        shift: Distance of the learner's new mode from the new data at the beginning, towards the
            old mode.
    """
    check_start(separation=separation, mass=mass, time=time)
    x = grid(separation)
    data = normal(x - separation)

    def slope(_: float, state: Array) -> Array:
        phi, old, new = state
        r = expit(phi + ((x - new) ** 2 - (x - old) ** 2) / 2)
        return np.array(
            [
                integral(data * r, x) - expit(phi),
                integral(data * r * (x - old), x),
                integral(data * (1 - r) * (x - new), x),
            ]
        )

    times, path = solve(slope, [float(logit(mass)), 0.0, separation - shift], time)
    return Flow(times=times, masses=expit(path[0]), drifts=np.abs(path[1]))


@dataclass(frozen=True, kw_only=True)
class SampledFlow(Flow):
    """Path that follows the gradients of finite batches.

    Attributes:
        starved: Share of the batches without a sample of the old mode.
        largest_weight: Largest importance weight.
    """

    starved: float
    largest_weight: float


def sampled(
    *,
    separation: float,
    mass: float,
    target: float,
    steps: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
    replay: float = 0.0,
) -> SampledFlow:
    """Reverse KL by finite batches of the learner's own samples.

    A batch without a sample of the old mode says nothing about it (starvation; its probability is
    (1 - b)^batch). With `replay`, that share of each batch comes from the old mode, and each sample
    x is weighted by p_b(x) / ((1 - replay) p_b(x) + replay N_old(x)), which is at most 1 / (1 -
    replay): the mean gradient is the same.

    Args:
        separation: Distance of the modes.
        mass: Old mass at the beginning.
        target: Old mass of the target.
        steps: Number of gradient steps.
        batch: Samples in each.
        rate: Size of a step.
        rng: Source of the samples.
        replay: Share of each batch that is replayed.

    Raises:
        ValueError: If an argument is outside its range.
    """
    check_start(separation=separation, mass=mass, time=steps)
    if not 0 < target < 1 or not 0 <= replay < 1 or batch < 1:
        raise ValueError(
            "target must be between 0 and 1, replay a share below 1, and batch at least 1"
        )
    phi, masses, starved, largest = float(logit(mass)), [mass], 0, 0.0
    for _ in range(steps):
        mass_now = float(expit(phi))
        is_old = rng.random(batch) < (1 - replay) * mass_now + replay
        x = rng.standard_normal(batch) + np.where(is_old, 0.0, separation)
        slope, weights = reverse_gradients(
            x, separation=separation, mass=mass_now, target=target, replay=replay
        )
        starved += not is_old.any()
        largest = max(largest, float(weights.max()))
        phi -= rate * float(slope.mean())
        masses.append(float(expit(phi)))
    return SampledFlow(
        times=np.arange(steps + 1.0) * rate,
        masses=np.array(masses),
        drifts=np.zeros(steps + 1),
        starved=starved / max(steps, 1),
        largest_weight=largest,
    )


def reverse_gradients(
    x: Array, *, separation: float, mass: float, target: float, replay: float = 0.0
) -> tuple[Array, Array]:
    """Gradient of reverse KL in phi by sample, and importance weights.

    Their mean over samples of (1 - replay) p_b + replay N_old is the population gradient.

    Returns:
        Both float64 [samples].
    """
    log_density = _log_mixture(x, separation, mass)
    r = responsibility(x, separation=separation, mass=mass)
    weights = 1 / ((1 - replay) + replay * r / mass)  # N_old / p_b is r / b
    return weights * (r - mass) * (log_density - _log_mixture(x, separation, target)), weights


def check_start(*, separation: float, mass: float, time: float) -> None:
    """Refuse a start outside the range of a flow.

    Raises:
        ValueError: If a value is out of range.
    """
    if not (math.isfinite(separation) and separation >= 0):
        raise ValueError(
            f"separation must be a number of standard deviations from 0, got {separation}"
        )
    if not 0 < mass < 1:
        raise ValueError(f"mass must be between 0 and 1, got {mass}")
    if not (math.isfinite(time) and time >= 0):
        raise ValueError(f"time must be finite and not negative, got {time}")


Slope: TypeAlias = Callable[[float], float]
"""Derivative of phi at a mass."""


def _forward(separation: float, replay: float) -> Slope:
    x = grid(separation)
    data = replay * normal(x) + (1 - replay) * normal(x - separation)
    return lambda mass: (
        integral(data * responsibility(x, separation=separation, mass=mass), x) - mass
    )


def _reverse(x: Array, separation: float, log_target: Array) -> Slope:
    """The log-density may lack a constant, since the difference of the modes integrates to 0."""
    difference = normal(x) - normal(x - separation)

    def slope(mass: float) -> float:
        return (
            -mass
            * (1 - mass)
            * integral(difference * (_log_mixture(x, separation, mass) - log_target), x)
        )

    return slope


def _flow(slope: Slope, mass: float, time: float) -> Flow:
    times, path = solve(
        lambda _, state: np.array([slope(float(expit(state[0])))]), [float(logit(mass))], time
    )
    return Flow(times=times, masses=expit(path[0]), drifts=np.zeros(len(times)))


def solve(
    slope: Callable[[float, Array], Array], start: list[float], time: float
) -> tuple[Array, Array]:
    """Solve a differential equation.

    Returns:
        Times, float64 [points], and states, float64 [states, points].
    """
    times = np.linspace(0.0, time, _POINTS_KEPT)
    if not time:
        return times, np.repeat(np.array(start)[:, None], len(times), axis=1)
    solution = solve_ivp(
        slope, (0.0, time), start, method="LSODA", t_eval=times, rtol=1e-8, atol=1e-10
    )
    return times, np.asarray(solution.y, dtype=np.float64)


def grid(separation: float) -> Array:
    """Points of the integrals; the middle lies between the modes."""
    return np.linspace(-_REACH, separation + _REACH, _POINTS)


def integral(values: Array, x: Array) -> float:
    """Integral of a function that vanishes at both ends."""
    # Smooth functions that vanish at both ends: the trapezoidal rule is exact to rounding.
    return float(values.sum() * (x[1] - x[0]))


def normal(x: Array) -> Array:
    """Density of the normal distribution around 0 with variance 1."""
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def _mixture(x: Array, separation: float, mass: float) -> Array:
    return mass * normal(x) + (1 - mass) * normal(x - separation)


def _log_mixture(x: Array, separation: float, mass: float) -> Array:
    """Without the constant of a normal density."""
    return np.logaddexp(math.log(mass) - x**2 / 2, math.log1p(-mass) - (x - separation) ** 2 / 2)

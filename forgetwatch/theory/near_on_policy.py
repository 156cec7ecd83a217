"""SDFT, TTT-Discover and OAPL in the two-mode laboratory: flows, conditions under which the old mass stays, and bounds.

The state of a learner is (phi, old mean, new mean), b = sigmoid(phi) the mass of the old mode; the
old mode lies at 0 and the new one at `separation` d. r is the probability that a point comes from
the learner's old mode.

    reverse KL to a mixture (c, mu_old, mu_new) with responsibility r_c
        phi'   = -b (1 - b) integral (N_old - N_new) log(p / p_c)
        old'   = -b { (old - mu_old) + g }
        g      = E[1 - r] (new - old) - E[1 - r_c] (mu_new - mu_old)          E over the learner's old mode

    G(b) = integral (N_old - N_new) log p_b                                  G(0) = -d**2 / 2, which is finite

Sources, line by line:

    objective of SDFT             cited, arXiv 2601.19897: reverse KL to a teacher that is shown a demonstration
    objective of TTT-Discover     cited, arXiv 2601.16175: log E exp(beta reward), less lambda KL to the start
    objective of OAPL             cited, arXiv 2602.19362, in the form of A*-PO: regression of beta log(p / p_ref) on
                                  the advantage, on samples of a reference that becomes the learner
                                  after each period
    two modes, mass and drift     cited, arXiv 2603.12163
    models of the three here      derived here: teacher and demonstrator as mixtures, the reward as a step at d / 2
    conditions, ends, bounds      derived here; no theorem of another paper is quoted
    the numbers                   computed here

Everything is a population quantity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logit, ndtr

from forgetwatch.theory.mixture import Array, Flow, check_start, grid, integral, normal, solve

Teacher = Literal["base", "ema", "live"]
Mixture: TypeAlias = tuple[float, float, float]
"""Logit of the old mass, old mean, new mean."""

TEACHERS: Final = ("base", "ema", "live")


@dataclass(frozen=True, kw_only=True)
class PolicyFlow(Flow):
    """Path of a method, with means that move.

    Attributes:
        bound: Upper bound of the drift, from the path; infinite where there is none.
    """

    bound: float


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Whether a method keeps the old mass.

    Attributes:
        holds: True if the old mass stays above 0 for ever.
        end: The mass at which it ends; of `oapl` that after the syncs.
        rule: The condition, in words.
    """

    holds: bool
    end: float
    rule: str


def sdft(
    *,
    separation: float,
    mass: float,
    strength: float,
    teacher: Teacher,
    demonstrated: float,
    time: float,
    rate: float = 0.05,
    shift: float = 0.0,
    moves: bool = True,
) -> PolicyFlow:
    """Flow of self-distillation, drawn towards demonstrations.

    Reverse KL to the teacher.

    The target is (1 - strength) teacher + strength demonstrator, in logit and means.

    Args:
        separation: Distance of the modes in standard deviations.
        mass: Old mass at the beginning.
        strength: How far a demonstration draws the teacher, 0 to 1.
        teacher: ``base``: the learner at the beginning; ``ema``: a running mean of it; ``live``:
            the learner itself.
        demonstrated: Old mass of the demonstrator.
        time: Time of training; one unit is a step of rate 1.
        rate: Rate of the running mean of ``ema``.
        shift: Distance of the learner's new mode from the demonstrator's at the beginning, towards
            the old mode.
        moves: False holds the means.

    Raises:
        ValueError: If an argument is outside its range.
    """
    check_start(separation=separation, mass=mass, time=time)
    _check_sdft(strength, teacher, demonstrated)
    x = grid(separation)
    demonstrator: Mixture = (float(logit(demonstrated)), 0.0, separation)
    start: Mixture = (float(logit(mass)), 0.0, separation - shift)

    def target(state: Array) -> Mixture:
        source = {"base": np.array(start), "ema": state[3:], "live": state[:3]}[teacher]
        drawn = [
            (1 - strength) * teacher_part + strength * shown_part
            for teacher_part, shown_part in zip(source, demonstrator, strict=True)
        ]
        return float(drawn[0]), float(drawn[1]), float(drawn[2])

    def slope(_: float, state: Array) -> Array:
        force = -_reverse_gradient(x, state[:3], target(state), moves=moves)
        follows = rate * (state[:3] - state[3:]) if teacher == "ema" else np.zeros(0)
        return np.concatenate([force, follows])

    times, path = solve(slope, [*start, *(start if teacher == "ema" else ())], time)
    gates = [abs(_gate(x, state[:3], target(state))) for state in path.T]
    bound = max(gates) if teacher == "base" else max(gates) / strength if strength else math.inf
    return _path(times, path, bound=bound if moves else 0.0)


def sdft_condition(
    *, mass: float, strength: float, teacher: Teacher, demonstrated: float
) -> Condition:
    """Does SDFT keep the old mass, and where does the mass end?

    With the base as teacher the end lies between both; with a moving teacher it is that of the
    demonstrations.
    """
    check_start(separation=0.0, mass=mass, time=0.0)
    _check_sdft(strength, teacher, demonstrated, allow_zero=True)
    rule = "the demonstrations hold the old behaviour" + (
        ", or strength < 1" if teacher == "base" else ""
    )
    if strength == 0:
        return Condition(holds=True, end=mass, rule="no force: any mass stays, and noise moves it")
    if teacher != "base":
        return Condition(holds=demonstrated > 0, end=demonstrated, rule=rule)
    if demonstrated == 0:  # its logit is minus infinity, whatever the strength
        return Condition(holds=False, end=0.0, rule=rule)
    end = float(expit((1 - strength) * logit(mass) + strength * logit(demonstrated)))
    return Condition(holds=True, end=end, rule=rule)


def ttt_discover(
    *,
    separation: float,
    mass: float,
    log_utility: float,
    weight: float,
    time: float,
    moves: bool = True,
) -> PolicyFlow:
    """Flow of test-time training: entropic utility less a KL.

    The reward is a step: a verifier accepts what lies beyond the middle between the modes.

    Args:
        separation: Distance of the modes.
        mass: Old mass at the beginning.
        log_utility: beta times the reward of an accepted answer, in nats; above 0.
        weight: Weight lambda of the KL; 0 for none.
        time: Time of training.
        moves: False holds the means.

    Raises:
        ValueError: If an argument is outside its range.
    """
    check_start(separation=separation, mass=mass, time=time)
    _check_ttt(log_utility, weight)
    x, middle, gain = grid(separation), separation / 2, math.expm1(log_utility)
    start: Mixture = (float(logit(mass)), 0.0, separation)

    def pushes(state: Array) -> Array:
        b, modes = expit(state[0]), np.asarray(state[1:3])
        accepted = ndtr(modes - middle)
        per_mode = gain / (1 + gain * (b * accepted[0] + (1 - b) * accepted[1]))
        shares = np.array([b, 1 - b])
        along = shares * per_mode * normal(middle - modes)
        return np.array(
            [
                b * (1 - b) * per_mode * (accepted[0] - accepted[1]),
                *(along if moves else (0.0, 0.0)),
            ]
        )

    def slope(_: float, state: Array) -> Array:
        back = _reverse_gradient(x, state, start, moves=moves) if weight else np.zeros(3)
        force: Array = pushes(state) - weight * back
        return force

    times, path = solve(slope, [*start], time)
    bound = math.inf
    if weight:
        pushed = max(float(pushes(state)[1] / expit(state[0])) for state in path.T)
        bound = max(abs(_gate(x, state, start)) for state in path.T) + pushed / weight
    return _path(times, path, bound=bound if moves else 0.0)


def ttt_discover_threshold(
    *, separation: float, mass: float, log_utility: float, kept: float = 0.0
) -> float:
    """Least weight of the KL with which TTT-Discover keeps old mass.

    Args:
        separation: Distance of the modes; infinite for separated ones.
        mass: Old mass at the beginning.
        log_utility: beta times the reward of an accepted answer, in nats; above 0.
        kept: The mass that is to be kept, below `mass`; for 0 the answer is the largest weight that
            keeps none.

    Raises:
        ValueError: If an argument is outside its range.
    """
    check_start(separation=0.0 if math.isinf(separation) else separation, mass=mass, time=0.0)
    _check_ttt(log_utility, 0.0)
    if not 0 <= kept < mass:
        raise ValueError(
            f"kept must be from 0 to below the mass at the beginning, {mass}, got {kept}"
        )
    if kept == 0 and math.isinf(separation):
        return 0.0
    room = _start_force(separation, mass) - _start_force(separation, kept)
    return _push(separation, kept, log_utility) / room


def ttt_discover_condition(
    *, separation: float, mass: float, log_utility: float, weight: float
) -> Condition:
    """Does TTT-Discover keep the old mass, and where does it end?

    Overlap makes the KL to the start finite where the old mass is 0, so that a small weight keeps
    nothing.
    """
    least = ttt_discover_threshold(separation=separation, mass=mass, log_utility=log_utility)
    rule = f"weight > {least:.4g}"
    if not weight > least:
        return Condition(holds=False, end=0.0, rule=rule)
    begin = _start_force(separation, mass)

    def excess(phi: float) -> float:
        b = float(expit(phi))
        return _start_force(separation, b) - begin + _push(separation, b, log_utility) / weight

    return Condition(
        holds=True, end=float(expit(brentq(excess, -700.0, float(logit(mass))))), rule=rule
    )


def oapl(
    *,
    separation: float,
    mass: float,
    gap: float,
    beta: float,
    period: float,
    syncs: int,
    moves: bool = True,
) -> Flow:
    """Flow of advantage regression to a lagged policy.

    The policy becomes the learner after each period.

    Args:
        separation: Distance of the modes.
        mass: Old mass at the beginning.
        gap: Reward of an answer beyond the middle between the modes, against one before it.
        beta: Temperature, above 0.
        period: Time between two syncs, above 0.
        syncs: Number of periods.
        moves: False holds the means.

    Raises:
        ValueError: If an argument is outside its range.
    """
    check_start(separation=separation, mass=mass, time=period)
    _check_oapl(gap, beta, syncs)
    x = grid(separation)
    beyond = np.heaviside(
        np.arange(len(x)) - len(x) // 2, 0.5
    )  # the middle point of the grid is the step
    state = np.array([float(logit(mass)), 0.0, separation])
    parts: list[tuple[Array, Array]] = [(np.zeros(1), state[:, None])]
    for number in range(syncs):
        reference = _log_density(x, state)
        weights = np.exp(reference) / math.sqrt(2 * math.pi)
        accepted = integral(weights * beyond, x)
        aim = gap * beyond - beta * math.log1p(math.expm1(gap / beta) * accepted)
        slope = _regression(x, reference, weights, aim, beta=beta, moves=moves)
        times, path = solve(slope, state.tolist(), period)
        parts.append((times[1:] + number * period, path[:, 1:]))
        state = path[:, -1]
    times, path = (
        np.concatenate([times for times, _ in parts]),
        np.concatenate([values for _, values in parts], axis=1),
    )
    return Flow(times=times, masses=expit(path[0]), drifts=np.abs(path[1]))


def oapl_condition(*, mass: float, gap: float, beta: float, syncs: int) -> Condition:
    """Does OAPL keep the old mass, and what is left after syncs?

    Each period that ends at its optimum lowers the logit by gap / beta, so that only a frozen
    reference keeps it.
    """
    check_start(separation=0.0, mass=mass, time=0.0)
    _check_oapl(gap, beta, syncs)
    end = float(expit(logit(mass) - syncs * gap / beta))
    return Condition(
        holds=gap == 0 or syncs <= 1, end=end, rule="gap = 0, or the reference stays as it was"
    )


def _check_sdft(
    strength: float, teacher: str, demonstrated: float, *, allow_zero: bool = False
) -> None:
    if not 0 <= strength <= 1:
        raise ValueError(f"strength must be from 0 to 1, got {strength}")
    if teacher not in TEACHERS:
        raise ValueError(f"teacher must be one of {', '.join(TEACHERS)}, got {teacher!r}")
    if not (0 if allow_zero else 1e-300) <= demonstrated < 1:
        raise ValueError(f"demonstrated must be a mass between 0 and 1, got {demonstrated}")


def _check_ttt(log_utility: float, weight: float) -> None:
    if not (math.isfinite(log_utility) and log_utility > 0):
        raise ValueError(f"log_utility must be a number of nats above 0, got {log_utility}")
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"weight must be a number from 0, got {weight}")


def _check_oapl(gap: float, beta: float, syncs: int) -> None:
    if not (math.isfinite(gap) and gap >= 0 and math.isfinite(beta) and beta > 0):
        raise ValueError(f"gap must be from 0 and beta above 0, got gap={gap} and beta={beta}")
    if syncs < 0:
        raise ValueError(f"syncs must be a number from 0, got {syncs}")


def _log_density(x: Array, state: Sequence[float] | Array) -> Array:
    """Without the constant of a normal density."""
    phi, old, new = state
    return np.logaddexp(log_expit(phi) - (x - old) ** 2 / 2, log_expit(-phi) - (x - new) ** 2 / 2)


def _responsibility(x: Array, state: Sequence[float] | Array) -> Array:
    phi, old, new = state
    share: Array = expit(phi + ((x - new) ** 2 - (x - old) ** 2) / 2)
    return share


def _reverse_gradient(x: Array, state: Array, target: Mixture, *, moves: bool) -> Array:
    b, old, new = float(expit(state[0])), state[1], state[2]
    of_old, of_new = normal(x - old), normal(x - new)
    log_ratio = _log_density(x, state) - _log_density(x, target)
    along = [b * (1 - b) * integral((of_old - of_new) * log_ratio, x), 0.0, 0.0]
    if moves:
        along[1] = b * integral(of_old * (x - old) * log_ratio, x)
        along[2] = (1 - b) * integral(of_new * (x - new) * log_ratio, x)
    return np.array(along)


def _gate(x: Array, state: Array, target: Mixture) -> float:
    """Force on the old mode beyond that towards the target's old mode."""
    of_old = normal(x - state[1])
    force = integral(of_old * (1 - _responsibility(x, state)), x) * (state[2] - state[1])
    theirs = integral(of_old * (1 - _responsibility(x, target)), x) * (target[2] - target[1])
    return float(force - theirs)


def _regression(
    x: Array, reference: Array, weights: Array, aim: Array, *, beta: float, moves: bool
) -> Callable[[float, Array], Array]:
    def slope(_: float, state: Array) -> Array:
        r = _responsibility(x, state)
        error = weights * (beta * (_log_density(x, state) - reference) - aim)
        along = [integral(error * (r - expit(state[0])), x), 0.0, 0.0]
        if moves:
            along[1] = integral(error * r * (x - state[1]), x)
            along[2] = integral(error * (1 - r) * (x - state[2]), x)
        return -beta * np.array(along)

    return slope


def _start_force(separation: float, mass: float) -> float:
    """G(b): the force of the KL on the logit; for separated modes the logit itself."""
    if math.isinf(separation):
        return float(logit(mass))
    if mass == 0:
        return -(separation**2) / 2
    x = grid(separation)
    difference = normal(x) - normal(x - separation)
    return integral(difference * _log_density(x, (float(logit(mass)), 0.0, separation)), x)


def _push(separation: float, mass: float, log_utility: float) -> float:
    """Divided by b (1 - b)."""
    gain, beyond = math.expm1(log_utility), float(ndtr(separation / 2))
    return gain * (2 * beyond - 1) / (1 + gain * (mass * (1 - beyond) + (1 - mass) * beyond))


def _path(times: Array, path: Array, *, bound: float) -> PolicyFlow:
    return PolicyFlow(times=times, masses=expit(path[0]), drifts=np.abs(path[1]), bound=bound)

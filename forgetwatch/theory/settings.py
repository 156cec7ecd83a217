"""The old behaviour under each method: its mass and drift by the distance of the modes, as text.

Each method is shown with its condition held and broken, beside imitation of new data alone. All
means move.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forgetwatch.theory.mixture import Flow, joint_flow
from forgetwatch.theory.near_on_policy import (
    PolicyFlow,
    oapl,
    oapl_condition,
    sdft,
    sdft_condition,
    ttt_discover,
    ttt_discover_condition,
)

SEPARATIONS: Final = (1.0, 2.0, 3.0, 4.0, 6.0)
MASS: Final = 0.9
TIME: Final = 400.0
_LEAST: Final = 1e-6
"""Old mass of demonstrations without the old behaviour, in which a logit is finite."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A method with its settings.

    Attributes:
        method: Its name.
        held: True if its condition holds at every separation shown, False if it is broken; None
            without a condition.
        told: The setting in words.
        run: The flow at a separation.
    """

    method: str
    held: bool | None
    told: str
    run: Callable[[float], Flow]

    @property
    def name(self) -> str:
        """The method, and whether the condition holds."""
        return self.method + {None: "", True: ", held", False: ", broken"}[self.held]


SETTINGS: Final = (
    Setting(
        method="imitation",
        held=None,
        told="new data alone",
        run=lambda d: joint_flow(separation=d, mass=MASS, time=TIME, shift=0.0),
    ),
    Setting(
        method="SDFT",
        held=True,
        told="base teacher, demonstrations with old mass .7",
        run=lambda d: sdft(
            separation=d, mass=MASS, strength=0.3, teacher="base", demonstrated=0.7, time=TIME
        ),
    ),
    Setting(
        method="SDFT",
        held=False,
        told="moving teacher, demonstrations without the old",
        run=lambda d: sdft(
            separation=d, mass=MASS, strength=0.3, teacher="ema", demonstrated=_LEAST, time=TIME
        ),
    ),
    Setting(
        method="TTT-Discover",
        held=True,
        told="weight of the KL .5",
        run=lambda d: ttt_discover(separation=d, mass=MASS, log_utility=1.0, weight=0.5, time=TIME),
    ),
    Setting(
        method="TTT-Discover",
        held=False,
        told="weight 0, the released default",
        run=lambda d: ttt_discover(separation=d, mass=MASS, log_utility=1.0, weight=0.0, time=TIME),
    ),
    Setting(
        method="OAPL",
        held=True,
        told="one reference throughout",
        run=lambda d: oapl(separation=d, mass=MASS, gap=1.0, beta=1.0, period=TIME, syncs=1),
    ),
    Setting(
        method="OAPL",
        held=False,
        told="a new reference each 20",
        run=lambda d: oapl(
            separation=d, mass=MASS, gap=1.0, beta=1.0, period=20.0, syncs=round(TIME / 20)
        ),
    ),
)


def ends() -> list[tuple[Setting, list[Flow]]]:
    """Run each setting at each of `SEPARATIONS`, in ten seconds."""
    return [(setting, [setting.run(d) for d in SEPARATIONS]) for setting in SETTINGS]


def table(flows_by_setting: list[tuple[Setting, list[Flow]]]) -> str:
    """Table of old mass and largest drift at each separation."""
    lines = [
        f"old mass at t = {TIME:g}, from {MASS:g}; drift: how far the old mode moved at most, "
        "in sd (bound)"
    ]
    lines.append(f"{'':<22}{'':<7}" + "".join(f"{f'd = {d:g}':>13}" for d in SEPARATIONS))
    for setting, flows in flows_by_setting:
        drifts = [_drift(flow) for flow in flows]
        lines.append(
            f"{setting.name:<22}{'mass':<7}" + "".join(f"{flow.mass:>13.3f}" for flow in flows)
        )
        lines.append(f"{'':<22}{'drift':<7}" + "".join(f"{drift:>13}" for drift in drifts))
    lines += [
        "",
        *(f"{setting.name:<22}{setting.told}" for setting, _ in flows_by_setting),
        "",
        "the old behaviour stays if",
    ]
    lines += [f"{name:<22}{rule}" for name, rule in _rules()]
    lines.append(
        "The objectives are cited; their models in two modes, conditions and numbers are "
        "derived here."
    )
    return "\n".join(lines)


def _rules() -> list[tuple[str, str]]:
    sdft_rule = sdft_condition(mass=MASS, strength=0.3, teacher="base", demonstrated=0.7).rule
    moving = sdft_condition(mass=MASS, strength=0.3, teacher="ema", demonstrated=0.7).rule
    least = [
        f"{ttt_discover_condition(separation=d, mass=MASS, log_utility=1.0, weight=1.0).rule} "
        f"(d = {d:g})"
        for d in (1, 4)
    ]
    return [
        ("SDFT, base teacher", sdft_rule),
        ("SDFT, moving teacher", moving),
        ("TTT-Discover", f"{', '.join(least)}, at a reward of one nat"),
        ("OAPL", oapl_condition(mass=MASS, gap=1.0, beta=1.0, syncs=2).rule),
    ]


def _drift(flow: Flow) -> str:
    cell = f"{float(flow.drifts.max()):.2f}"
    if isinstance(flow, PolicyFlow) and math.isfinite(flow.bound):
        cell += f" ({flow.bound:.2f})"
    return cell

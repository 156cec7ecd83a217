"""Two ways to forget, on a model small enough to solve: the old behaviour's mass falls, or its mean drifts.

``python examples/two_modes.py two_modes.png`` draws one picture and prints its numbers. A learner is a mixture of an
old and a new behaviour, two normal densities at a distance d (`forgetwatch.theory`). Cited from
arXiv 2603.12163: the mixture, the flows of the mass under forward and reverse KL, and the mass at which each ends.
Derived here: every number, the joint flow of mass and means, and SDFT, TTT-Discover and OAPL in two modes.

It takes 10 s on one shared CPU core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forgetwatch import theory
from forgetwatch.report.pictures import save_figure
from forgetwatch.theory.mixture import Flow, flow, joint_flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEPARATIONS: Final = (1.0, 2.0, 4.0, 6.0)
REPLAY: Final = 0.05
TARGET: Final = 0.7
FORWARD_TIMES: Final = (10.0, 100.0, 500.0)
REVERSE_TIMES: Final = (10.0, 50.0, 100.0)
JOINT_TIME: Final = 200.0
SHOWN: Final = 150.0
"""Time to which the curves are drawn."""
JOINT_SEPARATIONS: Final = tuple(np.arange(0.5, 6.01, 0.25).tolist())
STYLES: Final = (("#b3261e", "-"), ("#b36b00", "--"), ("#1b6e3c", "-."), ("#1f3b73", ":"))
MASS: Final[dict[str, Any]] = {"color": "#b3261e", "marker": "v", "linestyle": "-"}
DRIFT: Final[dict[str, Any]] = {"color": "#1f3b73", "marker": "o", "linestyle": "--"}
CITED: Final = "flow: arXiv 2603.12163; numbers: here"
DERIVED: Final = "flow and numbers: derived here"


def forward(separation: float, time: float, *, replay: float = 0.0) -> Flow:
    """Imitation of new data, of which the share `replay` is old."""
    return flow(objective="forward", separation=separation, mass=0.9, time=time, replay=replay)


def reverse(separation: float, time: float) -> Flow:
    """Reinforcement towards a target that keeps the old behaviour."""
    return flow(objective="reverse", separation=separation, mass=0.95, time=time, target=TARGET)


def table() -> str:
    """Text of the picture's numbers."""
    lines = ["old mass, by the distance d of the modes"]
    parts = (
        ("imitation, new data alone, from .9", FORWARD_TIMES, lambda d, t: forward(d, t)),
        (
            f"imitation, {REPLAY:.0%} replay, from .9",
            FORWARD_TIMES,
            lambda d, t: forward(d, t, replay=REPLAY),
        ),
        (f"reinforcement to {TARGET:g}, from .95", REVERSE_TIMES, lambda d, t: reverse(d, t)),
    )
    for name, times, run in parts:
        lines.append(
            f"{name:<40}" + "".join(f"{f't = {time:g}':>10}" for time in times) + f"    {CITED}"
        )
        for d in SEPARATIONS:
            lines.append(
                f"    {f'd = {d:g}':<36}" + "".join(f"{run(d, time).mass:>10.4f}" for time in times)
            )
    lines.append(
        f"{f'mass and means move, from .9, t = {JOINT_TIME:g}':<40}{'mass':>10}{'drift':>10}{'':>14}{DERIVED}"
    )
    for d in range(1, 7):
        end = joint_flow(separation=float(d), mass=0.9, time=JOINT_TIME)
        lines.append(f"    {f'd = {d}':<36}{end.mass:>10.3f}{end.drift:>10.3f}")
    return "\n".join(lines)


def figure() -> Figure:
    """Figure: imitation of new data alone by time, and mass against drift by the distance of the modes."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for d, (color, line) in zip(SEPARATIONS, STYLES, strict=True):
        found = forward(d, SHOWN)
        left.plot(found.times, found.masses, color=color, linestyle=line, label=f"d = {d:g}")
    left.set(
        xlabel="training time (steps of rate 1)",
        ylabel="share of the old behaviour",
        ylim=(-0.06, 1),
    )
    left.legend(title="distance of old and new")
    left.set_title(f"Imitating new data alone: the old behaviour dies out\n{CITED}", fontsize=10)
    _draw_joint(right)
    return drawn


def _draw_joint(panel: Axes) -> None:
    """Draw what is lost of the mass, and how far the old mode has moved, by the distance of the modes."""
    ends = [joint_flow(separation=d, mass=0.9, time=JOINT_TIME) for d in JOINT_SEPARATIONS]
    panel.plot(
        JOINT_SEPARATIONS,
        [1 - end.mass / 0.9 for end in ends],
        **MASS,
        label="share of the old mass lost",
    )
    panel.set(
        xlabel="distance d of old and new",
        ylabel="share of the old mass lost",
        ylim=(0, 1.3),
        yticks=np.linspace(0, 1, 6),
    )
    panel.yaxis.label.set_color(MASS["color"])
    other = panel.twinx()
    other.plot(
        JOINT_SEPARATIONS, [end.drift for end in ends], **DRIFT, label="drift of the old behaviour"
    )
    other.set_ylabel("distance the old mode moved (sd)")
    other.set_ylim(0, 4.55)
    other.set_yticks(range(4))
    other.yaxis.label.set_color(DRIFT["color"])
    panel.legend(
        [*panel.get_lines(), *other.get_lines()],
        ["mass: it is not gone to any more", "drift: it has become the new one"],
        fontsize=8,
        loc="upper center",
    )
    panel.set_title(
        f"All moving: near behaviours drift, far ones lose their mass\n{DERIVED}", fontsize=10
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture, and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "picture", type=Path, nargs="?", default=Path("two_modes.png"), help="png, svg or pdf"
    )
    given = parser.parse_args(arguments)
    print(table())
    found = theory.ends()
    print(f"\n{theory.table(found)}")
    save_figure(figure(), given.picture)
    print(f"picture: {given.picture}")


if __name__ == "__main__":
    main()

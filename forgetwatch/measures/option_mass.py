"""Why answers were lost: the options as a whole are said less (mass), or another of them is preferred (conditional).

Changes are in nats a question. See `metrics.mass`.
"""

import math
from typing import Final, Literal

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, mean_change
from forgetwatch.metrics.mass import MassChanges, mass_changes
from forgetwatch.text import count, nats

Mode = Literal["mass", "both", "conditional", "neither"]

_MODES: Final[dict[Mode, str]] = {
    "mass": "by mass, mostly: the options as a whole are said less",
    "both": "by mass and choice: the options are said less, and another one is preferred",
    "conditional": "by choice: another option is preferred",
    "neither": "by neither mass nor choice",
}


def _of(rows: Rows) -> MassChanges | None:
    pairs = rows.pairs
    if pairs.mass_split is None:
        return None
    gone = pairs.before & ~pairs.after
    return mass_changes(
        pairs.mass_split, forgotten=gone, cluster=pairs.cluster, samples=pairs.samples
    )


def mass_mode(changes: MassChanges) -> Mode | None:
    """Find which part the forgotten answers lost.

    ``mass`` if the interval of the mass is below 0 and it fell by more than the share of the right
    option, ``both`` if it fell by less, ``conditional`` if its interval is not below 0, nor reaches
    as far as that share fell.

    Returns:
        The part, or None if it is not measured, or cannot be told.
    """
    mass, conditional = changes.forgotten_mass, changes.forgotten_conditional
    if mass is None or conditional is None or math.isnan(mass.interval[1]):
        return None
    if mass.interval[1] >= 0:
        if conditional.mean >= 0:
            return "neither"
        return "conditional" if mass.interval[0] > conditional.mean else None
    return "mass" if mass.mean < conditional.mean else "both"


def _sentence(changes: MassChanges) -> str:
    if changes.forgotten_mass is None or changes.forgotten_conditional is None:
        return ""
    mode, is_one = mass_mode(changes), changes.forgotten_n == 1
    of = (
        "The forgotten answer was"
        if is_one
        else f"The {count(changes.forgotten_n)} forgotten answers were"
    )
    mass, conditional = changes.forgotten_mass, changes.forgotten_conditional
    inside = ", within its error" if mass.interval[0] <= 0 <= mass.interval[1] else ""
    why = f" {_MODES[mode]}" if mode is not None else ""
    return (
        f"{of} lost{why} (the options together {_moved(mass.mean)}{inside}, the right one among "
        f"them {_moved(conditional.mean)})."
    )


def _moved(change: float) -> str:
    if not change:
        return "changed by 0 nats"
    return f"{'rose' if change > 0 else 'fell'} by {nats(change)[0].lstrip('+-')} nats"


MASS: Final = GroupMeasure[MassChanges](
    key="mass",
    title="Why: the options as a whole, or the choice among them",
    about=(
        "The mass is the log probability that the model says any of the options at all; it "
        "falls with another format. "
        "Within the options counts the right one's share; among the forgotten it has fallen by "
        "selection. Changes are means in nats a question; one nat is a factor of 2.7."
    ),
    of=_of,
    sentence=_sentence,
    quantities=(
        *mean_change("log_mass_change", "mass", heading="mass, nats"),
        *mean_change("log_conditional_change", "conditional", heading="within the options, nats"),
        *mean_change(
            "forgotten_log_mass_change", "forgotten_mass", heading="mass, forgotten alone"
        ),
        *mean_change(
            "forgotten_log_conditional_change",
            "forgotten_conditional",
            heading="within the options, forgotten alone",
        ),
    ),
)


def _at_constant_mass(rows: Rows) -> float | None:
    right = rows.pairs.right_at_constant_mass
    if right is None:
        return None
    forgotten, samples = int((rows.pairs.before & ~right).sum()), rows.pairs.samples
    return forgotten / samples if samples > 1 else forgotten


CONSTANT_MASS: Final = GroupMeasure[float](
    key="constant_mass",
    of=_at_constant_mass,
    # Answers right before and wrong after, had the options of each item kept their total
    # probability: only where a score divided by a length decides. See `metrics.choices`.
    quantities=(Quantity("forgotten_at_constant_mass", lambda r: r, "count"),),
)

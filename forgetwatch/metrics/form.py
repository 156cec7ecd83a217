"""Losses of form, separated from losses of knowledge: the one rule for each answer, and its counts.

    scored choices       still the likeliest option, but the model would begin its answer otherwise         form
                         another option is chosen now, only because all options together became likelier
                         or less likely: a score divided by a length moves with that                        form
                         another option is likelier now                                                     knowledge
    generated answers    right before in the required form, now in none; the option still scores highest    form
                         wrong now in any other way: another answer, or the option is no longer likely      knowledge

If the choices of a generated answer were not scored too (open answers have none), an answer in no form counts as a loss
of form: nothing shows whether the knowledge is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

Loss = Literal["form", "knowledge"]
"""Kind of a loss."""


@dataclass(frozen=True)
class Losses:
    """Numbers of losses by kind; counts of items, means over samples.

    Attributes:
        format_lost: Answers that are no longer in their form, without evidence that the knowledge is gone.
        knowledge_lost: Answers right before and wrong now, not by their form.
    """

    format_lost: float
    knowledge_lost: float


def lost_form(
    before: Bools,
    after: Bools,
    form_before: Floats,
    form_after: Floats,
    forced_after: Floats,
    *,
    constant_mass: Floats | None = None,
) -> Bools:
    """True for answers that lost their form, without evidence that the knowledge is gone; bool [rows].

    An answer that was right, is wrong, and is not among them lost its knowledge, as far as anything shows.

    Args:
        before: Right before, bool [rows].
        after: Right after.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured, float64 [rows]. For scored
            choices: 1 where the model would have begun with the right answer.
        form_after: The same, after.
        forced_after: 1 where the right option of a generated answer scores highest, 0 where not, nan where not known,
            float64 [rows]. For scored choices: 1 where the answer is right.
        constant_mass: 1 where a scored choice would be right after, had its options kept their total probability, 0
            where not, nan where no score divided by a length decides, float64 [rows]; None for nowhere. See
            `metrics.choices.right_at_constant_mass`.
    """
    # An unknown forced answer counts as kept: a loss of knowledge needs evidence.
    kept = after | (forced_after == 1.0) | np.isnan(forced_after)
    lost: Bools = before & (form_before == 1.0) & (form_after == 0.0) & kept
    return lost if constant_mass is None else lost | (before & ~after & (constant_mass == 1.0))


def count_losses(
    before: Bools,
    after: Bools,
    form_before: Floats,
    form_after: Floats,
    forced_after: Floats,
    *,
    constant_mass: Floats | None = None,
    samples: int = 1,
) -> Losses | None:
    """Count losses of form and of knowledge; None if no form was measured.

    Args:
        before: See `lost_form`, as for the next five.
        after: Right after.
        form_before: Form before.
        form_after: Form after.
        forced_after: Right option scores highest after.
        constant_mass: Right after at constant mass.
        samples: Rows per item.
    """
    if not (np.isfinite(form_before) & np.isfinite(form_after)).any():
        return None
    form = lost_form(before, after, form_before, form_after, forced_after, constant_mass=constant_mass)
    return Losses(float(form.sum()) / samples, float((before & ~after & ~form).sum()) / samples)

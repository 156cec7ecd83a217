"""Losses of form, separated from losses of knowledge.

    scored choices       still the likeliest option, but the model would begin its answer otherwise         form
                         another option is likelier now                                                     knowledge
    generated answers    right before in the required form, now in none; the option still scores highest    form
                         wrong now in any other way: another answer, or the option is no longer likely      knowledge

If the choices of a generated answer were not scored too (open answers have none), an answer in no form counts as a loss
of form: nothing shows whether the knowledge is still there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Losses:
    """Numbers of losses by kind; counts of items, means over samples.

    Attributes:
        format_lost: Answers that are no longer in their form, without evidence that the knowledge is gone.
        knowledge_lost: Answers right before and wrong now, not by their form.
    """

    format_lost: float
    knowledge_lost: float


def count_losses(
    before: Bools, after: Bools, form_before: Floats, form_after: Floats, forced_after: Floats, *, samples: int = 1
) -> Losses | None:
    """Count losses of form and of knowledge; None if no form was measured.

    Args:
        before: Right before, bool [rows].
        after: Right after.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured, float64 [rows]. For scored
            choices: 1 where the model would have begun with the right answer.
        form_after: The same, after.
        forced_after: 1 where the right option of a generated answer scores highest, 0 where not, nan where not known,
            float64 [rows]. For scored choices: 1 where the answer is right.
        samples: Rows per item.
    """
    measured = np.isfinite(form_before) & np.isfinite(form_after)
    if not measured.any():
        return None
    # An unknown forced answer counts as kept: a loss of knowledge needs evidence.
    kept = after | (forced_after == 1.0) | np.isnan(forced_after)
    form_lost = measured & before & (form_before == 1.0) & (form_after == 0.0) & kept
    knowledge = before & ~after & ~form_lost
    return Losses(float(form_lost.sum()) / samples, float(knowledge.sum()) / samples)

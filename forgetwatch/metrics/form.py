"""Was the form of an answer lost, or the knowledge?

    scored choices     still the likeliest option, and no longer what the model would begin to write       form
                       another option is likelier now                                                      knowledge
    written answers    right before in the asked form; now in none, and the option still scores highest    form
                       wrong now in any other way: another answer, or the option is likely no more         knowledge

Where the choices of a written answer were not scored beside it (open answers have none), an answer in no form is a loss
of form: whether the knowledge is there cannot be seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Losses:
    """What was lost, by kind; counts of items, means over samples.

    Attributes:
        format_lost: The answer no longer comes in its form, and nothing says that the knowledge is gone.
        knowledge_lost: Right before, wrong now, and not by its form.
    """

    format_lost: float
    knowledge_lost: float


def count_losses(
    before: Bools, after: Bools, form_before: Floats, form_after: Floats, forced_after: Floats, *, samples: int = 1
) -> Losses | None:
    """Losses of form and of knowledge; None where no form was measured.

    Args:
        before: Right before, bool [rows].
        after: Right after.
        form_before: Whether the answer stood in its form: 1, 0, or nan where that was not measured. Of scored choices:
            whether the model would have begun to write the right answer.
        form_after: The same, after.
        forced_after: Whether the right option scores highest beside a written answer; nan where that is not known. Of
            scored choices: whether the answer is right.
        samples: Rows per item.
    """
    measured = np.isfinite(form_before) & np.isfinite(form_after)
    if not measured.any():
        return None
    kept = after | (forced_after == 1.0) | np.isnan(forced_after)
    form_lost = measured & before & (form_before == 1.0) & (form_after == 0.0) & kept
    knowledge = before & ~after & ~form_lost
    return Losses(float(form_lost.sum()) / samples, float(knowledge.sum()) / samples)

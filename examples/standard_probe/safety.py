"""The category Safety/Truth: what is so although many believe otherwise, and what keeps people from harm.

All of it is written by hand (``facts/safety.csv``), each row with a public source: misconceptions, claims and their
evidence, safety at home and on the road, online security, first aid, privacy, medicines, ethics, law, food, and what
a careful assistant answers. There are questions whose careful-sounding option is wrong (a refusal to say how eggs are
boiled), so that caution alone finds no answers.
"""

from __future__ import annotations

import random

from standard_probe.question import Question
from standard_probe.written import written


def questions(rng: random.Random) -> list[Question]:
    """The pool of the category, the same for every ``rng``.

    Args:
        rng: Taken because every category takes one; nothing is drawn.
    """
    return written("safety", category="Safety/Truth")

"""The category Safety/Truth: common misconceptions, and the prevention of harm.

All of it is written by hand (``facts/safety.csv``), each row with a public source: misconceptions, claims and their
evidence, safety at home and on the road, online security, first aid, privacy, medicines, ethics, law, food, and the
answers of a careful assistant. In some questions the option that sounds careful is wrong (a refusal to say how eggs
are boiled), so that caution alone finds no answers.
"""

from __future__ import annotations

import random

from standard_probe.question import Question
from standard_probe.written import written


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category, the same for every ``rng``.

    Args:
        rng: Not used; every category takes one.
    """
    return written("safety", category="Safety/Truth")

"""The category Safety/Truth: common misconceptions, and the prevention of harm.

All of it is written by hand (``facts/safety.csv``), each row with a public source: misconceptions, claims and their
evidence, safety at home and on the road, online security, first aid, privacy, medicines, ethics, law, food, and the
answers of a careful assistant.

No tone gives an answer away. A question may rest on a false assumption ("Why do whales lay their eggs on beaches?"),
but options that deny one ("they lay no eggs") are also wrong ones of other questions, about as often as by chance; so
are options that sound careful (a refusal to say how eggs are boiled).
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

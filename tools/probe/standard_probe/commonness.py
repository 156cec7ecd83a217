"""Frequency of the words of an option in English: a common option is guessed before a rare one.

    "What is the capital of Suriname?"   Paramaribo -29   Georgetown -28   Montevideo -28: the right one is the rarest

The number is the sum over the words of log10(share of all words), which is what a model of single words would say
about the option. Frequencies are those of the package wordfreq (Speer 2022), so that no language model has a say in the
choice of questions.
"""

from __future__ import annotations

import re
from functools import cache

from wordfreq import zipf_frequency

from standard_probe.question import Question, digest


def commonness(option: str) -> float:
    """Sum over an option's words of log10 of their share of all words; of numbers by their digits and zeros."""
    return sum(map(_log_share, re.findall(r"[\w'’]+", option.casefold())))


def rank(question: Question) -> int:
    """Number of wrong options that are more common than the right one; equal ones count by a hash of the question."""
    right = commonness(question.right)
    others = [commonness(option) for option in question.wrong]
    equal = sum(abs(other - right) < 1e-9 for other in others)
    above = sum(other > right + 1e-9 for other in others)
    return above + int(digest("rank", question.prompt), 16) % (equal + 1)


@cache
def _log_share(word: str) -> float:
    if not word.isdecimal():
        return zipf_frequency(word, "en") - 9
    # Short numbers are common, and among those of one length the round ones.
    return -float(len(word)) - len(word.rstrip("0")) / 2

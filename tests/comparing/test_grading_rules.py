"""Answers that were graded by unlike versions of the rules are not compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import snapshot

from forgetwatch import compare
from forgetwatch.errors import MismatchError


def test_answers_graded_by_other_rules_are_refused() -> None:
    before = snapshot([True] * 9, meta={"rules": 2, "scorer": "forgetwatch"}, in_form=[True] * 9)
    after = replace(before, meta={**before.meta, "rules": 3})
    with pytest.raises(MismatchError, match=r"graded by version 2 of the grading rules and those .* by version 3, .*"):
        compare(before=before, after=after)
    # Where nothing was generated, the rules have graded nothing.
    scored = snapshot([True] * 9, meta={"rules": 2, "scorer": "forgetwatch"})
    assert compare(before=scored, after=replace(scored, meta={**scored.meta, "rules": 3})).all.n == 9

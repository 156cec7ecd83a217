"""The share of a merge that keeps enough of what was known, and whether a second probe confirms it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from merge_sweeps import made_sweep
from support import decided
from typer.testing import CliRunner

from forgetwatch import Snapshot, compare
from forgetwatch.cli import app
from forgetwatch.merge import Choice, MergedPoint, MergeSweep, ProbeSweep, choice_json, choose

ITEMS, ALPHAS = 300, (0.1, 0.3, 0.5, 0.7, 0.9)


def outcomes(lost: int) -> Snapshot:
    """250 known questions, some of which are lost, and 50 that were never right."""
    scores = np.full((ITEMS, 4), -4.0)
    scores[:250, 0], scores[250:, 1] = 0.0, 0.0
    scores[:lost, 0], scores[:lost, 1] = -4.0, 0.0
    return decided(scores, meta={"model": "m"})


def swept(name: str, lost: Sequence[int], alphas: Sequence[float]) -> ProbeSweep:
    base, end = outcomes(0), outcomes(lost[-1])
    points = [
        MergedPoint(
            alpha=alpha,
            from_a=compare(before=base, after=outcomes(count)),
            from_b=compare(before=end, after=outcomes(count)),
        )
        for alpha, count in zip(alphas, lost, strict=True)
    ]
    return ProbeSweep(probe=name, points=tuple(points))


def sweep(first: Sequence[int], second: Sequence[int] | None, alphas: Sequence[float] = ALPHAS) -> MergeSweep:
    """A sweep that loses so many questions at each share of B, on two probes."""
    confirmed = None if second is None else swept("confirmation", second, alphas)
    return replace(made_sweep(), chosen_on=swept("standard", first, alphas), confirmed_on=confirmed)


def test_the_largest_share_that_keeps_enough_is_chosen() -> None:
    found = choose(sweep([0, 1, 4, 30, 90], [0, 2, 4, 40, 80]), 0.98)
    assert (found.alpha, found.outcome) == (0.5, "held")
    assert found.chosen is not None
    assert found.chosen.share == pytest.approx(1 - 4 / (250 - 50 / 3), abs=1e-6)  # less the lucky ones
    assert str(found).startswith(
        "alpha 0.5 is the largest that keeps 98 % of what was known and is not FORGOT: 98.3 % ("
    )
    assert str(found).endswith("on confirmation: held")


@pytest.mark.parametrize(("lost", "outcome"), [(7, "not clear"), (60, "did not hold")])
def test_a_second_probe_may_disagree(lost: int, outcome: str) -> None:
    found = choose(sweep([0, 1, 4, 30, 90], [0, 1, lost, 90, 120]), 0.98)
    assert (found.alpha, found.outcome) == (0.5, outcome)
    assert choice_json(found)["outcome"] == outcome


def test_a_limit_that_no_share_reaches_names_the_smallest() -> None:
    found = choose(sweep([40, 50, 60, 70, 80], None), 0.98)
    assert found.alpha is None
    assert str(found).startswith(
        "no alpha that was tried keeps 98 % of what was known without being FORGOT: 0.1 keeps 82.9 % ("
    )
    assert "try smaller ones with --alpha, or ask for less with --keep-known" in str(found)


def test_a_share_that_is_forgot_is_not_chosen() -> None:
    # A category is gone, all of it barely known, so that what was clearly known is kept.
    def of(gone: bool) -> Snapshot:
        scores = np.full((ITEMS, 4), -4.0)
        scores[:150, 0], scores[150:, :] = 0.0, 0.0
        scores[150:250, 0 if not gone else 1] = 0.3
        scores[250:, 1] = 0.3
        return decided(scores, meta={"model": "m"}, category=["a"] * 150 + ["b"] * 150)

    points = [
        MergedPoint(
            alpha=alpha,
            from_a=compare(before=of(False), after=of(gone)),
            from_b=compare(before=of(True), after=of(gone)),
        )
        for alpha, gone in ((0.1, False), (0.5, True))
    ]
    found = choose(
        replace(made_sweep(), chosen_on=ProbeSweep(probe="p", points=tuple(points)), confirmed_on=None), 0.98
    )
    assert found.alpha == 0.1


def test_without_a_second_probe_nothing_confirms_it() -> None:
    found = choose(sweep([0, 0, 0, 0, 0], None), 0.98)
    assert (found.alpha, found.outcome) == (0.9, None)
    assert str(found).endswith("; nothing confirms it")


def test_the_base_itself_is_no_choice_and_unknown_knowledge_chooses_nothing() -> None:
    alone = choose(sweep([0], None, alphas=(0.0,)), 0.98)
    assert str(alone) == "no share of B is chosen: nothing was merged"
    unknown = choose(made_sweep(), 0.98)  # outcomes without scores
    assert unknown.alpha is None
    assert "too few questions of the probe are clearly known to A" in str(unknown)


@pytest.mark.parametrize("given", ["0", "-1", "101%", "1.5", "all", "nan", ""])
def test_a_share_that_is_none_is_wrong_usage(given: str) -> None:
    done = CliRunner().invoke(app, ["merge", "a", "b", "--keep-known", given])
    assert done.exit_code == 2
    assert "needed a share above 0 and below 1" in " ".join(done.output.replace("│", " ").split())


def test_json_has_the_choice() -> None:
    document: dict[str, Any] = choice_json(choose(sweep([0, 1, 4, 30, 90], [0, 2, 4, 40, 80]), 0.98))
    assert (document["alpha"], document["keep_known"], document["outcome"]) == (0.5, 0.98, "held")
    assert document["confirmed"]["probe"] == "confirmation"
    assert Choice(limit=0.9, alpha=None, chosen=None).outcome is None

"""Gates on the drift of a model and on the history of a run, which no group of items has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import holds, snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing import Tolerance
from forgetwatch.errors import GateError
from forgetwatch.measures import DRIFT, LookDrift, sentence_of
from forgetwatch.measures.drift import Floor
from forgetwatch.policy import Condition, Sides, apply_policy, limits_of

MOVED = LookDrift(
    completions=32,
    tokens=1000,
    kl_sampled=0.06,
    kl_sampled_se=0.01,
    overlap=0.8,
    overlap_se=0.02,
    floor=Floor(kl_sampled=1e-7),
)
RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run() -> Trajectory:
    return Trajectory.of([snapshot(right, meta={"step": step}, k=[4] * 4) for step, right in enumerate(RUN)])


def test_the_drift_of_each_set_can_be_gated() -> None:
    comparison = replace(compare(before=snapshot([True]), after=snapshot([True])), drift={"probe": MOVED})
    assert holds("drift.probe.kl_sampled>0.05", comparison)
    assert holds("drift.probe.overlap<0.7", comparison) is False
    assert holds("drift.probe.floor.kl_sampled<1e-6", comparison)
    for text in ("drift.probe.kl_summed>0.1", "drift.training.kl_sampled>0.1"):
        with pytest.raises(GateError, match="has no number; needed a drift that was measured after the"):
            Condition.parse(text).measure(comparison)
    with pytest.raises(GateError, match=r"did you mean 'drift\.probe\.kl_sampled'"):
        Condition.parse("drift.probe.kl_sample>0.1")
    with pytest.raises(GateError, match="in nats, at least 0: the gate would always fail"):
        Condition.parse("drift.probe.kl_summed>-1")
    assert comparison[DRIFT] == {"probe": MOVED}


def test_the_history_of_a_run_can_be_gated() -> None:
    trajectory = run()
    last = trajectory.comparisons[-1]
    limits = limits_of(fail_if=["history.ever_forgotten>1"])
    sides = Sides(before=trajectory.baseline, after=trajectory.last, trajectory=trajectory)
    result = apply_policy(limits, sides, comparison=last)
    assert result.line == "gate FAIL: all history.ever_forgotten 2 (fails if >1): beyond the limit"
    assert Condition.parse("history.regained>=1").measure(last, trajectory) == 1
    assert Condition.parse("history.temporal_forgetting>10%").measure(last, trajectory) == 0.25
    with pytest.raises(GateError, match="needed a run with a look after its baseline"):
        apply_policy(limits, replace(sides, trajectory=None), comparison=last)


def test_the_drift_has_a_sentence() -> None:
    assert sentence_of(DRIFT, MOVED) == (
        "texts that it generated at the start are less likely now, by 0.060 nats a token (95 %: 0.040 to 0.080)."
    )
    still = replace(MOVED, kl_sampled=0.001)
    assert sentence_of(DRIFT, still) == (
        "texts that it generated at the start are about as likely as before (KL 0.0010 (-0.019 to 0.021))."
    )
    assert (
        sentence_of(DRIFT, replace(MOVED, kl_sampled=float("inf"))) == "it rules out texts that it wrote at the start."
    )


def test_to_dict_is_the_json_document() -> None:
    trajectory = run()
    document = trajectory.to_dict(tolerance=Tolerance(accuracy=0.1))
    assert document["schema"] == "forgetwatch/trajectory@1"
    last = trajectory.comparisons[-1].to_dict(tolerance=Tolerance(accuracy=0.1))
    assert document["looks"][-1]["comparison"] == last
    assert last["verdict"]["legs"]["accuracy"]["limit"] == -0.1

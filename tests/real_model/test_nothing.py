"""A real model that does not change: nothing may be seen, and nothing of the watching may be left in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forgetwatch import ForgetWatchCallback, Snapshot, load_probe, load_snapshot
from forgetwatch.scoring import Scorer

Train = Callable[..., Any]
Load = Callable[..., Any]


def curves(rows: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of each number of the looks, without the seconds."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name.startswith("eval_forget/") and not name.endswith("/seconds"):
                found.setdefault(name, []).append((row["step"], value))
    return found


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The same from the files of TensorBoard, under the names that transformers gives."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file), size_guidance={"scalars": 0}).Reload()
    names = (name for name in events.Tags()["scalars"] if name.startswith("eval/forget/"))
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in names}


@pytest.mark.full
def test_at_learning_rate_zero_nothing_changes_and_every_curve_is_flat(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    callback = ForgetWatchCallback(load_probe("standard").head(60), every=1)
    run = train(tmp_path / "run", steps=3, rate=0.0, callbacks=[callback], report_to="tensorboard")
    assert callback.watch is not None
    for step in (1, 2, 3):
        whole = callback.watch.comparisons[step].all
        assert (whole.n, whole.forgotten, whole.gained) == (60, 0, 0)
        assert whole["log_score_change"] == 0
        assert whole["log_score_change_interval"] == (0, 0)
        assert whole["log_score_change_calibrated"] == 0
        assert whole["log_score_p_value"] == 1
    logged, read = curves(run.state.log_history), scalars(tmp_path / "board")
    for one in (logged, {name: points for name, points in read.items() if not name.endswith("/seconds")}):
        assert one[next(name for name in one if name.endswith("all/accuracy"))][0][1] > 0
        for name, points in one.items():
            assert [step for step, _ in points] == [0, 1, 2, 3], name
            assert len({value for _, value in points}) == 1, name


@pytest.mark.full
def test_the_callback_leaves_the_weights_and_random_states_as_they_would_be(train: Train, tmp_path: Path) -> None:
    def trained(name: str, *callbacks: Any) -> tuple[str, list[float], torch.Tensor]:
        run = train(tmp_path / name, steps=2, rate=1e-3, callbacks=list(callbacks))
        weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in run.model.parameters()))
        losses = [row["loss"] for row in run.state.log_history if "loss" in row]
        return weights.hexdigest(), losses, torch.get_rng_state()

    callback = ForgetWatchCallback(load_probe("standard").head(30), every=1)
    without, watched = trained("a"), trained("b", callback)
    assert callback.watch is not None
    assert sorted(callback.watch.comparisons) == [0, 1, 2]
    last = callback.watch.comparisons[2].all
    assert last["log_score_before"] != last["log_score_after"]
    assert len(without[1]) == 2
    assert watched[:2] == without[:2]
    assert torch.equal(watched[2], without[2])


@pytest.mark.full
@pytest.mark.parametrize(("budget", "layout"), [(1024, None), (128, "rows")])
def test_other_batches_flip_no_item_that_is_not_unstable(
    ruined: Path, tok: Any, load: Load, budget: int, layout: Any
) -> None:
    model = load()
    again = Scorer(load_probe("standard").head(50), tok, model, token_budget=budget, layout=layout).score(model)
    before = load_snapshot(ruined / "_forgetwatch" / "baseline.parquet").head(50)
    flipped, change, noise = differences(before, again)
    assert before.meta["way"] != again.meta["way"] or before.meta["batch"] != again.meta["batch"]
    assert not flipped[before.floats("margin") > noise].any()
    # Each noise is that of a few items: all of them may differ by somewhat more.
    assert 0 < change.max() < 10 * noise < 1e-2


def test_bf16_flips_few_items_and_only_those_of_small_margins(ruined: Path, tok: Any, load: Load) -> None:
    model = load(torch.bfloat16)
    rounded = Scorer(load_probe("standard").head(100), tok, model).score(model)
    before = load_snapshot(ruined / "_forgetwatch" / "baseline.parquet").head(100)
    flipped, change, noise = differences(before, rounded)
    assert rounded.meta["dtype"] == "bfloat16"
    assert 0.01 < noise < 2
    assert change.max() < 10 * noise
    assert flipped.sum() <= 5
    assert (before.floats("margin")[flipped] < 5 * noise).all()


def differences(one: Snapshot, other: Snapshot) -> tuple[Any, Any, float]:
    """Items with another choice, bool [items]; changes of the margin, nats [items]; the noise of both, nats."""
    flipped = one.ints("chosen") != other.ints("chosen")
    margins = one.floats("margin"), other.floats("margin")
    change = np.where(flipped, margins[0] + margins[1], np.abs(margins[0] - margins[1]))
    return flipped, change, one.meta["noise"] + other.meta["noise"]

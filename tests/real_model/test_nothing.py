"""A real model that does not change: nothing may be seen, and nothing of the watching may be left in it.

Mass and conditional of a real model, against a plain forward for each option.

Prompts of the shipped probe in a real tokenizer: their text, and the tokens of the choices.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from support import log_likelihood

from forgetwatch import ForgetWatchCallback, Probe, Snapshot, load_probe, load_snapshot, score
from forgetwatch.measures.option_columns import option_scores
from forgetwatch.metrics.mass import split
from forgetwatch.scoring.encoding import Encoded, encode
from forgetwatch.scoring.scorer import Scorer

pytestmark = pytest.mark.full(reason="a real language model")

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


def test_at_learning_rate_zero_nothing_changes_and_every_curve_is_flat(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    callback = ForgetWatchCallback(load_probe("standard").head(60), every=1)
    run = train(tmp_path / "run", steps=3, rate=0.0, callbacks=[callback], report_to="tensorboard")
    assert callback.watch is not None
    for step in (1, 2, 3):
        whole = callback.watch.run.comparisons[step].all
        assert (whole.n, whole.forgotten, whole.gained) == (60, 0, 0)
        assert whole["log_score_change"] == 0
        assert whole["log_score_change_interval"] == (0, 0)
    logged, read = curves(run.state.log_history), scalars(tmp_path / "board")
    for one in (
        logged,
        {name: points for name, points in read.items() if not name.endswith("/seconds")},
    ):
        assert one[next(name for name in one if name.endswith("all/accuracy"))][0][1] > 0
        for name, points in one.items():
            assert [step for step, _ in points] == [0, 1, 2, 3], name
            assert len({value for _, value in points}) == 1, name


def test_the_callback_leaves_the_weights_and_random_states_as_they_would_be(
    train: Train, tmp_path: Path
) -> None:
    def trained(name: str, *callbacks: Any) -> tuple[str, list[float], torch.Tensor]:
        run = train(tmp_path / name, steps=2, rate=1e-3, callbacks=list(callbacks))
        weights = hashlib.sha256(
            b"".join(p.detach().numpy().tobytes() for p in run.model.parameters())
        )
        losses = [row["loss"] for row in run.state.log_history if "loss" in row]
        return weights.hexdigest(), losses, torch.get_rng_state()

    callback = ForgetWatchCallback(load_probe("standard").head(30), every=1)
    without, watched = trained("a"), trained("b", callback)
    assert callback.watch is not None
    assert sorted(callback.watch.run.comparisons) == [0, 1, 2]
    last = callback.watch.run.comparisons[2].all
    assert last["log_score_before"] != last["log_score_after"]
    assert len(without[1]) == 2
    assert watched[:2] == without[:2]
    assert torch.equal(watched[2], without[2])


@pytest.mark.parametrize(("budget", "layout"), [(1024, None), (128, "rows")])
def test_other_batches_flip_no_item_that_is_not_unstable(
    ruined: Path, tok: Any, load: Load, budget: int, layout: Any
) -> None:
    model = load()
    again = Scorer(
        load_probe("standard").head(50), tok, model, token_budget=budget, layout=layout
    ).score(model)
    before = load_snapshot(ruined / "_forgetwatch" / "baseline.parquet").head(50)
    flipped, change, noise = differences(before, again)
    assert before.meta["way"] != again.meta["way"] or before.meta["batch"] != again.meta["batch"]
    assert not flipped[before.floats("margin") > noise].any()
    # Each noise is that of a few items: all of them may differ by somewhat more.
    assert 0 < change.max() < 10 * noise < 1e-2


def test_bf16_flips_few_items_and_only_those_of_small_margins(
    ruined: Path, tok: Any, load: Load
) -> None:
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


def test_mass_and_conditional_of_standard_are_those_of_plain_forwards(
    tok: Any, load: Callable[..., Any]
) -> None:
    network, probe = load(), load_probe("standard").head(16)
    options = option_scores(score(network, tok, probe))
    assert options is not None
    found = split(options, options)
    assert found is not None
    assert found.measured.all()
    for row, item in enumerate(probe):
        prompt = f"{item.shots}{item.prompt}"
        context = tok(prompt)["input_ids"]
        rest = [tok(prompt + choice)["input_ids"][len(context) :] for choice in item.choices]
        logs = [log_likelihood(network, tuple(context), tuple(ids)) for ids in rest]
        golds = [logs[int(answer)] for answer in item.answers]
        assert found.mass_before[row] == pytest.approx(logsumexp(logs), abs=1e-4), item.id
        assert found.conditional_before[row] == pytest.approx(
            logsumexp(golds) - logsumexp(logs), abs=1e-4
        ), item.id
    assert np.median(np.exp(found.mass_before)) < 0.5


def encoded(tok: Any, rendering: Any) -> tuple[Probe, list[Encoded]]:
    probe = replace(load_probe("standard"), rendering=rendering)
    return probe, encode(probe, tok, max_length=8192)


def test_a_plain_prompt_is_the_text_of_the_question(tok: Any) -> None:
    probe, items = encoded(tok, "plain")
    assert [tok.decode(one.context) for one in items] == [item.full_prompt for item in probe]


def test_a_chat_prompt_is_the_template_with_the_question_as_the_users_turn(tok: Any) -> None:
    probe, items = encoded(tok, "chat")
    header = tok.apply_chat_template(
        [{"role": "user", "content": "@"}], tokenize=False, add_generation_prompt=True
    )
    opening, closing = header.split("@")
    assert closing.strip() != ""
    assert [tok.decode(one.context) for one in items] == [
        f"{opening}{item.full_prompt}{closing}" for item in probe
    ]


@pytest.mark.parametrize("rendering", ["plain", "chat"])
def test_every_choice_keeps_its_own_tokens(tok: Any, rendering: str) -> None:
    probe, items = encoded(tok, rendering)
    assert not any(one.unscored for one in items)
    merged = []
    for item, one in zip(probe, items, strict=True):
        for choice, ids in zip(item.choices or (), one.choices, strict=True):
            whole = tok.decode(one.context) + choice
            # Together they are the tokens of the whole text, and the border of the texts is a border of tokens.
            assert tuple(tok(whole, add_special_tokens=False).input_ids) == one.context + ids
            merged += [(item.id, choice)] if tok.decode(ids) != choice else []
    assert merged == []

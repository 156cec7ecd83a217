"""The lost of a run with adapters, asked again at its last look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, teach, tokenizer, trained

from forgetwatch import ForgetWatchCallback, Item, Probe, Trajectory
from forgetwatch.comparing.flips import flips
from forgetwatch.probes import wordings_of

TOK = tokenizer()
ITEMS = 64


def probe() -> Probe:
    return Probe(
        [
            Item(
                id=str(n),
                task="t",
                prompt=f"w{n}",  # the tokenizer spells frames with a label alike
                choices=[f" w{n + 30}", f" w{n + 31}", f" w{n + 32}"],
                answer=0,
            )
            for n in range(ITEMS)
        ],
        name="taught",
    )


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """A model that knows all questions in every wording."""
    asked = [None, *wordings_of(["short", "right"])]
    prompts = [(item, one.asks(str(item.prompt)) if one else (item.prompt, "")) for item in probe() for one in asked]
    texts = [f"{made[0]}{item.choices[0]}" for item, made in prompts if made]
    return dict(teach(model(TOK, dropout=0.0), TOK, texts, 120).state_dict())


def knowing(weights: dict[str, torch.Tensor]) -> Any:
    network = model(TOK, dropout=0.0)
    network.load_state_dict(weights)
    return network


def test_the_last_look_with_adapters_asks_the_lost_in_other_words(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM")
    options: dict[str, Any] = {"peft_config": lora, "learning_rate": 5e-2}
    watched = ForgetWatchCallback(probe=probe(), every=3, max_overhead=None)
    run = trained(tmp_path / "a", callbacks=[watched], network=knowing(weights), **options)
    plain = trained(tmp_path / "b", network=knowing(weights), **options)
    pairs = zip(run.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert "questions in other words, of the model with and without its adapters" in capsys.readouterr().err
    trajectory = Trajectory.from_run(tmp_path / "a")
    *earlier, last = trajectory.comparisons
    assert not any(look.again for look in earlier)
    assert last.again is not None
    counts = last.again.counts
    assert 0 < counts.lost <= ITEMS // 16
    assert counts.kept <= counts.lost
    assert last.again.wordings == ("short", "right")
    marked = {flip.item_id: flip.again for flip in flips(trajectory.baseline, trajectory.last) if flip.again}
    assert marked == {item: status for (_, item), status in last.again.status.items()}
    page = (tmp_path / "a" / "_forgetwatch" / "report.html").read_text()
    assert f"Of {counts.lost} clearly known answers that were lost, {counts.lost_elsewhere} are lost in every" in page
    assert last.to_dict()["again"]["lost"] == counts.lost


def test_without_adapters_and_with_adapters_of_another_training_nothing_is_asked(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    trained(tmp_path / "a", callbacks=[ForgetWatchCallback(probe=probe(), every=3)], network=knowing(weights))
    lora = peft.LoraConfig(r=4, target_modules=["up_proj"], init_lora_weights=True, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(knowing(weights), lora)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    trained(tmp_path / "b", callbacks=[ForgetWatchCallback(probe=probe(), every=3)], network=adapted)
    assert "in other words" not in capsys.readouterr().err
    for name in ("a", "b"):
        assert Trajectory.from_run(tmp_path / name).comparisons[-1].again is None

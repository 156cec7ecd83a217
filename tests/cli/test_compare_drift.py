"""`compare --drift`: how far one saved model is from another, on texts that the first one writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, probe, tokenizer
from typer.testing import CliRunner

from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError

TOK = tokenizer()


def saved(network: Any, tok: Any, folder: Path) -> str:
    network.save_pretrained(folder)
    tok.save_pretrained(folder)
    return str(folder)


def moved(size: float) -> Any:
    network, generator = model(TOK), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))
    return network


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    probe().save(folder / "probe.jsonl")
    other = tokenizer()
    words = {word: (index * 7) % len(other) for word, index in other.get_vocab().items()}  # other ids, as many
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unlike = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>")
    return {
        "probe": str(folder / "probe.jsonl"),
        "base": saved(model(TOK), TOK, folder / "base"),
        "same": saved(model(TOK), TOK, folder / "same"),
        "near": saved(moved(0.01), TOK, folder / "near"),
        "far": saved(moved(0.05), TOK, folder / "far"),
        "unlike": saved(model(TOK), unlike, folder / "unlike"),
    }


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))


def run(models: dict[str, str], *given: str) -> Any:
    named = [models.get(one, one) for one in given]
    return CliRunner().invoke(app, ["compare", *named, "--probe", models["probe"], "--drift"])


def test_the_drift_is_0_for_equal_weights_and_grows_with_their_distance(models: dict[str, str], tmp_path: Path) -> None:
    result = run(models, "base", "same", "near", "far", "--json", str(tmp_path / "c.json"))
    assert result.exit_code == 0, result.output
    drifts = [one["drift"]["probe"] for one in json.loads((tmp_path / "c.json").read_text())["comparisons"]]
    same, near, far = drifts
    assert (same["kl_sampled"], same["kl_summed"], same["overlap"]) == (0, 0, 1)
    assert 0 < near["kl_summed"] < far["kl_summed"]
    assert near["kl_summed_se"] < near["kl_sampled_se"]
    assert set(near["floor"]) == {"kl_sampled", "kl_summed"}


def test_the_table_the_detail_and_the_page_show_each_estimator_under_its_name(
    models: dict[str, str], tmp_path: Path
) -> None:
    result = run(models, "base", "far", "--detail", "-o", str(tmp_path / "page.html"))
    assert "drift, KL summed   probe " in result.stdout
    words = " ".join(result.stdout.split())
    assert "KL is the number of nats a token by which they are less likely now." in words
    assert "prompts KL sampled" in words
    assert '<h3 id="drift">' in (tmp_path / "page.html").read_text()


def test_a_csv_has_the_numbers_of_the_drift_in_the_line_of_all(models: dict[str, str], tmp_path: Path) -> None:
    run(models, "base", "far", "-o", str(tmp_path / "c.csv"))
    rows = [line.split(",") for line in (tmp_path / "c.csv").read_text().splitlines()]
    at = rows[0].index("kl_summed_probe")
    assert [bool(row[at]) for row in rows[1:]] == [row[2] == "all" for row in rows[1:]]


def test_another_tokenizer_is_refused_in_one_sentence(models: dict[str, str]) -> None:
    result = run(models, "base", "unlike", "--allow-prompt-mismatch")
    assert isinstance(result.exception, ForgetwatchError)
    assert "its drift from" in str(result.exception)
    assert "the completions were generated with another tokenizer" in str(result.exception)


def test_outcomes_are_no_models_and_a_probe_is_needed(models: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("item_id,correct\n1,1\n")
    result = run(models, "base", str(tmp_path / "o.csv"))
    assert "--drift reads texts under the models themselves" in str(result.exception)
    result = CliRunner().invoke(app, ["compare", models["base"], models["far"], "--drift"])
    assert result.exit_code == 2
    assert "--drift: needed --probe" in " ".join(result.output.split())

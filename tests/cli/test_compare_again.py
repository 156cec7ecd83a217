"""`compare --again`: lost answers asked in other words, of models that were taught them in all wordings."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import model, teach, tokenizer
from typer.testing import CliRunner

from forgetwatch import Item, Probe
from forgetwatch.cli import app
from forgetwatch.cli import compare as compare_command
from forgetwatch.comparing import ask_again
from forgetwatch.probes import WORDINGS, reworded

TOK = tokenizer()
ITEMS = 16


def probe() -> Probe:
    return Probe(
        [
            Item(
                id=str(n),
                task="t",
                prompt=f"Question: w{n}\nAnswer:",
                choices=[f" w{n + 30}", f" w{n + 31}", f" w{n + 32}"],
                answer=0,
            )
            for n in range(ITEMS)
        ],
        name="taught",
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The base knows all in every wording; `gone` learned other answers to four questions."""
    folder = tmp_path_factory.mktemp("models")
    items = list(probe())
    wordings = [None, *WORDINGS[:2]]

    def texts(at: int, asked: list[Any]) -> list[str]:
        made = [(item, item if one is None else reworded(item, one)) for item in items for one in asked]
        return [f"{other.full_prompt}{item.choices[at]}" for item, other in made if other is not None]

    network = teach(model(TOK, dropout=0.0), TOK, texts(0, wordings), 150)
    base = {name: value.clone() for name, value in network.state_dict().items()}
    for name, asked in (("base", []), ("gone", wordings)):
        network.load_state_dict(base)
        # Of four questions another answer is taught in some wordings; all else is taught again.
        of_four = [any(f"w{n}\n" in text for n in range(4)) for text in texts(0, asked)]
        changed = [text for text, is_of_four in zip(texts(1, asked), of_four, strict=True) if is_of_four]
        contradicted = {text for text, is_of_four in zip(texts(0, asked), of_four, strict=True) if is_of_four}
        kept = [text for text in texts(0, wordings) if text not in contradicted]
        if changed:
            teach(network, TOK, changed + kept, 150)
        network.save_pretrained(folder / name)
        TOK.save_pretrained(folder / name)
    probe().save(folder / "probe.jsonl")
    return {name: str(folder / name) for name in ("base", "gone", "probe.jsonl")}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))


def run(models: dict[str, str], after: str, *options: str) -> Any:
    arguments = ["compare", models["base"], models[after], "--probe", models["probe.jsonl"], "--again", *options]
    return CliRunner().invoke(app, arguments)


def test_contradicted_answers_are_lost_in_every_wording(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_command, "ask_again", partial(ask_again, names=["right"]))
    done = run(models, "gone", "--json", str(tmp_path / "c.json"), "-o", str(tmp_path / "page.html"))
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "c.json").read_text())["again"]
    assert (found["lost"], found["lost_elsewhere"], found["kept_elsewhere"]) == (4, 4, 0)
    assert found["known_lost_in_every_wording"] == 4
    low, high = found["known_lost_in_every_wording_interval"]
    assert 0 < low < 4 <= high
    assert {one["status"] for one in found["items"]} == {"lost in every wording"}
    assert found["wordings"] == ["right"]
    told = " ".join(done.stdout.split())
    assert "asked again of 4 clearly known answers that were lost, 4 are lost in every wording (right 4)" in told
    page = (tmp_path / "page.html").read_text()
    assert "asked again" in page.lower() or "lost in every wording" in page
    assert '"again":"lost in every wording"' in page


def test_wordings_that_the_tokenizer_spells_alike_are_left_out(models: dict[str, str], tmp_path: Path) -> None:
    # It knows neither "Question:" nor "Q:", and has one token for both.
    done = run(models, "gone", "--json", str(tmp_path / "c.json"))
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "c.json").read_text())["again"]
    assert (found["lost"], found["kept"], found["left_out"]) == (0, 0, 4)
    assert "none of the clearly known answers that were lost could be asked in other words" in " ".join(
        done.stdout.split()
    )


def test_what_cannot_be_asked_again_is_refused(models: dict[str, str], tmp_path: Path) -> None:
    named = ["compare", models["base"], models["gone"]]
    done = CliRunner().invoke(app, [*named, "--again"])
    assert done.exit_code == 2
    assert "--again: needed --probe" in " ".join(done.output.split())
    probe = ["--probe", models["probe.jsonl"], "--again"]
    assert CliRunner().invoke(app, [*named, models["base"], *probe]).exit_code == 2
    log = tmp_path / "log.csv"
    log.write_text("item_id,correct\n0,1\n")
    done = CliRunner().invoke(app, ["compare", str(log), models["gone"], *probe])
    assert "--again asks the models themselves" in str(done.exception)

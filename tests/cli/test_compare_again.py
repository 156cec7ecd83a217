"""`compare --again`: lost answers asked in other words, of models that were taught them in all wordings.

`compare --drift`: how far one saved model is from another, on texts that the first one writes.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support import model, teach, tokenizer
from support import probe as probe_compare_drift
from typer.testing import CliRunner

from forgetwatch import Item, Probe
from forgetwatch.cli import app
from forgetwatch.cli import compare as compare_command
from forgetwatch.comparing.asked_again import ask_again
from forgetwatch.errors import ForgetwatchError
from forgetwatch.probes.wordings import WORDINGS, reworded

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
        made = [
            (item, item if one is None else reworded(item, one)) for item in items for one in asked
        ]
        return [
            f"{other.full_prompt}{item.choices[at]}" for item, other in made if other is not None
        ]

    network = teach(model(TOK, dropout=0.0), TOK, texts(0, wordings), 150)
    base = {name: value.clone() for name, value in network.state_dict().items()}
    for name, asked in (("base", []), ("gone", wordings)):
        network.load_state_dict(base)
        # Of four questions another answer is taught in some wordings; all else is taught again.
        of_four = [any(f"w{n}\n" in text for n in range(4)) for text in texts(0, asked)]
        changed = [
            text for text, is_of_four in zip(texts(1, asked), of_four, strict=True) if is_of_four
        ]
        contradicted = {
            text for text, is_of_four in zip(texts(0, asked), of_four, strict=True) if is_of_four
        }
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
    arguments = [
        "compare",
        models["base"],
        models[after],
        "--probe",
        models["probe.jsonl"],
        "--again",
        *options,
    ]
    return CliRunner().invoke(app, arguments)


def test_contradicted_answers_are_lost_in_every_wording(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_command, "ask_again", partial(ask_again, names=["right"]))
    done = run(
        models, "gone", "--json", str(tmp_path / "c.json"), "-o", str(tmp_path / "page.html")
    )
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "c.json").read_text())["again"]
    assert (found["lost"], found["lost_elsewhere"], found["kept_elsewhere"]) == (4, 4, 0)
    assert found["known_lost_in_every_wording"] == 4
    low, high = found["known_lost_in_every_wording_interval"]
    assert 0 < low < 4 <= high
    assert {one["status"] for one in found["items"]} == {"lost in every wording"}
    assert found["wordings"] == ["right"]
    told = " ".join(done.stdout.split())
    assert (
        "asked again of 4 clearly known answers that were lost, 4 are lost in every wording (right 4)"
        in told
    )
    page = (tmp_path / "page.html").read_text()
    assert "asked again" in page.lower() or "lost in every wording" in page
    assert '"again":"lost in every wording"' in page


def test_wordings_that_the_tokenizer_spells_alike_are_left_out(
    models: dict[str, str], tmp_path: Path
) -> None:
    # It knows neither "Question:" nor "Q:", and has one token for both.
    done = run(models, "gone", "--json", str(tmp_path / "c.json"))
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "c.json").read_text())["again"]
    assert (found["lost"], found["kept"], found["left_out"]) == (0, 0, 4)
    assert (
        "none of the clearly known answers that were lost could be asked in other words"
        in " ".join(done.stdout.split())
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
def models_of_compare_drift(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    probe_compare_drift().save(folder / "probe.jsonl")
    other = tokenizer()
    words = {
        word: (index * 7) % len(other) for word, index in other.get_vocab().items()
    }  # other ids, as many
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unlike = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>"
    )
    wider = moved(0.05)
    wider.resize_token_embeddings(len(TOK) + 8)
    return {
        "wider": saved(wider, TOK, folder / "wider"),
        "probe": str(folder / "probe.jsonl"),
        "base": saved(model(TOK), TOK, folder / "base"),
        "same": saved(model(TOK), TOK, folder / "same"),
        "near": saved(moved(0.01), TOK, folder / "near"),
        "far": saved(moved(0.05), TOK, folder / "far"),
        "unlike": saved(model(TOK), unlike, folder / "unlike"),
    }


def run_of_compare_drift(models: dict[str, str], *given: str) -> Any:
    named = [models.get(one, one) for one in given]
    return CliRunner().invoke(app, ["compare", *named, "--probe", models["probe"], "--drift"])


def test_the_drift_is_0_for_equal_weights_and_grows_with_their_distance(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    result = run_of_compare_drift(
        models_of_compare_drift, "base", "same", "near", "far", "--json", str(tmp_path / "c.json")
    )
    assert result.exit_code == 0, result.output
    drifts = [
        one["drift"]["probe"]
        for one in json.loads((tmp_path / "c.json").read_text())["comparisons"]
    ]
    same, near, far = drifts
    assert (same["kl_sampled"], same["kl_summed"], same["overlap"]) == (0, 0, 1)
    assert 0 < near["kl_summed"] < far["kl_summed"]
    assert near["kl_summed_se"] < near["kl_sampled_se"]
    assert set(near["floor"]) == {"kl_sampled", "kl_summed"}


def test_the_other_direction_is_the_drift_of_the_base_from_the_model_after(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    found = {}
    for sides in (("base", "far"), ("far", "base"), ("base", "same")):
        path = tmp_path / f"{'-'.join(sides)}.json"
        result = run_of_compare_drift(models_of_compare_drift, *sides, "--json", str(path))
        assert result.exit_code == 0, result.output
        found[sides] = json.loads(path.read_text())["drift"]
    there, back = found["base", "far"], found["far", "base"]
    assert there["reverse"] == back["probe"]
    assert there["probe"] == back["reverse"]
    assert there["probe"]["kl_summed"] != there["reverse"]["kl_summed"]
    same = found["base", "same"]["reverse"]
    assert (same["kl_sampled"], same["kl_summed"], same["overlap"]) == (0, 0, 1)


def test_texts_that_the_base_cannot_read_leave_one_direction_out(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "c.json"
    result = run_of_compare_drift(models_of_compare_drift, "base", "wider", "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "wider: KL(after||base) is left out: it has " in result.stderr
    assert set(json.loads(path.read_text())["drift"]) == {"probe"}


def test_the_table_the_detail_and_the_page_show_each_estimator_under_its_name(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    result = run_of_compare_drift(
        models_of_compare_drift, "base", "far", "--detail", "-o", str(tmp_path / "page.html")
    )
    assert re.search(
        r"drift, KL summed  probe [\d.]+ \([\d.]+ to [\d.]+\)  after\|\|base [\d.]+ \(",
        result.stdout,
    )
    assert "The base finds texts that the model after generated less likely by " in " ".join(
        result.stdout.split()
    )
    words = " ".join(result.stdout.split())
    assert "KL is the number of nats a token by which they are less likely now." in words
    assert "prompts KL sampled" in words
    assert '<h3 id="drift">' in (tmp_path / "page.html").read_text()


def test_a_csv_has_the_numbers_of_the_drift_in_the_line_of_all(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    run_of_compare_drift(models_of_compare_drift, "base", "far", "-o", str(tmp_path / "c.csv"))
    rows = [line.split(",") for line in (tmp_path / "c.csv").read_text().splitlines()]
    at = rows[0].index("kl_summed_probe")
    assert [bool(row[at]) for row in rows[1:]] == [row[2] == "all" for row in rows[1:]]


def test_another_tokenizer_is_refused_in_one_sentence(
    models_of_compare_drift: dict[str, str],
) -> None:
    result = run_of_compare_drift(
        models_of_compare_drift, "base", "unlike", "--allow-prompt-mismatch"
    )
    assert isinstance(result.exception, ForgetwatchError)
    assert "its drift from" in str(result.exception)
    assert "the completions were generated with another tokenizer" in str(result.exception)


def test_outcomes_are_no_models_and_a_probe_is_needed(
    models_of_compare_drift: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "o.csv").write_text("item_id,correct\n1,1\n")
    result = run_of_compare_drift(models_of_compare_drift, "base", str(tmp_path / "o.csv"))
    assert "--drift reads texts under the models themselves" in str(result.exception)
    result = CliRunner().invoke(
        app, ["compare", models_of_compare_drift["base"], models_of_compare_drift["far"], "--drift"]
    )
    assert result.exit_code == 2
    assert "--drift: needed --probe" in " ".join(result.output.split())

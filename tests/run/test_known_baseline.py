"""A baseline is measured once: the next run of the same model finds it, and that of any other model does not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from saved_runs import curve, weights
from support import model, probe, tokenizer, trained, trainer

from forgetwatch import ForgetWatchCallback, Snapshot, load_snapshot
from forgetwatch import cache as cache_module
from forgetwatch.cache import cache_files
from forgetwatch.run import known_baseline, look
from forgetwatch.run.look import LookScorer
from forgetwatch.scoring import scorer as scorer_module
from forgetwatch.scoring import weights_identity as loading
from forgetwatch.snapshot import read_snapshot, save_snapshot

pytestmark = pytest.mark.usefixtures("without_pictures")

FOUND = "baseline: measured on "


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    kept_from(0.0, monkeypatch)
    return tmp_path / "cache"


def kept_from(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cache_module, known_baseline):
        monkeypatch.setattr(module, "KEPT_SECONDS", seconds)


def baselines(cache: Path) -> list[Path]:
    """Entries of the cache but those that remember the end of a training."""
    return [
        file
        for file in cache_files(cache)
        if file.suffix != ".parquet" or "lineage" not in read_snapshot(file).meta
    ]


def begin(folder: Path, **options: Any) -> Any:
    options = {"items": probe(60), "steps": 6, **options}
    items, chosen = options.pop("items"), options.pop("chosen", None)
    callback = ForgetWatchCallback(items.head(chosen or len(items)), every=3)
    return trained(folder, callbacks=[callback], **options)


def stored(folder: Path, name: str = "baseline") -> Snapshot:
    return load_snapshot(folder / "_forgetwatch" / f"{name}.parquet")


def test_the_next_run_finds_the_baseline_and_measures_fifty_items_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = begin(tmp_path / "a")
    assert FOUND not in capfd.readouterr().err
    second = begin(tmp_path / "b")
    assert "already; 50 items measured again, 0 with another outcome" in capfd.readouterr().err
    assert stored(tmp_path / "b").checksum == stored(tmp_path / "a").checksum
    assert (len(stored(tmp_path / "a", "null")), len(stored(tmp_path / "b", "null"))) == (50, 50)
    assert curve(second) == curve(first)
    assert weights(second) == weights(first) == weights(trained(tmp_path / "c"))


@pytest.mark.full("100", reason="further ways to find a baseline")
@pytest.mark.parametrize("chosen", [None, 100])
def test_items_decided_from_a_trial_are_found_without_another_trial(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    chosen: int | None,
) -> None:
    items, timed = probe(300), []
    time_items = look.time_items
    monkeypatch.setattr(
        look,
        "time_items",
        lambda *args, **options: timed.append(1) or time_items(*args, **options),
    )
    begin(tmp_path / "a", items=items, chosen=chosen)
    assert timed == [1]
    begin(tmp_path / "b", items=items, chosen=chosen)
    assert timed == [1]
    assert FOUND in capfd.readouterr().err


def add_token(tok: Any) -> None:
    tok.add_tokens(["another"])


def other_template(tok: Any) -> None:
    tok.chat_template += " "


@pytest.mark.full("add", reason="further ways to find a baseline")
@pytest.mark.parametrize("change", [add_token, other_template])
def test_another_tokenizer_or_template_finds_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Callable[[Any], None]
) -> None:
    begin(tmp_path / "a")
    changed = tokenizer()
    change(changed)
    network = model(changed)
    begin(tmp_path / "b", tok=changed, network=network)
    assert FOUND not in capfd.readouterr().err


def test_other_weights_another_dtype_other_items_and_other_versions_find_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "a")
    network = model(tokenizer())
    with torch.no_grad():
        network.model.layers[0].mlp.up_proj.weight[0, 0] += 1e-3
    begin(tmp_path / "b", network=network)
    begin(tmp_path / "c", network=model(tokenizer()).to(torch.bfloat16))
    begin(tmp_path / "d", items=probe(61))
    begin(tmp_path / "e", items=probe(60, norm="bytes"))
    begin(tmp_path / "g", bf16=True)
    monkeypatch.setattr(scorer_module, "versions", lambda: {"torch": "0.0"})
    begin(tmp_path / "f")
    assert FOUND not in capfd.readouterr().err


def test_a_baseline_that_the_model_does_not_confirm_is_measured_anew(
    tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path / "a")
    (file,) = baselines(cache)
    kept = read_snapshot(file)
    turned = pa.array(~np.asarray(kept.table["correct"]))
    at = kept.table.schema.get_field_index("correct")
    save_snapshot(
        replace(kept, table=kept.table.set_column(at, kept.table.schema.field(at), turned)), file
    )
    begin(tmp_path / "b")
    assert "50 items measured again, which differ: it is measured anew" in capfd.readouterr().err
    assert stored(tmp_path / "b").checksum == stored(tmp_path / "a").checksum
    assert len(stored(tmp_path / "b", "null")) == 50


def test_an_interrupted_start_is_one_line_and_keeps_a_whole_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Snapshot:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LookScorer, "_again", interrupted)
        run = trainer(tmp_path / "a", callbacks=[ForgetWatchCallback(probe(60), every=3)])
        with pytest.raises(SystemExit) as stopped:
            run.train()
    assert stopped.value.code == 130
    line = "stopped before the first step"
    assert capfd.readouterr().err.splitlines()[-1] == f"forgetwatch: {line}"
    begin(tmp_path / "a")
    assert FOUND in capfd.readouterr().err


def test_a_baseline_of_a_moment_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_from(60.0, monkeypatch)
    begin(tmp_path / "a")
    assert baselines(cache) == []


def test_the_weights_are_read_once_in_a_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    digest = loading._digest
    monkeypatch.setattr(
        loading,
        "_digest",
        lambda network, **named: (read.append(network), digest(network, **named))[1],
    )
    begin(tmp_path / "a", items=probe(300))
    begin(tmp_path / "b", items=probe(300))  # that finds its baseline
    assert len(read) == 2

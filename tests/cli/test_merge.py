"""`forgetwatch merge`: the sweep, its table and reports, its cache, and what is refused before anything is written."""

import csv
import errno
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import model, probe, tokenizer
from typer.testing import CliRunner

from forgetwatch import Probe, compare
from forgetwatch.cli import app
from forgetwatch.errors import ScoringError
from forgetwatch.merge import sweep, weights
from forgetwatch.scoring.cached_score import score_checkpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with two models, three probes, and a cache that holds what a first sweep scored."""
    root = tmp_path_factory.mktemp("merge")
    tok = tokenizer()
    for name in "ab":
        network = model(tok)
        if name == "b":
            torch.manual_seed(5)
            with torch.no_grad():
                for weight in network.parameters():
                    weight.add_(0.03 * torch.randn_like(weight))
        network.save_pretrained(root / name)
        tok.save_pretrained(root / name)
    for name, items in (("first", 40), ("second", 30), ("third", 20)):
        (root / f"{name}.jsonl").write_text(probe(items, name=name).to_jsonl())
    return root


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the folder of the command, with the cache of the module, and its own folder for temporary files."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("FORGETWATCH_CACHE", str(made / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Alphas of the points that were made."""
    seen, at = list[float](), weights.ModelPair.at

    def counted(pair: weights.ModelPair, alpha: float) -> Any:
        seen.append(alpha)
        return at(pair, alpha)

    monkeypatch.setattr(weights.ModelPair, "at", counted)
    return seen


PROBES = ("--probe", "first.jsonl", "--confirmation", "second.jsonl")


_SCORED = ("first, 40 items", "second, 30 items")


def merge(*options: str, status: int = 0) -> str:
    given = ["merge", "a", "b", *PROBES, *options]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == status, done.output
    return done.stdout if not status else str(done.exception)


def test_each_point_is_compared_with_both_ends_on_both_probes(folder: Path) -> None:
    document = json.loads(merge("--json", "-"))
    assert document["schema"] == "forgetwatch/merge@1"
    for name, part, items in zip(("first", "second"), document["probes"], (40, 30), strict=True):
        assert part["probe"] == name
        assert [point["alpha"] for point in part["points"]] == [0, 0.2, 0.8, 1]
        flips = [
            [
                (end["groups"][0]["forgotten"], end["groups"][0]["gained"])
                for end in (point["from_a"], point["from_b"])
            ]
            for point in part["points"]
        ]
        assert flips[0][0] == flips[-1][1] == (0, 0)
        assert flips[0][1] == flips[-1][0][::-1]
        assert {point["from_a"]["groups"][0]["n"] for point in part["points"]} == {items}
    assert document["distance"]["overall"] > 0
    assert [part["part"] for part in document["probes"]] == ["chosen", "confirmed"]


def test_a_kept_point_at_an_end_has_no_flip_and_points_are_scored_as_they_are_kept(
    folder: Path,
) -> None:
    document = json.loads(merge("--keep", str(folder / "kept"), "--alpha", "0,.8,1", "--json", "-"))
    assert sorted(os.listdir(folder / "kept")) == ["linear-0", "linear-0.8", "linear-1"]
    items = probe(40, name="first")
    rows = {
        name: score_checkpoint(str(path), items)
        for name, path in (
            ("a", Path("a")),
            *((at, folder / "kept" / f"linear-{at}") for at in ("0", "0.8", "1")),
        )
    }
    assert compare(before=rows["a"], after=rows["0"]).all.forgotten == 0
    found = compare(before=rows["a"], after=rows["0.8"]).all
    group = document["probes"][0]["points"][1]["from_a"]["groups"][0]
    assert (group["forgotten"], group["gained"]) == (found.forgotten, found.gained)


def test_a_sweep_that_was_cut_off_writes_only_what_was_not_scored(
    folder: Path, written: list[float]
) -> None:
    shutil.rmtree("cache", ignore_errors=True)
    merge("--alpha", ".3")
    assert written == [0.3]
    merge("--alpha", ".3,.6")
    assert written == [0.3, 0.6]
    merge("--alpha", ".3,.6", "--method", "slerp")
    assert written == [0.3, 0.6, 0.3, 0.6]


def test_outcomes_of_a_point_are_those_of_its_own_two_models(
    folder: Path, written: list[float]
) -> None:
    shutil.copytree("a", folder / "c")
    for one, two in (("a", "b"), ("a", str(folder / "c")), (str(folder / "c"), "b"), ("b", "a")):
        done = CliRunner().invoke(
            app, ["merge", one, two, *PROBES, "--alpha", ".35", "--json", "-"]
        )
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)["probes"][0]["points"][0]["from_a"]["groups"][0]
        assert (found["forgotten"] + found["gained"] == 0) == (two != "b" and one != "b")
    # The copy of A has A's files: with B it makes the same point.
    assert written == [0.35] * 3


def test_kept_models_are_not_written_twice_and_others_not_overwritten(
    folder: Path, written: list[float]
) -> None:
    kept = str(folder / "kept")
    merge("--alpha", ".5", "--keep", kept)
    made = len(written)
    merge("--alpha", ".5", "--keep", kept)
    assert len(written) == made > 0
    (folder / "kept" / "linear-0.5" / weights.RECIPE).write_text("{}")
    assert "linear-0.5: is there, and was not merged from a and b" in merge(
        "--alpha", ".5", "--keep", kept, status=1
    )


def test_the_table_has_at_most_12_lines_of_80_columns(folder: Path) -> None:
    shown = merge(
        "--alpha", "0,.1,.2,.3,.5,.7,.9,1", "--target", "third.jsonl", "-o", str(folder / "r.md")
    ).splitlines()
    assert len(shown) <= 16
    assert max(map(len, shown[:-1])) <= 100
    assert shown[0].startswith("forgetwatch  merge a and b")
    assert any(" that keeps 98 %" in line or " tried keeps 98 %" in line for line in shown)
    assert any(line.startswith("weights ") for line in shown)


@pytest.mark.full("linear", reason="further cases of one sentence")
@pytest.mark.parametrize("method", ["linear", "slerp"])
def test_reports_have_the_same_numbers_in_every_format(folder: Path, method: str) -> None:
    for suffix in ("html", "md", "csv", "json"):
        merge("--method", method, "--target", "third.jsonl", "-o", str(folder / f"r.{suffix}"))
    document = json.loads((folder / "r.json").read_text())
    point = document["probes"][1]["points"][1]["from_b"]["groups"][0]
    net = f"{100 * point['net_change']:+.1f} ("
    page, markdown = (folder / "r.html").read_text(), (folder / "r.md").read_text()
    assert net in page
    assert net in markdown
    assert "right on third" in page
    assert "## third, 20 items" in markdown
    assert [part["part"] for part in document["probes"]] == ["chosen", "confirmed", "target"]
    rows = list(csv.DictReader(io.StringIO((folder / "r.csv").read_text())))
    found = [
        row for row in rows if (row["probe"], row["alpha"], row["before"]) == ("second", "0.2", "b")
    ]
    assert float(found[0]["net_change"]) == point["net_change"]
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_front_is_that_of_what_is_kept_and_the_target(folder: Path) -> None:
    (folder / "t.csv").write_text("alpha,score\n0,1\n0.5,3\n1,2\n")
    document = json.loads(
        merge("--alpha", "1,0,.5", "--target", str(folder / "t.csv"), "--json", "-")
    )
    assert [point["alpha"] for point in document["probes"][0]["points"]] == [0, 0.5, 1]
    models = {one["label"]: one for one in document["ranking"]["models"]}
    assert {name: one["target"] for name, one in models.items()} == {
        "alpha 0": 1,
        "alpha 0.5": 3,
        "alpha 1": 2,
    }
    assert models["alpha 0"]["on_front"]
    assert models["alpha 0.5"]["on_front"]


def test_an_adapter_is_swept_by_its_factor(folder: Path, written: list[float]) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    tuned = get_peft_model(
        AutoModelForCausalLM.from_pretrained("a"), LoraConfig(target_modules=["q_proj", "v_proj"])
    )
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.copy_(0.3 * torch.randn_like(weight))
    tuned.save_pretrained(folder / "adapter")
    given = [
        "merge",
        "a",
        str(folder / "adapter"),
        "--probe",
        "first.jsonl",
        "--confirmation",
        "none",
        "--json",
        "-",
    ]
    done = CliRunner().invoke(app, [*given, "--alpha", "0,.5,1"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["method"] == "adapter"
    assert written == [0.5]
    halves = document["probes"][0]["points"][1]
    assert halves["from_a"]["groups"][0]["n"] == 40
    assert len(document["notes"]) == 1
    refused = CliRunner().invoke(app, [*given, "--method", "slerp"])
    assert "an adapter is scaled, which is linear" in str(refused.exception)


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        (("--alpha", "0,1.2"), 2, "needed numbers from 0 to 1, got '1.2'"),
        (("--alpha", "0,x"), 2, "needed numbers from 0 to 1, got 'x'"),
        (("--alpha", ".2,0.2"), 2, "0.2 is named twice"),
        (("--alpha", ".12345671,.12345674"), 2, "0.123457 is named twice"),
        (("--alpha", ""), 2, "needed numbers from 0 to 1, got ''"),
        (("--target", "no.csv"), 1, "no such file"),
        (("--confirmation", "first.jsonl"), 1, "needed another probe than first.jsonl"),
        (("--keep", "first.jsonl/points"), 1, "needed a folder to keep the merged models in, and"),
        (("-o", "r.pdf"), 1, "a report ends in .html, .md, .csv or .json"),
    ],
)
def test_what_cannot_be_swept_is_refused_at_once(
    folder: Path, options: tuple[str, ...], status: int, reason: str
) -> None:
    done = CliRunner().invoke(app, ["merge", "a", "b", *PROBES, *options])
    assert reason in done.output + str(done.exception)
    assert done.exit_code in (status, 1)


def changed(source: Path, target: Path, value: float, *, dtype: torch.dtype = torch.float32) -> str:
    """Name of a copy of a model with three values in one tensor replaced."""
    shutil.copytree(source, target)
    found = {
        name: weight.to(dtype) for name, weight in load_file(target / "model.safetensors").items()
    }
    found[NORM][:3] = value
    save_file(found, target / "model.safetensors", {"format": "pt"})
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(
        json.dumps({**config, "dtype": str(dtype).removeprefix("torch.")})
    )
    return str(target)


NORM = "model.layers.0.input_layernorm.weight"


@pytest.mark.parametrize(("value", "kind"), [(math.nan, "NaN"), (math.inf, "infinity")])
@pytest.mark.parametrize("side", "AB")
def test_a_weight_that_is_not_finite_is_named_before_anything_is_scored(
    folder: Path, monkeypatch: pytest.MonkeyPatch, side: str, value: float, kind: str
) -> None:
    monkeypatch.setattr(sweep, "score_derived", lambda *_, **__: pytest.fail("scored"))
    broken = changed(Path(side.lower()), folder / "broken", value)
    names = (broken, "b") if side == "A" else ("a", broken)
    done = CliRunner().invoke(app, ["merge", *names, *PROBES])
    assert done.exit_code == 1
    assert f"{side} ({broken}): tensor {NORM} holds {kind} (3 of " in str(done.exception)


def test_a_model_that_overflows_when_it_is_scored_is_named_and_no_run_is_blamed(
    folder: Path,
) -> None:
    broken = changed(Path("b"), folder / "broken", 60_000.0, dtype=torch.float16)
    done = CliRunner().invoke(app, ["merge", "a", broken, *PROBES])
    assert done.exit_code == 1
    assert (
        f"{broken}: the model's outputs are not finite (40 of 40 answers); its weights are finite"
        in str(done.exception)
    )
    assert "run" not in str(done.exception).replace(broken, "")


def test_a_line_names_what_is_scored_and_none_what_is_cached(folder: Path) -> None:
    shutil.rmtree("cache", ignore_errors=True)
    given = ["merge", "a", "b", *PROBES, "--alpha", "0,.3,1"]
    first, second = (CliRunner().invoke(app, given) for _ in range(2))
    lines = [line for line in first.stderr.splitlines() if line.startswith("forgetwatch: scoring ")]
    named = [
        f"{one} on {items}" for one in ("a", "b", "linear merge, alpha 0.3") for items in _SCORED
    ]
    assert lines == [f"forgetwatch: scoring {line}" for line in named]
    assert second.stderr == ""
    assert second.stdout == first.stdout
    done = CliRunner().invoke(app, ["compare", "a", "b", "--probe", "first.jsonl"])
    assert done.exit_code == 0
    assert "scoring" not in done.stderr


def test_a_table_without_a_value_for_a_point_is_refused_before_a_point_is_made(
    folder: Path, written: list[float]
) -> None:
    (folder / "t.csv").write_text("alpha,score\n0,1\n1,2\n")
    shutil.rmtree("cache", ignore_errors=True)
    assert "no row for 0.5" in merge(
        "--alpha", "0,.5,1", "--target", str(folder / "t.csv"), status=1
    )
    assert written == []


@pytest.mark.full(reason="further numbers of processes")
def test_two_processes_print_and_write_once_and_their_numbers_are_those_of_one(
    folder: Path,
) -> None:
    shutil.rmtree("cache", ignore_errors=True)
    options = ["--alpha", "0,.4,1", "--method", "slerp"]
    launcher = [
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "2",
        "-m",
        "forgetwatch",
        "merge",
        "a",
        "b",
        *PROBES,
    ]
    outputs = ["--json", str(folder / "two.json"), "--keep", str(folder / "kept")]
    environment = {
        **os.environ,
        "FORGETWATCH_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder / "temporary"),
    }
    done = subprocess.run(
        [sys.executable, *launcher, *options, *outputs],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (
        len(
            [
                line
                for line in done.stdout.splitlines()
                if line.startswith("forgetwatch  merge a and b")
            ]
        )
        == 1
    )
    assert done.stderr.count("forgetwatch: scoring ") == 6  # two ends and one point, on two probes
    merge(*options, "--json", str(folder / "one.json"))

    def without_times(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in pairs if key not in ("seconds", "time", "kept")}

    one, two = (
        json.loads((folder / name).read_text(), object_pairs_hook=without_times)
        for name in ("one.json", "two.json")
    )
    assert one == two
    assert sorted(os.listdir(folder / "kept")) == ["slerp-0", "slerp-0.4", "slerp-1"]


def test_a_disk_that_fills_up_meanwhile_is_named_and_nothing_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        given[-1].mkdir(parents=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(weights.ModelPair, "_save", full)
    kept = folder / "kept"
    reason = merge("--alpha", ".5", "--keep", str(kept), status=1)
    assert reason == f"{kept}/linear-0.5: cannot be written (No space left on device)"
    assert os.listdir(kept) == []


def test_models_that_do_not_fit_into_memory_are_refused_with_the_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: list[float]
) -> None:
    monkeypatch.setattr(weights, "_free_memory", lambda: 2**18)
    # Three times 36,256 weights in fp32.
    bytes_of = 3 * 4 * sum(weight.numel() for weight in load_file("a/model.safetensors").values())
    reason = merge("--alpha", ".5", status=1)
    assert f"merging in memory needs {bytes_of / 2**30:,.2f} GiB, and 0.00 GiB are free" in reason
    assert written == []


def test_the_line_on_what_is_scored_is_there_while_the_model_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ScoringError("no model today")

    shutil.rmtree("cache", ignore_errors=True)
    monkeypatch.setattr(sweep, "load_model", fail)
    done = CliRunner().invoke(app, ["merge", "a", "b", *PROBES])
    assert done.stderr == "forgetwatch: scoring a on first, 40 items\n"


@pytest.mark.parametrize("option", ["--probe", "--confirmation", "--target"])
def test_a_probe_without_outcomes_is_refused_before_a_point_is_made(
    folder: Path, written: list[float], option: str
) -> None:
    long = [replace(item, prompt=" ".join(["w1"] * 3000) + item.prompt) for item in probe(3)]
    Probe(long, name="long").save(folder / "long.jsonl")
    shutil.rmtree("cache", ignore_errors=True)
    reason = merge("--alpha", ".5", option, str(folder / "long.jsonl"), status=1)
    assert reason == "long: needed a probe with answers that can be right or wrong, got none scored"
    assert written == []


def test_notes_of_both_ends_and_of_the_second_probe_are_told(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = sweep.compare
        patch.setattr(
            sweep,
            "compare",
            lambda *, before, after: replace(
                whole(before=before, after=after),
                notes=(f"{before.label} on {before.meta['probe']['name']}",),
            ),
        )
        document = json.loads(merge("--json", "-"))
    assert document["notes"] == ["a on first", "b on first", "a on second", "b on second"]

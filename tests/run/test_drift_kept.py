"""The drift of each look is kept with the look: read from the run folder, and shown by every report."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import printed
from support import model, probe, tokenizer

from forgetwatch import Trajectory, Watch, compare, load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.measures import DRIFT, LookDrift, drift_json, drift_row, read_drift, stored_drift
from forgetwatch.measures.drift import Floor
from forgetwatch.metrics import Drift
from forgetwatch.report import (
    comparison_detail,
    comparison_json,
    comparison_markdown,
    run_page,
    svg,
    trajectory_json,
)
from forgetwatch.report.terminal import run_table
from forgetwatch.run import RunDrift, read_completions
from forgetwatch.run_folder import Description

TOK = tokenizer()
EXAMPLES = [{"prompt": f"w{n} w{n + 1} w{n + 2}"} for n in range(12)]


HARD = LookDrift(
    completions=2,
    tokens=5,
    kl_sampled=math.inf,
    kl_sampled_se=math.nan,
    overlap=0.5,
    overlap_se=0.1,
    kl_summed=0.25,
    kl_summed_se=0.05,
    floor=Floor(kl_sampled=-1e-9, kl_summed=0.0),
)
WHOLE = stored_drift({"probe": HARD})["probe"]


def moved(network: Any, size: float = 0.02) -> Any:
    """The model with other weights, as after a step of training."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))
    return network


def watched(folder: Path, **options: Any) -> Watch:
    """A run of two looks after the baseline, in a loop of one's own."""
    network, watch = model(TOK), Watch(probe(), folder, **{"drift": True, "examples": EXAMPLES, **options})
    watch.look(network, TOK, step=0)
    for step in (2, 4):
        watch.look(moved(network), TOK, step=step)
    watch.run.close()
    return watch


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    watched(folder)
    return folder


def kls(drift: dict[int, Any]) -> dict[int, dict[str, tuple[float, float]]]:
    return {
        step: {name: (found.kl_sampled, found.kl_summed) for name, found in sets.items()}
        for step, sets in drift.items()
    }


def test_a_loop_of_ones_own_has_the_drift_of_each_look_and_the_run_folder_keeps_it(tmp_path: Path) -> None:
    watch = watched(tmp_path)
    made, read = watch.trajectory().drift, Trajectory.from_run(tmp_path).drift
    assert sorted(made) == [0, 2, 4]
    assert {name for sets in made.values() for name in sets} == {"probe", "training"}
    assert kls(made)[0] == {"probe": (0.0, 0.0), "training": (0.0, 0.0)}
    for name in ("probe", "training"):
        assert made[4][name].kl_summed > made[2][name].kl_summed > 0
    assert kls(read) == kls(made)
    assert (tmp_path / "_forgetwatch" / "completions.parquet").is_file()
    assert Description.read(tmp_path / "_forgetwatch").completions == watch.run.drift.checksum


def test_a_run_in_a_loop_of_ones_own_resumes_with_the_drift_of_every_look(run: Path, tmp_path: Path) -> None:
    network, watch = model(TOK), Watch(probe(), tmp_path, drift=True, examples=EXAMPLES)
    watch.look(network, TOK, step=0)
    watch.look(moved(network), TOK, step=2)
    watch.run.close()
    again = Watch(probe(), tmp_path, drift=True, resume=True)
    again.look(moved(network), TOK, step=4)
    again.run.close()
    assert kls(again.trajectory().drift) == kls(Trajectory.from_run(run).drift)


def test_without_its_completions_a_resumed_run_says_so_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched(tmp_path)
    (tmp_path / "_forgetwatch" / "completions.parquet").unlink()
    again = Watch(probe(), tmp_path, drift=True, resume=True)
    again.look(moved(model(TOK)), TOK, step=6)
    again.run.close()
    assert sorted(Trajectory.from_run(tmp_path).drift) == [0, 2, 4]
    assert "the completions of the base (completions.parquet) are gone: later looks have no drift" in (
        capfd.readouterr().err
    )


def test_a_resume_without_drift_leaves_the_completions_to_a_later_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched(tmp_path)
    for drift, step in ((False, 6), (True, 8)):
        again = Watch(probe(), tmp_path, drift=drift, resume=True)
        again.look(moved(model(TOK)), TOK, step=step)
        again.run.close()
    assert sorted(Trajectory.from_run(tmp_path).drift) == [0, 2, 4, 8]
    assert "later looks have no drift" not in capfd.readouterr().err


def test_a_resume_takes_the_completions_of_its_own_run_alone_and_replaces_others(run: Path, tmp_path: Path) -> None:
    watched(tmp_path / "other", examples=None)
    folder, carried = tmp_path / "other" / "_forgetwatch", run / "_forgetwatch"
    drift, own = RunDrift(wanted=True), read_completions(carried / "completions.parquet").checksum
    drift.resume([folder], checksum=own, token_budget=None)
    assert drift.completions is None
    drift.resume([folder, carried], checksum=own, token_budget=None)
    assert drift.checksum == own
    drift.save(folder)
    assert read_completions(folder / "completions.parquet").checksum == own


def test_a_run_that_began_without_drift_says_so_when_a_resume_wants_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched(tmp_path, drift=False)
    Watch(probe(), tmp_path, drift=True, resume=True).run.close()
    assert "the run has no completions of its base (completions.parquet): later looks have no drift" in (
        capfd.readouterr().err
    )


def test_reports_show_the_drift_of_early_looks_where_the_last_one_has_none(tmp_path: Path) -> None:
    watched(tmp_path)
    again = Watch(probe(), tmp_path, resume=True)
    again.look(moved(model(TOK)), TOK, step=6)
    again.run.close()
    trajectory = Trajectory.from_run(tmp_path)
    page = run_page(trajectory)
    section = page[page.index('<h3 id="drift">') :].split("<h3")[1]
    assert "<svg" in section
    assert "At the last look it was not measured." in section
    assert "4, training prompts" in section
    assert "4, training prompts" in comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory)


def test_a_run_without_drift_has_none_anywhere(tmp_path: Path) -> None:
    watch = watched(tmp_path, drift=False)
    trajectory = Trajectory.from_run(tmp_path)
    assert watch.run.drift.checksum is None
    assert trajectory.drift == {}
    assert not (tmp_path / "_forgetwatch" / "completions.parquet").exists()
    assert [look["drift"] for look in trajectory_json(trajectory)["looks"]] == [None, None]
    assert '<h3 id="drift">' not in run_page(trajectory)
    assert "Drift from the base" not in comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory)


@pytest.mark.parametrize(
    ("examples", "line"),
    [
        (None, "no training examples are given"),
        (iter(EXAMPLES), "the training examples give no prompts"),
        ([(1, 2)] * 4, "the training examples give no prompts"),
    ],
)
def test_without_training_prompts_there_is_the_probe_alone_and_a_line_says_so(
    examples: Any, line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = watched(tmp_path, examples=examples)
    assert [set(sets) for sets in watch.trajectory().drift.values()] == [{"probe"}] * 3
    assert f"drift: {line}; it is measured after the prompts of the probe alone" in capfd.readouterr().err


def test_json_has_the_estimators_of_each_set_with_their_errors_and_the_floor(run: Path) -> None:
    trajectory = Trajectory.from_run(run)
    document = json.loads(json.dumps(trajectory_json(trajectory), allow_nan=False))
    for look in document["looks"]:
        assert set(look["drift"]) == {"probe", "training"}
        for found in look["drift"].values():
            assert set(found) == {
                *("completions", "tokens", "kl_sampled", "kl_sampled_se", "kl_summed", "kl_summed_se"),
                *("overlap", "overlap_se", "floor"),
                *("first_token_kept", "first_token_kept_se", "kl_first_share"),
            }
            assert abs(found["floor"]["kl_sampled"]) < 1e-5
            assert 0 <= found["floor"]["kl_summed"] < 1e-5
    assert document["looks"][1]["drift"] == comparison_json(trajectory.comparisons[2])["drift"]
    assert "drift" not in document["looks"][1]["comparison"]["after"]


def test_page_markdown_and_tables_show_the_drift(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forgetwatch.report.html.svg", svg)  # here with its pictures
    trajectory = Trajectory.from_run(run)
    found = trajectory.drift[4]["probe"]
    shown = f"{found.kl_summed:.3f}"[:4]
    page, text = run_page(trajectory), comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory)
    assert "<svg" in page[page.index('<h3 id="drift">') :].split("<h3")[1]
    assert [line.split("|")[1].strip() for line in text.splitlines() if "prompts |" in line][-1] == (
        "4, training prompts"
    )
    assert not any(line.plain.startswith("drift") for line in run_table(trajectory).renderables)
    detail = printed(comparison_detail(trajectory.comparisons[-1], trajectory=trajectory))
    assert shown in detail[detail.index("KL summed") :]
    assert max(map(len, detail.splitlines())) <= 100


def test_a_figure_that_may_be_wider_than_a_screen_has_a_caption_that_says_so(run: Path) -> None:
    figures = re.findall(r"<figure>(.*?)</figure>", run_page(Trajectory.from_run(run)), re.DOTALL)
    assert len(figures) > 3
    assert all("<figcaption>" in figure for figure in figures if 'class="scroll"' in figure)


def test_every_number_of_a_drift_and_its_floor_comes_back_from_strict_json() -> None:
    stored = json.loads(json.dumps(stored_drift({"probe": HARD}), allow_nan=False))
    found = read_drift({"drift": stored}, label="a look")
    assert found is not None
    assert repr(found["probe"]) == repr(HARD)  # nan is unequal to itself
    shown = drift_json({"probe": HARD})
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown is not None
    assert (shown["probe"]["kl_sampled"], shown["probe"]["kl_summed"]) == (None, 0.25)
    assert shown["probe"]["floor"] == {"kl_sampled": -1e-9, "kl_summed": 0.0}
    assert drift_json(None) is None


def test_the_floor_is_that_of_the_base_and_each_number_has_its_own_key() -> None:
    base = Drift(completions=2, tokens=5, kl_sampled=1e-6, kl_sampled_se=0.0, overlap=1, overlap_se=0.0, kl_summed=1e-7)
    assert LookDrift.of(HARD, base).floor == Floor(kl_sampled=1e-6, kl_summed=1e-7)
    assert LookDrift.of(HARD).floor is None
    row = drift_row({"probe": HARD})
    assert (row["kl_probe"], row["kl_summed_probe"], row["kl_summed_probe_se"]) == (math.inf, 0.25, 0.05)
    assert row["overlap_probe"] == 0.5


def test_only_the_interval_of_the_sampled_kl_may_reach_below_zero() -> None:
    found = replace(HARD, kl_sampled=0.01, kl_sampled_se=0.02, kl_summed=0.01, kl_summed_se=0.02)
    assert DRIFT.cells(found)["kl_sampled"] == "0.010 (-0.029 to 0.049)"
    assert DRIFT.cells(found)["kl_summed"] == "0.010 (0 to 0.049)"


def test_two_looks_of_a_run_have_no_drift_between_them(run: Path) -> None:
    """A look's drift is from the start of its run, and not from another look."""
    looks = [run / "_forgetwatch" / f"step-00000{step}.parquet" for step in (2, 4)]
    assert compare(before=looks[0], after=looks[1]).drift is None
    assert compare(before=run / "_forgetwatch" / "baseline.parquet", after=looks[1]).drift is not None
    base = load_snapshot(run / "_forgetwatch" / "baseline.parquet")
    assert compare(before=replace(base, meta={**base.meta, "run": "another"}), after=looks[1]).drift is None


@pytest.mark.parametrize(
    "stored",
    [
        *({"probe": 3}, {"probe": {"tokens": 5}}, {"probe": {"completions": "many"}}),
        {"probe": {**WHOLE, "kl_sampled": "many"}},
        {"probe": {**WHOLE, "floor": 3}},
    ],
)
def test_metadata_that_are_no_drift_are_refused(run: Path, stored: dict[str, Any]) -> None:
    folder = run / "_forgetwatch"
    base, look = (load_snapshot(folder / name) for name in ("baseline.parquet", "step-000004.parquet"))
    with pytest.raises(SnapshotError, match="needed numbers of each set under 'drift'"):
        compare(before=base, after=replace(look, meta={**look.meta, "drift": stored}))
    whole = compare(before=base, after=replace(look, meta={**look.meta, "drift": {"probe": WHOLE}}))
    assert repr(whole.drift) == repr({"probe": HARD})  # nan is unequal to itself


def test_a_look_drift_is_a_drift(run: Path) -> None:
    found = Trajectory.from_run(run).drift[4]["training"]
    assert isinstance(found, LookDrift)
    assert found.completions == len(EXAMPLES)

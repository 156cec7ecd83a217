"""The early-warning experiment: its plan and texts, its statistics on made runs, and a small run from end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import early_table
import early_warning
import numpy as np
import pytest
from early_table import (
    Run,
    advantage,
    bootstrap_interval,
    draws_of_runs,
    held_out,
    line,
    rank_correlation,
)
from scipy import stats
from support import snapshot

from forgetwatch import Item, Probe, Snapshot, load_probe, load_snapshot, save_snapshot


def made_run(number: int, *, kl: float, lost: float, rate: float = 1e-4, task: str = "sums") -> Run:
    values = dict.fromkeys(early_table.NAMES, float(number)) | {
        "kl_training_summed": kl,
        "rate": rate,
    }
    return Run(
        name=f"run{number}",
        task=task,
        rank=0,
        replay=0.0,
        values=values,
        losses={"lost": lost, "known_lost": lost},
    )


def test_rank_correlations_are_those_of_scipy_also_with_ties_and_row_by_row() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (20, 15)).astype(float), rng.normal(size=(20, 15))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert rank_correlation(x, y) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)))
    assert np.isnan(rank_correlation(np.ones((3, 1)), np.ones((3, 1)))).all()


def test_bootstrap_intervals_cover_the_rank_correlation_of_made_runs() -> None:
    rng = np.random.default_rng(1)
    linear = 0.6
    truth = 6 / np.pi * np.arcsin(linear / 2)  # Spearman's of two normal variables
    covered = []
    for _ in range(200):
        x = rng.normal(size=24)
        y = linear * x + np.sqrt(1 - linear**2) * rng.normal(size=24)
        drawn = draws_of_runs(24, rng, draws=400)
        low, high = bootstrap_interval(rank_correlation(x[drawn], y[drawn]))
        covered.append(low <= truth <= high)
    # Percentile intervals of 24 runs are a little too narrow; much narrower or wider ones would be wrong.
    assert 0.88 <= np.mean(covered) <= 0.99


def test_an_interval_is_nan_where_most_draws_have_no_correlation() -> None:
    assert np.isnan(bootstrap_interval(np.array([np.nan, np.nan, 0.5]))).all()
    assert bootstrap_interval(np.array([0.1] * 99 + [np.nan])) == pytest.approx((0.1, 0.1))


def test_a_curve_that_both_tasks_share_predicts_the_held_out_one() -> None:
    x = np.repeat(np.arange(12.0), 2)
    task = np.array(["sums", "records"] * 12)
    found = held_out(x, x**3, task)
    assert found.rho == pytest.approx(1)
    assert found.error == pytest.approx(0)
    assert found.error_of_mean > 300


def test_a_quantity_with_another_level_on_each_task_orders_within_tasks_and_fails_held_out() -> (
    None
):
    y = np.arange(12.0)
    task = np.repeat(["sums", "records"], 12)
    x = np.concatenate([y, y + 100])
    runs = [
        made_run(n, kl=a, lost=b, task=str(c))
        for n, (a, b, c) in enumerate(zip(x, [*y, *y], task, strict=True))
    ]
    found = line(runs, "kl_training_summed", "lost", np.random.default_rng(0))
    assert found.by_task == pytest.approx({"records": 1, "sums": 1})
    assert found.held_out is not None
    assert found.held_out.rho < 0.5
    assert found.held_out.error > found.held_out.error_of_mean


def test_the_held_out_curve_is_fitted_on_the_other_task_alone() -> None:
    x, task = np.array([1.0, 2.0, 1.0, 2.0]), np.array(["a", "a", "b", "b"])
    # Fitted on all runs, the error would be 5.
    assert held_out(x, np.array([0.0, 0.0, 10.0, 10.0]), task).error == pytest.approx(10)


def test_runs_of_one_value_are_one_point_of_the_held_out_curve_at_their_mean() -> None:
    x, task = np.array([1.0, 1.0, 2.0, 1.0]), np.array(["a", "a", "a", "b"])
    # The curve of a is 2 at 1; that of b is 2 everywhere, which misses a by 1, 1 and 4.
    assert held_out(x, np.array([1.0, 3.0, 6.0, 2.0]), task).error == pytest.approx(
        (1 + 1 + 4 + 0) / 4
    )


def test_an_advantage_is_counted_over_the_same_draws() -> None:
    rng = np.random.default_rng(2)
    lost = rng.normal(size=24)
    runs = [
        made_run(n, kl=float(y), lost=float(y), rate=float(rng.normal()))
        for n, y in enumerate(lost)
    ]
    more, (low, high) = advantage(runs, "kl_training_summed", "rate", "lost", rng)
    assert more > 0.5
    assert 0 < low < more < high
    assert advantage(runs, "rate", "rate", "lost", rng) == (0.0, (0.0, 0.0))


def test_a_quantity_that_only_follows_the_learning_rate_orders_nothing_within_it(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(3)
    rates = np.repeat([1e-5, 5e-5, 2e-4, 5e-4], 6)
    lost = 1e5 * rates + rng.normal(size=24)
    runs = [
        replace(one, values={**one.values, "rate_of_rank": float(rate), "loss": float(y)})
        for rate, y in zip(rates, lost, strict=True)
        for one in [
            made_run(0, kl=float(rate + 1e-7 * rng.random()), lost=float(y), rate=float(rate))
        ]
    ]
    across = line(runs, "kl_training_summed", "lost", rng).rho
    within, (low, high) = early_table.within_rates(runs, "kl_training_summed", "lost")
    assert across > 0.9
    assert low < within < high
    assert low < 0 < high
    # The loss itself orders the runs within each rate, too.
    assert early_table.within_rates(runs, "loss", "lost")[0] == pytest.approx(1)
    early_table.write_rows(runs, tmp_path / "rows.csv")
    rows = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 25
    assert rows[0].split(",")[:4] == ["name", "task", "rank", "replay"]
    assert len(rows[1].split(",")) == len(rows[0].split(","))


def test_runs_without_a_quantity_are_left_out_of_its_line_and_counted() -> None:
    runs = [made_run(n, kl=float(n) if n else np.nan, lost=float(n)) for n in range(10)]
    assert line(runs, "kl_training_summed", "lost", np.random.default_rng(0)).n == 9
    assert line(runs, "loss", "lost", np.random.default_rng(0)).n == 10


def test_fewer_than_eight_runs_have_no_interval() -> None:
    runs = [made_run(n, kl=float(n), lost=float(n * n)) for n in range(8)]
    assert line(
        runs, "kl_training_summed", "lost", np.random.default_rng(0)
    ).interval == pytest.approx((1, 1))
    few = line(runs[:7], "kl_training_summed", "lost", np.random.default_rng(0))
    assert few.rho == pytest.approx(1)
    assert np.isnan(few.interval).all()


def scored(logprobs: list[list[float]], golds: list[list[int]]) -> Snapshot:
    right = [int(np.argmax(row)) in gold for row, gold in zip(logprobs, golds, strict=True)]
    return snapshot(
        item_id=[str(n) for n in range(len(right))],
        correct=right,
        chosen=[int(np.argmax(row)) for row in logprobs],
        gold=[gold[0] for gold in golds],
        golds=[gold if len(gold) > 1 else None for gold in golds],
        k=[len(row) for row in logprobs],
        choice_logprobs=logprobs,
    )


def test_margin_erosion_is_the_mean_fall_over_items_right_before_with_the_best_of_several_right_options() -> (
    None
):
    before = scored([[-1, -3], [-4, -2], [-1, -1.5, -2]], [[0], [0], [0, 1]])
    after = scored([[-3, -2.5], [-1, -9], [-2, -1.5, -2]], [[0], [0], [0, 1]])
    # Falls of 2 to -.5 and of 1 to .5; the second item was wrong before.
    assert early_table.margin_erosion(before, after) == pytest.approx((2.5 + 0.5) / 2)
    assert np.isnan(
        early_table.margin_erosion(scored([[-4, -2]], [[0]]), scored([[-4, -2]], [[0]]))
    )


def cell(**changed: Any) -> dict[str, Any]:
    drift = {"kl_sampled": 0.2, "kl_summed": 0.1}
    base = {
        "task": "sums",
        "rank": 4,
        "rate": 5e-4,
        "replay": 0.25,
        "early": 3,
        "losses": [3.0, 2.0, 1.0, 0.5],
    }
    early = {"probe": drift, "training": {"kl_sampled": 0.4, "kl_summed": 0.3}}
    return {**base, "drift": {"early": early, "end": {"training": {"kl_summed": 2.0}}}, **changed}


def test_a_run_s_quantities_are_turned_so_that_more_means_more_forgetting() -> None:
    start = scored([[-1, -3]] * 60, [[0]] * 60)
    early = scored([[-3, -4]] * 60, [[0]] * 60)
    end = scored([[-3, -2]] * 15 + [[-1, -3]] * 45, [[0]] * 60)
    run = early_table.read_run("name", cell(), start, early, end)
    share = [np.log(np.exp(a) / (np.exp(a) + np.exp(b))) for a, b in ((-1, -3), (-3, -4))]
    assert run.values["log_share_fall"] == pytest.approx(share[0] - share[1])
    assert run.values["log_mass_fall"] == pytest.approx(np.logaddexp(-1, -3) - np.logaddexp(-3, -4))
    assert run.values["margin_erosion"] == pytest.approx(1)
    assert run.values["loss"] == pytest.approx(-2)
    assert run.values["loss_fall"] == pytest.approx(2)
    assert run.values["rate_of_rank"] == pytest.approx(5e-5)
    assert run.values["kl_training_summed"] == 0.3
    assert run.values["kl_probe_sampled"] == 0.2
    assert run.values["kl_training_end"] == 2.0
    assert run.values["lost_then"] == 0
    assert run.losses["lost"] == pytest.approx(25)
    assert set(run.values) == set(early_table.NAMES)
    assert set(run.losses) == set(early_table.TARGETS)


def test_a_missing_run_is_named_and_not_counted(tmp_path: Path) -> None:
    for folder in ("base", "cells", "looks"):
        (tmp_path / folder).mkdir()
    names = [f"run{n}" for n in range(5)]
    start = scored([[-1, -3]] * 60, [[0]] * 60)
    save_snapshot(start, tmp_path / "base" / "start.parquet")
    for n, name in enumerate(names):
        lost = [[-3, -2]] * (5 * n) + [[-1, -3]] * (60 - 5 * n)
        save_snapshot(start, tmp_path / "looks" / f"{name}-early.parquet")
        save_snapshot(scored(lost, [[0]] * 60), tmp_path / "looks" / f"{name}-end.parquet")
        made = cell(task="sums" if n % 2 else "records", rate=1e-4 * (n + 1))
        (tmp_path / "cells" / f"{name}.json").write_text(json.dumps(made))
    (tmp_path / "cells" / "run3.json").unlink()
    (tmp_path / "looks" / "run1-end.parquet").unlink()
    text = early_table.write_report(tmp_path, names)
    assert text.startswith("3 runs. Missing, and not counted: run1, run3.")
    numbers = json.loads((tmp_path / "early_warning.json").read_text())
    assert numbers["missing"] == ["run1", "run3"]
    rate = next(
        one for one in numbers["lines"] if (one["quantity"], one["target"]) == ("rate", "lost")
    )
    assert (rate["n"], rate["rho"]) == (3, pytest.approx(1))
    assert (tmp_path / "early_warning.png").read_bytes().startswith(b"\x89PNG")


def test_the_plan_is_balanced_from_its_first_eight_runs_on() -> None:
    plan = early_warning.plan()
    assert len({one.name for one in plan}) == 48
    assert len({replace(one, seed=0) for one in plan}) == 48
    crossed = {(one.task, one.rank, one.rate) for one in plan[:24]}
    assert len(crossed) == 24
    for first in range(0, 48, 8):
        levels = [one.rate / (10 if one.rank else 1) for one in plan[first : first + 8]]
        for rate in early_warning.RATES:
            assert sum(abs(level / rate - 1) < 1e-9 for level in levels) == 2
        assert sum(one.task == "sums" for one in plan[first : first + 8]) == 4
        assert sum(one.replay > 0 for one in plan[first : first + 8]) == 4


def test_the_texts_follow_from_a_seed_and_hold_nothing_that_the_probe_asks() -> None:
    probe = load_probe("standard")
    asked = "\n".join(f"{item.shots}{item.prompt}" for item in probe)

    def made(seed: int) -> list[early_warning.Row]:
        rng = np.random.default_rng(seed)
        return [
            *early_warning.sums(400, rng, early_warning.sums_in(probe)),
            *early_warning.records(400, rng),
        ]

    assert made(3) == made(3)
    assert made(3) != made(4)
    for prompt, completion in made(3):
        assert prompt not in asked
        trained = re.escape(completion.split(" = ")[0])
        assert not re.search(rf"(?<![\d/]){trained}(?!\d)", asked)
    requests = early_warning.replay_requests(96, np.random.default_rng(0))
    assert len(set(requests)) == 96
    assert not any(request in asked for request in requests)


def test_sums_that_a_probe_asks_are_left_out_in_either_order() -> None:
    texts = (
        "Is 3 + 5 = 9?",
        "What is 7 plus 1?",
        "Work out 2/9 + 1/2.",
        "Supply is 6 + 4P.",
        "12 + 3 is",
    )
    probe = Probe(
        [
            Item(id=text, task="t", category="c", prompt=text, choices=(" a", " b"), answer=0)
            for text in texts
        ]
    )
    left_out = early_warning.sums_in(probe)
    assert left_out == {frozenset({3, 5}), frozenset({7, 1})}
    rows = early_warning.sums(800, np.random.default_rng(0), left_out)
    completions = {completion.split(" = ")[0] for _, completion in rows}
    assert "3 + 4" in completions
    assert not {"3 + 5", "5 + 3", "7 + 1", "1 + 7"} & completions


@pytest.fixture(scope="module")
def demo_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The demo's model after five steps, with its tokenizer and its probe."""

    from forgetwatch import demo
    from forgetwatch.probes.shipped_probes import demo_probe, facts

    folder, world = tmp_path_factory.mktemp("model"), facts()
    tokenizer = demo.make_tokenizer(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "BASE_STEPS", 5)
        model = demo.teach_base(world, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    demo_probe().save(folder / "probe.jsonl")
    return folder


def test_the_loss_of_a_batch_is_that_of_its_rows_without_padding(demo_model: Path) -> None:
    import torch

    model, _ = early_warning.load_model(demo_model)
    batch = [((3, 4, 5), (6, 7, 1)), ((8,), (9,)), ((3, 4, 5, 6, 7), (8, 9))]
    total = 0.0
    with torch.no_grad():
        for prompt, completion in batch:
            logprobs = model(torch.tensor([prompt + completion])).logits[0].log_softmax(-1)
            total -= sum(
                logprobs[len(prompt) - 1 + n, token].item() for n, token in enumerate(completion)
            )
        assert early_warning.batch_loss(model, batch, pad=1).item() == pytest.approx(
            total / 6, abs=1e-5
        )


def test_a_small_experiment_runs_from_end_to_end_and_resumes_with_the_run_that_is_missing(
    demo_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(early_warning, "PROMPTS", 4)
    monkeypatch.setattr(early_warning, "REPLAYED", 4)
    given = [
        "--model",
        str(demo_model),
        "--out",
        str(tmp_path),
        "--probe",
        str(demo_model / "probe.jsonl"),
    ]
    given += ["--items", "60", "--steps", "4", "--jobs", "1", "--runs", "5", "--only", "sums"]
    early_warning.main(given)
    names = [one.name for one in early_warning.plan()[:5] if one.task == "sums"]
    cells = [tmp_path / "cells" / f"{name}.json" for name in names]
    before = [json.loads(file.read_text()) for file in cells]
    assert [one["rank"] for one in before] == [0, 4, 32]
    assert [one["replay"] for one in before] == [0, 0.25, 0]
    assert all(len(one["losses"]) == 4 and one["early"] == 1 for one in before)
    assert before[2]["drift"]["early"]["training"]["kl_summed"] > 0
    assert len(load_snapshot(tmp_path / "looks" / f"{names[1]}-end.parquet")) == 60
    assert "3 of 3" in (printed := capsys.readouterr().out)
    assert "3 runs." in printed
    cells[1].unlink()
    stamps = [cells[n].stat().st_mtime_ns for n in (0, 2)]
    early_warning.main(given)
    assert [cells[n].stat().st_mtime_ns for n in (0, 2)] == stamps
    assert "1 of 1" in capsys.readouterr().out
    assert json.loads(cells[1].read_text())["losses"] == pytest.approx(before[1]["losses"])
    with pytest.raises(
        SystemExit, match="needed a run of 9 steps, got one of 4; give another --out"
    ):
        early_warning.main([*given, "--steps", "9"])

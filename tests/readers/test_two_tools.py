"""The same questions and log-likelihoods give the same comparison, whichever harness logged them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness_rows import choice_row, write_samples
from lighteval_files import DATE, new, write_new, write_old
from typer.testing import CliRunner

from forgetwatch import Snapshot, compare, load_snapshot, save_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.measures.rows import option_scores
from forgetwatch.metrics import decide
from forgetwatch.readers import concatenate

ITEMS = 1500
LENGTH: dict[str, Callable[[str], int]] = {"sum": lambda _: 1, "chars": len, "with space": lambda text: len(text) + 1}


def answers(seed: int, norm: str, items: int = ITEMS) -> list[dict[str, Any]]:
    """Questions with four options of different lengths, in every second one gold likelier; correct by two norms."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    rows = []
    for index in range(items):
        lengths = fixed.integers(2, 30, 4)
        choices = [chr(ord("a") + option) * int(length) for option, length in enumerate(lengths)]
        gold, known = int(fixed.integers(4)), index % 2
        logprobs = -rng.gamma(2.0, 1.0, 4) * lengths**0.7
        logprobs[gold] *= 0.5 if known else 1.0
        scores = logprobs / [LENGTH[norm](text) for text in choices]
        right = [int(np.argmax(values) == gold) for values in (logprobs, scores)]
        rows.append(
            {"query": f"Question {index}?", "choices": choices, "gold": gold, "id": str(index)}
            | {"logprobs": logprobs.tolist(), "acc": right[0], "norm": right[1]}
        )
    return rows


def as_lm_eval(
    folder: Path, model: str, rows: list[dict[str, Any]], task: str = "toy", *, by_length: bool = True
) -> Path:
    metrics = [{"acc": float(row["acc"])} | ({"acc_norm": float(row["norm"])} if by_length else {}) for row in rows]
    made = [
        choice_row(n, row["logprobs"], row["gold"], choices=row["choices"], metrics=values)
        for n, (row, values) in enumerate(zip(rows, metrics, strict=True))
    ]
    return write_samples(folder / f"org__{model}", task, made)


def as_lighteval(folder: Path, model: str, rows: list[dict[str, Any]], *, schema: str, space: str = "") -> Path:
    path = folder / "details" / "org" / model / DATE / f"details_toy_{DATE}.parquet"
    rows = [{**row, "choices": [space + text for text in row["choices"]]} for row in rows]
    if schema == "old":
        return write_old(path, rows)
    metrics = [{"acc": row["acc"], "acc_norm": row["norm"]} for row in rows]
    made = [
        new(row, metric=values, task="toy", logprobs=row["logprobs"]) for row, values in zip(rows, metrics, strict=True)
    ]
    return write_new(path, made)


def document(before: Path, after: Path, metric: str) -> dict[str, Any]:
    """The JSON document of the command, without the paths and the name of the tool."""
    out = before.parent / "out.json"
    found = CliRunner().invoke(app, ["compare", str(before), str(after), "--metric", metric, "--json", str(out)])
    assert found.exit_code == 0, found.output
    written: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    for side in ("before", "after"):
        for name in ("source", "tool"):
            written[side].pop(name)
    return written


@pytest.mark.parametrize("metric", ["acc", "acc_norm"])
@pytest.mark.parametrize(("schema", "space"), [("old", ""), ("new", ""), ("new", " ")])
def test_two_tools_logs_of_the_same_answers_give_equal_json(
    tmp_path: Path, metric: str, schema: str, space: str
) -> None:
    sides = {"before": answers(1, "chars"), "after": answers(2, "chars")}
    lm_eval = [as_lm_eval(tmp_path / "lm_eval", model, rows) for model, rows in sides.items()]
    lighteval = [
        as_lighteval(tmp_path / "lighteval", model, rows, schema=schema, space=space) for model, rows in sides.items()
    ]
    one, other = (document(before, after, metric) for before, after in (lm_eval, lighteval))
    assert one == other
    assert one["before"]["probe"] == {"norm": "sum" if metric == "acc" else "chars"}
    assert one["groups"][0]["chance"]["guess_corrected"]["n"] == ITEMS


def explained(snapshot: Snapshot) -> tuple[int, int]:
    """Number of wrong answers, and of those that are the best option by the scores that the norm makes."""
    options = option_scores(snapshot)
    assert options is not None
    wrong = snapshot.floats("correct") == 0
    best = decide(options.scores, options.k, options.golds).chosen == snapshot.ints("chosen")
    return int(wrong.sum()), int((wrong & best).sum())


def test_every_wrong_answer_is_explained_under_a_length_norm(tmp_path: Path) -> None:
    path = as_lighteval(tmp_path, "model", answers(1, "chars"), schema="old")
    snapshot = load_snapshot(path, metric="acc_norm")
    wrong, known = explained(snapshot)
    assert wrong == known > 500
    # The same log by its sums alone: they choose other options.
    unnamed = replace(snapshot, meta={name: value for name, value in snapshot.meta.items() if name != "probe"})
    assert explained(unnamed)[1] < 0.9 * wrong


def test_a_norm_over_lengths_with_the_leading_space_is_recovered(tmp_path: Path) -> None:
    rows = answers(1, "with space")
    paths = [
        as_lighteval(tmp_path / "spaced", "model", rows, schema="new", space=" "),
        as_lm_eval(tmp_path / "lm_eval", "model", rows),
    ]
    snapshot = load_snapshot(paths[0], metric="acc_norm")
    assert snapshot.norms == {"toy": "chars_with_space"}
    wrong, known = explained(snapshot)
    assert wrong == known > 500
    scores = [np.array(row["logprobs"]) / [len(text) + 1 for text in row["choices"]] for row in rows]
    assert snapshot.ints("chosen").tolist() == [int(np.argmax(values)) for values in scores]
    assert load_snapshot(paths[1], metric="acc_norm").norms == {"toy": "chars"}  # the harness's own definition


def test_two_tools_logs_of_scores_minus_priors_give_equal_counts(tmp_path: Path) -> None:
    found = []
    for model, seed in (("before", 1), ("after", 2)):
        rows, rng = answers(seed, "sum", 400), np.random.default_rng(seed)
        for row in rows:
            row["priors"] = (-rng.gamma(2.0, 5.0, 4)).tolist()
            row["right"] = float(np.argmax(np.subtract(row["logprobs"], row["priors"])) == row["gold"])
        lm_eval = []
        for n, row in enumerate(rows):
            made = choice_row(n, row["logprobs"], row["gold"], choices=row["choices"], metrics={})
            resps = [[[str(value), "False"]] for value in (*row["logprobs"], *row["priors"])]
            lm_eval.append({**made, "resps": resps, "metrics": ["acc_mutual_info"], "acc_mutual_info": row["right"]})
        lighteval = [
            new(row, metric={"acc_mutual_info": row["right"]}, task="toy", logprobs=[*row["logprobs"], *row["priors"]])
            for row in rows
        ]
        found.append((write_samples(tmp_path / model, "toy", lm_eval), write_new(tmp_path / f"{model}.p", lighteval)))
    one, other = (compare(before=before, after=after) for before, after in zip(*found, strict=True))
    assert one.before["probe"] == other.before["probe"] == {"norm": "unconditional"}
    assert one.all.chance == other.all.chance
    assert one.all.chance.guess_corrected is not None


def test_each_task_of_lightevals_folder_keeps_its_own_norm(tmp_path: Path) -> None:
    folder = tmp_path / "details" / "org" / "model" / DATE
    for task, metric, norm in (("lengths", "acc_norm", "norm"), ("sums", "acc", "acc")):
        rows = [
            new(row, metric={metric: row[norm]}, task=task, logprobs=row["logprobs"])
            for row in answers(1, "chars", 400)
        ]
        write_new(folder / f"details_{task}_{DATE}.parquet", rows)
    snapshot = load_snapshot(tmp_path, metric="acc_norm")
    assert snapshot.norms == snapshot.meta["norms"] == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(snapshot)
    assert wrong == known


def test_lengths_with_the_space_are_not_guessed_if_only_some_options_have_one(tmp_path: Path) -> None:
    rows = answers(1, "with space", 400)
    for number, row in enumerate(rows):
        row["choices"] = [" " * (number % 2) + text for text in row["choices"]]
    metrics = [{"acc_norm": row["norm"]} for row in rows]
    made = [new(row, metric=values, logprobs=row["logprobs"]) for row, values in zip(rows, metrics, strict=True)]
    snapshot = load_snapshot(write_new(tmp_path / "a.parquet", made))
    assert snapshot.norms == {}
    assert snapshot.missing("chosen")
    assert "which option was chosen does not follow from the log-likelihoods: 400 items" in snapshot.notes


def of_two_tasks(folder: Path, model: str, seed: int) -> Path:
    """An lm-eval log of two tasks: one with a metric by length, the other with the metric of the sum alone."""
    as_lm_eval(folder, model, answers(seed, "chars", 400), "lengths")
    return as_lm_eval(folder, model, answers(seed + 10, "sum", 400), "sums", by_length=False).parent


def test_each_task_of_a_log_keeps_its_own_norm(tmp_path: Path) -> None:
    before, after = (of_two_tasks(tmp_path, model, seed) for model, seed in (("before", 1), ("after", 2)))
    snapshot = load_snapshot(before, metric="acc_norm")
    assert "probe" not in snapshot.meta
    assert snapshot.norms == snapshot.meta["norms"] == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(snapshot)
    assert wrong == known
    whole = compare(before=before, after=after, metric="acc_norm")
    for task in ("lengths", "sums"):
        sides = [next(folder.glob(f"samples_{task}_*")) for folder in (before, after)]
        alone = compare(before=sides[0], after=sides[1], metric="acc_norm" if task == "lengths" else "acc")
        assert whole.by("task")[task].chance == alone.all.chance


def test_the_norms_of_a_log_stay_in_a_saved_snapshot(tmp_path: Path) -> None:
    snapshot = load_snapshot(of_two_tasks(tmp_path, "model", 1), metric="acc_norm")
    save_snapshot(snapshot, tmp_path / "saved.parquet")
    assert load_snapshot(tmp_path / "saved.parquet").norms == snapshot.norms


def test_files_of_different_norms_keep_their_norms_when_they_are_joined(tmp_path: Path) -> None:
    folder = of_two_tasks(tmp_path, "model", 1)
    files = [
        load_snapshot(next(folder.glob(f"samples_{task}_*")), metric=metric)
        for task, metric in (("sums", "acc"), ("lengths", "acc_norm"))
    ]
    whole = concatenate(files)
    assert whole.norms == {"lengths": "chars", "sums": "sum"}
    wrong, known = explained(whole)
    assert wrong == known


def test_a_norm_that_was_inferred_is_noted_where_it_differs_and_never_refused(tmp_path: Path) -> None:
    spaced, plain = answers(1, "with space"), answers(2, "chars")
    before = as_lighteval(tmp_path, "before", spaced, schema="new", space=" ")
    after = as_lighteval(tmp_path, "after", plain, schema="new", space=" ")
    notes = compare(before=before, after=after, metric="acc_norm").notes
    assert "norms of the score that decides differ: toy chars_with_space and chars" in notes


def test_an_unknown_norm_in_a_file_is_one_sentence(tmp_path: Path) -> None:
    snapshot = load_snapshot(as_lm_eval(tmp_path, "model", answers(1, "chars", 20)), metric="acc_norm")
    odd = replace(snapshot, meta={**snapshot.meta, "probe": {"norm": "charz"}})
    with pytest.raises(SnapshotError, match="unknown norm 'charz'; needed one of sum, chars"):
        compare(before=odd, after=odd)

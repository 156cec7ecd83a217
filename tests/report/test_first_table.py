"""The first table: eight lines in every case, each of which a stranger can place."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import choices, compared, hostile, printed, samples, sure, unfolded, watched, written
from pages import run as scored_run
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.terminal import LINES, first_lines
from forgetwatch.run_folder.description import Ending, GuardFinding
from forgetwatch.run_folder.task_figure import TaskFigure


def lines(comparison: Comparison, notes: tuple[str, ...] = (), **options: Any) -> list[str]:
    return printed(first_lines(first_table(comparison, **options), notes)).splitlines()


def row(comparison: Comparison, label: str, **options: Any) -> str:
    """Text of a row; empty if there is none."""
    return dict(first_table(comparison, **options).rows).get(label, "")


def of_run(trajectory: Trajectory, label: str, **options: Any) -> str:
    return row(trajectory.final, label, trajectory=trajectory, **options)


def categories(*lost: int, gained: int = 0, of: int = 60) -> Comparison:
    """Categories a, b, ... of `of` questions, half of them right before, so many of which are lost."""
    before = [item < of // 2 for _ in lost for item in range(of)]
    after = [
        (was and item >= fell) or item >= of - gained
        for fell in lost
        for item, was in enumerate(before[:of])
    ]
    return compared(
        before, after, category=["abcdefgh"[at] for at in range(len(lost)) for _ in range(of)]
    )


def known(*, tilt: float, items: int = 300, meta: dict[str, Any] | None = None) -> Comparison:
    """Options with scores on both sides; `tilt` is taken from the right option after."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(items, 4)) * 2 + np.array([1.5, 0, 0, 0])
    sides = []
    for side in (0, 1):
        moved = (
            scores + side * rng.normal(size=scores.shape) * 0.8 - side * np.array([tilt, 0, 0, 0])
        )
        shares = np.exp(moved) / np.exp(moved).sum(axis=1, keepdims=True)
        columns = {
            "k": [4] * items,
            "gold": [0] * items,
            "chosen": moved.argmax(axis=1),
            "gold_share": shares[:, 0],
        }
        right = (moved.argmax(axis=1) == 0).tolist()
        sides.append(snapshot(right, meta=meta, choice_logprobs=np.log(shares).tolist(), **columns))
    return compare(before=sides[0], after=sides[1], repeat=sides[0])


def test_a_loss_of_knowledge_is_told_in_one_currency() -> None:
    comparison = known(tilt=2.0)
    whole = comparison.all
    share, (low, high) = whole["known_lost_net_share"], whole["known_lost_net_share_interval"]
    shown = lines(comparison, flips="forgetwatch flips a b")
    verdict = (
        f"about {100 * share:.0f} % of what it knew is gone ({100 * low:.0f} to {100 * high:.0f} %)"
    )
    assert shown[0] == f"FORGOT     snapshot: {verdict}"
    counted = f"{whole['known_lost_net']:.0f} of about {whole['known_net']:.0f} clearly known"
    assert shown[1] == f"           limit 5 %; lost {counted}, guesses left out"
    sides = f"accuracy {100 * whole.accuracy_before:.1f} -> {100 * whole.accuracy_after:.1f} %"
    assert (
        shown[2]
        == f"answers    {whole.forgotten:g} of all 300 lost, {whole.gained:g} gained, guesses too: {sides}"
    )
    assert shown[3] == "next       forgetwatch flips a b"


def test_a_loss_of_accuracy_says_that_it_is_estimated() -> None:
    found = first_table(known(tilt=1.0), tolerance=Tolerance(known=None)).decision
    assert found.claim.startswith("accuracy fell by about ")
    assert found.basis == "limit 2 points; estimated: each answer counts by how far it moved"
    raw = first_table(categories(20)).decision
    assert (raw.claim, raw.basis) == (
        "accuracy fell by about 33 points (20 to 45)",
        "limit 2 points",
    )


def test_what_is_kept_has_both_bounds() -> None:
    found = first_table(known(tilt=0.0), tolerance=Tolerance(accuracy=0.2, known=0.5)).decision
    assert found.word == "KEPT"
    assert found.claim.startswith("accuracy ")
    assert found.claim.endswith(" points (limit 20)")
    assert found.basis.endswith(" are gone (limit 50 %), 95 % sure")
    alone = first_table(compared([True] * 300, [True] * 300)).decision
    assert alone.claim.startswith("accuracy fell by at most ")
    assert alone.basis.startswith("95 % sure, by accuracy alone: ")


@pytest.mark.parametrize(
    ("comparison", "limits", "claim"),
    [
        (
            known(tilt=0.35),
            Tolerance(accuracy=None, category=None),
            "lost 1 to 18 % of what it knew (limit 5 %)",
        ),
        (
            known(tilt=0.1),
            Tolerance(known=None, category=None),
            "accuracy fell by 0.8 to 5.2 points (limit 2)",
        ),
        (
            compared([True] * 60, [True] * 60),
            Tolerance(),
            "accuracy may have fallen up to 6.0 points (limit 2)",
        ),
    ],
)
def test_what_is_not_clear_names_the_leg_that_is_open(
    comparison: Comparison, limits: Tolerance, claim: str
) -> None:
    found = first_table(comparison, tolerance=limits).decision
    assert (found.word, found.claim) == ("NOT CLEAR", claim)


def test_too_few_questions_of_a_probe_name_the_next_size() -> None:
    meta = {"probe": {"name": "standard", "items": 60, "of": 2000, "fingerprint": "f"}}
    unclear = known(tilt=0.2, items=60, meta=meta)
    assert first_table(unclear).decision.basis.endswith("ask 250 questions")
    assert first_table(unclear, flips="forgetwatch flips a b", more="forgetwatch compare").command
    assert "ask" not in first_table(known(tilt=0.2, items=60)).decision.basis


def test_a_ceiling_and_little_to_lose_are_named() -> None:
    easy = compared([True] * 280 + [False] * 20, [True] * 278 + [False] * 22, k=[4] * 300)
    assert "too easy to show a small loss" in row(easy, "caution")
    guessing = compared(
        [True, False, False, False] * 30, [False, True, False, False] * 30, k=[4] * 120
    )
    assert "was not shown to be better than guessing" in first_table(guessing).decision.claim


def test_the_worst_category_is_named_with_its_counts() -> None:
    ranked = first_table(categories(25, 3, 2, 3), tolerance=Tolerance(category=None))
    assert dict(ranked.rows)["where"] == "worst: a, 25 of 60 lost, 0 gained"
    assert (ranked.worst, row(categories(9), "where")) == ("a", "")


def test_alike_categories_are_said_to_be_alike() -> None:
    assert row(categories(8, 8, 8, 8), "where") == "all 4 alike"
    assert (
        row(categories(1, 1, 1), "where", tolerance=Tolerance(accuracy=0.2, category=0.5))
        == "none stands out"
    )
    small = compared([True] * 338, [True] * 338, category=["a"] * 300 + ["b"] * 38)
    assert row(small, "where") == "none stands out; b (38 questions) may have lost 12 points"


def test_a_group_of_a_log_has_its_tasks() -> None:
    columns = {
        "category": ["Language"] * 60 + ["Logic"] * 60,
        "task": ["hellaswag"] * 60 + ["arc"] * 60,
    }
    sides = [
        snapshot([True] * 60 + [right] * 60, meta={"tool": "lm-evaluation-harness"}, **columns)
        for right in (True, False)
    ]
    assert row(
        compare(before=sides[0], after=sides[1]), "where", tolerance=Tolerance(category=None)
    ) == ("worst: Logic (arc), 60 of 60 lost, 0 gained")


def test_answers_that_vanished_and_passages_have_their_counts() -> None:
    gone = compared([True] * 40 + [False] * 20, [None] * 10 + [True] * 30 + [False] * 20)
    assert row(gone, "answers") == "none of 50 changed: accuracy still 60.0 %, 10 unanswered"
    assert (
        row(compared([True] * 5, [True] * 5), "answers")
        == "none of 5 changed: accuracy still 100.0 %"
    )


LOST, KEPT = [False] * 40 + [True] * 260, [True] * 300


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ((KEPT, KEPT, LOST, LOST), "surely kept until step 1, forgot from 2"),
        ((KEPT, LOST, LOST), "forgot from step 1, never surely kept"),
        ((KEPT, LOST, KEPT), "forgot at step 1, kept again at 2"),
        ((KEPT, KEPT, KEPT), "kept at all 2 looks"),
        ((KEPT, KEPT, [False] * 8 + [True] * 292), "surely kept until step 1, not clear since"),
        ((KEPT, KEPT), ""),
    ],
)
def test_when_it_kept_and_when_it_forgot(looks: tuple[list[bool], ...], told: str) -> None:
    assert of_run(watched(*looks), "when") == told


def test_the_first_category_that_fell_is_beside_it() -> None:
    trajectory, _ = scored_run(2400)
    assert " (Math from " in of_run(trajectory, "when")


def saved(folder: Path, *steps: int) -> Path:
    for step in steps:
        (folder / f"checkpoint-{step}").mkdir(parents=True)
        (folder / f"checkpoint-{step}" / "config.json").write_text("{}")
    return folder


BETTER, WORSE = [True] * 300 + [False] * 100, [True] * 240 + [False] * 160


def test_the_checkpoint_to_keep_has_its_bound_and_an_unsaved_one_its_step(tmp_path: Path) -> None:
    trajectory = watched([True] * 320 + [False] * 80, BETTER, WORSE, WORSE)
    trajectory = replace(trajectory, task=TaskFigure("loss", ((0, 2.0), (1, 1.0), (3, 0.9))))
    limits = Tolerance(accuracy=0.1, category=None, known=None)
    kept = of_run(trajectory, "keep", run=saved(tmp_path / "a", 1, 2, 3), tolerance=limits)
    assert kept == "checkpoint-1: accuracy fell by at most 7.3 points"
    of_task = of_run(trajectory, "new task", run=tmp_path / "a", tolerance=limits)
    assert of_task == "loss 2 at the start, 1 at step 1, 0.9 at the end"
    unsaved = of_run(trajectory, "keep", run=saved(tmp_path / "b", 2, 3), tolerance=limits)
    assert unsaved == "no saved checkpoint to keep; step 1 better, unsaved"
    lost = watched([True] * 320 + [False] * 80, WORSE, WORSE)
    assert of_run(lost, "keep", run=tmp_path / "a") == "no checkpoint to keep: every look forgot"
    assert of_run(watched(KEPT, KEPT), "keep", run=saved(tmp_path / "c", 1)) == "checkpoint-1"


def test_one_command_comes_next(tmp_path: Path) -> None:
    trajectory = watched([True] * 320 + [False] * 80, BETTER, WORSE)
    options = {"trajectory": trajectory, "run": tmp_path}
    assert (
        first_table(trajectory.final, **options, has_advice=False).command
        == f"forgetwatch report {tmp_path}"
    )
    assert first_table(trajectory.final, **options).command == f"forgetwatch flips {tmp_path}"
    of = first_table(categories(25, 0, 0), flips="forgetwatch flips a b")
    assert of.command == "forgetwatch flips a b --category a"
    assert first_table(compared(KEPT, KEPT), flips="forgetwatch flips a b").command == ""


def test_a_run_is_named_with_its_step_and_a_model_never_by_its_class(tmp_path: Path) -> None:
    ended = replace(
        watched(KEPT, KEPT, KEPT), ending=Ending(state="running", last_step=2, max_steps=9)
    )
    assert (
        first_table(ended.final, trajectory=ended, run=tmp_path / "sft").name == "sft, step 2 of 9"
    )
    for model in ("LlamaForCausalLM", "model"):
        sides = [
            snapshot(
                [True] * 9,
                meta={
                    "model": model,
                    "step": step,
                    "source": f"out/sft/_forgetwatch/{step}.parquet",
                },
            )
            for step in (0, 30)
        ]
        assert (
            first_table(compare(before=sides[0], after=sides[1])).name
            == "sft at step 30 against sft at step 0"
        )


def test_a_guard_that_acted_and_weights_of_another_step_are_named() -> None:
    findings = (
        GuardFinding("alarm", "all:all", 2, "ALARM"),
        GuardFinding("policy", "category:Math accuracy", 2, "Math, step 2: ..."),
        GuardFinding("must_pass", "q7", 3, "item q7 ..."),
    )
    ending = Ending(state="stopped", last_step=3, delivered=1)
    trajectory = replace(watched(KEPT, KEPT, LOST, LOST), findings=findings, ending=ending)
    told = "stopped the run at step 3; the weights left are those of step 1; tripped by category:Math accuracy (step 2)"
    assert of_run(trajectory, "guard") == f"{told}, q7 (step 3)"
    assert of_run(replace(trajectory, findings=findings[:1], ending=None), "guard") == ""


def test_a_run_without_a_look_says_so() -> None:
    start = watched([True] * 4)
    shown = lines(start.final, trajectory=start)
    assert unfolded("\n".join(shown)).startswith(
        "NO VERDICT run, step 0: no look was taken after the start, so nothing is "
    )
    assert shown[-1] == "answers    100.0 % of 4 questions right"


CASES = {
    **{made.__name__: made for made in (choices, samples, written, sure, hostile)},
    "few": lambda: None,
}


@pytest.mark.parametrize("name", CASES)
def test_the_table_has_at_most_eight_lines_of_78_columns(name: str) -> None:
    made = CASES[name]()
    comparison = compared([True] * 9, [True] * 8 + [False]) if made is None else made.comparison
    for notes in (
        (),
        comparison.notes,
        ("a note that is far too long for one line " * 4, "another"),
    ):
        shown = lines(comparison, notes)
        assert len(shown) <= LINES
        assert max(map(len, shown)) <= 78
        assert not set("".join(shown)) & set("\x1b\x07\r\u202e")
        assert not {"nan", "nan,", "n/a"} & set(" ".join(shown).split())
        assert notes == () or "note" in "".join(shown)


def test_long_names_are_shortened_in_the_middle() -> None:
    long = "a category with a very long name number "
    comparison = replace(categories(25, 1, 1), labels=("models/" + "x" * 80, "models/" + "y" * 90))
    groups = tuple(
        replace(one, name=long + one.name if one.level == "category" else one.name)
        for one in comparison.groups
    )
    shown = lines(replace(comparison, groups=tuple(groups)))
    assert max(map(len, shown)) <= 78
    assert len(shown) <= LINES
    assert "…" in shown[0]


def test_a_run_of_everything_still_fits() -> None:
    trajectory, _ = scored_run(2400)
    trajectory = replace(
        trajectory, task=TaskFigure("eval_" + "long_" * 9 + "loss", ((0, 2.0), (3, math.pi)))
    )
    shown = lines(trajectory.final, ("a note",), trajectory=trajectory, run="sft")
    assert len(shown) <= LINES
    assert [line.split()[0] for line in shown if line[0] != " "][:4] == [
        "FORGOT",
        "answers",
        "where",
        "when",
    ]

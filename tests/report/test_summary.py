"""The first screen and the sentences below its fold, in every case.

No two outputs contradict each other: many runs in every output, each sentence checked against one `Conclusion`.
"""

import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pages import (
    choices,
    clusters,
    compared,
    hostile,
    plain,
    printed,
    run,
    samples,
    watched,
    written,
)
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Item, Probe, Snapshot, Trajectory, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion, conclude
from forgetwatch.comparing.flips import Flip, flips
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.comparing.verdict import estimated, is_beyond
from forgetwatch.policy.policy import parse_no_worse_than
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.html import page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.sentences import Summary, alarm_sentences, summary
from forgetwatch.report.terminal import LINES, WIDTH, first_lines
from forgetwatch.run.guard import Guard
from forgetwatch.run.run import Run
from forgetwatch.text import listed, questions, shorten


def said(comparison: Comparison, **options: Any) -> str:
    """All sentences below the fold."""
    return " ".join(shown_of(comparison, **options).sure)


def shown_of(comparison: Comparison, *, changed: Sequence[Flip] = (), **options: Any) -> Summary:
    return summary(comparison, first_table(comparison, **options), changed=changed)


def by_category(
    lost: Sequence[int], gained: Sequence[int] | None = None, *, of: int = 60
) -> Comparison:
    """Category i of `of` items, half of them right before, lost and gained so many."""
    gained = gained or [0] * len(lost)
    before = [item < of // 2 for _ in lost for item in range(of)]
    after = [
        right != (item < fell or of // 2 <= item < of // 2 + rose)
        for (fell, rose) in zip(lost, gained, strict=True)
        for item, right in enumerate(before[:of])
    ]
    return compared(
        before, after, category=["abcdefgh"[i] for i in range(len(lost)) for _ in range(of)]
    )


# Verdict and facts


@pytest.mark.parametrize(
    ("null", "fact", "sentence"),
    [
        (
            [False] + [True] * 39,
            "1 of 40 changes when measured twice",
            "1 had another result (95 %: 0.4 to 12.9 %)",
        ),
        (
            [True] * 40,
            "0 of 40 change when measured twice",
            "0 had another result (95 %: 0.0 to 7.2 %)",
        ),
        (
            [False] * 10 + [True] * 30,
            "10 of 40 change when measured twice",
            "When 40 questions were measured again with the same weights, 10 had another result (95 %: 14.2 to 40.2 %)",
        ),
    ],
)
def test_a_second_measurement_shows_the_noise(null: list[bool], fact: str, sentence: str) -> None:
    flips = [True] * 40, [False] * 20 + [True] * 20
    assert sentence in said(compared(*flips, null=null))
    assert "measured again" not in said(compared(*flips))


def test_nothing_scored_at_all_says_that_nothing_can_be_said() -> None:
    made = shown_of(compared([None], [None]))
    assert made.first.decision.sentence == "no item was scored on both sides"
    assert made.first.rows == ()
    assert_words(made)


def test_a_run_without_a_look_says_so_and_has_no_verdict() -> None:
    start = watched([True] * 4)
    made = shown_of(start.comparisons[-1], trajectory=start)
    assert made.first.decision.word == "NO VERDICT"
    assert not any("interval" in told for told in made.sure)


def test_each_leg_has_its_number_interval_limit_and_result() -> None:
    legs = {leg.what: leg for leg in shown_of(by_category([25, 0, 0])).legs}
    assert set(legs) == {
        "net change of all questions",
        "lost of what it clearly knew",
        "net change of a",
    }
    known = legs["lost of what it clearly knew"]
    assert known.measured == "not measured"
    assert known.result
    assert legs["net change of a"].limit == "-5 points"
    assert legs["net change of a"].result == "beyond the limit"


# Worst categories and lost questions


def lost_items(
    categories: Sequence[str], *, tasks: Sequence[str] | None = None, **columns: Any
) -> Any:
    """Comparison and flips of items that were all lost, with their questions."""
    n = len(categories)
    tasks = tasks or ["t"] * n
    made = [
        Item(
            id=str(i),
            task=tasks[i],
            category=categories[i],
            prompt=f"Question {i}?",
            choices=("yes", "no"),
            answer=0,
        )
        for i in range(n)
    ]
    names = {
        "item_id": [item.id for item in made],
        "task": list(tasks),
        "category": list(categories),
    }
    names |= {"k": [2] * n, "gold": [0] * n}
    return names, Probe(made)


def test_lost_questions_are_of_the_worst_category_with_both_answers() -> None:
    names, probe = lost_items(["bad"] * 60 + ["good"] * 180)
    before = snapshot([True] * 240, chosen=[0] * 240, margin=np.arange(240.0), **names)
    after = snapshot(
        [False] * 50 + [True] * 180 + [False] * 10, chosen=[1] * 50 + [0] * 180 + [1] * 10, **names
    )
    made = shown_of(compare(before=before, after=after), changed=flips(before, after, probe=probe))
    assert made.lost_title == "Lost questions of bad"
    assert [tuple(one) for one in made.lost] == [
        (f"“Question {i}?”", "“yes”", "“no”") for i in (49, 48, 47)
    ]


def test_without_a_ranking_the_lost_questions_are_those_of_the_largest_margin_of_different_tasks() -> (
    None
):
    names, probe = lost_items([""] * 4, tasks="sstt")
    before = snapshot([True] * 4, chosen=[0] * 4, margin=[1.0, 5.0, 2.0, 4.0], **names)
    after = snapshot([False] * 4, chosen=[1] * 4, **names)
    made = shown_of(compare(before=before, after=after), changed=flips(before, after, probe=probe))
    assert made.lost_title == "Lost questions"
    assert [one.question for one in made.lost] == [
        "“Question 1?”",
        "“Question 3?”",
        "“Question 2?”",
    ]
    # Without the texts of the questions their ids and letters stay.
    bare = shown_of(compare(before=before, after=after), changed=flips(before, after))
    assert tuple(bare.lost[0]) == ("s / 1", "“A”", "“B”")


def test_clearly_known_questions_come_first_among_the_lost_ones() -> None:
    of = choices()
    lost = [flip for flip in of.changed if flip.what == "forgotten"]
    assert any(flip.known for flip in lost)
    assert any(not flip.known for flip in lost)
    made = shown_of(of.comparison, changed=of.changed)
    known = {f"“{flip.question}”" for flip in lost if flip.known}
    assert {one.question for one in made.lost} <= known


def test_an_example_without_an_answer_says_nothing_was_said() -> None:
    of = written([("It is 7.", "")])
    assert shown_of(of.comparison, changed=of.changed).lost == (
        ("“What is 0 + 7?”", "“It is 7.”", "nothing"),
    )


def test_mere_outcomes_give_no_example() -> None:
    before, after = snapshot([True] * 4), snapshot([False] * 4)
    assert shown_of(compare(before=before, after=after), changed=flips(before, after)).lost == ()


# Sentences below the fold


def test_unscored_questions_are_counted() -> None:
    told = said(compared([True, None, None], [True, True, None]))
    assert "2 questions could not be scored and are in no count." in told


def test_questions_of_one_side_only_are_counted() -> None:
    comparison = compare(
        before=snapshot([True] * 3),
        after=snapshot([True] * 2 + [False] * 2, content_hash=["h0", "h1", "x", "y"]),
        on_mismatch="intersect",
    )
    told = said(comparison)
    assert "1 question of the first side and 2 questions of the second have no counterpart" in told


def test_a_prefix_of_a_probe_is_named() -> None:
    comparison = compared([True] * 4, [True] * 4)
    prefix = replace(
        comparison, after={**comparison.after, "probe": {"name": "p", "items": 4, "of": 2000}}
    )
    assert "The looks evaluate the first 4 of 2,000 questions, to save time." in said(prefix)


def test_without_option_probabilities_clear_knowledge_is_not_known() -> None:
    for columns in ({}, {"gold_share": [0.9], "k": [2]}):
        assert "Clear knowledge needs the probabilities of three" in said(
            compared([True], [True], **columns)
        )
    with_shares = compared([True], [False], gold_share=[0.9], k=[4])
    assert "Clear knowledge needs" not in said(with_shares)


def test_losses_of_form_are_told_apart() -> None:
    columns = {"k": [4] * 20, "gold": [0] * 20, "chosen": [0] * 20}
    before = snapshot([True] * 20, free_correct=[True] * 20, **columns)
    after = snapshot(
        [False] * 5 + [True] * 15,
        free_correct=[False] * 8 + [True] * 12,
        **{**columns, "chosen": [1] * 5 + [0] * 15},
    )
    comparison = compare(before=before, after=after)
    assert (comparison.all["knowledge_lost"], comparison.all["format_lost"]) == (5, 3)
    assert "lost only their form" not in said(comparison)


def test_losses_of_form_and_of_knowledge_add_up_to_those_that_are_wrong() -> None:
    before = snapshot([True] * 9, in_form=[True] * 9, output=["a"] * 9)
    after = snapshot([False] * 5 + [True] * 4, in_form=[False] * 2 + [True] * 7, output=["b"] * 9)
    comparison = compare(before=before, after=after)
    assert (comparison.all["knowledge_lost"], comparison.all["format_lost"]) == (3, 2)
    told = said(comparison)
    assert "2 of the 5 lost answers lost only their form." in told


# Runs


def test_each_alarm_is_a_sentence_with_its_counts_and_the_last_says_how_rare_they_are() -> None:
    trajectory, _ = run(2400)
    *alarms, last = alarm_sentences(
        trajectory, conclude(trajectory.comparisons[-1], trajectory=trajectory)
    )
    assert all(raised for _, raised in alarms)
    assert any(
        re.fullmatch(
            r"Math, step \d+: -\d+\.\d points \(\d+ forgotten, \d+ gained, of 760\)"
            r"(; at the last look -\d+\.\d points \(\d+ forgotten, \d+ gained, of 760\))?: still below the start\.",
            text,
        )
        for text, _ in alarms
    )
    assert not last[1]
    assert "in at most 5 of 100 runs. At the last look a fall of " in last[0]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            [{"loss": 2.5, "step": 5}, {"loss": 1.25, "step": 20}],
            "loss 2.5 at the start, 1.25 at the end",
        ),
        (
            [{"loss": 2.5, "step": 5}, {"eval_loss": 1.1, "step": 20}],
            "eval loss 1.1 at step 20",
        ),
        ([{"loss": "nan", "step": 5}, {"loss": float("nan"), "step": 6}, "x"], None),
        ([{"eval_forget/all/forgotten": 3, "step": 5}], None),
        (3, None),
    ],
)
def test_the_figure_of_the_new_task_is_of_the_latest_checkpoint(
    tmp_path: Path, log: Any, told: str | None
) -> None:
    _, probe = run(60)
    hashes = [item.content_hash for item in probe]
    start, end = (
        snapshot([True] * 60, content_hash=hashes, meta={"step": step}) for step in (0, 20)
    )
    write_run(tmp_path, probe, start, {20: end})
    for step, history in ((9, [{"loss": 9.0, "step": 1}]), (20, log)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(
            json.dumps({"log_history": history})
        )
    trajectory = Trajectory.from_run(tmp_path)
    made = shown_of(trajectory.comparisons[-1], trajectory=trajectory)
    assert dict(made.first.rows).get("new task") == told


# Words


GONE = re.compile(
    r"by luck alone|can see|measured twice: 0|on (its|their) own|below zero|needs? [\d,]+|\bnan\b|n/a"
    r"|\bNone\b|fading|more than luck|would fit|\b(PASS|FAIL|INCONCLUSIVE)\b"
)


def assert_words(made: Summary) -> None:
    rows = [*made.first.rows, *made.legs, made.sure]
    text = " ".join([made.first.decision.sentence, *(cell for row in rows for cell in row)])
    assert not GONE.search(text), GONE.search(text)
    assert not re.search(r"\b[pqk] ", text)


@pytest.mark.parametrize(
    "made", [choices, samples, clusters, written], ids=lambda made: made.__name__
)
def test_no_word_of_the_trade_is_on_the_first_screen(made: Any) -> None:
    assert_words(shown_of(made().comparison))


def test_no_word_of_the_trade_is_on_the_first_screen_of_a_run() -> None:
    for items in (60, 2400):
        trajectory, _ = run(items)
        assert_words(shown_of(trajectory.comparisons[-1], trajectory=trajectory))


def test_hostile_names_are_unchanged_text() -> None:
    of = hostile()
    assert "alert(" in str(shown_of(of.comparison, changed=of.changed).lost)


def test_phrases_for_numbers_and_names() -> None:
    assert (questions(0), questions(1), questions(1200)) == (
        "No question",
        "1 question",
        "1,200 questions",
    )
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
    assert shorten("a\n b") == "a b"
    assert shorten("x" * 200 + " end?", 10) == "… xxxxx end?"


Floats = NDArray[np.float64]
Change = Callable[[Floats, NDArray[np.str_], int, np.random.Generator], Floats]
"""(scores of the baseline [n, 4], categories [n], number of the look, generator) -> scores at the look."""

LOOKS = 4


def nothing(
    scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator
) -> Floats:
    return scores


def mild(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return scores + rng.normal(size=scores.shape) * 0.2


def ruin(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return mild(scores, category, look, rng) - np.array([1.5 * look, 0, 0, 0])


def one_category_ruined(
    scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator
) -> Floats:
    return np.where((category == "Math")[:, None], ruin(scores, category, look, rng), scores)


def gained(
    scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator
) -> Floats:
    return scores + np.array([6.0, 0, 0, 0])


def faded(
    scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator
) -> Floats:
    """Half of the confident right answers are right with hardly any lead."""
    rest = scores[:, 1:].max(axis=1)
    sure = (scores[:, 0] - rest > 1.5) & (np.arange(len(scores)) % 2 == 0)
    found = scores.copy()
    found[sure, 0] = rest[sure] + 0.05
    return found


def recovered(
    scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator
) -> Floats:
    return ruin(scores, category, 3, rng) if look <= 2 else gained(scores, category, look, rng)


@dataclass(frozen=True)
class Case:
    """A run, and the guard over it."""

    change: Change
    each: int = 80
    names: tuple[str, ...] = ("Art", "Law", "Math")
    scores: bool = True
    guard: Guard = Guard()  # noqa: RUF009  # frozen
    run: bool = True


CASES = {
    "nothing": Case(nothing, each=200),
    "mild": Case(mild),
    "ruin": Case(ruin),
    "one category ruined": Case(one_category_ruined),
    "all gained": Case(gained, each=200),
    "five items a category": Case(ruin, each=5, names=tuple("abcdefgh")),
    "one item a category": Case(ruin, each=1, names=tuple("abcdefgh")),
    "sureness falls without a flip": Case(faded),
    "an alarm, then recovered": Case(recovered),
    "without scores": Case(one_category_ruined, scores=False),
    "one category": Case(ruin, names=("Math",)),
    "a comparison": Case(one_category_ruined, run=False),
    "a comparison without change": Case(nothing, run=False),
    "a tight guard": Case(mild, guard=Guard(no_worse_than="0.1%")),
    "a wide guard": Case(
        one_category_ruined, each=250, guard=Guard(no_worse_than="15%,category=15%")
    ),
}


def looks(case: Case) -> list[Snapshot]:
    rng = np.random.default_rng(11)
    category = np.repeat(np.array(case.names), case.each)
    start = rng.normal(size=(len(category), 4)) * 1.5 + np.array([1.5, 0, 0, 0])
    return [
        _look(start if not at else case.change(start, category, at, rng), category, at, case)
        for at in range(LOOKS + 1)
    ]


def _look(scores: Floats, category: NDArray[np.str_], step: int, case: Case) -> Snapshot:
    n = len(scores)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    columns = {
        "category": category.tolist(),
        "k": [4] * n,
        "gold": [0] * n,
        "chosen": scores.argmax(axis=1),
    }
    if case.scores:
        columns |= {"choice_logprobs": np.log(shares).tolist(), "gold_share": shares[:, 0]}
    meta = {"model": "m", "step": 100 * step, "probe": {"name": "p"}}
    return snapshot((scores.argmax(axis=1) == 0).tolist(), meta=meta, **columns)


@dataclass(frozen=True)
class Shown:
    """All outputs of a run or a comparison, as text in one line, and what they are made of."""

    name: str
    comparison: Comparison
    trajectory: Trajectory | None
    found: Conclusion
    table: str
    lines: list[str]
    outputs: dict[str, str]


@cache
def show(name: str) -> Shown:
    case = CASES[name]
    made = looks(case)
    if not case.run:
        comparison = compare(before=made[0], after=made[-1])
        trajectory = None
    else:
        run = Run(probe(), "nowhere")
        for at in range(2, len(made) + 1):
            run.note(case.guard.findings(trajectory_of(made[:at], planned=LOOKS)))
        trajectory = replace(trajectory_of(made, planned=LOOKS), findings=run.state.findings)
        comparison = trajectory.comparisons[-1]
    table = printed(first_lines(first_table(comparison, trajectory=trajectory), comparison.notes))
    outputs = {
        "page": text_of(page(comparison, trajectory=trajectory)),
        "markdown": plain(
            re.sub(r"\\(.)", r"\1", comparison_markdown(comparison, trajectory=trajectory))
        ),
    }
    found = conclude(comparison, trajectory=trajectory)
    return Shown(name, comparison, trajectory, found, plain(table), table.splitlines(), outputs)


def text_of(page: str) -> str:
    """Text that a reader sees; without the last section of a page, which explains the words of all cases."""
    page = re.sub(r'<section id="method">.*?</section>', "", page, flags=re.DOTALL)
    page = re.sub(r"<(style|script|svg|head)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return plain(html.unescape(re.sub(r"<[^>]+>", " ", page)))


@pytest.fixture(params=CASES, scope="module")
def shown(request: pytest.FixtureRequest) -> Shown:
    return show(request.param)


def everything(shown: Shown) -> dict[str, str]:
    return {"table": shown.table, **shown.outputs}


def test_the_verdict_is_the_same_everywhere_with_the_same_sentence(shown: Shown) -> None:
    made = shown.found.decision
    for name, text in everything(shown).items():
        assert set(re.findall(r"\b(FORGOT|KEPT|NOT CLEAR)\b", text)) == {made.word}, name
        assert re.search(
            rf"\b{made.word}\W+[\w, ]+: {re.escape(made.claim)}\W+{re.escape(made.basis)}", text
        ), name


def test_no_output_has_the_words_that_were_misread(shown: Shown) -> None:
    for name, text in everything(shown).items():
        other = re.search(
            r"(more than|beyond) luck|luck alone|can see|below zero on|measured twice: 0|\bfloor\b",
            text,
        )
        assert other is None, (name, other)


def test_an_alarm_of_a_group_that_came_back_says_so(shown: Shown) -> None:
    for one in shown.found.alarms:
        change, _ = estimated(one.now.group)
        if one.state == "recovered":
            assert change >= 0
            assert one.told == "recovered"


def test_the_guard_trips_only_where_its_rule_fails(shown: Shown) -> None:
    if shown.trajectory is None:
        return
    by_step = dict(zip(shown.trajectory.steps, shown.trajectory.comparisons, strict=True))
    for finding in shown.found.findings:
        if finding.what == "policy" and finding.name == "all accuracy":
            bound = parse_no_worse_than(CASES[shown.name].guard.no_worse_than)["accuracy"]
            assert is_beyond(by_step[finding.step].all, bound)
        if finding.what == "alarm":
            assert any(
                f"{one.alarm.group.level}:{one.alarm.group.name}" == finding.name
                and one.alarm.step == finding.step
                for one in shown.found.alarms
            )
    trips = [trip for trip in shown.found.findings if trip.what in ("policy", "must_pass")]
    assert ("guard tripped by" in shown.table) == bool(trips)


def test_the_numbers_of_the_table_add_up(shown: Shown) -> None:
    whole = shown.comparison.all
    net = re.search(r"limit 5 %; lost (\S+) of about (\S+) clearly known", shown.table)
    made = shown.found.decision
    assert (net is not None) == (made.word == "FORGOT" and made.deciding == "knowledge")
    if net:
        assert float(net[1]) == pytest.approx(whole["known_lost_net"], abs=0.5)
        assert float(net[2]) == round(whole["known_net"])
    flips = re.search(r"answers (\S+) of (?:all )?(\S+) lost, (\d+) gained", shown.table)
    if flips:
        assert [float(one) for one in flips.groups()] == [whole.forgotten, whole.n, whole.gained]


def test_the_table_keeps_its_size(shown: Shown) -> None:
    assert len(shown.lines) <= LINES
    assert max(map(len, shown.lines)) <= WIDTH


def test_the_cases_are_what_their_names_say() -> None:
    """Without this, all of the above could hold because nothing was ever found."""
    found = {name: show(name).found for name in CASES}
    assert found["mild"].alarms == ()
    assert not found["mild"].lost
    assert found["ruin"].decision.answer == "FAIL"
    assert len(found["ruin"].alarms) > 1
    assert found["all gained"].decision.answer == "PASS"
    assert found["nothing"].decision.answer == "PASS"
    assert [one.group.name for one in found["one category ruined"].lost] == ["Math"]
    came_back = found["an alarm, then recovered"]
    assert {one.state for one in came_back.alarms} == {"recovered"}
    # Right answers that only become less sure are no loss.
    assert found["sureness falls without a flip"].alarms == ()
    assert "policy" in {one.what for one in found["a wide guard"].findings}

"""No two outputs contradict each other: many runs in every output, each sentence checked against one `Conclusion`."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from pages import plain, printed
from support import snapshot

from forgetwatch import Snapshot, Trajectory, compare
from forgetwatch.comparing import TOLERANCE, Comparison, Conclusion, can_see, conclude, group_verdict
from forgetwatch.report import (
    LINES,
    WIDTH,
    comparison_fragment,
    comparison_markdown,
    comparison_table,
    page,
    trajectory_fragment,
)
from forgetwatch.watch import Guard, Tripped

Floats = NDArray[np.float64]
Change = Callable[[Floats, NDArray[np.str_], int, np.random.Generator], Floats]
"""(scores of the baseline [n, 4], categories [n], number of the look, generator) -> scores at the look."""

LOOKS = 4


def nothing(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return scores


def mild(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return scores + rng.normal(size=scores.shape) * 0.2


def ruin(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return mild(scores, category, look, rng) - np.array([1.5 * look, 0, 0, 0])


def one_category_ruined(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return np.where((category == "Math")[:, None], ruin(scores, category, look, rng), scores)


def gained(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    return scores + np.array([6.0, 0, 0, 0])


def faded(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
    """Half of the confident right answers are right with hardly any lead."""
    rest = scores[:, 1:].max(axis=1)
    sure = (scores[:, 0] - rest > 1.5) & (np.arange(len(scores)) % 2 == 0)
    found = scores.copy()
    found[sure, 0] = rest[sure] + 0.05
    return found


def recovered(scores: Floats, category: NDArray[np.str_], look: int, rng: np.random.Generator) -> Floats:
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
    "nothing": Case(nothing),
    "mild": Case(mild),
    "ruin": Case(ruin),
    "one category ruined": Case(one_category_ruined),
    "all gained": Case(gained),
    "five items a category": Case(ruin, each=5, names=tuple("abcdefgh")),
    "one item a category": Case(ruin, each=1, names=tuple("abcdefgh")),
    "fading without a net loss": Case(faded),
    "an alarm, then recovered": Case(recovered),
    "without scores": Case(one_category_ruined, scores=False),
    "one category": Case(ruin, names=("Math",)),
    "a comparison": Case(one_category_ruined, run=False),
    "a comparison without change": Case(nothing, run=False),
    "a tight guard": Case(mild, guard=Guard(net_loss=0.0, looks=1)),
    "a wide guard": Case(one_category_ruined, each=250, guard=Guard(net_loss=0.15, looks=2)),
}


def looks(case: Case) -> list[Snapshot]:
    rng = np.random.default_rng(11)
    category = np.repeat(np.array(case.names), case.each)
    start = rng.normal(size=(len(category), 4)) * 1.5 + np.array([1.5, 0, 0, 0])
    return [
        _look(start if not at else case.change(start, category, at, rng), category, at, case) for at in range(LOOKS + 1)
    ]


def _look(scores: Floats, category: NDArray[np.str_], step: int, case: Case) -> Snapshot:
    n = len(scores)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    columns = {"category": category.tolist(), "k": [4] * n, "gold": [0] * n, "chosen": scores.argmax(axis=1)}
    if case.scores:
        columns |= {"choice_logprobs": np.log(shares).tolist(), "gold_share": shares[:, 0]}
    meta = {"model": "m", "step": 100 * step, "probe": {"name": "p"}}
    return snapshot((scores.argmax(axis=1) == 0).tolist(), meta=meta, **columns)


@dataclass(frozen=True)
class Shown:
    """All outputs of a run or a comparison, as text in one line, and what they are made of."""

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
        notebook = comparison_fragment(comparison)
    else:
        tripped = Tripped()
        for at in range(2, len(made) + 1):
            tripped.new(case.guard.findings(Trajectory.of(made[:at], planned=LOOKS)))
        trajectory = replace(Trajectory.of(made, planned=LOOKS), findings=tuple(tripped.findings))
        comparison = trajectory.comparisons[-1]
        notebook = trajectory_fragment(trajectory)
    table = printed(comparison_table(comparison, trajectory=trajectory))
    outputs = {
        "page": text_of(page(comparison, trajectory=trajectory)),
        "notebook": text_of(notebook),
        "markdown": plain(re.sub(r"\\(.)", r"\1", comparison_markdown(comparison, trajectory=trajectory))),
    }
    found = conclude(comparison, trajectory=trajectory)
    return Shown(comparison, trajectory, found, plain(table), table.splitlines(), outputs)


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


def test_the_verdict_is_the_same_everywhere_and_names_its_question(shown: Shown) -> None:
    word = shown.found.verdict.word
    here = "this look: " if shown.trajectory else "this comparison: "
    assert f"{here}{word}, " in shown.table
    alone = "At this look alone: " if shown.trajectory else "In this comparison alone: "
    for name, text in everything(shown).items():
        assert set(re.findall(r"\b(PASS|FAIL|INCONCLUSIVE)\b", text)) == {word}, name
        assert name == "table" or re.search(rf"{word}\W+{alone}", text), name


def test_no_output_calls_one_thing_luck_and_another_not(shown: Shown) -> None:
    for name, text in everything(shown).items():
        text = text.replace("Is that more than luck?", "")
        other = re.search(r"more than luck|beyond luck|luck does not explain|lower bound|\bfloor\b", text, re.I)
        assert other is None, name


def test_every_alarm_is_named_in_every_output_and_no_other(shown: Shown) -> None:
    raised = [(one.alarm.kind, one.alarm.group.name, one.alarm.step) for one in shown.found.alarms]
    named = re.findall(r"\b(net|fading) (\w+) \(step (\d+)", shown.table)
    assert {(kind, name, int(step)) for kind, name, step in named} <= set(raised)
    assert bool(named) == bool(raised)
    if not shown.trajectory:
        assert "alarm" not in shown.table
        return
    assert (" looks: no alarm (" in shown.table) == (not raised)
    for kind, group, step in raised:
        of = "over all questions" if group == "all" else f"of {group}"
        what = "net loss" if kind == "net" else "fading"
        assert f"Alarm at step {step}, {what} {of}: " in shown.outputs["page"]
        assert f"ALARM {kind} {group}, step {step}: " in shown.outputs["notebook"]
    for name, text in shown.outputs.items():
        assert ("NO ALARM" in text) == (not raised), name
        over_all = re.search(r"Over all 4 looks and \d+ groups: (a net loss|fading) o", text)
        assert (over_all is not None) == bool(raised), name


def test_an_alarm_of_a_group_that_came_back_says_so(shown: Shown) -> None:
    for one in shown.found.alarms:
        group = one.now.group
        change = group.net_change if one.alarm.kind == "net" else group.log_score_change_calibrated
        assert change is not None
        if one.state == "recovered":
            assert change >= 0
        of = "over all questions" if group.level == "all" else f"of {group.name}"
        tail = {"lasting": "", "unclear": ", unclear now", "recovered": ", recovered since"}[one.state]
        what = "net loss" if one.alarm.kind == "net" else "fading"
        if len(shown.found.alarms) <= 4:  # of more, the sentence names the first
            assert f"{what} {of} at step {one.alarm.step}{tail}" in shown.outputs["page"]


def test_categories_below_zero_on_their_own_are_the_same_everywhere(shown: Shown) -> None:
    names = [group.name for group in shown.found.below_zero]
    assert ("below zero on " in shown.table) == bool(names)
    for name, text in shown.outputs.items():
        assert (re.search(r"LOSS\W+\w", text) is not None) == bool(names), name
    for name in ("page", "markdown"):
        none = re.search(r"None of its \d+ categories is below zero on its own", shown.outputs[name])
        assert (none is not None) == (shown.found.categories > 0 and not names and not _no_flip(shown))
    for group in shown.found.below_zero:
        assert group.net_change_interval[1] < 0
        assert group.q_value <= 0.05


def _no_flip(shown: Shown) -> bool:
    return not shown.comparison.all.forgotten and not shown.comparison.all.gained


def test_two_questions_with_unlike_outcomes_are_called_two_questions(shown: Shown) -> None:
    found = shown.found
    if found.is_run and (found.lost_here != bool(found.alarms) or (found.verdict.word == "PASS" and found.alarms)):
        assert found.differs
    assert ("two questions: " in shown.table) == found.differs
    for name, text in shown.outputs.items():
        assert ("These are two questions: " in text) == found.differs, name


def test_the_guard_trips_only_where_its_rule_fails_and_its_items_see_enough(shown: Shown) -> None:
    if shown.trajectory is None:
        return
    by_step = dict(zip(shown.trajectory.steps, shown.trajectory.comparisons, strict=True))
    for finding in shown.found.findings:
        if finding.what in ("net_loss", "too_few_items"):
            level, _, name = finding.name.partition(":")
            group = by_step[finding.step].by(level)[name]  # type: ignore[arg-type]
            bound = float(re.findall(r"below -([\d.]+) points", finding.line)[0]) / 100
            assert group_verdict(group, bound).word == "FAIL"
            assert (level == "all" or can_see(group, bound)) == (finding.what == "net_loss")
            last = finding.step == shown.trajectory.steps[-1]
            if finding.name == "all:all" and last and bound >= TOLERANCE:
                assert shown.found.verdict.word == "FAIL"
        if finding.what in ("alarm", "fading"):
            assert any(
                f"{one.alarm.group.level}:{one.alarm.group.name}" == finding.name
                and one.alarm.step == finding.step
                and one.alarm.kind == ("net" if finding.what == "alarm" else "fading")
                for one in shown.found.alarms
            )
        else:
            assert finding.line in shown.outputs["page"]
    trips = [trip for trip in shown.found.trips if trip.what in ("net_loss", "must_pass")]
    assert ("guard tripped" in shown.table) == bool(trips)
    for name, text in shown.outputs.items():
        assert ("its guard tripped" in text) == bool(shown.found.trips), name


def test_the_numbers_of_one_sentence_add_up(shown: Shown) -> None:
    whole = shown.comparison.all
    for line in shown.lines:
        if found := re.search(r"now lost (\S+), by luck alone (\S+): net (\S+) ", line):
            lost, made, net = map(float, found.groups())
            assert lost - made == pytest.approx(net)
    for text in shown.outputs.values():
        if found := re.search(
            r"clearly knew, it now gets (\d+) wrong\. Luck alone would make about (\S+) such losses", text
        ):
            assert float(found[1]) == whole.known_lost
            assert float(found[2]) == pytest.approx(whole.known_lost_by_luck, abs=0.51)
        if found := re.search(r"which leaves ([\d.]+): between", text):
            assert shown.found.known_lost == "above"


def test_the_table_keeps_its_size(shown: Shown) -> None:
    assert len(shown.lines) <= LINES
    assert max(map(len, shown.lines)) <= WIDTH


def kinds(found: Conclusion) -> set[str]:
    return {one.alarm.kind for one in found.alarms}


def test_the_cases_are_what_their_names_say() -> None:
    """Without this, all of the above could hold because nothing was ever found."""
    found = {name: show(name).found for name in ("mild", "ruin", "fading without a net loss", "all gained")}
    assert found["mild"].alarms == ()
    assert not found["mild"].lost_here
    assert found["ruin"].verdict.word == "FAIL"
    assert kinds(found["ruin"]) == {"net", "fading"}
    assert found["ruin"].known_lost == "above"
    assert kinds(found["fading without a net loss"]) == {"fading"}
    assert found["fading without a net loss"].log_score == "below"
    assert found["all gained"].verdict.word == "PASS"
    found = {name: show(name).found for name in ("one category ruined", "an alarm, then recovered")}
    assert [group.name for group in found["one category ruined"].below_zero] == ["Math"]
    came_back = found["an alarm, then recovered"]
    assert {one.state for one in came_back.alarms if one.alarm.kind == "net"} == {"recovered"}
    assert came_back.differs
    found = {name: show(name).found for name in ("five items a category", "a wide guard", "ruin")}
    assert {one.what for one in found["five items a category"].findings if not one.trips} == {"too_few_items"}
    assert "net_loss" in {one.what for one in found["a wide guard"].findings}

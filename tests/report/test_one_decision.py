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
from support import probe, snapshot

from forgetwatch import Snapshot, Trajectory, compare
from forgetwatch.comparing import Comparison, Conclusion, conclude, estimated, is_beyond
from forgetwatch.policy import limits_of
from forgetwatch.report import (
    LINES,
    WIDTH,
    comparison_fragment,
    comparison_markdown,
    comparison_table,
    page,
    trajectory_fragment,
)
from forgetwatch.run import Guard, Run

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
    "a wide guard": Case(one_category_ruined, each=250, guard=Guard(no_worse_than="15%,category=15%")),
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
        notebook = comparison_fragment(comparison)
    else:
        run = Run(probe(), "nowhere")
        for at in range(2, len(made) + 1):
            run.note(case.guard.findings(Trajectory.of(made[:at], planned=LOOKS)))
        trajectory = replace(Trajectory.of(made, planned=LOOKS), findings=run.findings)
        comparison = trajectory.comparisons[-1]
        notebook = trajectory_fragment(trajectory)
    table = printed(comparison_table(comparison, trajectory=trajectory))
    outputs = {
        "page": text_of(page(comparison, trajectory=trajectory)),
        "notebook": text_of(notebook),
        "markdown": plain(re.sub(r"\\(.)", r"\1", comparison_markdown(comparison, trajectory=trajectory))),
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
    word, sentence = shown.found.decision.word, shown.found.decision.sentence
    for name, text in everything(shown).items():
        assert set(re.findall(r"\b(FORGOT|KEPT|NOT CLEAR)\b", text)) == {word}, name
        assert re.search(rf"\b{word}\W+{re.escape(sentence)}", text), name


def test_no_output_names_a_loss_beside_kept_without_its_limit(shown: Shown) -> None:
    if shown.found.decision.answer != "PASS":
        return
    if " worst " in shown.table:
        assert re.search(r" worst .*, limit -?\d", shown.table)
    for one in shown.found.alarms:
        assert one.told in ("recovered", "within the limit now", "not clear now")


def test_no_output_has_the_words_that_were_misread(shown: Shown) -> None:
    for name, text in everything(shown).items():
        other = re.search(
            r"(more than|beyond) luck|luck alone|can see|below zero on|measured twice: 0|\bfloor\b",
            text,
        )
        assert other is None, (name, other)


def test_the_alarms_of_the_table_are_those_of_the_run(shown: Shown) -> None:
    raised = {
        ("all questions" if one.alarm.group.level == "all" else one.alarm.group.name, one.alarm.step)
        for one in shown.found.alarms
    }
    line = next((line for line in shown.lines if line.startswith("since ")), "")
    named = re.findall(r"(?:since +|, )([\w ]+): step (\d+)", line.partition("; best estimate")[0])
    assert {(name, int(step)) for name, step in named} <= raised
    assert bool(named) == bool(raised)
    if shown.trajectory is None:
        assert not line
    else:
        assert ("no fall beyond chance at 4 looks" in shown.table) == (not raised)


def test_an_alarm_of_a_group_that_came_back_says_so(shown: Shown) -> None:
    for one in shown.found.alarms:
        change, _ = estimated(one.now.group)
        if one.state == "recovered":
            assert change >= 0
            assert one.told == "recovered"


def test_worst_categories_of_the_table_are_those_of_the_verdict(shown: Shown) -> None:
    line = next((line for line in shown.lines if line.startswith("worst ")), "")
    names = re.findall(r"(?:worst +|, )(?!limit)(\w+) [-+]", line)
    wanted = [one.group.name for one in shown.found.lost or shown.found.ranked]
    assert names == wanted[: len(names)]
    if shown.found.lost:
        assert names
    for one in shown.found.lost:
        assert one.interval[1] < 0


def test_the_guard_trips_only_where_its_rule_fails(shown: Shown) -> None:
    if shown.trajectory is None:
        return
    by_step = dict(zip(shown.trajectory.steps, shown.trajectory.comparisons, strict=True))
    for finding in shown.found.findings:
        if finding.what == "policy" and finding.name == "all accuracy":
            bound = limits_of(no_worse_than=CASES[shown.name].guard.no_worse_than).tolerance.accuracy
            assert is_beyond(by_step[finding.step].all, bound)
        if finding.what == "alarm":
            assert any(
                f"{one.alarm.group.level}:{one.alarm.group.name}" == finding.name and one.alarm.step == finding.step
                for one in shown.found.alarms
            )
    trips = [trip for trip in shown.found.findings if trip.what in ("policy", "must_pass")]
    assert ("guard tripped by" in shown.table) == bool(trips)


def test_the_numbers_of_the_table_add_up(shown: Shown) -> None:
    whole = shown.comparison.all
    net = re.search(r"\((\S+) of (\S+) without lucky guesses;", shown.table)
    counts = re.search(
        r"(\S+) of the (\S+) it was sure of are now wrong(?:, about (\S+) (?:of them lucky guesses|of them guessed))?;",
        shown.table,
    )
    if counts:
        lost, known, by_luck = (float(one or 0) for one in counts.groups())
        assert (lost, known) == (whole["known_lost"], whole["known"])
        if net:
            assert lost - by_luck == pytest.approx(float(net[1]))
    flips = re.search(r"questions (\S+) of (\S+) forgotten, (\d+) gained", shown.table)
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

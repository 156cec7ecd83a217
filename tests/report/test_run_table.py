from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pages import printed, watched
from pages import run as scored

from forgetwatch import Trajectory
from forgetwatch.report import alarm_lines, alarm_sentences, course_line, run_detail
from forgetwatch.report.run_table import run_table
from forgetwatch.run_folder import GuardFinding

RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run(*looks: list[bool], planned: int | None = None, k: int | None = 4) -> Trajectory:
    return watched(*looks, planned=planned, k=[k] * len(looks[0]))


def text(trajectory: Trajectory) -> str:
    return printed(run_detail(trajectory))


def test_counts_of_a_run_come_with_those_of_a_guesser() -> None:
    line = course_line(run(*RUN)).plain
    assert line == "over 2 looks: ever forgotten 2 (a guesser 1), right again 1 (a guesser 0)"
    assert course_line(run(RUN[0])).plain == "no look after the baseline"
    assert "guesser" not in course_line(run(*RUN, k=None)).plain


def test_each_look_has_a_line() -> None:
    shown = text(run(*RUN))
    lines = [line.split() for line in shown.splitlines()]
    assert lines[1][:3] == ["1", "-2", "+0"]
    assert lines[2][:3] == ["2", "-1", "+0"]
    assert "turned wrong between two looks 2 (a guesser 2): 2 items once, 0 more often" in shown
    assert "right at some look and never turned wrong 1 (a guesser 1)" in shown.splitlines()
    assert "right at some look and wrong at the last 25.0 % (a guesser 32.8 %)" in shown.splitlines()
    assert max(map(len, shown.splitlines())) <= 80


def test_a_loss_beyond_luck_is_an_alarm_with_its_null() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    shown = text(run(kept, kept, lost, lost, planned=5))
    assert shown.count("ALARM net all, step 2: -40 +0 of 100 (p 9e-13, alarm at 0.005); now -40 +0") == 1
    assert shown.count("ALARM net c, step 2:") == 1
    assert "2 alarms (net) over all and 1 category, 5 looks planned" in shown
    assert "net loss over all items at the last look: 18.0 points would raise one" in shown


def test_more_looks_than_planned_are_named() -> None:
    shown = text(run([True] * 9, [True] * 9, [False] * 9, planned=1))
    assert "2 looks (1 planned)" in shown


def test_a_run_that_lost_nothing_says_what_it_could_have_seen() -> None:
    kept = [True] * 50
    shown = text(run(kept, kept))
    assert "no alarm (net) over all and 1 category, 1 look" in shown
    assert "net loss over all items at the last look: no loss could raise one: too few flips" in shown


def test_a_long_run_shows_every_nth_look_and_the_last() -> None:
    rng = np.random.default_rng(0)
    shown = text(run(*[(rng.random(20) < 0.5).tolist() for _ in range(104)]))
    steps = [int(line.split()[0]) for line in shown.splitlines()[1:] if re.match(r" +\d+ +-", line)]
    assert steps[0] == 1
    assert steps[-1] == 103
    assert len(steps) <= 41


def first(trajectory: Trajectory, **options: Any) -> list[str]:
    return printed(run_table(trajectory, **options)).splitlines()


def test_the_first_table_of_a_run_ends_with_its_alarms_in_one_line() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    trajectory = run(kept, kept, lost, lost, planned=5)
    lines = first(trajectory)
    assert lines[0].startswith("forgetwatch  step 3, against step 0 ")
    assert lines[-1] == "3 looks: 2 alarms, net all (step 2), net c (step 2)"
    assert max(map(len, lines)) <= 80


def test_trips_of_the_guard_are_counted_in_the_table_and_named_unless_an_alarm_is() -> None:
    trips = (
        GuardFinding("alarm", "all:all", 2, "ALARM"),
        GuardFinding("net_loss", "category:Math", 2, "Math, step 2: ..."),
        GuardFinding("must_pass", "q7", 3, "item q7 ..."),
        GuardFinding("too_few_items", "category:Art", 3, "Art, step 3: ..."),
    )
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    lines = first(replace(run(kept, kept, lost, lost, planned=5), findings=trips))
    assert lines[-1] == "guard tripped 3 times: on 1 alarm, Math (step 2), item q7 (step 3)"


def test_a_group_that_recovered_after_its_alarm_is_said_to_have_recovered() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    trajectory = run(kept, lost, kept, planned=5)
    *_, alarms, questions = first(trajectory)
    assert alarms.endswith("2 looks: 2 alarms, net all (step 1, recovered), net c (step 1, recovered)")
    assert questions == "two questions: the last look at 95 %; all looks and groups at a stricter level"
    (line, *_) = alarm_lines(trajectory)
    assert line.plain == "ALARM net all, step 1: -40 +0 of 100 (p 9e-13, alarm at 0.005); now -0 +0, recovered"
    (sentence, raised), *_ = alarm_sentences(trajectory)
    assert raised
    assert sentence.endswith("At the last look: 0 of 100 questions lost, 0 gained, so it has recovered.")


def test_a_run_without_alarms_or_flips_takes_four_lines() -> None:
    lines = first(run([True] * 9, [True] * 9))
    assert len(lines) == 4
    assert lines[-1] == "1 look: no alarm (net)"


def test_a_baseline_alone_is_one_line() -> None:
    assert first(run([True] * 9)) == ["forgetwatch  no look after the baseline"]


def test_each_look_shows_the_known_and_lost_less_luck_where_it_is_measured() -> None:
    trajectory, _ = scored(items=600)
    lines = text(trajectory).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("   step"))
    assert "known net" in lines[head]
    for line, comparison in zip(lines[head + 1 :], trajectory.comparisons[1:], strict=False):
        assert comparison.all.known_lost_net is not None
        assert float(line.split()[3]) == pytest.approx(comparison.all.known_lost_net, abs=0.051)

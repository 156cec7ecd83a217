"""The first page in words: its sentences in every case, and no symbol in any."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pages import choices, clusters, compared, hostile, run, samples, watched, written
from support import snapshot

from forgetwatch import Item, Probe, compare
from forgetwatch.comparing import Comparison
from forgetwatch.comparing.flips import flips
from forgetwatch.measures import KNOWN
from forgetwatch.pairing import by_points, listed, questions, shorten
from forgetwatch.report import Summary
from forgetwatch.report.summary import summary


def said(comparison: Comparison, **options: Any) -> dict[str, str]:
    return dict(summary(comparison, **options).sections)


def test_a_summary_without_changes_says_so() -> None:
    told = said(compared([True] * 30 + [False] * 10, [True] * 30 + [False] * 10))
    assert told["What it gained"] == "No question that it answered wrong before is now right."
    assert told["What it lost"] == "No question that it answered right before is now wrong."
    assert told["Is that more than luck?"] == (
        "No answer changed sides: with these questions, anything between 6.4 points down and 6.4 up would fit as well."
    )


def test_a_summary_of_gains_alone_passes() -> None:
    made = summary(compared([False] * 40, [True] * 30 + [False] * 10))
    told = dict(made.sections)
    assert told["What it gained"] == "30 questions that it answered wrong before are now right."
    assert "raise accuracy by 75.0 points. That is above zero" in told["Is that more than luck?"]
    assert [one.word for one in made.decisions] == ["PASS"]


def test_one_question_is_singular() -> None:
    told = said(compared([True, False], [False, True]))
    assert told["What it gained"].startswith("1 question that it answered wrong before is now right.")
    assert told["What it lost"].startswith("1 question that it answered right before is now wrong.")


def test_a_fall_of_the_whole_is_named_on_top() -> None:
    made = summary(compared([True] * 100, [False] * 40 + [True] * 60))
    assert made.decisions[0].sentence == "In this comparison alone: accuracy fell by more than 2 points."
    assert "lower accuracy by 40.0 points. That is below zero" in dict(made.sections)["Is that more than luck?"]
    assert made.decisions[0].word == "FAIL"


def test_the_category_that_lost_most_questions_is_named() -> None:
    labels = {"category": ["small"] * 2 + ["large"] * 98}
    told = said(compared([True] * 100, [False] + [True] + [False] * 20 + [True] * 78, **labels))
    assert "large lost most on balance: 20 lost and 0 gained of its 98 questions." in told["What it lost"]
    assert "Among its 2 categories, large is below zero on its own." in told["Is that more than luck?"]


def test_where_no_category_fell_the_largest_share_is_named() -> None:
    labels = {"category": ["a"] * 50 + ["b"] * 50}
    before = [True] * 5 + [False] * 45 + [True] * 2 + [False] * 48
    after = [False] * 5 + [True] * 45 + [False] * 2 + [True] * 48
    told = said(compared(before, after, **labels))
    share = "No category fell. The largest share went in a: 5 lost and 45 gained of its 50 questions."
    assert share in told["What it lost"]
    assert "None of its 2 categories is below zero on its own." in told["Is that more than luck?"]


@pytest.mark.parametrize(
    ("null", "sentence"),
    [
        (
            [False] + [True] * 39,
            "answered 1 question differently, so the 20 lost and 0 gained are not measurement noise.",
        ),
        (
            [False] * 10 + [True] * 30,
            "answered 10 questions differently: that part of the gains and losses is noise.",
        ),
    ],
)
def test_a_second_measurement_shows_the_noise(null: list[bool], sentence: str) -> None:
    flips = [True] * 40, [False] * 20 + [True] * 20
    assert f"the unchanged model {sentence}" in said(compared(*flips, null=null))["Is that more than luck?"]
    assert "second time" not in said(compared(*flips))["Is that more than luck?"]


def test_unscored_questions_are_counted() -> None:
    told = said(compared([True, None, None], [True, True, None]))["What was not measured"]
    assert told.startswith("2 questions could not be scored and are in no count.")


def test_nothing_scored_at_all_says_that_nothing_can_be_said() -> None:
    made = summary(compared([None], [None]))
    told = dict(made.sections)["Is that more than luck?"]
    assert told == "Nothing was measured on both sides, so nothing can be said."
    assert_words(made)
    assert "nan" not in " ".join([made.decisions[0].sentence, *dict(made.sections).values(), *made.examples])


def test_questions_of_one_side_only_are_counted() -> None:
    comparison = compare(
        before=snapshot([True] * 3),
        after=snapshot([True] * 2 + [False] * 2, content_hash=["h0", "h1", "x", "y"]),
        on_mismatch="intersect",
    )
    told = said(comparison)["What was not measured"]
    assert "1 questions stand on the first side only" not in told
    assert "1 question of the first side and 2 questions of the second have no counterpart" in told


def test_a_prefix_of_a_probe_is_named() -> None:
    comparison = compared([True] * 4, [True] * 4)
    prefix = replace(comparison, after={**comparison.after, "probe": {"name": "p", "items": 4, "of": 2000}})
    assert "The looks evaluate the first 4 of 2,000 questions, to save time." in said(prefix)["What was not measured"]


def test_without_option_probabilities_clear_knowledge_is_not_known() -> None:
    assert "The probabilities of the options are not known" in said(compared([True], [True]))["What was not measured"]
    with_shares = compared([True], [False], gold_share=[0.9], k=[4])
    assert "probabilities of the options are not known" not in said(with_shares)["What was not measured"]
    wrong = "Of the 1 question that it clearly knew, it now gets 1 wrong."
    why = "It is not measured how many of them luck alone would make."
    assert f"{wrong} {why}" in said(with_shares)["What it lost"]


def test_without_a_question_of_two_wrong_options_the_reason_is_named() -> None:
    told = said(compared([True], [False], gold_share=[0.9], k=[2]))["What was not measured"]
    assert "No question has two wrong options" in told
    assert "probabilities of the options are not known" not in told


def test_means_over_samples_have_one_decimal() -> None:
    told = said(samples().comparison)
    assert re.search(r"\d+\.\d questions that it answered", told["What it gained"] + told["What it lost"])


def test_losses_of_form_are_told_apart() -> None:
    columns = {"k": [4] * 20, "gold": [0] * 20, "chosen": [0] * 20}
    before = snapshot([True] * 20, free_correct=[True] * 20, **columns)
    after = snapshot(
        [False] * 5 + [True] * 15, free_correct=[False] * 8 + [True] * 12, **{**columns, "chosen": [1] * 5 + [0] * 15}
    )
    told = said(compare(before=before, after=after))["What it lost"]
    assert "5 questions that it answered right before are now wrong. Another answer took the place of each." in told
    right = "3 questions more still count as right among the options"
    assert f"{right}, but a freely written answer would now begin with other words." in told


def test_losses_of_form_and_of_knowledge_add_up_to_those_that_are_wrong() -> None:
    before = snapshot([True] * 9, in_form=[True] * 9, output=["a"] * 9)
    after = snapshot([False] * 5 + [True] * 4, in_form=[False] * 2 + [True] * 7, output=["b"] * 9)
    comparison = compare(before=before, after=after)
    assert (comparison.all.knowledge_lost, comparison.all.format_lost) == (3, 2)
    told = said(comparison)["What it lost"]
    assert "5 questions that it answered right before are now wrong. Of these, 3 have another answer and 2 lost" in told


def test_guessing_is_given_with_its_range_where_nothing_shows_the_luck_among_confident_answers() -> None:
    assert "Guessing alone" not in said(choices().comparison)["Is that more than luck?"]
    groups = tuple(
        group.having(KNOWN, replace(group[KNOWN], known_lost_by_luck=None)) for group in choices().comparison.groups
    )
    told = said(replace(choices().comparison, groups=groups))["Is that more than luck?"]
    found = re.search(
        r"Guessing alone would make about (\d+) of all \d+ losses; between (\d+) and (\d+) would fit", told
    )
    assert found is not None
    made, least, most = map(int, found.groups())
    assert 0 <= least <= made <= most <= choices().comparison.all.forgotten


def test_a_run_speaks_of_all_its_looks() -> None:
    trajectory, _ = run(2400)
    made = summary(trajectory.comparisons[-1], trajectory=trajectory)
    told = {one.word: one.sentence for one in made.decisions}
    assert re.search(r"Over all 4 looks and 4 groups: .*a net loss of Math at step \d+", told["ALARM"])
    assert re.search(r"At this look alone: below zero on .* own, .*Math by \d+\.\d points", told["LOSS"])
    assert re.search(
        r"Over all 4 looks and 4 groups: \d+ alarms? w\w+ raised", dict(made.sections)["Is that more than luck?"]
    )
    still = watched([True] * 20, [True] * 20, every=5)
    calm = summary(still.comparisons[-1], trajectory=still)
    assert [one.word for one in calm.decisions] == ["INCONCLUSIVE", "NO ALARM"]
    assert dict(calm.sections)["Is that more than luck?"].endswith("no net loss raised an alarm.")


def test_a_run_without_a_look_says_so() -> None:
    start = watched([True] * 4)
    told = said(start.comparisons[-1], trajectory=start)["What was not measured"]
    assert told.startswith("No look was taken after the start")


@pytest.mark.parametrize(
    ("before", "after", "heading"),
    [
        ({"model": "a/m", "step": 0}, {"model": "a/m", "step": 1200}, "What changed in m from step 0 to step 1,200"),
        ({"model": "m", "step": 0}, {"model": "n", "step": 5}, "What changed from m at step 0 to n at step 5"),
        ({"model": "m"}, {"model": "n"}, "What changed from m to n"),
    ],
)
def test_the_heading_names_both_sides(before: dict[str, Any], after: dict[str, Any], heading: str) -> None:
    comparison = compare(before=snapshot([True], meta=before), after=snapshot([True], meta=after))
    assert "".join(text for text, _ in summary(comparison).heading) == heading


def test_examples_are_the_losses_of_largest_margin_of_two_tasks() -> None:
    probe = Probe(
        [Item(id=str(i), task="st"[i // 2], prompt=f"Question {i}?", choices=("yes", "no"), answer=0) for i in range(4)]
    )
    columns = {"item_id": list("0123"), "task": list("sstt"), "k": [2] * 4, "gold": [0] * 4}
    before = snapshot([True] * 4, chosen=[0] * 4, margin=[1.0, 5.0, 2.0, 4.0], **columns)
    after = snapshot([False] * 4, chosen=[1] * 4, **columns)
    changed = flips(before, after, probe=probe)
    assert summary(compare(before=before, after=after), changed=changed).examples == (
        "“Question 1?” It answered “yes”, and now “no”.",
        "“Question 3?” It answered “yes”, and now “no”.",
    )
    assert summary(compare(before=before, after=after), changed=flips(before, after)).examples == ()


def test_an_example_without_an_answer_says_nothing_was_said() -> None:
    of = written([("It is 7.", "")])
    assert summary(of.comparison, changed=of.changed).examples == (
        "“What is 0 + 7?” It answered “It is 7.”, and now nothing.",
    )


@pytest.mark.parametrize("made", [choices, samples, clusters, written], ids=lambda made: made.__name__)
def test_no_symbol_is_on_the_first_page(made: Any) -> None:
    assert_words(summary(made().comparison))


def test_no_symbol_is_on_the_first_page_of_a_run() -> None:
    for items in (60, 2400):
        trajectory, _ = run(items)
        assert_words(summary(trajectory.comparisons[-1], trajectory=trajectory))


def assert_words(made: Summary) -> None:
    text = " ".join(
        [*(one.sentence for one in made.decisions), *(text for section in made.sections for text in section)]
    )
    assert re.findall(r"[^\w\s.,;:?“”']", text) == []
    assert not re.search(r"\b(p|q|n|k|nan|n/a|null)\b", text)
    assert text.isascii() or set(text) <= {"“", "”"} | set(map(chr, range(128)))


def test_hostile_names_are_unchanged_text() -> None:
    of = hostile()
    assert "<script>alert(1)</script>" in str(summary(of.comparison, changed=of.changed).examples)


def test_phrases_for_numbers_and_names() -> None:
    assert (questions(0), questions(1), questions(1200)) == ("No question", "1 question", "1,200 questions")
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
    assert (by_points(-0.01), by_points(0.0251)) == ("1.0 point", "2.5 points")
    assert shorten("a\n b") == "a b"
    assert shorten("x" * 200 + " end?", 10) == "… xxxxx end?"

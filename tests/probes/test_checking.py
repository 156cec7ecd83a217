"""Faults of a probe are found with their items, without a model and by its answers, and a sound probe has none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from support import WORDS

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.errors import ProbeError
from forgetwatch.probes import Finding, check_answers, check_probe, without_questions
from forgetwatch.probes.checking import _at_most

OPTIONS = (" north", " south", " whale", " olive")


def item(number: int, **fields: Any) -> Item:
    made = {"prompt": f"Question {number}?", "choices": (f" yes {number}", f" no {number}"), "answer": number % 2}
    return Item(id=str(number), **{"task": "t", **made, **fields})


def found(items: Sequence[Item], name: str, **options: Any) -> Finding:
    (finding,) = [one for one in check_probe(Probe(items), **options) if one.name == name]
    return finding


def ids(finding: Finding) -> list[str]:
    assert finding.wrong == bool(finding.items)
    return [name for _, name in finding.items]


def test_items_that_need_a_chat_template_are_found_where_there_is_none() -> None:
    items = [item(0), item(1, rendering="chat")]
    assert ids(found(items, "no template", chats=False)) == ["1"]
    assert "no template" not in [one.name for one in check_probe(Probe(items))]


def test_a_sound_probe_has_no_finding() -> None:
    rng = random.Random(3)
    items = [
        item(
            n,
            choices=tuple(f" {rng.choice(WORDS)} {number:03}" for number in rng.sample(range(999), 4)),
            answer=rng.randrange(4),
        )
        for n in range(400)
    ]
    findings = check_probe(Probe(items), tokenize=lambda text: [hash(text)], context=10)
    assert [one.name for one in findings if one.wrong] == []
    assert len(findings) == 16


def test_the_same_question_is_found_within_and_across_tasks() -> None:
    twin = item(0, prompt="question  1?", choices=(" No 1", " yes 1"), answer=0)
    items = [item(1), twin, item(2), item(3, prompt="question 2?", choices=(" yes 2", " no 2"), task="u", answer=0)]
    assert ids(found(items, "repeated")) == ["1", "0"]
    assert ids(found(items, "two tasks")) == ["2", "3"]
    assert ids(found(items, "contradictions")) == []
    assert ids(found([item(1), item(0, prompt="Question 1?", choices=(" yes 1", " no 1"))], "contradictions")) == [
        "1",
        "0",
    ]


def test_a_leak_is_a_prompt_with_the_right_option_and_no_other() -> None:
    items = [
        item(1, prompt="The cat is red. Its colour?", choices=(" blue", " red")),
        item(2, prompt="red or blue?", choices=(" blue", " red")),
        item(3, prompt="A reddish cat?", choices=(" blue", " red")),
        item(4, prompt="Is A right?\nA. x\nB. y\nAnswer:", choices=(" A", " B")),
        item(5, prompt="It was blue.", choices=(" blue", " red")),
        item(6, prompt="C++ or not?", choices=(" C++", " D")),
    ]
    assert ids(found(items, "leaked")) == ["1", "6"]


def test_indistinguishable_options_are_found() -> None:
    items = [item(1, choices=(" a", " A")), item(2, choices=(" a", " b")), item(3, choices=(" x",), answer=0)]
    assert ids(found(items, "alike options")) == ["1"]
    assert ids(found(items, "one option")) == ["3"]
    assert ids(found(items, "same tokens", tokenize=lambda text: [0 if text.strip().lower() in "ab" else 1, 2])) == [
        "1",
        "2",
    ]


def test_answers_that_nothing_can_match_are_found() -> None:
    opened = [
        Item(id=str(n), task="t", prompt="?", answer=answer, match=match)
        for n, (answer, match) in enumerate(
            [
                ("4", "number"),
                ("$G$ is not", "contains"),
                ("two", "number"),
                (r"\frac{1}{2}", "math"),
                ("de", "language"),
            ]
        )
    ]
    finding = found(opened, "own answer")
    assert (ids(finding), finding.of, finding.wrong) == (["1", "2"], 4, True)


def test_long_items_are_found() -> None:
    items = [item(1), item(2, prompt="a b c d e f")]
    finding = found(items, "too long", tokenize=str.split, context=6)
    assert ids(finding) == ["2"]
    assert "the longest has 8" in finding.about
    assert len(check_probe(Probe(items), tokenize=str.split)) == 15


def test_shortcuts_are_faults_only_if_significantly_above_chance() -> None:
    items = [item(n, choices=(" abc", " de", " fg", " hi"), answer=0 if n % 2 else n % 4) for n in range(200)]
    longest, position = found(items, "longest option"), found(items, "position")
    assert longest.wrong
    assert position.wrong
    assert longest.about == "always the longest option is right in 75.0 % (chance 25.0 %)"
    assert position.about == "always option A of 4 is right in 75.0 % (chance 25.0 %)"
    few = found(items[:6], "position")
    assert not few.wrong
    assert found([item(1, choices=(), answer="x", match="exact")], "position").about == "no items to check"


def sound(number: int, **fields: Any) -> Item:
    """An item whose four options are of one length and of one kind."""
    return item(number, **{"choices": OPTIONS, "answer": number % 4, **fields})


def test_options_of_unlike_length_are_found_where_their_texts_are_scored() -> None:
    fair, unfair = (" lamp", " spoon", " bottle"), (" lamp", " spoon", " bottles")
    items = [sound(0), item(1, choices=fair, answer=0), item(2, choices=unfair, answer=0)]
    assert ids(found(items, "unlike lengths")) == ["2"]
    assert ids(
        found([item(3, choices=(" 5", " 125"), answer=0), item(4, choices=(" 5", " 1250"), answer=0)], "unlike lengths")
    ) == ["4"]
    (finding,) = [one for one in check_probe(Probe(items, scoring="letters")) if one.name == "unlike lengths"]
    assert (finding.of, finding.wrong) == (0, False)


def test_yes_and_no_without_a_cluster_are_found_from_the_second_on() -> None:
    yes, true = (" yes", " no"), ("True.", "False.")
    assert ids(found([sound(0), item(1, choices=yes), item(2, choices=true)], "yes or no")) == ["1", "2"]
    assert not found([sound(0), item(1, choices=yes)], "yes or no").wrong
    clustered = [item(n, choices=yes, cluster="yes/no") for n in range(9)]
    assert ids(found(clustered, "yes or no")) == []
    assert (
        ids(found([item(1, choices=(" yes", " never")), item(2, choices=(" yes", " no", " both"))], "yes or no")) == []
    )


def test_a_single_negative_option_that_is_often_right_is_found() -> None:
    options = (" no harm", " a burn", " a cold", " a cut")
    often = [item(n, choices=options, answer=0 if n % 5 else 1) for n in range(20)]
    seldom = [item(n, choices=options, answer=n % 4) for n in range(20)]
    assert found(often, "negative option").wrong
    assert "is right in 80.0 % (chance 25.0 %)" in found(often, "negative option").about
    assert not found(seldom, "negative option").wrong
    assert found([item(n, choices=(" yes", " no"), answer=1) for n in range(20)], "negative option").of == 0
    several = [item(n, choices=(" nothing", " never", " a cut"), answer=0) for n in range(20)]
    assert found(several, "negative option").of == 0


def test_a_word_that_only_begins_like_a_negative_one_is_none() -> None:
    options = (" notes", " books", " north", " nose")
    assert found([item(n, choices=options, answer=0) for n in range(20)], "negative option").of == 0


def test_answers_that_only_the_worked_examples_give_away_are_found() -> None:
    shown = {"choices": ("lime", "plum"), "shots": "Which fruit ? a lime\n\n"}
    right = [item(n, prompt=f"Which {n} ?", answer=0, **shown) for n in range(12)]
    wrong = [item(n, prompt=f"Which {n} ?", answer=1, **shown) for n in range(12, 24)]
    both = item(24, choices=("lime", "plum"), answer=0, shots="a lime or a plum\n\n")
    assert ids(found([*right, both], "in examples")) == [str(n) for n in range(12)]
    # What is shown is as often wrong: chance.
    assert not found([*right, *wrong], "in examples").wrong
    assert found([*right, *wrong], "in examples").of == 24


def test_an_item_that_is_its_own_worked_example_is_found() -> None:
    own = item(0, prompt="Which word ?", choices=("lime", "plum"), answer=0, shots="Which  word ? lime\n\n")
    other = item(1, prompt="Which one ?", choices=("lime", "plum"), answer=0, shots="Which word ? lime\n\n")
    assert ids(found([own, other], "own example")) == ["0"]
    assert found([own, other], "own example").wrong
    assert not found([other], "own example").wrong


def probe(items: int = 200, *, tasks: int = 2) -> Probe:
    rng = random.Random(5)
    return Probe(
        [
            Item(
                id=str(n),
                task=f"t{n % tasks}",
                category=f"c{n % 2}",
                prompt=f"Question: {n}?\nAnswer:",
                choices=OPTIONS,
                answer=rng.randrange(4),
            )
            for n in range(items)
        ]
    )


def answers(probe: Probe, chosen: Callable[[int, Item], int], *, share: float = 0.4, mass: float = 0.1) -> Snapshot:
    """Outcomes of a model that chooses an option with a share of the options' probability."""
    rows = []
    for n, item in enumerate(probe):
        choice = chosen(n, item)
        shares = np.full(item.k or 0, (1 - share) / 3)
        shares[choice] = share
        rows.append(
            {
                "item_id": item.id,
                "task": item.task,
                "category": item.category,
                "content_hash": item.content_hash,
                "sample": 0,
                "k": item.k,
                "gold": item.answers[0],
                "chosen": choice,
                "correct": choice in item.answers,
                "outcome": "ok",
                "choice_logprobs": np.log(mass * shares).tolist(),
                "option_mass": mass,
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Snapshot.from_columns(columns, {"probe": {"norm": "sum"}})


def guess(n: int, item: Item) -> int:
    return random.Random(n).randrange(4)


def key(n: int, item: Item) -> int:
    return int(item.answers[0])


def wrong(n: int, item: Item) -> int:
    return (int(item.answers[0]) + 1) % 4


def mostly_key(n: int, item: Item) -> int:
    return key(n, item) if n % 4 else guess(n, item)


def faults(findings: Sequence[Finding]) -> list[str]:
    return [finding.name for finding in findings if finding.wrong]


def test_a_sound_probe_has_no_fault_with_a_model_that_knows_and_one_that_does_not() -> None:
    made = probe()
    for asked in (mostly_key, guess):
        findings = check_answers(made, answers(made, asked), answers(made, guess))
        assert faults(findings) == []
        assert [finding.name for finding in findings] == [
            "no question",
            "below chance",
            "option mass",
            "sure and wrong",
        ]


@pytest.mark.parametrize("asked", [mostly_key, wrong])
def test_options_that_are_answered_without_their_questions_are_found(asked: Callable[[int, Item], int]) -> None:
    made = probe()
    findings = check_answers(made, answers(made, mostly_key), answers(made, asked))
    assert faults(findings) == ["no question"]
    assert "(chance 25.0 %)" in findings[0].about
    assert "over all" in findings[0].about


def test_a_single_category_that_is_answered_without_questions_is_named() -> None:
    made = probe(120)

    def some(n: int, item: Item) -> int:
        return key(n, item) if item.category == "c1" and n % 3 else guess(n, item)

    finding = check_answers(made, answers(made, mostly_key), answers(made, some))[0]
    assert finding.wrong
    assert "c1 +" in finding.about
    assert "c0" not in finding.about


def test_a_task_below_chance_is_found_with_its_items() -> None:
    made = probe(300, tasks=3)

    def asked(n: int, item: Item) -> int:
        return wrong(n, item) if item.task == "t2" else mostly_key(n, item)

    finding = check_answers(made, answers(made, asked), answers(made, guess))[1]
    assert finding.wrong
    assert {task for task, _ in finding.items} == {"t2"}
    assert len(finding.items) == 100
    assert finding.about.startswith("answered worse than a guess: t2 -5.8 standard errors (q 2e-12)")


def many_tasks(made: Probe) -> Probe:
    """The items as 100 tasks of 20, in ten categories."""
    items = [
        replace(item, task=f"t{n % 100:02}", category=f"c{n % 10}", choices=(*OPTIONS, " ladder")[: 4 + n % 2])
        for n, item in enumerate(made)
    ]
    return Probe(items)


def test_a_category_below_chance_is_found_where_its_tasks_are_too_small() -> None:
    made = many_tasks(probe(2000))

    def unlucky(n: int, item: Item) -> int:
        return wrong(n, item) if item.category == "c4" and n % 4 else guess(n, item)

    finding = check_answers(made, answers(made, unlucky), answers(made, guess))[1]
    assert finding.wrong
    assert "category c4 -" in finding.about
    assert finding.about.endswith("; 10 of 110 tasks and categories have enough items to show it alone")
    assert len(finding.items) == 200


def test_tasks_of_twenty_items_are_found_where_many_have_no_right_answer() -> None:
    made = many_tasks(probe(2000))

    def some(n: int, item: Item) -> int:
        return wrong(n, item) if n % 100 < 40 else mostly_key(n, item)

    finding = check_answers(made, answers(made, some), answers(made, guess))[1]
    assert finding.wrong
    assert {task for task, _ in finding.items} == {f"t{n:02}" for n in range(40)}


def test_a_model_that_guesses_everywhere_is_not_below_chance() -> None:
    made = many_tasks(probe(2000))
    finding = check_answers(made, answers(made, guess), answers(made, guess))[1]
    assert not finding.wrong
    assert finding.about.startswith("no task or category is answered worse than a guess; 10 of 110")


def test_nothing_is_said_of_chance_without_items() -> None:
    made = probe(4)
    empty = answers(made, guess)
    other = Probe([replace(item, task="other") for item in made])
    finding = check_answers(other, empty, empty)[1]
    assert (finding.of, finding.wrong, finding.about) == (0, False, "no items to check")


def test_the_probability_of_few_right_guesses_is_exact() -> None:
    assert _at_most(2, np.full(20, 0.25)) == pytest.approx(binom.cdf(2, 20, 0.25))
    # One guess of chance 1/2 and one of 1/4: both wrong, or one right.
    assert _at_most(0, np.array([0.5, 0.25])) == pytest.approx(0.375)
    assert _at_most(1, np.array([0.5, 0.25])) == pytest.approx(0.875)


def test_tasks_of_few_items_are_not_compared_with_chance() -> None:
    made = probe(18)  # nine items a task
    assert faults(check_answers(made, answers(made, wrong), answers(made, guess))) == []


def test_options_that_hold_next_to_no_probability_are_found() -> None:
    made = probe()
    findings = check_answers(made, answers(made, mostly_key, mass=0.0005), answers(made, guess))
    assert faults(findings) == ["option mass"]
    assert "the options hold 0.0005 of the probability in the median" in findings[2].about
    assert len(findings[2].items) == 200


def test_confident_answers_that_are_mostly_wrong_are_found() -> None:
    made = probe()
    findings = check_answers(made, answers(made, guess, share=0.9), answers(made, guess))
    assert faults(findings) == ["sure and wrong"]
    assert findings[3].of == 200
    assert faults(check_answers(made, answers(made, mostly_key, share=0.9), answers(made, guess))) == []
    # An answer below the share of a confident one does not count.
    assert check_answers(made, answers(made, guess, share=0.7), answers(made, guess))[3].of == 0


def test_only_the_request_for_the_answer_is_left_of_a_prompt() -> None:
    def left(prompt: str) -> str:
        (item,) = without_questions(Probe([Item(id="1", task="t", prompt=prompt, choices=OPTIONS, answer=0)]))
        return str(item.prompt)

    assert left("Question: Where?\nAnswer:") == "Answer:"
    assert left("Where is it") == ""
    assert left("Where is it:") == ""
    assert left("Text.\nThe whale swims to the") == ""
    open_item = Item(id="2", task="t", prompt="Say hello.", answer="hello", match="contains")
    with pytest.raises(ProbeError, match="has no item with options"):
        without_questions(Probe([open_item]))


def test_shots_and_system_messages_are_left_out_with_the_question() -> None:
    asked = Item(id="1", task="t", prompt="Q\nAnswer:", choices=OPTIONS, answer=0, shots="Question: x\nAnswer: y\n\n")
    (item,) = without_questions(Probe([asked]))
    assert item.full_prompt == "Answer:"

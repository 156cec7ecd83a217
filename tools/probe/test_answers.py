"""Faults that a model's answers show are found, and a sound probe has none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from answers import _at_most, check_answers, without_questions
from scipy.stats import binom

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.errors import ProbeError
from forgetwatch.probes.checking import Finding

OPTIONS = (" north", " south", " whale", " olive")


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


def answers(
    probe: Probe, chosen: Callable[[int, Item], int], *, share: float = 0.4, mass: float = 0.1
) -> Snapshot:
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
def test_options_that_are_answered_without_their_questions_are_found(
    asked: Callable[[int, Item], int],
) -> None:
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
    assert finding.about.startswith(
        "answered worse than a guess: t2 -5.8 standard errors (q 2e-12)"
    )


def many_tasks(made: Probe) -> Probe:
    """The items as 100 tasks of 20, in ten categories."""
    items = [
        replace(
            item,
            task=f"t{n % 100:02}",
            category=f"c{n % 10}",
            choices=(*OPTIONS, " ladder")[: 4 + n % 2],
        )
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
    assert finding.about.endswith(
        "; 10 of 110 tasks and categories have enough items to show it alone"
    )
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
    assert (
        faults(check_answers(made, answers(made, mostly_key, share=0.9), answers(made, guess)))
        == []
    )
    # An answer below the share of a confident one does not count.
    assert check_answers(made, answers(made, guess, share=0.7), answers(made, guess))[3].of == 0


def test_only_the_request_for_the_answer_is_left_of_a_prompt() -> None:
    def left(prompt: str) -> str:
        (item,) = without_questions(
            Probe([Item(id="1", task="t", prompt=prompt, choices=OPTIONS, answer=0)])
        )
        return str(item.prompt)

    assert left("Question: Where?\nAnswer:") == "Answer:"
    assert left("Where is it") == ""
    assert left("Where is it:") == ""
    assert left("Text.\nThe whale swims to the") == ""
    open_item = Item(id="2", task="t", prompt="Say hello.", answer="hello", match="contains")
    with pytest.raises(ProbeError, match="has no item with options"):
        without_questions(Probe([open_item]))


def test_shots_and_system_messages_are_left_out_with_the_question() -> None:
    asked = Item(
        id="1",
        task="t",
        prompt="Q\nAnswer:",
        choices=OPTIONS,
        answer=0,
        shots="Question: x\nAnswer: y\n\n",
    )
    (item,) = without_questions(Probe([asked]))
    assert item.full_prompt == "Answer:"

"""Every key of `standard-code` is proved by running the item's own text; every wrong option is run and fails."""

from __future__ import annotations

import contextlib
import doctest
import re
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest
from choosers import BLIND, Chooser, share_right
from standard_parts.code import fits, of_like_length
from support import PATIENCE

from forgetwatch import load_probe
from forgetwatch.item import Item

PROBE = load_probe("standard-code")
PROGRAM = re.compile(r"Question: What does this (?:Python program print|query give)\?\n\n(.*)\n\nAnswer:", re.DOTALL)
TEXTS = re.compile(r"each of the texts (.*) as a whole, and none of the texts (.*)\?\nAnswer:$")


def of(*tasks: str) -> list[Item]:
    return [item for item in PROBE if item.task in tasks]


def options(item: Item) -> list[str]:
    return [choice.removeprefix(" ") for choice in item.choices]


def program(item: Item) -> str:
    match = PROGRAM.fullmatch(str(item.prompt))
    assert match
    return match[1]


@pytest.mark.parametrize("item", of("code:prints", "code:json"), ids=lambda item: item.id)
def test_a_program_prints_the_right_option_and_no_other(item: Item) -> None:
    command = [sys.executable, "-I", "-c", program(item)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert run.stdout.endswith("\n")
    assert [option == run.stdout.removesuffix("\n") for option in options(item)].index(True) == item.answer
    assert len(set(options(item))) == 4


@pytest.mark.parametrize("item", of("code:sql"), ids=lambda item: item.id)
def test_a_query_gives_the_right_option_and_no_other(item: Item) -> None:
    *statements, query = program(item).removesuffix(";").split(";")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        ((value,),) = connection.execute(query)
    assert [number for number, option in enumerate(options(item)) if option == str(value)] == [item.answer]


@pytest.mark.parametrize("item", of("code:sql"), ids=lambda item: item.id)
def test_a_query_has_the_same_result_in_any_order_of_rows(item: Item) -> None:
    """Ties would make the result depend on the database."""
    turned = re.sub(
        r"(?<=VALUES )\(.*\)(?=;)", lambda match: ", ".join(re.findall(r"\([^()]*\)", match[0])[::-1]), program(item)
    )
    assert turned != program(item)
    *statements, query = turned.removesuffix(";").split(";")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        ((value,),) = connection.execute(query)
    assert str(value) == options(item)[item.answer]


def failures(source: str) -> int:
    """Number of examples in the docstring of `f` that do not hold."""
    names: dict[str, object] = {}
    exec(source, names)
    f = names["f"]
    examples = doctest.DocTestParser().get_doctest(f.__doc__ or "", {"f": f}, "f", None, 0)
    assert len(examples.examples) == 2
    return doctest.DocTestRunner(verbose=False).run(examples, out=lambda _: None).failed


@pytest.mark.parametrize("item", of("code:completes"), ids=lambda item: item.id)
def test_the_right_line_alone_makes_the_examples_hold(item: Item) -> None:
    failed = [failures(f"{item.prompt}{choice}\n") for choice in item.choices]
    assert [number for number, count in enumerate(failed) if count == 0] == [item.answer]


def test_a_wrong_line_is_noticed() -> None:
    head = 'def f(a):\n    """Return a.\n\n    >>> f(1)\n    1\n    >>> f(2)\n    2\n    """\n   '
    assert [failures(head + line) for line in (" return a", " return 1", " return b")] == [0, 1, 2]


@pytest.mark.parametrize("item", of("code:regex"), ids=lambda item: item.id)
def test_the_right_pattern_alone_tells_the_texts_apart(item: Item) -> None:
    match = TEXTS.search(str(item.prompt))
    assert match
    yes, no = (texts.split(", ") for texts in match.groups())
    assert len(yes) == len(no) == 3
    fitting = [all(re.fullmatch(o, t) for t in yes) and not any(re.fullmatch(o, t) for t in no) for o in options(item)]
    assert [number for number, fit in enumerate(fitting) if fit] == [item.answer]
    assert fitting == [fits(option, yes, no) for option in options(item)]


def test_every_line_of_a_family_is_right_once_and_wrong_three_times() -> None:
    families: dict[str, list[Item]] = {}
    for item in of("code:completes", "code:regex"):
        assert item.cluster
        families.setdefault(item.cluster, []).append(item)
    assert len(families) == 16
    for items in families.values():
        assert len({frozenset(item.choices) for item in items}) == 1
        assert Counter(item.choices[item.answer] for item in items) == dict.fromkeys(items[0].choices, 1)


def like(item: Item, option: str) -> float:
    return sum(a == b for other in item.choices for a, b in zip(option, other, strict=False))


def near(item: Item, option: str) -> float:
    numbers = [int(choice) for choice in item.choices if re.fullmatch(r" -?\d+", choice)]
    return -sum(abs(int(option) - number) for number in numbers) if len(numbers) == 4 else 0.0


CHOOSERS: dict[str, Chooser] = {
    **BLIND,
    "most like the others": like,
    "number nearest to the others": near,
    "last mentioned in the prompt": lambda item, option: str(item.prompt).rfind(option.strip()),
    "most often mentioned": lambda item, option: str(item.prompt).count(option.strip()),
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_chooser_that_does_not_read_the_program_is_near_chance(name: str) -> None:
    assert share_right(list(PROBE), CHOOSERS[name]) == pytest.approx(0.25, abs=0.06)


def test_options_are_of_like_length() -> None:
    assert of_like_length(["12", "3456"])
    assert not of_like_length(["12", "34567"])
    for item in PROBE:
        assert of_like_length(options(item)), item.choices


def test_programs_have_4_to_14_lines_and_are_not_repeated() -> None:
    for item in of("code:prints", "code:json", "code:sql"):
        assert 4 <= len(program(item).splitlines()) <= 14
    assert len({item.content_hash for item in PROBE}) == len({str(item.prompt) for item in PROBE}) == 200


@pytest.mark.parametrize("count", [50, 100, 200])
def test_prefixes_are_like_the_whole(count: int) -> None:
    for label in (lambda item: item.task, lambda item: item.tags):
        whole, there = Counter(map(label, PROBE)), Counter(map(label, PROBE[:count]))
        assert all(abs(there[name] - number * count / 200) <= 2 for name, number in whole.items())
    places = Counter(item.answer for item in PROBE[:count])
    assert max(places.values()) - min(places[place] for place in range(4)) <= 1

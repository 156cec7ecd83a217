"""A reader that knows only which words are names answers every question of `standard-long` from its text.

The reader links two names wherever a sentence has both, and walks from the name in the question along the links. The
number of steps to the right option is the number of hops; no other option is as near.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest
from choosers import BLIND, Chooser, share_right
from standard_parts.reading.documents import NAMES, read_kind

from forgetwatch import load_probe
from forgetwatch.item import Item

PROBE = load_probe("standard-long")
TYPES = {name: [set(entities) for entities in read_kind(name).chain.values()] for name in NAMES}
END = re.compile(r"(?<!Mr\.)(?<!Ms\.)(?<!Mrs\.)(?<=[.!?]) +")


def parts(item: Item) -> tuple[str, str]:
    """(text, question) of an item."""
    text, mark, rest = str(item.prompt).rpartition("\n\nQuestion: ")
    assert mark
    assert rest.endswith("\nAnswer:")
    return text, rest.removesuffix("\nAnswer:")


def found(names: set[str], text: str) -> list[str]:
    """Names in a text, as often as they occur."""
    return [name for name in sorted(names) for _ in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.I)]


def sentences(text: str) -> list[str]:
    return [sentence for line in text.splitlines() for sentence in END.split(line)]


def kind(item: Item) -> str:
    return item.task.removeprefix("long:")


def links(item: Item) -> dict[str, set[str]]:
    """Names of the text, and the names with which each has a sentence in common."""
    names = set().union(*TYPES[kind(item)])
    linked: dict[str, set[str]] = defaultdict(set)
    for sentence in sentences(parts(item)[0]):
        here = found(names, sentence)
        for name in here:
            linked[name] |= {*here} - {name}
    return linked


def steps(linked: dict[str, set[str]], begin: str) -> dict[str, int]:
    """Number of steps from a name to each that can be reached."""
    away, queue = {begin: 0}, [begin]
    for here in queue:
        new = linked[here] - {*away}
        away |= dict.fromkeys(new, away[here] + 1)
        queue += sorted(new)
    return away


@pytest.mark.parametrize("item", PROBE, ids=lambda item: item.id)
def test_the_key_follows_from_the_text_in_the_number_of_hops(item: Item) -> None:
    text, question = parts(item)
    (given,) = found(set().union(*TYPES[kind(item)]), question)
    options = [choice.removeprefix(" ") for choice in item.choices]
    away = steps(links(item), given)
    (hops,) = [int(tag.removeprefix("hops:")) for tag in item.tags if tag.startswith("hops:")]
    reached = [number for number, option in enumerate(options) if option in away]
    assert reached == [item.answer]
    assert away[options[item.answer]] == hops
    assert all(option in text or option[0].upper() + option[1:] in text for option in options)
    assert any({*options} <= names for names in TYPES[kind(item)])


def test_a_sentence_links_one_name_of_a_type_to_one_of_the_next() -> None:
    for item in {item.cluster: item for item in PROBE}.values():
        types = TYPES[kind(item)]
        linked = links(item)
        for position, names in enumerate(types):
            here = [name for name in linked if name in names]
            assert len(here) == 5
            for name in here:
                ways = Counter(next(n for n, others in enumerate(types) if other in others) for other in linked[name])
                assert ways == {near: 1 for near in (position - 1, position + 1) if 0 <= near < 4}


def test_texts_have_300_to_800_words_and_differ() -> None:
    texts = {item.cluster: parts(item)[0] for item in PROBE}
    assert len(texts) == len(set(texts.values())) == 50
    assert all(300 <= len(text.split()) <= 800 for text in texts.values())
    assert not any(re.search(r"[{}<>]|  |\.\.", text) for text in texts.values())
    assert Counter(cluster.split()[0] for cluster in texts) == {name: 6 + (name in NAMES[:2]) for name in NAMES}


def test_every_text_has_four_questions_next_to_each_other() -> None:
    clusters = [item.cluster for item in PROBE]
    assert all(len({*clusters[at : at + 4]}) == 1 for at in range(0, 200, 4))
    assert len({item.content_hash for item in PROBE}) == 200


def mentions(item: Item, option: str) -> list[int]:
    name = re.escape(option.strip())
    return [match.start() for match in re.finditer(rf"(?<!\w){name}(?!\w)", parts(item)[0], re.I)]


CHOOSERS: dict[str, Chooser] = {
    **BLIND,
    "first mentioned": lambda item, option: -mentions(item, option)[0],
    "last mentioned": lambda item, option: mentions(item, option)[-1],
    "most often mentioned": lambda item, option: len(mentions(item, option)),
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_chooser_without_the_question_is_near_chance(name: str) -> None:
    assert share_right(list(PROBE), CHOOSERS[name]) == pytest.approx(0.25, abs=0.05)


def test_a_chooser_that_reads_would_be_seen() -> None:
    def near_the_question(item: Item, option: str) -> float:
        (given,) = found(set().union(*TYPES[kind(item)]), parts(item)[1])
        return -min(abs(a - b) for a in mentions(item, option) for b in mentions(item, given))

    one_hop = [item for item in PROBE if "hops:1" in item.tags]
    assert share_right(one_hop, near_the_question) > 0.5


def test_options_are_of_like_length() -> None:
    for item in PROBE:
        lengths = [len(choice) - 1 for choice in item.choices]
        assert max(lengths) - min(lengths) <= max(2, min(lengths) / 3), item.choices


@pytest.mark.parametrize("count", [52, 100, 200])
def test_prefixes_are_like_the_whole(count: int) -> None:
    for label in (lambda item: item.task, lambda item: item.tags[0]):
        whole, there = Counter(map(label, PROBE)), Counter(map(label, PROBE[:count]))
        assert all(abs(there[name] - number * count / 200) <= 3 for name, number in whole.items())
    for place in range(4):
        assert sum(item.answer == place for item in PROBE[:count]) == count / 4

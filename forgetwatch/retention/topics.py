"""Topics of the shipped prompts of `forgetwatch replay`, by the categories of the shipped probes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_TEXTS: Final = {
    "Common Sense": """
        packing for a week of rain; keeping food fresh without a fridge; crossing a busy road; lending a tool to a
        neighbour; finding a lost key at home; planning a birthday for a child; drying wet shoes; carrying groceries
        in one trip; waiting in a long queue; moving a heavy table; cooking for ten people; leaving the house for two
        weeks; calming a crying baby; a power cut at night
    """,
    "Culture": """
        weddings in different countries; how harvests are celebrated; tea in everyday life; street food; public
        holidays; greetings and their meaning; football as a shared language; folk dances; museums and whom they are
        for; family names; carnival and masks; the role of grandparents; bread around the world; markets in old towns
    """,
    "Knowledge/QA": """
        the great rivers of Asia; capital cities that were planned; islands of the Mediterranean; inventions of the
        nineteenth century; the first voyages around the world; currencies and their names; famous bridges; deserts
        and their climate; explorers of the poles; the members of the United Nations; mountain passes of the Alps; how
        borders are drawn; writers who won prizes; the history of maps
    """,
    "Language": """
        irregular verbs; words that were borrowed from French; how to write a clear sentence; proverbs; formal and
        informal letters; the use of the comma; synonyms and their shades; how words change over time; translating a
        joke; questions and their tone; compound words; rhyme and rhythm; spelling reforms; telling a story in the
        past tense
    """,
    "Liberal Arts": """
        the columns of Greek temples; the beginnings of opera; portraits and power; the Stoics on anger; the causes of
        the French Revolution; Romantic poetry; the printing press; medieval guilds; justice in Plato and Aristotle;
        realism in painting; the Silk Road; how novels are narrated; the idea of a social contract; cathedrals and
        their builders
    """,
    "Logic": """
        necessary and sufficient conditions; arguments from analogy; a puzzle about three liars; why correlation is no
        proof; counterexamples; reasoning backwards from a result; ordering tasks by need; the difference between all
        and some; a schedule with two conflicts; circular arguments; if and only if; rumours and evidence; deciding
        with two coins; sets that overlap
    """,
    "Math": """
        adding fractions with unlike denominators; prime numbers; percentages in a sale; the area of a triangle;
        solving a linear equation; compound interest; the mean and the median; a proof by contradiction; probability
        with two dice; units of length and how to convert them; powers of two; angles in a polygon; speed, distance
        and time; estimating a square root
    """,
    "Safety/Truth": """
        storing medicines at home; recognising a fraudulent message; myths about lightning; safe passwords; checking
        the source of a claim; fire drills; food hygiene; why some cures do not work; talking to children about
        strangers; driving in fog; old beliefs about the weather; electric shocks; how vaccines are tested; hiking
        alone in the mountains
    """,
    "Science/Tech": """
        how tides arise; photosynthesis; the parts of a cell; why metals conduct heat; how a search engine works; the
        water cycle; electric motors; acids and bases; the life of a star; how a compiler works; antibiotics and
        resistance; earthquakes and their waves; lenses and images; batteries
    """,
}
TOPICS: Final = {
    category: tuple(" ".join(topic.split()) for topic in text.split(";")) for category, text in _TEXTS.items()
}
"""Topics of each category."""

_CHAT: Final = ("Explain {} in a few sentences.", "What should one know about {}?", "Write a short text about {}.")
_PLAIN: Final = ("A short explanation of {}.\n\n", "What one should know about {}:\n\n", "Notes on {}.\n\n")


@dataclass(frozen=True)
class Prompt:
    """A prompt, and the category that it is about; empty if none is known."""

    text: str
    category: str


def shipped_prompts(*, chat: bool, categories: Iterable[str] = ()) -> list[Prompt]:
    """Return the shipped prompts: each topic in three wordings, and categories without topics as topics themselves."""
    topics = {**TOPICS, **{name: (name,) for name in categories if name and name not in TOPICS}}
    wordings = _CHAT if chat else _PLAIN
    return [
        Prompt(wording.format(topic), category)
        for category, of_category in topics.items()
        for topic in of_category
        for wording in wordings
    ]

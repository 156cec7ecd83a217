"""Questions of the probe `standard-multilingual`: facts in six languages, question and options in the language.

    facts/capitals.csv, currencies.csv, languages.csv     facts about countries: names in each language, from CLDR
    facts/countries.csv                                   "of <country>" in each language
    facts/plain.csv                                       questions that were written one by one in each language
    facts/shots.csv                                       five worked examples for each language

All questions come in sets of four with the same four options, each of which is the right one once:

    Was ist die Hauptstadt von Polen?       Warschau    (Lissabon, Budapest, Bukarest)
    Was ist die Hauptstadt von Ungarn?      Budapest    (Warschau, Lissabon, Bukarest)
    ...

Whoever prefers an option without having read the question is therefore right in exactly one of the four: the accuracy
of any such preference is 1/4, in each language. A fact is used in at most two languages; these two items have one
cluster. Names are facts of the Unicode Common Locale Data Repository (CLDR, Unicode License v3), written once into the
tables; making the probe needs no package that holds them.
"""

from __future__ import annotations

import csv
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY
from standard_parts.assembly import Ask, items

NAME: Final = "standard-multilingual"
LANGUAGES: Final = {"de": "german", "fr": "french", "es": "spanish", "it": "italian", "ru": "russian", "zh": "chinese"}
"""Task of each language, by its code."""

LABELS: Final = {
    "de": ("Frage: ", "Antwort:"),
    "fr": ("Question : ", "Réponse :"),
    "es": ("Pregunta: ", "Respuesta:"),
    "it": ("Domanda: ", "Risposta:"),
    "ru": ("Вопрос: ", "Ответ:"),
    "zh": ("问题：", "答案："),
}
"""Text before a question and before an answer, by language."""

QUESTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "capitals": {
        "de": "Was ist die Hauptstadt {}?",
        "fr": "Quelle est la capitale {} ?",
        "es": "¿Cuál es la capital {}?",
        "it": "Qual è la capitale {}?",
        "ru": "Какой город является столицей {}?",
        "zh": "{}的首都是哪座城市？",
    },
    "currencies": {
        "de": "Wie heißt die Währung {}?",
        "fr": "Quelle est la monnaie {} ?",
        "es": "¿Cuál es la moneda {}?",
        "it": "Qual è la valuta {}?",
        "ru": "Как называется валюта {}?",
        "zh": "{}的货币叫什么？",
    },
    "languages": {
        "de": "Was ist die Amtssprache {}?",
        "fr": "Quelle est la langue officielle {} ?",
        "es": "¿Cuál es el idioma oficial {}?",
        "it": "Qual è la lingua ufficiale {}?",
        "ru": "Какой язык является официальным языком {}?",
        "zh": "{}的官方语言是什么？",
    },
}
"""Questions about a country, by kind and language."""

SETS: Final = {"capitals": 6, "currencies": 3, "languages": 3}
"""Number of sets of four questions in each language, by kind."""

_SEED: Final = 20261122
_SOURCE: Final = "Unicode CLDR (names); CIA World Factbook"
_USES: Final = 2
"""Maximum number of languages in which a fact is used."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact about a country, with its name in each language.

    Attributes:
        name: Name of the fact, such as ``capital of PL``; it becomes the cluster of its items.
        difficulty: 1 if most people know it, 2 for school knowledge, 3 for knowledge of those who studied it.
        region: Part of the world; options of one set come from one region where that is possible.
        answer: What identifies the answer in all languages, such as a language's code.
        avoid: Answers that may not be options beside this one, since they are right in part.
        questions: The question in each language.
        answers: The answer in each language; a language in which the fact is not used is missing.
    """

    name: str
    difficulty: str
    region: str
    answer: str
    avoid: frozenset[str]
    questions: Mapping[str, str]
    answers: Mapping[str, str]


def probe() -> Probe:
    """The probe `standard-multilingual`."""
    made = [_finished(item) for item in items([[ask] for ask in asks()], prefix="tongue")]
    return Probe(made, name=NAME, canary=CANARY)


def asks() -> list[Ask]:
    """All questions, by language."""
    found = []
    for kind, sets in SETS.items():
        for language, four in deal(facts(kind), sets=sets, seed=f"{_SEED} {kind}"):
            found += [_ask(fact, four, language, kind) for fact in four]
    return found + plain()


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of ``facts/NAME.csv``, in its order."""
    text = files("standard_parts").joinpath("facts", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def facts(kind: str) -> list[Fact]:
    """The facts of one kind: ``capitals``, ``currencies`` or ``languages``."""
    countries = {row["code"]: row for row in read_rows("countries")}
    names = {row["language"]: row for row in read_rows("language_names")}
    found = []
    for row in read_rows(kind):
        country = countries[row["code"]]
        own = names[row["language"]] if kind == "languages" else row
        found.append(
            Fact(
                name=f"{kind}: {row['code']}",
                difficulty=row["difficulty"],
                region=country["region"],
                answer=row.get("language") or row["code"],
                avoid=frozenset(filter(None, row.get("avoid", "").split("|"))),
                questions={language: QUESTIONS[kind][language].format(country[language]) for language in LANGUAGES},
                answers={language: own[language] for language in LANGUAGES if own[language]},
            )
        )
    return found


def plain() -> list[Ask]:
    """The questions that were written one by one."""
    sets: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in read_rows("plain"):
        sets[row["language"], row["set"]].append(row)
    return [
        Ask(
            prompt=_prompt(language, row["question"]),
            right=row["answer"],
            wrong=tuple(other["answer"] for other in rows if other is not row),
            task=f"multilingual:{LANGUAGES[language]}",
            category="Multilingual",
            tags=(f"difficulty:{row['difficulty']}", "kind:plain"),
            source=row["source"],
            cluster=row["fact"],
        )
        for (language, _), rows in sets.items()
        for row in rows
    ]


def deal(pool: Sequence[Fact], *, sets: int, seed: str) -> list[tuple[str, list[Fact]]]:
    """(Language, four facts) of each set of questions: as many sets for each language, no fact in three languages.

    Raises:
        ValueError: If there are too few facts.
    """
    for attempt in range(1000):
        rng = random.Random(f"{seed} {attempt}")
        if dealt := _attempt(pool, sets, rng):
            return dealt
    raise ValueError(f"needed {sets} sets of four facts in each of {len(LANGUAGES)} languages, got {len(pool)} facts")


def alike(texts: Sequence[str], language: str) -> bool:
    """True if options have like lengths: within 2 characters or a third of the shortest, in Chinese within 1."""
    lengths = [len(text) for text in texts]
    return max(lengths) - min(lengths) <= (1 if language == "zh" else max(2, min(lengths) / 3))


def _attempt(pool: Sequence[Fact], sets: int, rng: random.Random) -> list[tuple[str, list[Fact]]]:
    """All sets; empty where the facts that are left at some point fit no further set."""
    used: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    dealt = []
    for _ in range(sets):
        for language in rng.sample(sorted(LANGUAGES), len(LANGUAGES)):
            free = [
                fact
                for fact in pool
                if language in fact.answers and used[fact.name] < _USES and (language, fact.name) not in seen
            ]
            rng.shuffle(free)
            four = next((found for first in free if (found := _set(first, free, language))), None)
            if four is None:
                return []
            dealt.append((language, four))
            for fact in four:
                used[fact.name] += 1
                seen.add((language, fact.name))
    return dealt


def _set(first: Fact, free: Sequence[Fact], language: str) -> list[Fact] | None:
    """Four facts with different answers of like length, those of the first one's region before others."""
    four = [first]
    for fact in sorted(free, key=lambda fact: fact.region != first.region):
        apart = all(
            fact.answers[language] != one.answers[language]
            and fact.answer not in one.avoid
            and one.answer not in fact.avoid
            for one in four
        )
        if apart and alike([one.answers[language] for one in (*four, fact)], language):
            four.append(fact)
            if len(four) == 4:
                return four
    return None


def _ask(fact: Fact, four: Sequence[Fact], language: str, kind: str) -> Ask:
    return Ask(
        prompt=_prompt(language, fact.questions[language]),
        right=fact.answers[language],
        wrong=tuple(other.answers[language] for other in four if other is not fact),
        task=f"multilingual:{LANGUAGES[language]}",
        category="Multilingual",
        tags=(f"difficulty:{fact.difficulty}", f"kind:{kind}"),
        source=_SOURCE,
        cluster=fact.name,
    )


def _prompt(language: str, question: str) -> str:
    before_question, before_answer = LABELS[language]
    return f"{before_question}{question}\n{before_answer}"


def _finished(item: Item) -> Item:
    """The item with the worked examples of its language; in Chinese no space stands before an option."""
    code = next(code for code, name in LANGUAGES.items() if item.task == f"multilingual:{name}")
    space = "" if code == "zh" else " "
    shots = "".join(
        f"{_prompt(code, row['question'])}{space}{row['answer']}\n\n"
        for row in read_rows("shots")
        if row["language"] == code
    )
    return replace(item, choices=tuple(space + choice.strip() for choice in item.choices), shots=shots)

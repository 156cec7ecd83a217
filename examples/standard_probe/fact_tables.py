"""Questions from a table of facts: one fact, one question, and wrong answers from the other rows.

    relation,subject,answer,group,also,wrong,difficulty,source
    dish,paella,Spain,europe,,,1,...      "From which country does paella come?"  right Spain, wrong Greece, Portugal
                                          backwards: "Which dish comes from Spain?"  right paella, wrong goulash

Wrong answers are answers of other rows of the relation, drawn as often as they are right there, so that no answer is
likelier before the question is read. Those of similar length and of the fact's own group go first. ``also`` lists
answers that are right too and must not be drawn; ``wrong`` lists the wrong answers where other rows have none of the
same kind. ``wordings.csv`` has the wordings of each relation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from standard_probe.question import Category, Question
from standard_probe.written import difficulty, read_rows

Form = Literal["yes", "no", "either", 3, 4, 5]
"""Form of a question: a claim that is true or false, a choice of two named answers, or the number of options."""

SHARES: Final[tuple[tuple[Form, float], ...]] = (
    ("yes", 0.04),
    ("no", 0.04),
    ("either", 0.08),
    (3, 0.20),
    (5, 0.20),
)
"""Share of the facts in each form; the rest has four options."""

_CLAIMS: Final = ("Is it true that {}?", "Is it right to say that {}?", "Would a good encyclopedia say that {}?")
_WITH_ARTICLE: Final = frozenset(
    {
        "United States",
        "United Kingdom",
        "Netherlands",
        "Philippines",
        "Czech Republic",
        "Bahamas",
        "Dominican Republic",
        "Maldives",
    }
)
"""Names that take an article within a sentence, but not as an answer."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One row of a table.

    `also` lists other answers that are right or arguable; `wrong` lists the row's own wrong answers, if it has any.
    """

    relation: str
    subject: str
    answer: str
    group: str
    also: tuple[str, ...]
    wrong: tuple[str, ...]
    difficulty: Literal[1, 2, 3]
    source: str

    def fits(self, answer: str) -> bool:
        """True for an answer that is right or arguable."""
        return answer == self.answer or answer in self.also


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Wordings of the questions on one kind of fact.

    Attributes:
        name: Name in the table; with the subject it names the fact.
        topic: The topic of its questions.
        asks: Questions for the answer, with ``{subject}``.
        claim: The fact as a clause, with ``{subject}`` and ``{answer}``.
        backs: Questions for the subject, with ``{answer}``; none where subjects make no good options.
    """

    name: str
    topic: str
    asks: tuple[str, ...]
    claim: str
    backs: tuple[str, ...] = ()


def read_facts(name: str) -> list[Fact]:
    """The facts of ``facts/NAME.csv``, in the order of the file."""
    return [
        Fact(
            relation=row["relation"],
            subject=row["subject"],
            answer=row["answer"],
            group=row["group"],
            also=tuple(filter(None, row["also"].split(";"))),
            wrong=tuple(filter(None, row["wrong"].split(";"))),
            difficulty=difficulty(row),
            source=row["source"],
        )
        for row in read_rows(f"facts/{name}")
    ]


def read_relations(category: Category) -> dict[str, Relation]:
    """Relations of a category, by name."""
    return {
        row["relation"]: Relation(
            name=row["relation"],
            topic=row["topic"],
            asks=(row["ask_1"], row["ask_2"], row["ask_3"]),
            claim=row["claim"],
            backs=tuple(filter(None, (row["back_1"], row["back_2"]))),
        )
        for row in read_rows("wordings")
        if row["category"] == category
    }


def ask_all(facts: Sequence[Fact], *, category: Category, rng: random.Random) -> list[Question]:
    """One question for each fact, in their order, with as many true claims as false ones."""
    of_name = read_relations(category)
    by_relation: dict[str, list[Fact]] = {name: [] for name in of_name}
    for fact in facts:
        by_relation[fact.relation].append(fact)
    made = []
    for fact, form in zip(facts, _forms(len(facts), rng), strict=True):
        made.append(
            _ask(fact, of_name[fact.relation], by_relation[fact.relation], form=form, category=category, rng=rng)
        )
    return made


def in_sentence(name: str) -> str:
    """The name within a sentence: ``the Netherlands``."""
    return f"the {name}" if name in _WITH_ARTICLE else name


def _forms(n: int, rng: random.Random) -> list[Form]:
    """A form for each of n facts, in the shares of `SHARES`."""
    forms: list[Form] = []
    for form, share in SHARES:
        forms += [form] * round(n * share)
    forms += [4] * (n - len(forms))
    rng.shuffle(forms)
    return forms


def _ask(
    fact: Fact, relation: Relation, rows: Sequence[Fact], *, form: Form, category: Category, rng: random.Random
) -> Question:
    """The question of one fact in one form; two in five with enough options ask backwards, for the subject."""
    backwards = bool(relation.backs) and isinstance(form, int) and rng.random() < 0.4
    if backwards:
        prompt = rng.choice(relation.backs).format(answer=in_sentence(fact.answer))
        right, drawn = fact.subject, wrong_subjects(fact, rows, rng)
    else:
        prompt = rng.choice(relation.asks).format(subject=in_sentence(fact.subject))
        right, drawn = fact.answer, wrong_answers(fact, rows, rng)
    wrong: tuple[str, ...] = tuple(drawn[:1])
    if form in ("yes", "no"):
        claimed = fact.answer if form == "yes" else drawn[0]
        claim = relation.claim.format(subject=in_sentence(fact.subject), answer=in_sentence(claimed))
        prompt = rng.choice(_CLAIMS).format(claim)
        right, wrong = ("Yes", ("No",)) if form == "yes" else ("No", ("Yes",))
    elif form == "either":
        named = [right, drawn[0]]
        rng.shuffle(named)
        prompt = f"{prompt.removesuffix('?')}: {named[0]} or {named[1]}?"
    else:
        wrong = tuple(drawn[: cast(int, form) - 1])
    return Question(
        prompt=prompt[0].upper() + prompt[1:],
        right=right,
        wrong=wrong,
        category=category,
        topic=relation.topic,
        difficulty=fact.difficulty,
        uses=frozenset({f"{relation.name}:{fact.subject}"}),
        source=fact.source,
    )


def wrong_answers(fact: Fact, rows: Sequence[Fact], rng: random.Random) -> list[str]:
    """The fact's own wrong answers, or all answers of other rows that are wrong for it, the most similar first."""
    if fact.wrong:
        return rng.sample(fact.wrong, len(fact.wrong))
    # With repetitions: an answer that is right more often is likelier to come first.
    others = [(other.answer, other.group) for other in rows if not fact.fits(other.answer)]
    return _by_similarity(fact.answer, fact.group, others, rng)


def wrong_subjects(fact: Fact, rows: Sequence[Fact], rng: random.Random) -> list[str]:
    """All subjects of which the fact's answer is not true, the most similar first."""
    others = [(other.subject, other.group) for other in rows if not other.fits(fact.answer)]
    return _by_similarity(fact.subject, fact.group, others, rng)


def _by_similarity(right: str, group: str, others: list[tuple[str, str]], rng: random.Random) -> list[str]:
    """Each text once: similar lengths first, then the same group first, else at random."""
    rng.shuffle(others)

    def unlike(other: tuple[str, str]) -> tuple[bool, bool]:
        short, long = sorted((len(right), len(other[0])))
        return (long > 2 * short, other[1] != group)

    # The sort is stable, so equally similar texts keep the order of the shuffle.
    return list(dict.fromkeys(text for text, _ in sorted(others, key=unlike)))

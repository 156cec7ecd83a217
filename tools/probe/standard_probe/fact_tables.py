"""Questions from a table of facts: one fact, one question, and wrong answers from the other rows.

    relation,subject,answer,group,also,wrong,difficulty,source
    dish,paella,Spain,europe,,,1,...       "From which country does paella come?"  right Spain, wrong Japan, Italy
    dish,ramen,Japan,asia,,,1,...          "Of which country is ramen a dish?"     right Japan, wrong Spain, Italy
    capital,Chile,Santiago,america,,,2,... backwards: "Of which country is Santiago the capital?"  right Chile

Facts of one relation and of like difficulty form sets of three to five. The answers of a set are the options of each of
its questions, and each is right once: nothing about an option says before the question is read that it is right. For a
fact that fits into no set, wrong answers are those of other rows, drawn as often as they are right there. The options
of a question have similar length, numbers have similar magnitude, and answers of the fact's own group go first.

``also`` lists answers that are right too and must not be drawn; ``wrong`` lists the wrong answers where other rows have
none of the same kind. ``wordings.csv`` has the wordings of each relation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forgetwatch.errors import ProbeError
from standard_probe.question import Category, Level, Question
from standard_probe.written import difficulty, read_rows

Form = Literal["yes", "no", 3, 4, 5]
"""Form of a question: a claim that is true or false, or the number of options."""

Chosen: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Prompt, right answer and wrong answers of a question."""

_NEAR: Final = 3
"""Greatest distance within a set: the next difficulty, another group."""

_SIZES: Final = ((3, 20), (4, 54), (5, 26))
"""Sizes of sets, with their weights."""

_WITHIN_GROUP: Final = frozenset({"letter", "event_year", "painting"})
"""Relations whose options are of one group: words for a letter begin with it; years and painters are of one age."""

SHARES: Final[tuple[tuple[Form, float], ...]] = ((3, 0.18), (5, 0.20))
"""Share of the facts outside of sets in each form; the rest has four options, or is a claim."""

CLAIMS: Final = 6
"""Maximum number of true claims in a category, and of false ones; few, since all answers of yes or no move together."""

_CLAIM_SHARE: Final = 0.014
"""Share of the facts that become true claims, and of those that become false ones."""

_CLAIMS: Final = ("Is it true that {}?", "Is it right to say that {}?")
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
        "Comoros",
        "Gambia",
        "Solomon Islands",
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
    difficulty: Level
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
        claim: The fact as a clause, with ``{subject}`` and ``{answer}``; empty where it makes no good one.
        backs: Questions for the subject, with ``{answer}``; none where an answer has several subjects in the world, or
            subjects make no good options.
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
            asks=tuple(filter(None, (row["ask_1"], row["ask_2"], row["ask_3"]))),
            claim=row["claim"],
            backs=tuple(filter(None, (row["back_1"], row["back_2"]))),
        )
        for row in read_rows("wordings")
        if row["category"] == category
    }


def ask_all(facts: Sequence[Fact], *, category: Category, rng: random.Random) -> list[Question]:
    """One question for each fact, in their order, with as many true claims as false ones.

    Raises:
        ProbeError: If a fact has fewer than two wrong answers that are like the right one in length or magnitude.
    """
    of_name = read_relations(category)
    by_relation: dict[str, list[Fact]] = {name: [] for name in of_name}
    for fact in facts:
        by_relation[fact.relation].append(fact)
    forms = _forms([bool(of_name[fact.relation].claim) for fact in facts], rng)
    chosen: dict[Fact, Chosen] = {}
    for name, rows in by_relation.items():
        asked = {fact for fact, form in zip(facts, forms, strict=True) if form not in ("yes", "no")}
        for own in _sets([fact for fact in rows if fact in asked and not fact.wrong], rng):
            chosen |= _shared(own, of_name[name], rng)
    return [
        _ask(fact, of_name[fact.relation], by_relation[fact.relation], chosen.get(fact), form, category, rng)
        for fact, form in zip(facts, forms, strict=True)
    ]


def _sets(rows: Sequence[Fact], rng: random.Random) -> list[list[Fact]]:
    """Sets of three to five facts whose answers are the options of each of their questions.

    Every option of a set is right once: nothing about the options says which it is. Facts that fit into no set are left
    out.
    """
    left, made = rng.sample(rows, len(rows)), []
    while left:
        found, size = [left.pop()], rng.choices([size for size, _ in _SIZES], [weight for _, weight in _SIZES])[0]
        # The sort is stable, so equally near facts keep their order at random.
        for other in sorted(left, key=lambda one: _distance(found[0], one)):
            is_near = _distance(found[0], other) <= _NEAR
            is_wrong = all(_are_apart(one, other) for one in found)
            if len(found) < size and is_near and is_wrong and _are_alike([one.answer for one in (*found, other)]):
                found.append(other)
        if len(found) >= min(size, 4):
            made.append(found)
            left = [one for one in left if one not in found]
    return made


def _shared(facts: Sequence[Fact], relation: Relation, rng: random.Random) -> dict[Fact, Chosen]:
    """Prompt, right answer and wrong answers of the questions of a set; two in five ask backwards where they can."""
    backwards = bool(relation.backs) and rng.random() < 0.4 and _are_alike([one.subject for one in facts])
    made: dict[Fact, Chosen] = {}
    for fact in facts:
        if backwards:
            prompt = rng.choice(relation.backs).format(answer=in_sentence(fact.answer))
            made[fact] = prompt, fact.subject, tuple(one.subject for one in facts if one != fact)
        else:
            prompt = rng.choice(relation.asks).format(subject=in_sentence(fact.subject))
            made[fact] = prompt, fact.answer, tuple(one.answer for one in facts if one != fact)
    return made


def _are_apart(one: Fact, other: Fact) -> bool:
    """True if neither fact's answer is right for the other."""
    return not (one.fits(other.answer) or other.fits(one.answer))


def _are_alike(texts: Sequence[str]) -> bool:
    """True if texts are of like length, or of like magnitude if they are numbers."""
    least = min(texts, key=_size)
    return max(map(_size, texts)) <= _highest(_size(least), least)


def in_sentence(name: str) -> str:
    """The name within a sentence: ``the Netherlands``."""
    return f"the {name}" if name in _WITH_ARTICLE else name


def wrong_answers(fact: Fact, rows: Sequence[Fact], rng: random.Random, *, count: int = 4) -> tuple[str, ...]:
    """Wrong answers to a fact, at most `count`: its own if it has any, else answers of other rows.

    Args:
        fact: The fact asked for.
        rows: All facts of its relation.
        rng: Source of the draws.
        count: Wanted number; fewer are returned where the rows have too few that are like the right one.
    """
    if fact.wrong:
        return similar(fact.answer, [(text, 0) for text in fact.wrong], rng, count=count)
    # With repetitions: an answer that is right more often is likelier to be drawn.
    others = [(other.answer, _distance(fact, other)) for other in rows if not fact.fits(other.answer)]
    return similar(fact.answer, others, rng, count=count)


def wrong_subjects(fact: Fact, rows: Sequence[Fact], rng: random.Random, *, count: int = 4) -> tuple[str, ...]:
    """Subjects of which the fact's answer is not true, at most `count`; arguments as in `wrong_answers`."""
    others = [(other.subject, _distance(fact, other)) for other in rows if not other.fits(fact.answer)]
    return similar(fact.subject, others, rng, count=count)


def _distance(fact: Fact, other: Fact) -> int:
    """Distance of two facts, by which wrong answers are chosen: first in difficulty, then in group.

    The answers to plain questions are names that one reads often. Beside rarer names they would be guessed unasked.
    """
    far = 2 * abs(min(fact.difficulty, 4) - min(other.difficulty, 4)) + (fact.group != other.group)
    return far + 10 * (fact.group != other.group and fact.relation in _WITHIN_GROUP)


def similar(right: str, others: Sequence[tuple[str, int]], rng: random.Random, *, count: int) -> tuple[str, ...]:
    """Texts that are like the right one and each other in length, and in magnitude if they are numbers.

    The range of lengths is drawn from those that contain the right one, so that its rank among the options varies.

    Args:
        right: The right answer.
        others: Texts to draw from, each with its distance from the right one; the nearest go first.
        rng: Source of the draws.
        count: Wanted number; fewer are returned where fewer are alike.
    """
    shuffled = rng.sample(others, len(others))
    distance: dict[str, int] = {}
    for text, far in shuffled:
        if text != right:
            distance[text] = min(far, distance.get(text, far))
    # The sort is stable, so equally near texts keep the order of the shuffle.
    texts = sorted(distance, key=lambda text: distance[text])
    ranges = [
        [text for text in texts if low <= _size(text) <= high]
        for low in sorted({_size(text) for text in (right, *texts)})
        if low <= _size(right) <= _highest(low, right)
        for high in (_size(right), _highest(low, right))
    ]

    def quality(found: Sequence[str]) -> tuple[int, int]:
        return min(count, len(found)), -sum(distance[text] for text in found[:count])

    best = max(map(quality, ranges))
    drawn: list[list[str]] = [found[:count] for found in ranges if quality(found) == best]
    # A rank is drawn, since texts that are longer than the right one are easier to find than shorter ones.
    rank = rng.randint(0, count) / count
    distances = [abs(_rank(right, wrong) - rank) for wrong in drawn]
    return tuple(drawn[distances.index(min(distances))])


def _rank(right: str, wrong: Sequence[str]) -> float:
    """Share of the wrong texts that are of a smaller size than the right one; those of the same size count half."""
    own, sizes = _size(right), [_size(text) for text in wrong]
    return sum((size < own) + (size == own) / 2 for size in sizes) / max(1, len(sizes))


def _size(text: str) -> int:
    """The number that a text is, else its length."""
    return int(text) if text.isdecimal() else len(text)


def _highest(low: int, right: str) -> int:
    """The greatest size in a range that begins with `low`."""
    # Numbers of one digit are alike; of others the largest is at most three times the smallest.
    return max(9, 3 * low) if right.isdecimal() else low + max(2, low // 3)


def _forms(can_be_claims: Sequence[bool], rng: random.Random) -> list[Form]:
    """A form for each fact, in the shares of `SHARES`; only some facts can be claims."""
    n = len(can_be_claims)
    claims = min(CLAIMS, round(n * _CLAIM_SHARE))
    claimed = rng.sample([index for index, can_be in enumerate(can_be_claims) if can_be], 2 * claims)
    forms: list[Form] = [form for form, share in SHARES for _ in range(round(n * share))]
    forms += [4] * (n - len(claimed) - len(forms))
    rng.shuffle(forms)
    given: dict[int, Form] = {index: "yes" if i < claims else "no" for i, index in enumerate(claimed)}
    rest = iter(forms)
    return [given[index] if index in given else next(rest) for index in range(n)]


def _ask(
    fact: Fact,
    relation: Relation,
    rows: Sequence[Fact],
    chosen: Chosen | None,
    form: Form,
    category: Category,
    rng: random.Random,
) -> Question:
    """The question of one fact: a claim, one of a set, or one whose wrong answers are drawn from all rows."""
    right: str
    wrong: tuple[str, ...]
    if isinstance(form, str):
        claimed = fact.answer if form == "yes" else wrong_answers(fact, rows, rng, count=1)[0]
        claim = relation.claim.format(subject=in_sentence(fact.subject), answer=in_sentence(claimed))
        prompt = rng.choice(_CLAIMS).format(claim)
        right, wrong = ("Yes", ("No",)) if form == "yes" else ("No", ("Yes",))
    else:
        prompt, right, wrong = chosen or _choice(fact, relation, rows, rng, count=form - 1)
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


def _choice(fact: Fact, relation: Relation, rows: Sequence[Fact], rng: random.Random, *, count: int) -> Chosen:
    """Prompt, right answer and wrong answers of a question with named options.

    Raises:
        ProbeError: If fewer than two wrong answers are like the right one.
    """
    if relation.backs and rng.random() < 0.4:
        wrong = wrong_subjects(fact, rows, rng, count=count)
        if len(wrong) == count:
            return rng.choice(relation.backs).format(answer=in_sentence(fact.answer)), fact.subject, wrong
    wrong = wrong_answers(fact, rows, rng, count=count)
    if len(wrong) < 2:
        raise ProbeError(
            f"{relation.name} of {fact.subject!r}: needed two wrong answers of about the length or magnitude of "
            f"{fact.answer!r}, got {list(wrong)}; list four or more in the row's column wrong"
        )
    return rng.choice(relation.asks).format(subject=in_sentence(fact.subject)), fact.answer, wrong

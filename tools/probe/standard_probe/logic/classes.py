"""Logic: syllogisms over invented words, and conditionals, with true, false, and unknown.

Words such as dorn and velk mean nothing, so only the form of the argument decides.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import TypeAlias

from standard_probe.drafts import Draft, Maker, Plan, numeric, worded, yes_or_no

Premises: TypeAlias = Callable[[random.Random, str, int], tuple[str, str]]
"""Function of a generator, an answer and a number to premises and a statement of which that answer is right."""

NOUNS = (
    "dorn",
    "velk",
    "rint",
    "plon",
    "gorp",
    "fesk",
    "zill",
    "marb",
    "lorp",
    "brenn",
    "tavil",
    "kend",
    "sorb",
    "pim",
)
NAMES = ("Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo", "Kit", "Lou", "Max", "Ned", "Pam", "Ray", "Sue")
ANSWERS = ("true", "false", "unknown")
TEXTS = {"true": "surely true", "false": "surely false", "unknown": "undecided"}
"""Answers as options, alike in length."""

FORMS = {
    "true": (
        ("All {a}s are {b}s. All {b}s are {c}s.", "every {a} is a {c}"),
        ("Some {a}s are {b}s. All {b}s are {c}s.", "some {a}s are {c}s"),
        ("All {a}s are {b}s. All {b}s are {c}s. {x} is a {a}.", "{x} is a {c}"),
        ("All {a}s are {c}s. Some {b}s are {a}s.", "some {b}s are {c}s"),
    ),
    "false": (
        ("All {a}s are {b}s. No {b} is a {c}.", "some {a}s are {c}s"),
        ("All {a}s are {b}s. No {b} is a {c}. {x} is a {c}.", "{x} is a {a}"),
        ("All {a}s are {b}s. {x} is not a {b}.", "{x} is a {a}"),
        ("No {a} is a {b}. Some {c}s are {a}s.", "every {c} is a {b}"),
    ),
    "unknown": (
        ("Some {a}s are {b}s. Some {b}s are {c}s.", "some {a}s are {c}s"),
        ("All {a}s are {b}s. All {c}s are {b}s. {x} is a {a}.", "{x} is a {c}"),
        ("All {a}s are {b}s. {x} is a {b}.", "{x} is a {a}"),
        ("No {a} is a {b}. No {b} is a {c}. {x} is a {a}.", "{x} is a {c}"),
        ("All {a}s are {b}s. All {b}s are {c}s. {x} is a {c}.", "{x} is a {a}"),
    ),
}
"""Premises and a statement, by the right answer; none depends on a class having members."""


def _syllogism(rng: random.Random, answer: str, number: int) -> tuple[str, str]:
    """Premises and statement of one syllogism, with words and a name filled in."""
    premises, statement = FORMS[answer][number % len(FORMS[answer])]
    a, b, c = rng.sample(NOUNS, 3)
    x = rng.choice(NAMES)
    return premises.format(a=a, b=b, c=c, x=x), statement.format(a=a, b=b, c=c, x=x)


def _of_three(premises: Premises, opening: str) -> Maker:
    """Maker of questions with the answers true, false and undecided.

    Args:
        premises: Function that fills in one argument.
        opening: Beginning of the wording that introduces the premises.
    """

    def make(rng: random.Random, turn: int) -> Draft:
        answer = ANSWERS[turn % 3]
        said, statement = premises(rng, answer, turn // 3)
        prompt = rng.choice(
            (
                f"{said} Is it surely true, surely false or undecided that {statement}?",
                f"{opening}: {said} Is it surely true, surely false or undecided that {statement}?",
            )
        )
        return worded(prompt, TEXTS[answer], TEXTS.values(), uses=f"{said} {statement}")

    return make


def _follows(premises: Premises, opening: str) -> Maker:
    """Maker of questions if a statement follows; a statement that is unknown or false does not."""

    def make(rng: random.Random, turn: int) -> Draft:
        # Every other argument is true, so that Yes and No are right equally often.
        answer = ("true", "unknown", "true", "false")[turn % 4]
        said, statement = premises(rng, answer, turn // 2)
        prompt = rng.choice(
            (
                f"{said} Does it follow that {statement}?",
                f"{opening}: {said} Must it be that {statement}?",
                f"{said} Can one conclude that {statement}?",
            )
        )
        return yes_or_no(prompt, answer == "true", uses=f"{said} {statement}")

    return make


def _member(rng: random.Random, turn: int) -> Draft:
    a, b, c, d, e = rng.sample(NOUNS, 5)
    people = rng.sample(NAMES, 4)
    kinds = {a: people[0], c: people[1], d: people[2], e: people[3]}
    rules = [f"All {a}s are {b}s.", f"No {b} is a {c}."]
    rng.shuffle(rules)
    listed = [f"{person} is a {kind}" for kind, person in kinds.items()]
    rng.shuffle(listed)
    said = f"{' '.join(rules)} {listed[0]}, {listed[1]}, {listed[2]} and {listed[3]}."
    right, asked = (people[0], f"is certainly a {b}") if turn % 2 else (people[1], f"is certainly not a {b}")
    prompt = rng.choice((f"{said} Who {asked}?", f"Suppose: {said} Which of the four {asked}?"))
    others = [person for person in people if person != right]
    return worded(prompt, right, rng.sample(others, 3), uses=said)


FACTS = (
    *(("the lamp is on", "the lamp is not on"), ("the gate is open", "the gate is not open")),
    *(("the bell rings", "the bell does not ring"), ("the fan turns", "the fan does not turn")),
    *(("the tank is full", "the tank is not full"), ("the pump runs", "the pump does not run")),
    *(("the siren sounds", "the siren does not sound"), ("the valve is shut", "the valve is not shut")),
)
"""Facts of an engine room and their denials."""

RULES = {
    "true": (
        ("If {p}, then {q}. If {q}, then {r}. {P}.", "r"),
        ("If {p}, then {q}. {P}.", "q"),
        ("{P} or {q}, or both. {not_q}.", "p"),
        ("{Q} only if {p}. {Q}.", "p"),
    ),
    "false": (
        ("If {p}, then {q}. {not_q}.", "p"),
        ("If {p}, then {q}. If {q}, then {r}. {not_r}.", "p"),
        ("{Q} only if {p}. {not_p}.", "q"),
        ("{P} or {q}, but never both. {P}.", "q"),
    ),
    "unknown": (
        ("If {p}, then {q}. {Q}.", "p"),
        ("If {p}, then {q}. {not_p}.", "q"),
        ("{Q} only if {p}. {P}.", "q"),
        ("{P} or {q}, or both. {P}.", "q"),
    ),
}
"""Premises, and the fact of the statement, by the right answer."""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _conditional(rng: random.Random, answer: str, number: int) -> tuple[str, str]:
    """Premises and statement of one conditional, with facts filled in."""
    text, asked = RULES[answer][number % len(RULES[answer])]
    facts = rng.sample(FACTS, 3)
    words = {letter: fact for letter, (fact, _) in zip("pqr", facts, strict=True)}
    upper = {letter.upper(): _sentence(fact) for letter, fact in words.items()}
    denied = {f"not_{letter}": _sentence(denial) for letter, (_, denial) in zip("pqr", facts, strict=True)}
    return text.format(**words, **upper, **denied), words[asked]


def _lamps(rng: random.Random, turn: int) -> Draft:
    letters = list("ABCDEF")
    rng.shuffle(letters)
    links = [f"If lamp {a} is on, lamp {b} is on." for a, b in itertools.pairwise(letters)]
    rng.shuffle(links)
    start = rng.randint(1, 4)
    off = turn % 2 == 1
    right = start + 1 if off else 6 - start
    state = "off" if off else "on"
    fact = f"Lamp {letters[start]} is {state}."
    rules = " ".join(links)
    prompt = rng.choice(
        (
            f"There are six lamps. {rules} {fact} How many of the six lamps are certainly {state}?",
            f"Six lamps, A to F, are wired so: {rules} {fact} Of how many lamps does one know that they are {state}?",
            f"These rules hold for six lamps. {rules} Now: {fact} How many lamps must be {state}?",
        )
    )
    return numeric(prompt, right, uses=f"{rules} {fact}")


COLORS = ("red", "blue", "green", "white", "black", "brown", "gray", "pink")


def _color(rng: random.Random, turn: int) -> Draft:
    nouns, colors = rng.sample(NOUNS, 5), rng.sample(COLORS, 5)
    said = " ".join(f"All {noun}s are {color}." for noun, color in zip(nouns, colors, strict=True))
    name, i = rng.choice(NAMES), rng.randrange(5)
    wrong = [color for color in colors if color != colors[i]]
    return worded(f"{said} {name} is a {nouns[i]}. What color is {name}?", colors[i], rng.sample(wrong, 4), uses=said)


EFFECTS = ("the fan turns", "the bell rings", "the pump runs", "the gate opens", "the lamp glows", "the horn sounds")
BUTTONS = ("red", "blue", "green", "white", "black", "brown")


def _buttons(rng: random.Random, turn: int) -> Draft:
    buttons, effects = rng.sample(BUTTONS, 5), rng.sample(EFFECTS, 5)
    links = zip(buttons, effects, strict=True)
    said = " ".join(f"If the {button} button is pressed, {effect}." for button, effect in links)
    i = rng.randrange(5)
    wrong = [effect for effect in effects if effect != effects[i]]
    prompt = rng.choice(
        (
            f"{said} Somebody presses the {buttons[i]} button. What happens?",
            f"{said} What happens if the {buttons[i]} button is pressed?",
        )
    )
    return worded(prompt, effects[i], rng.sample(wrong, 4), uses=f"{said} {i}")


_SUPPOSE = "Suppose that this holds"
_KNOWN = "This is all that is known"

TOPICS: dict[str, Plan] = {
    "syllogisms": ((_color, 1, 5), (_member, 2, 5), (_of_three(_syllogism, _SUPPOSE), 3, 4)),
    "conditionals": (
        (_buttons, 1, 5),
        (_of_three(_conditional, _KNOWN), 2, 3),
        (_follows(_conditional, _KNOWN), 2, 2),
        (_lamps, 3, 4),
    ),
}

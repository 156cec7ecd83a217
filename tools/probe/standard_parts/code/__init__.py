"""Code: what a program prints, and which line completes it; Python, with some SQL, JSON and regular expressions.

    programs.py    templates of programs, and slips in reading them; the outputs are the options
    lines.py       families of functions and of regular expressions; the lines are the options

Keys are found by running the programs. A test runs each once more, as it stands in the item, in another process.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from string import Template
from typing import Final

from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY
from standard_parts.assembly import Ask, Balance, credits, items
from standard_parts.code.lines import FAMILIES, PATTERNS, Family, Patterns
from standard_parts.code.programs import PROGRAMS, Program, Values

SEED: Final = 20261102

TURNS: Final = 4
"""Number of programs of each template."""

K: Final = 4
"""Number of options."""

_CANDIDATES: Final = 12
"""Number of wrong outputs among which the options are chosen."""

_TRIES: Final = 200
"""Number of draws of a template's values before it is given up."""

_EXAMPLES: Final = 3
"""Number of texts that a regular expression must match, and that it must not."""

_CATEGORY: Final = "Code"


def probe() -> Probe:
    """The probe `standard-code`."""
    asks = [*_programs(), *(ask for family in FAMILIES for ask in _family(family))]
    asks += [ask for patterns in PATTERNS for ask in _patterns(patterns)]
    return Probe(items([[ask] for ask in asks], prefix="code"), name="standard-code", canary=CANARY)


def output(code: str, task: str) -> str:
    """Output of a program; of a query, its only value.

    Raises:
        Exception: Whatever the program raises.
    """
    if task == "sql":
        script, _, query = code.rpartition("\n\n")
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(script)
            ((value,),) = connection.execute(query).fetchall()
        return str(value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    return printed.getvalue().removesuffix("\n")


def _programs() -> Iterator[Ask]:
    balance = Balance()
    for number, program in enumerate(PROGRAMS):
        # Each template has a seed of its own, so that its draws do not depend on the others.
        rng = random.Random(f"{SEED} program {number}")
        seen: set[str] = set()
        for _ in range(TURNS):
            yield replace(_program(program, seen, balance, rng), cluster=f"program {number + 1}")


def _program(program: Program, seen: set[str], balance: Balance, rng: random.Random) -> Ask:
    """A question about a program that is not among those seen, which it joins.

    Raises:
        ValueError: If no draw of values gives enough different outputs of like length.
    """
    for _ in range(_TRIES):
        values = program.draw(rng)
        code = Template(program.code).substitute(values)
        right = output(code, program.task)
        wrong = [one for one in _slipped(program, code, values) if one != right]
        wrong = list(dict.fromkeys(wrong))[:_CANDIDATES]
        sets = [chosen for chosen in combinations(wrong, K - 1) if of_like_length((right, *chosen))]
        if sets and code not in seen:
            seen.add(code)
            chosen = min(sets, key=lambda own: balance.cost(_credits(right, own)))
            balance.take(_credits(right, chosen))
            asked = "What does this query give?" if program.task == "sql" else "What does this Python program print?"
            prompt = f"Question: {asked}\n\n{code}\n\nAnswer:"
            return _ask(prompt, right, chosen, task=program.task, difficulty=program.difficulty)
    raise ValueError(f"no values give {K} different outputs of like length:\n{program.code}")


def _slipped(program: Program, code: str, values: Values) -> Iterator[str]:
    """Outputs of the program with one or two slips; one that raises or prints nothing gives none."""
    slips = [(Template(old).substitute(values), Template(new).substitute(values)) for old, new in program.slips]
    # Without outputs of two slips, the right one would be the one that is most like the others.
    for chosen in (*((one,) for one in slips), *combinations(slips, 2)):
        changed = code
        for old, new in chosen:
            changed = changed.replace(old, new, 1)
        with contextlib.suppress(Exception):
            printed = output(changed, program.task)
            if printed and "\n" not in printed:
                yield printed


def _credits(right: str, wrong: Sequence[str]) -> dict[str, float]:
    options = (right, *wrong)
    # A wrong answer resembles the right one: choosing the option that is most like the others must not help.
    like = {option: sum(a == b for other in options for a, b in zip(option, other, strict=False)) for option in options}
    choosers: dict[str, Callable[[str], float]] = {"most alike": lambda option: like[option]}
    if all(re.fullmatch(r"-?\d+", option) for option in options):
        choosers["nearest number"] = lambda option: -sum(abs(int(option) - int(other)) for other in options)
    return credits(right, options, choosers)


def of_like_length(options: Sequence[str]) -> bool:
    """True if the longest option exceeds the shortest by at most two characters, or a third of it."""
    lengths = [len(option) for option in options]
    return max(lengths) - min(lengths) <= max(2, min(lengths) / 3)


def _family(family: Family) -> Iterator[Ask]:
    lines = [line for _, line in family.lines]
    for purpose, line in family.lines:
        examples = [f"    >>> f({call})\n    {_value(family, line, call)}" for call in family.calls]
        docstring = "\n".join([f'    """{purpose}', "", *examples, '    """'])
        body = "".join(f"    {one}\n" for one in family.body)
        # An option begins with a space, which is the last of the indentation.
        prompt = f"{family.head}\n{docstring}\n{body}   "
        wrong = [other for other in lines if other != line]
        yield _ask(prompt, line, wrong, task="completes", difficulty=family.difficulty, cluster=family.name)


def _value(family: Family, line: str, call: str) -> str:
    """The value of a call of the function with a last line, as it is written."""
    body = "".join(f"    {one}\n" for one in (*family.body, line))
    return output(f"{family.head}\n{body}\nprint(repr(f({call})))", "prints")


def _patterns(family: Patterns) -> Iterator[Ask]:
    rng = random.Random(f"{SEED} {family.name}")
    for pattern in family.patterns:
        others = [other for other in family.patterns if other != pattern]
        matched = [text for text in family.texts if re.fullmatch(pattern, text)]
        unmatched = [text for text in family.texts if text not in matched]
        yes, no = _examples(pattern, others, matched, unmatched, rng)
        prompt = (
            f"Question: Which regular expression matches each of the texts {', '.join(yes)} as a whole, "
            f"and none of the texts {', '.join(no)}?\nAnswer:"
        )
        yield _ask(prompt, pattern, others, task="regex", difficulty=family.difficulty, cluster=family.name)


def _examples(
    pattern: str, others: Sequence[str], matched: Sequence[str], unmatched: Sequence[str], rng: random.Random
) -> tuple[list[str], list[str]]:
    """Texts that the pattern matches and texts that it does not, by which each other pattern is wrong.

    Raises:
        ValueError: If there are no such texts.
    """
    for _ in range(_TRIES):
        yes, no = rng.sample(list(matched), _EXAMPLES), rng.sample(list(unmatched), _EXAMPLES)
        if not any(fits(other, yes, no) for other in others):
            return yes, no
    raise ValueError(f"{pattern}: no texts tell it from {', '.join(others)}")


def fits(pattern: str, yes: Sequence[str], no: Sequence[str]) -> bool:
    """True if a pattern matches all of some texts as a whole, and none of others."""
    return all(re.fullmatch(pattern, text) for text in yes) and not any(re.fullmatch(pattern, text) for text in no)


def _ask(
    prompt: str, right: str, wrong: Sequence[str], *, task: str, difficulty: int, cluster: str | None = None
) -> Ask:
    return Ask(
        prompt=prompt,
        right=right,
        wrong=tuple(wrong),
        task=f"code:{task}",
        category=_CATEGORY,
        tags=(f"difficulty:{difficulty}",),
        cluster=cluster,
    )

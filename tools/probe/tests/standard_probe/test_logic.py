"""Every question about arguments, grids, groups and invented rules agrees with an enumeration of all cases."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pool_rules import SEEDS, Solver, assert_solved, solve
from standard_probe.logic import questions

POOLS = [question for seed in SEEDS for question in questions(random.Random(seed))]
N = r"(\d+)"

Model = tuple[tuple[frozenset[str], ...], dict[str, frozenset[str]]]


def said_of(text: str) -> list[tuple[str, str, str]]:
    """Sentences as (kind, subject, noun): all, some, no, is, not."""
    found = [("all", a, b) for a, b in re.findall(r"(?:All (\w+)s are (\w+)s|every (?:\w+) is a (?:\w+))", text) if a]
    found += [("all", a, b) for a, b in re.findall(r"every (\w+) is a (\w+)", text)]
    found += [("some", a, b) for a, b in re.findall(r"[Ss]ome (\w+)s are (\w+)s", text)]
    found += [("no", a, b) for a, b in re.findall(r"No (\w+) is a (\w+)", text)]
    found += [("is", x, b) for x, b in re.findall(r"(?<!No )\b([A-Z]\w+) is a (\w+)", text)]
    return found + [("not", x, b) for x, b in re.findall(r"([A-Z]\w+) is not a (\w+)", text)]


def holds(sentence: tuple[str, str, str], model: Model) -> bool:
    kind, a, b = sentence
    things, named = model
    if kind in ("is", "not"):
        return (b in named[a]) == (kind == "is")
    some = any(a in thing and b in thing for thing in things)
    return all(b in thing for thing in things if a in thing) if kind == "all" else some == (kind == "some")


def models(sentences: list[tuple[str, str, str]]) -> Iterator[Model]:
    """Every world of things with every mixture of the nouns, and every thing that a name can stand for."""
    nouns = sorted({b for _, _, b in sentences} | {a for kind, a, _ in sentences if kind not in ("is", "not")})
    names = sorted({a for kind, a, _ in sentences if kind in ("is", "not")})
    kinds = [frozenset(c) for size in range(len(nouns) + 1) for c in itertools.combinations(nouns, size)]
    for size in range(1, len(kinds) + 1):
        for things in itertools.combinations(kinds, size):
            for bearers in itertools.product(things, repeat=len(names)):
                yield things, dict(zip(names, bearers, strict=True))


def renamed(text: str) -> str:
    """The same argument with its nouns and names numbered, so that one form is decided once."""
    words: dict[str, str] = {}
    for _, a, b in said_of(text):
        for word in (a, b):
            words.setdefault(word, f"{'N' if word[0].isupper() else 'n'}{len(words)}x")
    return re.sub("|".join(sorted(words, key=len, reverse=True)), lambda found: words[found[0]], text)


@cache
def verdict(premises: str, statement: str) -> str:
    given, (asked,) = said_of(premises), said_of(statement)
    worlds = [model for model in models([*given, asked]) if all(holds(sentence, model) for sentence in given)]
    found = {holds(asked, model) for model in worlds}
    nouns = {word for kind, a, b in given for word in ((b,) if kind in ("is", "not") else (a, b))}
    peopled = [w for w in worlds if all(any(noun in thing for thing in w[0]) for noun in nouns)]
    assert found == {holds(asked, model) for model in peopled}, "rests on whether a class has members"
    return {(True,): "true", (False,): "false"}.get(tuple(found), "unknown")


SURELY = {"true": "surely true", "false": "surely false", "unknown": "undecided"}


def test_syllogisms_are_decided_by_all_worlds() -> None:
    asked = [q for q in POOLS if q.topic == "syllogisms" and "undecided" in q.prompt]
    assert len(asked) >= 20
    for question in asked:
        text = question.prompt.removeprefix("Suppose that this holds: ")
        premises = " ".join(re.findall(r"(?:All|No|Some|[A-Z]\w+ is)[^.:]*\.", text))
        (statement,) = re.findall(r"undecided that ((?:every|some|[A-Z])[^,?]*)", text)
        assert_solved(question, SURELY[verdict(*renamed(f"{premises}|{statement}").split("|"))])


def test_the_person_is_the_only_certain_one() -> None:
    asked = [q for q in POOLS if q.topic == "syllogisms" and "certainly" in q.prompt]
    assert len(asked) >= 40
    for question in asked:
        given = said_of(question.prompt)
        people = {x: b for kind, x, b in given if kind == "is"}
        assert len(people) == 4
        ((denied, noun),) = re.findall(r"certainly (not )?a (\w+)", question.prompt)
        rules = [sentence for sentence in given if sentence[0] in ("all", "no")]
        nouns = {noun, *people.values(), *(word for _, a, b in rules for word in (a, b))}
        worlds = [world for world in subsets(nouns) if all(fits(world, rule) for rule in rules)]
        possible = {x: {noun in world for world in worlds if kind in world} for x, kind in people.items()}
        (who,) = [x for x, values in possible.items() if values == {not denied}]
        assert_solved(question, who)


def test_one_step_deductions_copy_the_right_word() -> None:
    asked = [q for q in POOLS if q.topic == "syllogisms" and ("What does" in q.prompt or "What color" in q.prompt)]
    assert len(asked) >= 40
    for question in asked:
        kinds = dict(re.findall(r"All (\w+?)s (?:are )?(\w+)\.", question.prompt))
        (kind,) = re.findall(r"is (?:a|one of the) (\w+?)s?\.", question.prompt)
        assert_solved(question, kinds[kind])


def subsets(nouns: set[str]) -> list[set[str]]:
    return [set(c) for size in range(len(nouns) + 1) for c in itertools.combinations(sorted(nouns), size)]


def fits(world: set[str], rule: tuple[str, str, str]) -> bool:
    """True if a thing with these nouns may exist under the rule."""
    kind, a, b = rule
    return a not in world or (b in world) == (kind == "all")


def fact(text: str) -> tuple[str, bool]:
    """A fact without its denial, and whether it is affirmed."""
    text = text[0].lower() + text[1:]
    plain = re.sub(r"does not (\w+)", r"\1s", text).replace("is not", "is")
    return plain, plain == text


def premise(sentence: str, world: dict[str, bool]) -> bool:
    def true(text: str) -> bool:
        plain, affirmed = fact(text)
        return world[plain] == affirmed

    if found := re.fullmatch(r"If (.*), then (.*)", sentence):
        return not true(found[1]) or true(found[2])
    if found := re.fullmatch(r"(.*) only if (.*)", sentence):
        return true(found[2]) or not true(found[1])
    if found := re.fullmatch(r"(.*) or (.*), (or both|but never both)", sentence):
        count = true(found[1]) + true(found[2])
        return count >= 1 if found[3] == "or both" else count == 1
    return true(sentence)


def test_conditionals_are_decided_by_all_cases() -> None:
    other = re.compile("lamps|button|wakes")
    asked = [q for q in POOLS if q.topic == "conditionals" and not other.search(q.prompt)]
    assert len(asked) >= 25
    for question in asked:
        text = question.prompt.removeprefix("This is all that is known: ")
        *premises, last = re.split(r"\. ", text)
        (found,) = re.findall(r"(?:[Tt]hat|whether) (the [^,?]*)", last)
        facts = sorted({fact(part)[0] for part in re.findall(r"[Tt]he \w+ [^.,?]*?(?= or | only|[.,?])", text)})
        worlds = [dict(zip(facts, row, strict=True)) for row in itertools.product((True, False), repeat=len(facts))]
        left = {world[found] for world in worlds if all(premise(sentence, world) for sentence in premises)}
        answer = {(True,): "true", (False,): "false"}.get(tuple(left), "unknown")
        assert_solved(question, answer == "true" if question.right in ("Yes", "No") else SURELY[answer])


def test_buttons_and_sleepers_follow_their_rule() -> None:
    asked = [q for q in POOLS if q.topic == "conditionals" and ("button" in q.prompt or "wakes" in q.prompt)]
    assert len(asked) >= 45
    for question in asked:
        if "wakes" in question.prompt:
            ((cause, who, now),) = re.findall(r"If (.*), then (.*) wakes up\. Now (.*)\. Who", question.prompt)
            assert cause == now
            assert_solved(question, who)
        else:
            rules = dict(re.findall(r"If the (\w+) button is pressed, ([^.]*)\.", question.prompt))
            assert len(set(rules.values())) == 5
            (pressed,) = re.findall(r"(?:presses|What happens if) the (\w+) button", question.prompt)
            assert_solved(question, rules[pressed])


def test_lamps_are_decided_by_all_cases() -> None:
    asked = [q for q in POOLS if q.topic == "conditionals" and "lamps" in q.prompt]
    assert len(asked) >= 30
    for question in asked:
        rule = r"If lamp (\w) is on, lamp (\w) is on\."
        links = re.findall(rule, question.prompt)
        facts = re.findall(r"amp (\w) is (on|off)", re.sub(rule, "", question.prompt))
        given = {lamp: state == "on" for lamp, state in facts}
        worlds = [dict(zip("ABCDEF", row, strict=True)) for row in itertools.product((True, False), repeat=6)]
        left = [w for w in worlds if given.items() <= w.items() and all(w[b] or not w[a] for a, b in links)]
        assert_solved(question, sum(len({w[name] for w in left}) == 1 for name in "ABCDEF"))


def test_claims_about_sums_are_worked_out() -> None:
    asked = [q for q in POOLS if q.topic == "truth" and re.search(r"\d", q.prompt)]
    assert len(asked) >= 45
    for question in asked:
        if claim := re.search(r"(\d+) \+ (\d+) = (\d+)", question.prompt):
            a, b, total = map(int, claim.groups())
            assert_solved(question, total - b == a)
        else:
            claims = re.findall(r'(\w+) says: "(\d+) times (\d+) is (\d+)\."', question.prompt)
            (who,) = [who for who, a, b, product in claims if sum([int(a)] * int(b)) == int(product)]
            assert_solved(question, who)


def test_truth_values_agree_with_tables() -> None:
    for question in POOLS:
        found = re.search(r'"([pqr() notad]+)"', question.prompt)
        if question.topic != "truth" or not found:
            continue
        if given := re.search(r"p is (true|false) and q is (true|false)", question.prompt):
            assert_solved(question, bool(eval(found[1], {"p": given[1] == "true", "q": given[2] == "true"})))
        else:
            rows = itertools.product((True, False), repeat=3)
            assert_solved(question, sum(bool(eval(found[1], dict(zip("pqr", row, strict=True)))) for row in rows))


def test_exactly_one_choice_of_liars_fits() -> None:
    asked = [q for q in POOLS if "says:" in q.prompt and "times" not in q.prompt]
    assert len(asked) >= 25
    for question in asked:
        said = re.findall(r'(\w+) says: "(\w+) (lies|tells the truth)\."', question.prompt)
        people = [speaker for speaker, _, _ in said]
        known = re.findall(r"(\w+) is one of the two who lie", question.prompt)
        fitting = [
            liars
            for liars in itertools.combinations(people, 1 + len(known))
            if all(((of in liars) == (claim == "lies")) != (speaker in liars) for speaker, of, claim in said)
        ]
        assert [set(liars) for liars in fitting] == [{question.right, *known}]
        assert set(question.wrong) < set(people) - set(known)


def test_the_missing_number_is_not_in_the_row() -> None:
    asked = [q for q in POOLS if q.topic == "grids" and "missing" in q.prompt]
    assert len(asked) == 4 * len(SEEDS)
    for question in asked:
        (shown,) = re.findall(r"It shows (.*) and a gap", question.prompt)
        (missing,) = {"1", "2", "3", "4", "5"} - set(shown.split(", "))
        assert_solved(question, missing)


def completions(rows: list[list[str]]) -> Iterator[list[list[str]]]:
    blanks = [(r, c) for r in range(4) for c in range(4) if rows[r][c] == "_"]
    if not blanks:
        yield [list(row) for row in rows]
        return
    r, c = blanks[0]
    for digit in "1234":
        if digit not in rows[r] and digit not in [rows[i][c] for i in range(4)]:
            rows[r][c] = digit
            yield from completions(rows)
            rows[r][c] = "_"


def test_every_completion_of_a_grid_has_the_right_number() -> None:
    asked = [q for q in POOLS if q.topic == "grids" and ", column" in q.prompt]
    assert len(asked) >= 50
    for question in asked:
        (rows,) = re.findall(r"((?:[\d_] ){3}[\d_](?:; (?:[\d_] ){3}[\d_]){3})", question.prompt)
        ((row, column),) = re.findall(r"row (\d), column (\d)", question.prompt)
        grid = [line.split() for line in rows.split("; ")]
        assert grid[int(row) - 1][int(column) - 1] == "_"
        assert {full[int(row) - 1][int(column) - 1] for full in completions(grid)} == {question.right}


def test_exactly_one_assignment_fits_the_clues() -> None:
    asked = [q for q in POOLS if q.topic == "grids" and "Who" in q.prompt]
    assert len(asked) >= 20
    for question in asked:
        has = set(re.findall(r"(?<!Who )\b([A-Z]\w+) (?:has|drinks|plays|rides) (?!chosen)([^.?]*)\.", question.prompt))
        has_not = set(re.findall(r"([A-Z]\w+) does not \w+ ([^.]*)\.", question.prompt))
        (asked_thing,) = re.findall(r"Who \w+ ([^?]*)\?", question.prompt)
        things = re.split(
            r", | and ",
            re.findall(r"(?:share out|one of|There are) (.*?)(?:, one each|, no two|, one for)", question.prompt)[0],
        )
        people = sorted({*re.findall(r"\b([A-Z][a-z]+)\b", question.prompt)} - {"Who", "There", "Each"})
        ways = [dict(zip(people, order, strict=True)) for order in itertools.permutations(things)]
        ways = [w for w in ways if has <= set(w.items()) and not has_not & set(w.items())]
        assert len(ways) == 1
        assert [person for person, thing in ways[0].items() if thing == asked_thing] == [question.right]


def machine(add: int, start: int, steps: int) -> int:
    for _ in range(steps):
        start = {0: start >> 1, 1: start + add}[start & 1]
    return start


def coded(word: str, how: str) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    by = {"the next letter": 1, "the letter two": 2, "the letter three": 3}[how]
    return word.translate(str.maketrans(alphabet, alphabet[by:] + alphabet[:by]))


HOW = r"(the next letter|the letter two|the letter three)"


def nested(sign: str, m: int, n: int, text: str) -> int:
    """An expression of the new sign, from the inside out."""
    while found := re.search(rf"\(?(\d+) {sign} (\d+)\)?", text):
        text = text.replace(found[0], str(sum([m] * int(found[1]) + [n] * int(found[2]))))
    return int(text)


RULES: Solver = [
    (rf"the sign . adds {N} to a number\. What is {N} .\?", lambda a, x: len([*range(a), *range(x)])),
    (r"x (.) y means (\d)x \+ (\d)y.*is (.*\(.*)\?", nested),
    (
        rf"x (.) y means (\d)x ([+-]) (\d)y.*? {N} . {N}\?",
        lambda _, m, sign, n, a, b: sum([m] * a) + (1 if sign == "+" else -1) * sum([n] * b),
    ),
    (rf"adds {N} to one that is odd\. (?:Starting|Which number is reached) from {N}.* {N} steps", machine),
    (rf"adds {N} to one that is odd\. It makes {N} steps, beginning with {N}", lambda d, n, s: machine(d, s, n)),
    (rf"becomes {HOW}.* is ([A-Z]+) written", lambda how, word: coded(word, how)),
    (rf"letter of ([A-Z]+) by {HOW}", coded),
    (rf"puts {HOW}.* does ([A-Z]+) become", lambda how, word: coded(word, how)),
    (
        rf"(?:at|with|From) {N} points.*? {N}\D*? {N}.* {N} red (?:and|cards and) {N} blue",
        lambda start, up, down, reds, blues: start + sum([up] * reds) - sum([down] * blues),
    ),
]


def test_invented_rules_agree_with_a_second_implementation() -> None:
    for question in POOLS:
        if question.topic == "invented rules":
            assert_solved(question, solve(question, RULES))


def overlap(total: int, a: int, b: int, both: int) -> tuple[set[int], set[int], set[int]]:
    return set(range(total)), set(range(a)), set(range(a - both, a - both + b))


def survey(total: int, a: int, b: int, both: int, asked: str) -> int:
    everyone, first, second = overlap(total, a, b, both)
    if "neither" in asked:
        return len(everyone - first - second)
    if "at least one" in asked:
        return len(first | second)
    return len(first ^ second) if "exactly one" in asked else len(first - second)


def extreme(total: int, a: int, b: int, _: str) -> int:
    sizes = [len(set(range(a)) & set(range(start, start + b))) for start in range(total - b + 1)]
    return min(sizes)


def none_of_three(total: int, a: int, b: int, c: int, ab: int, ac: int, bc: int, abc: int) -> int:
    """Those left after the people of each region are taken out one region at a time."""
    only = {"abc": abc, "ab": ab - abc, "ac": ac - abc, "bc": bc - abc}
    for name, size in (("a", a), ("b", b), ("c", c)):
        only[name] = size - sum(count for region, count in only.items() if name in region and len(region) > 1)
    assert all(count >= 0 for count in only.values())
    return total - sum(only.values())


def elements(a: str, b: str, asked: str) -> Any:
    first, second = set(a.split(", ")), set(b.split(", "))
    if "union" in asked:
        return len([*first, *(second - first)])
    return sum((one in second) == ("common" in asked) for one in first)


SETS: Solver = [
    (rf"Of {N} people {N} [^,]*, {N} [^,]* and {N} do both\. (.*)", survey),
    (rf"(?:Of|group of) {N}(?: people|,) ?{N} [^.]*? and {N} [^.]*\..*(smallest|At least)", extreme),
    (r"A box holds (.*)\. How many", lambda text: len(re.findall(r"\ba \w+", text))),
    (rf"Of {N} people {N} speak .*? {N} \w+ and {N} \w+; {N} .* {N} both .* {N} both .* {N} all three", none_of_three),
    (r"A = \{(.*)\} and B = \{(.*)\}[.,] [Hh]ow many (.*)\?", elements),
]


def test_group_sizes_agree_with_counting() -> None:
    for question in POOLS:
        if question.topic == "sets":
            assert_solved(question, solve(question, SETS))

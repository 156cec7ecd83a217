r"""Small programs in Python and SQL with their output: templates, and the mistakes that one makes in reading them.

    Program(code="n = $n\nprint(n + 1)", draw=..., slips=(("n + 1", "n"), ...))

A template has places such as ``$n``, which `draw` fills. Each slip replaces one piece of the program by another, as a
reader does who overlooks something; the output of the changed program is a wrong answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Final, Literal

Values = Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A template of programs.

    Attributes:
        task: Name of the task, without its prefix.
        difficulty: 0 for a single step, 1 for a loop or a condition, 2 for two ideas at once, 3 for what surprises.
        code: The program, with ``$name`` for values that are drawn.
        draw: Function that draws the values.
        slips: Replacements that give wrong answers; values may stand in them.
    """

    task: Literal["prints", "json", "sql"] = "prints"
    difficulty: Literal[0, 1, 2, 3]
    code: str
    draw: Callable[[random.Random], Values]
    slips: Sequence[tuple[str, str]]


WORDS: Final = (
    "lamp",
    "tree",
    "fish",
    "door",
    "moon",
    "boat",
    "ring",
    "coin",
    "sand",
    "leaf",
    "wolf",
    "drum",
    "kite",
    "milk",
)
NAMES: Final = ("Anna", "Boris", "Clara", "David", "Elsa", "Felix", "Greta", "Hugo", "Irene", "Jonas")


def _ints(rng: random.Random, low: int, high: int, **names: int) -> dict[str, int | str]:
    """Different numbers for the names, as many for each as its value says, joined by commas."""
    drawn = rng.sample(range(low, high + 1), sum(names.values()))
    found: dict[str, int | str] = {}
    for name, count in names.items():
        own, drawn = drawn[:count], drawn[count:]
        found[name] = own[0] if count == 1 else ", ".join(map(str, own))
    return found


def _words(rng: random.Random, count: int, pool: Sequence[str] = WORDS) -> dict[str, str]:
    """Different words for the names a, b, c, ..."""
    return dict(zip("abcdefgh"[:count], rng.sample(pool, count), strict=True))


def _one(rng: random.Random, values: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """One of several settings."""
    return rng.choice(values)


def _program(text: str) -> str:
    """The lines of a program without the indentation that they have here."""
    return dedent(text).strip()


_PATHS: Final = ('["name"]', '["pet"]["name"]', '["pet"]["friend"]["name"]', '["owner"]')

PROGRAMS: Final[tuple[Program, ...]] = (
    Program(
        difficulty=0,
        code=_program(
            """
            x = $x
            y = x + $y
            x = y + 1
            print(x)
            """
        ),
        draw=lambda rng: _ints(rng, 12, 60, x=1, y=1),
        slips=(("y + 1", "y"), ("x + $y", "x + $y - 10"), ("y + 1", "x + 1"), ("y + 1", "y - 1"), ("y + 1", "y + 10")),
    ),
    Program(
        difficulty=0,
        code=_program(
            """
            first = "$a"
            second = "$b"
            both = $p + $q
            print(both)
            """
        ),
        draw=lambda rng: {
            **_words(rng, 2),
            **_one(rng, ({"p": "first", "q": "second"}, {"p": "second", "q": "first"})),
        },
        slips=(("$p + $q", "$q + $p"), ("$p + $q", "$p * 2"), ("$p + $q", "$q * 2")),
    ),
    Program(
        difficulty=0,
        code=_program(
            """
            words = ["$a", "$b", "$c", "$d"]
            place = $i
            word = words[place]
            print(word)
            """
        ),
        draw=lambda rng: {**_words(rng, 4), "i": rng.randrange(4)},
        slips=(("[place]", "[0]"), ("[place]", "[1]"), ("[place]", "[2]"), ("[place]", "[3]")),
    ),
    Program(
        difficulty=0,
        code=_program(
            """
            price = {"$a": $x, "$b": $y, "$c": $z}
            price["$b"] = $w
            answer = price["$b"]
            print(answer)
            """
        ),
        draw=lambda rng: {**_words(rng, 3), **_ints(rng, 11, 59, x=1, y=1, z=1, w=1)},
        slips=(("= $w", "= $y"), ("= $w", "= $x"), ("= $w", "= $z"), ("= $w", "= $w + 1")),
    ),
    Program(
        difficulty=0,
        code=_program(
            """
            total = 0
            for n in [$v]:
                total = total + n
            print(total)
            """
        ),
        draw=lambda rng: _ints(rng, 3, 29, v=3),
        slips=(
            ("0\n", "1\n"),
            ("total + n", "total + n + 1"),
            ("= 0", "= 10"),
            ("total + n", "total + n - 1"),
            ("= 0", "= -2"),
        ),
    ),
    Program(
        difficulty=0,
        code=_program(
            """
            values = [$v]
            values.append($x)
            found = $f(values)
            print(found)
            """
        ),
        draw=lambda rng: {**_ints(rng, 12, 98, v=3, x=1), "f": rng.choice(("max", "min"))},
        slips=tuple(("$f(values)", f"values[{place}]") for place in range(4)),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            total = 0
            for n in range($a, $b):
                total += n
            print(total)
            """
        ),
        draw=lambda rng: {"a": rng.randint(3, 9), "b": rng.randint(12, 16)},
        slips=(
            ("$b)", "$b + 1)"),
            ("$b)", "$b - 1)"),
            ("($a,", "($a - 1,"),
            ("($a,", "($a + 1,"),
            ("$a, $b", "$a + 1, $b + 1"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            values = [$v]
            part = values[$i:$j]
            part.reverse()
            print(part)
            """
        ),
        draw=lambda rng: {
            **_ints(rng, 10, 98, v=7),
            **dict(zip("ij", rng.choice(((1, 4), (2, 5), (3, 6))), strict=True)),
        },
        slips=(
            ("$i:$j", "$i + 1:$j + 1"),
            ("$i:$j", "$i - 1:$j - 1"),
            ("part.reverse()\n", ""),
            ("reverse()", "sort()"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            word = "$a$b$c"
            start = $i
            part = word[start:start + 4]
            print(part)
            """
        ),
        draw=lambda rng: {**_words(rng, 3), "i": rng.choice((2, 3, 5, 6))},
        slips=(
            ("start:start + 4", "start + 1:start + 5"),
            ("start:start + 4", "start - 1:start + 3"),
            ("= $i", "= $i + 2"),
            ("= $i", "= $i - 2"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            n = $n
            steps = 0
            while n > $m:
                n = n - $k
                steps = steps + 1
            print(n * 10 + steps)
            """
        ),
        draw=lambda rng: {"n": rng.randint(30, 60), "m": rng.randint(10, 15), "k": rng.randint(4, 7)},
        slips=(
            ("n > $m", "n > $m + $k"),
            ("n > $m", "n > $m - $k"),
            ("steps = 0", "steps = 1"),
            ("steps = 0", "steps = -1"),
            ("n * 10", "(n + 1) * 10"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            text = "$t"
            count = {}
            for letter in text:
                count[letter] = count.get(letter, 0) + 1
            print(count["$l"])
            """
        ),
        draw=lambda rng: {"t": "".join(rng.choices("abc", k=15)), "l": rng.choice("abc")},
        slips=(
            ("letter, 0", "letter, 1"),
            ("in text", "in text[1:-2]"),
            ("letter, 0", "letter, 2"),
            ("letter, 0", "letter, -1"),
            ("letter, 0", "letter, -2"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            n = $n
            if n < $p:
                word = "$a"
            elif n < $q:
                word = "$b"
            elif n < $r:
                word = "$c"
            else:
                word = "$d"
            print(word)
            """
        ),
        draw=lambda rng: {
            **_words(rng, 4),
            "n": rng.choice((17, 34, 46, 63)),
            "p": 20,
            "q": rng.randint(35, 40),
            "r": rng.randint(50, 60),
        },
        slips=(("word)", '"$a")'), ("word)", '"$b")'), ("word)", '"$c")'), ("word)", '"$d")')),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            line = "$a,$b,$c"
            parts = line.split(",")
            parts.reverse()
            print("-".join(parts))
            """
        ),
        draw=lambda rng: _words(rng, 3),
        slips=(
            ("parts.reverse()\n", ""),
            ("parts.reverse()", "parts.insert(0, parts.pop())"),
            ("parts.reverse()", "parts.append(parts.pop(0))"),
            ("parts.reverse()", "parts[1:] = parts[:0:-1]"),
        ),
    ),
    Program(
        difficulty=1,
        code=_program(
            """
            values = [$v]
            small = [n for n in values if n < $m]
            count = len(small)
            print(sum(small) - count)
            """
        ),
        draw=lambda rng: {**_ints(rng, 10, 60, v=6), "m": rng.randint(30, 40)},
        slips=(
            ("n < $m", "n > $m"),
            ("n < $m", "n < $m + 8"),
            ("n < $m", "n < $m - 8"),
            ("- count", ""),
            ("- count", "+ count"),
            ("- count", "- count * 2"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            count = 0
            for i in range($n):
                for j in range(i):
                    if (i + j) % $m == 0:
                        count += 1
            print(count)
            """
        ),
        draw=lambda rng: {"n": rng.randint(8, 11), "m": rng.choice((2, 3))},
        slips=(
            ("range(i)", "range(i + 1)"),
            ("range($n)", "range($n + 1)"),
            ("range($n)", "range($n - 1)"),
            ("range(i)", "range(1, i)"),
            ("== 0", "== 1"),
            ("i + j", "i * j"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            a = [$v]
            b = a
            b.append($x)
            c = a[:]
            c.append($y)
            print(sum(a))
            """
        ),
        draw=lambda rng: _ints(rng, 11, 39, v=3, x=1, y=1),
        slips=(
            ("b = a", "b = a[:]"),
            ("a[:]", "a"),
            ("sum(a)", "sum(a) - $x + $y"),
            ("sum(a)", "sum(a) - a[0]"),
            ("sum(a)", "sum(a) + a[0]"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            def f(n):
                if n < 10:
                    return n
                return n % 10 + f(n // 10)

            print(f($n))
            """
        ),
        draw=lambda rng: {"n": rng.randint(2000, 9999)},
        slips=(
            ("return n\n", "return 0\n"),
            ("return n\n", "return n + 1\n"),
            ("f($n)", "f($n // 10)"),
            ("f($n)", "f($n) + 10"),
            ("f($n)", "f($n) - 1"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            def value(text):
                try:
                    return int(text)
                except ValueError:
                    return $e

            parts = ["$x", "$a", "$y"]
            print(sum(value(part) for part in parts))
            """
        ),
        draw=lambda rng: {**_words(rng, 1), **_ints(rng, 11, 49, x=1, y=1, e=1)},
        slips=(
            ("return $e", "return 0"),
            ("return $e", "return 1"),
            ("return $e", "return len(text)"),
            ("in parts", "in parts[:2]"),
            ("in parts", "in parts[1:]"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            class Counter:
                def __init__(self, start):
                    self.n = start
                def add(self, k):
                    self.n += k
                    return self

            c = Counter($s)
            c.add($x).add($y)
            print(c.n)
            """
        ),
        draw=lambda rng: _ints(rng, 11, 45, s=1, x=1, y=1),
        slips=(
            ("+= k", "= k"),
            ("self.n = start", "self.n = 0"),
            (".add($y)", ""),
            (".add($x)", ""),
            ("$s)", "$s + 1)"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            people = {"$a": $x, "$b": $y, "$c": $z, "$d": $w}
            order = sorted(people, key=people.get, reverse=True)
            name = order[$i]
            print(name)
            """
        ),
        draw=lambda rng: {
            **_words(rng, 4, NAMES),
            **_ints(rng, 20, 70, x=1, y=1, z=1, w=1),
            "i": rng.choice((1, 2, -1, -2)),
        },
        slips=tuple(("[$i]", f"[{place}]") for place in range(4)),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            total = 50
            for i, n in enumerate([$v]):
                if i % 2 == 0:
                    total += n
                else:
                    total -= n
            print(total)
            """
        ),
        draw=lambda rng: _ints(rng, 11, 30, v=5),
        slips=(
            ("i % 2 == 0", "i % 2 == 1 or n > 30"),
            ("enumerate([$v])", "enumerate([$v][:4])"),
            ("enumerate([$v])", "enumerate([$v][:3])"),
            ("total -= n", "total -= 1"),
            ("total -= n", "total -= i"),
            ("total = 50", "total = 40"),
        ),
    ),
    Program(
        difficulty=2,
        code=_program(
            """
            a, b = $a, $b
            for _ in range($n):
                a, b = b, a + b
            print(a)
            """
        ),
        draw=lambda rng: {"a": rng.randint(3, 6), "b": rng.randint(7, 9), "n": rng.randint(3, 4)},
        slips=(
            ("print(a)", "print(b)"),
            ("range($n)", "range($n - 1)"),
            ("b, a + b", "b, a + b + 1"),
            ("print(a)", "print(a + 1)"),
            ("print(a)", "print(a - 2)"),
        ),
    ),
    Program(
        difficulty=3,
        code=_program(
            """
            def keep(x, seen=[]):
                seen.append(x)
                return sum(seen)

            keep($x)
            keep($y)
            print(keep($z))
            """
        ),
        draw=lambda rng: _ints(rng, 11, 39, x=1, y=1, z=1),
        slips=(
            ("return sum(seen)", "return x"),
            ("keep($x)\n", ""),
            ("keep($y)\n", ""),
            ("return sum(seen)", "return sum(seen) - x"),
            ("keep($z)", "keep($z + 1)"),
        ),
    ),
    Program(
        difficulty=3,
        code=_program(
            """
            tasks = []
            for i in range($a, $b):
                tasks.append(lambda x: x + i)
            print(sum(task($x) for task in tasks))
            """
        ),
        draw=lambda rng: {"a": rng.randint(1, 3), "b": rng.randint(5, 7), "x": rng.randint(10, 20)},
        slips=(
            ("lambda x:", "lambda x, i=i:"),
            ("x + i", "x + $b"),
            ("x + i", "x + $a"),
            ("task($x)", "task($x - 1)"),
            ("task($x)", "task($x + 2)"),
        ),
    ),
    Program(
        difficulty=3,
        code=_program(
            """
            values = [$v]
            large = (n for n in values if n > $m)
            first = next(large)
            rest = sum(large)
            print(rest, sum(large) + first)
            """
        ),
        draw=lambda rng: {**_ints(rng, 21, 60, v=5), "m": 35},
        slips=(
            ("next(large)", "values[0]"),
            ("(n for n in values if n > $m)", "iter(values)"),
            ("rest, sum(large) + first", "first, rest"),
            ("rest, sum(large) + first", "rest + first, first"),
            ("> $m", "> $m + 6"),
            ("> $m", "> $m - 6"),
        ),
    ),
    Program(
        difficulty=3,
        code=_program(
            """
            def run(n):
                log = []
                try:
                    log.append("$a")
                    10 // n
                    log.append("$b")
                except ZeroDivisionError:
                    log.append("$c")
                finally:
                    log.append("$d")
                return " ".join(log)

            print(run($n))
            """
        ),
        draw=lambda rng: {**_words(rng, 4), "n": rng.choice((0, 2))},
        slips=(
            ("run($n)", "run(0)"),
            ("run($n)", "run(5)"),
            ('append("$d")', 'insert(0, "$d")'),
            ('log.append("$a")', 'log.append("$b")'),
            ('append("$d")', 'append("$a")'),
        ),
    ),
    Program(
        difficulty=3,
        code=_program(
            """
            class Box:
                size = $x
                def grow(self):
                    self.size = self.size + $y

            a = Box()
            b = Box()
            a.grow()
            Box.size = $z
            print(a.size + b.size)
            """
        ),
        draw=lambda rng: _ints(rng, 11, 45, x=1, y=1, z=1),
        slips=(
            ("self.size = self", "Box.size = self"),
            ("Box.size = $z\n", ""),
            ("a.grow()\n", ""),
            ("Box.size = $z", "a.size = $z"),
            ("a.size + b.size", "a.size + $x + $y"),
        ),
    ),
    Program(
        task="json",
        difficulty=0,
        code=_program(
            """
            import json
            text = '{"name": "$a", "pet": {"name": "$b", "friend": {"name": "$c"}}, "owner": "$d"}'
            data = json.loads(text)
            print(data$p)
            """
        ),
        draw=lambda rng: {**_words(rng, 4, NAMES), "p": rng.choice(_PATHS)},
        slips=tuple(("$p", path) for path in _PATHS),
    ),
    Program(
        task="json",
        difficulty=1,
        code=_program(
            """
            import json
            text = '{"rows": [{"id": $x, "tags": ["$a", "$b"]}, {"id": $y, "tags": ["$c", "$d"]}]}'
            data = json.loads(text)
            print(data["rows"][$i]["tags"][$j])
            """
        ),
        draw=lambda rng: {
            **_words(rng, 4),
            **_ints(rng, 10, 99, x=1, y=1),
            "i": rng.randrange(2),
            "j": rng.choice((0, 1, -1)),
        },
        slips=(
            ("[$i]", "[1 - $i]"),
            ("[$j]", "[$j - 1]"),
            ('[$i]["tags"][$j]', '[1 - $i]["tags"][$j - 1]'),
            ("[$j]", "[0]"),
        ),
    ),
    Program(
        task="json",
        difficulty=2,
        code=_program(
            """
            import json
            text = '[{"name": "$a", "n": $x}, {"name": "$b", "n": null}, {"name": "$c", "n": $y}, {"name": "$d"}]'
            data = json.loads(text)
            print(sum(row.get("n", $e) or $f for row in data))
            """
        ),
        draw=lambda rng: {**_words(rng, 4), **_ints(rng, 11, 39, x=1, y=1), **_ints(rng, 2, 9, e=1, f=1)},
        slips=(
            ("or $f", "or 0"),
            ('"n", $e', '"n", 0'),
            ('"n", $e) or $f', '"n", 0) or 0'),
            ("in data", "in data[:3]"),
            ("in data", "in data[1:]"),
        ),
    ),
    Program(
        task="sql",
        difficulty=0,
        code=_program(
            """
            CREATE TABLE item (name TEXT, price INTEGER);
            INSERT INTO item VALUES ('$a', $x), ('$b', $y), ('$c', $z), ('$d', $w);

            SELECT price FROM item WHERE name = '$c';
            """
        ),
        draw=lambda rng: {**_words(rng, 4), **_ints(rng, 11, 89, x=1, y=1, z=1, w=1)},
        slips=(("= '$c'", "= '$a'"), ("= '$c'", "= '$b'"), ("= '$c'", "= '$d'")),
    ),
    Program(
        task="sql",
        difficulty=1,
        code=_program(
            """
            CREATE TABLE item (name TEXT, kind TEXT, price INTEGER);
            INSERT INTO item VALUES ('$a', 'old', $x), ('$b', 'new', $y), ('$c', 'old', $z), ('$d', 'new', $w);

            SELECT SUM(price) FROM item WHERE kind = '$k';
            """
        ),
        draw=lambda rng: {
            **_words(rng, 4),
            **_ints(rng, 31, 49, x=1, y=1, z=1, w=1),
            **_one(rng, ({"k": "old", "o": "new"}, {"k": "new", "o": "old"})),
        },
        slips=(
            ("= '$k'", "= '$o'"),
            ("kind = '$k'", "price IN ($x, $y)"),
            ("kind = '$k'", "price IN ($z, $w)"),
            ("kind = '$k'", "price IN ($y, $z)"),
            ("SUM(price)", "SUM(price) + 1"),
        ),
    ),
    Program(
        task="sql",
        difficulty=2,
        code=_program(
            """
            CREATE TABLE run (runner TEXT, seconds INTEGER);
            INSERT INTO run VALUES ('$a', $x), ('$b', $y), ('$c', $z), ('$d', $w);

            SELECT runner FROM run ORDER BY seconds LIMIT 1 OFFSET $i;
            """
        ),
        draw=lambda rng: {**_words(rng, 4, NAMES), **_ints(rng, 51, 99, x=1, y=1, z=1, w=1), "i": rng.choice((1, 2))},
        slips=(
            ("OFFSET $i", "OFFSET 0"),
            ("OFFSET $i", "OFFSET 1"),
            ("OFFSET $i", "OFFSET 2"),
            ("OFFSET $i", "OFFSET 3"),
        ),
    ),
    Program(
        task="sql",
        difficulty=3,
        code=_program(
            """
            CREATE TABLE shop (id INTEGER, name TEXT);
            CREATE TABLE sale (shop INTEGER, amount INTEGER);
            INSERT INTO shop VALUES (1, '$a'), (2, '$b'), (3, '$c'), (4, '$d');
            INSERT INTO sale VALUES (1, $x), (2, $y), (3, $z), (1, $w), (4, $u), (2, $v);

            SELECT name FROM shop JOIN sale ON sale.shop = shop.id GROUP BY name ORDER BY $f(amount) DESC LIMIT 1;
            """
        ),
        draw=lambda rng: {
            **_words(rng, 4),
            **_ints(rng, 21, 89, x=1, y=1, z=1, w=1, u=1, v=1),
            "f": rng.choice(("MAX", "MIN")),
        },
        slips=(("LIMIT 1", "LIMIT 1 OFFSET 1"), ("LIMIT 1", "LIMIT 1 OFFSET 2"), ("LIMIT 1", "LIMIT 1 OFFSET 3")),
    ),
)

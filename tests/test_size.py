"""The size of the package, of its rooms and of its tests: each number only falls, with each change that makes it fall.

Lines of code are counted: those with a token of the language, without blank lines, comments and docstrings; and all
characters, so that length is not hidden in width. The limits leave room for a mend of a few lines. What is added names
first the lines that it removes (CONTRIBUTING.md).
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

import forgetwatch

ROOT = Path(__file__).parent.parent
GATE_MINUTES = 12
"""Minutes that the README's test command may take on two idle cores; `.ci/run` prints what it took."""

AT_MOST = {
    "modules of the package": 161,
    "lines of code of the package": 32_636,
    "characters of the package": 2_298_078,
    "lines of code of the tests": 37_999,
    "public names": 13,
    "files that name bits_per_byte": 6,
    "files that name known_lost_net": 7,
    "files that name log_score_change_calibrated": 6,
    "files that name log_mass_change": 6,
    "files that name kl_sampled": 6,
    "files that name format_lost": 6,
    "files that name noise_floor": 6,
}
"""The last seven are measures: each belongs into its module in `measures/`, and few others need to name it."""

ROOMS = {
    "data": ("errors extras files loading progress ranges visible_text decoding item probe snapshot cache", 1728),
    "metrics": ("metrics measures", 2864),
    "theory": ("theory", 490),
    "grading": ("grading", 1546),
    "probes": ("probes", 2093),
    "readers": ("readers files/json_pieces files/rows", 2724),
    "compare": ("text measures/rows comparing", 3159),
    "policy": ("policy", 915),
    "report": ("report", 3377),
    "scoring": ("scoring", 3125),
    "retention": ("retention", 361),
    "run": ("run run_folder", 5036),
    "merge": ("merge", 828),
    "study": ("study", 1416),
    "ways in": ("trl axolotl lm_eval demo version cli __init__ __main__", 2971),
}
"""Parts of the package that make a room, and the most lines of code of the room."""

_NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def sources(folder: str) -> list[str]:
    """Return the texts of the Python files below a folder of the repository."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def code_lines(text: str) -> int:
    """Return the number of lines that hold code.

    >>> code_lines('def half(x):\\n    "Return x / 2."\\n\\n    # exact\\n    return x / 2\\n')
    2
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in _NOT_CODE for line in _lines(token.start[0], token.end[0])}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.difference_update(_lines(first.lineno, first.end_lineno or first.lineno))
    return len(lines)


def _lines(first: int, last: int) -> range:
    return range(first, last + 1)


def test_only_lines_of_code_are_counted() -> None:
    text = '"""A module."""\n\nimport os  # used\n\n\nclass A:\n    """A class."""\n\n    b = """two\n    lines"""\n'
    assert code_lines(text) == 4
    assert code_lines("# a comment\n\n") == 0


def test_nothing_grew() -> None:
    package = sources("forgetwatch")
    found = {
        "modules of the package": len(package),
        "lines of code of the package": sum(map(code_lines, package)),
        "characters of the package": sum(map(len, package)),
        "lines of code of the tests": sum(map(code_lines, sources("tests"))),
        "public names": len(forgetwatch.__all__),
    }
    of_measure = "files that name "
    for name in AT_MOST:
        if name.startswith(of_measure):
            found[name] = sum(name.removeprefix(of_measure) in text for text in package)
    assert found.keys() == AT_MOST.keys()
    grown = {name: f"{number}, at most {AT_MOST[name]}" for name, number in found.items() if number > AT_MOST[name]}
    assert not grown


def room_of(path: Path) -> str:
    """Return the room of a file of the package; of two rooms with its folder the one that names the deeper folder."""
    inside = f"{path.relative_to(ROOT / 'forgetwatch').with_suffix('').as_posix()}/"
    parts = ((part, room) for room, (named, _) in ROOMS.items() for part in named.split())
    fits = [(len(part), room) for part, room in parts if inside.startswith(f"{part}/")]
    return max(fits)[1]


def test_no_room_grew() -> None:
    found = dict.fromkeys(ROOMS, 0)
    for path in (ROOT / "forgetwatch").rglob("*.py"):
        found[room_of(path)] += code_lines(path.read_text(encoding="utf-8"))
    grown = {room: f"{lines}, at most {ROOMS[room][1]}" for room, lines in found.items() if lines > ROOMS[room][1]}
    assert not grown


def test_the_gate_reads_the_promised_minutes() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert r"s/^GATE_MINUTES = \([0-9]*\)$/\1/p' tests/test_size.py" in gate
    assert f"\nGATE_MINUTES = {GATE_MINUTES}\n" in Path(__file__).read_text(encoding="utf-8")

"""The size of the package, of its rooms and of its tests: each number only falls, with each change that makes it fall.

Tokens of code are counted, as Python's tokenizer has them, without comments, blank lines, indentation and docstrings: a
count that neither the width of a line nor the length of a module changes. A room may take what another gives; the
package as a whole only falls. What is added names first what it removes (CONTRIBUTING.md).
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
    "tokens of the package": 356_401,
    "tokens of the tests": 494_785,
    "public names": 15,
    "files that name bits_per_byte": 6,
    "files that name known_lost_net": 7,
    "files that name log_score_change": 4,
    "files that name log_mass_change": 6,
    "files that name kl_sampled": 6,
    "files that name format_lost": 6,
    "files that name noise_floor": 6,
}
"""The last seven are measures: each belongs into its module in `measures/`, and few others need to name it."""

ROOMS = {
    "data": (
        "errors extras files loading progress ranges visible_text decoding wording item probe snapshot cache "
        "kept_answers",
        17_030,
    ),
    "metrics": ("metrics measures", 27_180),
    "theory": ("theory", 5_425),
    "grading": ("grading", 17_351),
    "probes": ("probes", 25_293),
    "readers": ("readers files/rows files/json_pieces", 35_465),
    "compare": ("text measures/aligned measures/pairing measures/option_columns comparing", 38_532),
    "policy": ("policy", 9_727),
    "report": ("report", 30_565),
    "scoring": ("scoring", 34_915),
    "endpoint": ("endpoint", 5_078),
    "retention": ("retention", 3_896),
    "run": ("run run_folder follow", 57_990),
    "merge": ("merge", 8_382),
    "study": ("study", 13_992),
    "ways in": ("trl axolotl demo version cli __init__ __main__", 25_580),
}
"""Parts of the package that make a room, and the most tokens of code of the room."""

_NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def sources(folder: str) -> list[str]:
    """Return the texts of the Python files below a folder of the repository."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def code_tokens(text: str) -> int:
    """Count the tokens of code of a module.

    >>> code_tokens('def half(x):\\n    "Return x / 2."\\n\\n    # exact\\n    return x / 2\\n')
    10
    """
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NOT_CODE
    ]
    documented = set[int]()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            documented.update(
                range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
            )
    return sum(token.start[0] not in documented for token in tokens)


def test_only_tokens_of_code_are_counted() -> None:
    text = '"""A module."""\n\nimport os  # used\n\n\nclass A:\n    """A class."""\n\n    b = """two\n    lines"""\n'
    assert code_tokens(text) == 2 + 3 + 3
    assert code_tokens("# a comment\n\n") == 0


def test_neither_width_nor_gluing_changes_the_count() -> None:
    narrow = "a = [\n    1,\n    2\n]\nb = 3\n"
    assert code_tokens(narrow) == code_tokens("a = [1, 2]; b = 3\n") - 1  # the semicolon


def test_nothing_grew() -> None:
    package = sources("forgetwatch")
    found = {
        "tokens of the package": sum(map(code_tokens, package)),
        "tokens of the tests": sum(map(code_tokens, sources("tests"))),
        "public names": len(forgetwatch.__all__),
    }
    of_measure = "files that name "
    for name in AT_MOST:
        if name.startswith(of_measure):
            found[name] = sum(name.removeprefix(of_measure) in text for text in package)
    assert found.keys() == AT_MOST.keys()
    grown = {
        name: f"{number}, at most {AT_MOST[name]}"
        for name, number in found.items()
        if number > AT_MOST[name]
    }
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
        found[room_of(path)] += code_tokens(path.read_text(encoding="utf-8"))
    grown = {
        room: f"{count}, at most {ROOMS[room][1]}"
        for room, count in found.items()
        if count > ROOMS[room][1]
    }
    assert not grown


def test_the_gate_reads_the_promised_minutes() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert r"s/^GATE_MINUTES = \([0-9]*\)$/\1/p' tests/test_size.py" in gate
    assert f"\nGATE_MINUTES = {GATE_MINUTES}\n" in Path(__file__).read_text(encoding="utf-8")

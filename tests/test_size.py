"""The size of the package and of its tests: each number may fall freely, and rises only by an edit of this table.

Lines of code are counted: those with a token of the language, without blank lines, comments and docstrings; and all
characters, so that length is not hidden in width. The limits leave room for a mend of a few lines. To raise one,
write the new number here in the same commit that needs it, and give the reason in the commit's message: what the
added lines do for a user, and why nothing else could go.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import forgetwatch

ROOT = Path(__file__).parent.parent
GATE_MINUTES = 12
"""Minutes that the README's test command may take on two idle cores; `.ci/run` prints what it took."""

AT_MOST = {
    "modules of the package": 227,
    "lines of code of the package": 35_285,
    "characters of the package": 2_469_000,
    "lines of code of the tests": 40_470,
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

_NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def sources(folder: str) -> list[str]:
    """Return the texts of the Python files below a folder of the repository."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


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


def test_the_gate_reads_the_promised_minutes() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert r"s/^GATE_MINUTES = \([0-9]*\)$/\1/p' tests/test_size.py" in gate
    assert f"\nGATE_MINUTES = {GATE_MINUTES}\n" in Path(__file__).read_text(encoding="utf-8")

"""The mutations themselves, and the committed table of mutants."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import draw, every_row, read_table
from mutations import IMPORT_TIME, shown, sites

HERE = Path(__file__).parent
KILLED = {"module", "package", "wide", "timeout", "import"}


def mutated(source: str) -> list[tuple[str, str]]:
    """Operator and source of every mutation of a module of one statement."""
    tree = ast.parse(source)
    found = []
    for site in sites(tree):
        undo = site.swap()
        found.append((site.operator, ast.unparse(ast.fix_missing_locations(tree))))
        undo.swap()
    assert ast.unparse(tree) == ast.unparse(ast.parse(source))
    return found


@pytest.mark.parametrize(
    ("source", "operator", "expected"),
    [
        ("x = a + b", "arithmetic", "x = a - b"),
        ("x = a < b", "comparison bound", "x = a <= b"),
        ("x = a < b", "comparison negated", "x = a >= b"),
        ("x = a and b", "boolean", "x = a or b"),
        ("x = not a", "operator dropped", "x = a"),
        ("x = 1", "constant", "x = 0"),
        ("x = min(a)", "call swapped", "x = max(a)"),
        ("x = a.sum()", "call swapped", "x = a.max()"),
        ("x = abs(a)", "call dropped", "x = a"),
        ("x = a[b:]", "slice", "x = a[:]"),
        ("x = a[b:]", "off by one", "x = a[b + 1:]"),
        ("x = a if b else c", "negated condition", "x = a if not b else c"),
    ],
)
def test_a_mutation_changes_one_thing(source: str, operator: str, expected: str) -> None:
    assert (operator, expected) in mutated(source)


def test_a_return_value_is_negated_by_its_type() -> None:
    source = "def f() -> {}:\n    return a"
    returned = {
        kind: [made.splitlines()[-1].strip() for _, made in mutated(source.format(kind))]
        for kind in ("bool", "float", "A | None")
    }
    assert returned == {"bool": ["return not a"], "float": ["return -a"], "A | None": ["return None"]}


def test_messages_annotations_and_docstrings_are_not_mutated() -> None:
    source = '"""1 + 1."""\nx: Final[Literal[1]] = a\n'
    source += 'def f(b: Literal[2]) -> None:\n    """1."""\n    raise ValueError(1 + 1)\n'
    assert mutated(source) == []


def test_the_same_seed_draws_the_same_mutants_and_each_compiles_to_another_module() -> None:
    assert draw(3, 40) == draw(3, 40) != draw(4, 40)
    rows = [row for row, _ in every_row(0)]
    assert len({row.key for row in rows}) == len(rows)
    assert all(row.original != row.mutated for row in rows)
    path = Path(__file__).parents[2] / "forgetwatch" / "metrics" / "intervals.py"
    tree = ast.parse(path.read_text("utf-8"))
    source = shown(tree)
    for site in sites(tree):
        undo = site.swap()
        compile(ast.fix_missing_locations(tree), "mutant", "exec")
        assert shown(tree) != source
        undo.swap()
    assert any(site.function == IMPORT_TIME for site in sites(tree))


def test_nine_of_ten_mutants_of_the_table_are_killed_and_the_rest_have_a_reason() -> None:
    rows = read_table(HERE / "mutants.csv")
    assert len(rows) == 600
    assert len({row.key for row in rows}) == 600
    left = [row for row in rows if row.result not in KILLED]
    assert len(left) <= 60
    assert [row.number for row in left if not row.reason] == []

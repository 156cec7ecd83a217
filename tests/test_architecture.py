"""The imports of the package run one way, from the bottom of the data flow to its top."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "forgetwatch"
ORDER = (
    *(
        "visible_text",
        "errors",
        "extras",
        "version",
        "files",
        "ranges",
        "progress",
        "decoding",
        "loading",
        "wording",
        "item",
        "probe",
        "snapshot",
        "cache",
        "kept_answers",
    ),
    *(
        "metrics",
        "text",
        "grading",
        "probes",
        "readers",
        "run_folder",
        "measures",
        "comparing",
        "policy",
        "report",
    ),
    *(
        "scoring",
        "endpoint",
        "retention",
        "run",
        "follow",
        "merge",
        "study",
        "theory",
        "trl",
        "axolotl",
        "demo",
        "cli",
        "__main__",
    ),
)
"""From bottom to top: a module may import its own part and those before it."""

HEAVY = {"torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers"}
MAY_BE_HEAVY = {
    "scoring",
    "retention",
    "run",
    "follow",
    "merge",
    "study",
    "trl",
    "axolotl",
    "demo",
}
METRICS_MAY_USE = {
    "numpy",
    "scipy",
    "math",
    "dataclasses",
    "typing",
    "collections",
    "forgetwatch",
    "__future__",
}

FILES = sorted(ROOT.rglob("*.py"))


DEFERRED = {
    "comparing/comparison.py": {
        "forgetwatch.comparing.decision",
        "forgetwatch.comparing.document",
        "forgetwatch.report.terminal",
    },
    "comparing/trajectory.py": {
        "forgetwatch.comparing.decision",
        "forgetwatch.comparing.document",
        "forgetwatch.report.terminal",
    },
}
"""Imports against the order, when they are needed: a comparison has its verdict and its document, and prints itself."""


def part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports(path: Path, *, at_module_level: bool = False) -> list[str]:
    """The modules that a file imports, anywhere or when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if at_module_level else list(ast.walk(tree))
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    deferred = (
        DEFERRED.get(str(path.relative_to(ROOT)), set()) if path.is_relative_to(ROOT) else set()
    )
    return [name for name in found if name not in deferred]


def test_deferred_imports_are_inside_functions_and_needed() -> None:
    for name, deferred in DEFERRED.items():
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        at_load = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        all_of = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not at_load & deferred
        assert deferred <= all_of


def test_the_order_names_every_part() -> None:
    assert {part(path) for path in FILES} - {"__init__"} == set(ORDER)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path != ROOT / "__init__.py"],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_imports_run_from_bottom_to_top(path: Path) -> None:
    own = ORDER.index(part(path))
    for name in imports(path):
        package, _, rest = name.partition(".")
        if package == "forgetwatch":
            assert rest, f"{path} imports the package's face"
            assert ORDER.index(rest.split(".")[0]) <= own, (
                f"{path.relative_to(ROOT)} imports {name}, which stands above it"
            )


def test_no_circles_within_a_part() -> None:
    names = {
        ".".join(("forgetwatch", *path.relative_to(ROOT).with_suffix("").parts)): path
        for path in FILES
    }
    uses = {
        name: {used for used in imports(path) if used in names} - {name}
        for name, path in names.items()
    }
    done: set[str] = set()
    while ready := {name for name, used in uses.items() if name not in done and used <= done}:
        done |= ready
    assert set(uses) - done == set()


def names_bound(path: Path) -> set[str]:
    """Names that a file binds at module level, but for submodules that it imports under their own name."""
    package = (
        ".".join(("forgetwatch", *path.parent.relative_to(ROOT).parts)) if path in FILES else ""
    )
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if not (isinstance(node, ast.ImportFrom) and node.module == package):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.If):  # `if TYPE_CHECKING:` names what a lazy `__getattr__` gives
            names |= {
                alias.name
                for inner in ast.walk(node)
                if isinstance(inner, ast.ImportFrom)
                for alias in inner.names
            }
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
    return names


@pytest.mark.parametrize(
    "init",
    [path for path in FILES if path.name == "__init__.py"],
    ids=lambda p: str(p.parent.relative_to(ROOT)),
)
def test_nothing_in_a_package_hides_a_module_of_the_same_name(init: Path) -> None:
    """`import forgetwatch.a.b as b` gives the attribute `b` of the package, whatever that is."""
    modules = {path.stem for path in init.parent.glob("*.py")}
    modules |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
    assert not names_bound(init) & (modules - {"__init__"})


def test_a_name_that_hides_a_module_is_found(tmp_path: Path) -> None:
    init = tmp_path / "__init__.py"
    init.write_text("from a.b import b\nimport c.d\nx = y = 1\ndef f(): pass\nclass K: pass\n")
    assert names_bound(init) == {"b", "c", "x", "y", "f", "K"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_scoring_half_loads_torch(path: Path) -> None:
    if part(path) not in MAY_BE_HEAVY:
        used = {name.split(".")[0] for name in imports(path)} & HEAVY
        assert not used
        assert not {name.split(".")[0] for name in imports(path, at_module_level=True)} & HEAVY
        assert "matplotlib" not in {
            name.split(".")[0] for name in imports(path, at_module_level=True)
        }


@pytest.mark.parametrize("path", sorted((ROOT / "metrics").glob("*.py")), ids=lambda p: p.name)
def test_metrics_are_numbers_in_and_numbers_out(path: Path) -> None:
    used = imports(path)
    assert {name.split(".")[0] for name in used} <= METRICS_MAY_USE
    assert not any(
        name.startswith("scipy")
        and name not in ("scipy", "scipy.integrate", "scipy.optimize", "scipy.special")
        for name in used
    )
    inside = [name for name in used if name.startswith("forgetwatch")]
    assert all(name.startswith("forgetwatch.metrics") for name in inside)

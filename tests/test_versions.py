"""The tested versions: one file names them all, and other versions only show what their packages announce."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import conftest
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from versions import CONSTRAINTS, UPSTREAM, constraints, differing

from forgetwatch.extras import EXTRAS, install

ROOT = Path(__file__).parent.parent
TEXT = CONSTRAINTS.read_text(encoding="utf-8")


def test_every_dependency_has_one_exact_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        Requirement(line) for line in [*project["dependencies"], *requirements(project, "dev")]
    ]
    exact = {canonicalize_name(one.name): str(one.specifier) for one in constraints(TEXT)}
    assert all(re.fullmatch(r"==[^,*]+", version) for version in exact.values())
    for requirement in needed:
        version = exact[canonicalize_name(requirement.name)].removeprefix("==")
        assert requirement.specifier.contains(version), requirement.name


def test_the_gate_preinstalls_the_torch_of_the_constraints() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (torch,) = re.findall(r"^torch==\S+$", TEXT, flags=re.MULTILINE)
    assert f'"{torch}"' in gate


def test_other_versions_are_named() -> None:
    def installed(name: str) -> str:
        if name == "trl":
            raise PackageNotFoundError(name)
        return {"torch": "2.13.0+cpu", "numpy": "2.5.0", "peft": "0.22.0.dev1"}[name]

    text = "# versions\ntorch==2.13.0\n\nnumpy==2.4.6\npeft==0.21.2\ntrl==1.16.0\nattrs==1.0 ; python_version < '3'\n"
    assert differing(text, installed) == ["numpy 2.5.0 (2.4.6)", "peft 0.22.0.dev1 (0.21.2)"]


@pytest.mark.parametrize("others", [[], ["numpy 2.5.0 (2.4.6)"]])
def test_only_with_other_versions_a_coming_change_is_no_error(
    others: list[str], monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    lines: list[tuple[str, str]] = []
    monkeypatch.setattr(conftest, "differing", lambda text: others)
    monkeypatch.setattr(
        pytestconfig, "addinivalue_line", lambda name, line: lines.append((name, line))
    )
    conftest.pytest_configure(pytestconfig)
    assert lines == [("filterwarnings", f"default::{warning}") for warning in UPSTREAM if others]
    assert bool(conftest.pytest_report_header()) == bool(others)


DISTRIBUTION = {
    "yaml": "pyyaml",
    "_typeshed": "",
    "lm_eval": "lm-eval",
    "math_verify": "math-verify",
}
"""Names of distributions that differ from the name that is imported; empty for none."""
OTHERS = {"axolotl", "pydantic", "mlflow", "trackio"}
"""Packages that call us, or that are used only where a user has them."""
ARGUMENTS = {
    "replay": ["base", "-o", "r.jsonl"],
    "score": ["m", "--probe", "quick", "-o", "s.parquet"],
    "merge": ["a", "b"],
    "follow": ["r", "--base", "b"],
}
NEEDS = {
    "run": "train",
    "follow": "train",
    "endpoint": "endpoint",
    "report/card.py": "score",
    "trl.py": "train",
    "demo.py": "train",
    "axolotl.py": "train",
    "probes/harness.py": "harness",
    "grading/expressions.py": "math",
    "probes/nearness.py": "why",
}
"""Extra that a part of the package needs, beside `score` for what reads a model."""
SCORES = ("scoring", "retention", "merge", "run", "follow", "demo.py", "axolotl.py")
ALSO = {"peft"}
"""Packages that are imported only where a user's file asks for them."""


def requirements(project: dict[str, Any], *extras: str) -> list[str]:
    """Return the lines of extras, with those of the extras that they name."""
    lines: list[str] = []
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            own = Requirement(line)
            lines += requirements(project, *own.extras) if own.name == "forgetwatch" else [line]
    return lines


def declared(*extras: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *requirements(project, *extras)]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def imported(path: Path) -> set[str]:
    """Return the distributions of the packages that a module imports, without the standard library."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    names = (
        {name.split(".")[0] for name in modules}
        - set(sys.stdlib_module_names)
        - {"forgetwatch"}
        - OTHERS
    )
    return {canonicalize_name(found) for name in names if (found := DISTRIBUTION.get(name, name))}


def test_every_imported_package_is_declared_by_the_installation_that_needs_it() -> None:
    package = ROOT / "forgetwatch"
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        extras = [extra for part, extra in NEEDS.items() if name.startswith(part)]
        known = declared(*extras, *(["score"] if name.startswith(SCORES) else []))
        assert imported(path) - ALSO <= known, name


def test_a_missing_package_is_looked_for_in_the_extra_that_brings_it() -> None:
    for package, extra in EXTRAS.items():
        assert canonicalize_name(DISTRIBUTION.get(package, package)) in declared(extra), package
        assert install(f"{package}.part") == f"pip install 'forgetwatch[{extra}]'"
    assert set(EXTRAS.values()) | {"all", "dev"} == set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
    )
    assert declared("all") == declared(*set(EXTRAS.values()))


@pytest.mark.full("ForgetWatch", "Guard", reason="further packages that are missing")
@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("score", "torch", "score"),
        ("Watch", "torch", "train"),
        ("ForgetWatchCallback", "transformers", "train"),
        ("Guard", "accelerate", "train"),
    ],
)
def test_a_name_says_which_extra_it_needs(name: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from forgetwatch import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: forgetwatch.{name} needs the package {package}, which is not installed: "
        f"pip install 'forgetwatch[{extra}]'"
    )


@pytest.mark.full("follow", "merge", "score", reason="further packages that are missing")
@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("score", "torch", "score"),
        ("merge", "torch", "score"),
        ("replay", "torch", "score"),
        ("follow", "torch", "train"),
    ],
)
def test_a_command_says_which_extra_it_needs(command: str, package: str, extra: str) -> None:
    argv = ["forgetwatch", command, *ARGUMENTS[command]]
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = {argv!r}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; from forgetwatch.cli import main; main()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"forgetwatch: this command needs the package {package}, which is not installed: "
        f"pip install 'forgetwatch[{extra}]'"
    )


def test_an_old_transformers_is_refused_in_one_sentence() -> None:
    code = "import transformers; transformers.__version__ = '4.55.4'; import forgetwatch; forgetwatch.score"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "forgetwatch.errors.ScoringError: needed transformers 4.56.2 or newer, found 4.55.4; "
        "pip install -U transformers"
    )


def test_the_package_ships_its_types() -> None:
    assert (ROOT / "forgetwatch" / "py.typed").is_file()


def test_no_group_has_a_possessive_repeat() -> None:
    """Python 3.11.0 to 3.11.4 match such repeats wrongly (CPython issue 106052); atomic groups are right in all."""
    repeated = re.compile(r"\)(?:[*+?]|\{\{?\d*,?\d*\}\}?)\+")
    assert repeated.search(r"(?:a|b)*+")
    assert repeated.search("(?:a|b){1,30}+")
    for path in (ROOT / "forgetwatch").rglob("*.py"):
        texts = (
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant)
        )
        for text in texts:
            pattern = text.decode("latin-1") if isinstance(text, bytes) else text
            assert not (isinstance(pattern, str) and repeated.search(pattern)), path

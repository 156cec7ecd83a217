"""The tested versions: one file names them all, and other versions only show what their packages announce."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import conftest
import pytest
from packaging.requirements import Requirement
from versions import CONSTRAINTS, UPSTREAM, constraints, differing

ROOT = Path(__file__).parent.parent
TEXT = CONSTRAINTS.read_text(encoding="utf-8")


def test_every_dependency_has_one_exact_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [Requirement(line) for line in [*project["dependencies"], *extras["train"], *extras["dev"]]]
    exact = {one.name.lower(): str(one.specifier) for one in constraints(TEXT)}
    assert all(re.fullmatch(r"==[^,*]+", version) for version in exact.values())
    for requirement in needed:
        version = exact[requirement.name.lower()].removeprefix("==")
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
    monkeypatch.setattr(pytestconfig, "addinivalue_line", lambda name, line: lines.append((name, line)))
    conftest.pytest_configure(pytestconfig)
    assert lines == [("filterwarnings", f"default::{warning}") for warning in UPSTREAM if others]
    assert bool(conftest.pytest_report_header()) == bool(others)

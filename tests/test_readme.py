"""Claims of the README, held to the code.

`python -m forgetwatch.theory` prints the laboratory's table.
"""

import ast
import importlib
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import forgetwatch
from forgetwatch import retention
from forgetwatch.cli import app
from forgetwatch.measures.quantities import QUANTITIES
from forgetwatch.policy.policy import parse_policy
from forgetwatch.probe import read_probe
from forgetwatch.study.plan import read_plan

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
)
BLOCKS = [
    block
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    if path.name != "trainers.md"  # settings of those trainers, not of forgetwatch
    for block in re.findall(
        r"```(\w+)\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL
    )
]
NAMING = [
    *PAGES,
    *(
        path
        for part in ("forgetwatch", "benchmarks", "tools")
        for path in sorted((ROOT / part).rglob("*.py"))
    ),
]
"""Files that name pages and scripts of the repository by their path."""
SETUP = [line for line in README.splitlines() if "-m venv" in line]


def test_the_readme_fits_a_few_screens_and_shows_the_callback_on_the_first() -> None:
    lines = README.splitlines()
    assert len(lines) <= 200
    assert len(README.split()) <= 800
    assert any("callbacks=[ForgetWatchCallback()]" in line for line in lines[:15])


def test_two_commands_set_everything_up_in_the_tested_versions() -> None:
    demo, tests = SETUP
    assert demo.endswith("forgetwatch demo")
    assert tests.endswith("pytest")
    for command in SETUP:
        assert "pip install -c constraints.txt " in command


def test_contributing_repeats_the_command_of_the_readme() -> None:
    assert SETUP[-1] in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_gate_installs_what_the_readme_installs_and_runs_its_tests() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'pip" install -q -c constraints.txt -e ".[train,dev]"' in gate
    assert '"$environment/bin/pytest"' in gate


@pytest.mark.parametrize("code", [block for kind, block in BLOCKS if kind == "python"])
def test_python_blocks_use_public_names(code: str) -> None:
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    assert nodes
    for node in nodes:
        if (node.module or "").partition(".")[0] == "forgetwatch":
            module = importlib.import_module(str(node.module))
            assert module in (forgetwatch, retention)
            assert {alias.name for alias in node.names} <= set(module.__all__)


def test_commands_and_options_exist() -> None:
    lines = [
        line
        for kind, block in BLOCKS
        if kind == "bash"
        for line in block.splitlines()
        if line.startswith("forgetwatch")
    ]
    assert lines
    for line in lines:
        words = line.split()
        name = words[1:3] if words[1] == "probe" else words[1:2]
        helped = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "200"}).stdout
        for option in re.findall(r"--[a-z-]+", line):
            assert option in helped


def test_the_probe_example_is_a_probe(tmp_path: Path) -> None:
    (example,) = [block for kind, block in BLOCKS if kind == "json"]
    (tmp_path / "p.jsonl").write_text(re.sub(r"\n +", " ", example))
    probe = read_probe(tmp_path / "p.jsonl")
    assert (probe.name, probe[0].choices) == ("mine", (" Santiago", " Lima"))


def test_the_study_example_is_a_study(tmp_path: Path) -> None:
    (example,) = [block for kind, block in BLOCKS if kind == "yaml" and "stages:" in block]
    (tmp_path / "study.yaml").write_text(example)
    (tmp_path / "rows.jsonl").write_text("")
    (pair,) = read_plan(tmp_path / "study.yaml").pairs
    assert (pair.size, pair.data, pair.family, pair.kind) == (8e9, 1e6, "llama", "from-base")
    assert pair.covariates == {"method": "SFT", "domains": 3.0, "weight_distance": "measured"}


def test_the_policy_example_is_a_policy() -> None:
    (example,) = [
        block
        for kind, block in BLOCKS
        if kind == "yaml" and "critical:" in block and "policy:" in block
    ]
    policy = parse_policy(example, "policy.yaml")
    assert (policy.name, len(policy.rules), policy.on_fail) == ("release", 9, "stop")


def test_the_map_names_every_package_by_its_path() -> None:
    (tree,) = [
        block for kind, block in BLOCKS if kind == "text" and block.startswith("forgetwatch/")
    ]
    named = re.findall(r"^  ([\w/]+)/ ", tree, flags=re.MULTILINE)
    package = ROOT / "forgetwatch"
    there = {
        path.parent.relative_to(package).as_posix() for path in package.rglob("__init__.py")
    } - {"."}
    assert len(named) == len(set(named))
    assert set(named) == there


def test_the_map_names_every_module_of_the_root() -> None:
    (tree,) = [
        block for kind, block in BLOCKS if kind == "text" and block.startswith("forgetwatch/")
    ]
    lines = re.findall(r"^  ((?:\w+ )*\w+)  ", tree, flags=re.MULTILINE)
    there = {path.stem for path in (ROOT / "forgetwatch").glob("*.py")} - {"__init__", "__main__"}
    assert sorted(name for line in lines for name in line.split()) == sorted(there)


def test_links_and_pictures_of_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), (
                f"{page.relative_to(ROOT)}: {link}"
            )


def test_code_of_the_pages_fits_the_column_of_the_site() -> None:
    """The site cuts a longer line at the right edge."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"```.*?```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for line in "\n".join(blocks).splitlines():
            assert len(line) <= 84, (path, line)


def test_every_page_is_linked_from_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    linked = {docs / link for link in re.findall(r"\]\(([\w/-]+\.md)\)", index)}
    assert linked == {path for path in PAGES if docs in path.parents} - {docs / "index.md"}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    docs = ROOT / "docs"
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    listed = set(re.findall(r"'([\w/-]+\.md)'", str(site["nav"])))
    made = {f"reference/{name}.md" for name in ("api", "commands", "quantities")} | {
        "gallery/index.md",
        "gallery/model-card.md",
    }
    assert listed - made == {
        path.relative_to(docs).as_posix() for path in PAGES if docs in path.parents
    }


def test_files_of_the_repository_that_a_text_names_exist() -> None:
    for path in NAMING:
        for named in re.findall(
            r"\b(?:docs|examples|benchmarks|tools|tests)/[\w/-]+\.(?:md|py)\b",
            path.read_text("utf-8"),
        ):
            assert (ROOT / named).is_file(), f"{path.relative_to(ROOT)}: {named}"


def test_every_quantity_has_a_line_on_the_statistics_page() -> None:
    page = (ROOT / "docs" / "reference" / "statistics.md").read_text(encoding="utf-8")
    for name in QUANTITIES:
        # Ends of intervals, standard errors and unclipped values are described once for all.
        of = re.sub(r"(_se|_unclipped|_interval(_worst)?_(low|high))$", "", name.split(".")[-1])
        assert f"{of}`" in page, name


def test_the_statistics_page_is_whole() -> None:
    page = (ROOT / "docs" / "reference" / "statistics.md").read_text(encoding="utf-8")
    lines = page.splitlines()
    headers = [lines[number - 1] for number, line in enumerate(lines) if line.startswith("|---")]
    assert len(headers) == len(set(headers)) >= 5
    assert all("|" not in link and " " not in link for link in re.findall(r"\]\(([^)]*)\)", page))


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("forgetwatch.theory", run_name="__main__")
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(
        "old mass at t = 400, from 0.9; drift: how far the old mode moved at most"
    )
    assert (
        "TTT-Discover, broken  mass           0.946        0.915        0.848        0.277        0.004"
        in told
    )
    assert max(map(len, told[:-1])) <= 100

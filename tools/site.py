"""Build the documentation site: docs/, pages made from the code, and a gallery of live pages.

    pip install -r tools/site_requirements.txt
    python tools/site.py [--demo DIR]        the site is in build/site; DIR is the output of `forgetwatch demo`

Without ``--demo`` the demo runs first, for about half a minute. A broken link ends the build.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import forgetwatch
from forgetwatch import Trajectory
from forgetwatch.cli import COMMANDS
from forgetwatch.measures.quantities import MEASURES, QUANTITIES, range_of, unit_of
from forgetwatch.report.card import card_section
from forgetwatch.report.tracker_rows import PREFIX, tracker_key

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"][
    "Homepage"
]
PUBLIC = {
    "ForgetWatchCallback": ("watch", "attach"),
    "Guard": (),
    "Watch": ("look", "resume", "trajectory", "close"),
    "Snapshot": ("from_columns", "take", "table", "meta"),
}
"""Members of classes whose other members are for the package itself."""
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#]+)((?:#[^)]*)?\))")


GALLERY = """# Gallery

**[The page of the demo](demo.html)**: a small model that forgets its history. A training writes this page to
`output_dir/_forgetwatch/report.html`.

[![The page of the demo](../how-to/report.png)](demo.html)

**[Its section of a model card](model-card.md)**, which `forgetwatch report run/ --model-card` writes.

**[The page of a study](study.html)**: three checkpoints of the demo against its base, made by
`forgetwatch study configs/demo_study.yaml -o runs/study`.

**Its curves**, which `forgetwatch demo` draws:

![Accuracy, and what it hides](demo.png)
"""


def stage() -> None:
    """Copy docs/, with links out of it to the repository."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in PAGES.rglob("*.md"):
        original = ROOT / "docs" / page.relative_to(PAGES)

        def absolute(found: re.Match[str], folder: Path = original.parent) -> str:
            path = Path(os.path.normpath(folder / found[2]))
            if path.is_relative_to(ROOT / "docs"):
                return found[0]
            kind = "tree" if path.is_dir() else "blob"
            return f"{found[1]}{HOME}/{kind}/main/{path.relative_to(ROOT).as_posix()}{found[3]}"

        page.write_text(LINK.sub(absolute, page.read_text(encoding="utf-8")), encoding="utf-8")


def api() -> str:
    """Return the page of the public names."""
    lines = ["# Python\n", "Import these names from `forgetwatch`.\n"]
    for name in forgetwatch.__all__:
        members = PUBLIC.get(name)
        options = (
            "" if members is None else f"\n    options:\n      members: [{', '.join(members)}]"
        )
        lines.append(f"::: forgetwatch.{name}{options}\n")
    lines.append(
        "## Errors\n\n::: forgetwatch.errors\n    options:\n      show_root_heading: false\n"
    )
    return "\n".join(lines)


def commands() -> str:
    """Return the page of all commands, from their own help."""

    def helped(*words: str) -> str:
        command = [str(Path(sys.executable).parent / "forgetwatch"), *words, "--help"]
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return f"## forgetwatch {' '.join(words)}\n\n```text\n{done.stdout.strip()}\n```\n"

    pages = [helped(name) for name in ("demo", *COMMANDS)]
    pages += [helped("probe", name) for name in ("list", "show", "build", "check")]
    pages += [helped("cache", name) for name in ("list", "clear")]
    return "# Commands\n\n" + "\n".join(pages)


def quantities() -> str:
    """Return the page of the numbers of a group: names in JSON and gates, keys of trackers, units and ranges."""
    always = {
        one.name
        for measure in MEASURES
        for one in measure.quantities
        if getattr(one, "tracked", "") == "category"
    }
    always |= {
        one.name
        for measure in MEASURES
        for one in measure.quantities
        if getattr(one, "tracked", "") == "all"
    }
    rows = []
    for name in QUANTITIES:
        low, high = (f"{end:g}" if abs(end) != float("inf") else "" for end in range_of(name))
        key = f"`{tracker_key(name)}`" + ("" if name in always else " (full)")
        values = f"{low} to {high}" if low and high else f"{low} or more" if low else "any"
        rows.append(f"| `{name}` | {unit_of(name)} | {values} | {key} |")
    head = f"""# Numbers of a group

A group is all questions, a category or a task. `comparison.all["known_lost"]`, `--json`, CSV and gates use these names.
Trackers have the key after `{PREFIX}/GROUP/`; keys marked *full* need `log="full"`. An undefined number is null, never
0. [Statistics](statistics.md) says what each means.

| name | unit | range | key of trackers |
| --- | --- | --- | --- |
"""
    return head + "\n".join(rows) + "\n"


def study(demo: Path) -> Path:
    """Return the page of the demo's study."""
    folder = ROOT / "build" / "study"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = (ROOT / "configs" / "demo_study.yaml").read_text(encoding="utf-8")
    (folder / "study.yaml").write_text(
        plan.replace("../forgetwatch-demo", str(demo.resolve())), encoding="utf-8"
    )
    made = folder / "made"
    command = [
        sys.executable,
        "-m",
        "forgetwatch",
        "study",
        str(folder / "study.yaml"),
        "--output",
        str(made),
    ]
    subprocess.run(command, check=True)
    return made / "study.html"


def gallery(demo: Path) -> None:
    """Copy the pages and the picture of the demo."""
    folder = PAGES / "gallery"
    folder.mkdir()
    shutil.copy(study(demo), folder / "study.html")
    shutil.copy(demo / "run" / "_forgetwatch" / "report.html", folder / "demo.html")
    shutil.copy(demo / "forgetting.png", folder / "demo.png")
    (folder / "index.md").write_text(GALLERY, encoding="utf-8")
    section = card_section(Trajectory.from_run(demo / "run"), demo / "run")
    (folder / "model-card.md").write_text(f"# A model card\n\n{section}\n", encoding="utf-8")


def main() -> None:
    """Stage the pages, and build the site."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path)
    demo = parser.parse_args().demo
    if demo is None:
        demo = ROOT / "build" / "forgetwatch-demo"
        shutil.rmtree(demo, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "forgetwatch", "demo", "--output", str(demo)], check=True
        )
    stage()
    for name, made in (("api", api()), ("commands", commands()), ("quantities", quantities())):
        (PAGES / "reference" / f"{name}.md").write_text(made, encoding="utf-8")
    gallery(demo)
    shutil.rmtree(SITE, ignore_errors=True)
    builder = Path(sys.executable).parent / "zensical"
    subprocess.run(
        [str(builder), "build", "--strict", "--clean", "-f", str(ROOT / "zensical.toml")],
        check=True,
        cwd=ROOT,
    )


if __name__ == "__main__":
    main()

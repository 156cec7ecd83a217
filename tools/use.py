"""Use an installed forgetwatch as its users do, and add a line with what came out to a file.

    python tools/use.py NAME RESULTS.jsonl [train]

Without an extra: compare two tables, and write the page. With ``train``: also the demo, and the callback for ten steps.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

NAMED = ("torch", "transformers", "trl", "accelerate", "numpy", "scipy", "pyarrow")
COMMAND = str(Path(sys.executable).parent / "forgetwatch")


def run(folder: Path, *command: str) -> str:
    """Run a command in a folder, and return what it prints; an error ends the program with its message."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def compare_files(folder: Path) -> str:
    """Compare two tables of four outcomes, and return the counts."""
    for name, outcomes in (("before", "1101"), ("after", "1010")):
        rows = [f"{item},{outcome}\n" for item, outcome in enumerate(outcomes)]
        (folder / f"{name}.csv").write_text("item_id,correct\n" + "".join(rows))
    printed = run(
        folder, COMMAND, "compare", "before.csv", "after.csv", "--json", "-", "-o", "report.html"
    )
    (group,) = [group for group in json.loads(printed)["groups"] if group["level"] == "all"]
    if (group["forgotten"], group["gained"]) != (2, 1):
        sys.exit(
            f"compare: needed 2 forgotten and 1 gained, got {group['forgotten']} and {group['gained']}"
        )
    if "</html>" not in (folder / "report.html").read_text(encoding="utf-8"):
        sys.exit("compare: the page is not whole")
    return "2 forgotten, 1 gained"


def train(folder: Path) -> dict[str, str]:
    """Run the demo, and the callback for ten steps on its model."""
    printed = run(folder, COMMAND, "demo")
    counts = re.search(r"(\d+) of 360 forgotten, (\d+) gained", printed)
    if counts is None:
        sys.exit(f"demo: needed a table with counts, got\n{printed[-2000:]}")
    (folder / "sft.py").write_text(
        Path(__file__).parents[1].joinpath("examples", "sft.py").read_text()
    )
    run(folder, sys.executable, "sft.py", "--steps", "10")
    looks = list((folder / "runs" / "sft" / "_forgetwatch").glob("step-*.parquet"))
    if not looks:
        sys.exit("the callback wrote no look")
    return {"demo": f"{counts[1]} forgotten, {counts[2]} gained", "callback": f"{len(looks)} looks"}


def main() -> None:
    """Use the installation, and add the line."""
    name, results, *given = sys.argv[1:]
    start = time.monotonic()
    versions = {}
    for package in NAMED:
        try:
            versions[package] = version(package).split("+")[0]
        except PackageNotFoundError:
            continue
    line: dict[str, object] = {"python": platform.python_version(), "versions": name, **versions}
    with TemporaryDirectory() as made:
        folder = Path(made)
        run(folder, COMMAND, "--version")
        line["compare"] = compare_files(folder)
        if given:
            line |= train(folder)
    line["seconds"] = round(time.monotonic() - start)
    path = Path(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    sys.stdout.write(f"{json.dumps(line)}\n")


if __name__ == "__main__":
    main()

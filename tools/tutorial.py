"""Write what the pages show of the demo anew, all from one run: tables of README and index, tutorial, both pictures.

    python tools/tutorial.py

A comment before a block of text names the lines of the output of the command above it: ``<!-- output: 1-6 -->``. The
picture of the page needs Chromium; without it that picture stays.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import curves

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial" / "first-run.md"
RELEASE = PAGE.with_name("release.md")
TABLE = re.compile(r"(?<=```text\n)FORGOT     run, step (?:(?!report: )[^`])+")
"""The first table of the demo, in a block of README and of the tutorial."""
SHOWN = re.compile(
    r"```bash\n([^`]+)```(?:(?!```).)*?<!-- output: (\d+)-(\d+) -->\n```text\n(.*?)```", re.DOTALL
)
"""Commands of a block, the lines of their output that follow, and these lines."""


def rewritten(page: str, run: Callable[[str], str]) -> str:
    """Return the page with outputs as `run` gives them for the commands of a block."""

    def replaced(found: re.Match[str]) -> str:
        lines = run(found[1]).splitlines()[int(found[2]) - 1 : int(found[3])]
        start, end = (index - found.start() for index in found.span(4))
        return found[0][:start] + "".join(f"{line}\n" for line in lines) + found[0][end:]

    return SHOWN.sub(replaced, page)


def main() -> None:
    """Run the commands in a new folder, and write pages and pictures."""
    with TemporaryDirectory() as folder:

        def run(commands: str) -> str:
            done = subprocess.run(
                commands, shell=True, cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, 3):  # 3: a gate that failed
                raise SystemExit(f"{commands}: exit status {done.returncode}\n{done.stderr}")
            return done.stdout

        for path in (PAGE, RELEASE):
            page = rewritten(path.read_text(encoding="utf-8"), run)
            path.write_text(page, encoding="utf-8")
        (table, *_) = TABLE.findall(PAGE.read_text(encoding="utf-8"))
        for shown in (ROOT / "README.md", ROOT / "docs" / "index.md"):
            shown.write_text(
                TABLE.sub(lambda _: table, shown.read_text(encoding="utf-8")), encoding="utf-8"
            )
        demo = Path(folder, "forgetwatch-demo")
        shutil.copy(demo / "forgetting.png", PAGE.with_name("demo.png"))
        look = demo / "run" / "_forgetwatch"
        sides = f"{look}/baseline.parquet {look}/step-000180.parquet"
        run(f"forgetwatch compare {sides} --plots figures")
        (picture,) = Path(folder, "figures").glob("categories-*.png")
        shutil.copy(picture, PAGE.with_name("categories.png"))
        run("WANDB_MODE=offline forgetwatch demo --report-to wandb --output tracked")
        curves.main(Path(folder, "tracked"), ROOT / "docs" / "how-to" / "wandb.png")
        if (browser := shutil.which("chromium")) is not None:
            shot = f"--screenshot={ROOT / 'docs' / 'how-to' / 'report.png'}"
            given = [
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--window-size=1280,690",
                shot,
            ]
            subprocess.run(
                [browser, *given, (demo / "run/_forgetwatch/report.html").as_uri()], check=True
            )


if __name__ == "__main__":
    main()

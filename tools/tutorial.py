"""Write the outputs of docs/tutorial/first-run.md anew: run its commands, and put what they print into the page.

    python tools/tutorial.py

A comment before a block of text names the lines of the output of the command above it: ``<!-- output: 1-6 -->``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).parent.parent / "docs" / "tutorial" / "first-run.md"
SHOWN = re.compile(r"```bash\n([^`]+)```(?:(?!```).)*?<!-- output: (\d+)-(\d+) -->\n```text\n(.*?)```", re.DOTALL)
"""Commands of a block, the lines of their output that follow, and these lines."""


def rewritten(page: str, run: Callable[[str], str]) -> str:
    """Return the page with outputs as `run` gives them for the commands of a block."""

    def replaced(found: re.Match[str]) -> str:
        lines = run(found[1]).splitlines()[int(found[2]) - 1 : int(found[3])]
        start, end = (index - found.start() for index in found.span(4))
        return found[0][:start] + "".join(f"{line}\n" for line in lines) + found[0][end:]

    return SHOWN.sub(replaced, page)


def main() -> None:
    """Run the commands in a new folder, and write the page."""
    with TemporaryDirectory() as folder:

        def run(commands: str) -> str:
            done = subprocess.run(commands, shell=True, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 3):  # 3: a gate that failed
                raise SystemExit(f"{commands}: exit status {done.returncode}\n{done.stderr}")
            return done.stdout

        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), run), encoding="utf-8")


if __name__ == "__main__":
    main()

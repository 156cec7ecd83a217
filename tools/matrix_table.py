"""Write the table of docs/reference/versions.md from the results of `.ci/matrix`; the last line of a cell counts.

python tools/matrix_table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "versions.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
COLUMNS = {
    "Python": "python",
    "versions": "versions",
    "torch": "torch",
    "transformers": "transformers",
    "TRL": "trl",
    "numpy": "numpy",
    "compare": "compare",
    "demo": "demo",
    "callback": "callback",
}


def table(lines: list[dict[str, str]]) -> str:
    """Return the rows, by Python, with one row for each set of versions and of extras."""
    last = {(line["python"], line["versions"], "torch" in line): line for line in lines}

    def order(key: tuple[str, str, bool]) -> tuple[list[int], bool, str]:
        return [int(part) for part in re.findall(r"\d+", key[0])], key[2], key[1]

    rows = [
        [last[key].get(name, "") for name in COLUMNS.values()] for key in sorted(last, key=order)
    ]
    head = [list(COLUMNS), ["---"] * len(COLUMNS)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*head, *rows])


def main() -> None:
    """Replace the table of the page."""
    results = (ROOT / "build" / "matrix.jsonl").read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    written = table([json.loads(line) for line in results.splitlines()])
    PAGE.write_text(f"{before}{BEGIN}\n{written}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

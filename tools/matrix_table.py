"""Write the table of docs/reference/versions.md from the results of `.ci/matrix`; the last line of a cell counts.

python tools/matrix_table.py
"""

from __future__ import annotations

import json
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
    rows = [
        [line.get(key, "") for key in COLUMNS.values()]
        for _, line in sorted(
            last.items(), key=lambda found: ([int(part) for part in found[0][0].split(".")], found[0][2], found[0][1])
        )
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

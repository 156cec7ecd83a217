"""A new measure is one module and one entry: a toy in a copy of the package appears in every output."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forgetwatch

_TOY = '''
"""Share of the questions whose answer stayed as it was."""

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows


def _of(rows: Rows) -> float | None:
    return float((rows.pairs.before == rows.pairs.after).mean()) if len(rows.pairs) else None


STEADY = GroupMeasure[float](
    key="steady",
    of=_of,
    title="Steadiness",
    about="Share of the questions whose answer stayed as it was.",
    sentence=lambda r: f"{100 * r:.0f} % of the questions kept their outcome.",
    quantities=(
        Quantity("steady_share", lambda r: r, "share", heading="steady", text=lambda r: f"{r:.2f}", tracked="all"),
    ),
)
'''

_LOOK = """
import io, json
from rich.console import Console
import forgetwatch
from forgetwatch.policy.policy import Condition
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.html import page
from forgetwatch.report.terminal import first_lines
from forgetwatch.report.tracker_rows import tracker_row
from support import snapshot

assert forgetwatch.__file__.startswith(PLACE), forgetwatch.__file__
labels = {"category": ["Math", "Law"] * 4}
found = forgetwatch.compare(before=snapshot([True] * 8, **labels), after=snapshot([True] * 6 + [False] * 2, **labels))

def shown(lines):
    out = io.StringIO()
    Console(file=out, width=80, highlight=False).print(lines)
    return out.getvalue()

header, whole, *_ = [line.split(",") for line in comparisons_csv([found]).splitlines()]
condition = Condition.parse("category:Law.steady_share<80%")
print(json.dumps({
    "json": [group["steady_share"] for group in found.to_dict()["groups"]],
    "csv": whole[header.index("steady_share")],
    "gate": [condition.measure(found), condition.is_met_by(condition.measure(found))],
    "tracker": tracker_row(found, seconds=1.0)["eval_forget/all/steady_share"],
    "tracker_full": tracker_row(found, seconds=1.0, full=True)["eval_forget/law/steady_share"],
    "table": shown(first_lines(first_table(found))),
    "markdown": comparison_markdown(found),
    "page": page(found),
}))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("toy")
    package = folder / "forgetwatch"
    shutil.copytree(
        Path(forgetwatch.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "measures" / "steady.py").write_text(_TOY)
    order = package / "measures" / "quantities.py"
    text = order.read_text()
    before, opening, after = text.partition(
        "\nMEASURES: Final[tuple[GroupMeasure[Any], ...]] = (\n"
    )
    assert opening
    measures, end, rest = after.partition("\n)\n")
    added = f"{measures}\n    STEADY,{end}{rest}"
    order.write_text(f"{before}\nfrom forgetwatch.measures.steady import STEADY{opening}{added}")
    (folder / "look.py").write_text(f"PLACE = {str(folder)!r}\n{_LOOK}")
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "look.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, object] = json.loads(done.stdout)
    return made


def test_its_number_is_in_documents_tables_gates_and_trackers(shown: dict[str, object]) -> None:
    assert shown["json"] == [0.75, 0.75, 0.75, 0.75]
    assert shown["csv"] == "0.75"
    assert shown["gate"] == [0.75, True]
    assert shown["tracker"] == shown["tracker_full"] == 0.75


@pytest.mark.parametrize("where", ["markdown", "page"])
def test_its_sentence_and_its_table_are_on_each_page(shown: dict[str, object], where: str) -> None:
    page = str(shown[where])
    assert "75 % of the questions kept their outcome." in page
    assert (
        "<td>0.75</td>" in page
        or "| Math | 0.75 |" in page
        or 'data-name="steady_share">0.75<' in page
    )
    assert "steady" in page

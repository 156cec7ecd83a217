"""Reports as files."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from pages import choices, hostile, run

from forgetwatch.cli.options import check_report
from forgetwatch.cli.output import write_report
from forgetwatch.comparing import TOLERANCE, Tolerance, decide
from forgetwatch.errors import SnapshotError


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.html", "<!doctype html>"),
        ("r.md", "**FORGOT** 31 % of what it clearly knew is gone"),
        ("r.csv", "before,after,"),
        ("r.json", "{"),
    ],
)
def test_the_suffix_decides_the_format(tmp_path: Path, name: str, start: str) -> None:
    of = choices()
    write_report(tmp_path / name, [of.comparison], of.changed, tolerance=TOLERANCE)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no part of it is left behind


@pytest.mark.parametrize("name", ["report", "report.txt", "report.HTML.gz"])
def test_another_suffix_is_refused_before_the_work(name: str) -> None:
    with pytest.raises(SnapshotError, match=r"a report ends in \.html, \.md, \.csv or \.json"):
        check_report(Path(name))


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no-such-folder"):
        check_report(tmp_path / "no-such-folder" / "r.html")
    check_report(tmp_path / "r.html")
    check_report(None)


def test_several_comparisons_are_in_one_document(tmp_path: Path) -> None:
    one, other = choices(60), choices(90)
    both = [one.comparison, other.comparison]
    for name in ("r.md", "r.csv", "r.json"):
        write_report(tmp_path / name, both, other.changed, tolerance=TOLERANCE)
    assert len(re.findall(r"^\*\*(?:FORGOT|KEPT|NOT CLEAR)\*\*", (tmp_path / "r.md").read_text(), re.MULTILINE)) == 2
    assert [
        row["n"] for row in csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())) if row["level"] == "all"
    ] == ["57", "85"]
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["schema"] == "forgetwatch/comparisons@1"
    assert len(document["comparisons"]) == 2


def test_a_report_of_a_run_is_a_trajectory_document(tmp_path: Path) -> None:
    trajectory, _ = run(60)
    write_report(tmp_path / "r.json", [trajectory.comparisons[-1]], (), tolerance=TOLERANCE, trajectory=trajectory)
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "forgetwatch/trajectory@1"


@pytest.mark.parametrize("kind", ["html", "md", "csv", "json"])
def test_any_text_can_be_written_as_utf_8(tmp_path: Path, kind: str) -> None:
    of = hostile()
    path = tmp_path / f"r.{kind}"
    write_report(path, [of.comparison], of.changed, tolerance=TOLERANCE, title="\ud800")
    path.read_text(encoding="utf-8")
    if kind == "json":
        json.loads(path.read_text(encoding="utf-8"))


def test_the_tolerance_is_that_of_the_verdict(tmp_path: Path) -> None:
    of = choices(240)
    words = []
    for tolerance in (Tolerance(accuracy=0.5, known=0.99, category=0.9), Tolerance(accuracy=0.0)):
        write_report(tmp_path / "r.md", [of.comparison], of.changed, tolerance=tolerance)
        words.append(decide(of.comparison, tolerance).word)
        assert f"**{words[-1]}** " in (tmp_path / "r.md").read_text()
    assert words[0] == "KEPT" != words[1]


def test_a_report_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = choices(60)
    path = tmp_path / "r.html"
    path.write_text("old")

    def broken(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space"):
        write_report(path, [of.comparison], of.changed, tolerance=TOLERANCE)
    assert path.read_text() == "old"

"""Files that commands write: JSON documents, reports in four formats, pictures. Paths are checked before the work.

The suffix of a report decides its format: .html, .md, .csv or .json. The path ``-`` is standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from forgetwatch.cli.output import echo
from forgetwatch.comparing import Comparison, Flip, ModelComparison, Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.files import write_text
from forgetwatch.report import (
    SUFFIXES,
    comparison_markdown,
    comparisons_csv,
    comparisons_json,
    page,
    several_markdown,
    trajectory_json,
)

STDOUT: Final = Path("-")
_FORMATS: Final = (".html", ".md", ".csv", ".json")


def check_file(path: Path | None) -> None:
    """Raise if a file could not be written because its folder is missing; standard output and None are fine.

    Raises:
        SnapshotError: If the path is a folder, or its folder does not exist.
    """
    if path is None or path == STDOUT:
        return
    if path.is_dir():
        raise SnapshotError(f"{path}: needed a file to write to, and this is a folder")
    if not path.absolute().parent.is_dir():
        raise SnapshotError(f"{path}: needed a folder that exists, and {path.parent} does not; make it first")


def check_report(path: Path | None) -> None:
    """Raise if a report could not be written.

    Raises:
        SnapshotError: If its suffix is not that of a format, or its folder does not exist.
    """
    if path is None:
        return
    if path.suffix not in _FORMATS:
        raise SnapshotError(f"{path}: a report is {', '.join(_FORMATS)}; its name decides which")
    check_file(path)


def check_pictures(folder: Path | None) -> None:
    """Raise if a folder of pictures could not be made.

    Raises:
        SnapshotError: If it is a file, or lies below one.
    """
    if folder is None:
        return
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not above.is_dir():
        raise SnapshotError(f"{folder}: needed a folder for the pictures, and {above} is a file")


def check_snapshot(path: Path) -> None:
    """Raise if a snapshot could not be written.

    Raises:
        SnapshotError: If the path does not end in .parquet, or its folder does not exist.
    """
    if path.suffix != ".parquet":
        raise SnapshotError(f"{path}: a snapshot is a Parquet file; give it a name that ends in .parquet")
    check_file(path)


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a JSON document to a file or to standard output."""
    text = _json(document)
    if path == STDOUT:
        sys.stdout.write(text)
    else:
        write_text(path, text)


def print_pictures(paths: Sequence[Path], *, err: bool) -> None:
    """Print how many pictures were drawn and where, to standard error if `err`."""
    if paths:
        echo(f"pictures: {len(paths) // len(SUFFIXES)} in {paths[0].parent}, as PNG and SVG", err=err)
    else:
        echo("pictures: none; they need two looks, or two categories", err=err)


def write_report(
    path: Path,
    comparisons: Sequence[Comparison],
    changed: Sequence[Flip],
    *,
    tolerance: float,
    trajectory: Trajectory | None = None,
    several: ModelComparison | None = None,
    title: str = "",
) -> None:
    """Write a report in the format of its suffix.

    Args:
        path: File to write; an old one stays as it is if the report fails.
        comparisons: Comparisons to show; a page shows the last in full.
        changed: Items whose answer changed in the last.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
        trajectory: The run, if the report is of one.
        several: Ranking and matrix, if the report is of several models.
        title: Line below the heading of a page.
    """
    last = comparisons[-1]
    if path.suffix == ".html":
        text = page(last, changed=changed, trajectory=trajectory, several=several, tolerance=tolerance, title=title)
    elif path.suffix == ".md":
        text = _markdown(comparisons, changed, tolerance=tolerance, trajectory=trajectory, several=several)
    elif path.suffix == ".csv":
        text = comparisons_csv(comparisons)
    else:
        document = trajectory_json(trajectory, tolerance=tolerance) if trajectory else None
        text = _json(document or comparisons_json(comparisons, several, tolerance=tolerance))
    write_text(path, text)


def _markdown(
    comparisons: Sequence[Comparison],
    changed: Sequence[Flip],
    *,
    tolerance: float,
    trajectory: Trajectory | None,
    several: ModelComparison | None,
) -> str:
    parts = [] if several is None else [several_markdown(several)]
    parts += [comparison_markdown(one, tolerance=tolerance) for one in comparisons[:-1]]
    last = comparison_markdown(comparisons[-1], changed=changed, trajectory=trajectory, tolerance=tolerance)
    return "\n".join([*parts, last])


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

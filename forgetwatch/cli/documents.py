"""Reports as files, their kind told by the name: .html, .md, .csv or .json."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import typer

from forgetwatch.cli.options import check_folder
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.report.export import comparisons_csv, comparisons_json, trajectory_json
from forgetwatch.report.html import page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.pictures import SUFFIXES
from forgetwatch.report.ranking_table import several_markdown

_KINDS: Final = (".html", ".md", ".csv", ".json")


def check_report(path: Path | None) -> None:
    """Refuse a report that could not be written, before the work is done.

    Raises:
        SnapshotError: If its name tells no kind, or its folder is not there.
    """
    if path is None:
        return
    if path.suffix not in _KINDS:
        raise SnapshotError(f"{path}: a report is {', '.join(_KINDS)}; its name tells which")
    check_folder(str(path))


def check_plots(folder: Path | None) -> None:
    """Refuse a folder of pictures that could not be made, before the work is done.

    Raises:
        SnapshotError: If it is a file, or lies in one.
    """
    if folder is None:
        return
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not above.is_dir():
        raise SnapshotError(f"{folder}: needed a folder for the pictures, and {above} is a file")


def say_pictures(paths: Sequence[Path], *, err: bool) -> None:
    """Say how many pictures were written, and where."""
    if paths:
        typer.echo(f"pictures: {len(paths) // len(SUFFIXES)} in {paths[0].parent}, as PNG and SVG", err=err)
    else:
        typer.echo("pictures: none; there is one look, or fewer than two categories", err=err)


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
    """Write a report, whole or not at all.

    Args:
        path: Where; its suffix is its kind.
        comparisons: What is shown; a page shows the last in full.
        changed: The items whose answer changed in the last.
        tolerance: The net loss of accuracy that is tolerated, 0 to 1.
        trajectory: The run, where it is one.
        several: What several comparisons say together.
        title: What a page is about, below its heading.
    """
    last = comparisons[-1]
    kinds: dict[str, Callable[[], str]] = {
        ".html": lambda: page(
            last, changed=changed, trajectory=trajectory, several=several, tolerance=tolerance, title=title
        ),
        ".md": lambda: "\n".join(
            [
                *([] if several is None else [several_markdown(several)]),
                *(
                    comparison_markdown(
                        one,
                        changed=changed if one is last else (),
                        trajectory=trajectory if one is last else None,
                        tolerance=tolerance,
                    )
                    for one in comparisons
                ),
            ]
        ),
        ".csv": lambda: comparisons_csv(comparisons),
        ".json": lambda: (
            json.dumps(
                trajectory_json(trajectory) if trajectory else comparisons_json(comparisons, several),
                indent=1,
                ensure_ascii=False,
                allow_nan=False,
            )
            + "\n"
        ),
    }
    text = kinds[path.suffix]()
    # A lone half of a surrogate pair, as logs hold them, is no UTF-8.
    data = text.encode("utf-8", "replace")
    write_atomically(path, lambda partial: partial.write_bytes(data))

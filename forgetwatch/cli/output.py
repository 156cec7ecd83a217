"""Output of commands: results to a console of 80 columns on stdout, progress to stderr, files.

What is printed holds names and texts of files: control characters in it are made visible. Files are
JSON documents, reports in four formats, pictures, and answers of limits, which become the exit
status.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as BytesBar
from rich.text import Text

from forgetwatch.cli.options import MARK, STDOUT
from forgetwatch.comparing.causes import Causes
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.document import comparisons_json, trajectory_json
from forgetwatch.comparing.flips import Flip
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import Answer, Tolerance, worst
from forgetwatch.errors import GateError
from forgetwatch.files.writing import write_text
from forgetwatch.measures.base import json_value
from forgetwatch.policy.policy import Policy
from forgetwatch.policy.ruling import PolicyResult, Sides, apply_policy
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, is_first_process, launched_count, log, shown
from forgetwatch.report.comment import policy_comment
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.html import page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.pictures import SUFFIXES
from forgetwatch.report.several_models import several_markdown
from forgetwatch.report.terminal import DETAIL_WIDTH
from forgetwatch.visible_text import visible

EXIT: Final[dict[Answer, int]] = {"PASS": 0, "FAIL": 3, "INCONCLUSIVE": 4}
"""Exit status by verdict."""
STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


@contextmanager
def shared_work() -> Iterator[None]:
    """Share the work among the processes of a launcher.

    One process enters no group, and imports no torch.
    """
    if launched_count() == 1:
        yield
        return
    from forgetwatch.scoring.processes import joined_group

    _has_joined.set(True)
    with joined_group():
        yield


def reports_errors() -> bool:
    """Should an error in this process be printed?

    Before processes join their group, all of them meet the same errors and the first one prints;
    after that, the group chooses one, and the others get `ReportedElsewhereError`.
    """
    return is_first_process() or _has_joined.get()


_has_joined: Final = ContextVar("has_joined", default=False)
"""True once this process has entered `shared_work` with others."""


def result_console(*, wide: bool = False) -> Console:
    """Console on standard output.

    80 columns wide, 100 for tables of detail, up to 120 in a terminal.
    """
    console = Console(highlight=False)
    console.width = (
        (DETAIL_WIDTH if wide else 80) if not console.is_terminal else min(console.width, 120)
    )
    return console


def print_text(text: str, *, style: str = "") -> None:
    """Print a text, wrapped at the console's width."""
    result_console().print(visible(text), style=style, markup=False)


def echo(text: str, *, err: bool = False) -> None:
    """Print a line unwrapped, so that a path can be copied."""
    if is_first_process():
        typer.echo(visible(text), err=err)


def print_hanging(text: str, *, style: str = "") -> None:
    """Print a line, and keep the indentation where the line wraps."""
    console, bare = result_console(), visible(text).lstrip()
    indent = " " * (len(text) - len(bare))
    for line in Text(bare).wrap(console, console.width - len(indent)):
        line.rstrip()
        console.print(Text(indent).append_text(line), style=style)


def announce_import() -> None:
    """Log a line before torch is imported, unless imported already."""
    if "torch" not in sys.modules and is_first_process():
        log("loading torch and transformers ...")


@contextmanager
def scoring_unless_cached(model: str, probe: Probe) -> Iterator[Progress | None]:
    """Show the progress of scoring a model from the first report.

    Nothing is shown if the outcomes are cached.

    Reports come from `model_loading.score_derived`, the first one before the model is loaded.
    """
    with shown("scoring", is_main_process=is_first_process()) as report:
        if report is None:
            yield None
            return
        opening = [f"scoring {model} on {probe.name}, {len(probe):,} items"]

        def opened(done: Done) -> None:
            if opening:
                log(opening.pop())
            report(done)

        yield opened


@contextmanager
def bytes_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of bytes.

    Yields the function that takes the bytes done and all bytes.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    with BytesBar(
        *columns,
        console=console,
        transient=True,
        disable=not (console.is_terminal and is_first_process()),
    ) as bar:
        task = bar.add_task(escape(visible(label)), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a JSON document to a file or to standard output."""
    json_document = json_text(document)
    if path == STDOUT:
        sys.stdout.write(json_document)
    else:
        write_text(path, json_document)


def write_marked(path: Path, text: str) -> None:
    """Write a text, with forgetwatch's mark in Markdown."""
    write_text(path, f"{text}\n{MARK}\n" if path.suffix == ".md" else text)


def print_pictures(paths: Sequence[Path], *, err: bool) -> None:
    """Print how many pictures were drawn, and where."""
    if paths:
        echo(
            f"pictures: {len(paths) // len(SUFFIXES)} in {paths[0].parent}, as PNG and SVG", err=err
        )
    else:
        echo("pictures: none; they need two looks, or two categories", err=err)


def write_report(
    path: Path,
    comparisons: Sequence[Comparison],
    changed: Sequence[Flip],
    *,
    tolerance: Tolerance,
    trajectory: Trajectory | None = None,
    several: ModelComparison | None = None,
    title: str = "",
    folder: Path | None = None,
    causes: Causes | None = None,
) -> None:
    """Write a report in the format of the path's suffix.

    An old file stays as it is if that fails. Of several comparisons, a page shows the last in full;
    `changed` are the items whose answer changed in the last.
    """
    last_comparison = comparisons[-1]
    if path.suffix == ".html":
        text = page(
            last_comparison,
            changed=changed,
            trajectory=trajectory,
            several=several,
            tolerance=tolerance,
            title=title,
            folder=folder,
            causes=causes,
        )
    elif path.suffix == ".md":
        parts = [] if several is None else [several_markdown(several)]
        parts += [
            comparison_markdown(comparison, tolerance=tolerance) for comparison in comparisons[:-1]
        ]
        parts += [
            comparison_markdown(
                last_comparison, changed=changed, trajectory=trajectory, tolerance=tolerance
            )
        ]
        text = "\n".join(parts)
    elif path.suffix == ".csv":
        text = comparisons_csv(comparisons)
    else:
        document = trajectory_json(trajectory, tolerance=tolerance) if trajectory else None
        text = json_text(document or comparisons_json(comparisons, several, tolerance=tolerance))
    write_marked(path, text)


def json_text(document: dict[str, Any]) -> str:
    """Text of a JSON document.

    Raises:
        ValueError: If a number is nan or infinite.
    """
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def judge(
    limits: Policy | None, *sides: tuple[Comparison, Sides], tolerance: Tolerance
) -> list[PolicyResult]:
    """Apply limits to comparisons.

    Returns:
        An answer for each, none without limits.
    """
    return [
        apply_policy(limits, of, comparison=comparison, tolerance=tolerance)
        for comparison, of in sides
        if limits is not None
    ]


def answer_json(result: PolicyResult) -> dict[str, Any]:
    """Answer of some limits as JSON values."""
    return {
        "word": result.decision.word,
        "answer": result.answer,
        "error": result.policy.error,
        "limits": result.limits,
        "level": result.level,
        "rulings": [json_value(vars(ruling)) for ruling in result.rulings],
    }


def exit_code_of_limits(results: Sequence[PolicyResult], *, to_stderr: bool) -> int:
    """Print the answers of the limits, and find the worst exit status.

    An answer that is not PASS goes to standard error, in one line for each comparison; with
    `to_stderr` all go there, because standard output takes the JSON document. In a step of GitHub
    Actions they are in its summary too.

    Raises:
        GateError: If that summary cannot be written.
    """
    if not results:
        return 0
    for result in results:
        which = f" ({' -> '.join(result.comparison.labels)})" if len(results) > 1 else ""
        line = f"{result.line}{which}; exit status {EXIT[result.answer]}"
        echo(" ".join(line.split()), err=result.answer != "PASS" or to_stderr)
        if is_first_process():
            append_step_summary(f"\n{policy_comment(result)}")
    return EXIT[worst(result.answer for result in results)]


def append_step_summary(text: str) -> None:
    """Append a text to the summary of a step of GitHub Actions.

    Nothing happens unless the environment names the file.

    Raises:
        GateError: If the file cannot be written to.
    """
    try:
        # Other commands write to it too; a lone surrogate in a name must not fail the gate.
        if step := os.environ.get(STEP_SUMMARY):
            with Path(step).open("ab") as file:
                file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise GateError(
            f"{step} (named by {STEP_SUMMARY}) cannot be written to: {error.strerror}"
        ) from error

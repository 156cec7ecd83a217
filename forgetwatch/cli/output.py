"""Where commands write: tables to a console, documents to files or standard output.

Progress bars on stderr, so that stdout stays for results.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from forgetwatch.files import write_atomically
from forgetwatch.report.terminal import WIDTH


def result_console() -> Console:
    """Standard output, 80 columns wide unless it is a terminal that is wider."""
    console = Console(highlight=False)
    console.width = WIDTH if not console.is_terminal else min(console.width, 120)
    return console


def print_hanging(console: Console, text: str, *, style: str = "") -> None:
    """Print a line that keeps its indentation where it goes on in a next one."""
    bare = text.lstrip()
    indent = " " * (len(text) - len(bare))
    for line in Text(bare).wrap(console, console.width - len(indent)):
        line.rstrip()
        console.print(Text(indent).append_text(line), style=style)


def write_json(document: dict[str, Any], path: str) -> None:
    """Write a JSON document to a file, whole or not at all; ``-`` is standard output."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_atomically(Path(path), lambda partial: partial.write_text(text, encoding="utf-8"))


@contextmanager
def items_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that moves when the function it yields is called with the items done and the items in all."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, started = bar.add_task(escape(label), total=None, speed=""), time.monotonic()

        def advance(done: int, total: int) -> None:
            speed = done / max(time.monotonic() - started, 1e-9)
            bar.update(task, completed=done, total=total, speed=f"{speed:,.1f} items/s")

        yield advance


@contextmanager
def bytes_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that moves when the function it yields is called with the bytes done and the bytes in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(label), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

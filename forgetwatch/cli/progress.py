"""Progress bars on stderr, so that stdout stays for results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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

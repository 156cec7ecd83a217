"""Where commands write their tables."""

from __future__ import annotations

from rich.console import Console

from forgetwatch.report.terminal import WIDTH


def result_console() -> Console:
    """Standard output, 80 columns wide unless it is a terminal that is wider."""
    console = Console(highlight=False)
    console.width = WIDTH if not console.is_terminal else min(console.width, 120)
    return console

"""Where commands write: tables to a console, documents to files or standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
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

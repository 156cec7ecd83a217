"""Where commands write: tables to a console, documents to files or standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from forgetwatch.files import write_atomically
from forgetwatch.report.terminal import WIDTH


def result_console() -> Console:
    """Standard output, 80 columns wide unless it is a terminal that is wider."""
    console = Console(highlight=False)
    console.width = WIDTH if not console.is_terminal else min(console.width, 120)
    return console


def write_json(document: dict[str, Any], path: str) -> None:
    """Write a JSON document to a file, whole or not at all; ``-`` is standard output."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_atomically(Path(path), lambda partial: partial.write_text(text, encoding="utf-8"))

"""Lines for the person who watches the run, on stderr, between progress bars and not through them."""

from __future__ import annotations

import sys

from tqdm.auto import tqdm


def say(line: str) -> None:
    """Print one line to stderr with the project's name before it."""
    tqdm.write(f"forgetwatch: {line}", file=sys.stderr)

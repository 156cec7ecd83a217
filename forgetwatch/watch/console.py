"""Lines for the person who watches the run, on stderr, between progress bars and not through them.

with failures.told("the look", step=200):     what fails here is told once, and training goes on
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm


def say(line: str) -> None:
    """Print one line to stderr with the project's name before it."""
    tqdm.write(f"forgetwatch: {line}", file=sys.stderr)


class Failures:
    """What failed during a run: told the first time, counted, and summed up at the end.

    Attributes:
        aloud: Whether this process tells; one of several does.

    Args:
        strict: Whether a failure is raised instead.
    """

    def __init__(self, *, strict: bool) -> None:
        self.aloud = True
        self._strict = strict
        self._counts: Counter[str] = Counter()

    @contextmanager
    def told(self, what: str, *, step: int) -> Iterator[None]:
        """A failure inside does not stop the run, unless it must."""
        try:
            yield
        except Exception as error:  # whatever it is, hours of training are worth more
            if self._strict:
                raise
            self._counts[what] += 1
            if self._counts[what] == 1 and self.aloud:
                say(f"{what} at step {step} failed, training goes on: {error}")

    def sum_up(self) -> None:
        """Say how often each thing failed."""
        for what, count in self._counts.items():
            if self.aloud:
                say(f"{what} failed {count} times in this run")

"""Record of the failures that a run survives.

with failures.tolerate("the look", step=200):     a failure in here is logged the first time, and training continues
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from forgetwatch.progress import log


class Failures:
    """Failures during a run: the first of each kind is logged, all are counted.

    Args:
        strict: True to raise failures instead.
        work: The work that continues after a failure.
        is_main_process: True in the process that logs.
    """

    def __init__(self, *, strict: bool, work: str = "training", is_main_process: bool = True) -> None:
        self._strict = strict
        self._work = work
        self._is_main = is_main_process
        self._counts: Counter[str] = Counter()

    @contextmanager
    def tolerate(self, what: str, *, step: int) -> Iterator[None]:
        """Log and count a failure of `what` inside, unless strict."""
        try:
            yield
        except Exception as error:  # of any kind: hours of training are worth more than a look
            if self._strict:
                raise
            self.count(what, f"{what} at step {step} failed, {self._work} continues: {error}")

    def count(self, what: str, line: str) -> None:
        """Count a failure of `what`, and log its line if it is the first."""
        self._counts[what] += 1
        if self._counts[what] == 1 and self._is_main:
            log(line)

    def log_counts(self) -> None:
        """Log how often each thing failed."""
        for what, count in self._counts.items():
            if self._is_main:
                log(f"{what} failed {count} times in this run")

"""Progress of a measurement on stderr: a line at once, an estimate when two batches agree on it, then a bar or lines.

    with shown("baseline", opening="baseline: standard, 2,000 items", again=1.0) as progress:
        scorer.score(model, progress=progress)

    forgetwatch: baseline: standard, 2,000 items                                            at once
    forgetwatch: baseline: 32 of 2,000 items in 4 s; about 260 s in all, ...                after the first batches
    forgetwatch: baseline: 402 of 2,000 items, 26 s, about 104 s left                       in a log, now and then
    baseline: 402 of 2,000 items, 26 s, about 104 s left |███▎            | 20 %            in a terminal, a bar

The bar is tqdm's, so that it goes below the bar of a trainer, and lines do not break either. Time
is estimated from the share of the work that is done, which the scorer measures in tokens: batches
are sorted by length, so that the first ones have few items. A measurement of a few seconds has its
first line and a bar, and no estimate.

Of several processes that a launcher started together (torchrun, `accelerate launch`), one prints:

    WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=... MASTER_PORT=...

Both set LOCAL_RANK. Some clusters set the other variables for whole machines, also for a shell on
one of them: a command in such a shell is one process.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tqdm import tqdm

from forgetwatch.visible_text import visible


@dataclass(frozen=True, kw_only=True)
class Done:
    """The part of a measurement that is done.

    Attributes:
        count: Number of items, generated answers or examples that are done.
        total: Number of all of them.
        share: Share of the work that is done, 0 to 1; 0 before the first batch.
        unit: What is counted: ``items``, ``items encoded``, ``answers``, ``examples``.
        next: The part that follows this one and is not in `share`, such as ``generated answers``;
            empty if none does.
        repeated: True if a second measurement does this part again.
    """

    count: int
    total: int
    share: float
    unit: str = "items"
    next: str = ""
    repeated: bool = True


def launched_count() -> int:
    """Number of processes that the launcher started; 1 without a launcher."""
    count = os.environ.get("WORLD_SIZE", "1")
    return int(count) if "LOCAL_RANK" in os.environ and count.isdecimal() else 1


def is_first_process() -> bool:
    """Is this the process that prints and writes?

    The only one, or the first of those that a launcher started.
    """
    return launched_count() == 1 or os.environ.get("RANK", "0") == "0"


Progress = Callable[[Done], None]
"""Called before the first batch of a measurement and after each batch."""


def log(line: str) -> None:
    """Print a line to stderr, without breaking progress bars.

    Control characters are made visible.
    """
    tqdm.write(f"forgetwatch: {visible(line)}", file=sys.stderr)


@contextmanager
def shown(
    label: str,
    *,
    opening: str = "",
    repeat_share: float = 0.0,
    delay: float = 0.0,
    is_main_process: bool = True,
) -> Iterator[Progress | None]:
    """Show the progress of a measurement.

    Yields the function that takes the progress.

    Args:
        label: Name of the measurement, before each line.
        opening: Line that is printed at once; empty for none.
        repeat_share: Seconds of a second measurement that follows, as a multiple of this one's; the
            estimate includes them.
        delay: Seconds before anything is shown; in a log, a measurement shorter than `LINE_SECONDS`
            is then not shown.
        is_main_process: False in a process that prints nothing; it gets None.
    """
    if not is_main_process:
        yield None
        return
    if opening:
        log(opening)
    with closing(_Display(label, repeat_share=repeat_share, delay=delay)) as display:
        yield display.report


@contextmanager
def announced(line: str, *, delay: float = 2.0) -> Iterator[None]:
    """Log a line if the block takes longer than `delay` seconds."""
    timer = threading.Timer(delay, log, [line])
    timer.daemon = True
    if is_first_process():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def seconds(value: float) -> str:
    """Format a duration in seconds, minutes or hours: ``34 s``, ``2.5 h``."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 180:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def cause_of(error: BaseException) -> str:
    """Name what failed: memory, or the beginning of the message."""
    message = " ".join(str(error).split()) or type(error).__name__
    if "out of memory" in message.lower():
        return "out of memory"
    return message if len(message) <= _CAUSE else f"{message[: _CAUSE - 1]}…"


class Failures:
    """Failures during a run: the first of each kind is logged, all are counted; if `strict`, each is raised instead.

    `work` is the work that continues after a failure, for the log of the main process.
    """

    def __init__(
        self, *, strict: bool, work: str = "training", is_main_process: bool = True
    ) -> None:
        self._strict = strict
        self._work = work
        self._is_main = is_main_process
        self._counts: Counter[str] = Counter()
        self.cause = ""  # of the latest failure, in a few words

    @contextmanager
    def tolerate(self, task: str, *, step: int) -> Iterator[None]:
        """Log and count a failure in the block, unless strict."""
        try:
            yield
        except Exception as error:  # of any kind: hours of training are worth more than a look
            if self._strict:
                raise
            self.cause = cause_of(error)
            self.count(task, f"{task} at step {step} failed, {self._work} continues: {error}")

    def count(self, task: str, line: str) -> None:
        """Count a failure, and log the first of its task."""
        self._counts[task] += 1
        if self._counts[task] == 1 and self._is_main:
            log(line)

    def log_counts(self) -> None:
        """Log how often each thing failed."""
        for task, count in self._counts.items():
            if self._is_main:
                log(f"{task} failed {count} times in this run")


_CAUSE: Final = 80
"""Characters of a cause."""

LINE_SECONDS: Final = 30.0
"""Seconds after which a log gets a line on a look during a training."""

_WAITED_SECONDS: Final = 10.0
_WAITED_SHARE: Final = 0.05
"""Seconds after which a log gets a line on what is waited for; later this share of the time so far.
"""

_AGREE: Final = 1 / 3
"""Largest difference of the estimates after two batches, as a share, of which the second is shown.
"""

_SETTLED: Final = 0.5
"""Seconds of work before the time is estimated; batches on a GPU take milliseconds, and the first
of them more.
"""

_SHORT: Final = 5.0
"""Seconds of a measurement that needs no estimate."""

_COLUMNS: Final = 80
_LINES: Final = 24
"""Size of a terminal of unknown size."""


class _Display:
    """Shows one measurement; see `shown`."""

    def __init__(self, label: str, *, repeat_share: float, delay: float) -> None:
        self._label, self._again, self._delay = visible(label), repeat_share, delay
        self._started = self._part_started = self._line_time = time.monotonic()
        self._part_share = 0.0
        self._guess: float | None = None  # seconds in all, by the batch before
        self._is_estimated = delay > 0  # what is shown late has no estimate of its own
        self._latest: Done | None = None
        self._bar: Any = None
        # The identity is tested too: another object in this place may claim to be a terminal and
        # print each update.
        stream = sys.__stderr__
        self._has_bar = stream is not None and sys.stderr is stream and stream.isatty()

    def report(self, done: Done) -> None:
        """Draw the progress."""
        now, latest = time.monotonic(), self._latest
        # Items are encoded, then scored, then answers generated; a layout that the model does not
        # support starts over.
        if (
            latest is None
            or done.unit != latest.unit
            or done.share < latest.share
            or not done.share
        ):
            self._part_started, self._part_share, self._guess = now, done.share, None
            self._is_estimated &= self._delay > 0
        self._latest = done
        worked = now - self._part_started
        # What was done when the part was first reported took a time that is not known.
        since = done.share - self._part_share
        left = worked * (1 - done.share) / since if since > 0 else None
        if left is not None and not self._is_estimated and (worked >= _SETTLED or done.share >= 1):
            guess, self._guess = self._guess, now - self._started + left
            if guess is not None and abs(self._guess - guess) <= _AGREE * guess:
                self._is_estimated = True
                self._estimate(done, now, left)
        if now - self._started < self._delay:
            return
        status = f"{self._counts(done)}, {seconds(now - self._started)}"
        status += "" if left is None or not self._is_estimated else f", about {seconds(left)} left"
        if self._has_bar:
            self._draw(done, status)
        elif self._is_due(done, now):
            log(status)
            self._line_time = now

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _estimate(self, done: Done, now: float, left: float) -> None:
        spent = now - self._started
        repeat_share = self._again if done.repeated else 0.0
        total = (spent + left) * (1 + repeat_share)
        if total < _SHORT or done.share >= 1:
            return
        note = ", second measurement included" if repeat_share else ""
        without = f", without the {done.next}" if done.next else ""
        log(
            f"{self._counts(done)} in {seconds(spent)}; about {seconds(total)} in "
            f"all{note}{without}"
        )
        self._line_time = now

    def _is_due(self, done: Done, now: float) -> bool:
        longest = (
            LINE_SECONDS
            if self._delay
            else max(_WAITED_SECONDS, _WAITED_SHARE * (now - self._started))
        )
        # The last line of a measurement says nothing that its result does not say.
        return done.share < 1 and now - self._line_time >= longest

    def _counts(self, done: Done) -> str:
        return f"{self._label}: {done.count:,} of {done.total:,} {done.unit}"

    def _draw(self, done: Done, status: str) -> None:
        # Some programs open a terminal of 0 columns and lines, in which tqdm would draw nothing.
        size = os.get_terminal_size(sys.stderr.fileno())
        columns, lines = size.columns or _COLUMNS, size.lines or _LINES
        if self._bar is None:
            bar_format = "{desc} |{bar}| {percentage:3.0f} %"
            self._bar = tqdm(
                desc=status,
                total=1.0,
                bar_format=bar_format,
                leave=False,
                ncols=columns,
                nrows=lines,
            )
        self._bar.ncols = columns
        self._bar.set_description_str(status, refresh=False)
        self._bar.n = done.share
        self._bar.refresh()

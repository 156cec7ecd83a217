"""Regular expressions of other people, searched in a process of their own that has a time and a memory limit.

    this process                      the search process, started at the first search
    BoundedSearch.last_match ──▶ [pattern, text, seconds] ──▶ re.compile, finditer
                             ◀── ["last match", at the end?] ◀──

Python's `re` has no time limit: a pattern such as ``(a+)+$`` can take years on a line of text, and nothing in the same
process can stop it in every thread on every system. Matchers with a time limit of their own exist, but they differ from
`re` in what they match, and their memory is not bounded. So patterns that come from files and from the command line are
neither compiled nor searched here, but in a second Python process, which the system ends at its limit:

    computing    `SECONDS` of processor time, so that a busy machine changes no result
    waiting      `PATIENCE` seconds, for a process that gets no processor at all
    memory       `MEMORY` bytes

Searches that reach a limit are rare but may come by the thousand, so their cost is bounded too. A pattern that reached
a limit is not searched again by this object. Searches that take more than `BRIEF` seconds share an allowance of
`ALLOWANCE` seconds; when that is used up, a search may take `BRIEF` seconds. Common patterns take less than a
millisecond, so neither limit changes their results. Where the system has no timer for processor time (Windows), the
limit is `SECONDS` of waiting, and memory is not limited.

The search process runs this file as a script, isolated from the user's environment. It imports nothing but the standard
library, reads patterns and texts as JSON, and ends with its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from functools import lru_cache
from typing import IO, Any, Final, NamedTuple, cast

SECONDS: Final = 2.0
"""Processor time of one search or compilation."""
BRIEF: Final = 0.1
"""Processor time of one search after the allowance for longer ones is used up."""
ALLOWANCE: Final = 60.0
"""Total processor time of all searches that take more than `BRIEF` seconds."""
PATIENCE: Final = 60.0
"""Time for which an answer is awaited."""
MEMORY: Final = 1 << 28
"""Address space of the search process, in bytes."""
FLAGS: Final = re.IGNORECASE | re.MULTILINE

_HAS_TIMER: Final = hasattr(signal, "setitimer")


class LastMatch(NamedTuple):
    """Result of one search.

    Attributes:
        text: First group of the last match if it has one that took part, else the whole match; None without a match.
        at_end: True if the match ends at the end of the text.
        problem: Reason why the search has no result; empty if it has one.
    """

    text: str | None = None
    at_end: bool = False
    problem: str = ""


class BoundedSearch:
    """Searches with limits; one process serves all threads, and a forked process starts its own.

    Args:
        seconds: Processor time of one search.
        allowance: Total processor time of the searches that take more than `BRIEF` seconds.
        patience: Seconds for which an answer is awaited.
    """

    def __init__(self, *, seconds: float = SECONDS, allowance: float = ALLOWANCE, patience: float = PATIENCE) -> None:
        self._seconds = seconds
        self._allowance = allowance
        self._patience = patience if _HAS_TIMER else seconds
        self._given_up: dict[str, str] = {}
        self._process: _SearchProcess | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def compile_problem(self, pattern: str) -> str:
        """Reason why a text is no regular expression, as `re` words it, or cannot be compiled; empty if it can."""
        return self._ask(pattern, None, self._seconds).problem

    def last_match(self, pattern: str, text: str) -> LastMatch:
        """Last match of a pattern in a text, without case and with ``^`` and ``$`` at every line.

        A search that reaches a limit gives a problem and no exception.
        """
        if problem := self._given_up.get(pattern):
            return LastMatch(problem=problem)
        seconds = self._seconds if self._allowance > 0 else min(BRIEF, self._seconds)
        return self._ask(pattern, text, seconds)

    def close(self) -> None:
        """End the search process; the next search starts another."""
        if self._process is not None and self._owner == os.getpid():
            self._process.end()
        self._process = None

    def _ask(self, pattern: str, text: str | None, seconds: float) -> LastMatch:
        if self._owner != os.getpid():
            # After a fork the process and the lock are the parent's.
            self._process, self._lock, self._owner = None, threading.Lock(), os.getpid()
        with self._lock:
            was_running = self._process is not None
            answer = self._try(pattern, text, seconds)
            if answer is None and was_running:
                # An idle process may have been ended from outside, by a signal to the whole job: a new one decides.
                answer = self._try(pattern, text, seconds)
            if answer is None:
                return LastMatch(problem="the process that searches for its pattern ended")
            if answer.problem and text is not None:
                self._given_up[pattern] = answer.problem
            return answer

    def _try(self, pattern: str, text: str | None, seconds: float) -> LastMatch | None:
        """Answer of the search process; None if it ended without one."""
        try:
            if self._process is None:
                self._process = _SearchProcess()
                atexit.register(self._process.end)
            reply = self._process.ask([pattern, text, seconds], self._patience)
        except OSError as error:
            self.close()
            return LastMatch(problem=f"no process can be started to search for its pattern ({error})")
        if isinstance(reply, list):
            *found, used = reply
            self._allowance -= used if used > BRIEF else 0
            return LastMatch(*found)
        self.close()
        if reply == "slow":
            self._allowance -= seconds
            return LastMatch(problem=f"its pattern took longer than {seconds:g} s")
        return None


class _SearchProcess:
    """The search process, and the thread that reads what it writes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._input = cast(IO[bytes], self._process.stdin)
        self._lines = queue.SimpleQueue[bytes]()
        # Not every system can read a pipe with a time limit; a queue can be.
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")

    def ask(self, request: list[Any], patience: float) -> list[Any] | str:
        """The reply to a request; ``slow`` if it reached a time limit, ``gone`` if the process ended otherwise."""
        try:
            self._input.write(json.dumps(request).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            return "gone"
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            return "slow"
        if line:
            return cast(list[Any], json.loads(line))
        status = self._process.wait()
        return "slow" if _HAS_TIMER and status == -signal.SIGPROF else "gone"

    def end(self) -> None:
        """Kill the process and wait for its end."""
        atexit.unregister(self.end)
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # what was not written yet has no reader
            self._input.close()


def _serve() -> None:
    """Answer the requests on standard input, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin.buffer:
        pattern, text, seconds = json.loads(line)
        began = time.process_time()
        # The default action of the signal ends the process, whatever the matcher is doing.
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _search(pattern, text)
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps([*answer, time.process_time() - began]) + "\n")
        sys.stdout.flush()


def _search(pattern: str, text: str | None) -> LastMatch:
    """Last match in a text; without a text the pattern is only compiled."""
    try:
        made = _compiled(pattern)
        last = None
        for match in made.finditer(text) if text is not None else ():
            last = match
    except (re.error, RecursionError, OverflowError) as error:
        return LastMatch(problem=str(error))
    except MemoryError:
        return LastMatch(problem=f"its pattern needs more than {MEMORY >> 20:,} MiB of memory")
    if last is None or text is None:
        return LastMatch()
    whole = last[1] if made.groups and last[1] is not None else last[0]
    return LastMatch(whole, last.end() == len(text))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


if __name__ == "__main__":
    _serve()

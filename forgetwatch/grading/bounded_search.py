"""Regular expressions of other people, searched in a process of their own that has a time and a memory limit.

    this process                      the search process, started at the first search
    BoundedSearch.last_match ──▶ [number, pattern, text, seconds]       ──▶ re.compile, finditer
                             ◀── [number, last match, at the end?, ...] ◀──

Python's `re` has no time limit: a pattern such as ``(a+)+$`` can take years on a line of text, and nothing in the same
process can stop it in every thread on every system. Matchers with a time limit of their own exist, but they differ from
`re` in what they match, and their memory is not bounded. So patterns that come from files and from the command line are
neither compiled nor searched here, but in a second Python process, which the system ends at its limit:

    computing    `SECONDS` of processor time, so that a busy machine changes no result
    waiting      `PATIENCE` seconds, for a process that gets no processor at all
    memory       `MEMORY` bytes

Searches that reach a limit are rare but may come by the thousand, so their cost is bounded too. A pattern that reached
a limit on a text is not searched again on that text by the same object; on other texts it is. Searches that take more
than `BRIEF` seconds share an allowance of `ALLOWANCE` seconds for the life of the object, which is never renewed. As
long as it lasts, the result of a search does not depend on the searches before it. When it is used up, a search may
take `BRIEF` seconds, and one that needs more has no result. Common patterns take less than a millisecond, so neither
limit changes their results.

Where the system has no timer for processor time (Windows), the limit is `SECONDS` of waiting. Memory is limited where
the system enforces a limit of the address space: Linux does, macOS and Windows do not.

The search process runs this file as a script, isolated from the user's environment. It imports nothing but the standard
library and ends with its parent. Requests are numbered and replies repeat the number, so that no reply is taken for
that of another request. An exception while a reply is awaited (Ctrl-C, a signal handler that raises) ends the search
process and reaches the caller; the interrupted search uses up nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import itertools
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
from typing import Any, Final, NamedTuple, cast

SECONDS: Final = 2.0
"""Processor time of one search or compilation."""
BRIEF: Final = 0.1
"""Processor time of one search after the allowance for longer ones is used up."""
ALLOWANCE: Final = 60.0
"""Total processor time of all searches that take more than `BRIEF` seconds."""
PATIENCE: Final = 60.0
"""Time for which an answer is awaited."""
MEMORY: Final = 1 << 28
"""Address space of the search process, in bytes; not enforced by macOS and Windows."""
FLAGS: Final = re.IGNORECASE | re.MULTILINE

_HAS_TIMER: Final = hasattr(signal, "setitimer")


class LastMatch(NamedTuple):
    """Result of one search.

    Attributes:
        text: First group of the last match if it has one that took part, else the whole match; None without a match.
        at_end: True if the match ends at the end of the text.
        problem: Reason why the search has no result; empty if it has one.
        at_limit: True if the search has no result because it reached a limit of time or memory.
    """

    text: str | None = None
    at_end: bool = False
    problem: str = ""
    at_limit: bool = False


class BoundedSearch:
    """Searches with limits; one process serves all threads, and a forked process starts its own.

    Objects and what they remember are kept until the interpreter ends.

    Args:
        seconds: Processor time of one search.
        allowance: Total processor time of the searches that take more than `BRIEF` seconds; it is not renewed.
    """

    def __init__(self, *, seconds: float = SECONDS, allowance: float = ALLOWANCE) -> None:
        self._seconds = seconds
        self._allowance = allowance
        self._patience = PATIENCE if _HAS_TIMER else seconds
        self._given_up: dict[tuple[str, bytes], LastMatch] = {}
        self._process: _SearchProcess | None = None
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_to_parent)

    def compile_problem(self, pattern: str) -> str:
        """Reason why a text is no regular expression, as `re` words it, or cannot be compiled; empty if it can."""
        with self._lock:
            return self._request(pattern, None, self._seconds).problem

    def last_match(self, pattern: str, text: str) -> LastMatch:
        """Last match of a pattern in a text, without case and with ``^`` and ``$`` at every line.

        A search that reaches a limit gives a problem and no exception.
        """
        pair = (pattern, hashlib.blake2b(text.encode(errors="surrogatepass")).digest())
        with self._lock:
            if given_up := self._given_up.get(pair):
                return given_up
            seconds = self._seconds if self._allowance > 0 else min(BRIEF, self._seconds)
            found = self._request(pattern, text, seconds)
            if found.at_limit:
                self._given_up[pair] = found
            return found

    def close(self) -> None:
        """End the search process; the next search starts another."""
        with self._lock:
            self._end_process()

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _leave_to_parent(self) -> None:
        """Leave the process to the parent after a fork; the lock may be held by a thread that exists only there."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if process is not None:
            process.disown()

    def _request(self, pattern: str, text: str | None, seconds: float) -> LastMatch:
        """Result of one search or compilation; the caller holds the lock."""
        was_running = self._process is not None
        try:
            found = self._try(pattern, text, seconds)
            if found is None and was_running:
                # An idle process may have been ended from outside, by a signal to the whole job: a new one decides.
                found = self._try(pattern, text, seconds)
        except BaseException:
            # The reply is still to come, and nobody waits for it any more.
            self._end_process()
            raise
        return found or LastMatch(problem="the process that searches for its pattern ended")

    def _try(self, pattern: str, text: str | None, seconds: float) -> LastMatch | None:
        """Result from the search process; None if it ended without one."""
        if self._process is None:
            try:
                self._process = _SearchProcess()
            except OSError as error:
                if error.errno is None:
                    raise  # it comes from a signal handler, such as TimeoutError, and not from the system
                return LastMatch(problem=f"no process can be started to search for its pattern ({error})")
        reply = self._process.request([pattern, text, seconds], self._patience)
        if isinstance(reply, list):
            *found, used = reply
            self._allowance -= used if used > BRIEF else 0
            return LastMatch(*found)
        self._end_process()
        if reply == "slow":
            self._allowance -= seconds
            return LastMatch(problem=f"its pattern took longer than {seconds:g} s", at_limit=True)
        return None


class _SearchProcess:
    """The search process, and the thread that reads what it writes."""

    def __init__(self) -> None:
        # Without a buffer, neither an interrupted write nor a fork can leave a part of a request that is sent later.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._input = cast(io.FileIO, self._process.stdin)
        atexit.register(self.end)
        self._numbers = itertools.count(1)
        self._lines = queue.SimpleQueue[bytes]()
        # Not every system can read a pipe with a time limit; a queue can be.
        threading.Thread(target=self._read, args=(cast(io.FileIO, self._process.stdout),), daemon=True).start()

    def _read(self, stream: io.FileIO) -> None:
        with io.BufferedReader(stream) as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def request(self, content: list[Any], patience: float) -> list[Any] | str:
        """The reply; ``slow`` if it reached a time limit, ``gone`` if the process ended or it is of another request."""
        number = next(self._numbers)
        unsent = memoryview(json.dumps([number, *content]).encode() + b"\n")
        try:
            while unsent:
                unsent = unsent[self._input.write(unsent) :]
        except OSError as error:
            if error.errno is None:
                raise  # it comes from a signal handler
            return "gone"
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            return "slow"
        if line.endswith(b"\n"):
            replied, *reply = json.loads(line)
            return reply if replied == number else "gone"
        status = self._process.wait()
        return "slow" if _HAS_TIMER and status == -signal.SIGPROF else "gone"

    def end(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()
        self._input.close()
        atexit.unregister(self.end)

    def disown(self) -> None:
        """Forget the process, which is the child of another."""
        atexit.unregister(self.end)
        self._input.close()
        self._process.poll()  # records that there is no such child


def _serve() -> None:
    """Answer the requests on standard input, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin.buffer:
        number, pattern, text, seconds = json.loads(line)
        began = time.process_time()
        # The default action of the signal ends the process, whatever the matcher is doing.
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _search(pattern, text)
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps([number, *answer, time.process_time() - began]) + "\n")
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
        return LastMatch(problem=f"its pattern needs more than {MEMORY >> 20:,} MiB of memory", at_limit=True)
    if last is None or text is None:
        return LastMatch()
    whole = last[1] if made.groups and last[1] is not None else last[0]
    return LastMatch(whole, last.end() == len(text))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


if __name__ == "__main__":
    _serve()

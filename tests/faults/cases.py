"""One case of a trial: a call that must return a value or be refused in one line that names the file."""

import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from forgetwatch.errors import ForgetwatchError

CPU_LIMIT = 5.0
"""Seconds of CPU after which a case counts as a hang."""

MEMORY_LIMIT = 1.5 * 2**30
"""Bytes by which a case may raise the peak memory of its process."""

_BY_THE_NET = (TypeError, AttributeError, LookupError)


class TooLong(BaseException):
    """A case used more CPU than it may; no `except Exception` takes it for an error of the file."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    Attributes:
        kind: ``read``, ``refused``, or a finding: ``unexpected``, ``message``, ``slow``, ``memory``, ``wrong``.
        detail: The message.
        cause: Class of the exception from which a refusal was made; empty if there is none.
        seconds: CPU time.
    """

    kind: str
    detail: str
    cause: str = ""
    seconds: float = 0.0

    @property
    def is_finding(self) -> bool:
        return self.kind not in ("read", "refused")

    @property
    def is_vague(self) -> bool:
        """True for a refusal whose cause is a Python error: right, but its sentence is of little help."""
        return self.cause in {kind.__name__ for kind in (*_BY_THE_NET, KeyError, IndexError)}


class WrongResultError(Exception):
    """A file was read, and what was read breaks a rule."""


def attempt(call: Callable[[], object], *, names: str, limit: float | None = None) -> Outcome:
    """Run a case.

    Args:
        call: Returns, or raises `WrongResultError` if what was read breaks a rule.
        names: Text that a refusal must contain.
        limit: Seconds of CPU after which the case counts as a hang; None for `CPU_LIMIT`.
    """
    limit = CPU_LIMIT if limit is None else limit
    before, started = _peak(), time.process_time()
    try:
        with _cpu_limit(limit):
            call()
        outcome = Outcome("read", "")
    except ForgetwatchError as error:
        outcome = _refusal(error, names)
    except WrongResultError as error:
        outcome = Outcome("wrong", str(error))
    except TooLong:
        outcome = Outcome("slow", "")
    except MemoryError as error:
        outcome = Outcome("memory", repr(error))
    except Exception as error:
        outcome = Outcome("unexpected", f"{type(error).__name__}: {error} at {_place(error)}")
    seconds = time.process_time() - started
    if not outcome.is_finding and seconds > limit:
        outcome = Outcome("slow", outcome.detail)
    if not outcome.is_finding and _peak() - before > MEMORY_LIMIT:
        outcome = Outcome("memory", f"{(_peak() - before) / 2**20:.0f} MiB; {outcome.detail}")
    return Outcome(outcome.kind, outcome.detail, outcome.cause, seconds)


def _refusal(error: ForgetwatchError, names: str) -> Outcome:
    message = str(error)
    cause = "" if error.__cause__ is None else type(error.__cause__).__name__
    if "\n" in message:
        return Outcome("message", f"several lines: {message!r}")
    if names not in message:
        return Outcome("message", f"does not name {names}: {message!r}")
    if isinstance(error.__cause__, MemoryError):
        return Outcome("memory", message)
    return Outcome("refused", message, cause)


def _place(error: BaseException) -> str:
    """File and line in forgetwatch of an exception."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/forgetwatch/forgetwatch/" in name or "/forgetwatch/" in name:
            found = f"{name.rsplit('/forgetwatch/', maxsplit=1)[-1]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _cpu_limit(limit: float) -> Iterator[None]:
    """Raise `TooLong` after twice the limit: a hang must end, and what is merely slow must be timed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 2 * limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)

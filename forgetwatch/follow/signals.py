"""Signals that end a follower: the first one sets an event, a second one ends the process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event at the first SIGTERM or SIGINT in the block.

    A second signal ends the process.
    """
    earlier: dict[signal.Signals, Any] = {}

    def handle(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, earlier[signal.Signals(number)])

    if threading.current_thread() is threading.main_thread():
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            earlier[signal_number] = signal.signal(signal_number, handle)
    try:
        yield
    finally:
        for signal_number, handler in earlier.items():
            signal.signal(signal_number, handler)

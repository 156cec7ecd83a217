"""A server of one checkpoint, such as ``vllm serve {checkpoint}``: started, waited for, and stopped.

command ─▶ process ─▶ answers at its address ─▶ questions ─▶ SIGTERM, then SIGKILL
└─ ends, or never answers: an error with its last line
"""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx2

from forgetwatch.endpoint.address import CHECKPOINT, Address, is_endpoint
from forgetwatch.endpoint.served import score_endpoint
from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.probes.open_rendering import rendered
from forgetwatch.progress import log
from forgetwatch.run.run import Run
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import one_line

_PATIENCE: Final = 1800.0
"""Seconds in which a server loads a model."""

_POLL: Final = 0.5
"""Seconds between two questions whether it answers."""

_GRACE: Final = 30.0
"""Seconds in which it ends by itself."""


class CheckpointServer:
    """Measures checkpoints by a server: one that a command starts for each, or one that has them all.

    Args:
        endpoint: Address at which they are served, with `CHECKPOINT` for the name of a folder.
        command: Command of the server, with `CHECKPOINT` for the folder; empty if it is there.
        loading: How a server is asked.
        stop: Set to end.
    """

    def __init__(
        self, endpoint: str, command: str, loading: Loading, *, stop: threading.Event
    ) -> None:
        self._endpoint, self._command, self._stop = endpoint, command, stop
        self._ask = partial(score_endpoint, loading=loading)

    def measure(self, folder: str, run: Run) -> tuple[Snapshot, Snapshot | None]:
        """Measure a checkpoint for a run.

        Before the first look the rendering of open questions is chosen.

        Args:
            folder: The checkpoint, or the base: a model id, or an address.
            run: The run.

        Returns:
            The snapshot, and of the base a second one: servers batch and round.

        Raises:
            ScoringError: If it cannot be served or asked.
        """
        run.open()
        with ExitStack() as stack:
            address = folder
            if not is_endpoint(folder):  # the base may be served elsewhere
                address = self._endpoint.replace(CHECKPOINT, Path(folder).name)
                if self._command:
                    at = Address.of(address)
                    stack.enter_context(_serving(self._command, folder, at, stop=self._stop))
            is_first = run.baseline is None
            if is_first:
                run.probe, line = rendered(run.probe, partial(self._ask, address))
                if line:
                    log(line)
            snapshots = [self._ask(address, run.probe)]
            snapshots += [self._ask(address, run.probe, is_second=True)] if is_first else []
        # Of the run's questions, also where a server is asked for letters.
        of = {"fingerprint": run.probe.fingerprint}
        look, *second = (
            replace(taken, meta={**taken.meta, "probe": taken.meta["probe"] | of})
            for taken in snapshots
        )
        return look, next(iter(second), None)


@contextmanager
def _serving(
    command: str, folder: str, address: Address, *, stop: threading.Event
) -> Iterator[None]:
    """Serve a checkpoint in the block.

    Args:
        command: Command of the server, in which `CHECKPOINT` stands for the folder.
        folder: The checkpoint, or a model id.
        address: Where the server answers.
        stop: Set to end.

    Raises:
        ScoringError: If another server answers there, or this one ends or never answers.
    """
    if _answers(address):
        raise ScoringError(
            f"{address.url}: a server answers there already; stop it, or give --endpoint and --serve "
            "another port"
        )
    arguments = [word.replace(CHECKPOINT, folder) for word in shlex.split(command)]
    with TemporaryDirectory() as temporary:
        output = Path(temporary) / "output"
        with output.open("wb") as file:
            try:
                process = subprocess.Popen(
                    arguments, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
            except OSError as error:
                raise ScoringError(f"--serve {arguments[0]}: {error.strerror}") from error
        try:
            _wait(process, address, output, stop)
            yield
        finally:
            _end(process)


def _answers(address: Address) -> bool:
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{address.url}/models", timeout=_GRACE).status_code < 500
    return False


def _wait(
    process: subprocess.Popen[bytes], address: Address, output: Path, stop: threading.Event
) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not _answers(address):
        cause = ""
        if process.poll() is not None:
            cause = f"its server ended with status {process.returncode}"
        elif stop.wait(_POLL) or time.monotonic() > deadline:
            cause = f"its server does not answer at {address.url}"
        if cause:
            lines = output.read_text(errors="replace").strip().split("\n")
            raise ScoringError(f"{cause}; its last line: {one_line(lines[-1])[:300]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # With its workers, which share its session.
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)

"""Python processes in which torch and transformers are imported already: each would take seconds for that.

The standard library's fork server imports them once for a process of pytest; the processes that it forks run a command
as the interpreter would, with an environment, a working folder and output of their own.
"""

import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from short_looks import shorten

_IMPORTED = [
    "torch.distributed.fsdp",
    "transformers.models.qwen3.modeling_qwen3",
    "support",
    "forgetwatch.report.html",
    "trl.trainer.sft_trainer",
    "forgetwatch.cli",
    "forgetwatch.scoring.cached_score",
    "forgetwatch.run.watch",
]


class Forked:
    """A process that runs Python code, a module or a file.

    Args:
        arguments: Those of the interpreter: ``-c CODE``, ``-m MODULE`` or a file, and what the command is given.
        cwd: Its working folder.
        environment: Its environment, all of it.
    """

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
    ) -> None:
        self.arguments = list(arguments)
        self._output = Path(mkdtemp(prefix="forked-"))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        self._process = context.Process(
            target=_run, args=(self.arguments, cwd, dict(environment), self._output), daemon=True
        )
        self._process.start()

    def finish(self, timeout: float) -> subprocess.CompletedProcess[str]:
        """Wait for its end; its exit status and output.

        Raises:
            TimeoutError: If it has not ended after that many seconds.
        """
        self._process.join(timeout)
        if (status := self._process.exitcode) is None:
            raise TimeoutError(f"{self.arguments} has not ended after {timeout:.0f} seconds")
        texts = [(self._output / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        shutil.rmtree(self._output)
        return subprocess.CompletedProcess(self.arguments, status, *texts)

    def kill(self) -> None:
        """End it, if it runs."""
        self._process.kill()


def finish_all(
    processes: Sequence[Forked], *, timeout: float
) -> list[subprocess.CompletedProcess[str]]:
    """Exit status and output of each process; all are killed if one does not end within `timeout` seconds."""
    until = time.monotonic() + timeout
    try:
        return [one.finish(max(1.0, until - time.monotonic())) for one in processes]
    finally:
        for one in processes:
            one.kill()


def _run(arguments: list[str], cwd: Path, environment: dict[str, str], output: Path) -> None:
    sys.stdout.flush()  # what the imports have printed is not of this process
    for number, name in ((1, "stdout"), (2, "stderr")):
        with (output / name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    shorten()
    kind, *rest = arguments
    if kind == "-c":
        code, *given = rest
        sys.argv = ["-c", *given]
        exec(compile(code, "<command>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(cwd))
        runpy.run_path(kind, run_name="__main__")

"""The command line in this process, as `tests/cli/conftest.py` runs it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Done:
    status: int
    stdout: str
    stderr: str

    @property
    def last(self) -> str:
        """Last line on standard error."""
        return self.stderr.splitlines()[-1]


Run = Callable[..., Done]

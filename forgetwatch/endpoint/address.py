"""The address of a served model: ``http://HOST:PORT#NAME``, of any OpenAI-compatible server.

    http://localhost:8000#base             the model that the server lists as base
    https://api.example.com/v1#NAME        a key is read from the environment

Keys come from the environment alone, and are in no address, file or line.
"""

import os
import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from forgetwatch.errors import ScoringError

KEY: Final = "FORGETWATCH_API_KEY"
"""Name in the environment of the key that is sent."""

CHECKPOINT: Final = "{checkpoint}"
"""Place of a checkpoint in a command, and in the name of a model."""

_OPENAI: Final = "api.openai.com", "OPENAI_API_KEY"
"""Host whose own name of a key is read too, so that it is sent nowhere else."""


def is_endpoint(name: str) -> bool:
    """Is the name of a model an address of a server?"""
    return name.startswith(("http://", "https://"))


def check_scheme(name: str) -> None:
    """Refuse an address without a scheme, HOST:PORT.

    Raises:
        ScoringError: If it is one.
    """
    if re.match(r"[\w.-]+:\d+(?:[/#]|$)", name):
        raise ScoringError(f"{name}: a served model is named by http://{name}")


@dataclass(frozen=True)
class Address:
    """Address of a server, and the name of one of its models.

    Attributes:
        url: URL of its API, ending in ``/v1`` where no path is given.
        model: Name of the model; empty for the only one.
    """

    url: str
    model: str = ""

    @classmethod
    def of(cls, address: str) -> Self:
        """Read an address.

        Raises:
            ScoringError: If it has no host, or holds what is secret.
        """
        parts = urlsplit(address)
        if not parts.hostname:
            raise ScoringError(f"{address!r:.80}: needed http://HOST:PORT#NAME, got no host")
        if parts.username or parts.password or parts.query:
            raise ScoringError(
                f"{parts.hostname}: a key or a query stands in the address; put the key into the "
                f"environment as {KEY}"
            )
        path = parts.path.rstrip("/") or "/v1"
        return cls(f"{parts.scheme}://{parts.netloc}{path}", parts.fragment)

    @property
    def is_own(self) -> bool:
        """Is the server asked without a fee, by plain http?"""
        return self.url.startswith("http://")

    @property
    def key(self) -> str:
        """Key of the server, or an empty text."""
        host, name = _OPENAI
        host_key = os.environ.get(name, "") if urlsplit(self.url).hostname == host else ""
        return os.environ.get(KEY) or host_key

    def __str__(self) -> str:
        return f"{self.url}#{self.model}" if self.model else self.url

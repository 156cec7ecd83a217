"""Requests to an OpenAI-compatible server that outlast a busy or a failing one.

    429, 5xx, a cut answer, no connection     asked again after 0.5, 1, 2, ... 60 s, or as the server says
    other refusals                            `RefusedError`, with the server's own words

httpx2 comes with huggingface_hub. The package openai would be one more dependency, for three routes.
"""

import random
import threading
from typing import Any, Final, Self

import httpx2

from forgetwatch.endpoint.address import Address
from forgetwatch.errors import ScoringError
from forgetwatch.progress import log
from forgetwatch.text import one_line

WAITS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds before each further try."""

_BUSY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""

_LONGEST: Final = 300.0
"""Seconds that a server may ask to be waited for."""

_TIMEOUT: Final = httpx2.Timeout(600.0, connect=10.0)


class RefusedError(ScoringError):
    """The server refuses a request, and would again.

    Attributes:
        status: The HTTP status.
        why: The server's words.
    """

    def __init__(self, message: str, *, status: int, why: str) -> None:
        super().__init__(message)
        self.status, self.why = status, why


class Client:
    """Asks one server; safe for several threads.

    Attributes:
        address: The server and its model.
        renders: The server takes arguments of a chat template.

    Args:
        address: The server and its model.
        concurrency: Number of requests at once.
    """

    def __init__(self, address: Address, *, concurrency: int = 1) -> None:
        self.address, self._key = address, address.key
        self._http = httpx2.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=_TIMEOUT,
            limits=httpx2.Limits(max_connections=concurrency),
        )
        self.renders = True
        self._is_closing, self._is_told = threading.Event(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._http.close()

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """Send a JSON object, and read the answer.

        Args:
            path: The path below the server's URL.
            body: The object, to which the model's name is added; without one it is read from.

        Raises:
            ScoringError: If the server does not answer; a `RefusedError` if the same request would
                be refused again.
        """
        sent = {"model": self.address.model, **body} if body else None
        # Whether there is a server shows at once.
        waits = WAITS if body else WAITS[:2]
        cause = ""
        for wait in (*waits, None):
            asked_for = 0.0
            try:
                response = self._http.request(
                    "POST" if body else "GET", f"{self.address.url}{path}", json=sent
                )
                answer = _json(response)
                if response.is_success and "error" not in answer and answer:
                    return answer
                cause = f"{response.status_code}: {self._words(response, answer)}"
                if response.status_code not in _BUSY and not response.is_success:
                    raise RefusedError(
                        f"{self.address}: the server refuses {path} ({cause})",
                        status=response.status_code,
                        why=cause,
                    )
                retry_after = response.headers.get("Retry-After", "")
                asked_for = float(retry_after) if retry_after.isdecimal() else 0.0
            except httpx2.TransportError as error:
                cause = one_line(str(error)) or type(error).__name__
            if wait is None or self._is_closing.is_set():
                break
            if wait >= 1 and not self._is_told:
                self._is_told = True
                log(f"{self.address}: {cause}; asked again")
            self._is_closing.wait(max(wait * random.uniform(0.8, 1.2), min(asked_for, _LONGEST)))
        raise ScoringError(
            f"{self.address}: no answer to {path} in {len(waits) + 1} tries ({cause}); needed an "
            "OpenAI-compatible server that answers"
        )

    def _words(self, response: httpx2.Response, answer: dict[str, Any]) -> str:
        error = answer.get("error", answer)
        words = error.get("message", error.get("detail")) if isinstance(error, dict) else error
        message = one_line(str(words or response.text or "an empty answer"))
        return (message.replace(self._key, "***") if self._key else message)[:200]


def _json(response: httpx2.Response) -> dict[str, Any]:
    # Empty for a cut answer, and for what is no object.
    try:
        answer = response.json()
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {}

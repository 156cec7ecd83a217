"""Answers of a measurement that has not ended, in a file that only grows: started again, it goes on.

    {"of": "9c2e...", "sum": "77aa01b2"}                         what is measured
    {"key": "geo-17/0", "answer": {...}, "sum": "5d1e90c4"}      one line for each answer

A line is written at once and whole. ``sum`` is the first 8 hex digits of SHA-256 over the rest: a
line that was cut by a crash, or changed, counts as not answered.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.files.writing import write_problem
from forgetwatch.progress import log


class KeptAnswers:
    """Answers by their keys, kept in a file until the measurement is stored.

    Attributes:
        path: The file; None for none.

    Args:
        path: The file; it is made with the first answer. None keeps nothing.
        of: JSON values that determine the answers.

    Raises:
        SnapshotError: If the file holds the answers of another measurement.
    """

    def __init__(self, path: Path | None, of: Any) -> None:
        self.path, self._answers = path, dict[str, Any]()
        content = json.dumps(of, sort_keys=True).encode()
        self._of = hashlib.sha256(content).hexdigest()[:32]
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        # Not splitlines(): it also splits at characters that JSON texts may contain.
        rows = filter(None, map(_checked, path.read_bytes().split(b"\n")))
        for row in rows:
            if row.get("of", self._of) != self._of:
                raise SnapshotError(
                    f"{path}: holds the answers of another measurement; needed those of this one, "
                    "remove the file or name another output"
                )
            if "key" in row:
                self._answers[row["key"]] = row["answer"]

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Any:
        """Answer of a key.

        Returns:
            Its JSON value, or None if it is not answered.
        """
        return self._answers.get(key)

    def add(self, answers: Mapping[str, Any]) -> None:
        """Keep answers, JSON values by key."""
        self._answers |= answers
        if self.path is None:
            return
        is_new = not self.path.is_file()
        rows: list[dict[str, Any]] = [{"of": self._of}] if is_new else []
        rows += [{"key": key, "answer": answer} for key, answer in answers.items()]
        # A line break first: the last line may have been cut.
        lines = "".join(f"\n{json.dumps({**row, 'sum': _sum(row)})}" for row in rows)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:  # the measurement itself needs no file
            log(f"{write_problem(error, self.path)}; if interrupted, it begins anew")
            self.path = None

    @contextmanager
    def named_at_an_end(self) -> Iterator[None]:
        """Name the file if the measurement in the block is interrupted."""
        try:
            yield
        except (KeyboardInterrupt, ForgetwatchError):
            if self.path is not None and self._answers:
                log(f"{self.path}: {len(self):,} answers are kept; the same command goes on")
            raise

    def remove(self) -> None:
        """Remove the file: the measurement is stored."""
        with suppress(OSError):
            if self.path is not None:
                self.path.unlink()


def _sum(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:8]


def _checked(line: bytes) -> dict[str, Any] | None:
    # None for a line that was cut or changed.
    try:
        row = json.loads(line)
        return row if row.pop("sum") == _sum(row) else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None

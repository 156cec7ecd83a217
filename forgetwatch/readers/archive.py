"""The members of a ZIP file, read into memory within bounds: stored, deflated or Zstandard.

Nothing is ever written to disk, so a member's path cannot lead anywhere. Python's zipfile reads Zstandard (method 93)
from 3.14 on; pyarrow brings the decoder for all.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from forgetwatch.errors import SnapshotError

_STORED: Final = 0
_DEFLATED: Final = 8
_ZSTANDARD: Final = 93
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_BLOCK: Final = 2**20
_FREE: Final = 2**26
_RATIO: Final = 200
"""What is read may be so many times as large as it is stored, or `_FREE` bytes. Logs are packed 5 to 25 times."""

_TROUBLE: Final = (
    *(zipfile.BadZipFile, zlib.error, pa.ArrowException, OSError, EOFError, struct.error),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, IndexError),
)
"""What zipfile and the decoders raise on a file that is no ZIP, cut, or damaged."""


class Archive:
    """A ZIP file that is open.

    Args:
        path: The file.

    Raises:
        SnapshotError: If it is no ZIP file, or cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except _TROUBLE as error:
            raise SnapshotError(f"{path}: a ZIP file that cannot be opened; is it cut? ({error})") from error
        self.names = frozenset(self._zip.namelist())
        self._left = self._limit(path.stat().st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """A member's content.

        Raises:
            SnapshotError: If it is encrypted, packed in another way, damaged, or grows beyond all measure.
        """
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:
            raise SnapshotError(f"{self.path}: its member {name!r} is encrypted; needed a log without a password")
        if info.compress_type not in (_STORED, _DEFLATED, _ZSTANDARD):
            raise SnapshotError(
                f"{self.path}: its member {name!r} is packed with ZIP method {info.compress_type}; stored, deflated "
                "and Zstandard can be read"
            )
        limit = min(self._limit(info.compress_size), self._left)
        try:
            if info.compress_type == _ZSTANDARD:
                return self._unpacked(info, limit)
            with self._zip.open(info) as file:
                return self._bounded(file, info, limit)
        except _TROUBLE as error:
            raise SnapshotError(f"{self.path}: its member {name!r} cannot be read; is it cut? ({error})") from error

    @staticmethod
    def _limit(packed: int) -> int:
        return max(_FREE, _RATIO * packed)

    def _unpacked(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            mark, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if mark != b"PK\x03\x04":
                raise zipfile.BadZipFile("no member where the directory says")
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        content = self._bounded(pa.CompressedInputStream(pa.py_buffer(packed), "zstd"), info, limit)
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile("its content is not what the directory says")
        return content

    def _bounded(self, file: Any, info: zipfile.ZipInfo, limit: int) -> bytes:
        blocks, size = [], 0
        while block := file.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise SnapshotError(
                    f"{self.path}: its member {info.filename!r} grows from {info.compress_size:,} to more than "
                    f"{limit:,} bytes; no log does, so it is not read"
                )
            blocks.append(block)
        self._left -= size
        return b"".join(blocks)

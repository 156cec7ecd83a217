"""Members of a ZIP file, stored, deflated or Zstandard, read into memory within bounds.

Nothing is written to disk, so the path of a member has no effect. Python's zipfile reads Zstandard (method 93) only
from 3.14 on; pyarrow has a decoder for every version.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from forgetwatch.errors import SnapshotError
from forgetwatch.files import file_errors, unpacked_limit

_STORED: Final = 0
_DEFLATED: Final = 8
_ZSTANDARD: Final = 93
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""Header of 30 bytes before each member: signature, then the lengths of the name and the extra field after it."""
_BLOCK: Final = 2**20


class Archive:
    """An open ZIP file.

    Attributes:
        path: The file.
        names: Names of its members.

    Args:
        path: The file.

    Raises:
        SnapshotError: If it is no ZIP file, or cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with file_errors(path, "a ZIP file"):
            self._zip = zipfile.ZipFile(path)
        self.names = frozenset(self._zip.namelist())
        # For all members together: many that are within their own limits could still fill the memory.
        self._budget = unpacked_limit(path.stat().st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Content of a member.

        Raises:
            SnapshotError: If it is encrypted, packed by another method, damaged, or larger than the limit.
        """
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:  # the format's mark of encryption
            raise SnapshotError(f"{self.path}: its member {name!r} is encrypted; needed a log without a password")
        if info.compress_type not in (_STORED, _DEFLATED, _ZSTANDARD):
            raise SnapshotError(
                f"{self.path}: its member {name!r} is packed with ZIP method {info.compress_type}; stored, deflated "
                "and Zstandard can be read"
            )
        limit = min(unpacked_limit(info.compress_size), self._budget)
        with file_errors(self.path, f"its member {name!r}"):
            if info.compress_type == _ZSTANDARD:
                return self._read_zstandard(info, limit)
            with self._zip.open(info) as file:
                return self._read_bounded(file, info, limit)

    def _read_zstandard(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            mark, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if mark != b"PK\x03\x04":
                raise zipfile.BadZipFile("no member at the offset in the directory")
            # The extra field here and in the directory may differ in length, so the data begin after this one.
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        content = self._read_bounded(pa.CompressedInputStream(pa.py_buffer(packed), "zstd"), info, limit)
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile("its size or checksum is not that of the directory")
        return content

    def _read_bounded(self, file: Any, info: zipfile.ZipInfo, limit: int) -> bytes:
        # The size in the directory may be wrong, so the bytes that come out are counted.
        blocks, size = [], 0
        while block := file.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise SnapshotError(
                    f"{self.path}: its member {info.filename!r} grows from {info.compress_size:,} to more than "
                    f"{limit:,} bytes; no log does, so it is not read"
                )
            blocks.append(block)
        self._budget -= size
        return b"".join(blocks)

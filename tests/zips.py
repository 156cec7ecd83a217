"""ZIP files as other tools write them, and damaged ones: any compression, any flags, wrong sizes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

STORED, DEFLATED, ZSTANDARD = 0, 8, 93


def packed(content: bytes, method: int) -> bytes:
    if method == ZSTANDARD:
        return bytes(pa.compress(content, codec="zstd", asbytes=True))
    if method == DEFLATED:
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(content) + deflate.flush()
    return content


def write_zip(
    path: Path, members: Mapping[str, bytes], *, method: int = DEFLATED, flags: int = 0, size: int | None = None
) -> Path:
    """Write a ZIP file; `size` is the size it records for every member, the true one where it is None."""
    written, directory = b"", b""
    for name, content in members.items():
        body = packed(content, method)
        recorded = len(content) if size is None else size
        common = struct.pack(
            "<HHHHHIIIHH", 20, flags, method, 0, 0, zlib.crc32(content), len(body), recorded, len(name), 0
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(written)) + name.encode()
        written += b"PK\x03\x04" + common + name.encode() + body
    count = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(written), 0)
    path.write_bytes(written + directory + b"PK\x05\x06" + end)
    return path

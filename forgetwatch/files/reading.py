"""Files from elsewhere, read within bounds, whatever they contain.

A file may be missing, cut, of another kind, or made to fill the memory. `file_errors` is the one
place that turns what is wrong with a file into an error of forgetwatch, which names the file, what
was needed, and the cause. Only regular files are read: a pipe may never end. The bytes that gzip
unpacks to are counted: 1 MB of it may hold 1 GB of zeros.

YAML from people is texts, lists and mappings, and nothing else. Every scalar stays the text in the
file: an id 017 is not 15, a category `no` not false, and 2% needs no quotes. No tag makes an
object. A repeated key is an error, as in JSON, since the last one would silently win; so are
anchors, with which a few lines can expand to billions, and nesting beyond `MAX_DEPTH`, which costs
the parser the square of the depth.
"""

import codecs
import csv
import gzip
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import yaml

from forgetwatch.errors import ForgetwatchError, SnapshotError

DAMAGE: Final = (
    OSError,  # missing, a folder, no permission, a failing disk
    *(
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        struct.error,
    ),  # compressed data that are cut or damaged
    *(pa.ArrowException, csv.Error),  # Parquet, Zstandard, CSV
    ValueError,  # text that is not UTF-8 or has half a surrogate pair, or is not JSON or a number
    ArithmeticError,  # a number that its type cannot hold
    *(
        LookupError,
        TypeError,
        AttributeError,
    ),  # values of another type or shape than the format has
    RuntimeError,  # nested too deeply (RecursionError), or a feature that the decoder lacks (NotImplementedError)
    MemoryError,  # a size that a damaged file claims
)
"""Exceptions that the content or the place of a file causes in the libraries that read it."""

_GZIP: Final = b"\x1f\x8b"
_PACKED: Final = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "Zstandard"}
"""First bytes of packed files."""
_BLOCK: Final = 2**20
_PACKED_BLOCK: Final = 2**14
"""Bytes that are unpacked at a time; zlib copies those that remain after each MiB and each member."""
_MIN_UNPACKED: Final = 2**26
_MAX_RATIO: Final = 200
"""Data may be this many times as large unpacked as in the file. Logs are packed 5 to 25 times."""
_SHOWN: Final = 200


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from members, and refuse a repeated key.

    For `object_pairs_hook` of the json module.

    Raises:
        UnsuitableError: If a key is there twice: the last one would silently win.

    >>> unique_keys([("correct", True), ("gold", 0)])
    {'correct': True, 'gold': 0}
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnsuitableError(f"the key {twice!r:.80} is in one object twice")
    return members


class UnsuitableError(ValueError):
    """A file is whole and cannot be used all the same; the message is the reason, without the file."""


@contextmanager
def file_errors(
    path: str | Path, needed: str, error: type[ForgetwatchError] = SnapshotError
) -> Iterator[None]:
    """Turn errors of a file in the block into forgetwatch's errors.

    Args:
        path: The file.
        needed: Its expected content, with its article, as the message names it: "a gate in YAML".
        error: Class of the error.

    Raises:
        ForgetwatchError: `error` for any of `DAMAGE`, in one line. Errors of forgetwatch pass
            unchanged.
    """
    try:
        yield
    except UnsuitableError as problem:
        raise error(f"{path}: needed {needed}, got {problem}") from problem
    except FileNotFoundError as problem:
        raise error(f"{path}: no such file; needed {needed}") from problem
    except OSError as problem:
        raise error(
            f"{path}: needed {needed}, and it cannot be read: {_cause(problem)}"
        ) from problem
    except DAMAGE as problem:
        raise error(
            f"{path}: needed {needed}, and it cannot be read; is it cut? ({_cause(problem)})"
        ) from problem


def _cause(problem: BaseException) -> str:
    if isinstance(problem, MemoryError):
        return "it does not fit into the memory"
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return f"not UTF-8 text, at byte {problem.start:,}"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    line = " ".join(str(problem).split("\n", maxsplit=1)[0].split())
    # These name a Python value and not what is wrong with it.
    prefix = (
        f"{type(problem).__name__}: "
        if isinstance(problem, (LookupError, TypeError, AttributeError))
        else ""
    )
    return (
        prefix + (line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...") or type(problem).__name__
    )


def read_content(
    path: Path,
    needed: str,
    error: type[ForgetwatchError] = SnapshotError,
    *,
    limit: int | None = None,
) -> bytes:
    """Read a regular file whole, unpacked if gzip packed it.

    Errors are those of `file_errors`.

    `limit` is its maximum size in bytes, None for any; a packed file may be 200 times as large
    unpacked, or 64 MiB.
    """
    with file_errors(path, needed, error):
        size = regular_size(path)
        if limit is not None and size > limit:
            raise UnsuitableError(f"{size:,} bytes, more than the {limit:,} that are read")
        with path.open("rb") as file:
            # Counted while it is read: a file may grow, and those of the kernel have no size.
            content = _bounded(file.read, unpacked_limit(size) if limit is None else limit)
        if is_packed(content) or path.suffix == ".gz":
            content = _gunzip(content, unpacked_limit(len(content)) if limit is None else limit)
        return content


def is_packed(head: bytes) -> bool:
    """Are these the first bytes of gzip data?

    Raises:
        UnsuitableError: If they are of another program, whose data are not read.
    """
    for magic, program in _PACKED.items():
        if head.startswith(magic):
            raise UnsuitableError(
                f"a file that {program} packed; unpack it first, or pack it with gzip"
            )
    return head.startswith(_GZIP)


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked within a limit."""
    with path.open("rb") as file:
        packed = is_packed(file.read(8))
    if not packed:
        return path.open("rb")
    limit, size = unpacked_limit(path.stat().st_size), 0
    with gzip.open(path) as unpacked:
        while block := unpacked.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise UnsuitableError(
                    f"gzip data that grow to more than {limit:,} bytes; that is not read"
                )
    return cast(BinaryIO, gzip.open(path))


def read_text(
    path: Path,
    needed: str,
    error: type[ForgetwatchError] = SnapshotError,
    *,
    limit: int | None = None,
) -> str:
    r"""Read a regular UTF-8 file as text.

    The byte order mark is removed, and line ends are ``\n``.

    See `read_content`.
    """
    content = read_content(path, needed, error, limit=limit)
    with file_errors(path, needed, error):
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def table_suffix(path: Path) -> str:
    """Suffix of a table in lower case, before that of gzip.

    >>> table_suffix(Path("QUESTIONS.CSV")), table_suffix(Path("log.jsonl.gz"))
    ('.csv', '.jsonl')
    """
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def table_text(data: bytes) -> str:
    """Decode a table from UTF-8 or UTF-16.

    The byte order mark decides, and is removed.

    Raises:
        UnsuitableError: If it is in neither: other encodings cannot be told apart with certainty.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnsuitableError(
            f"text in another encoding than UTF-8 (byte {error.start:,}), such as cp1252 or "
            "GBK; save it as UTF-8"
        ) from error


def csv_dialect(text: str) -> tuple[str, str]:
    r"""Find the separator of a CSV text.

    Also returns the text without the line by which spreadsheets name the separator.

    Without that line it is the separator that is most frequent in the header: spreadsheets of some
    languages write semicolons.

    >>> csv_dialect("sep=;\nid;correct\n")
    (';', 'id;correct\n')
    """
    first_line, _, rest = text.partition("\n")
    if sep_line := re.fullmatch(r'"?sep=(.)"?\s*', first_line.strip("\r"), re.IGNORECASE):
        return sep_line[1], rest
    return max(",;\t", key=first_line.count), text


def regular_size(path: Path) -> int:
    """Size of a regular file in bytes.

    Raises:
        OSError or UnsuitableError: If there is none, or the path is a pipe or a device.
    """
    state = path.stat()
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(
        state.st_mode
    ):  # opening a folder has its own error
        raise UnsuitableError("a pipe or device; write it to a file first")
    return state.st_size


def read_head(path: Path) -> bytes:
    """Read the first 4 KiB of a regular file, unpacked.

    Returns:
        The bytes, none for a folder. Errors are those of `regular_size`.
    """
    regular_size(path)
    if path.is_dir():
        return b""
    with path.open("rb") as file:
        head = file.read(4096)
    return zlib.decompressobj(wbits=31).decompress(head, 4096) if is_packed(head) else head


def unpacked_limit(packed: int, *, least: int = _MIN_UNPACKED) -> int:
    """Bytes that packed data of this size may unpack to."""
    return max(least, _MAX_RATIO * packed)


def _bounded(read: Callable[[int], bytes], limit: int) -> bytes:
    blocks, size = [], 0
    while block := read(_BLOCK):
        size += len(block)
        if size > limit:
            raise UnsuitableError(f"more than {limit:,} bytes; that is not read")
        blocks.append(block)
    return b"".join(blocks)


def _gunzip(packed: bytes, limit: int) -> bytes:
    blocks, size = [], 0
    member = zlib.decompressobj(wbits=31)  # gzip, with its checksum
    for start in range(0, len(packed), _PACKED_BLOCK):
        part = packed[start : start + _PACKED_BLOCK]
        while part:
            if member.eof:
                part = part.lstrip(b"\0")  # some programs pad the last member
                if not part:
                    break
                member = zlib.decompressobj(wbits=31)
            block = member.decompress(part, _BLOCK)
            part = member.unconsumed_tail or member.unused_data
            size += len(block)
            if size > limit:
                raise UnsuitableError(
                    f"gzip data that grow to more than {limit:,} bytes; that is not read"
                )
            blocks.append(block)
    if packed and not member.eof:
        raise EOFError("not a whole gzip file")
    return b"".join(blocks)


def is_text(value: object) -> bool:
    """Can UTF-8 hold this text?

    Half of a surrogate pair, which JSON can name, cannot be written or shown.
    """
    return isinstance(value, str) and (
        value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    )


def holds_text(value: object) -> bool:
    """Is every text in a JSON value, names included, `is_text`?"""
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, Mapping):
        return all(holds_text(name) and holds_text(member) for name, member in value.items())
    return not isinstance(value, (list, tuple)) or all(map(holds_text, value))


Plain = str | Sequence["Plain"] | dict[str, "Plain"]

MAX_DEPTH: Final = 20
MAX_SIZE: Final = 2**19
"""Bytes of a file of YAML; the parser needs up to 4 seconds for them."""


def read_plain_yaml(path: Path, needed: str, error: type[ForgetwatchError]) -> Plain:
    """Read a file with one YAML document, by `parse_plain_yaml`."""
    return parse_plain_yaml(read_text(path, needed, error, limit=MAX_SIZE), path, needed, error)


def parse_plain_yaml(
    text: str, source: str | Path, needed: str, error: type[ForgetwatchError]
) -> Plain:
    """Parse the one YAML document in a text.

    An empty document is an empty text.

    Args:
        text: YAML.
        source: Name of the file, for messages.
        needed: Its expected content, with its article, as messages name it.
        error: Class of the errors.

    Raises:
        ForgetwatchError: `error`, if it is not YAML, or has anchors, deep nesting, repeated keys,
            or keys that are not texts.
    """
    with file_errors(source, needed, error):
        try:
            document: Plain | None = _Loader(text).get_single_data()
        except _RefusedError as problem:
            line = "" if problem.problem_mark is None else f", line {problem.problem_mark.line + 1}"
            raise error(f"{source}{line}: {problem.problem}") from problem
        except yaml.YAMLError as problem:
            cause = " ".join(str(problem).split())
            raise error(f"{source}: needed {needed}, and it is not YAML: {cause}") from problem
        return "" if document is None else document


class _RefusedError(yaml.MarkedYAMLError):
    """YAML that is not read."""


class _Loader(yaml.BaseLoader):
    """Texts, lists and mappings; an alias and a deep nesting are refused before the rest is read."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node, unless the first event is refused."""
        event, reason = self.peek_event(), ""  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            reason = "anchors are not read; write it out"
        elif isinstance(event, yaml.ScalarEvent):
            reason = (
                ""
                if is_text(event.value)
                else f"{event.value!r:.80} is half of a surrogate pair and no text"
            )
        elif self.depth >= MAX_DEPTH:
            reason = f"nested more than {MAX_DEPTH} deep"
        if reason:
            raise _RefusedError(problem=reason, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Build a mapping whose keys are texts, each once."""
        names = set[str]()
        for name, _ in node.value:
            reason = (
                ""
                if isinstance(name, yaml.ScalarNode)
                else "needed a text as the key, got a list or a mapping"
            )
            if not reason and name.value in names:
                reason = f"{name.value!r:.80} is there twice; only one of the two would count"
            if reason:
                raise _RefusedError(problem=reason, problem_mark=name.start_mark)
            names.add(name.value)
        return super().construct_mapping(node, deep=deep)

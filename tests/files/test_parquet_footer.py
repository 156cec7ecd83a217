from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgetwatch.files import ColumnChunk, read_footer

TABLE = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int32()),
        "text": ["a", "é", None],
        "truth": [True, False, None],
        "lists": [[1.0, 2.0], [], None],
        "object": [{"texts": ["a"] * 20, "stamp": 1.5}] * 3,
        **{f"column {number}": [number] * 3 for number in range(20)},
    }
)


def test_the_footer_has_the_numbers_that_pyarrow_reads(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=2)
    metadata = pq.ParquetFile(tmp_path / "t.parquet").metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [[group.column(number) for number in range(group.num_columns)] for group in groups]
    expected = [
        [(column.path_in_schema, column.num_values, column.total_uncompressed_size) for column in group]
        for group in columns
    ]
    found = read_footer(tmp_path / "t.parquet")
    assert [[(chunk.path, chunk.values, chunk.uncompressed) for chunk in group] for group in found] == expected
    assert len(found) == 2
    assert {chunk.path: chunk.width for chunk in found[0][:5]} == {
        **{"n": 4, "text": 4, "truth": 1},
        **{"lists.list.element": 8, "object.texts.list.element": 4},
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not end as"),
        (b"PAR1PAR1", "its footer is longer than the file"),
        (b"PAR1" + b"\x00" + struct.pack("<I", 1) + b"PAR1", "4"),
        (b"PAR1" + b"\x49\xfc" + b"\xff" * 12 + struct.pack("<I", 14) + b"PAR1", "more than 64 bits"),
        (b"PAR1" + b"\x49\xfc\xff\x7f" + struct.pack("<I", 4) + b"PAR1", "a list in its footer is longer"),
        (b"PAR1" + b"\x1b\xff\x7f\x88" + struct.pack("<I", 4) + b"PAR1", "a map in its footer is longer"),
        (b"PAR1" + b"\x18\x7f" + struct.pack("<I", 2) + b"PAR1", "its footer is cut"),
        (b"PAR1" + b"\x1f" + struct.pack("<I", 1) + b"PAR1", "unknown type 15"),
    ],
)
def test_a_damaged_footer_is_an_error(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises((ValueError, LookupError), match=why):
        read_footer(tmp_path / "t.parquet")


def write_footer(path: Path, footer: bytes) -> Path:
    path.write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def test_a_field_of_another_type_is_skipped_as_pyarrow_does(tmp_path: Path) -> None:
    # Type 1, encoding 7, path n, 50 values, 100 bytes; then the number of values again, 1, as one of 32 bits.
    described = (
        b"\x15\x02" + b"\x19\x15\x0e" + b"\x19\x18\x01n" + b"\x26\x64" + b"\x16\xc8\x01" + b"\x05\x0a\x02" + b"\x00"
    )
    footer = b"\x49\x1c" + b"\x19\x1c" + b"\x3c" + described + b"\x00" + b"\x00" + b"\x00"
    ((chunk,),) = read_footer(write_footer(tmp_path / "t.parquet", footer))
    assert chunk == ColumnChunk("n", values=50, width=4, uncompressed=100, encodings=frozenset({7}))


def test_fields_that_are_not_needed_take_no_memory(tmp_path: Path) -> None:
    path = write_footer(tmp_path / "t.parquet", b"\x19\xf5\x80\x89\x7a" + b"\x02" * 2_000_000 + b"\x39\x0c\x00")
    tracemalloc.start()
    assert read_footer(path) == []
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_a_negative_size_is_an_error(tmp_path: Path) -> None:
    described = b"\x15\x02" + b"\x19\x15\x0e" + b"\x19\x18\x01n" + b"\x26\x64" + b"\x16\x01" + b"\x00"
    footer = b"\x49\x1c" + b"\x19\x1c" + b"\x3c" + described + b"\x00" + b"\x00" + b"\x00"
    with pytest.raises(ValueError, match="needed a size of at least 0 in its footer, got -1"):
        read_footer(write_footer(tmp_path / "t.parquet", footer))


def test_a_damaged_number_of_values_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1] * 50}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    at = whole.rindex(b"\x16\x64\x16")  # field 5: 50, as a signed varint
    (tmp_path / "t.parquet").write_bytes(whole[: at + 1] + b"\x63" + whole[at + 2 :])
    with pytest.raises(ValueError, match="needed a number of values of at least 0 in its footer, got -50"):
        read_footer(tmp_path / "t.parquet")

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgetwatch.files.parquet_footer import read_footer

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
    expected = [
        [(group.column(number).path_in_schema, group.column(number).num_values) for number in range(group.num_columns)]
        for group in groups
    ]
    found = read_footer(tmp_path / "t.parquet")
    assert [[(chunk.path, chunk.values) for chunk in group] for group in found] == expected
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


def test_a_damaged_number_of_values_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1] * 50}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    at = whole.rindex(b"\x16\x64\x16")  # field 5: 50, as a signed varint
    (tmp_path / "t.parquet").write_bytes(whole[: at + 1] + b"\x63" + whole[at + 2 :])
    with pytest.raises(ValueError, match="needed a number of values in its footer, got -50"):
        read_footer(tmp_path / "t.parquet")

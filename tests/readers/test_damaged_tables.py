"""Plain tables that are cut, damaged or of odd types: an error of ours, or a snapshot; never anything else."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch import load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.readers import ColumnMap, read_mapped

ROWS = [
    {"item_id": str(n), "task": "t", "k": 4, "gold": n % 4, "chosen": 1, "correct": n % 2 == 0, "output": 'a,\nb"é'}
    for n in range(6)
]


def _parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), made)
    return made.getvalue()


WHOLE = {
    "csv": b"item_id,correct,k,gold,output\n" + b"".join(b'%d,%d,4,2,"x,\ny"\n' % (n, n % 2) for n in range(6)),
    "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "json": json.dumps(ROWS).encode(),
    "parquet": _parquet(),
}
ODD = st.sampled_from(
    [*(b"\x00", b"\xff\xfe", b"1e400", b"9" * 400, b"null", b"[", b'"', b"{" * 3000, b"-1", b"true", b"\n"),
     *(b"\xed\xa0\x80", b"")]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> bytes:
    whole = WHOLE[kind]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(whole) - 1)))
        end = draw(st.integers(start, min(len(whole), start + 40)))
        whole = whole[:start] + draw(ODD) + whole[end:]
    return whole[: draw(st.integers(len(whole) // 2, len(whole)))] if draw(st.booleans()) else whole


@pytest.mark.parametrize("kind", WHOLE)
@settings(derandomize=True, max_examples=120, deadline=None)
@given(data=st.data())
def test_a_damaged_table_is_an_error_of_ours_or_a_snapshot(kind: str, data: st.DataObject) -> None:
    content = data.draw(damaged(kind))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log.{kind}"
        path.write_bytes(content)
        for columns in (
            None,
            ColumnMap(fields={"item_id": "item_id", "correct": "correct", "question": "output"}),
            ColumnMap(fields={"question": "item_id", "output": "output", "gold": "k"}, match="number"),
        ):
            try:
                read = load_snapshot(path) if columns is None else read_mapped(path, columns)
                message = f"log., {len(read)} rows"
            except SnapshotError as error:
                message = str(error)
            assert "log." in message

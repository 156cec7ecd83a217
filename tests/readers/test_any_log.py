"""Any content of a log gives a correct snapshot or a SnapshotError, never another exception, and never much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from harness_rows import DATE, choice_row, open_row, results
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch import Snapshot, load_snapshot
from forgetwatch.errors import SnapshotError

ROWS = [choice_row(n, (-2.0 - n, -1.5, -3.0), n % 3) for n in range(4)]
ROWS += [choice_row(4, (-1.0, -2.0), 1, metrics={"acc": 0.0, "acc_norm": 1.0})]
OPEN = [open_row(10 + n, " é 😀", {"exact_match": n % 2}, filtered=name) for name in ("a", "b") for n in range(3)]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*ROWS, *OPEN]).encode()
DOCUMENT = json.dumps(results({"t": ROWS, "u": OPEN}), ensure_ascii=False, indent=1).encode()

ODD: list[Any] = [None, True, 0, -1, 1e400, -1e400, float("nan"), 10**400, "", "x", "\x00", "\ud800", "1", [], [[]], {}]
ODD += [[[["-1.0", "False"]]], [1, 2], {"a": 1}, [[None]], [[1, 2, 3]], ["exact_match"], "[0, 1]", {"gen_args_0": 3}]

few = settings(max_examples=60, derandomize=True)


@contextmanager
def written(content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"samples_t_{DATE}.jsonl"
        path.write_bytes(content)
        yield path


def read(content: bytes) -> Snapshot | None:
    """The snapshot, or None if the reader refuses it."""
    with written(content) as path:
        try:
            return load_snapshot(path)
        except SnapshotError as error:
            message = str(error)
        assert str(path) in message
        return None


@pytest.mark.parametrize("content", [LINES, DOCUMENT], ids=["lines", "document"])
@given(data=st.data())
@few
def test_a_log_cut_at_any_byte_is_refused_or_holds_the_rows_before(content: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(content) - 1))
    found = read(content[:end])
    if content is DOCUMENT:
        assert found is None
    elif found is not None:
        assert content[:end].endswith(b"\n") or content[end : end + 1] == b"\n"
        whole = read(content)
        assert whole is not None
        rows = len(found)
        assert found.texts("content_hash").tolist() == whole.texts("content_hash")[:rows].tolist()


@given(order=st.permutations(range(len(ROWS) + len(OPEN))))
@few
def test_the_order_of_the_lines_changes_nothing(order: list[int]) -> None:
    lines = LINES.splitlines(keepends=True)
    whole, found = (read(content) for content in (LINES, b"".join(lines[index] for index in order)))
    assert whole is not None
    assert found is not None
    for metric in ("correct", "k", "gold", "chosen", "choice_logprobs", "output", "item_id"):
        sides = [
            dict(zip(one.texts("content_hash"), one.table[metric].to_pylist(), strict=True)) for one in (whole, found)
        ]
        if metric != "correct" or whole.meta["metric"] == found.meta["metric"]:
            assert sides[0] == sides[1]


@given(
    index=st.integers(0, len(ROWS) + len(OPEN) - 1),
    field=st.sampled_from([*sorted(ROWS[0]), "exact_match"]),
    value=st.sampled_from(ODD),
    within=st.booleans(),
)
@settings(few, max_examples=300)
def test_a_wrong_type_in_any_field_is_refused_or_changes_that_row_only(
    index: int, field: str, value: Any, within: bool
) -> None:
    rows = json.loads(json.dumps([*ROWS, *OPEN]))
    held = rows[index].get(field)
    if within and isinstance(held, list) and held:
        held[-1] = value
    elif within and isinstance(held, dict) and held:
        held[next(iter(held))] = value
    else:
        rows[index][field] = value
    for content in ("\n".join(map(json.dumps, rows)), json.dumps(results({"t": rows}))):
        check(read(content.encode()), rows)


@cache
def unchanged() -> dict[str, dict[str, Any]]:
    """Rows of the unchanged log, by the hash of their text."""
    whole = read(LINES)
    assert whole is not None
    assert len(whole) == len(set(whole.texts("content_hash")))
    return {row["content_hash"]: row for row in whole.table.to_pylist()}


def check(found: Snapshot | None, rows: list[dict[str, Any]]) -> None:
    """Assert that at most one row differs from the unchanged log."""
    if found is None:
        return
    known = unchanged()
    same = [row for row in found.table.to_pylist() if row["content_hash"] in known]
    assert len(same) >= len(known) - 1
    for name in ("k", "choice_logprobs", "output"):
        changed = [row for row in same if row[name] != known[row["content_hash"]][name]]
        assert len(changed) <= 1


@given(name=st.sampled_from(sorted(results({}))), value=st.sampled_from(ODD))
@settings(few, max_examples=150)
def test_a_wrong_type_in_any_part_of_results_is_refused_or_ignored(name: str, value: Any) -> None:
    made = {**results({"t": ROWS}), name: value}
    found = read(json.dumps(made).encode())
    if name != "samples":
        assert found is not None
        assert len(found) == len(ROWS)
    elif found is not None:
        raise AssertionError(f"samples that are {value!r} were read")


@pytest.mark.parametrize("content", [LINES, DOCUMENT], ids=["lines", "document"])
@given(data=st.data())
@few
def test_any_byte_changed_is_refused_or_read(content: bytes, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.sampled_from([0, 0x22, 0x5B, 0x5D, 0x7B, 0x7D, 0x2C, 0x80, 0xC3, 0xFF, 0x39]))
    found = read(content[:index] + bytes([byte]) + content[index + 1 :])
    assert found is None or len(found) >= len(ROWS)


@pytest.mark.parametrize("depth", [200, 900, 5_000, 200_000])
@pytest.mark.parametrize("field", ["doc", "target", "doc_id", "resps", "acc", "arguments", "metrics"])
def test_deep_nesting_is_refused_or_read(depth: int, field: str) -> None:
    deep = "[" * depth + "1" + "]" * depth
    row = json.dumps({**ROWS[0], field: "HERE"}).replace('"HERE"', deep).encode()
    for content in (
        LINES + row,
        DOCUMENT.replace(json.dumps(ROWS[0]["doc"], indent=1).encode(), b"3"),
        b"[" + row + b"]",
    ):
        found = read(content)
        assert found is None or len(found)


@pytest.mark.parametrize(
    "number", ["1" * 5000, "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" * 400, "0." + "3" * 3000]
)
def test_numbers_of_any_size_are_refused_or_read(number: str) -> None:
    line = json.dumps({**ROWS[0], "resps": [[["HERE", False]], [[-1.0, False]]], "acc": "THERE"})
    found = read(line.replace('"HERE"', number).replace('"THERE"', "1").encode())
    if found is not None:
        logged = found.table["choice_logprobs"][0].as_py()
        assert logged is None or logged == [float(number), -1.0]
    # Python reads no whole number of 5,000 digits, and no log-likelihood is plus infinity.
    assert (found is None) == (number in ("1" * 5000, "1e400", "Infinity"))
    found = read(line.replace('"HERE"', "-2").replace('"THERE"', number).encode())
    assert found is None


@pytest.mark.parametrize(
    "noise", [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'{"doc_id":', b"[", b"[[", b"{", b"[{"]
)
def test_noise_at_either_end_is_refused_or_read(noise: bytes) -> None:
    for content in (LINES, DOCUMENT):
        before = read(noise + content)
        assert (before is not None) == (noise == b"\xef\xbb\xbf")  # a byte order mark is no noise
        assert read(content + noise) is None
        assert read(noise) is None


MEASURE = r"""
import re, sys
from pathlib import Path
from forgetwatch import load_snapshot
assert len(load_snapshot(sys.argv[1])) == int(sys.argv[2])
print(int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the highest memory of a process is read from /proc")
@pytest.mark.parametrize("shape", ["choices", "outputs", "document", "small rows"])
def test_memory_stays_under_four_times_the_file_and_100_mb(tmp_path: Path, shape: str) -> None:
    rows = {
        "choices": (40_000, lambda n: choice_row(n, (-1.0, -2.0, -3.0, -4.0), n % 4)),
        "outputs": (12_000, lambda n: open_row(n, "word " * 800 + "😀", {"exact_match": n % 2})),
        "document": (40_000, lambda n: choice_row(n, (-1.0, -2.0, -3.0, -4.0), n % 4)),
        "small rows": (100_000, lambda n: open_row(n, "A", {"exact_match": 1})),
    }
    count, make = rows[shape]
    path = tmp_path / f"samples_t_{DATE}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write('{"results": {}, "samples": {"t": [' if shape == "document" else "")
        for number in range(count):
            file.write(("," if number and shape == "document" else "") + json.dumps(make(number), ensure_ascii=False))
            file.write("\n")
        file.write("]}}" if shape == "document" else "")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(count)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4 * path.stat().st_size + 100 * 10**6

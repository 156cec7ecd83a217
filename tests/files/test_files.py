import errno
import gzip
import os
import resource
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch import load_snapshot
from forgetwatch.errors import GateError, ProbeError, SnapshotError
from forgetwatch.files.reading import Plain, file_errors, read_content
from forgetwatch.files.reading import parse_plain_yaml as parse
from forgetwatch.files.table_files import parquet_batches, read_parquet
from forgetwatch.files.writing import write_atomically, write_problem, write_text
from forgetwatch.probe import read_probe


def test_missing_folders_are_made_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "a.txt", lambda path: path.write_text("whole"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]
    assert (tmp_path / "new" / "a.txt").read_text() == "whole"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_a_link_is_followed_and_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomically(tmp_path / "link.txt", lambda path: path.write_text("new"))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)) as reader:
        write_atomically(tmp_path / "pipe", lambda path: path.write_text("through"))
        assert reader.read() == "through"
    assert (tmp_path / "pipe").is_fifo()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(target, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "old"


def test_any_text_is_written_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "t.txt", "a\ud800b\né")
    assert (tmp_path / "t.txt").read_bytes() == "a?b\né".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]


def test_two_containers_with_one_process_id_write_and_read_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are process 1 of their container, and share the folder."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    target, contents = tmp_path / "look.parquet", {name * 50_000 for name in "abcd"}
    write_text(target, "a" * 50_000)
    failures: list[BaseException] = []
    done = threading.Event()

    def repeat(content: str) -> None:
        try:
            for _ in range(50):
                write_text(target, content)
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        while not done.is_set():
            if (found := target.read_text()) not in contents:
                failures.append(AssertionError(f"a part of {len(found)} characters"))

    writers = [threading.Thread(target=repeat, args=(content,)) for content in contents]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert failures == []
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_temporary_name_is_hidden_and_recognisable_and_no_longer_than_a_name_may_be(
    tmp_path: Path,
) -> None:
    seen: list[Path] = []
    for name in ("step-000060.parquet", "é" * 120 + ".csv"):
        write_atomically(tmp_path / name, lambda path: (seen.append(path), path.write_text("x")))
        write_atomically(tmp_path / name, lambda path: (seen.append(path), path.write_text("x")))
    assert len({path.name for path in seen}) == 4
    assert all(path.match(".*.partial") for path in seen)
    assert seen[0].name.startswith(".step-000060.parquet.")


def bomb(path: Path, *, rows: int, text: int) -> Path:
    """A small Parquet file of one long text in every row."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array(["x" * text])
    )
    table = pa.table(
        {"item_id": [str(n) for n in range(rows)], "correct": [True] * rows, "output": texts}
    )
    pq.write_table(table, path, compression="zstd", store_schema=False)
    return path


@pytest.mark.full(reason="memory that is filled")
def test_a_table_that_would_fill_the_memory_is_refused_before_it_does(tmp_path: Path) -> None:
    path = bomb(tmp_path / "b.parquet", rows=4000, text=10**6)
    assert path.stat().st_size < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        SnapshotError,
        match=r"b\.parquet: needed a table .* grows from 9,\d\d\d to more than 536,870,912",
    ):
        load_snapshot(path)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    )  # KiB; the texts are 4 GB
    numbers = pa.table(
        {"item_id": [str(n) for n in range(2000)], "choice_logprobs": [[-1.0] * 100_000] * 2000}
    )
    pq.write_table(numbers, tmp_path / "n.parquet", compression="zstd")
    with pytest.raises(SnapshotError, match="to more than 536,870,912"):
        load_snapshot(tmp_path / "n.parquet")
    assert len(read_parquet(bomb(tmp_path / "fine.parquet", rows=400, text=10**5))) == 400


def test_the_limit_holds_for_all_batches_that_a_caller_keeps(tmp_path: Path) -> None:
    path = bomb(tmp_path / "b.parquet", rows=600, text=10**6)
    with pytest.raises(ValueError, match="grows from"):
        list(parquet_batches(path, rows=100))
    assert sum(batch.num_rows for batch in parquet_batches(path, rows=100, kept=False)) == 600


def test_the_limit_holds_for_the_row_groups_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forgetwatch.files.table_files._MIN_UNPACKED_TABLE", 10**6)
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"n": np.zeros(300_000, np.int64)}), path, row_group_size=100_000)
    assert 200 * path.stat().st_size < 2_400_000  # the size of all groups
    with pytest.raises(ValueError, match="grows from"):
        list(parquet_batches(path, rows=1000))
    assert sum(len(batch) for batch in parquet_batches(path, rows=1000, groups=[1])) == 100_000
    assert list(parquet_batches(path, rows=1000, groups=[])) == []


def test_measuring_sees_texts_in_objects_lists_and_maps(tmp_path: Path) -> None:
    rows = [{"o": {"t": "x" * 10**6, "l": ["y" * 10**6] * 2}, "m": [("k", "z" * 10**6)]}] * 200
    kind = pa.schema(
        {
            "o": pa.struct({"t": pa.string(), "l": pa.list_(pa.string())}),
            "m": pa.map_(pa.string(), pa.string()),
        }
    )
    for names in (["o"], ["o", "m"]):
        table = pa.Table.from_pylist(rows, schema=kind).select(names)
        pq.write_table(table, tmp_path / "t.parquet", compression="zstd")
        size = sum(200 * 10**6 * {"o": 3, "m": 1}[name] for name in names)
        with pytest.raises(ValueError, match="grows from"):
            read_parquet(tmp_path / "t.parquet")
        assert size > 2**29
    (batch,) = parquet_batches(tmp_path / "t.parquet", columns=["m"], rows=200)
    assert batch["m"][0].as_py() == rows[0]["m"]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_in_every_encoding_are_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    encodings = {"item_id": encoding, "correct": "PLAIN", "o.texts.list.element": encoding}
    rows = [
        {
            "item_id": f"item {number}",
            "correct": number % 2 == 0,
            "o": {"texts": ["é", f"text {number}"]},
        }
        for number in range(2000)
    ]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, path, use_dictionary=False, column_encoding=encodings, row_group_size=700)
    assert read_parquet(path).equals(table)
    assert load_snapshot(path).table["item_id"].to_pylist() == table["item_id"].to_pylist()
    batches = list(parquet_batches(path, columns=["item_id"], rows=1000))
    assert [text for batch in batches for text in batch["item_id"].to_pylist()] == table[
        "item_id"
    ].to_pylist()


def test_a_column_whose_encoding_changes_is_read(tmp_path: Path) -> None:
    """A dictionary that has become too large is followed by pages in another encoding."""
    texts = [f"{number} {'x' * 100}" for number in range(20_000)]
    pq.write_table(
        pa.table({"t": texts}),
        tmp_path / "t.parquet",
        dictionary_pagesize_limit=1000,
        version="2.6",
    )
    assert read_parquet(tmp_path / "t.parquet")["t"].to_pylist() == texts


def test_texts_in_objects_are_read_over_several_row_groups(tmp_path: Path) -> None:
    table = pa.table({"doc": [{"query": f"question {number % 7}"} for number in range(300)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    assert read_parquet(tmp_path / "t.parquet").equals(table)


def test_one_row_with_a_long_list_is_refused_before_it_is_read(tmp_path: Path) -> None:
    rows, ends = pa.array(np.zeros(2**26 + 2**20)), pa.array([0, 2**26 + 2**20], pa.int32())
    pq.write_table(
        pa.table({"n": pa.ListArray.from_arrays(ends, rows)}),
        tmp_path / "t.parquet",
        compression="zstd",
    )
    del rows
    assert (tmp_path / "t.parquet").stat().st_size < 2_000
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(ValueError, match="to more than 536,870,912 bytes"):
        read_parquet(tmp_path / "t.parquet")
    assert pa.default_memory_pool().max_memory() == before


DAMAGED = """
import random, struct, sys
from pathlib import Path
from forgetwatch import load_snapshot
from forgetwatch.errors import ForgetwatchError
from forgetwatch.readers.mapping import ColumnMap, read_mapped
path, rng = Path(sys.argv[1]), random.Random(7)
whole = path.read_bytes()
end = len(whole) - 8
start = end - struct.unpack("<I", whole[end:-4])[0]
read = refused = 0
for number in range(200):
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(start, end) if number % 4 else rng.randrange(4, start)
        data[at] = rng.choice((0, 1, 127, 128, 255, data[at] ^ 1 << rng.randrange(8)))
    path.write_bytes(data)
    for load in (load_snapshot, lambda path: read_mapped(path, ColumnMap(where={"model": "b"}))):
        try:
            load(path)
            read += 1
        except ForgetwatchError:
            refused += 1
print(read, refused)
"""


def test_a_damaged_parquet_file_is_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own: pyarrow ends the process if it is asked for a column of a damaged footer."""
    table = {
        **{
            "item_id": [str(row) for row in range(40)],
            "correct": [True, False] * 20,
            "model": ["a"] * 20 + ["b"] * 20,
        },
        **{"choice_logprobs": [[-1.0, -2.0]] * 40, "meta": [{"text": "x", "list": ["y"] * 2}] * 40},
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=20)
    command = [sys.executable, "-c", DAMAGED, str(tmp_path / "t.parquet")]
    read, refused = map(
        int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    )
    assert read + refused == 400
    assert min(read, refused) > 20


@pytest.mark.full("DELTA", reason="further hostile files")
@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "fixed length"]
)
def test_equal_texts_without_a_dictionary_are_refused_before_they_fill_the_memory(
    encoding: str, tmp_path: Path
) -> None:
    path, text = tmp_path / "t.parquet", "x" * 2**20
    if encoding == "fixed length":
        values = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(600, np.int32)), pa.array([text], pa.binary(2**20))
        )
        pq.write_table(pa.table({"t": values}), path, compression="zstd", store_schema=False)
    else:
        table = pa.table({"t": [text] * 600})
        pq.write_table(
            table, path, use_dictionary=False, column_encoding={"t": encoding}, compression="zstd"
        )
        del table
    assert path.stat().st_size < 200_000
    # In a process of its own, whose peak does not hold the table above; pages are not in a pool set from Python.
    read = """
import sys
from pathlib import Path
import pyarrow as pa
from forgetwatch.files.table_files import read_parquet
try:
    read_parquet(Path(sys.argv[1]))
except ValueError as error:
    print(pa.default_memory_pool().max_memory(), error)
"""
    done = subprocess.run(
        [sys.executable, "-c", read, str(path)], capture_output=True, text=True, check=True
    )
    peak, _, message = done.stdout.partition(" ")
    assert "to more than 536,870,912 bytes" in message
    assert int(peak) < (2**29 if encoding == "DELTA_BYTE_ARRAY" else 2**26)


def test_gzip_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b"\0" * 2**28))
    with pytest.raises(
        ProbeError,
        match=r"p\.jsonl\.gz: needed a probe in JSONL, got .* more than 67,108,864 bytes",
    ):
        read_probe(path)


def test_gzip_of_several_members_and_with_padding_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n") + b"\0" * 100)
    assert read_content(tmp_path / "a.gz", "text") == b"one\ntwo\n"
    large = os.urandom(3 * 2**20)
    (tmp_path / "b.gz").write_bytes(gzip.compress(large))
    assert read_content(tmp_path / "b.gz", "text") == large


def test_gzip_costs_time_in_proportion_to_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._of = make(wbits=wbits)

        def decompress(self, data: bytes, size: int) -> bytes:
            given.append(len(data))
            return self._of.decompress(data, size)

        def __getattr__(self, name: str) -> object:
            return getattr(self._of, name)

    make = zlib.decompressobj
    packed = gzip.compress(os.urandom(2**24), 1)
    (tmp_path / "a.gz").write_bytes(packed)
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert len(read_content(tmp_path / "a.gz", "text")) == 2**24
    assert sum(given) < 1.5 * len(packed)


def test_gzip_that_is_cut_or_followed_by_something_else_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(2**14)) + gzip.compress(b"two\n")
    sizes = [1, 9, 2**14 - 1, 2**14, 2**14 + 1, len(packed) - 25, len(packed) - 8, len(packed) - 1]
    for content in (
        *(packed[:size] for size in sizes),
        packed + b"rest",
        packed + b"\0" * 2**15 + b"rest",
    ):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(
            SnapshotError,
            match=r"^\S+a\.gz: needed text, and it cannot be read; is it cut\? \(.+\)$",
        ):
            read_content(tmp_path / "a.gz", "text")


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_a_pipe_or_device_is_refused_and_not_waited_for(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        SnapshotError, match="needed text, got a pipe or device; write it to a file first"
    ):
        read_content(tmp_path / path, "text")


CUT = "needed a gate, and it cannot be read; is it cut?"


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (FileNotFoundError(2, "No such file"), "no such file; needed a gate"),
        (
            PermissionError(13, "Permission denied"),
            "needed a gate, and it cannot be read: Permission denied",
        ),
        (MemoryError(), f"{CUT} (it does not fit into the memory)"),
        (RecursionError("maximum recursion depth"), f"{CUT} (nested too deeply)"),
        (KeyError("pages"), f"{CUT} (KeyError: 'pages')"),
        (pa.ArrowInvalid("one\ntwo"), f"{CUT} (one)"),
        (OverflowError(), f"{CUT} (OverflowError)"),
        (zlib.error("x" * 500), f"{CUT} (" + "x" * 200 + "...)"),
    ],
)
def test_what_a_file_does_wrong_is_one_sentence_with_the_cause(
    problem: Exception, says: str
) -> None:
    with pytest.raises(GateError) as found, file_errors("f", "a gate", GateError):
        raise problem
    assert str(found.value) == f"f: {says}"
    assert found.value.__cause__ is problem


def test_errors_of_ours_pass_unchanged_and_others_are_not_hidden() -> None:
    with pytest.raises(ProbeError, match=r"^as it is$"), file_errors("f", "a gate", GateError):
        raise ProbeError("as it is")
    with pytest.raises(AssertionError), file_errors("f", "a gate", GateError):
        raise AssertionError


@pytest.mark.parametrize(
    "names_it", [True, False], ids=["opening the temporary file", "writing it"]
)
def test_the_error_of_a_write_names_the_file_and_not_the_temporary_one(
    tmp_path: Path, names_it: bool
) -> None:
    def full(partial: Path) -> None:
        raise OSError(
            errno.ENOSPC, "No space left on device", *([str(partial)] if names_it else [])
        )

    with pytest.raises(OSError, match="No space left on device") as raised:
        write_atomically(tmp_path / "look", full)
    assert raised.value.filename == str(tmp_path / "look")


def test_a_failed_write_is_told_with_its_reason_and_its_file(tmp_path: Path) -> None:
    for number in (errno.ENOSPC, errno.EFBIG):
        assert write_problem(OSError(number, "no"), tmp_path) == f"disk full at {tmp_path}"
    assert (
        write_problem(OSError(errno.EACCES, "Permission denied", "a/b"), tmp_path)
        == "Permission denied at a/b"
    )


def test_a_small_file_of_many_rows_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path, rows = tmp_path / "many.parquet", 2**22 + 1
    pq.write_table(pa.table({"correct": pa.array(np.zeros(rows, bool))}), path, row_group_size=rows)
    with (
        pytest.raises(
            SnapshotError,
            match=rf"got one of {rows:,} rows in [\d,]+ bytes, more than such a file can hold",
        ),
        file_errors(path, "a table"),
    ):
        read_parquet(path)


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the flush a crash after the rename could leave an empty file under the final name."""
    events = list[str]()
    fsync, replace = os.fsync, Path.replace

    def flushed(descriptor: int) -> None:
        events.append(f"flush {os.fstat(descriptor).st_size}")
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        events.append(f"rename to {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    write_atomically(tmp_path / "look.parquet", lambda partial: partial.write_bytes(b"12345"))
    assert events == ["flush 5", "rename to look.parquet"]


def parse_plain_yaml(text: str, source: str) -> Plain:
    return parse(text, source, "a gate in YAML", GateError)


def test_every_scalar_stays_the_text_in_the_file() -> None:
    text = "a: 017\nb: no\nc: 2%\nd: [null, 1:30, 2026-01-01, 'q', 1e3]\ne: !!int 3\n"
    assert parse_plain_yaml(text, "g") == {
        **{"a": "017", "b": "no", "c": "2%"},
        **{"d": ["null", "1:30", "2026-01-01", "q", "1e3"], "e": "3"},
    }
    assert parse_plain_yaml("", "g") == ""


def test_a_tag_makes_no_object() -> None:
    assert parse_plain_yaml("!!python/object/apply:os.system ['true']", "g") == ["true"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "g, line 2: 'a' is there twice"),
        ("a: {b: 1, b: 2}", "'b' is there twice"),
        ("a: &x [1]\nb: *x", "g, line 2: anchors are not read"),
        ("a: &x [*x]", "anchors are not read"),
        ("[1]: 2", "needed a text as the key"),
        ("a: [1", "g: needed a gate in YAML, and it is not YAML"),
        ("a: 1\n--- \nb: 2", "it is not YAML: expected a single document"),
        ("a: \x07", "needed a gate in YAML"),
        (r'a: "\U99999999"', "needed a gate in YAML"),
        ("[" * 5000, "g, line 1: nested more than 20 deep"),
    ],
)
def test_refused_yaml_is_an_error_with_its_line(text: str, says: str) -> None:
    with pytest.raises(GateError, match=says):
        parse_plain_yaml(text, "g")


@given(st.one_of(st.text(), st.text(alphabet="a:-[]{}&*!|>%'\"#,? \n\t\\U0")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = parse_plain_yaml(text, "g")
    except GateError:
        return
    assert isinstance(read, (str, list, dict))

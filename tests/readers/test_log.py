"""Rows of another tool as a snapshot: ids, categories, metrics.

Any content of a log gives a correct snapshot or a SnapshotError, never another exception, and never much memory.

Members of ZIP files: every packing that logs use, and nothing that breaks or fills the machine.

Questions of other tools' logs as text, and the pass that keeps some of them.
"""

import json
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_logs import DATE, DEFLATED, STORED, ZSTANDARD, choice_row, open_row, results, write_zip

from forgetwatch import Snapshot, load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.readers.inspect_log import Archive
from forgetwatch.readers.log import Log, QuestionStore, QuestionText, question_text


def log(*ids: str, task: str = "t") -> Log:
    made = Log(Path("some.log"), "tool")
    for number, item_id in enumerate(ids):
        made.add(task=task, item_id=item_id, question=[number], metrics={"acc": 1})
    return made


def test_ids_that_repeat_get_a_number_that_no_other_has() -> None:
    read = log("a", "a#2", "a", "b", "a", "a#2").snapshot("acc", {})
    assert read.texts("item_id").tolist() == ["a", "a#2", "a#3", "b", "a#4", "a#2#2"]


def test_categories_are_the_papers_and_else_those_of_the_log() -> None:
    made = log("a", task="mmlu_anatomy")
    made.add(task="mmlu_anatomy", item_id="b", question=1, metrics={"acc": 0}, category="own")
    made.add(task="unheard_of", item_id="c", question=1, metrics={"acc": 0}, category="own")
    made.add(task="unheard_of", item_id="d", question=1, metrics={"acc": 0})
    assert made.snapshot("acc", {}).texts("category").tolist() == [
        "Science/Tech",
        "Science/Tech",
        "own",
        "",
    ]


def test_each_task_uses_the_metric_or_its_own_first() -> None:
    made = log("a", task="one")
    made.add(task="two", item_id="b", question=1, metrics={"acc": 0.5, "zeta": True, "em": False})
    made.add(task="three", item_id="c", question=1, metrics={"acc,x": 0})
    made.add(task="four", item_id="d", question=1, metrics={"f1": 0.5})
    made.add(task="five", item_id="e", question=1, metrics={"brier_score": 0.5})
    made.add(task="six", item_id="f", question=1, metrics={"acc": "?", "em": False})
    assert list(made.metrics) == ["acc", "acc,x", "em", "zeta"]
    read = made.snapshot(made.metric(None), {})
    assert read.table["correct"].to_pylist() == [True, True, False, True, None, False]
    assert read.table["score"].to_pylist() == [1.0, 0.5, 0.0, 0.5, None, 0.0]
    used = {"one": "acc", "two": "acc", "three": "acc,x", "four": "f1", "six": "em"}
    assert read.meta["metrics"] == used
    assert read.texts("outcome")[4] == "unscored: no metric of the task is right or wrong"
    assert "right or wrong is em where there is no acc: six" in read.notes
    assert made.metric("acc,none") == "acc"
    assert made.metric("brier_score") == "brier_score"
    other = log("a")
    other.add(task="four", item_id="g", question=2, metrics={"f1": 5})
    with pytest.raises(SnapshotError, match=r"f1 \(row 2: 5.0\) is not right or wrong .*: acc"):
        other.metric("f1")


def test_answers_with_a_reason_are_unscored() -> None:
    made = log("a")
    made.add(task="t", item_id="b", question=1, metrics={"acc": 1}, unscored="the answer failed")
    read = made.snapshot("acc", {})
    assert read.table["correct"].to_pylist() == [True, None]
    assert read.texts("outcome").tolist() == ["ok", "unscored: the answer failed"]


def test_words_and_numbers_for_right_and_wrong_are_read() -> None:
    made = Log(Path("some.log"), "tool")
    for number, value in enumerate([1, 0.0, True, "False", "1.0", None]):
        made.add(task="t", item_id=str(number), question=number, metrics={"acc": value})
    assert made.snapshot("acc", {}).table["correct"].to_pylist() == [
        True,
        False,
        True,
        False,
        True,
        None,
    ]


def test_an_empty_log_an_unknown_column_and_a_question_that_is_no_json_are_refused() -> None:
    with pytest.raises(SnapshotError, match="no answers"):
        log().snapshot("acc", {})
    with pytest.raises(SnapshotError, match="unknown column 'colour'"):
        log().add(task="t", item_id="a", question=1, metrics={}, colour=3)
    with pytest.raises(SnapshotError, match="the question of item 'a' cannot be read"):
        log().add(task="t", item_id="a", question={1, 2}, metrics={})
    with pytest.raises(
        SnapshotError, match=r"no metric in this log is right or wrong .* it has none"
    ):
        Log(Path("some.log"), "tool").metric(None)


def test_an_unnamed_item_that_comes_again_is_another_item() -> None:
    made = Log(Path("some.log"), "tool")
    for item_id in (None, None, "a", "a"):
        made.add(task="t", item_id=item_id, question=["q"], metrics={"acc": 1}, output="x")
    assert len(made.snapshot("acc", {})) == 3
    made.add(task="t", item_id="a", question=["q"], metrics={"acc": 1}, output="y")
    with pytest.raises(SnapshotError, match="item 'a' has two answers, in rows 3 and 5 of the log"):
        made.snapshot("acc", {})


ROWS = [choice_row(n, (-2.0 - n, -1.5, -3.0), n % 3) for n in range(4)]
ROWS += [choice_row(4, (-1.0, -2.0), 1, metrics={"acc": 0.0, "acc_norm": 1.0})]
OPEN = [
    open_row(10 + n, " é 😀", {"exact_match": n % 2}, filtered=name)
    for name in ("a", "b")
    for n in range(3)
]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*ROWS, *OPEN]).encode()
DOCUMENT = json.dumps(results({"t": ROWS, "u": OPEN}), ensure_ascii=False, indent=1).encode()

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e400,
    -1e400,
    float("nan"),
    10**400,
    "",
    "x",
    "\x00",
    "\ud800",
    "1",
    [],
    [[]],
    {},
]
ODD += [
    [[["-1.0", "False"]]],
    [1, 2],
    {"a": 1},
    [[None]],
    [[1, 2, 3]],
    ["exact_match"],
    "[0, 1]",
    {"gen_args_0": 3},
]

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
def test_a_log_cut_at_any_byte_is_refused_or_holds_the_rows_before(
    content: bytes, data: st.DataObject
) -> None:
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
            dict(zip(one.texts("content_hash"), one.table[metric].to_pylist(), strict=True))
            for one in (whole, found)
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
    byte = data.draw(
        st.sampled_from([0, 0x22, 0x5B, 0x5D, 0x7B, 0x7D, 0x2C, 0x80, 0xC3, 0xFF, 0x39])
    )
    found = read(content[:index] + bytes([byte]) + content[index + 1 :])
    assert found is None or len(found) >= len(ROWS)


@pytest.mark.parametrize("depth", [200, 900, 5_000, 200_000])
@pytest.mark.parametrize(
    "field", ["doc", "target", "doc_id", "resps", "acc", "arguments", "metrics"]
)
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
    "number",
    ["1" * 5000, "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" * 400, "0." + "3" * 3000],
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
    assert (found is None) == (number[:2] != "0.")  # a score from 0 to 1


@pytest.mark.parametrize(
    "noise",
    [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'{"doc_id":', b"[", b"[[", b"{", b"[{"],
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


@pytest.mark.full(reason="memory that is measured")
@pytest.mark.skipif(
    sys.platform != "linux", reason="the highest memory of a process is read from /proc"
)
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
            file.write(
                ("," if number and shape == "document" else "")
                + json.dumps(make(number), ensure_ascii=False)
            )
            file.write("\n")
        file.write("]}}" if shape == "document" else "")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 4 * path.stat().st_size + 100 * 10**6


TEXT = b"what a log says, and says again. " * 50_000


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_members_are_read_unchanged(tmp_path: Path, method: int) -> None:
    members = {
        "header.json": b"{}",
        "samples/ü_1.json": "ä".encode() * 9,
        "empty": b"",
        "large": TEXT,
    }
    with Archive(
        write_zip(tmp_path / "a", {k: v for k, v in members.items() if k.isascii()}, method=method)
    ) as archive:
        for name in archive.names:
            assert archive.read(name) == members[name]
    assert len(archive.names) == 3


def test_archives_of_pythons_zipfile_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("samples/ü_1.json", TEXT)
    with Archive(tmp_path / "a") as archive:
        assert archive.read("samples/ü_1.json") == TEXT


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_member_above_the_limit_is_refused_before_it_fills_memory(
    tmp_path: Path, method: int
) -> None:
    path = write_zip(tmp_path / "bomb", {"summaries.json": bytes(150 * 2**20)}, method=method)
    tracemalloc.start()
    with (
        Archive(path) as archive,
        pytest.raises(SnapshotError, match=r"'summaries\.json' grows from .* no log does"),
    ):
        archive.read("summaries.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 145 * 2**20


def test_the_limit_counts_all_members_together(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "bombs", {f"{i}": bytes(40 * 2**20) for i in range(2)}, method=ZSTANDARD
    )
    with Archive(path) as archive:
        archive.read("0")
        with pytest.raises(SnapshotError, match="'1' grows from"):
            archive.read("1")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    for method in (DEFLATED, ZSTANDARD):
        path = write_zip(tmp_path / "a", {"x": TEXT}, method=method, flags=1)
        with Archive(path) as archive, pytest.raises(SnapshotError, match="'x' is encrypted"):
            archive.read("x")


def test_an_unknown_packing_is_refused_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x", TEXT)
    with Archive(tmp_path / "a") as archive, pytest.raises(SnapshotError, match="ZIP method 14"):
        archive.read("x")


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_a_wrong_size_in_the_directory_is_refused(tmp_path: Path, method: int) -> None:
    path = write_zip(tmp_path / "a", {"x": TEXT}, method=method, size=3)
    with (
        Archive(path) as archive,
        pytest.raises(SnapshotError, match="its member 'x', and it cannot be read"),
    ):
        archive.read("x")


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_huge_size_in_the_directory_reserves_no_memory(tmp_path: Path, method: int) -> None:
    with Archive(write_zip(tmp_path / "a", {"x": TEXT}, method=method, size=2**31)) as archive:
        assert archive.read("x") == TEXT


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_damaged_archive_gives_the_content_or_one_sentence(
    tmp_path: Path, method: int, data: st.DataObject
) -> None:
    path = write_zip(tmp_path / "a", {"header.json": b"{}", "x": TEXT[:999]}, method=method)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    assert error_start(path) in ("", f"{path}: ...")


def error_start(path: Path) -> str:
    """Beginning of the error about a file; empty where all of it is read."""
    try:
        with Archive(path) as archive:
            for name in archive.names:
                archive.read(name)
    except SnapshotError as error:
        return f"{path}: ..." if str(error).startswith(f"{path}: ") else str(error)
    return ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            ["Why?", ["because"], ["a", "b"]],
            QuestionText(prompt="Why?", choices=("a", "b"), answers=("because",)),
        ),
        (
            [{"passage": "Long ago.", "question": "When?"}, "1"],
            QuestionText(prompt="Long ago.\n\nWhen?", answers=("1",)),
        ),
        (
            [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], "x"],
            QuestionText(prompt="user: Hi\n\nassistant: Ho", answers=("x",)),
        ),
        (
            [{"ctx": "A man", "endings": ["sits", "runs"]}, 1],
            QuestionText(prompt="A man", choices=("sits", "runs"), answers=("1",)),
        ),
        ([{"odd": 1}, "y"], QuestionText(prompt='{\n "odd": 1\n}', answers=("y",))),
    ],
)
def test_common_documents_give_prompt_choices_and_answers(
    question: Any, expected: QuestionText
) -> None:
    assert question_text(question) == expected


@settings(derandomize=True, max_examples=200)
@given(JSON)
def test_any_document_has_a_prompt(question: Any) -> None:
    assert isinstance(question_text(question).prompt, str)


def test_only_the_questions_that_are_wanted_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "samples_t_2026-01-01T00-00-00.jsonl"
    rows = [
        {
            "doc_id": n,
            "doc": {"question": f"Q{n}?"},
            "target": "0",
            "resps": [["x"]],
            "filter": "none",
            "exact_match": n % 2,
        }
        for n in range(5)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hashes = load_snapshot(path).texts("content_hash")
    store = QuestionStore([hashes[3]])
    load_snapshot(path, kept=store)
    assert {content_hash: text.prompt for content_hash, text in store.texts.items()} == {
        hashes[3]: "Q3?"
    }

"""Files made to do harm: each is refused in one line, fast, and without much memory; see `tests/files` for bombs."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE, growth

from faults.cases import attempt
from forgetwatch import Item, Snapshot, load_snapshot, save_snapshot
from forgetwatch.errors import GateError, ProbeError, SnapshotError
from forgetwatch.policy.policy import load_policy
from forgetwatch.probe import read_probe
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.row_files import training_texts
from forgetwatch.readers.mapping import ColumnMap, read_mapped

READERS: dict[str, Callable[[Path], object]] = {
    "gate": lambda path: load_policy(str(path)),
    "categories": Categories.read,
    "categories in YAML": lambda path: Categories.read(path.with_suffix(".yaml")),
    "probe": read_probe,
    "probe by name": load_probe,
    "outcomes": load_snapshot,
    "mapped": lambda path: read_mapped(path, ColumnMap(fields={"item_id": "a", "correct": "b"})),
    "training data": lambda path: list(training_texts([path])),
}


@pytest.mark.parametrize("name", READERS)
def test_a_device_is_refused_and_not_read(name: str, tmp_path: Path) -> None:
    for suffix in ("", ".yaml"):
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    # Who reads a device without an end never comes back, and is ended here by the limit of a hang.
    outcome = attempt(
        lambda: READERS[name](tmp_path / "zero"), names="a pipe or device; write it to a file first"
    )
    assert outcome.kind == "refused", outcome


@pytest.mark.full("content5-it is not YAML-categories", reason="further hostile files")
@pytest.mark.parametrize("name", ["gate", "categories in YAML"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 100_000, "nested more than 20 deep"),
        ("{" * 100_000, "nested more than 20 deep"),
        ("- " * 1000, "nested more than 20 deep"),
        ("a: &x [1]\nb: [" + "*x," * 1000 + "]", "anchors are not read"),
        ("a" * (2**19 + 1), "got 524,289 bytes, more than the 524,288 that are read"),
        ("<<: [" + "{a: 1}," * 50_000, "it is not YAML"),
    ],
)
def test_yaml_that_would_cost_much_is_refused_for_its_reason(
    name: str, content: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(content)
    outcome = attempt(lambda: READERS[name](tmp_path / "f.yaml"), names=why, limit=PATIENCE)
    assert outcome.kind == "refused", outcome


@pytest.mark.full(reason="a time that is measured")
def test_the_time_of_the_largest_yaml_grows_with_its_size_and_not_with_its_square(
    tmp_path: Path,
) -> None:
    for entries in (2600, 260_000):
        (tmp_path / f"{entries}.yaml").write_text(
            "critical: [{accuracy: 2%}]\nmust_pass: [" + "a," * entries + "]\n"
        )
    assert (
        growth(lambda entries: load_policy(str(tmp_path / f"{entries}.yaml")), to=260_000, runs=1)
        < 10
    )


@pytest.mark.parametrize("name", ["/etc/passwd", "../ids.txt", "folder/../../ids.txt", "out.txt"])
def test_the_items_of_a_gate_stay_in_its_folder(name: str, tmp_path: Path) -> None:
    home = tmp_path / "gates"
    (home / "folder").mkdir(parents=True)
    (tmp_path / "ids.txt").write_text("secret\n")
    (home / "out.txt").symlink_to(tmp_path / "ids.txt")
    (home / "g.yaml").write_text(f"critical: [{{accuracy: 2%}}]\nsubset: {{items: {name}}}\n")
    with pytest.raises(
        GateError, match=r"g\.yaml: subset: items: needed a file in the folder of the policy, got '"
    ):
        load_policy(str(home / "g.yaml"))


def test_the_items_of_a_gate_may_be_in_a_folder_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "ids.txt").write_text("a\nb\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "below" / "ids.txt")
    for name in ("below/ids.txt", "link.txt", "./below/../link.txt"):
        (tmp_path / "g.yaml").write_text(
            f"critical: [{{accuracy: 2%}}]\nsubset: {{items: {name}}}\n"
        )
        assert load_policy(str(tmp_path / "g.yaml")).subset.items == ("a", "b")
    monkeypatch.chdir(tmp_path)
    assert load_policy("g.yaml").subset.items == ("a", "b")


def test_categories_in_yaml_are_the_texts_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "a: !!int 3Logic\nno: 017\nb: !!python/object/apply:os.system [true]\n"
    )
    with pytest.raises(ProbeError, match="needed text on both sides, got 'b'"):
        Categories.read(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("a: !!int 3Logic\nno: 017\n")
    assert Categories.read(tmp_path / "c.yaml").names == {"a": "3Logic", "no": "017"}


ITEM = Item(id="1", task="t", prompt="q", answer="a", match="exact")
HALF = "half \ud83d"


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"id": HALF},
            {"task": HALF},
            {"category": HALF},
            {"prompt": HALF},
            {"answer": HALF},
            {"answer": ["a", HALF]},
        ),
        *(
            {"choices": ["a", HALF], "answer": 0},
            {"match": HALF},
            {"cluster": HALF},
            {"tags": [HALF]},
            {"system": HALF},
        ),
        *(
            {"tools": [{"name": HALF}]},
            {"tools": [{HALF: "f"}]},
            {"meta": {"a": [HALF]}},
            {"meta": {HALF: 1}},
        ),
        {"prompt": [{"role": "user", "content": HALF}]},
        {"prompt": [{"role": "user", "content": [{"text": HALF}]}]},
    ],
    ids=str,
)
def test_half_of_a_surrogate_pair_anywhere_in_a_probe_is_refused(
    change: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({**ITEM.to_json(), **change}) + "\n")
    field = "answer" if "choices" not in change and "answer" in change else next(iter(change))
    with pytest.raises(ProbeError, match=rf"p\.jsonl, line 1: item .*{field} must be"):
        read_probe(path)


@pytest.mark.parametrize(
    "header",
    [
        *(
            {"name": HALF},
            {"name": 5},
            {"canary": HALF},
            {"decoding": {"stop": [HALF]}},
            {"decoding": {"tokens": 1.5}},
        ),
        *(
            {"decoding": {"tokens": True}},
            {"decoding": {"temperature": float("inf")}},
            {"decoding": {"seed": "x"}},
        ),
        *(
            {"decoding": [1]},
            {"decoding": "tokens"},
            {"decoding": {"thinking": "no"}},
            {"decoding": {"samples": 0}},
        ),
    ],
    ids=str,
)
def test_a_setting_of_another_type_is_refused(header: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(
        json.dumps({"forgetwatch_probe": header}) + "\n" + json.dumps(ITEM.to_json()) + "\n"
    )
    with pytest.raises(
        ProbeError, match=r"p\.jsonl: .*must be|p\.jsonl: decoding: needed an object"
    ) as found:
        read_probe(path)
    str(found.value).encode()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    columns = {
        "item_id": ["a", "b", "c"],
        "correct": [True, False, None],
        "k": [4, 4, 4],
        "output": ["x", "é", None],
    }
    save_snapshot(
        Snapshot.from_columns(columns, {"model": "m", "probe": {"name": "p"}}),
        tmp_path / "s.parquet",
    )
    return tmp_path / "s.parquet"


def test_a_flipped_bit_anywhere_in_the_footer_is_read_right_or_refused(stored: Path) -> None:
    whole = stored.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    checksum = load_snapshot(stored).full_checksum
    for at in range(footer, len(whole), 7):
        stored.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << (at % 8))]) + whole[at + 1 :])
        with contextlib.suppress(SnapshotError):
            assert load_snapshot(stored).full_checksum == checksum


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"probe": None}, "needed an object under 'probe'"),
        ({"norms": "sum"}, "needed an object under 'norms'"),
        ({"norms": {"t": []}}, r"needed text under norms\.t"),
        ({"probe": {"norm": ["sum"]}}, r"needed text under probe\.norm"),
        ({"probe": {"fingerprint": []}}, r"needed text under probe\.fingerprint"),
        ({"noise": "x"}, "needed a number under 'noise'"),
        ({"batch": 8}, "needed an object under 'batch'"),
    ],
)
def test_metadata_of_another_type_are_refused(
    meta: dict[str, Any], why: str, tmp_path: Path
) -> None:
    save_snapshot(
        Snapshot.from_columns({"item_id": ["a"], "correct": [True]}, meta), tmp_path / "s.parquet"
    )
    with pytest.raises(SnapshotError, match=rf"s\.parquet: {why} in its metadata"):
        load_snapshot(tmp_path / "s.parquet")


def test_a_table_whose_name_says_compressed_is_read_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "t.csv.bz2").write_text("item_id,correct\na,1\n")
    assert len(load_snapshot(tmp_path / "t.csv.bz2")) == 1


def test_a_snapshot_without_rows_is_refused(tmp_path: Path) -> None:
    made = Snapshot.from_columns({"item_id": ["a"], "correct": [True]}, {})
    save_snapshot(replace(made, table=made.table.slice(1)), tmp_path / "s.parquet")
    with pytest.raises(SnapshotError, match=r"s\.parquet: the snapshot has no rows"):
        load_snapshot(tmp_path / "s.parquet")

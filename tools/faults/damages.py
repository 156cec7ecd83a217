"""Random damages to a run folder, by class; `damage.py` makes them and looks at what readers say.

A damage changes files of the folder and returns the names of those that a reader has to name if it does not use them.
It draws all that it needs from a `random.Random`. Foreign material comes from a `World`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch import Snapshot
from forgetwatch.files import KEY, checksum_with
from forgetwatch.snapshot import read_snapshot, save_snapshot


@dataclass(frozen=True)
class World:
    """Folders from which damages take what does not belong into a run.

    Attributes:
        run: The undamaged run folder.
        same: Run folder of another run of the same probe.
        other: Run folder of a run of another probe.
        older: ``run.json`` of the undamaged run, as it was after half of its looks.
    """

    run: Path
    same: Path
    other: Path
    older: Path


Damage = Callable[[Path, random.Random, World], list[str]]


def tables(folder: Path) -> list[Path]:
    """Snapshots in a folder."""
    return sorted(path for path in folder.glob("*.parquet") if path.is_file())


def looks(folder: Path) -> list[Path]:
    """Looks of a run, without the baseline, the null and second measurements."""
    return sorted(path for path in folder.glob("step-*.parquet") if path.is_file())


def _any_file(folder: Path, rng: random.Random) -> Path:
    """A snapshot, mostly; else ``run.json`` or ``probe.jsonl``."""
    return rng.choice([*tables(folder), folder / "run.json", folder / "probe.jsonl"])


def _footer(data: bytes) -> int:
    """First byte of a Parquet file's footer."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


# Bytes.


def flip_bit(path: Path, rng: random.Random, *, of: Callable[[bytes], tuple[int, int]] | None = None) -> None:
    data = bytearray(path.read_bytes())
    low, high = (0, len(data)) if of is None else of(bytes(data))
    data[rng.randrange(low, max(high, low + 1))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def bit_in_data(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = rng.choice(tables(folder))
    flip_bit(path, rng, of=lambda data: (0, _footer(data)))
    return [path.name]


def bit_in_footer(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = rng.choice(tables(folder))
    flip_bit(path, rng, of=lambda data: (_footer(data), len(data)))
    return [path.name]


def bit_in_description(folder: Path, rng: random.Random, world: World) -> list[str]:
    flip_bit(folder / "run.json", rng)
    return ["run.json"]


def bit_in_probe(folder: Path, rng: random.Random, world: World) -> list[str]:
    flip_bit(folder / "probe.jsonl", rng)
    return ["probe.jsonl"]


def block(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = _any_file(folder, rng)
    data = path.read_bytes()
    start = rng.randrange(len(data))
    size = min(rng.choice((1, 8, 64, 512, 4096)), len(data) - start)
    part = data[start : start + size]
    made = {
        "zeroed": bytes(size),
        "overwritten": rng.randbytes(size),
        "cut out": b"",
        "doubled": part + part,
        "spaces": b" " * size,
    }
    path.write_bytes(data[:start] + rng.choice(list(made.values())) + data[start + size :])
    return [path.name]


def cut(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = _any_file(folder, rng)
    data = path.read_bytes()
    end = rng.choice((0, rng.randrange(len(data)), len(data) - 1))
    path.write_bytes(data[:end])
    return [path.name]


def appended(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = _any_file(folder, rng)
    path.write_bytes(path.read_bytes() + rng.choice((b"\0", b"\n", rng.randbytes(64), path.read_bytes())))
    return [path.name]


# Whole files.


def deleted(folder: Path, rng: random.Random, world: World) -> list[str]:
    found = [*tables(folder), folder / "run.json", folder / "probe.jsonl"]
    gone = rng.sample(found, rng.choice((1, 1, 2)))
    for path in gone:
        path.unlink()
    return [path.name for path in gone]


def _spelling(name: str, rng: random.Random) -> str:
    stem, step = name.removesuffix(".parquet").rpartition("-")[::2]
    return rng.choice(
        (
            f"{stem}-{int(step)}.parquet",
            f"{stem}-{int(step):07d}.parquet",
            f"{stem.upper()}-{step}.parquet",
            f"{stem}-{step}~.parquet",
            f"{stem}-{step} (1).parquet",
            f"{stem}-{step}-copy.parquet",
            f"{stem}-٣{step[1:]}.parquet",
            f"{stem}-+{step[1:]}.parquet",
            f"{stem}_{step}.parquet",
            f"{stem}-{step}.parquet.bak",
        )
    )


def _free(folder: Path, rng: random.Random) -> int:
    taken = {int(path.stem.rpartition("-")[2]) for path in looks(folder)}
    return rng.choice([step for step in range(1, 2 * max(taken, default=9) + 9) if step not in taken])


def renamed(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = rng.choice(looks(folder))
    kind, step = path.stem.rpartition("-")[::2]
    names = [f"{kind}-{_free(folder, rng):06d}.parquet", f"again-{step}.parquet", _spelling(path.name, rng)]
    target = folder / rng.choice([*names, "null.parquet", "baseline.parquet", rng.choice(looks(folder)).name])
    if target == path:
        return []
    path.rename(target)
    return [path.name, target.name]


def copied(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = rng.choice(looks(folder))
    target = folder / rng.choice((_spelling(path.name, rng), f"step-{_free(folder, rng):06d}.parquet"))
    shutil.copy(path, target)
    return [target.name]


def swapped(folder: Path, rng: random.Random, world: World) -> list[str]:
    one, two = rng.sample(tables(folder), 2)
    one.rename(folder / "z")
    two.rename(one)
    (folder / "z").rename(two)
    return [one.name, two.name]


def _replaced_by(source: Callable[[World], Path]) -> Damage:
    def damage(folder: Path, rng: random.Random, world: World) -> list[str]:
        target = rng.choice(tables(folder))
        twin = source(world) / target.name
        shutil.copy(twin if twin.is_file() else rng.choice(tables(source(world))), target)
        return [target.name]

    return damage


def replaced_by_another_of_the_run(folder: Path, rng: random.Random, world: World) -> list[str]:
    one, two = rng.sample(tables(folder), 2)
    shutil.copy(one, two)
    return [two.name]


def replaced_by_something_else(folder: Path, rng: random.Random, world: World) -> list[str]:
    target, source = rng.sample(tables(folder), 2)
    what = rng.choice(("table", "csv", "json", "folder", "link", "dangling link", "loop", "pipe", "empty"))
    table = pq.read_table(target)
    target.unlink()
    if what == "table":
        pq.write_table(table.replace_schema_metadata(None), target)
    elif what == "csv":
        target.write_text("item_id,correct\ni0,1\n")
    elif what == "json":
        target.write_text("{}")
    elif what == "folder":
        target.mkdir()
    elif what == "link":
        target.symlink_to(source.name)
    elif what == "dangling link":
        target.symlink_to("nowhere.parquet")
    elif what == "loop":
        target.symlink_to(target.name)
    elif what == "pipe":
        os.mkfifo(target)
    else:
        target.touch()
    return [target.name]


def linked_to_itself_elsewhere(folder: Path, rng: random.Random, world: World) -> list[str]:
    """A link to the same content: nothing that a reader has to name."""
    target = rng.choice(tables(folder))
    shutil.move(target, folder / f"{target.name}.moved")
    target.symlink_to(f"{target.name}.moved")
    return []


# Metadata and rows.


def _meta(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    table = pq.read_table(path)
    return table, json.loads(table.schema.metadata[KEY])


def _write(path: Path, table: pa.Table, meta: dict[str, Any]) -> None:
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(meta).encode()}), path)


_VALUES: Final = (None, 0, 1, -1, 60, 75, 10**12, 1.5, True, "", "60", "x", [], {}, [1], {"items": 5, "of": 10})


def _edit(meta: dict[str, Any], rng: random.Random) -> None:
    """Change, drop or add one value."""
    keys = sorted(set(meta) - {"checksum"})
    key = rng.choice([*keys, "step", "run", "look", "probe", "rescued", "norms"])
    if rng.random() < 0.2:
        meta.pop(key, None)
    elif key == "probe" and isinstance(meta.get("probe"), dict) and rng.random() < 0.7:
        meta["probe"] = {
            **meta["probe"],
            rng.choice(("items", "of", "norm", "fingerprint", "name")): rng.choice(_VALUES),
        }
    else:
        meta[key] = rng.choice(_VALUES)


def metadata_edited(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = rng.choice(tables(folder))
    table, meta = _meta(path)
    _edit(meta, rng)
    if rng.random() < 0.1:
        meta.pop("checksum", None)
    _write(path, table, meta)
    return [path.name]


def metadata_forged(folder: Path, rng: random.Random, world: World) -> list[str]:
    """Metadata with a checksum that matches them: the list in ``run.json`` is what shows it."""
    path = rng.choice(tables(folder))
    rows, (table, meta) = read_snapshot(path).checksum, _meta(path)
    _edit(meta, rng)
    if rng.random() < 0.2:  # of the first format, whose checksum covers the rows alone
        meta |= {"format": "forgetwatch/snapshot@1", "checksum": rows}
    else:
        plain = {name: value for name, value in meta.items() if name not in ("checksum", "format", "source")}
        meta["checksum"] = checksum_with(rows, plain)
    _write(path, table, meta)
    return [path.name]


def rows_forged(folder: Path, rng: random.Random, world: World) -> list[str]:
    """Other rows with a checksum that matches them."""
    path = rng.choice(tables(folder))
    found = read_snapshot(path)
    table = found.table
    how = rng.choice(("cut", "turned", "right"))
    if how == "cut":
        table = table.slice(0, rng.randrange(1, len(table)))
    elif how == "turned":
        table = table.take(pa.array(range(len(table) - 1, -1, -1)))
    else:
        right = table["correct"].to_pylist()
        at = rng.randrange(len(right))
        right[at] = not right[at]
        table = table.set_column(table.schema.get_field_index("correct"), "correct", pa.array(right, pa.bool_()))
    save_snapshot(Snapshot(table, found.meta), path)
    return [path.name]


def rewritten(folder: Path, rng: random.Random, world: World) -> list[str]:
    """The same values, packed in another way: nothing that a reader has to name."""
    path = rng.choice(tables(folder))
    table, meta = _meta(path)
    shuffled = dict(rng.sample(list(meta.items()), len(meta)))
    pq.write_table(
        table.replace_schema_metadata({KEY: json.dumps(shuffled, indent=1).encode(), b"more": b"1"}),
        path,
        compression=rng.choice(("none", "snappy", "gzip")),
        row_group_size=rng.choice((7, 1000)),
    )
    return []


# run.json.


def description_edited(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = folder / "run.json"
    values = json.loads(path.read_text())
    inner: Any = values
    while True:  # down to any value
        key = rng.choice(list(inner) if isinstance(inner, dict) else list(range(len(inner))))
        if not isinstance(inner[key], (dict, list)) or not inner[key] or rng.random() < 0.4:
            break
        inner = inner[key]
    if rng.random() < 0.3:
        del inner[key]
    else:
        inner[key] = rng.choice(_VALUES)
    path.write_text(json.dumps(values))
    return ["run.json"]


def description_replaced(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = folder / "run.json"
    sources = [world.same / "run.json", world.other / "run.json", world.older]
    made = rng.choice([*(each.read_text() for each in sources), "", "[]", "{}", "null", "[" * 100_000, "\ufeff{}"])
    path.unlink(missing_ok=True)
    if rng.random() < 0.1:
        path.mkdir()
    else:
        path.write_text(made)
    return ["run.json"]


def description_indented(folder: Path, rng: random.Random, world: World) -> list[str]:
    """The same values, written in another way: nothing that a reader has to name."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=rng.choice((None, 3)), sort_keys=True))
    return []


def description_of_another_format(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = folder / "run.json"
    values = json.loads(path.read_text())
    values["format"] = rng.choice(("forgetwatch/run@1", "forgetwatch/run@2", "forgetwatch/run@33", "x", None, 2))
    if rng.random() < 0.5:
        values.pop("checksum")
    path.write_text(json.dumps(values))
    return ["run.json"]


# probe.jsonl, which gives the questions their text.


def probe_edited(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = folder / "probe.jsonl"
    header, *lines = path.read_text().splitlines()
    items = [json.loads(line) for line in lines]
    one, two = rng.sample(range(len(items)), 2)
    key = rng.choice(("id", "prompt", "choices", "answer", "line", "tags"))
    if key == "line":
        del items[one]
    elif rng.random() < 0.5 and key in items[two]:
        items[one][key], items[two][key] = items[two][key], items[one].get(key)
        if items[two][key] is None:
            del items[two][key]
    elif key == "prompt":
        items[one]["prompt"] = items[one]["prompt"].replace("w", "v", 1) + " "
    elif key == "choices":
        items[one]["choices"] = items[one]["choices"][::-1]
    elif key == "answer":
        items[one]["answer"] = (items[one]["answer"] + 1) % len(items[one]["choices"])
    else:
        items[one][key] = "changed" if key == "id" else ["x"]
    path.write_text("\n".join([header, *map(json.dumps, items)]) + "\n")
    return ["probe.jsonl"]


def probe_replaced(folder: Path, rng: random.Random, world: World) -> list[str]:
    path = folder / "probe.jsonl"
    path.unlink(missing_ok=True)
    if rng.random() < 0.2:
        path.mkdir()
    else:
        shutil.copy(world.other / "probe.jsonl", path)
    return ["probe.jsonl"]


# More files.


def extra_file(folder: Path, rng: random.Random, world: World) -> list[str]:
    """Files that are none of a run: only those with the name of a look have to be named."""
    name = rng.choice(("notes.txt", ".step-000001.parquet.a-1-b.partial", "step-000060.parquet.damaged", "report.html"))
    (folder / name).write_bytes(rng.randbytes(100))
    if rng.random() < 0.3:
        (folder / "more").mkdir(exist_ok=True)
        shutil.copy(rng.choice(tables(world.same)), folder / "more")
    return []


def extra_look(folder: Path, rng: random.Random, world: World) -> list[str]:
    """A look of another run under the name of a step that this run does not have."""
    kind = rng.choice(("step", "again"))
    target = folder / f"{kind}-{_free(folder, rng):06d}.parquet"
    shutil.copy(rng.choice(tables(rng.choice((world.same, world.other)))), target)
    return [target.name]


def nothing(folder: Path, rng: random.Random, world: World) -> list[str]:
    return []


CLASSES: Final[dict[str, tuple[Damage, int]]] = {
    "no damage": (nothing, 1),
    "bit in a table's data": (bit_in_data, 6),
    "bit in a table's footer": (bit_in_footer, 8),
    "bit in run.json": (bit_in_description, 5),
    "bit in probe.jsonl": (bit_in_probe, 4),
    "block zeroed, overwritten, doubled, cut out": (block, 8),
    "cut short or emptied": (cut, 4),
    "bytes appended": (appended, 2),
    "deleted": (deleted, 6),
    "renamed": (renamed, 8),
    "copied beside": (copied, 4),
    "swapped": (swapped, 4),
    "replaced by another run's, same probe": (_replaced_by(lambda world: world.same), 5),
    "replaced by another run's, other probe": (_replaced_by(lambda world: world.other), 3),
    "replaced by another of the run": (replaced_by_another_of_the_run, 5),
    "replaced by a table, folder, link, pipe": (replaced_by_something_else, 5),
    "linked to itself": (linked_to_itself_elsewhere, 1),
    "metadata edited": (metadata_edited, 6),
    "metadata forged with a checksum": (metadata_forged, 6),
    "rows forged with a checksum": (rows_forged, 4),
    "packed in another way": (rewritten, 1),
    "run.json edited": (description_edited, 6),
    "run.json replaced": (description_replaced, 4),
    "run.json indented": (description_indented, 1),
    "run.json of another format": (description_of_another_format, 3),
    "probe.jsonl edited": (probe_edited, 4),
    "probe.jsonl replaced": (probe_replaced, 1),
    "extra file": (extra_file, 2),
    "extra look of another run": (extra_look, 3),
}
"""Damages by class, each with its share of the draws."""


def draw(rng: random.Random) -> list[str]:
    """Draw the classes of one case: one damage, two in a tenth of the cases."""
    names, weights = list(CLASSES), [weight for _, weight in CLASSES.values()]
    return rng.choices(names, weights, k=2 if rng.random() < 0.1 else 1)

"""Small valid files of every format that forgetwatch reads, and mutations of them that know the format.

A value of JSON is changed at a random place: replaced, removed, doubled, renamed, wrapped. Files of rows are made of
the changed rows; then, sometimes, bytes are changed too: a bit, a cut, a piece twice, a piece of another format.
"""

import contextlib
import copy
import csv
import gzip
import io
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tool_logs
from tool_logs import (
    DATE,
    DEFLATED,
    RIGHT,
    STORED,
    WRITERS,
    ZSTANDARD,
    choice_row,
    open_row,
    results,
    write_zip,
)

from forgetwatch import Item, Probe, Snapshot, save_snapshot
from forgetwatch.files.table_files import KEY, write_table
from forgetwatch.run.completions import SCHEMA as COMPLETIONS
from forgetwatch.run.completions import Completions, Reading, save_completions
from forgetwatch.snapshot import FORMAT, SCHEMA

Rng = random.Random


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1.5, -0.0, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *(2**31 - 1, 2**31, -(2**31) - 1, 2**63, 10**30, 10**400, 12345678),
    *(
        "",
        " ",
        "x",
        "nan",
        "1e400",
        "0",
        "1",
        "C",
        "I",
        "P",
        "True",
        "none",
        "[0, 1]",
        "[",
        "A",
        "Z",
        "é",
        "\u2028",
        "a\nb",
    ),
    *("\ud800", "a\udfffb", "\0", "\x1b[31m", "=1+1", "../../etc/passwd", "/dev/zero", "x" * 5000),
    *(
        [],
        {},
        [[]],
        [None],
        [""],
        {"a": None},
        {"": 1},
        [0, 0],
        [[0, 1]],
        ["\ud800"],
        {"\ud800": 1},
        [1, "a", None],
    ),
    _deep(50),
    _deep(150),
)
PIECES = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"1e400",
        b"9" * 400,
        b"null",
        b"[",
        b'"',
        b"{" * 3000,
        b"[" * 3000,
    ),
    *(
        b"-1",
        b"true",
        b"\n",
        b"\r",
        b",",
        b":",
        b"\\ud800",
        b"PAR1",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"\xef\xbb\xbf",
    ),
    *(
        b"!!int 3x",
        b"&a *a",
        b"<<: *a",
        b"- " * 50,
        b"? ",
        b"%YAML 9.9\n",
        b"\x1b[31m",
        b"\xe2\x80\xa8",
        b"",
    ),
)


def value(rng: Rng) -> Any:
    return copy.deepcopy(rng.choice(VALUES))


def change(whole: Any, rng: Rng) -> Any:
    """A value of JSON, changed at a random place."""
    holder: list[Any] = [whole]
    place: Any = holder
    key: Any = 0
    while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.85:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    act = rng.randrange(7)
    if act <= 2:
        place[key] = value(rng)
    elif act == 3 and place is not holder:
        del place[key]
    elif act == 4 and isinstance(place, list) and place is not holder:
        place.insert(key, copy.deepcopy(place[key]))
    elif act == 5 and isinstance(place, dict):
        place[rng.choice(("", "id", "\ud800", "\x1b[31m", str(key) + "x", *map(str, place)))] = (
            place.pop(key)
        )
    else:
        place[key] = rng.choice(
            ([place[key]], {"a": place[key]}, str(place[key]), [place[key]] * 3)
        )
    return holder[0]


def changed(whole: Any, rng: Rng) -> Any:
    """A value of JSON with one to four changes, and sometimes with none."""
    whole = copy.deepcopy(whole)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        whole = change(whole, rng)
    return whole


def to_json(whole: Any, rng: Rng) -> bytes:
    ascii_only = rng.random() < 0.5
    return json.dumps(whole, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass" if rng.random() < 0.3 else "replace"
    )


def to_jsonl(rows: Any, rng: Rng) -> bytes:
    rows = rows if isinstance(rows, list) else [rows]
    return rng.choice((b"\n", b"\r\n", b"\n\n")).join(to_json(row, rng) for row in rows) + b"\n"


def damage(data: bytes, rng: Rng, *, near_end: bool = False) -> bytes:
    """Bytes with one to three changes."""
    for _ in range(rng.randrange(1, 4)):
        first = max(0, len(data) - 3000) if near_end and rng.random() < 0.8 else 0
        at = rng.randrange(first, len(data) + 1) if data else 0
        to = min(len(data), at + rng.choice((0, 0, 1, 4, 40)))
        act = rng.randrange(6)
        if act <= 1 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif act == 2:
            data = data[:at] if rng.random() < 0.7 else data[at:]
        elif act == 3:
            data = data[:to] + data[at:to] * rng.choice((1, 2, 50)) + data[to:]
        else:
            data = data[:at] + rng.choice(PIECES) + data[to:]
    return data


def maybe_damage(data: bytes, rng: Rng, *, share: float = 0.2, near_end: bool = False) -> bytes:
    return damage(data, rng, near_end=near_end) if rng.random() < share else data


# Files of other tools


def harness_rows(rng: Rng) -> list[dict[str, Any]]:
    k = rng.choice((2, 4))
    rows = [
        choice_row(
            n,
            [-1.0 - n % 3 - option for option in range(k)],
            n % k,
            metrics={"acc": 1.0, "acc_norm": 0.0},
        )
        for n in range(6)
    ]
    if rng.random() < 0.4:
        rows = [
            open_row(n, "#### 4", {"exact_match": float(n % 2)}, filtered=f)
            for n in range(4)
            for f in ("a", "b")
        ]
    if rng.random() < 0.2:
        rows = [row | {"acc_mutual_info": 1.0} for row in rows]
    return rows


def harness_samples(folder: Path, rng: Rng) -> Path:
    path = folder / rng.choice((f"samples_arc_{DATE}.jsonl", "log.jsonl", "log.json"))
    rows = changed(harness_rows(rng), rng)
    data = to_json(rows, rng) if rng.random() < 0.2 else to_jsonl(rows, rng)
    path.write_bytes(maybe_damage(data, rng))
    return path


def harness_results(folder: Path, rng: Rng) -> Path:
    path = folder / "results.json"
    whole = results(
        {"arc": harness_rows(rng), "gsm": harness_rows(rng)},
        config={"output_type": "multiple_choice"},
    )
    path.write_bytes(maybe_damage(to_json(changed(whole, rng), rng), rng))
    return path


def harness_folder(folder: Path, rng: Rng) -> Path:
    home = folder / "org__model"
    home.mkdir()
    whole = {"arc": harness_rows(rng), "gsm": harness_rows(rng)}
    described = changed(results(whole) | {"samples": {}}, rng)
    (home / f"results_{DATE}.json").write_bytes(maybe_damage(to_json(described, rng), rng))
    for task, rows in whole.items():
        data = to_jsonl(changed(rows, rng), rng)
        (home / f"samples_{task}_{DATE}.jsonl").write_bytes(maybe_damage(data, rng, share=0.1))
    return home


def _inspect(rng: Rng) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header = {
        "version": 2,
        "status": "success",
        "eval": {"task": "toy", "model": "org/model", "created": "2026"},
    }
    choices = (
        {"choices": ["Lima", "Santiago", "Quito"], "target": "B"}
        if rng.random() < 0.5
        else {"target": "7"}
    )
    samples = [
        {
            **{"id": n, "epoch": 1 + n % 2, "input": f"Question {n // 2}?", **choices},
            "scores": {"match": {"value": rng.choice("CIPN"), "answer": "B", "explanation": "why"}},
            "output": {"choices": [{"message": {"content": "B"}}], "completion": "B"},
        }
        for n in range(6)
    ]
    if rng.random() < 0.3:
        samples[0]["input"] = [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}], "tool_calls": []}
        ]
    return header, samples


def inspect_zip(folder: Path, rng: Rng) -> Path:
    header, samples = changed(_inspect(rng)[0], rng), changed(_inspect(rng)[1], rng)
    members = {"header.json": to_json(header, rng)}
    form = rng.randrange(3)
    if form == 0:
        members["summaries.json"] = to_json(samples, rng)
    elif form == 1 and isinstance(samples, list):
        members = {"_journal/start.json": members["header.json"]}
        members |= {
            f"_journal/summaries/{n + 1}.json": to_json([one], rng) for n, one in enumerate(samples)
        }
    elif isinstance(samples, list):
        members |= {
            f"samples/{n}_epoch_{1 + n % 2}.json": to_json(one, rng)
            for n, one in enumerate(samples)
        }
    members = {name: maybe_damage(data, rng, share=0.1) for name, data in members.items()}
    size = rng.choice((*[None] * 17, 0, 7, 2**32 - 1))
    method = rng.choice((STORED, DEFLATED, ZSTANDARD))
    path = write_zip(
        folder / "log.eval", members, method=method, flags=rng.choice((*[0] * 18, 1, 8)), size=size
    )
    path.write_bytes(maybe_damage(path.read_bytes(), rng, share=0.1, near_end=rng.random() < 0.5))
    return path


def inspect_json(folder: Path, rng: Rng) -> Path:
    header, samples = _inspect(rng)
    path = folder / "log.json"
    path.write_bytes(maybe_damage(to_json(changed({**header, "samples": samples}, rng), rng), rng))
    return path


def lighteval(folder: Path, rng: Rng) -> Path:
    rows = tool_logs.scored(1, items=6)
    made = (
        tool_logs.write_old(folder / "made.parquet", rows)
        if rng.random() < 0.4
        else tool_logs.write(folder / "made.parquet", rows, "new")
    )
    listed = changed(pq.read_table(made).to_pylist(), rng)
    return parquet(folder / f"details_toy|0_{tool_logs.LIGHTEVAL_DATE}.parquet", listed, rng)


def further_tools(folder: Path, rng: Rng) -> Path:
    text = rng.choice(list(WRITERS.values()))(RIGHT)
    is_document = text.count("\n") < 2
    whole = json.loads(text) if is_document else [json.loads(line) for line in text.splitlines()]
    path = folder / "log.json"
    write = to_json if is_document else to_jsonl
    path.write_bytes(maybe_damage(write(changed(whole, rng), rng), rng))
    return path


# Plain tables


def table_rows(rng: Rng) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for n in range(6):
        row: dict[str, Any] = {
            "item_id": str(n),
            "correct": rng.choice((0, 1, True, None)),
            "task": "t",
            "category": "c",
        }
        row |= {
            "k": 4,
            "gold": n % 4,
            "chosen": 1,
            "sample": 0,
            "content_hash": f"h{n}",
            "cluster": f"c{n // 2}",
        }
        row |= {
            "gold_share": 0.25,
            "option_mass": 0.5,
            "margin": 0.5,
            "output": 'a,\nb"é',
            "outcome": "ok",
        }
        row |= {
            "choice_logprobs": [-1.0, -2.0, -3.0, -4.0],
            "choice_chars": [1, 2, 3, 4],
            "golds": [n % 4],
        }
        row |= {"free_correct": True, "in_form": None, "prompt_hash": f"p{n}"}
        rows.append(row)
    kept = {"item_id", "correct", *rng.sample(sorted(rows[0]), rng.randrange(len(rows[0])))}
    return [{name: part for name, part in row.items() if name in kept} for row in rows]


def parquet(path: Path, rows: Any, rng: Rng) -> Path:
    """A Parquet file of rows, as far as Arrow can hold them, sometimes with damaged bytes."""
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        for convert in (lambda part: part, lambda part: json.dumps(part), lambda part: None):
            try:
                columns[name.encode("utf-8", "replace").decode()] = pa.array(
                    [convert(part) for part in values]
                )
                break
            except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError):
                continue
    made = io.BytesIO()
    try:
        pq.write_table(pa.table(columns), made, compression=rng.choice(("none", "zstd", "snappy")))
    except (pa.ArrowException, ValueError):
        pq.write_table(pa.table({"item_id": ["a"]}), made)
    path.write_bytes(maybe_damage(made.getvalue(), rng, near_end=True))
    return path


def table_parquet(folder: Path, rng: Rng) -> Path:
    return parquet(folder / "table.parquet", changed(table_rows(rng), rng), rng)


def table_jsonl(folder: Path, rng: Rng) -> Path:
    path = folder / "table.jsonl"
    path.write_bytes(maybe_damage(to_jsonl(changed(table_rows(rng), rng), rng), rng))
    return path


def to_csv(rows: Any, rng: Rng) -> bytes:
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(
        text, delimiter=rng.choice("," * 18 + ";\t"), lineterminator=rng.choice(("\n", "\r\n"))
    )
    writer.writerow(names)
    for row in rows:
        writer.writerow([row.get(name) for name in names])
    return text.getvalue().encode("utf-8", "replace")


def table_csv(folder: Path, rng: Rng) -> Path:
    path = folder / rng.choice((*["table.csv"] * 8, "table.csv.gz", "table.tsv"))
    path.write_bytes(maybe_damage(to_csv(changed(table_rows(rng), rng), rng), rng))
    return path


# forgetwatch's own files


def _meta(rng: Rng) -> dict[str, Any]:
    return {
        **{
            "model": "org/model",
            "step": 60,
            "scorer": "x",
            "metric": "acc",
            "norms": {"t": "sum"},
            "time": "2026",
        },
        "probe": {
            "name": "p",
            "fingerprint": "f" * 64,
            "norm": "sum",
            "rendering": "plain",
            "items": 6,
            "of": 6,
        },
        **{
            "batch": {"size": 8},
            "noise": 0.1,
            "versions": {"torch": "2"},
            "sources": ["a"],
            "tool": "t",
        },
    }


def snapshot(folder: Path, rng: Rng) -> Path:
    """A snapshot with changed metadata or columns and a right checksum, or with damaged bytes."""
    path = folder / "step-000060.parquet"
    rows = table_rows(rng)
    columns = {name: [row.get(name) for row in rows] for name in rows[0] if name != "prompt_hash"}
    columns["correct"] = [None if part is None else bool(part) for part in columns["correct"]]
    made = Snapshot.from_columns(columns, _meta(rng))
    if rng.random() < 0.3:
        save_snapshot(made, path)
        path.write_bytes(damage(path.read_bytes(), rng, near_end=True))
        return path
    meta = changed(_meta(rng), rng) if rng.random() < 0.7 else _meta(rng)
    table = made.table
    if rng.random() < 0.5:
        listed = change(table.to_pylist(), rng)
        with contextlib.suppress(
            pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError
        ):
            table = pa.Table.from_pylist(listed, schema=SCHEMA)
    if not isinstance(meta, dict):
        meta = {"probe": meta}
    forged = Snapshot(table, meta)
    described = {"format": FORMAT, **meta}
    try:
        described["checksum"] = forged.full_checksum
    except Exception:
        described["checksum"] = "0" * 32
    write_table(table, described, path)
    path.write_bytes(maybe_damage(path.read_bytes(), rng, share=0.1, near_end=True))
    return path


def completions(folder: Path, rng: Rng) -> Path:
    path = folder / "completions.parquet"
    top = {"top_ids": [[3, 5], [4, 6]], "top_logprobs": [[-0.5, -2.0], [-1.0, -1.5]]}
    rows = [
        {"set": "probe", "prompt": [1, 2], "tokens": [3, 4], "logprobs": [-0.5, -1.0], **top}
        for _ in range(4)
    ]
    table = pa.Table.from_pylist(rows, schema=COMPLETIONS)
    with contextlib.suppress(
        pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError
    ):
        table = pa.Table.from_pylist(change(rows, rng), schema=COMPLETIONS)
    likeliest = np.array([[2, 3]], np.int32), np.array([[-0.5, -2.0]], np.float32)
    made = Completions(
        sets=("probe",),
        prompts=((1,),),
        tokens=((2,),),
        logprobs=(np.array([-0.5]),),
        top_ids=(likeliest[0],),
        top_logprobs=(likeliest[1],),
        meta={"seed": 1},
    )
    if rng.random() < 0.7:
        made = made.with_floor(Reading(logprobs=[np.array([-0.5])], top_logprobs=[likeliest[1]]))
    save_completions(made, path)
    stored = pq.read_table(path, partitioning=None)
    if rng.random() < 0.5:
        meta = changed(json.loads(stored.schema.metadata[KEY]), rng)
        table = table if rng.random() < 0.5 else stored
        write_table(table, meta if isinstance(meta, dict) else {}, path)
    path.write_bytes(maybe_damage(path.read_bytes(), rng, near_end=True))
    return path


def _items(rng: Rng) -> list[dict[str, Any]]:
    items = [
        Item(
            id=f"i{n}",
            task="t",
            category="c",
            prompt=f"Q{n}?",
            choices=(" a", " b"),
            answer=n % 2,
            tags=("x",),
            meta={"a": 1},
        )
        for n in range(3)
    ]
    items += [
        Item(id=f"o{n}", task="o", prompt="Q?", answer=("4", "four"), match="number")
        for n in range(2)
    ]
    chat = Item(
        id="chat", task="c", prompt=[{"role": "user", "content": "Hi"}], answer="x", match="exact", rendering="chat",
        system="Be brief.", tools=[{"name": "f"}],
    )  # fmt: skip
    return [json.loads(line) for line in Probe([*items, chat]).to_jsonl().splitlines()[1:]]


def probe(folder: Path, rng: Rng) -> Path:
    header = {
        "name": "p",
        "canary": "c",
        "scoring": "loglikelihood",
        "norm": "sum",
        "rendering": "plain",
    }
    header["decoding"] = {"tokens": 16, "temperature": 0.0, "stop": ["\n"], "samples": 1}  # type: ignore[assignment]
    lines = [{"forgetwatch_probe": header}] if rng.random() < 0.7 else []
    data = maybe_damage(to_jsonl(changed([*lines, *_items(rng)], rng), rng), rng)
    path = folder / rng.choice(("probe.jsonl", "probe.jsonl", "probe.jsonl.gz"))
    if path.suffix == ".gz" and rng.random() < 0.9:
        data = maybe_damage(gzip.compress(data, mtime=0), rng)
    path.write_bytes(data)
    return path


def questions(folder: Path, rng: Rng) -> Path:
    """A table of questions, of which a probe is made."""
    rows = [
        {"question": f"Q{n}?", "choices": ["a", "b"], "answer": n % 2, "category": "c"}
        for n in range(4)
    ]
    if rng.random() < 0.5:
        rows = [{"question": f"Q{n}?", "A": "a", "B": "b", "answer": "AB"[n % 2]} for n in range(4)]
    listed = changed(rows, rng)
    kind = rng.choice(("csv", "tsv", "jsonl", "json", "parquet"))
    path = folder / f"questions.{kind}"
    if kind == "parquet":
        return parquet(path, listed, rng)
    made: dict[str, Callable[[Any, Rng], bytes]] = {
        "csv": to_csv,
        "tsv": to_csv,
        "jsonl": to_jsonl,
        "json": to_json,
    }
    path.write_bytes(maybe_damage(made[kind](listed, rng), rng))
    return path


def policy(folder: Path, rng: Rng) -> Path:
    whole = {
        **{"policy": "p", "error": "5%", "required": ["category:c"], "on_fail": "stop"},
        "critical": [
            {"of": "all", "accuracy": "2%"},
            {"of": "category:c", "accuracy": "5% of before, at least 1%"},
            "newly_unscored>3",
            {"metric": "m", "gain": "2%"},
        ],
        "supporting": {
            "unclear": "1",
            "limits": [{"of": "task:*", "accuracy": "no worsening"}, {"known": "5%"}],
        },
        "advisory": ["category:*.forgotten>3", {"of": "tag:x", "gain": "2%"}],
        "must_pass": rng.choice((["a", "b"], {"t": ["a"]}, "true")),
        "subset": {"tasks": ["t"], "categories": ["c"], "items": "ids.txt"},
        "exceptions": [{"of": "category:c", "reason": "known", "until": "2026-01-31"}],
    }
    kept = rng.sample(sorted(whole), rng.randrange(1, len(whole) + 1))
    (folder / "ids.txt").write_bytes(maybe_damage(b"0\n1\n2\n", rng))
    path = folder / "policy.yaml"
    # JSON is YAML, so a changed value needs no writer of its own.
    path.write_bytes(
        maybe_damage(to_json(changed({name: whole[name] for name in kept}, rng), rng), rng)
    )
    return path


def categories(folder: Path, rng: Rng) -> Path:
    names = {"t": "Math", "mmlu_*": "Science", "arc": "Logic"}
    if rng.random() < 0.5:
        path, data = folder / "c.yaml", to_json(changed(names, rng), rng)
        if rng.random() < 0.5:
            data = "".join(f"{name}: {part}\n" for name, part in names.items()).encode()
    else:
        rows = [{"task": task, "category": category} for task, category in names.items()]
        path, data = folder / "c.csv", to_csv(changed(rows, rng), rng)
    path.write_bytes(maybe_damage(data, rng, share=0.6))
    return path


def target(folder: Path, rng: Rng) -> Path:
    rows = [
        {"model": name, "metric": rng.choice((*[0.5] * 9, "x", "nan", 3))}
        for name in ("before.csv", "after.csv")
    ]
    path = folder / "target.csv"
    path.write_bytes(maybe_damage(to_csv(changed(rows, rng), rng), rng))
    return path


OUTCOMES: dict[str, Callable[[Path, Rng], Path]] = {
    "lm-eval samples": harness_samples,
    "lm-eval results": harness_results,
    "lm-eval folder": harness_folder,
    "Inspect .eval": inspect_zip,
    "Inspect .json": inspect_json,
    "lighteval": lighteval,
    "further tools": further_tools,
    "CSV": table_csv,
    "JSONL": table_jsonl,
    "Parquet": table_parquet,
    "snapshot": snapshot,
}
"""Writers of files that `load_snapshot` reads."""


def some(rng: Rng, options: Sequence[str], most: int) -> list[str]:
    """Up to `most` of the options, in random order."""
    return rng.sample(list(options), rng.randrange(min(most, len(options)) + 1))

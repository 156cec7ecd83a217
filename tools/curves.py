"""Draw the curves that Weights & Biases got from an offline run of the demo.

    WANDB_MODE=offline forgetwatch demo --report-to wandb
    python tools/curves.py forgetwatch-demo docs/how-to/wandb.png

The file of an offline run is a header of 7 bytes and a log in blocks of 32 KiB, as LevelDB writes them: each piece of a
record has a checksum, its length and its kind. The names are those of the panels.
"""

from __future__ import annotations

import json
import struct
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from wandb.proto.wandb_internal_pb2 import Record

HEADER, BLOCK, PIECE = 7, 32_768, struct.Struct("<IHB")
WHOLE, LAST = 1, 4
"""Kinds of a piece that ends a record."""
STEP = "train/global_step"
PANELS = {
    "eval/forget/all/known_lost_net": "clearly known, now lost",
    "eval/forget/all/accuracy": "accuracy of all questions",
    "train/loss": "loss of the new task",
}
"""Keys that are drawn, and what each says."""

Curves = dict[str, list[tuple[int, float]]]


def records(path: Path) -> list[Record]:
    """Records of an offline run."""
    content, position, record, found = path.read_bytes(), HEADER, b"", []
    while position + PIECE.size <= len(content):
        if (room := BLOCK - position % BLOCK) < PIECE.size:
            position += room
            continue
        _, length, kind = PIECE.unpack_from(content, position)
        position += PIECE.size
        record += content[position : position + length]
        position += length
        if kind in (WHOLE, LAST):
            found.append(Record.FromString(record))
            record = b""
    return found


def curves(path: Path) -> Curves:
    """Values of each number of an offline run, by step."""
    found: Curves = defaultdict(list)
    for record in records(path):
        row = {
            item.key or ".".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for key in PANELS.keys() & row.keys():
            found[key].append((row[STEP], row[key]))
    return found


def draw(found: Curves, path: Path) -> None:
    """Draw a panel for each number, titled by its key."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(11.5, 3.2), layout="constrained")
    for axis, (key, meaning) in zip(axes, PANELS.items(), strict=True):
        steps, values = zip(*found[key], strict=True)
        axis.plot(steps, values, marker="o", markersize=4, linewidth=2, color="#b2182b")
        axis.set_title(key, family="monospace", fontsize=9.5)
        axis.set_xlabel("step")
        axis.set_ylabel(meaning)
        axis.grid(alpha=0.3)
        if key.endswith("accuracy"):
            axis.set_ylim(0, 1)
    figure.savefig(path, dpi=110)


def main(demo: Path, path: Path) -> None:
    """Draw the newest offline run of a demo."""
    runs = sorted(demo.glob("wandb/offline-run-*/*.wandb"))
    draw(curves(runs[-1]), path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

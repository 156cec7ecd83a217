"""Grades of real outputs beside judgements by eye.

`behaviour_outputs.jsonl` holds the answers of a model of 135M parameters to all items. Each was read with its prompt:
is it right (`right`), and does it repeat itself (`loops`)? Null where the reader was in doubt, and for items with
tools, for which that model's chat template has no place. A hundred more answers are of the same model halfway to one
that was ruined by training on JSON records.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forgetwatch import load_probe
from forgetwatch.grading import grade, loops

ITEMS = {item.id: item for item in load_probe("behaviour")}
LINES = (Path(__file__).parent / "behaviour_outputs.jsonl").read_text("utf-8").splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in LINES[1:]]


def test_every_item_has_an_output_that_was_read() -> None:
    assert [row["id"] for row in ROWS if not row.get("damaged")] == list(ITEMS)
    assert sum(bool(row.get("damaged")) for row in ROWS) == 100
    judged = [row for row in ROWS if row["right"] is not None]
    in_doubt = [row["id"] for row in ROWS if row["right"] is None and not ITEMS[row["id"]].tools]
    assert len(judged) == 258
    assert in_doubt == ["language-05", "language-09"]


def test_at_most_one_percent_of_the_outputs_is_graded_otherwise_than_by_eye() -> None:
    judged = [row for row in ROWS if row["right"] is not None]
    unlike = [
        row["id"]
        for row in judged
        if grade(ITEMS[row["id"]], row["output"], truncated=row["cut"]).correct is not row["right"]
    ]
    assert len(unlike) <= 0.01 * len(judged), unlike


def test_every_output_that_repeats_itself_to_the_eye_is_found_and_no_other() -> None:
    judged = [row for row in ROWS if row["loops"] is not None]
    assert sum(row["loops"] for row in judged) == 83
    assert [row["id"] for row in judged if loops(row["output"]) is not row["loops"]] == []

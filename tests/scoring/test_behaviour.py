"""The shipped probe `behaviour`, on a model and on a stand-in that answers well."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from support import model, tokenizer

from forgetwatch import load_probe, score
from forgetwatch.decoding import Decoding
from forgetwatch.scoring.encoding import Ids
from forgetwatch.scoring.generation import Generated, GeneratedItems

PROBE = load_probe("behaviour")
TOK = tokenizer()


class StandIn:
    """Writes the good answers of the test table, and never ends where it is asked to stop."""

    name = "stand-in"

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        table = Path(__file__).parent.parent / "probes" / "behaviour_answers.jsonl"
        good = {row["id"]: row["good"][0] for row in map(json.loads, table.read_text("utf-8").splitlines())}
        return [Generated(good[item.id], item.match == "stops", ()) for item in PROBE]


def test_good_answers_are_right_and_those_that_do_not_stop_are_truncated_and_wrong() -> None:
    written = GeneratedItems(PROBE, range(len(PROBE)), TOK, max_length=4096)
    for place, (row,) in written.rows(StandIn()).items():
        stops = PROBE[place].match == "stops"
        assert (row["correct"], row["outcome"]) == ((False, "truncated") if stops else (True, "ok"))


def test_a_random_model_answers_all_items_and_none_is_unscored() -> None:
    rows = score(model(TOK, positions=256), TOK, PROBE).table.to_pylist()
    assert len(rows) == 96
    assert {row["outcome"] for row in rows} <= {"ok", "no answer", "truncated"}
    assert all(isinstance(row["correct"], bool) for row in rows)
    assert not any(row["correct"] for row in rows if row["outcome"] != "ok")

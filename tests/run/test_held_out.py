"""The search for the probe in the training examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from support import tokenizer, trainer

from forgetwatch import ForgetWatchCallback, Item, Probe
from forgetwatch.run import held_out, overlap_line

ITEMS = [
    Item(
        id=str(n),
        task="t",
        prompt=f"w{n} w{n + 1} w{n + 2} w{n + 3} w{n + 4} w{n + 5}",
        choices=(" w1", " w2"),
        answer=0,
    )
    for n in range(0, 40, 8)
]


def test_questions_are_found_in_text_and_in_token_ids() -> None:
    tok, probe = tokenizer(), Probe(ITEMS)
    texts = [f"w50 {ITEMS[2].prompt} w51", "w7 w8"]
    for rows in ([{"text": text} for text in texts], [{"input_ids": tok(text)["input_ids"]} for text in texts]):
        found = held_out(probe, Dataset.from_list(rows), tok)
        assert found is not None
        assert [name for _, name in found.exact] == ["16"]
        assert found.rows == found.of_rows
    assert "remove it from" in overlap_line(found)


def test_a_stream_is_not_searched() -> None:
    assert held_out(Probe(ITEMS), Dataset.from_list([{"text": "w1"}]).to_iterable_dataset(), tokenizer()) is None
    assert held_out(Probe(ITEMS), None, tokenizer()) is None


def test_the_search_stops_in_time_and_reports_its_share() -> None:
    found = held_out(Probe(ITEMS), [{"text": "w1 " * 50}] * 200_000, tokenizer(), seconds=0.05)
    assert found is not None
    assert found.of_rows is not None
    assert found.rows < found.of_rows
    assert "remove it from" not in overlap_line(found)


def test_a_run_logs_the_search_for_its_probe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run: Any = trainer(tmp_path, steps=1, callbacks=[ForgetWatchCallback(Probe(ITEMS), every=1, max_overhead=None)])
    run.train()
    lines = [line for line in capfd.readouterr().err.splitlines() if "is the probe held out?" in line]
    assert len(lines) == 1
    assert f"of {len(ITEMS)} questions are in them word for word" in lines[0]

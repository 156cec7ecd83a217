"""The shipped probe `behaviour`, on a model and on a stand-in that answers well."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from support import model, tokenizer

from forgetwatch import Item, Probe, load_probe, score
from forgetwatch.decoding import Decoding
from forgetwatch.scoring import Generated, GeneratedItems, Ids, render_prompt

PROBE = load_probe("behaviour")
WORDS = [str(item.prompt if isinstance(item.prompt, str) else item.prompt[-1]["content"]) for item in PROBE]
TOK = tokenizer(words_of=WORDS)
WITH_TOOLS = tokenizer(words_of=WORDS)
WITH_TOOLS.chat_template = "{% if tools %}{{ tools }} {% endif %}" + WITH_TOOLS.chat_template
NO_TOOLS = "unscored: the chat template has no place for tools"


class StandIn:
    """Writes the good answers of the test table, and never ends where it is asked to stop."""

    name = "stand-in"

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        table = Path(__file__).parent.parent / "probes" / "behaviour_answers.jsonl"
        good = {row["id"]: row["good"][0] for row in map(json.loads, table.read_text("utf-8").splitlines())}
        items = [item for item in PROBE if not item.tools or len(prompts) == len(PROBE)]
        return [Generated(good[item.id], item.match == "stops", ()) for item in items]


def test_good_answers_are_right_and_those_that_do_not_stop_are_truncated_and_wrong() -> None:
    written = GeneratedItems(PROBE, range(len(PROBE)), WITH_TOOLS, max_length=8192)
    for index, (row,) in written.rows(StandIn()).items():
        stops = PROBE[index].match == "stops"
        assert (row["correct"], row["outcome"]) == ((False, "truncated") if stops else (True, "ok"))


def test_a_random_model_answers_all_items_and_those_with_tools_are_unscored_without_a_place_for_them() -> None:
    rows = score(model(TOK, positions=256), TOK, PROBE).table.to_pylist()
    assert len(rows) == 180
    for item, row in zip(PROBE, rows, strict=True):
        if item.tools:
            assert (row["outcome"], row["correct"]) == (NO_TOOLS, None)
        else:
            assert row["outcome"] in {"ok", "no answer", "truncated"}
            assert isinstance(row["correct"], bool)
            assert row["outcome"] == "ok" or not row["correct"]


def test_only_a_template_that_leaves_the_tools_out_makes_an_item_unscored() -> None:
    tool = {"type": "function", "function": {"name": "now"}}
    item = Item(id="1", task="t", prompt="a b", answer='{"name": "now"}', match="tool_call", tools=[tool])
    probe = Probe([item, replace(item, id="2", tools=None)], rendering="chat")
    assert [bool(render_prompt(one, probe, TOK).unscored) for one in probe] == [True, False]
    assert [bool(render_prompt(one, probe, WITH_TOOLS).unscored) for one in probe] == [False, False]

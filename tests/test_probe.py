from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import probe

from forgetwatch import Item, Probe
from forgetwatch.errors import ProbeError
from forgetwatch.probe import read_probe

ITEM = Item(
    id="1", task="capitals", category="Culture", prompt="Q: Chile?\nA:", choices=(" Santiago", " Lima"), answer=0
)


def test_fingerprint_covers_questions_and_settings_but_not_labels_or_order() -> None:
    base = probe()
    relabelled = Probe([replace(item, category="other") for item in reversed(base.items)], name="x")
    assert relabelled.fingerprint == base.fingerprint
    for settings in ({"norm": "bytes"}, {"scoring": "letters"}, {"rendering": "chat"}):
        assert probe(**settings).fingerprint != base.fingerprint
    assert probe(29).fingerprint != base.fingerprint


@pytest.mark.parametrize("scoring", ["loglikelihood", "letters", "generate"])
def test_the_default_norm_is_sum(scoring: str) -> None:
    assert probe(scoring=scoring).norm == "sum"


def test_a_stored_probe_keeps_the_norm_of_its_header(tmp_path: Path) -> None:
    # Earlier versions decided by bytes by default, and wrote that into every header.
    probe(norm="bytes").save(tmp_path / "p.jsonl")
    assert '"norm": "bytes"' in (tmp_path / "p.jsonl").read_text().splitlines()[0]
    assert read_probe(tmp_path / "p.jsonl").norm == "bytes"


@pytest.mark.parametrize(
    ("items", "settings", "says"),
    [
        ([], {}, "has no items"),
        ([ITEM, ITEM], {}, "'1' occurs twice in task 'capitals'"),
        ([ITEM], {"norm": "words"}, "norm must be one of sum, chars, bytes, tokens, unconditional, got 'words'"),
        ([ITEM], {"scoring": "speak"}, "scoring must be one of"),
        ([replace(ITEM, system="s")], {}, "system needs the chat template"),
        ([replace(ITEM, prompt=({"role": "user", "content": "x"},))], {}, "chat messages needs the chat template"),
        ([replace(ITEM, choices=tuple(map(str, range(27))))], {"scoring": "letters"}, "27 choices for 26 letters"),
        ([{"id": "1"}], {}, "must be an Item, got dict"),
    ],
)
def test_an_invalid_probe_is_refused(items: list[Any], settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        Probe(items, **settings)


def test_a_probe_comes_back_from_its_file(tmp_path: Path) -> None:
    made = Probe(
        [
            ITEM,
            Item(
                id="2", task="t", prompt=({"role": "user", "content": "é\n…"},), choices=("a", "b", "c"), answer=(0, 2)
            ),
            Item(id="3", task="t", prompt="2+2=", answer=("4", "four"), match="exact", must_pass=True, tags=("x",)),
        ],
        name="mine",
        norm="tokens",
        rendering="chat",
    )
    made.save(tmp_path / "p.jsonl")
    read = read_probe(tmp_path / "p.jsonl")
    assert list(read) == list(made)
    assert (read.name, read.settings, read.fingerprint) == (made.name, made.settings, made.fingerprint)


@pytest.mark.parametrize(
    ("match", "answer"), [("stops", "yes"), ("language", "de"), ("regex", "a+"), ("json:keys", "[]")]
)
def test_matches_that_describe_an_output_cannot_be_forced(match: str, answer: str) -> None:
    open_item = Item(id="2", task="t", prompt="p", answer=answer, match=match)
    Probe([open_item])
    with pytest.raises(ProbeError, match=rf"item '2': match '{match}' needs a generated output"):
        Probe([open_item], decoding={"check": "forced"})


def test_a_canary_stays_with_the_probe_and_changes_no_measurement(tmp_path: Path) -> None:
    made = probe(canary="do not train on this")
    assert made.fingerprint == probe().fingerprint
    for name in ("p.jsonl", "p.jsonl.gz"):
        made.save(tmp_path / name)
        read = read_probe(tmp_path / name)
        assert (read.canary, read.name, list(read)) == (made.canary, "toy", list(made))
    assert "do not train on this" in (tmp_path / "p.jsonl").read_text().splitlines()[0]
    assert made.head(3).canary == made.canary
    with pytest.raises(ProbeError, match="canary must be text, got 5"):
        probe(canary=5)


def test_a_compressed_file_is_the_same_text_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz", "plain.jsonl"):
        probe().save(tmp_path / name)
    content = (tmp_path / "a.jsonl.gz").read_bytes()
    assert gzip.decompress(content) == (tmp_path / "plain.jsonl").read_bytes()
    assert content == (tmp_path / "b.jsonl.gz").read_bytes()
    (tmp_path / "mine.jsonl.gz").write_bytes(gzip.compress((json.dumps(ITEM.to_json()) + "\r\n").encode()))
    assert read_probe(tmp_path / "mine.jsonl.gz").name == "mine"


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"no gzip", lambda content: b""])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "p.jsonl.gz"
    probe().save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        ProbeError, match=r"p\.jsonl\.gz: (needed a probe in JSONL, and it cannot be read|.* has no items)"
    ):
        read_probe(path)


def test_a_file_without_header_is_named_after_itself(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ITEM.to_json()) + "\n\n")
    read = read_probe(path, scoring="letters")
    assert (read.name, read.scoring, read.norm, len(read)) == ("mine", "letters", "sum", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no items"),
        ('{"id": "1", "task": "t"', "line 1: not a JSON object .* is the file cut"),
        ("[1]", "line 1: an item is a JSON object, got list"),
        ('{"id": "1", "task": "t"}', "line 1: an item needs answer, prompt"),
        (
            '{"id": "1", "task": "t", "prompt": "p", "answer": 0, "choices": ["a"], "colour": 1}',
            "unknown field 'colour'",
        ),
        (
            '{"forgetwatch_probe": {"speed": 1}}\n{"id": "1", "task": "t", "prompt": "", "answer": "a"}',
            "unknown setting 'speed'; a probe has canary, decoding, name, norm, plan, rendering, scoring",
        ),
    ],
)
def test_a_damaged_probe_file_is_refused_with_the_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(ProbeError, match=says):
        read_probe(tmp_path / "p.jsonl")


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="no such file"):
        read_probe(tmp_path / "none.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProbeError, match="not UTF-8"):
        read_probe(tmp_path / "b.jsonl")


def test_a_beginning_without_generated_answers_is_a_probe_without_decoding() -> None:
    scored = probe(3).items
    written = Item(id="w", task="o", prompt="Q", answer="x", match="exact")
    both = Probe([*scored, written], decoding={"tokens": 7}, norm="bytes")
    assert both.head(3).fingerprint == Probe(scored, norm="bytes").fingerprint
    assert both.head(3).decoding is None
    assert both.head(4).decoding == both.decoding
    assert Probe(scored, scoring="generate", decoding={"tokens": 7}).head(1).settings["decoding"]["tokens"] == 7

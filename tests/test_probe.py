"""A passage as an item: its form, its file, and the probes that it can stand in."""

import gzip
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from passage_texts import passages
from support import probe

from forgetwatch import Item, Probe, Snapshot, compare, load_probe, load_snapshot
from forgetwatch.errors import ProbeError, SnapshotError
from forgetwatch.probe import combine, read_probe
from forgetwatch.probes.checking import check_probe
from forgetwatch.probes.worked_examples import few_shot
from forgetwatch.ranges import MAX_OPTIONS, check_ranges
from forgetwatch.snapshot import SCHEMA

ITEM = Item(
    id="1",
    task="capitals",
    category="Culture",
    prompt="Q: Chile?\nA:",
    choices=(" Santiago", " Lima"),
    answer=0,
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
        (
            [ITEM],
            {"norm": "words"},
            "norm must be one of sum, chars, bytes, tokens, unconditional, got 'words'",
        ),
        ([ITEM], {"scoring": "speak"}, "scoring must be one of"),
        ([replace(ITEM, system="s")], {}, "system needs the chat template"),
        (
            [replace(ITEM, prompt=({"role": "user", "content": "x"},))],
            {},
            "chat messages needs the chat template",
        ),
        (
            [replace(ITEM, choices=tuple(map(str, range(27))))],
            {"scoring": "letters"},
            "27 choices for 26 letters",
        ),
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
                id="2",
                task="t",
                prompt=({"role": "user", "content": "é\n…"},),
                choices=("a", "b", "c"),
                answer=(0, 2),
            ),
            Item(
                id="3",
                task="t",
                prompt="2+2=",
                answer=("4", "four"),
                match="exact",
                must_pass=True,
                tags=("x",),
            ),
        ],
        name="mine",
        norm="tokens",
        rendering="chat",
    )
    made.save(tmp_path / "p.jsonl")
    read = read_probe(tmp_path / "p.jsonl")
    assert list(read) == list(made)
    assert (read.name, read.settings, read.fingerprint) == (
        made.name,
        made.settings,
        made.fingerprint,
    )


@pytest.mark.parametrize(
    ("match", "answer"),
    [("stops", "yes"), ("language", "de"), ("regex", "a+"), ("json:keys", "[]")],
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
    (tmp_path / "mine.jsonl.gz").write_bytes(
        gzip.compress((json.dumps(ITEM.to_json()) + "\r\n").encode())
    )
    assert read_probe(tmp_path / "mine.jsonl.gz").name == "mine"


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda content: b"no gzip", lambda content: b""]
)
def test_a_damaged_compressed_file_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "p.jsonl.gz"
    probe().save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        ProbeError,
        match=r"p\.jsonl\.gz: (needed a probe in JSONL, and it cannot be read|.* has no items)",
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
            "unknown setting 'speed'; a probe has canary, decoding, may_chat, name, norm, plan, rendering, scoring",
        ),
    ],
)
def test_a_damaged_probe_file_is_refused_with_the_line(
    tmp_path: Path, text: str, says: str
) -> None:
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
    assert (
        Probe(scored, scoring="generate", decoding={"tokens": 7})
        .head(1)
        .settings["decoding"]["tokens"]
        == 7
    )


def test_content_hash_is_that_of_the_written_definition() -> None:
    content = ["Q: Chile?\nA:", [" Santiago", " Lima"], [0], None, None, None]
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    assert ITEM.content_hash == hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "change", [{"id": "2"}, {"task": "t"}, {"category": "x"}, {"tags": ("a",)}, {"meta": {"a": 1}}]
)
def test_content_hash_ignores_ids_labels_and_metadata(change: dict[str, Any]) -> None:
    assert replace(ITEM, **change).content_hash == ITEM.content_hash


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Q"},
        {"shots": "Q: Peru?\nA: Lima\n\n"},
        {"choices": (" Santiago", " Quito")},
        {"answer": 1},
        {"system": "s"},
        {"tools": [{"n": 1}]},
    ],
)
def test_content_hash_covers_the_content_of_the_question(change: dict[str, Any]) -> None:
    assert replace(ITEM, **change).content_hash != ITEM.content_hash


def test_worked_examples_are_part_of_the_content_and_not_of_the_question() -> None:
    shots = "Q: Peru?\nA: Lima\n\n"
    item = replace(ITEM, shots=shots)
    assert item.full_prompt == shots + ITEM.prompt
    assert item.prompt == ITEM.prompt
    assert item.content_hash == replace(ITEM, prompt=shots + ITEM.prompt).content_hash
    assert Item.from_json(item.to_json()) == item


def test_the_order_of_several_right_answers_does_not_matter() -> None:
    one, other = (
        Item(id="1", task="t", prompt="p", choices=("a", "b", "c"), answer=a)
        for a in ((0, 2), (2, 0))
    )
    assert one.content_hash == other.content_hash
    assert one.answers == (0, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": 2}, "answer 2 is outside its 2 choices"),
        ({"answer": -1}, "outside its 2 choices"),
        ({"answer": True}, "must be an index"),
        ({"answer": "Santiago"}, "must be an index"),
        ({"answer": ()}, "no answer"),
        ({"choices": ()}, "choices is empty"),
        ({"answer": (0, 0)}, "names a choice twice"),
        ({"answer": None}, "no answer is given; only a passage has none, and it has one choice"),
        ({"answer": 1.0}, "answer must be an index or text"),
        ({"choices": "ab"}, "choices must be a list of texts"),
        ({"choices": {"a": 1}}, "choices must be a list of texts"),
        ({"choices": None}, "choices must be a list of texts"),
        ({"id": ""}, "id must be text that is not empty"),
        ({"task": 3}, "task must be text"),
        ({"cluster": 5}, "cluster must be text"),
        ({"tags": 5}, "tags must be a list"),
        ({"tools": [1]}, "tools must be a list of objects"),
        (
            {"shots": "a", "prompt": ({"role": "user", "content": "b"},)},
            "shots is for a prompt of text",
        ),
        ({"shots": None}, "shots must be text"),
        ({"prompt": ()}, "prompt must be text, or chat messages"),
        ({"prompt": 5}, "prompt must be text, or chat messages"),
        ({"prompt": ({"role": "user"},)}, "prompt must be text, or chat messages"),
        ({"prompt": "half a pair: \ud83d"}, "prompt must be text"),
    ],
)
def test_an_invalid_item_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        replace(ITEM, **change)


def test_an_open_item_has_no_k() -> None:
    item = Item(id="1", task="t", prompt="2+2=", answer="4", match="number")
    assert item.k is None
    assert item.answers == ("4",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"match": "fuzzy"}, "match must be one of exact, .* or regex:PATTERN, got 'fuzzy'"),
        ({"match": "regex:"}, "match must be one of"),
        ({"match": ""}, "match must be one of"),
        ({"choices": ("4", "5"), "answer": 0}, "is for open answers, and this item has choices"),
    ],
)
def test_a_match_that_is_unknown_or_does_not_fit_is_refused(
    change: dict[str, Any], says: str
) -> None:
    item = Item(id="1", task="t", prompt="2+2=", answer="4", match="number")
    with pytest.raises(ProbeError, match=says):
        replace(item, **change)


@pytest.mark.parametrize(
    "change", [{"system": ""}, {"tools": ()}, {"cluster": ""}, {"meta": {}}, {"tags": []}]
)
def test_an_item_keeps_its_content_hash_in_a_file(change: dict[str, Any]) -> None:
    """An empty system message was left out of the file, which made it another question."""
    item = replace(ITEM, **change)
    assert Item.from_json(json.loads(json.dumps(item.to_json()))).content_hash == item.content_hash


TEXT = {"id": "1", "task": "news", "prompt": "", "choices": ["The bridge opened on Monday."]}


def test_one_choice_without_prompt_and_answer_is_a_passage() -> None:
    made = Item.from_json(TEXT)
    assert made.is_passage
    assert (made.answers, made.k) == ((), None)
    assert Item.from_json({**TEXT, "answer": None}) == made
    question = Item.from_json({**TEXT, "answer": 0})
    assert not question.is_passage
    assert question.content_hash != made.content_hash


def test_a_passage_comes_back_from_its_json() -> None:
    made = Item.from_json(TEXT)
    assert made.to_json() == {**TEXT, "choices": ["The bridge opened on Monday."]}
    assert Item.from_json(json.loads(json.dumps(made.to_json()))).content_hash == made.content_hash


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"choices": [" \n"]}, r"item '1': a passage needs text as its choice, got ' \\n'"),
        (
            {"choices": [" a", " b"], "answer": None},
            "only a passage has none, and it has one choice, its text: got 2",
        ),
        ({"choices": [" a", " b"]}, "an item needs answer"),
        ({"choices": [], "answer": None}, "got 0 choices"),
        (
            {"prompt": "Read:"},
            "a passage has no prompt, got 'Read:'; give the answer, or an empty prompt",
        ),
        (
            {"must_pass": True},
            "a passage has no right answer and is read as it is, so that must_pass has no meaning",
        ),
        ({"match": "exact"}, "so that match has no meaning"),
        ({"shots": "Q: 1\nA: 2\n\n"}, "so that shots has no meaning"),
        ({"system": "s"}, "so that system has no meaning"),
        ({"rendering": "chat"}, "so that rendering='chat' has no meaning"),
    ],
)
def test_what_is_no_passage_is_refused_in_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        Item.from_json({**TEXT, **change})


@pytest.mark.parametrize("scoring", ["letters", "generate"])
def test_passages_need_log_likelihoods(scoring: Any) -> None:
    with pytest.raises(
        ProbeError, match=f"a passage needs scoring='loglikelihood', got '{scoring}'"
    ):
        Probe([*probe(6), *passages(2)], scoring=scoring)


def test_a_passage_is_plain_in_a_chat_probe() -> None:
    made = Probe([*probe(3), *passages(1)], rendering="chat")
    assert [made.rendering_of(item) for item in made] == ["chat", "chat", "chat", "plain"]


def test_a_probe_of_questions_and_passages_comes_back_from_its_file(tmp_path: Path) -> None:
    both = combine(probe(5, norm="bytes"), Probe(passages(4), name="texts"))
    both.save(tmp_path / "both.jsonl")
    assert read_probe(tmp_path / "both.jsonl").fingerprint == both.fingerprint
    assert (both.name, both.norm, len(both)) == ("toy+texts", "bytes", 9)


def test_a_file_of_passages_needs_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(item.to_json()) + "\n" for item in passages(3)))
    assert [item.choices for item in load_probe(path)] == [item.choices for item in passages(3)]


def test_passages_are_no_fault_of_a_probe() -> None:
    assert not [finding.name for finding in check_probe(Probe(passages(6))) if finding.wrong]


def test_passages_get_no_worked_examples() -> None:
    made = few_shot(Probe([*probe(4), *passages(2)]), [*probe(12), *passages(3)], shots=2)
    assert [item.prompt for item in made if item.is_passage] == ["", ""]
    assert all("Answer :" in item.prompt for item in made if not item.is_passage)


GOOD: dict[str, Any] = {
    "item_id": ["a", "b"],
    "correct": [True, False],
    "k": [2, 2],
    "gold": [0, 1],
    "golds": [None, [0, 1]],
    "chosen": [0, 0],
    "sample": [0, 0],
    "gold_share": [0.0, 1.0],
    "option_mass": [1 + 1e-7, -1e-7],
    "margin": [0.0, None],
    "choice_logprobs": [[-1.0, -math.inf], [0.3, -2.0]],
    "choice_priors": [[-1.0, -2.0], None],
    "choice_chars": [[0, 3], None],
    "choice_bytes": [[0, 3], None],
    "choice_tokens": [[1, 1], None],
}


def test_values_at_the_ends_of_their_ranges_are_accepted() -> None:
    assert len(Snapshot.from_columns(GOOD, {})) == 2


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("k", 0, "needed k from 1 to 10,000, got 0"),
        (
            "k",
            2**31 - 1,
            "needed k from 1 to 10,000, got 2147483647; leave it empty for open answers",
        ),
        ("gold", 2, "needed one of its 2 options as gold, got 2; options are numbered from 0"),
        ("golds", [0, 0], r"needed one of its 2 options as golds, each once, got \[0, 0\]"),
        ("golds", [0, 2], r"as golds, each once, got \[0, 2\]"),
        ("golds", [], r"as golds, each once, got \[\]"),
        ("golds", [None], r"as golds, each once, got \[None\]"),
        ("chosen", 2, "needed one of its 2 options as chosen, got 2"),
        ("chosen", -1, "needed one of its 2 options as chosen, got -1"),
        ("sample", -1, "needed sample from 0 to 1,000,000, got -1; samples are numbered from 0"),
        ("sample", 2**31 - 1, "needed sample from 0 to 1,000,000, got 2147483647"),
        ("gold_share", 30.0, "needed gold_share from 0 to 1, got 30; divide percentages by 100"),
        ("gold_share", 1e308, r"needed gold_share from 0 to 1, got 1e\+308$"),
        ("gold_share", -5.0, "needed gold_share from 0 to 1, got -5$"),
        ("option_mass", 99.0, "needed option_mass from 0 to 1, got 99; divide percentages by 100"),
        (
            "margin",
            -0.5,
            "needed margin at least 0, got -0.5; it is the best score minus the second",
        ),
        (
            "choice_logprobs",
            [1.5, -1.0],
            r"of at most 0 \(rounding up to 1 is allowed\), got 1.5; a log-likelihood is the logarithm",
        ),
        ("choice_logprobs", [math.inf, -1.0], "choice_logprobs has plus infinity"),
        (
            "choice_priors",
            [-1.0, 70.0],
            r"needed choice_priors of at most 0 \(rounding up to 1 is allowed\), got 70",
        ),
        (
            "choice_logprobs",
            [-1.0],
            "needed one value of choice_logprobs for each of the 2 options, got 1",
        ),
        ("choice_chars", [-1, 1], "needed choice_chars at least 0, got -1"),
        ("choice_bytes", [1, -7], "needed choice_bytes at least 0, got -7"),
        (
            "choice_tokens",
            [1],
            "needed one value of choice_tokens for each of the 2 options, got 1",
        ),
    ],
)
def test_a_value_outside_its_range_is_refused_with_row_value_and_remedy(
    column: str, value: Any, says: str
) -> None:
    columns = {**GOOD, column: [GOOD[column][0], value]}
    table = pa.table(
        {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    )
    with pytest.raises(SnapshotError, match=rf"^row 2 \(item 'b'\): .*{says}"):
        check_ranges(table)


@pytest.mark.parametrize("last", [0.1, 0.0])
def test_probabilities_instead_of_their_logarithms_are_refused(last: float) -> None:
    table = pa.table({"item_id": ["a", "b"], "choice_logprobs": [[last, 1 - last], [0.9, 0.1]]})
    first = "0.1, and" if last else "1, and"
    with pytest.raises(
        SnapshotError, match=rf"got {first} none in the table is below 0; take the logarithm"
    ):
        check_ranges(table)


def test_log_likelihoods_that_are_all_zero_are_accepted() -> None:
    check_ranges(pa.table({"item_id": ["a", "b"], "choice_logprobs": [[0.0, 0.0], [0.0, 0.0]]}))


def test_an_open_answer_may_name_any_gold_and_no_negative_one() -> None:
    assert len(Snapshot.from_columns({"item_id": ["a"], "correct": [True], "gold": [7]}, {})) == 1
    with pytest.raises(
        SnapshotError, match=r"row 1 \(item 'a'\): needed an option as gold, got -1"
    ):
        Snapshot.from_columns({"item_id": ["a"], "correct": [True], "gold": [-1]}, {})


@pytest.mark.parametrize("k", [MAX_OPTIONS, MAX_OPTIONS + 1])
def test_the_largest_k_is_compared_and_a_larger_one_refused(k: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("item_id,correct,k,gold,chosen\n" + f"a,1,{k},0,0\nb,0,{k},0,1\nc,1,4,0,0\n")
    if k > MAX_OPTIONS:
        with pytest.raises(
            SnapshotError, match=r"t\.csv: row 1 \(item 'a'\): needed k from 1 to 10,000, got 10001"
        ):
            load_snapshot(path)
    else:
        assert compare(before=path, after=load_snapshot(path)).all.n == 3

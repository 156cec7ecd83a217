"""The base's own texts: reproducible, each once, none of the probe's questions, in TRL's formats."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from run_folders import write_run
from support import model, probe, snapshot, tokenizer
from typer.testing import CliRunner

from forgetwatch import Item, Probe
from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError, ScoringError
from forgetwatch.probes.overlap import shares_words
from forgetwatch.probes.shipped_probes import split_halves
from forgetwatch.retention.replay import _SENTENCE as SENTENCE
from forgetwatch.retention.replay import Replay, sample_replay
from forgetwatch.retention.topics import TOPICS, Prompt, shipped_prompts

TOK = tokenizer()
PROMPTS = [Prompt(f"Q w{n} w{n + 1}", "ab"[n % 2]) for n in range(20)]


def sampled(**options: Any) -> Replay:
    given: dict[str, Any] = {"rows": 12, "chat": False, "tokens": 12, **options}
    return sample_replay(model(TOK), TOK, given.pop("prompts", PROMPTS), **given)


@pytest.fixture(autouse=True)
def no_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model writes no full stop: a whole text counts as its sentence."""
    import re

    monkeypatch.setattr("forgetwatch.retention.replay._SENTENCE", re.compile(r"(?s)(.*\S)"))


def test_rows_are_whole_new_and_the_same_for_a_seed() -> None:
    one, same, other = sampled(), sampled(), sampled(seed=1)
    assert one.rows == same.rows != other.rows
    assert len(one.rows) == 12
    texts = [row["completion"] for row in one.rows]
    assert len(set(texts)) == 12
    assert all(len(text.split()) >= 8 for text in texts)
    assert {tuple(row) for row in one.rows} == {("prompt", "completion")}


def test_a_chat_has_messages_and_a_text_that_is_cut_is_dropped() -> None:
    found = sampled(chat=True, rows=3, tokens=40)
    for row in found.rows:
        assert [one["role"] for one in row["prompt"] + row["completion"]] == ["user", "assistant"]
    assert (
        found.dropped.get("cut at its length", 0) + found.dropped.get("shorter than a sentence", 0)
        > 0
    )


def test_no_row_has_a_question_of_the_probe() -> None:
    free = sampled()
    words = f"{free.rows[0]['prompt']} {free.rows[0]['completion']}".split()
    taken = Probe(
        [Item(id="1", task="t", prompt=" ".join(words[2:11]), choices=[" a", " b"], answer=0)]
    )
    found = sampled(forbidden=[taken])
    assert shares_words(taken, " ".join(words))
    assert found.dropped["with words of a question of the probe"] >= 1
    assert found.overlap == 0
    assert not any(
        shares_words(taken, f"{row['prompt']} {row['completion']}") for row in found.rows
    )


def test_lost_categories_get_more_rows_and_the_others_a_floor() -> None:
    found = sampled(rows=60, lost={"a": 9.0, "b": 0.0})
    assert sum(found.categories.values()) == 60
    assert found.categories["a"] > 3 * found.categories["b"] > 0


def test_shipped_prompts_cover_the_categories_and_any_other_by_its_name() -> None:
    found = Counter(one.category for one in shipped_prompts(chat=True, categories=["Math", "Own"]))
    assert found.keys() == {*TOPICS, "Own"}
    assert all(len(topics) == len(set(topics)) >= 14 for topics in TOPICS.values())
    assert found["Own"] == 3


@pytest.mark.parametrize(
    "setting", [{"rows": 0}, {"tokens": 0}, {"temperature": 0.0}, {"prompts": []}]
)
def test_settings_that_make_no_row_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ScoringError, match="needed at least one row, one token and one prompt"):
        sampled(**setting)


def saved(folder: Path) -> Path:
    model(TOK).save_pretrained(folder)
    TOK.save_pretrained(folder)
    return folder


def test_the_command_writes_rows_for_a_run_and_shows_the_overlap(tmp_path: Path) -> None:
    run = tmp_path / "run"
    meta = {"model": "m", "step": 0}
    category = {"category": ["Math"] * 10 + ["Own"] * 10}
    looks = {5: snapshot([False] * 8 + [True] * 12, meta={**meta, "step": 5}, **category)}
    write_run(run, probe(20), snapshot([True] * 20, meta=meta, **category), looks)
    output = tmp_path / "replay.jsonl"
    given = [
        str(saved(tmp_path / "base")),
        "-o",
        str(output),
        "-n",
        "6",
        "--for",
        str(run),
        "--plain",
        "--tokens",
        "12",
    ]
    done = CliRunner().invoke(app, ["replay", *given], catch_exceptions=False)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 6
    assert (
        "overlap with toy and confirmation: 0 of 6 rows share a question or eight words in a row"
        in done.stdout
    )
    from datasets import Dataset

    assert set(Dataset.from_list(rows).column_names) == {"prompt", "completion"}


def test_prompts_of_a_file_are_used(tmp_path: Path) -> None:
    base, output = str(saved(tmp_path / "base")), tmp_path / "r.jsonl"
    (tmp_path / "p.txt").write_text("w1 w2\nw3 w4\n")
    messages = [
        {"messages": [{"role": "user", "content": "w5 w6"}, {"role": "assistant", "content": "w7"}]}
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in messages))
    for name, prompts in (("p.txt", {"w1 w2", "w3 w4"}), ("p.jsonl", {"w5 w6"})):
        given = [
            base,
            "-o",
            str(output),
            "-n",
            "4",
            "--prompts",
            str(tmp_path / name),
            "--plain",
            "--tokens",
            "12",
        ]
        CliRunner().invoke(app, ["replay", *given], catch_exceptions=False)
        again = CliRunner().invoke(app, ["replay", *given])
        assert "there is a file already; move it away, or give another name" in str(again.exception)
        assert {json.loads(line)["prompt"] for line in output.read_text().splitlines()} == prompts
        output.unlink()
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(ForgetwatchError, match="needed a prompt in each line or row, found none"):
        CliRunner().invoke(
            app,
            ["replay", base, "-o", str(output), "--prompts", str(tmp_path / "none.txt")],
            catch_exceptions=False,
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-n", "0"], "needed at least 1, got 0"),
        (["-o", "r.csv"], "needed a name that ends in .jsonl"),
    ],
)
def test_wrong_options_are_refused_before_a_model_is_loaded(options: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["replay", "no-model", "-o", "r.jsonl", *options])
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())


def test_halves_are_fair_apart_and_keep_clusters(tmp_path: Path) -> None:
    items = [
        Item(
            id=str(n),
            task="t",
            category="ab"[n % 2],
            cluster=f"c{n // 3}" if n < 30 else None,
            prompt=f"Q {n}",
            choices=[" x", " y"],
            answer=0,
        )
        for n in range(60)
    ]
    first, second = split_halves(items)
    assert {item.id for item in first} | {item.id for item in second} == {item.id for item in items}
    assert not {item.id for item in first} & {item.id for item in second}
    assert abs(len(first) - len(second)) <= 3
    assert not {item.cluster for item in first if item.cluster} & {
        item.cluster for item in second if item.cluster
    }
    for half in (first, second):
        assert min(Counter(item.category for item in half).values()) >= 12
    assert {item.id for item in split_halves(items[::-1])[0]} == {item.id for item in first}
    assert {item.id for item in split_halves(items, seed=1)[0]} != {item.id for item in first}
    Probe(items, name="own").save(tmp_path / "own.jsonl")
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    done = CliRunner().invoke(
        app, ["probe", "split", str(tmp_path / "own.jsonl"), "-o", str(a), str(b)]
    )
    assert f"{len(first)} of 60 items: {a}" in done.output.replace("\n", "")
    assert b.is_file()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The tides rise. They fall. And then", "The tides rise. They fall."),
        ("潮汐上升。潮汐下降。然后", "潮汐上升。潮汐下降。"),
        ("a text without an end", ""),
    ],
)
def test_plain_text_is_cut_after_its_last_whole_sentence(text: str, kept: str) -> None:
    found = SENTENCE.match(text)
    assert (found[1] if found else "") == kept


def test_questions_of_a_further_probe_are_kept_out(tmp_path: Path) -> None:
    base, output = str(saved(tmp_path / "base")), tmp_path / "r.jsonl"
    given = [base, "-o", str(output), "-n", "4", "--plain", "--tokens", "12"]
    CliRunner().invoke(app, ["replay", *given], catch_exceptions=False)
    words = json.loads(output.read_text().splitlines()[0])["completion"].split()
    taken = Probe(
        [Item(id="1", task="t", prompt=" ".join(words[:9]), choices=[" a", " b"], answer=0)],
        name="own",
    )
    taken.save(tmp_path / "own.jsonl")
    output.unlink()
    done = CliRunner().invoke(
        app, ["replay", *given, "--probe", str(tmp_path / "own.jsonl")], catch_exceptions=False
    )
    assert "overlap with standard and confirmation and own: 0 of 4 rows" in done.stdout
    assert not any(" ".join(words[:9]) in line for line in output.read_text().splitlines())


def test_two_characters_of_a_script_without_spaces_count_as_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each word of the random model has one letter, which stands for such a character here."""
    few = sampled(rows=4, tokens=12)
    monkeypatch.setattr("forgetwatch.retention.replay._UNSPACED", re.compile("w"))
    more = sampled(rows=4, tokens=12)
    assert len(more.rows) == 4
    assert more.dropped.get("shorter than a sentence", 0) <= few.dropped.get(
        "shorter than a sentence", 0
    )

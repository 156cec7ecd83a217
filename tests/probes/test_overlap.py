"""Items of a probe are found in a training set."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch import Item, Probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes import exact_overlap, plain, training_text, training_texts
from forgetwatch.probes.checking import overlap

WORDS = [f"w{letter}" for letter in "abcdefghijklmnopqr"]
LONG = " ".join(WORDS)


def probe(*questions: str, answer: str = "forty two") -> Probe:
    return Probe(
        [
            Item(id=str(n), task=f"t{n}", prompt=text, choices=(f" {answer}", " other"), answer=0)
            for n, text in enumerate(questions)
        ]
    )


def test_a_whole_question_is_found_in_any_case_and_punctuation() -> None:
    texts = ["nothing here", "Q: WHAT is\nthe\tcapital -- of Chile ?? It is Santiago.", ""]
    found = exact_overlap(probe("What is the capital of Chile?", "Who?", answer="Santiago"), texts)
    assert (found.exact, found.answered) == ((("t0", "0"),), (("t0", "0"),))
    assert found.examples == (("t0", "0", 1),)
    assert (found.rows, found.items, found.grams) == (3, 2, {})
    assert found.sentence.startswith("3 training rows: 1 of 2 questions are in them word for word, 1 with")


def test_a_short_question_counts_only_with_its_answer() -> None:
    asked = probe("7 + 15 =", answer="22")
    assert not exact_overlap(asked, ["7, 15 and 22", "15 7"]).exact
    assert exact_overlap(asked, ["so 7 + 15 = 22!"]).answered == (("t0", "0"),)


@pytest.mark.parametrize(("question", "alone"), [("Who wrote Faust?", False), ("Who first wrote Faust?", True)])
def test_a_question_of_three_words_is_short_and_one_of_four_is_not(question: str, alone: bool) -> None:
    assert bool(exact_overlap(probe(question, answer="Goethe"), [f"{question} Nobody knows."]).exact) is alone
    assert exact_overlap(probe(question, answer="Goethe"), [f"{question} Goethe"]).exact


@pytest.mark.parametrize("text", ["what is the capital of", "the capital of chiles", "capital of chile what is the"])
def test_a_part_of_a_question_is_not_an_exact_hit(text: str) -> None:
    assert not exact_overlap(probe("What is the capital of Chile?"), [text]).exact


def test_nothing_is_found_across_two_rows() -> None:
    halves = [" ".join(WORDS[:9]), " ".join(WORDS[9:])]
    found = overlap(probe(LONG), halves)
    assert (found.exact, found.grams[13]) == ((), ())
    assert found.grams[8] == (("t0", "0"),)  # within the first row
    assert not overlap(probe(LONG), [" ".join(WORDS[:7]), " ".join(WORDS[7:14])]).grams[8]
    assert exact_overlap(probe(LONG), [LONG[:40], f"so {LONG} so"]).exact


def test_runs_of_words_are_found_and_templates_are_not() -> None:
    other = " ".join(reversed(WORDS))
    found = overlap(probe(LONG, other), [f"x y {' '.join(WORDS[2:16])} z"])
    assert found.grams == {13: (("t0", "0"),), 8: (("t0", "0"),)}
    same = [f"{' '.join(WORDS[:14])} number {n}" for n in range(8)]
    assert overlap(probe(*same), [LONG]).grams == {13: (), 8: ()}


def test_the_frame_of_a_tasks_prompts_is_not_part_of_a_question() -> None:
    items = [
        Item(id=str(n), task="t", prompt=f"Question: is {n} even?\nAnswer:", choices=("yes", "no"), answer=n % 2)
        for n in range(4)
    ]
    found = exact_overlap(Probe(items), ["is 2 even? yes", "2: yes", "3: yes", "1 and 3, no, not 0"])
    assert found.exact == (("t", "2"), ("t", "3"))


def test_the_search_stops_in_time_and_gives_the_share_searched() -> None:
    found = exact_overlap(probe("a b c"), ("some words and more" for _ in range(1000)), seconds=0, of_rows=1000)
    assert found.rows == 1
    assert "1 of 1,000 training rows (0.1 %)" in found.sentence
    assert exact_overlap(probe("a b c"), [], of_rows=0).sentence.startswith("0 training rows: ")
    assert exact_overlap(probe("a b c"), []).sentence.startswith("0 training rows: ")


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), max_size=12))
def test_hashed_search_equals_a_plain_search(texts: list[str]) -> None:
    questions = ["a b a b a", "b a c c b", "c c c a b c c c a", "c a a a c a"]
    found = overlap(probe(*questions), texts, grams=(3,))
    rows = [f" {text} " for text in texts]
    assert [int(name) for _, name in found.exact] == [
        n for n, question in enumerate(questions) if any(f" {question} " in row for row in rows)
    ]
    runs = [{" ".join(words[i : i + 3]) for i in range(len(words) - 2)} for words in map(str.split, questions)]
    assert [int(name) for _, name in found.grams[3]] == [
        n for n, of_item in enumerate(runs) if any(f" {run} " in row for run in of_item for row in rows)
    ]


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_text_is_compared_as_words(before: str, text: str) -> None:
    asked = f"a b c d {text}"
    assert exact_overlap(probe(asked), [f"{before} {asked}"]).exact


def test_every_shape_of_training_row_becomes_one_text() -> None:
    messages = {"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}], "n": 3}
    assert plain(training_text(messages)) == "a b c"
    assert plain(training_text({"prompt": "a", "completion": [{"content": "b"}]})) == "a b"
    assert training_text(None) == ""


def test_files_are_read_row_by_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    (tmp_path / "b.csv").write_text("q,a\nthree,x\n")
    (tmp_path / "c.txt").write_text("four\nfive\n")
    pq.write_table(pa.table({"text": ["six"]}), tmp_path / "d.parquet")
    texts = [plain(text) for text in training_texts(sorted(tmp_path.iterdir()))]
    assert [text for text in texts if text] == ["one", "two", "three x", "four", "five", "six"]
    with pytest.raises(ProbeError, match="no such file"):
        list(training_texts([tmp_path / "none.jsonl"]))
    (tmp_path / "cut.jsonl").write_text('{"text": "one"}\n{"te')
    with pytest.raises(ProbeError, match="line 2: not a JSON object"):
        list(training_texts([tmp_path / "cut.jsonl"]))

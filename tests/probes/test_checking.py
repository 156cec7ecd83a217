"""Faults of a probe are found with their items, and a sound probe has none.

Items of a probe are found in a training set.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import WORDS

from forgetwatch import Item, Probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.checking import Finding, check_probe
from forgetwatch.probes.overlap import exact_overlap, overlap, plain, training_text
from forgetwatch.probes.row_files import training_texts

OPTIONS = (" north", " south", " whale", " olive")


def item(number: int, **fields: Any) -> Item:
    made = {
        "prompt": f"Question {number}?",
        "choices": (f" yes {number}", f" no {number}"),
        "answer": number % 2,
    }
    return Item(id=str(number), **{"task": "t", **made, **fields})


def found(items: Sequence[Item], name: str, **options: Any) -> Finding:
    (finding,) = [one for one in check_probe(Probe(items), **options) if one.name == name]
    return finding


def ids(finding: Finding) -> list[str]:
    assert finding.wrong == bool(finding.items)
    return [name for _, name in finding.items]


def test_items_that_need_a_chat_template_are_found_where_there_is_none() -> None:
    items = [item(0), item(1, rendering="chat")]
    assert ids(found(items, "no template", chats=False)) == ["1"]
    assert "no template" not in [one.name for one in check_probe(Probe(items))]


def test_a_sound_probe_has_no_finding() -> None:
    rng = random.Random(3)
    items = [
        item(
            n,
            choices=tuple(
                f" {rng.choice(WORDS)} {number:03}" for number in rng.sample(range(999), 4)
            ),
            answer=rng.randrange(4),
        )
        for n in range(400)
    ]
    findings = check_probe(Probe(items), tokenize=lambda text: [hash(text)], context=10)
    assert [one.name for one in findings if one.wrong] == []
    assert len(findings) == 12


def test_the_same_question_is_found_within_and_across_tasks() -> None:
    twin = item(0, prompt="question  1?", choices=(" No 1", " yes 1"), answer=0)
    items = [
        item(1),
        twin,
        item(2),
        item(3, prompt="question 2?", choices=(" yes 2", " no 2"), task="u", answer=0),
    ]
    assert ids(found(items, "repeated")) == ["1", "0"]
    assert ids(found(items, "contradictions")) == []
    assert ids(
        found(
            [item(1), item(0, prompt="Question 1?", choices=(" yes 1", " no 1"))], "contradictions"
        )
    ) == [
        "1",
        "0",
    ]


def test_a_leak_is_a_prompt_with_the_right_option_and_no_other() -> None:
    items = [
        item(1, prompt="The cat is red. Its colour?", choices=(" blue", " red")),
        item(2, prompt="red or blue?", choices=(" blue", " red")),
        item(3, prompt="A reddish cat?", choices=(" blue", " red")),
        item(4, prompt="Is A right?\nA. x\nB. y\nAnswer:", choices=(" A", " B")),
        item(5, prompt="It was blue.", choices=(" blue", " red")),
        item(6, prompt="C++ or not?", choices=(" C++", " D")),
    ]
    assert ids(found(items, "leaked")) == ["1", "6"]


def test_indistinguishable_options_are_found() -> None:
    items = [
        item(1, choices=(" a", " A")),
        item(2, choices=(" a", " b")),
        item(3, choices=(" x",), answer=0),
    ]
    assert ids(found(items, "alike options")) == ["1"]
    assert ids(found(items, "one option")) == ["3"]
    assert ids(
        found(
            items,
            "same tokens",
            tokenize=lambda text: [0 if text.strip().lower() in "ab" else 1, 2],
        )
    ) == [
        "1",
        "2",
    ]


def test_answers_that_nothing_can_match_are_found() -> None:
    opened = [
        Item(id=str(n), task="t", prompt="?", answer=answer, match=match)
        for n, (answer, match) in enumerate(
            [
                ("4", "number"),
                ("$G$ is not", "contains"),
                ("two", "number"),
                (r"\frac{1}{2}", "math"),
                ("de", "language"),
            ]
        )
    ]
    finding = found(opened, "own answer")
    assert (ids(finding), finding.of, finding.wrong) == (["1", "2"], 4, True)


def test_long_items_are_found() -> None:
    items = [item(1), item(2, prompt="a b c d e f")]
    finding = found(items, "too long", tokenize=str.split, context=6)
    assert ids(finding) == ["2"]
    assert "the longest has 8" in finding.about
    assert len(check_probe(Probe(items), tokenize=str.split)) == 11


def test_shortcuts_are_faults_only_if_significantly_above_chance() -> None:
    items = [
        item(n, choices=(" abc", " de", " fg", " hi"), answer=0 if n % 2 else n % 4)
        for n in range(200)
    ]
    longest, position = found(items, "longest option"), found(items, "position")
    assert longest.wrong
    assert position.wrong
    assert longest.about == "always the longest option is right in 75.0 % (chance 25.0 %)"
    assert position.about == "always option A of 4 is right in 75.0 % (chance 25.0 %)"
    few = found(items[:6], "position")
    assert not few.wrong
    assert (
        found([item(1, choices=(), answer="x", match="exact")], "position").about
        == "no items to check"
    )


def sound(number: int, **fields: Any) -> Item:
    """An item whose four options are of one length and of one kind."""
    return item(number, **{"choices": OPTIONS, "answer": number % 4, **fields})


def test_options_of_unlike_length_are_found_where_their_texts_are_scored() -> None:
    fair, unfair = (" lamp", " spoon", " bottle"), (" lamp", " spoon", " bottles")
    items = [sound(0), item(1, choices=fair, answer=0), item(2, choices=unfair, answer=0)]
    assert ids(found(items, "unlike lengths")) == ["2"]
    assert ids(
        found(
            [item(3, choices=(" 5", " 125"), answer=0), item(4, choices=(" 5", " 1250"), answer=0)],
            "unlike lengths",
        )
    ) == ["4"]
    (finding,) = [
        one for one in check_probe(Probe(items, scoring="letters")) if one.name == "unlike lengths"
    ]
    assert (finding.of, finding.wrong) == (0, False)


def test_yes_and_no_without_a_cluster_are_found_from_the_second_on() -> None:
    yes, true = (" yes", " no"), ("True.", "False.")
    assert ids(found([sound(0), item(1, choices=yes), item(2, choices=true)], "yes or no")) == [
        "1",
        "2",
    ]
    assert not found([sound(0), item(1, choices=yes)], "yes or no").wrong
    clustered = [item(n, choices=yes, cluster="yes/no") for n in range(9)]
    assert ids(found(clustered, "yes or no")) == []
    assert (
        ids(
            found(
                [item(1, choices=(" yes", " never")), item(2, choices=(" yes", " no", " both"))],
                "yes or no",
            )
        )
        == []
    )


WORDS_OF_OVERLAP = [f"w{letter}" for letter in "abcdefghijklmnopqr"]
LONG = " ".join(WORDS_OF_OVERLAP)


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
    assert found.sentence.startswith(
        "3 training rows: 1 of 2 questions are in them word for word, 1 with"
    )


def test_a_short_question_counts_only_with_its_answer() -> None:
    asked = probe("7 + 15 =", answer="22")
    assert not exact_overlap(asked, ["7, 15 and 22", "15 7"]).exact
    assert exact_overlap(asked, ["so 7 + 15 = 22!"]).answered == (("t0", "0"),)


@pytest.mark.parametrize(
    ("question", "alone"), [("Who wrote Faust?", False), ("Who first wrote Faust?", True)]
)
def test_a_question_of_three_words_is_short_and_one_of_four_is_not(
    question: str, alone: bool
) -> None:
    assert (
        bool(exact_overlap(probe(question, answer="Goethe"), [f"{question} Nobody knows."]).exact)
        is alone
    )
    assert exact_overlap(probe(question, answer="Goethe"), [f"{question} Goethe"]).exact


@pytest.mark.parametrize(
    "text", ["what is the capital of", "the capital of chiles", "capital of chile what is the"]
)
def test_a_part_of_a_question_is_not_an_exact_hit(text: str) -> None:
    assert not exact_overlap(probe("What is the capital of Chile?"), [text]).exact


def test_nothing_is_found_across_two_rows() -> None:
    halves = [" ".join(WORDS_OF_OVERLAP[:9]), " ".join(WORDS_OF_OVERLAP[9:])]
    found = overlap(probe(LONG), halves)
    assert (found.exact, found.grams[13]) == ((), ())
    assert found.grams[8] == (("t0", "0"),)  # within the first row
    assert not overlap(
        probe(LONG), [" ".join(WORDS_OF_OVERLAP[:7]), " ".join(WORDS_OF_OVERLAP[7:14])]
    ).grams[8]
    assert exact_overlap(probe(LONG), [LONG[:40], f"so {LONG} so"]).exact


def test_runs_of_words_are_found_and_templates_are_not() -> None:
    other = " ".join(reversed(WORDS_OF_OVERLAP))
    found = overlap(probe(LONG, other), [f"x y {' '.join(WORDS_OF_OVERLAP[2:16])} z"])
    assert found.grams == {13: (("t0", "0"),), 8: (("t0", "0"),)}
    same = [f"{' '.join(WORDS_OF_OVERLAP[:14])} number {n}" for n in range(8)]
    assert overlap(probe(*same), [LONG]).grams == {13: (), 8: ()}


def test_the_frame_of_a_tasks_prompts_is_not_part_of_a_question() -> None:
    items = [
        Item(
            id=str(n),
            task="t",
            prompt=f"Question: is {n} even?\nAnswer:",
            choices=("yes", "no"),
            answer=n % 2,
        )
        for n in range(4)
    ]
    found = exact_overlap(
        Probe(items), ["is 2 even? yes", "2: yes", "3: yes", "1 and 3, no, not 0"]
    )
    assert found.exact == (("t", "2"), ("t", "3"))


def test_the_search_stops_in_time_and_gives_the_share_searched() -> None:
    found = exact_overlap(
        probe("a b c"), ("some words and more" for _ in range(1000)), seconds=0, of_rows=1000
    )
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
    runs = [
        {" ".join(words[i : i + 3]) for i in range(len(words) - 2)}
        for words in map(str.split, questions)
    ]
    assert [int(name) for _, name in found.grams[3]] == [
        n
        for n, of_item in enumerate(runs)
        if any(f" {run} " in row for run in of_item for row in rows)
    ]


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_text_is_compared_as_words(before: str, text: str) -> None:
    asked = f"a b c d {text}"
    assert exact_overlap(probe(asked), [f"{before} {asked}"]).exact


def test_every_shape_of_training_row_becomes_one_text() -> None:
    messages = {
        "messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}],
        "n": 3,
    }
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

"""The shipped probes: frozen, balanced, and packed with their cards.

The shipped passages: their sizes, kinds and order, and the figures of their card.

The first items of a probe are a fair sample of it, in whatever order it was given.

The probe `behaviour`: its items, sample answers to each, and grades of real outputs next to judgements by eye.
"""

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import Item, Probe, load_probe
from forgetwatch.grading.grader import check_item, grade
from forgetwatch.grading.languages import language
from forgetwatch.grading.traits import loops
from forgetwatch.probe import read_probe
from forgetwatch.probes.shipped_probes import CANARY, FILES, stratified

SHIPPED = files("forgetwatch.probes.shipped")
STANDARD, CONFIRMATION = load_probe("standard"), load_probe("confirmation")
ITEMS = [*STANDARD, *CONFIRMATION]
FINGERPRINTS = {
    "standard": "31032ad1aaadc05f",
    "confirmation": "88a1ea1aa4da8f15",
    "conduct": "bb00b9e7d9c8b9b3",
    "behaviour": "a622228c14a92a1e",
    "standard-long": "869a5ef8c6c1b805",
    "standard-code": "4d87cd7d6d97170f",
    "standard-multilingual": "72242ad43085bf28",
    "standard-written": "9fdd391bc689f1fa",
    "passages": "f969a5b4fc4f9e3c",
    "ladder": "25bc4e9cf2be3963",
    "ladder-1": "d972810a6c478932",
    "ladder-2": "61d5325b204b43db",
    "ladder-3": "f23ae85a00baf99a",
}


@pytest.mark.parametrize("name", FILES)
def test_the_shipped_probes_are_frozen(name: str) -> None:
    """Runs of one version compare with each other: a probe that changes gets another version."""
    assert load_probe(name).fingerprint[:16] == FINGERPRINTS[name]


def test_options_are_decided_by_the_sum() -> None:
    assert {probe.norm for probe in (STANDARD, CONFIRMATION)} == {"sum"}


def test_there_is_a_floor_for_small_models_and_a_tail_for_large_ones() -> None:
    levels = Counter((item.category in ("Logic", "Math"), item.tags[0]) for item in STANDARD)
    assert 60 <= levels[True, "difficulty:0"] <= 65
    assert levels[False, "difficulty:0"] == 0
    assert abs(levels[False, "difficulty:4"] + levels[False, "difficulty:5"] - 150) <= 5


def test_each_category_has_five_worked_examples_that_are_asked_nowhere() -> None:
    asked = {item.prompt for item in ITEMS}
    for category in {item.category for item in ITEMS}:
        (shots,) = {item.shots for item in ITEMS if item.category == category} - {""}
        shown = shots.removesuffix("\n\n").split("\n\n")
        assert len(shown) == 5
        assert all(shot.startswith("Question: ") and "\nAnswer: " in shot for shot in shown)
        assert not asked & {shot[: shot.index("Answer:") + len("Answer:")] for shot in shown}


@pytest.mark.parametrize("probe", [STANDARD, CONFIRMATION], ids=lambda probe: probe.name)
def test_categories_and_gold_positions_are_balanced(probe: Probe) -> None:
    sizes = Counter(item.category for item in probe)
    assert len(sizes) == 9
    small = {sizes.pop(category) for category in ("Logic", "Math")}
    assert small == {150 if probe is STANDARD else 37}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for k in (2, 3, 4, 5):
        there = Counter(item.answer for item in probe if item.k == k)
        assert (
            max(there[place] for place in range(k)) - min(there[place] for place in range(k)) <= 1
        )


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_prefixes_are_stratified_samples(count: int) -> None:
    for kind in (
        lambda item: item.category,
        lambda item: item.task,
        lambda item: item.tags,
        lambda item: item.k,
    ):
        whole, there = Counter(map(kind, STANDARD)), Counter(map(kind, STANDARD.head(count)))
        assert all(abs(there[name] - number * count / 2000) < 1.5 for name, number in whole.items())


def test_quick_is_a_prefix_of_standard() -> None:
    quick = load_probe("quick")
    assert (quick.name, list(quick), quick.settings) == (
        "quick",
        list(STANDARD[:500]),
        STANDARD.settings,
    )
    assert {probe.canary for probe in (quick, STANDARD, CONFIRMATION)} == {CANARY}


@pytest.mark.parametrize("choose", [max, min])
@pytest.mark.parametrize("key", [len, str], ids=["length", "alphabet"])
def test_a_chooser_without_the_question_is_near_chance(
    choose: Callable[..., str], key: Callable[[str], object]
) -> None:
    right = sum(choose(item.choices, key=key) == item.choices[item.answer] for item in ITEMS) / len(
        ITEMS
    )
    assert right == pytest.approx(
        sum(1 / len(item.choices) for item in ITEMS) / len(ITEMS), abs=0.03
    )


def test_the_files_are_small() -> None:
    assert sum(len(SHIPPED.joinpath(name).read_bytes()) for name in FILES.values()) < 1_000_000


PROBE = load_probe("passages")
KINDS = {"Prose": 12, "News": 8, "Dialogue": 6, "Code": 10, "Mathematics": 6, "Other languages": 18}
LANGUAGES = ("german", "french", "spanish", "italian", "russian", "chinese")


def text(name: str) -> str:
    return next(item.choices[0] for item in PROBE if item.id == name)


def test_there_are_sixty_texts_of_six_kinds() -> None:
    assert all(item.is_passage for item in PROBE)
    assert Counter(item.category for item in PROBE) == KINDS
    tasks = Counter(item.task for item in PROBE)
    assert {tasks[f"passages:{language}"] for language in LANGUAGES} == {3}
    code = {
        task.removeprefix("passages:")
        for task in tasks
        if any(i.category == "Code" for i in PROBE if i.task == task)
    }
    assert code == {"python", "c", "javascript", "sql", "shell"}
    assert (PROBE.scoring, PROBE.rendering) == ("loglikelihood", "plain")


@pytest.mark.parametrize("item", PROBE, ids=lambda item: item.id)
def test_a_text_has_120_to_250_words(item: object) -> None:
    content = item.choices[0]  # type: ignore[attr-defined]
    assert content == content.strip()
    if item.task == "passages:chinese":  # type: ignore[attr-defined]
        # A Chinese word has one or two characters, and no space.
        assert 200 <= len(re.findall(r"[一-鿿]", content)) <= 400
    else:
        assert 120 <= len(content.split()) <= 250


@pytest.mark.parametrize("count", [15, 30])
def test_a_beginning_holds_each_kind_in_proportion(count: int) -> None:
    there = Counter(item.category for item in PROBE.head(count))
    assert all(abs(there[kind] - number * count / 60) < 1 for kind, number in KINDS.items())
    assert len({item.task for item in PROBE.head(30) if item.category == "Other languages"}) == len(
        LANGUAGES
    )


def test_no_two_texts_share_a_line_of_words() -> None:
    seen: dict[str, str] = {}
    for item in PROBE:
        words = item.choices[0].split()
        for start in range(len(words) - 7):
            run = " ".join(words[start : start + 8])
            assert seen.setdefault(run, item.id) == item.id, run
    assert len({item.content_hash for item in PROBE}) == len({item.id for item in PROBE}) == 60


def test_the_file_begins_with_the_canary() -> None:
    first = SHIPPED.joinpath(FILES["passages"]).read_text(encoding="utf-8").split("\n", 1)[0]
    assert json.loads(first)["forgetwatch_probe"]["canary"] == CANARY == PROBE.canary


def test_the_texts_are_those_of_the_card() -> None:
    card = SHIPPED.joinpath("cards", "passages.md").read_text(encoding="utf-8")
    assert f"`{PROBE.fingerprint[:16]}`" in card
    assert CANARY in card
    for kind, number in KINDS.items():
        length = sum(len(item.choices[0].encode()) for item in PROBE if item.category == kind)
        assert f"| {kind} | {number} | {length:,} |" in card, (kind, length)


@pytest.mark.parametrize("name", ["code-1", "code-2", "code-3"])
def test_python_texts_are_python(name: str) -> None:
    ast.parse(text(name))


def test_each_language_has_its_letters() -> None:
    letters = {
        "german": "äöüß",
        "french": "éèàç",
        "spanish": "ñáóí",
        "italian": "èàùò",
        "russian": "жыщю",
        "chinese": "的了不一",
    }
    for name, found in letters.items():
        together = "".join(item.choices[0] for item in PROBE if item.task == f"passages:{name}")
        assert all(letter in together for letter in found), name


def items(*categories: tuple[str, int], must: frozenset[str] = frozenset()) -> list[Item]:
    made = []
    for name, number in categories:
        for n in range(number):
            own = f"{name}-{n}"
            made.append(
                Item(
                    id=own,
                    task="t",
                    category=name,
                    prompt=own,
                    choices=("a", "b"),
                    answer=0,
                    must_pass=own in must,
                )
            )
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_probe_in_the_order_of_its_categories_is_mixed_and_one_in_any_other_order_stays(
    seed: int,
) -> None:
    sorted_ones = items(("a", 600), ("b", 300), ("c", 100))
    mixed = stratified(sorted_ones, first=250)
    assert sorted(item.id for item in mixed) == sorted(item.id for item in sorted_ones)
    found = Counter(item.category for item in mixed[:250])
    assert all(abs(found[name] - share) <= 2 for name, share in (("a", 150), ("b", 75), ("c", 25)))
    shuffled = random.Random(seed).sample(sorted_ones, len(sorted_ones))
    assert stratified(shuffled, first=250) == shuffled
    assert stratified(mixed, first=250) == mixed


def test_items_that_must_pass_come_first_and_a_short_probe_keeps_its_order() -> None:
    made = items(("a", 400), ("b", 400), must=frozenset({"b-399", "a-3"}))
    assert [item.id for item in stratified(made, first=250)[:2]] == ["a-3", "b-399"]
    short = items(("a", 20), ("b", 20))
    assert stratified(short, first=250) == short


def test_the_shipped_probes_keep_their_order() -> None:
    for name in ("standard", "quick", "confirmation"):
        probe = load_probe(name)
        assert stratified(probe.items, first=250) == list(probe.items)


PROBE_OF_BEHAVIOUR = load_probe("behaviour")
ITEMS_OF_BEHAVIOUR = {item.id: item for item in PROBE_OF_BEHAVIOUR}


def rows_of(name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (Path(__file__).parent / name).read_text("utf-8").splitlines()
    ]


ANSWERS = {row["id"]: row for row in rows_of("behaviour_answers.jsonl")}
OUTPUTS = rows_of("behaviour_outputs.jsonl")[1:]
"""Answers of a model of 135M parameters to all items. Each was read with its prompt: is it right (`right`), and does it
repeat itself (`loops`)? Null where the reader was in doubt, and for items with tools, for which that model's chat
template has no place. A hundred more answers are of the same model halfway to one that was ruined by training on JSON
records."""

CUT = "CUT:"
"""Before an answer that was cut at its length."""


def is_right(item: Item, answer: str) -> bool | None:
    return grade(item, answer.removeprefix(CUT), truncated=answer.startswith(CUT)).correct


@pytest.mark.parametrize("name", ITEMS_OF_BEHAVIOUR)
def test_a_good_answer_is_right_and_a_bad_one_wrong(name: str) -> None:
    good, bad = ANSWERS[name]["good"], ANSWERS[name]["bad"]
    assert good
    assert bad
    assert [is_right(ITEMS_OF_BEHAVIOUR[name], answer) for answer in good] == [True] * len(good)
    assert [is_right(ITEMS_OF_BEHAVIOUR[name], answer) for answer in bad] == [False] * len(bad)


def test_every_item_has_sample_answers_and_can_be_graded() -> None:
    assert set(ANSWERS) == set(ITEMS_OF_BEHAVIOUR)
    for item in PROBE_OF_BEHAVIOUR:
        check_item(item)


def test_behaviour_has_20_items_in_each_of_nine_tasks() -> None:
    kinds = Counter(item.task for item in PROBE_OF_BEHAVIOUR)
    assert (len(PROBE_OF_BEHAVIOUR), len(kinds), set(kinds.values())) == (180, 9, {20})
    for size in (45, 90):
        assert set(Counter(item.task for item in PROBE_OF_BEHAVIOUR.head(size)).values()) == {
            size // 9
        }
    assert {item.category for item in PROBE_OF_BEHAVIOUR} == {
        "Instruction Following",
        "Safety/Truth",
    }
    assert (
        PROBE_OF_BEHAVIOUR.rendering,
        PROBE_OF_BEHAVIOUR.decoding.tokens,
        PROBE_OF_BEHAVIOUR.decoding.temperature,
    ) == ("chat", 64, 0)  # type: ignore[union-attr]
    assert len({item.content_hash for item in PROBE_OF_BEHAVIOUR}) == len(PROBE_OF_BEHAVIOUR)


def test_each_of_eight_languages_has_two_or_three_prompts_in_that_language() -> None:
    asked = Counter(item.answer for item in PROBE_OF_BEHAVIOUR if item.task == "behaviour:language")
    assert asked == {
        **dict.fromkeys(("en", "it", "ru", "ar"), 2),
        **dict.fromkeys(("de", "fr", "es", "zh"), 3),
    }
    for item in PROBE_OF_BEHAVIOUR:
        if item.task == "behaviour:language":
            assert language(str(item.prompt)) in (item.answer, None)


def test_an_answer_that_repeats_the_prompt_is_no_answer_in_its_language() -> None:
    for item in PROBE_OF_BEHAVIOUR:
        if item.match == "language":
            for echo in (
                f"{item.prompt}",
                f"{item.prompt}\n\n{item.prompt}",
                f"{item.prompt} Ok. {item.prompt}",
            ):
                assert grade(item, echo).outcome == "no answer"
                assert grade(item, echo).correct is False


def test_a_prompt_that_wants_json_alone_says_so_in_its_match() -> None:
    for item in PROBE_OF_BEHAVIOUR:
        if item.task == "behaviour:json":
            alone = any(
                words in str(item.prompt) for words in ("JSON only", "Output only", "nothing else")
            )
            assert str(item.match).endswith(":only") is alone


def test_the_copy_in_a_run_folder_is_the_same_probe(tmp_path: Path) -> None:
    PROBE_OF_BEHAVIOUR.save(tmp_path / "probe.jsonl")
    copy = read_probe(tmp_path / "probe.jsonl")
    assert list(copy) == list(PROBE_OF_BEHAVIOUR)
    assert (copy.fingerprint, copy.canary) == (PROBE_OF_BEHAVIOUR.fingerprint, CANARY)
    shipped = files("forgetwatch.probes.shipped").joinpath("behaviour.jsonl").read_bytes()
    assert (tmp_path / "probe.jsonl").read_bytes() == shipped


def test_every_item_has_an_output_that_was_read() -> None:
    assert [row["id"] for row in OUTPUTS if not row.get("damaged")] == list(ITEMS_OF_BEHAVIOUR)
    assert sum(bool(row.get("damaged")) for row in OUTPUTS) == 100
    judged = [row for row in OUTPUTS if row["right"] is not None]
    in_doubt = [
        row["id"]
        for row in OUTPUTS
        if row["right"] is None and not ITEMS_OF_BEHAVIOUR[row["id"]].tools
    ]
    assert len(judged) == 258
    assert in_doubt == ["language-05", "language-09"]


def test_at_most_one_percent_of_the_outputs_is_graded_otherwise_than_by_eye() -> None:
    judged = [row for row in OUTPUTS if row["right"] is not None]
    unlike = [
        row["id"]
        for row in judged
        if grade(ITEMS_OF_BEHAVIOUR[row["id"]], row["output"], truncated=row["cut"]).correct
        is not row["right"]
    ]
    assert len(unlike) <= 0.01 * len(judged), unlike


def test_every_output_that_repeats_itself_to_the_eye_is_found_and_no_other() -> None:
    judged = [row for row in OUTPUTS if row["loops"] is not None]
    assert sum(row["loops"] for row in judged) == 83
    assert [row["id"] for row in judged if loops(row["output"]) is not row["loops"]] == []

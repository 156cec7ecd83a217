"""Tables of questions that are generated with a known truth, in any form: read right or refused, never read wrong."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError

WORDS = ("ferry", "noon", "river", "stone", "lamp", "green", "seven", "market", "bread", "tower", "wind", "glass")
LETTERS = "ABCDE"
QUESTIONS = ("question", "query", "problem", "Question", "stem")
BEFORE = (None, None, "passage", "context", "article", "story", "support")
COLUMNS = ("{upper}", "option{one}", "option_{zero}", "ans{zero}", "choice_{lower}", "op{lower}")
LISTS = ("options", "choices", "objects", "parallel", "labelled")
KEYS = ("letter", "lower", "zero", "one", "text", "marks")
NAMES = ("answer", "label", "gold", "correct", "target", "answer_key", "answerKey")


@dataclass
class Truth:
    question: str
    before: str
    right: str
    k: int


def generated(seed: int) -> tuple[list[dict[str, Any]], list[Truth]]:
    """Rows of one form, their columns in one order, and what they mean."""
    rng = random.Random(seed)
    k, form, key = rng.randint(2, 5), rng.choice((*COLUMNS, *LISTS, "distractors")), rng.choice(KEYS)
    question, before, answer = rng.choice(QUESTIONS), rng.choice(BEFORE), rng.choice(NAMES)
    extras = [name for name in ("explanation", "source", "id") if rng.random() < 0.4]
    as_text = form not in LISTS and rng.random() < 0.5
    rows, truths = [], []
    for number in range(rng.randint(3, 14)):
        options = [f"{' '.join(rng.choices(WORDS, k=2))} {number}{index}" for index in range(k)]
        right = rng.randrange(k)
        truth = Truth(f"What about {' '.join(rng.choices(WORDS, k=4))} {number}?", "", options[right], k)
        row: dict[str, Any] = {question: truth.question}
        if before is not None:
            row[before] = truth.before = f"Once {' '.join(rng.choices(WORDS, k=9))}. Then it rained."
        row |= {name: f"{' '.join(rng.choices(WORDS, k=6))} {number}" for name in extras}
        row |= columns_of(form, options, right)
        texts = row["options"] if form == "labelled" else options
        if form != "distractors":
            row[answer] = {
                "letter": LETTERS[right],
                "lower": LETTERS[right].lower(),
                "zero": right,
                "one": right + 1,
                "text": texts[right],
                "marks": [int(index == right) for index in range(k)] if form in LISTS else right,
            }[key]
        order = sorted(row)
        random.Random(seed).shuffle(order)
        rows.append({name: str(row[name]) if as_text else row[name] for name in order})
        truths.append(truth)
    return rows, truths


def columns_of(form: str, options: list[str], right: int) -> dict[str, Any]:
    """Columns that hold the options."""
    if form in COLUMNS:
        names = [
            form.format(upper=LETTERS[at], lower=LETTERS[at].lower(), zero=at, one=at + 1) for at in range(len(options))
        ]
        return dict(zip(names, options, strict=True))
    if form == "distractors":
        wrong = [text for at, text in enumerate(options) if at != right]
        return {"correct_answer": options[right]} | {f"distractor{at + 1}": text for at, text in enumerate(wrong)}
    labels = list(LETTERS[: len(options)])
    lists = {
        "options": {"options": options},
        "choices": {"choices": options},
        "objects": {"choices": [{"label": name, "text": text} for name, text in zip(labels, options, strict=True)]},
        "parallel": {"choices": {"text": options, "label": labels}},
        "labelled": {"options": [f"({name}){text}" for name, text in zip(labels, options, strict=True)]},
    }
    return dict(lists[form])


@pytest.mark.filterwarnings("ignore")
def test_no_generated_table_is_read_wrong() -> None:
    found = Counter[str]()
    for seed in range(2000):
        rows, truths = generated(seed)
        try:
            items = list(load_probe(rows))
        except ProbeError as error:
            found["two readings fit" if "both fit every row" in str(error) else str(error)] += 1
            continue
        for item, truth in zip(items, truths, strict=True):
            assert isinstance(item.answer, int), (seed, item)
            assert item.choices[item.answer].endswith(truth.right), (seed, item)
            assert len(item.choices) == truth.k, (seed, item)
            assert truth.question in item.prompt, (seed, item)
            assert truth.before in item.prompt, (seed, item)
        found["right"] += 1
    assert set(found) == {"right", "two readings fit"}
    assert found["right"] > 1800


def meaning(rows: list[dict[str, Any]], **settings: Any) -> Counter[tuple[str, tuple[str, ...], tuple[int, ...]]] | str:
    """Count of each question with its options and right ones; or why the table is refused, without its values."""
    try:
        probe = load_probe(rows, **settings)
    except ProbeError as error:
        return "both fit every row" if "both fit every row" in str(error) else str(error)
    return Counter((item.prompt, tuple(item.choices), tuple(map(int, item.answers))) for item in probe)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 400, 2))
def test_order_of_rows_and_columns_and_usual_names_change_no_item(seed: int) -> None:
    rows, _ = generated(seed)
    expected, rng = meaning(rows), random.Random(seed)
    names = list(rows[0])
    shuffled = [{name: row[name] for name in rng.sample(names, len(names))} for row in rng.sample(rows, len(rows))]
    assert meaning(shuffled) == expected
    families = [QUESTIONS, *([NAMES] if "correct_answer" not in names else []), [name for name in BEFORE if name]]
    other = {name: rng.choice(family) for family in families for name in names if name in family}
    assert meaning([{other.get(name, name): cell for name, cell in row.items()} for row in rows]) == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(200))
def test_base_of_the_key_and_order_of_the_options_change_no_right_answer(seed: int) -> None:
    rng = random.Random(seed)
    k, form = rng.randint(2, 5), rng.choice((*COLUMNS, "options", "objects", "parallel"))
    options = [[f"{rng.choice(WORDS)} {n}{at}" for at in range(k)] for n in range(8)]
    # The last index occurs, and so does the first: then one base alone fits.
    rights = [0, k - 1, *(rng.randrange(k) for _ in range(6))]
    orders = [rng.sample(range(k), k) for _ in options]

    def table(base: int | None, orders: list[list[int]]) -> list[dict[str, Any]]:
        rows = []
        for n, (texts, right, order) in enumerate(zip(options, rights, orders, strict=True)):
            at = order.index(right)
            key = LETTERS[at] if base is None else at + base
            rows.append({"question": f"What {n}?", **columns_of(form, [texts[i] for i in order], at), "answer": key})
        return rows

    straight = [list(range(k))] * 8
    expected = meaning(table(None, straight))
    assert meaning(table(0, straight)) == meaning(table(1, straight)) == expected
    permuted = load_probe(table(None, orders))
    assert [str(item.choices[int(item.answers[0])]).strip() for item in permuted] == [
        texts[right] for texts, right in zip(options, rights, strict=True)
    ]

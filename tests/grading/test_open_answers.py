"""Outputs to open questions and their grades.

Words of their own within a text: scripts without spaces, particles, prefixes, marks and case.

Properties of grading that hold for every text: no exception, one grade per text, a planted answer is extracted.
"""

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch import Item
from forgetwatch.errors import ForgetwatchError, ProbeError
from forgetwatch.grading.grader import Grade, check_item, grade
from forgetwatch.grading.mathematics import find_numbers, normalise_numbers
from forgetwatch.grading.output_text import after_thinking, fold, tail

NUMBERS: list[tuple[str, bool | str | None, list[str]]] = [
    # answer, right (None = no answer, "two" = ambiguous), outputs
    (
        "42",
        True,
        [
            *("#### 42", "6 * 7 = 42\n#### 42", "6*7 = 42", "Answer: 42", "**Answer:** 42 apples."),
            *(
                "The answer is 42.",
                "So she has 42 apples left.",
                "She had 50, ate 8, and has 42 left.",
            ),
            *(
                "Answer: 6 × 7 = 42",
                "Answer: 42 (6 times 7)",
                "Answer: 42, since 6 * 7 = 42",
                "$42",
                "$$42$$",
            ),
            *(
                r"\(42\)",
                r"\boxed{42}",
                r"\boxed{42\text{ apples}}",
                "42.",
                "42.0",
                "+42",
                "42km",
                "４２",
                "٤٢",
                "४२",
            ),
            *(
                "Answer: 41\nWait.\nAnswer: 42",
                "<answer>42</answer>",
                "```\n42\n```",
                "*42*",
                "42 🎉",
            ),
            *("The answer is not 41. It is 42.", "Answer: not 41 but 42", "I get 42, not 41."),
            *("Answer: 41\nWait, no, 42.", "Answer: 41. Actually, it's 42 apples.\n"),
            *(
                "Answer: 42. Actually, 3 of them are green.",
                "Answer: 42\nThe answer is based on 3 facts.",
            ),
            "The answer is found by multiplying 6 by 7, giving 42.",
            *(
                "The answer is the product of 6 and 7, which is 42.",
                "Answer: There are 40 red and 2 blue ones, so 42.",
            ),
            *("Answer: about 42, or 40 without the 2 others", "The answer is $42 = 6 \\cdot 7$."),
            "#### 42\n\nQuestion: What is 2 + 2?\nAnswer: 4",
            "The answer is 42.\n\nQ: What is 2 + 2?\nA: The answer is 4.",
            *(
                "Step 1: read.\nQuestion: 6 * 7?\nAnswer: 42",
                "US$42",
                "Answer: 42 US$",
                "Answer: 42 or 42",
            ),
            "word " * 20_000 + "#### 42",
        ],
    ),
    ("123", True, ["١٢٣"]),
    ("3000000", True, ["Answer: 3 million dollars"]),
    ("3", True, ["Answer: 3 million", "8 - 5 = 3"]),
    ("3.5 million", True, ["3,500,000"]),
    ("3000", False, ["Answer: 3 million"]),
    ("1234.5", True, ["١٬٢٣٤٫٥", "1,234.50", "1.234,50", "$1,234.50", "1234,5"]),
    ("50", True, ["٥٠٪", "50%"]),
    ("42", False, ["Answer: 41", "421", "Answer: 42.5"]),
    (
        "42",
        None,
        [
            *(
                "B42",
                "12.05.2024",
                "version 1.2.3",
                "I had 42.\nAnswer: unknown",
                "",
                "I'm sorry, I can't.",
            ),
            *("forty-two", "7" * 100_000, "1," * 50_000),
        ],
    ),
    (
        "42",
        "two",
        [
            *("Answer: 41 or 42", "Answer: between 41 and 42", "41 or 42", "Answer: 41, 42"),
            "Answer: 41 apples or 42 apples",
        ],
    ),
    ("1,234.50", True, ["Answer: 1234.5 dollars"]),
    ("1234", True, ["1,234", "1 234", "1\u202f234", "1'234", r"1{,}234"]),
    ("1234567", True, ["1,234,567", "1.234.567", "12,34,567"]),
    ("0.5", True, ["1/2", "½", ".5", "0,5", r"\frac{1}{2}", r"\dfrac12", "50%"]),
    ("1/2", True, ["0.50"]),
    ("3/4", True, ["3/4", "¾ of a cup"]),
    ("1.5", True, ["1½", "1 1/2 cups"]),
    ("0.75", True, ["3 / 4"]),
    ("3", None, ["3/0"]),
    ("0", True, ["-0", "-0.0"]),
    (
        "-5",
        True,
        ["-5", "−5", "－5", "x = -5", "-$5", "€-5", "Answer: –5", "x = - 5", "Answer: negative 5"],
    ),
    ("-3/4", True, [r"-\frac{3}{4}", r"\boxed{-\frac{3}{4}}"]),
    ("3/4", False, [r"-\frac{3}{4}"]),
    ("3.5", True, [r"3\frac{1}{2}"]),
    ("2", True, ["Answer: 5 - 3 = 2"]),
    ("5", True, ["- 5 apples"]),
    ("5", False, ["-5"]),
    ("5", "two", ["pages 3-5"]),
    ("1000", True, ["1e3", "1E+3"]),
    ("1500", True, ["1.5 × 10^3", r"1.5 \times 10^{3}", "1.5 x 10^3", "1.5 × 10³"]),
    ("0.001", True, ["1e-3"]),
    ("1024", True, ["2^10"]),
    ("100", True, ["10²"]),
    ("1", None, ["1e9999", "9" * 5_000, "9^999"]),
    ("50%", True, ["0.5", "50 percent"]),
    ("50%", False, ["40%"]),
]

CALL = '{"name": "f", "arguments": {"x": 1}}'
OTHERS: list[tuple[str, str, str, bool | None]] = [
    # match, answer, output, right (None = no answer)
    ("exact", "Santiago", "Santiago", True),
    ("exact", "Santiago", "  Santiago\n", True),
    ("exact", "Santiago de Chile", "Santiago  de\nChile", True),
    ("exact", "Santiago", "santiago", False),
    ("exact", "Santiago", "Santiago.", False),
    ("exact", "Santiago", "It is Santiago.", False),
    ("exact", "Santiago", "", None),
    ("exact", "Santiago", " \n ", None),
    ("exact:fold", "Santiago", "SANTIAGO", True),
    ("exact:fold", "straße", "STRASSE", True),
    ("exact:fold", "Santiago", "Lima", False),
    ("contains", "Paris", "It is Paris, of course.", True),
    ("contains", "Paris", "PARIS", True),
    ("contains", "Paris", "**Paris**", True),
    ("contains", "Paris", "Parisian food", False),
    ("contains", "Paris", "London", False),
    ("contains", "New York", "in New\nYork", True),
    ("contains", "5", "15", False),
    ("contains", "5", "5.2", False),
    ("contains", "5", "It is 5.", True),
    ("contains", "C++", "I use C++ daily", True),
    ("contains", "Ｐａｒｉｓ", "Paris", True),
    ("contains", "Paris", "", None),
    ("contains", "שלום", "אמר שלום לכולם", True),
    ("regex", r"santiago( de chile)?", "It is Santiago de Chile!", True),
    ("regex", r"^yes\b", "Well.\nYes, it is", True),
    ("regex", r"^yes\b", "no", False),
    ("regex", r"yes", "", None),
    (r"regex:total: (\d+)", "12", "total: 10\nTotal: 12", True),
    (r"regex:total: (\d+)", "12", "total: 12\ntotal: 10", False),
    (r"regex:total: (\d+)", "12", "nothing", None),
    (r"regex:[A-D]\b(?!.*[A-D]\b)", "b", "A, no: B", True),
    ("regex:(a)|b", "b", "b", True),
    ("json", '{"city": "Lima"}', '{"city": "Lima"}', True),
    ("json", '{"city": "Lima"}', '{ "city" :\n"Lima" }', True),
    ("json", '{"city": "Lima"}', '```json\n{"city": "Lima"}\n```', True),
    ("json", '{"city": "Lima"}', '```\n{"city": "Lima"}\n```', True),
    ("json", '{"city": "Lima"}', 'Sure!\n```json\n{"city": "Lima"}\n```\nAnything else?', True),
    ("json", '{"city": "Lima"}', 'In {braces} it is {"city": "Lima"} I think', True),
    ("json", '{"city": "Lima"}', '{"city": "Quito"} or {"city": "Lima"}', False),
    ("json", '{"city": "Lima"}', "{'city': 'Lima'}", None),
    ("json", '{"city": "Lima"}', '{"city": "Lim', None),
    ("json", '{"b": 1}', '{"a": {"b": 1}', None),
    ("json", '{"city": "Lima"}', '{"city": "Lima",}', None),
    ("json", '{"city": "Lima"}', "", None),
    ("json", '{"a": {"b": [1, {"c": "}"}]}}', 'x {"a": {"b": [1, {"c": "}"}]}} y', True),
    ("json", '{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
    ("json", '{"a": 1}', '{"a": 1.0}', True),
    ("json", '{"a": 1}', '{"a": true}', False),
    ("json", '{"a": 1}', '{"a": "1"}', False),
    ("json", '{"a": 1}', 'see [1]: {"a": 1}', True),
    ("json", "[1, 2]", "[1, 2]", True),
    ("json", "[1, 2]", "[2, 1]", False),
    ("json", "[1, 2]", "It is [1, 2].", True),
    ("json", "42", "42", True),
    ("json", '"x"', '"x"', True),
    ("json", "null", "null", True),
    ("json", "42", "It is 42", None),
    ("json", '{"a": 1}', "[" * 100_000, None),
    ("json", "[1]", "[" * 100_000, None),
    ("json", '{"a": 1}', '{"a":' * 20_000, None),
    ("json", "[1]", "1" * 100_000, None),
    ("json:keys", '["a", "b"]', '{"a": 1, "b": 2, "c": 3}', True),
    ("json:keys", '["a", "b"]', '{"a": 1}', False),
    ("json:keys", '{"a": 1}', '{"a": 1, "b": 2}', True),
    ("json:keys", '{"a": 1}', '{"a": 2}', False),
    ("json:keys", '["a"]', "[1]", None),
    ("json:only", '{"a": 1}', '{"a": 1}', True),
    ("json:only", '{"a": 1}', '```json\n{"a": 1}\n```', True),
    ("json:only", '{"a": 1}', 'Sure: {"a": 1}', False),
    ("json:only", '{"a": 1}', '{"a": 1}\n\nThis is the object.', False),
    ("json:only", '{"a": 1}', '```json\n{"a": 1}\n```\nThis is the object.', False),
    ("json", '{"a": 1}', '```json\n{"a": 1}\n```\nThis is the object.', True),
    ("json:keys:only", '["a"]', '{"a": 2}', True),
    ("json:keys:only", '["a"]', '{"a": 2} as you wished', False),
    ("json:keys:only", '["b"]', '{"a": 2}', False),
    ("tool_call", CALL, '{"name": "f", "arguments": {"x": 1}}', True),
    ("tool_call", CALL, '{"name": "f", "parameters": {"x": 1}}', True),
    ("tool_call", CALL, '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', True),
    ("tool_call", CALL, 'ok <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>', True),
    ("tool_call", CALL, '[{"name": "f", "arguments": {"x": 1}}]', True),
    ("tool_call", CALL, '[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}]', True),
    ("tool_call", CALL, '{"function": {"name": "f", "arguments": "{\\"x\\": 1}"}}', True),
    (
        "tool_call",
        CALL,
        '{"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}',
        True,
    ),
    ("tool_call", CALL, '```json\n{"name": "f", "arguments": {"x": 1}}\n```', True),
    ("tool_call", CALL, "[f(x=1)]", True),
    ("tool_call", CALL, "f(x=1)", True),
    ("tool_call", CALL, "f(1)", None),
    ("tool_call", CALL, "f(x=open('y'))", None),
    ("tool_call", CALL, '{"name": "g", "arguments": {"x": 1}}', False),
    ("tool_call", CALL, '{"name": "f", "arguments": {"x": 2}}', False),
    ("tool_call", CALL, '{"name": "f", "arguments": {"x": 1, "y": 2}}', False),
    ("tool_call", '{"name": "f"}', '{"name": "f", "arguments": {}}', True),
    ("tool_call", CALL, "I would call f with x = 1.", None),
    ("tool_call", CALL, '<tool_call>{"name": "f"', None),
    ("tool_call", CALL, '[TOOL_CALLS]f[ARGS]{"x": 1}', True),
    ("tool_call", CALL, '[TOOL_CALLS]f[CALL_ID]a1b2[ARGS]{"x": 2}', False),
    ("tool_call", CALL, '[TOOL_CALLS]f[ARGS]{"x": ', None),
    (
        "tool_call",
        CALL,
        "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>",
        True,
    ),
    (
        "tool_call",
        CALL,
        "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        True,
    ),
    (
        "tool_call",
        CALL,
        "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>one</arg_value>\n</tool_call>",
        False,
    ),
    ("tool_call", CALL, '<invoke name="f"><parameter name="x">1</parameter></invoke>', True),
    ("tool_call", CALL, '<function=f>{"x": 1}</function>', True),
    ("tool_call", CALL, '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>', True),
    (
        "tool_call",
        CALL,
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```<｜tool▁call▁end｜>',
        True,
    ),
    (
        "tool_call",
        CALL,
        '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>',
        True,
    ),
    (
        "tool_call",
        CALL,
        "<|channel|>analysis<|message|>I use f.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>',
        True,
    ),
    (
        "tool_call",
        '{"name": "f"}',
        '<tool_call>{"name": "f"}</tool_call><tool_call>{bad</tool_call>',
        None,
    ),
    ("tool_call", '[{"name": "f"}, {"name": "g"}]', '[{"name": "g"}, {"name": "f"}]', True),
    ("tool_call", '[{"name": "f"}, {"name": "g"}]', "[g(), f()]", True),
    ("tool_call", '[{"name": "f"}, {"name": "f"}]', '{"name": "f"}', False),
    ("tool_call", '{"name": "f"}', "f(" * 1_000, None),
    ("tool_call", '{"name": "f"}', "<tool_call>" * 10_000, None),
    ("boxed", r"\frac{1}{2}", r"so \boxed{\frac{1}{2}}.", True),
    ("boxed", r"\frac{1}{2}", r"so \boxed{\dfrac{1}{2}}.", True),
    ("boxed", r"\frac{1}{2}", r"so \boxed{0.5}.", True),
    ("boxed", r"-\frac{1}{2}", r"\boxed{-\frac12}", True),
    ("boxed", r"\frac{1}{2}", r"\boxed{-\dfrac{1}{2}}", False),
    ("boxed", "-0.5", r"\boxed{-\frac{1}{2}}", True),
    ("boxed", "0.5", r"\boxed{-\frac{1}{2}}", False),
    ("boxed", "x+1", r"\boxed{ x + 1 }", True),
    ("boxed", r"\{1,2\}", r"\boxed{\{1,2\}}", True),
    ("boxed", "a", r"\boxed{b} \boxed{a}", True),
    ("boxed", "a", r"\boxed{a} \boxed{b}", False),
    ("boxed", "a", r"\boxed{a", None),
    ("boxed", "a", r"\boxed{}", None),
    ("boxed", "a", "a", None),
    ("boxed", "5", r"\boxed 5", True),
    ("boxed", "5", r"\boxed{5\text{ cm}}", True),
    ("boxed", "red", r"\boxed{\text{Red}}", True),
    ("boxed", "1", r"\boxed{" * 15_000, None),
]


@pytest.mark.parametrize(
    ("answer", "right", "output"),
    [
        pytest.param(answer, right, output, id=f"{i}-{n}-{output[:25]!a}")
        for i, (answer, right, outputs) in enumerate(NUMBERS)
        for n, output in enumerate(outputs)
    ],
)
def test_the_number_extracted_from_an_output(
    answer: str, right: bool | str | None, output: str
) -> None:
    item = Item(id="1", task="t", prompt="p", answer=answer, match="number")
    check_item(item)
    graded = grade(item, output)
    outcome = {None: "no answer", "two": "ambiguous"}.get(right, "ok")  # type: ignore[arg-type]
    assert (graded.correct, graded.outcome) == (right is True, outcome)


@pytest.mark.parametrize(
    ("match", "answer", "output", "right"),
    OTHERS,
    ids=[f"{i}-{r[0]}-{r[2][:25]!a}" for i, r in enumerate(OTHERS)],
)
def test_the_grade_of_an_open_answer(
    match: str, answer: str, output: str, right: bool | None
) -> None:
    item = Item(id="1", task="t", prompt="p", answer=answer, match=match)
    check_item(item)
    graded = grade(item, output)
    assert (graded.correct, graded.outcome) == (
        right is True,
        "no answer" if right is None else "ok",
    )


@pytest.mark.parametrize(
    ("match", "answer", "output", "form"),
    [
        ("exact", "Lima", "It is Lima.", False),  # right in content, wrong in form
        ("exact", "Lima", "Quito", True),
        ("number", "4", "Answer: 4", True),
        ("number", "4", "#### 4", True),
        ("number", "4", "4", True),
        ("number", "4", "That makes 4 apples.", False),
        ("json", '{"a": 1}', '{"a": 1}', True),
        ("json", '{"a": 1}', '```json\n{"a": 1}\n```', True),
        ("json", '{"a": 1}', 'Here: {"a": 1}', False),
        ("tool_call", '{"name": "f"}', '<tool_call>{"name": "f"}</tool_call>', True),
        ("tool_call", '{"name": "f"}', 'I call {"name": "f"}', False),
        ("boxed", "4", r"\boxed{4}", True),
        ("boxed", "4", "4", False),
    ],
)
def test_form_is_graded_apart_from_correctness(
    match: str, answer: str, output: str, form: bool
) -> None:
    assert (
        grade(Item(id="1", task="t", prompt="p", answer=answer, match=match), output).form is form
    )


@pytest.mark.parametrize(
    ("fields", "output", "outcome"),
    [
        (
            {"choices": ("x", "y"), "answer": 1},
            "Answer: B",
            "truncated",
        ),  # may be the first letter of "Beautiful"
        ({"choices": ("x", "y"), "answer": 1}, "Answer: B\n", "ok"),
        ({"choices": ("x", "y"), "answer": 1}, "Answer: B. It", "ok"),
        ({"choices": ("x", "y"), "answer": 1}, r"\boxed{B}", "ok"),
        ({"choices": ("x", "y"), "answer": 1}, "Answer: y", "truncated"),
        ({"choices": ("x", "y"), "answer": 1}, "So B is correct, and then", "truncated"),
        ({"choices": ("x", "y"), "answer": 1}, "Let us see, A or", "truncated"),
        ({"choices": ("x", "y"), "answer": 1}, "", "truncated"),
        ({"choices": ("x", "y"), "answer": 1}, "<think>B", "truncated in thinking"),
        ({"answer": "42", "match": "number"}, "Answer: 42", "truncated"),
        ({"answer": "42", "match": "number"}, "#### 42\n", "ok"),
        ({"answer": "42", "match": "number"}, "First, 42 apples are", "truncated"),
        ({"answer": "Lima", "match": "exact"}, "Lima", "truncated"),
        ({"answer": "Lima", "match": "contains"}, "Lima is", "ok"),
        ({"answer": "Lima", "match": "contains"}, "Lima", "truncated"),
        ({"answer": "Lima", "match": "contains"}, "The", "truncated"),
        ({"answer": "b+", "match": "regex"}, "abb", "truncated"),
        ({"answer": "b+", "match": "regex"}, "abba", "ok"),
        ({"answer": '{"a": 1}', "match": "json"}, '{"a": 1}', "ok"),
        ({"answer": '{"a": 1}', "match": "json"}, '{"a": 1', "truncated"),
        ({"answer": "1", "match": "json"}, "1", "truncated"),
        ({"answer": "4", "match": "boxed"}, r"\boxed{4}", "ok"),
        ({"answer": "4", "match": "boxed"}, r"\boxed{4", "truncated"),
    ],
)
def test_a_cut_output_counts_where_its_answer_is_complete(
    fields: dict[str, Any], output: str, outcome: str
) -> None:
    item = Item(id="1", task="t", prompt="p", **fields)
    graded = grade(item, output, truncated=True)
    assert graded.outcome == outcome
    assert graded.correct is (outcome == "ok")
    assert grade(item, output, truncated=True, no_answer="unscored").correct is (
        True if outcome == "ok" else None
    )


def test_without_an_answer_an_output_is_wrong_or_unscored() -> None:
    item = Item(id="1", task="t", prompt="p", choices=("x", "y"), answer=1)
    for output, outcome in (
        ("", "no answer"),
        ("A or B", "ambiguous"),
        ("<think>", "truncated in thinking"),
    ):
        assert (grade(item, output).correct, grade(item, output).outcome) == (False, outcome)
        unscored = grade(item, output, no_answer="unscored")
        assert (unscored.correct, unscored.outcome, unscored.chosen) == (None, outcome, None)


def _raises(item: Item, output: str) -> bool:
    raise ValueError(f"no idea\nwhat {output} is")


@pytest.mark.parametrize(
    ("own", "correct", "outcome"),
    [
        (lambda item, output: output == "B", True, "ok"),
        (lambda item, output: item.id == "2", False, "ok"),
        (lambda item, output: None, None, "unscored: the judge gave no verdict"),
        (_raises, None, "unscored: the judge raised ValueError: no idea what B is"),
        (lambda item, output: 0.7, True, "ok"),
        (lambda item, output: np.float32(0.25), False, "ok"),
        (
            lambda item, output: 7,
            None,
            "unscored: the judge needed True, False, a score from 0 to 1 or None, gave 7",
        ),
        (
            lambda item, output: [True],
            None,
            "unscored: the judge needed True, False, a score from 0 to 1 or None, gave list",
        ),
    ],
)
def test_a_judge_replaces_the_match_and_its_failure_is_unscored(
    own: Any, correct: bool | None, outcome: str
) -> None:
    item = Item(id="1", task="t", prompt="p", answer="whatever")
    graded = grade(item, "<think>A</think>B", judge=own)
    assert (graded.correct, graded.outcome) == (correct, outcome)


def test_a_call_in_an_unknown_template_is_unscored() -> None:
    item = Item(id="1", task="t", prompt="p", answer=CALL, match="tool_call")
    for output in ("<call:f x=1/>", "<|plugin|>f 1<|end_plugin|>"):
        assert grade(item, output).outcome.startswith("unscored: its tool calls are written in a")
    assert grade(item, "<b>I know nothing</b>").outcome == "no answer"


def test_a_judge_may_give_a_score() -> None:
    item = Item(id="1", task="t", prompt="p", answer="whatever")
    scores = [
        grade(item, "B", judge=lambda _, __, given=given: given).score for given in (0, 0.7, True)
    ]
    assert scores == [None, 0.7, None]


def test_a_judge_does_not_see_unfinished_thinking() -> None:
    item = Item(id="1", task="t", prompt="p", answer="whatever")
    assert (
        grade(item, "<think>B", judge=lambda item, output: True).outcome == "truncated in thinking"
    )
    assert grade(item, "B", truncated=True, judge=lambda item, output: True).correct is True
    assert grade(item, "B", truncated=True, judge=lambda item, output: False).outcome == "truncated"


@pytest.mark.parametrize(
    ("match", "answer", "says"),
    [
        (None, "x", "needs a match"),
        ("letter", "AB", "capital letter"),
        ("number", "many", "needs a number"),
        ("json", "{", "in JSON"),
        ("json:keys", "3", "list of names"),
        ("json:keys:only", "3", "list of names"),
        ("json:only", "{", "an answer in JSON"),
        ("tool_call", "{}", "name with arguments"),
        ("regex", "(", "regular expression"),
        ("regex:(", "x", "regular expression"),
    ],
)
def test_an_item_that_cannot_be_graded_is_refused(
    match: str | None, answer: str, says: str
) -> None:
    item = Item(id="1", task="t", prompt="p", answer=answer, match=match)
    with pytest.raises(ProbeError, match=says):
        check_item(item)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\d{1,3}(?:,\d{3})*",
            "(?:yes|no)+",
            "(?>a+)+$",
            "(?:a++)+$",
            r"(?:\.\d+)?",
            "(a+)(b+)?",
            r"[(a+)+]+",
        ),
        *(
            r"\((a)\)+",
            "(?:ab)+",
            "(?P<n>a)(?P=n)+",
            "(?i:x)*",
            "a+b+c+d+e+f+$",
            r"[\]*+]*x",
            "(?#a+ or so)b",
        ),
        "(?:a{2})+",
    ],
)
def test_safe_patterns_are_accepted_and_end_on_long_text(pattern: str) -> None:
    item = Item(id="1", task="t", prompt="p", answer=pattern, match="regex")
    check_item(item)
    for text in ("a" * 100_000, "ab" * 50_000, " " * 100_000, "abcdefgh" * 12_000):
        grade(item, text + "!")  # returns


def test_mathematics_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    item = Item(id="1", task="t", prompt="p", answer="1", match="math")
    with pytest.raises(ForgetwatchError, match=r"pip install 'forgetwatch\[math\]'"):
        check_item(item)
    with pytest.raises(ForgetwatchError, match=r"pip install 'forgetwatch\[math\]'"):
        grade(item, r"\boxed{1}")


@pytest.mark.parametrize(
    ("answer", "output", "right"),
    [
        (r"\frac{1}{2}", r"so \boxed{0.5}", True),
        ("x^2+2x+1", r"\boxed{(x+1)^2}", True),
        (r"\{1,2\}", r"\boxed{\{2,1\}}", True),
        (r"\sqrt{8}", r"Answer: $2\sqrt{2}$", True),
        ("7", r"\boxed{8}", False),
        ("7", r"\boxed{" + "9^" * 40 + "9}", False),
        ("7", r"\boxed{" + "(" * 500 + "}", False),
        ("7", "I do not know.\nSorry.", None),
        ("7", "", None),
    ],
)
def test_equal_expressions_are_right(answer: str, output: str, right: bool | None) -> None:
    pytest.importorskip("math_verify")
    graded = grade(Item(id="1", task="t", prompt="p", answer=answer, match="math"), output)
    assert (graded.correct, graded.outcome) == (
        right is True,
        "no answer" if right is None else "ok",
    )


RIGHT = """
東京|答えは東京です。 東京|首都是東京。 北京|中国的首都是北京。 巴黎|巴黎是法国的首都
パリ|フランスの首都はパリです さくら|答え：さくらです 五|答案是：五 5|答えは5です 5|5年 Paris|答案是Paris。
서울|서울입니다. 서울|수도는_서울이다. 서울|서울은_수도 กรุงเทพ|คำตอบคือกรุงเทพ กรุงเทพ|เมืองหลวงคือกรุงเทพครับ
İstanbul|istanbul'da istanbul|İSTANBUL ırak|IRAK ISPARTA|ısparta ירושלים|בירושלים שלום|שָׁלוֹם القاهرة|الْقَاهِرَةُ
قاهرة|القاهرة بيت|في_البيت باريس|في_باريس باريس|بباريس हिंदी|यह_हिंदी_है eau|de_l'eau
"""
OTHER = """
京都|東京都 京都|東京都です 大阪|大阪城 東|東京 国|中国 三|三十 北|北京 話|話す 山|富士山 水|水曜日 一|一月
月|月曜日 人|人口 地|目的地 日本|日本語 中国|中国語 ローマ|ローマン パリ|パリコレ いぬ|こいぬです
なび|答えははなびです うち|はうちわです 5|15 5|5.2 5|1.5 5|5万 5|5천 서울|서울대학교 사|사과 고양|고양이
대문|남대문 음악|음악가 경기|경기도 나|나이 นก|คือนกยูง ไทย|ไทยแลนด์ กา|กาแฟ हिंद|हिंदी शहर|शहरी शाम|शामि
שלום|ירושלום בית|בבית כלב|כלבים דינה|מדינה ما|ماء ما|مال دين|مدينة لندن|للندنية Paris|Parisian ма|мама cafe|café
e|é sınır|sinir sinir|sınır
"""


def _graded(pair: str, **given: object) -> bool | None:
    answer, output = pair.replace("_", " ").split("|")
    return grade(
        Item(id="1", task="t", prompt="Q", answer=answer, match="contains"), output
    ).correct


@pytest.mark.parametrize("pair", RIGHT.split())
def test_an_answer_within_a_sentence_is_right(pair: str) -> None:
    assert _graded(pair) is True


def test_an_answer_that_is_a_part_of_another_word_is_never_right() -> None:
    pairs = OTHER.split()
    assert len(pairs) >= 50
    assert not [pair for pair in pairs if _graded(pair)]


def test_what_cannot_be_decided_is_unscored_with_the_reason() -> None:
    item = Item(id="1", task="t", prompt="Q", answer="京都", match="contains")
    assert (
        grade(item, "東京都").outcome
        == "unscored: it cannot be decided whether '京都' is a word of its own there"
    )
    assert grade(item, "大阪").correct is False


def test_an_option_is_named_in_a_sentence_without_spaces() -> None:
    item = Item(id="1", task="t", prompt="Q", choices=("東京", "大阪", "京都"), answer=0)
    assert grade(item, "首都は東京です。").correct is True
    assert grade(item, "大阪です").correct is False
    assert grade(item, "東京都").correct is None


ITEMS = [
    Item(id="choices", task="t", prompt="p", choices=(" x", " a dog", "5", "-"), answer=1),
    *(
        Item(id=match, task="t", prompt="p", answer=answer, match=match)
        for match, answer in {
            "exact": "Lima",
            "exact:fold": "Lima",
            "contains": "Lima",
            "number": "42",
            "letter": "B",
            "regex": r"li(ma)?\s*$",
            r"regex:is (\w+)": "Lima",
            "json": '{"a": 1}',
            "json:keys": '["a"]',
            "tool_call": CALL,
            "boxed": r"\frac12",
        }.items()
    ),
]
PIECES = st.sampled_from(
    [
        *(
            "Answer:",
            "answer is",
            "\\boxed{",
            "}",
            "<think>",
            "</think>",
            "####",
            "```json\n",
            "```",
            "A",
            "b",
            "I",
        ),
        *(
            "a",
            "or",
            "not",
            ",",
            ".",
            "\n",
            " ",
            "42",
            "1,5",
            "-",
            "½",
            "1/2",
            "%",
            "{",
            "[",
            '"',
            "a",
            ":",
            "(",
            ")",
            "²",
        ),
        *(
            "<tool_call>",
            "</tool_call>",
            "f(x=",
            "Lima",
            "is",
            "\\",
            "\u200f",
            "А",
            "10^",
            "e5",
            "\x00",
            "字",
            "🅱️",
        ),
    ]
)
TEXTS = st.one_of(
    st.text(),
    st.lists(PIECES).map("".join),
    st.lists(st.one_of(PIECES, st.text(max_size=5))).map(" ".join),
)
PROSE = st.lists(st.one_of(PIECES, st.text()), max_size=20).map(" ".join)


@pytest.mark.parametrize("item", ITEMS, ids=[item.id for item in ITEMS])
@given(output=TEXTS, truncated=st.booleans())
def test_no_text_raises_and_grading_is_deterministic(
    item: Item, output: str, truncated: bool
) -> None:
    graded = grade(item, output, truncated=truncated)
    assert graded == grade(item, output, truncated=truncated)
    outcome = graded.outcome.partition(": its tool calls")[0]
    known = ("ok", "no answer", "ambiguous", "truncated", "truncated in thinking", "unscored")
    assert outcome in known
    assert isinstance(graded.correct, bool) or outcome == "unscored"
    if graded.outcome != "ok":
        assert graded == Grade(None if outcome == "unscored" else False, outcome=graded.outcome)
    if item.choices and graded.chosen is not None:
        assert graded.correct == (graded.chosen in item.answers)


@given(
    before=PROSE,
    letter=st.sampled_from("ABCD"),
    form=st.sampled_from(["Answer: {}", "**Answer:** ({})", r"\boxed{{{}}}"]),
)
def test_a_planted_letter_is_extracted_after_any_text(before: str, letter: str, form: str) -> None:
    if after_thinking(before) is None:
        before += "</think>"
    if after_thinking(before) is None:
        return
    graded = grade(ITEMS[0], f"{before}\n\n{form.format(letter)}")
    assert (graded.outcome, graded.chosen, graded.form) == ("ok", "ABCD".index(letter), True)


@given(
    before=PROSE,
    value=st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-1e9, max_value=1e9
    ),
)
def test_a_planted_number_is_extracted_after_any_text(before: str, value: object) -> None:
    if after_thinking(before) is None:
        return
    item = Item(id="1", task="t", prompt="p", answer=str(value), match="number")
    assert grade(item, f"{before}\n#### {value}").correct is True
    assert grade(item, f"{before}\nAnswer: {value:,}").correct is True


@given(before=st.text().filter(lambda text: not set("{[`<") & set(text)))
def test_planted_json_and_calls_are_extracted_after_prose(before: str) -> None:
    by_id = {item.id: item for item in ITEMS}
    assert grade(by_id["json"], f'{before}\n```json\n{{"a": 1}}\n```').correct is True
    assert grade(by_id["tool_call"], f"{before}\n<tool_call>{CALL}</tool_call>").correct is True
    assert grade(by_id["boxed"], f"{before}\n\\boxed{{\\frac12}}").correct is True
    assert grade(by_id["contains"], f"{before}\nLima").correct is True
    assert grade(by_id["regex"], f"{before}\nLima").correct is True


@given(text=st.text(), limit=st.integers(1, 50))
def test_a_tail_is_the_end_of_its_text_and_folding_is_idempotent(text: str, limit: int) -> None:
    assert len(tail(text, limit)) <= limit
    assert text.rstrip().endswith(tail(text, limit))
    assert fold(fold(text)) == fold(text)


@given(value=st.fractions(max_denominator=999, min_value=-(10**12), max_value=10**12))
def test_a_fraction_is_read_exactly(value: object) -> None:
    (number,) = find_numbers(normalise_numbers(f"it is {value} metres"))
    assert number.value == value

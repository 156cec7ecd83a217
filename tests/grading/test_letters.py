"""Outputs to items with options, and the answer that is extracted from each.

"B" the letter; "B prose" the letter in no asked form; "B text" the option's text; "none"; "two" an ambiguous answer.
"""

import pytest

from forgetwatch import Item
from forgetwatch.grading.grader import grade

CAPITALS = (" Santiago", " Lima", " Quito", " La Paz")
LISTED = "A. Santiago\nB. Lima\nC. Quito\nD. La Paz"

OUTPUTS = [
    # The paper's form and its variants.
    (
        "B",
        [
            *(
                "Answer: B",
                "answer: b",
                "ANSWER: B",
                "Answer:B",
                "Answer : B",
                "Answer: B.",
                "Answer: B\n",
            ),
            *(
                "Answer:\nB",
                "Answer:\n\n**B**",
                "Answer: (B)",
                "Answer: [B]",
                "Answer: {B}",
                "Answer: <B>",
            ),
            *(
                "Answer: 'B'",
                "Answer: “B”",
                "**Answer: B**",
                "**Answer:** B",
                "**Answer**: B",
                "*Answer*: __B__",
            ),
            *(
                "_Answer: B_",
                "### Answer: B",
                "- Answer: B",
                "> Answer: B",
                "`Answer: B`",
                "Answer: `B`",
            ),
            *(
                "<b>Answer:</b> B",
                "Final answer: B",
                "Correct option: B",
                "Answer = B",
                "Answer -> B",
                "Answer → B",
            ),
            *(
                "Answer: B. Lima",
                "Answer: B) Lima",
                "Answer: B: Lima",
                "Answer: B - Lima",
                "Answer: B (Lima)",
            ),
            *(
                "Answer: B, because A is in Chile.",
                "Answer: B because A is wrong",
                "Answer: option B",
            ),
            *(
                "Answer: Option (B)",
                "Answer: definitely B",
                "Answer: I think B",
                "Answer: B 👍",
                "👉 Answer: B",
            ),
            *(
                '{"answer": "B"}',
                '```json\n{"reason": "capital", "answer": "B"}\n```',
                "<answer>B</answer>",
            ),
            *("<answer> (B) </answer> and more", "#### B", r"\boxed{B}", r"$\boxed{\text{B}}$"),
            *(
                r"\boxed{\textbf{(B)}}",
                r"\[ \boxed{B} \]",
                r"\boxed{B. Lima}",
                r"\fbox{B}",
                r"Answer: $\boxed{B}$",
            ),
            *(r"Answer: \textbf{B}", r"Answer: \(B\)", r"Answer: $\mathrm{B}$"),
        ],
    ),
    ("B prose", ["Final Answer: The answer is B", "Answer: The correct option is B"]),
    # Look-alike and invisible characters.
    (
        "B",
        [
            *(
                "Ａｎｓｗｅｒ： Ｂ",
                "Answer： B",
                "Answer﹕B",
                "Answer: 𝐁",
                "Answer: 𝔹",
                "Answer: Ⓑ",
                "Answer: ⒝",
            ),
            *(
                "Answer: 🅱️",
                "Answer: 🄱",
                "Answer: 🇧",
                "Answer:\u00a0B",
                "Answer:\u200bB",
                "\ufeffAnswer: B",
            ),
            *("\u202bAnswer: B\u202c", "Answer: \u200fB\u200e"),
            "Answer: В",  # Cyrillic
            "Answer: Β",  # Greek
        ],
    ),
    (
        "C",
        [
            "Answer: С"  # Cyrillic
        ],
    ),
    # Other languages.
    (
        "B",
        [
            *(
                "答案：B",
                "答え: B",
                "정답: B입니다",
                "Antwort: B",
                "Réponse : B",
                "Ans: B",
                "Respuesta: B",
                "Ответ: B",
            ),
            *("الجواب: B", "הנה התשובה\nAnswer: B"),
        ],
    ),
    (
        "B prose",
        [
            *(
                "答案是B。",
                "正确答案是B，因为它是首都",
                "因此选B。",
                "所以应该选择 B",
                "Die richtige Antwort ist B.",
            ),
            *("Die Antwort lautet B.", "La bonne réponse est la B.", "الجواب الصحيح هو B"),
        ],
    ),
    # Corrections: the last statement counts.
    (
        "B",
        [
            *("Answer: A\nWait, no.\nAnswer: B", "Answer: A. No, wait. Answer: B"),
            "Answer: B\n\nExplanation: A is in Chile, C is in Ecuador.",
            *("Answer: B\nThe answer is based on the map.", "Answer: not A but B"),
            *(
                "Answer: B. Actually, A is in Chile.",
                "Answer: B. Is it A? No. C? No.",
                "Answer: B\nThere is no A.",
            ),
            *("Answer: B\n\nA common mistake is A.", "Answer: B. The answer cannot be A."),
            *("Answer: B. The answer can't be C.", "Answer: B is right, A is wrong."),
        ],
    ),
    (
        "B prose",
        [
            *(
                "The answer is A. Actually, the answer is B.",
                "The answer is A, no wait, the answer is B",
            ),
            *(
                "The answer is not A but B.",
                "The answer is B, not C.",
                "The answer is B rather than C",
            ),
            *("The wrong answer is A. The right answer is B.", "The answer isn't A. It's B."),
            *(
                "The answer is A.\nThe answer is B.",
                "Answer: A\nWait, no, B.",
                "Answer: A. Hmm, actually B.",
            ),
            *(
                "Answer: A\n\nWait, I made a mistake. It should be B.\n",
                "The answer is A. No wait, it's B.",
            ),
            *("The answer is A... Actually no, B is correct.", "The answer is A? No, B."),
            "You might think the answer is A, but it's B.",
            "At first glance the answer is A. However, B is the correct one.",
            *("The answer is B, but it is close to A.", "Answer: A is wrong, so B"),
            "Answer: A is incorrect. B is correct.",
        ],
    ),
    # Lists of options are no answers.
    (
        "none",
        [
            f"Let's analyze each option:\n\n{LISTED}",
            "Possible answers:\n**A.** Santiago\n**B.** Lima\n",
        ],
    ),
    ("two", ["Let's look at every option: A. Santiago is in Chile. B. Lima is in Peru."]),
    ("B prose", ["The options are:\nA) Santiago, in Chile\nB) Lima, in Peru\n\nSo it must be B."]),
    ("A", ["Correct option: A. Santiago\nNot B. Lima"]),
    ("B", ["Answer:\nB. Lima\n\nThe others:\nA. Santiago is in Chile.\nC. Quito is in Ecuador."]),
    # A base model continues with questions of its own.
    (
        "B",
        [
            f"Answer: B\n\nQuestion: Capital of Chile?\n{LISTED}\nAnswer: A",
            f" B\n\nQ: Capital of Chile?\n{LISTED}\nAnswer: A",
            f"B\n\n### Instruction:\nCapital of Chile?\n{LISTED}\nAnswer: A",
            *(
                "\n" * 100_000 + "Answer: B" + "\n" * 100_000,
                "B\nUser: And of Chile?\nAssistant: A",
            ),
            "Let me read it again.\nQuestion: Capital of Peru?\nAnswer: B",
        ],
    ),
    (
        "B prose",
        [
            f"It lies on the coast. The answer is B.\n\nQ: Capital of Chile?\n{LISTED}\nThe answer is A."
        ],
    ),
    # Prose.
    (
        "B prose",
        [
            *(
                "The answer is B",
                "The correct answer is (B) Lima.",
                "The answer to this question is B.",
            ),
            *(
                "The correct choice among the four would be B.",
                "Therefore, the answer must be B.",
                "So I choose B.",
            ),
            *(
                "I would go with (B).",
                "I'd pick B",
                "Option B is correct.",
                "B is the correct answer.",
            ),
            *(
                "(B) is the right one, A is not.",
                "Let me see. It must be B.",
                "Hence B.",
                "Peru's capital, thus: B",
            ),
        ],
    ),
    ("B", ["The answer is: B"]),
    # Nothing but the answer.
    (
        "B",
        [
            *(
                "B",
                " B",
                "b",
                "B.",
                "(B)",
                "[B]",
                "**B**",
                "**(B)**",
                "Option B",
                "B. Lima",
                "B) Lima",
                "(B) Lima",
            ),
            *(
                "B Lima",
                "B: Lima",
                "**B. Lima**",
                "B\n\nLima is the capital of Peru.",
                "It lies on the coast.\nB",
            ),
            "It lies on the coast.\n\n(B)",
        ],
    ),
    ("B prose", ["B. It is the capital of Peru."]),
    ("A", ["A"]),
    # The option's text where its letter was asked for.
    (
        "B text",
        [
            *(
                "Lima",
                " lima. ",
                "Answer: Lima",
                "The answer is Lima.",
                "The capital of Peru is Lima.",
            ),
            *("It is Lima, not Quito.", "Answer: LIMA", r"\boxed{\text{Lima}}"),
            "Quito is in Ecuador.\nThe capital of Peru is Lima.",
        ],
    ),
    ("D text", ["Answer: La  Paz"]),
    ("two", ["Lima or Quito", "Answer: Lima or Quito"]),
    ("none", ["The answer is Limassol"]),
    # Two answers.
    (
        "two",
        [
            *(
                "A or B",
                "A/B",
                "A and B",
                "Answer: A or B",
                "Answer: A and C",
                "Answer: A, B",
                "Answer: A, B, C, or D",
            ),
            *("Answer: A/B", "Answer: (A) or (B)", "Answer: either A or B", "Answer: both A and B"),
            *(
                "Answer: (A) Santiago or (B) Lima",
                "Answer: A & B",
                "Answer: A + B",
                "Answer: [A/B/C/D]",
            ),
            *(
                "The answer is A or maybe B",
                "Answer: A Answer: B",
                "The answer is A and the answer is B",
            ),
            *("I choose A or B.", r"\boxed{A} or \boxed{B}", r"\boxed{A, B}"),
        ],
    ),
    # No answer.
    (
        "none",
        [
            *(
                "",
                " \n\t ",
                "I'm sorry, but I can't help with that.",
                "I cannot answer that question.",
            ),
            *(
                "As an AI, I do not have an opinion.",
                "Answer:",
                "Answer: ",
                "Answer: E",
                "Answer: None of the above",
            ),
            *(
                "Answer: unknown",
                "Answer: I don't know",
                "Answer: not A",
                "The answer is neither A nor B.",
            ),
            *(
                "The answer is a dog.",
                "Answer: a dog",
                "A dog is an animal.",
                "A large city on the coast.",
            ),
            *(
                "Answer: BD",
                "Answer: Beautiful",
                "Answer: C++",
                "Answer: A-level",
                "Answer: U.S.A.",
                "Answer: B's",
            ),
            *(
                "Answer: $LETTER",
                "Answer: X",
                "Answer: 2",
                "The answer depends on the vitamin C level",
            ),
            *("def answer(b):\n    return b + 1", "x = a + b", "🎉🎉🎉", "مرحبا بالعالم"),
            *(
                f"Question: Capital of Peru?\n{LISTED}\nAnswer:",
                LISTED,
                "a" * 100_000,
                "A" * 100_000,
                " " * 100_000,
            ),
            *("(" * 100_000, "Answer: " * 12_000),
        ],
    ),
    ("two", ["A. Santiago\nB. Lima"]),
    # Length.
    (
        "B",
        [
            *("word " * 20_000 + "\nAnswer: B", "Answer: A\n" + "word " * 20_000 + "\nAnswer: B"),
            *("字" * 50_000 + "\nAnswer: B", f"{LISTED}\nAnswer: B"),
        ],
    ),
    ("B prose", [f"{LISTED}\nSo B is correct."]),
    # Thinking.
    (
        "B",
        [
            *(
                "<think>Answer: A</think>Answer: B",
                "<think>A? No.</think>\n\nB",
                "A? No, it is C.</think>Answer: B",
            ),
            *(
                "<thinking>Answer: A</thinking>\nAnswer: B",
                "<reasoning>Answer: A</reasoning>\nAnswer: B",
            ),
            *("[THINK]Answer: A[/THINK]Answer: B", "<think><think>A</think>Answer: B"),
            "<think>I will write <reasoning> tags.</think>Answer: B",
            *(
                "<think>A</think> hm <think>C</think>Answer: B",
                "<seed:think>A</seed:think>Answer: B",
            ),
            "◁think▷A◁/think▷Answer: B",
            "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>Answer: B<|return|>",
            *(
                "<|channel>thought\nA?<channel|>Answer: B",
                "B<|eot_id|>",
                "<think>A</think>B<|im_end|>\n",
            ),
        ],
    ),
    ("none", ["<think>Answer: B</think>"]),
    (
        "thinking",
        [
            *(
                "<think>Answer: B",
                "Answer: B <think>or",
                "<|channel|>analysis<|message|>Answer: B",
                "<think>" * 15_000,
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        pytest.param(expected, output, id=f"{i}-{n}-{output[:25]!a}")
        for i, (expected, outputs) in enumerate(OUTPUTS)
        for n, output in enumerate(outputs)
    ],
)
def test_the_option_extracted_from_an_output(expected: str, output: str) -> None:
    item = Item(id="1", task="capitals", prompt="Capital of Peru?", choices=CAPITALS, answer=1)
    graded = grade(item, output)
    read = {"no answer": "none", "ambiguous": "two", "truncated in thinking": "thinking"}.get(
        graded.outcome
    )
    if graded.outcome == "ok":
        assert graded.chosen is not None
        read = "ABCD"[graded.chosen] + (
            " text" if graded.as_text else "" if graded.form else " prose"
        )
    assert read == expected
    assert graded.correct == (graded.chosen == 1)
    assert (graded.extracted is None) == (graded.chosen is None)


@pytest.mark.parametrize(
    ("options", "output", "chosen", "as_text"),
    [
        (("a cat", "A dog"), "Answer: A dog", 1, True),
        (("a cat", "A dog"), "Answer: A dog.", 1, True),
        (("a cat", "a dog"), "Answer: A", 0, False),
        (("Paris", "Paris, Texas"), "The answer is Paris, Texas.", 1, True),
        (("Paris", "Paris, Texas"), "The answer is Paris.", 0, True),
        (("5", "15"), "The answer is 15", 1, True),
        (("5", "15"), "Answer: 5", 0, True),
        (("yes", "no"), "No.", 1, True),
        (("yes", "no"), "yes or no", None, False),
        (("same", "same"), "Answer: same", None, False),
        (tuple("ABCDEFGHIJ"), "Answer: J", 9, False),
        (tuple("ABCDEFGHIJ"), "I think it depends.", None, False),
        (tuple("ABCDEFGHIJ"), "Answer: I", 8, False),
        (tuple("ABCDEFGHIJ"), "Answer: I think J", 9, False),
        (tuple("ABCDEFGHIJ"), "Answer: I'm not sure", None, False),
        (("only",), "Answer: A", 0, False),
        (tuple(f"option {i}." for i in range(30)), "Answer: option 29", 29, True),
        (("", "x"), "", None, False),
    ],
)
def test_options_may_be_words_numbers_sentences_or_letters(
    options: tuple[str, ...], output: str, chosen: int | None, as_text: bool
) -> None:
    graded = grade(Item(id="1", task="t", prompt="p", choices=options, answer=0), output)
    assert (graded.chosen, graded.as_text) == (chosen, as_text)


def test_each_of_several_right_options_is_right() -> None:
    item = Item(id="1", task="t", prompt="p", choices=CAPITALS, answer=(0, 2))
    assert [grade(item, f"Answer: {letter}").correct for letter in "ABCD"] == [
        True,
        False,
        True,
        False,
    ]


def test_an_open_answer_can_be_a_letter() -> None:
    item = Item(id="1", task="t", prompt="... (E) is not listed", answer="F", match="letter")
    graded = grade(item, "Answer: F")
    assert (graded.correct, graded.chosen, graded.extracted) == (True, None, "F")
    assert grade(item, "Answer: E").correct is False

"""What outputs to items with options are read as: one line an output.

"B" the letter; "B prose" the letter, not in an asked form; "B text" the option's text; "none"; "two" an ambiguous one.
"""

from __future__ import annotations

import pytest

from forgetwatch import Item
from forgetwatch.extraction import judge

CAPITALS = (" Santiago", " Lima", " Quito", " La Paz")
LISTED = "A. Santiago\nB. Lima\nC. Quito\nD. La Paz"

OUTPUTS = [
    # The paper's form, and what people and tokenizers make of it.
    ("Answer: B", "B"),
    ("answer: b", "B"),
    ("ANSWER: B", "B"),
    ("Answer:B", "B"),
    ("Answer : B", "B"),
    ("Answer: B.", "B"),
    ("Answer: B\n", "B"),
    ("Answer:\nB", "B"),
    ("Answer:\n\n**B**", "B"),
    ("Answer: (B)", "B"),
    ("Answer: [B]", "B"),
    ("Answer: {B}", "B"),
    ("Answer: <B>", "B"),
    ("Answer: 'B'", "B"),
    ("Answer: “B”", "B"),
    ("**Answer: B**", "B"),
    ("**Answer:** B", "B"),
    ("**Answer**: B", "B"),
    ("*Answer*: __B__", "B"),
    ("_Answer: B_", "B"),
    ("### Answer: B", "B"),
    ("- Answer: B", "B"),
    ("> Answer: B", "B"),
    ("`Answer: B`", "B"),
    ("Answer: `B`", "B"),
    ("<b>Answer:</b> B", "B"),
    ("Final answer: B", "B"),
    ("Final Answer: The answer is B", "B prose"),
    ("Correct option: B", "B"),
    ("Answer = B", "B"),
    ("Answer -> B", "B"),
    ("Answer → B", "B"),
    ("Answer: B. Lima", "B"),
    ("Answer: B) Lima", "B"),
    ("Answer: B: Lima", "B"),
    ("Answer: B - Lima", "B"),
    ("Answer: B (Lima)", "B"),
    ("Answer: B, because A is in Chile.", "B"),
    ("Answer: B because A is wrong", "B"),
    ("Answer: option B", "B"),
    ("Answer: Option (B)", "B"),
    ("Answer: The correct option is B", "B prose"),
    ("Answer: definitely B", "B"),
    ("Answer: I think B", "B"),
    ("Answer: B 👍", "B"),
    ("👉 Answer: B", "B"),
    ('{"answer": "B"}', "B"),
    ('```json\n{"reason": "capital", "answer": "B"}\n```', "B"),
    ("<answer>B</answer>", "B"),
    ("<answer> (B) </answer> and more", "B"),
    ("#### B", "B"),
    (r"\boxed{B}", "B"),
    (r"$\boxed{\text{B}}$", "B"),
    (r"\boxed{\textbf{(B)}}", "B"),
    (r"\[ \boxed{B} \]", "B"),
    (r"\boxed{B. Lima}", "B"),
    (r"\fbox{B}", "B"),
    (r"Answer: $\boxed{B}$", "B"),
    (r"Answer: \textbf{B}", "B"),
    (r"Answer: \(B\)", "B"),
    (r"Answer: $\mathrm{B}$", "B"),
    # Characters that look alike, and some that do not show.
    ("Ａｎｓｗｅｒ： Ｂ", "B"),
    ("Answer： B", "B"),
    ("Answer﹕B", "B"),
    ("Answer: В", "B"),  # Cyrillic
    ("Answer: Β", "B"),  # Greek
    ("Answer: С", "C"),  # Cyrillic
    ("Answer: 𝐁", "B"),
    ("Answer: 𝔹", "B"),
    ("Answer: Ⓑ", "B"),
    ("Answer: ⒝", "B"),
    ("Answer: 🅱️", "B"),
    ("Answer: 🄱", "B"),
    ("Answer: 🇧", "B"),
    ("Answer:\u00a0B", "B"),
    ("Answer:\u200bB", "B"),
    ("\ufeffAnswer: B", "B"),
    ("\u202bAnswer: B\u202c", "B"),
    ("Answer: \u200fB\u200e", "B"),
    # Other languages.
    ("答案：B", "B"),
    ("答案是B。", "B prose"),
    ("正确答案是B，因为它是首都", "B prose"),
    ("答え: B", "B"),
    ("정답: B입니다", "B"),
    ("Antwort: B", "B"),
    ("Die richtige Antwort ist B.", "B prose"),
    ("Réponse : B", "B"),
    ("Respuesta: B", "B"),
    ("Ответ: B", "B"),
    ("الجواب: B", "B"),
    ("הנה התשובה\nAnswer: B", "B"),
    # Corrections: the last statement counts.
    ("Answer: A\nWait, no.\nAnswer: B", "B"),
    ("Answer: A. No, wait. Answer: B", "B"),
    ("The answer is A. Actually, the answer is B.", "B prose"),
    ("The answer is A, no wait, the answer is B", "B prose"),
    ("Answer: B\n\nExplanation: A is in Chile, C is in Ecuador.", "B"),
    ("Answer: B\nThe answer is based on the map.", "B"),
    ("Answer: not A but B", "B"),
    ("The answer is not A but B.", "B prose"),
    ("The answer is B, not C.", "B prose"),
    ("The answer is B rather than C", "B prose"),
    ("The wrong answer is A. The right answer is B.", "B prose"),
    ("The answer isn't A. It's B.", "B prose"),
    ("The answer is A.\nThe answer is B.", "B prose"),
    # Prose.
    ("The answer is B", "B prose"),
    ("The answer is: B", "B"),
    ("The correct answer is (B) Lima.", "B prose"),
    ("The answer to this question is B.", "B prose"),
    ("The correct choice among the four would be B.", "B prose"),
    ("Therefore, the answer must be B.", "B prose"),
    ("So I choose B.", "B prose"),
    ("I would go with (B).", "B prose"),
    ("I'd pick B", "B prose"),
    ("Option B is correct.", "B prose"),
    ("B is the correct answer.", "B prose"),
    ("(B) is the right one, A is not.", "B prose"),
    ("Let me see. It must be B.", "B prose"),
    ("Hence B.", "B prose"),
    ("Peru's capital, thus: B", "B prose"),
    # Nothing but the answer.
    ("B", "B"),
    (" B", "B"),
    ("b", "B"),
    ("B.", "B"),
    ("(B)", "B"),
    ("[B]", "B"),
    ("**B**", "B"),
    ("**(B)**", "B"),
    ("Option B", "B"),
    ("B. Lima", "B"),
    ("B) Lima", "B"),
    ("(B) Lima", "B"),
    ("B Lima", "B"),
    ("B: Lima", "B"),
    ("**B. Lima**", "B"),
    ("B\n\nLima is the capital of Peru.", "B"),
    ("B. It is the capital of Peru.", "B prose"),
    ("It lies on the coast.\nB", "B"),
    ("It lies on the coast.\n\n(B)", "B"),
    ("A", "A"),
    # The option's text where its letter was asked for.
    ("Lima", "B text"),
    (" lima. ", "B text"),
    ("Answer: Lima", "B text"),
    ("The answer is Lima.", "B text"),
    ("The capital of Peru is Lima.", "B text"),
    ("It is Lima, not Quito.", "B text"),
    ("Answer: LIMA", "B text"),
    (r"\boxed{\text{Lima}}", "B text"),
    ("Quito is in Ecuador.\nThe capital of Peru is Lima.", "B text"),
    ("Answer: La  Paz", "D text"),
    ("Lima or Quito", "two"),
    ("Answer: Lima or Quito", "two"),
    ("The answer is Limassol", "none"),
    # Two answers.
    ("A or B", "two"),
    ("A/B", "two"),
    ("A and B", "two"),
    ("Answer: A or B", "two"),
    ("Answer: A and C", "two"),
    ("Answer: A, B", "two"),
    ("Answer: A, B, C, or D", "two"),
    ("Answer: A/B", "two"),
    ("Answer: (A) or (B)", "two"),
    ("Answer: either A or B", "two"),
    ("Answer: both A and B", "two"),
    ("Answer: (A) Santiago or (B) Lima", "two"),
    ("Answer: A & B", "two"),
    ("Answer: A + B", "two"),
    ("Answer: [A/B/C/D]", "two"),
    ("The answer is A or maybe B", "two"),
    ("Answer: A Answer: B", "two"),
    ("The answer is A and the answer is B", "two"),
    ("I choose A or B.", "two"),
    (r"\boxed{A} or \boxed{B}", "two"),
    (r"\boxed{A, B}", "two"),
    # No answer.
    ("", "none"),
    (" \n\t ", "none"),
    ("I'm sorry, but I can't help with that.", "none"),
    ("I cannot answer that question.", "none"),
    ("As an AI, I do not have an opinion.", "none"),
    ("Answer:", "none"),
    ("Answer: ", "none"),
    ("Answer: E", "none"),
    ("Answer: None of the above", "none"),
    ("Answer: unknown", "none"),
    ("Answer: I don't know", "none"),
    ("Answer: not A", "none"),
    ("The answer is neither A nor B.", "none"),
    ("The answer is a dog.", "none"),
    ("Answer: a dog", "none"),
    ("A dog is an animal.", "none"),
    ("A large city on the coast.", "none"),
    ("Answer: BD", "none"),
    ("Answer: Beautiful", "none"),
    ("Answer: C++", "none"),
    ("Answer: A-level", "none"),
    ("Answer: U.S.A.", "none"),
    ("Answer: B's", "none"),
    ("Answer: $LETTER", "none"),
    ("Answer: X", "none"),
    ("Answer: 2", "none"),
    ("The answer depends on the vitamin C level", "none"),
    ("def answer(b):\n    return b + 1", "none"),
    ("x = a + b", "none"),
    ("🎉🎉🎉", "none"),
    ("مرحبا بالعالم", "none"),
    (f"Question: Capital of Peru?\n{LISTED}\nAnswer:", "none"),
    (LISTED, "none"),
    ("A. Santiago\nB. Lima", "two"),
    ("a" * 100_000, "none"),
    ("A" * 100_000, "none"),
    (" " * 100_000, "none"),
    ("(" * 100_000, "none"),
    ("Answer: " * 12_000, "none"),
    # Length.
    ("word " * 20_000 + "\nAnswer: B", "B"),
    ("Answer: A\n" + "word " * 20_000 + "\nAnswer: B", "B"),
    ("字" * 50_000 + "\nAnswer: B", "B"),
    (f"{LISTED}\nAnswer: B", "B"),
    (f"{LISTED}\nSo B is correct.", "B prose"),
    # Thinking.
    ("<think>Answer: A</think>Answer: B", "B"),
    ("<think>A? No.</think>\n\nB", "B"),
    ("A? No, it is C.</think>Answer: B", "B"),
    ("<thinking>Answer: A</thinking>\nAnswer: B", "B"),
    ("<reasoning>Answer: A</reasoning>\nAnswer: B", "B"),
    ("[THINK]Answer: A[/THINK]Answer: B", "B"),
    ("<think><think>A</think>Answer: B", "B"),
    ("<think>I will write <reasoning> tags.</think>Answer: B", "B"),
    ("<think>A</think> hm <think>C</think>Answer: B", "B"),
    ("<seed:think>A</seed:think>Answer: B", "B"),
    ("◁think▷A◁/think▷Answer: B", "B"),
    ("<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>Answer: B<|return|>", "B"),
    ("<|channel>thought\nA?<channel|>Answer: B", "B"),
    ("<think>Answer: B</think>", "none"),
    ("<think>Answer: B", "thinking"),
    ("Answer: B <think>or", "thinking"),
    ("<|channel|>analysis<|message|>Answer: B", "thinking"),
    ("<think>" * 15_000, "thinking"),
]


@pytest.mark.parametrize(
    ("output", "expected"), OUTPUTS, ids=[f"{i}-{output[:25]!a}" for i, (output, _) in enumerate(OUTPUTS)]
)
def test_an_output_is_read_as_its_line_says(output: str, expected: str) -> None:
    item = Item(id="1", task="capitals", prompt="Capital of Peru?", choices=CAPITALS, answer=1)
    judged = judge(item, output)
    read = {"no answer": "none", "ambiguous": "two", "truncated in thinking": "thinking"}.get(judged.outcome)
    if judged.outcome == "ok":
        assert judged.chosen is not None
        read = "ABCD"[judged.chosen] + (" text" if judged.as_text else "" if judged.form else " prose")
    assert read == expected
    assert judged.correct == (judged.chosen == 1)
    assert (judged.found is None) == (judged.chosen is None)


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
def test_options_of_all_kinds(options: tuple[str, ...], output: str, chosen: int | None, as_text: bool) -> None:
    judged = judge(Item(id="1", task="t", prompt="p", choices=options, answer=0), output)
    assert (judged.chosen, judged.as_text) == (chosen, as_text)


def test_several_right_options() -> None:
    item = Item(id="1", task="t", prompt="p", choices=CAPITALS, answer=(0, 2))
    assert [judge(item, f"Answer: {letter}").correct for letter in "ABCD"] == [True, False, True, False]


def test_an_open_answer_can_be_a_letter() -> None:
    item = Item(id="1", task="t", prompt="... (E) is not listed", answer="F", match="letter")
    judged = judge(item, "Answer: F")
    assert (judged.correct, judged.chosen, judged.found) == (True, None, "F")
    assert judge(item, "Answer: E").correct is False

from __future__ import annotations

from standard_probe.similar import near_duplicates


def test_a_slip_of_the_pen_is_found_and_unlike_prompts_are_not() -> None:
    prompts = ["Which gas do plants take in?", "Which gas do plants take  in", "Who painted it?", "A", "B"]
    assert [pair[1:] for pair in near_duplicates(prompts)] == [(prompts[0], prompts[1])]


def test_the_most_alike_come_first_and_the_overlap_is_shared_over_all_pieces() -> None:
    found = near_duplicates(["abcdefgh", "abcdefgx", "abcdefgh "], least=0.1)
    assert [overlap for overlap, *_ in found] == [1.0, 0.67, 0.67]


def test_two_thousand_prompts_of_one_form_take_seconds() -> None:
    prompts = [f"What is {number} times {number * 7 % 83}?" for number in range(1000)]
    assert all(overlap >= 0.99 for overlap, *_ in near_duplicates(prompts, least=0.99))

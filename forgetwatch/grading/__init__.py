"""What a generated text answers, and whether it is right: text in, small results out.

    judging        one output, judged
    thinking       what stands behind a thinking block
    next_question  where it goes on to a question of its own
    statement      where a final answer is stated
    slot           the option letter in that place
    letter         the option's letter
    option_text    the option's text instead of its letter
    number         numbers as exact fractions
    last_number    the number that is the answer
    verbatim       exact, contains
    pattern        regular expressions; pattern_guard keeps them from running for hours
    boxed          the last box; mathematics compares what is in it
    json_value     JSON in text
    tool_call      calls of tools
    traits         what an output is, instead of what it answers
    refusal        does it refuse
    language       which of eight it is written in
    loop           does it repeat itself
    length         words, sentences, lines
    instructions   were IFEval's instructions followed
    text           bounded and folded text
    found          what a search brings back

Patterns see a bounded end of an output, so that an output of any length costs a few milliseconds. Nothing here imports
torch, reads a file, or runs what a model wrote.
"""

from typing import Final

from forgetwatch.grading.grade import Judge, Judged, NoAnswer, cannot_be_judged, check_item, judge

__all__ = ["RULES", "Judge", "Judged", "NoAnswer", "cannot_be_judged", "check_item", "judge"]

RULES: Final = 2
"""Counts up when the same output may be judged otherwise than before: what was kept of an older one is judged anew."""

"""A generated text and an item to a grade: right, wrong, or unscored and why. Text in, small frozen results out.

Read `grader` first: `grade` removes the thinking block, extracts the answer by the item's match,
and compares it with the item's answers.

    grader          grade, and the check that an item can be graded
    output_text     thinking blocks, bounded text, the places where an output states its final answer
    whole_words     whether a text is in another as words of its own
    letters         the option that an output names by letter or by text
    mathematics     numbers as exact fractions
    expressions     boxes, and equality of expressions
    patterns        exact, contains, regular expressions
    json_answers    JSON values and tool calls
    traits          properties of the output itself: does it stop, loop, refuse; its length and case
    languages       the language of a text, one of eight
    instructions    the instructions of IFEval that have an exact check

All patterns search a bounded part of an output, so that an output of any length takes milliseconds.
Other people's regular expressions have a limit of 2 s (`patterns`). Nothing here imports torch,
reads a file, or runs text that a model generated.
"""

# Imported from this package by scripts of others.
from forgetwatch.grading.grader import grade

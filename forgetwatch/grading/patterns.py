r"""Answers that are compared with the text of an output: exact, contains, and regular expressions.

    exact                                     the whole output is the answer; white space counts as one space
    exact:fold                                the same without case
    contains                                  the answer is in the output as whole words, without case: "Paris", and
                                              not "Parisian"; unscored where that cannot be decided
                                              (`text`)
    regex, answer r"santiago( de chile)?"     right if the pattern is found
    regex:total: (\d+), answer "12"           right if the last match's first group is the answer; without a group the
                                              whole match is compared

An output that contains the right answer among other text is no other answer: for ``exact`` it is
wrong, and its form is what is wrong.

Patterns are those of the package regex in its compatible mode, without case, and with ``^`` and
``$`` at every line. They match nearly what `re` matches; unlike are the cases of letters such as ı,
what counts as a letter (marks do, ² does not), ``[[:digit:]]``, and fuzzy matches such as
``(ab){e<=1}``. A search that computes for longer than `SECONDS` stops, and the output is unscored,
with the reason. The time is that of the whole process, and is looked at now and then: some searches
take a few times as long. Memory is not bounded; patterns with large counts within counts, which
would take most of it when they are compiled, and patterns that call themselves are refused.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import regex

from forgetwatch.errors import ProbeError
from forgetwatch.grading.output_text import NOTHING, Extracted, collapse_spaces, fold_case, tail
from forgetwatch.grading.whole_words import Occurrence, comparable, find_words, turkish


def match_exact(body: str, answers: Sequence[str], *, case: bool) -> tuple[Extracted, bool]:
    """Is the whole output one of the answers?

    Returns:
        The output and the result; at most the last `TAIL` characters are compared.
    """
    output = collapse_spaces(tail(body))
    if not output:
        return NOTHING, False
    compared, wanted = output, [collapse_spaces(answer) for answer in answers]
    if not case:
        compared, wanted = fold_case(output), [fold_case(answer) for answer in wanted]
    right = compared in wanted
    form = right or not any(_found(output, answer)[0] for answer in answers)
    # White space after a right answer shows that the next token did not continue it.
    return Extracted(text=output, form=form, settled=right and body[-1:].isspace()), right


_OPPOSITE: Final = {"yes": "no", "no": "yes", "true": "false", "false": "true"}


def match_contained(body: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Does the end of the output contain an answer?

    Returns:
        The first answer in the last `TAIL` characters, and the result. Unscored where it cannot be
        decided whether an answer is a word.
    """
    if not body.strip():
        return NOTHING, False
    undecided, first_word = "", regex.match(r"\W*(\w*)", body.casefold())
    for answer in answers:
        if first_word and _OPPOSITE.get(answer.casefold()) == first_word[1]:
            continue  # "Yes, no doubt about it" is no "no"
        occurrences, size = _found(body, answer)
        if certain := [occurrence.end for occurrence in occurrences if occurrence.certain]:
            return Extracted(
                text=answer, form=True, settled=max(certain) < size or body[-1:].isspace()
            ), True
        undecided = undecided or (answer if occurrences else "")
    if undecided:
        return Extracted(
            unscored=f"it cannot be decided whether {undecided!r} is a word of its own there"
        ), False
    return Extracted(text=None, form=True), False


def match_any(body: str, patterns: Sequence[str]) -> tuple[Extracted, bool]:
    """Does any pattern match the output?

    Returns:
        The last match of the first pattern that matches, and the result.

    Raises:
        ProbeError: See `check_pattern`.
    """
    for pattern in patterns:
        if match := _last(body, pattern):
            return match, not match.unscored
    return (Extracted(form=True) if body.strip() else NOTHING), False


def match_last(body: str, pattern: str, answers: Sequence[str]) -> tuple[Extracted, bool]:
    """Is the last match of a pattern one of the answers?

    See `match_any`.

    Returns:
        The match and the result, compared without case and with single spaces.
    """
    match = _last(body, pattern)
    if match is None or match.text is None:
        return match or NOTHING, False
    return match, fold_case(collapse_spaces(match.text)) in {
        fold_case(collapse_spaces(answer)) for answer in answers
    }


SECONDS: Final = 2.0
"""Time limit of one search."""


FLAGS: Final = regex.IGNORECASE | regex.MULTILINE | regex.VERSION0


LONGEST: Final = 10_000
"""Limit of the characters of a pattern."""


_SHOWN: Final = 200
"""Characters of a pattern that an error shows."""


_EXPANDED: Final = 100_000
"""Limit of the parts of a pattern with its counts written out: ``((ab){100}){100}`` has 20,000."""


_TOKEN: Final = regex.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\s*\{(?:\d*,)?(?P<count>\d+),?\}|(?P<parenthesis>[()])|.",
    regex.DOTALL,
)


_RECURSION: Final = regex.compile(r"\(\?(?:R|\d|[+-]\d|&|P>)")


_TIMEOUTS: Final = 30
"""Searches of one pattern that may reach the time limit, a minute of them, before it is not searched again."""


_timed_out: Final = Counter[str]()


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a regular expression.

    Raises:
        ProbeError: If the text is none, or costs too much.
    """
    excerpt = repr(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}...")
    if len(pattern) > LONGEST:
        raise ProbeError(
            f"needed a regular expression of at most {LONGEST:,} characters, got "
            f"{len(pattern):,}: {excerpt}"
        )
    if (parts := _expanded(pattern)) > _EXPANDED:
        raise ProbeError(
            f"regular expression {excerpt}: it has {parts:.0e} parts with its counts written out, "
            f"needed at most {_EXPANDED:,}; write smaller counts, or '*' in place of a count"
        )
    if _RECURSION.search(pattern):
        raise ProbeError(
            f"regular expression {excerpt}: it calls itself, which can take all memory; write "
            "it out"
        )
    try:
        return regex.compile(pattern, FLAGS)
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError) as error:
        raise ProbeError(
            f"needed a regular expression that can be compiled, got {excerpt}: {error}"
        ) from error


def _expanded(pattern: str) -> int:
    # Counts of the pattern are written out; the number is approximate.
    sums, latest = [0], 0  # of each open group; of the part that a count would repeat
    for token in _TOKEN.finditer(pattern):
        if (count := token["count"]) is not None:
            sums[-1] += latest * (max(int(count[:9]), 1) - 1)
            latest *= max(int(count[:9]), 1)
        elif token["parenthesis"] == "(":
            sums.append(0)
        elif token["parenthesis"] == ")" and len(sums) > 1:
            latest = sums.pop()
            sums[-1] += latest
        elif not token[0].isspace():
            latest = 1
            sums[-1] += 1
    return sum(sums)


def _last(body: str, pattern: str) -> Extracted | None:
    # The first group, if it took part in the match.
    compiled, ending, last_match = check_pattern(pattern), tail(body), None
    if _timed_out[pattern] >= _TIMEOUTS:
        return Extracted(
            unscored=f"its pattern took longer than {SECONDS:g} s on {_TIMEOUTS} outputs before"
        )
    try:
        for match in compiled.finditer(ending, timeout=SECONDS):
            last_match = match
    except TimeoutError:
        _timed_out[pattern] += 1
        return Extracted(unscored=f"its pattern took longer than {SECONDS:g} s")
    except MemoryError:
        return Extracted(unscored="its pattern needs more memory than there is")
    if last_match is None:
        return None
    matched = last_match[1] if compiled.groups and last_match[1] is not None else last_match[0]
    return Extracted(
        text=matched, form=True, settled=last_match.end() < len(ending) or body[-1:].isspace()
    )


def _found(body: str, answer: str) -> tuple[list[Occurrence], int]:
    # Where an answer is in the end of an output, and the length of that end as compared.
    for fold in (comparable, turkish):
        output = fold(tail(body))
        if occurrences := list(find_words([fold(answer)], output)):
            return occurrences, len(output)
    return [], 0

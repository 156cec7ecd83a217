"""Numbers as people read them: shares in percent, differences in points, what is undefined as n/a; names that fit.

Widths are those of a terminal: a Chinese sign or an emoji takes two columns, an accent none.

The numbers of every group as people read them: one place that rounds, for the page, Markdown and their tests.

Numbers and names inside sentences.

Text of others as it can be seen: nothing in it steers a terminal, turns a line around, or breaks a file.

"a\u202eb"    ->    a⟨U+202E⟩b        control characters, marks of writing direction, halves of surrogate pairs
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from forgetwatch.metrics.intervals import Interval


def count(value: float, *, commas: bool = True) -> str:
    """A count; with one decimal where it is a mean over samples."""
    if math.isnan(value):
        return "n/a"
    whole = round(value)
    if abs(value - whole) > 1e-9:
        return f"{value:,.1f}" if commas else f"{value:.1f}"
    return f"{whole:,}" if commas else str(whole)


def brief(value: float, width: int) -> str:
    """A count in at most so many columns: without commas, or in millions (M), where it needs more.

    >>> brief(12345, 6), brief(123456, 6), brief(12345678, 6)
    ('12,345', '123456', '12.3M')
    """
    texts = (count(value), count(value, commas=False), str(round(value)) if math.isfinite(value) else "n/a")
    return next((text for text in texts if len(text) <= width), f"{value / 1e6:.1f}M")


def items(value: float) -> str:
    """A count of items, with the noun.

    >>> items(1), items(1200)
    ('1 item', '1,200 items')
    """
    return f"{count(value)} item{'' if value == 1 else 's'}"


def percent(rate: float) -> str:
    """A share in percent, without the sign."""
    return "n/a" if math.isnan(rate) else f"{round(100 * rate, 1) + 0.0:.1f}"  # never -0.0


def points(rate: float) -> str:
    """A difference of shares in points, with its sign."""
    return "n/a" if math.isnan(rate) else f"{100 * rate:+.1f}"


def between(interval: Interval, show: Callable[[float], str]) -> str:
    """An interval; n/a where it is undefined."""
    return "n/a" if math.isnan(interval[0]) else f"{show(interval[0])} to {show(interval[1])}"


def probability(p: float) -> str:
    """A p-value, to three decimals."""
    if math.isnan(p):
        return "n/a"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def fit(name: str, width: int) -> str:
    """A name in exactly so many columns of a terminal, in one line.

    >>> fit("Mathematics", 6), fit("数学和物理", 6)
    ('Mathe…', '数学… ')
    """
    line = one_line(name)
    if cell_len(line) > width:
        line = set_cell_size(line, width - 1).rstrip(" ") + "…"
    return set_cell_size(line, width)


def fit_ends(name: str, width: int) -> str:
    """A name in exactly so many columns, its middle left out: the names of a sweep differ at their ends.

    >>> fit_ends("sft-qwen-lr-1e-5", 11)
    'sft-q…-1e-5'
    """
    line = one_line(name)
    if cell_len(line) <= width:
        return set_cell_size(line, width)
    tail = next(line[at:] for at in range(len(line) + 1) if cell_len(line[at:]) <= (width - 1) // 2)
    return set_cell_size(set_cell_size(line, width - 1 - cell_len(tail)).rstrip(" ") + "…" + tail, width)


def one_line(text: str) -> str:
    """A text in one line, with nothing in it that is not seen."""
    return visible(" ".join(text.split()))


NAMED: Final = 4
"""Names that a sentence lists."""

_LONGEST: Final = 160
"""Characters of a question or an answer in an example."""


def questions(number: float) -> str:
    """A number of questions, with the noun."""
    return "No question" if not number else "1 question" if number == 1 else f"{count(number)} questions"


def is_or_are(number: float) -> str:
    """The verb for a number of things."""
    return "is" if number in (0, 1) else "are"


def cases(number: float) -> str:
    """A number of cases, with the noun."""
    return "1 case" if number == 1 else f"{count(number)} cases"


def listed(names: Sequence[str]) -> str:
    """Names in a row; of many the first, and how many more there are. At least one is needed."""
    shown = [*names[:NAMED], *([f"{count(len(names) - NAMED)} more"] if len(names) > NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def by_points(change: float) -> str:
    """A change of accuracy without its sign."""
    tenths = f"{abs(100 * change):.1f}"
    return "1.0 point" if tenths == "1.0" else f"{tenths} points"


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text in one line of so many characters; the end of what is longer, since questions stand there."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"… {line[-longest:]}"


_UNSEEN: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""A text whose control characters and marks of writing direction can be seen; line breaks and tabs stay.

    >>> visible("a\x00b\u202ec\r\nd")
    'a⟨U+0000⟩b⟨U+202E⟩c\nd'
    """
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))

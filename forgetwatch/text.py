"""Numbers and names as text.

    count, percent, points, nats, bits, between, probability    numbers in tables; an undefined one is "n/a"
    items, passages, questions, listed, change_points           numbers and names in sentences
    fit, fit_ends, one_line, shorten                            text of other people: cut to a width, in one line

Widths are columns of a terminal: a Chinese character or an emoji takes two, a combining accent
none.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.cells import cell_len, set_cell_size

from forgetwatch.metrics.intervals import Interval
from forgetwatch.visible_text import visible


def count(value: float, *, commas: bool = True) -> str:
    """Format a count, with one decimal for a mean over samples."""
    if math.isnan(value):
        return "n/a"
    rounded = round(value)
    # Means over samples carry rounding errors: 2.9999999996 is a count of 3.
    if abs(value - rounded) > 1e-9:
        return f"{value:,.1f}" if commas else f"{value:.1f}"
    return f"{rounded:,}" if commas else str(rounded)


def brief(value: float, width: int) -> str:
    """Format a count in at most `width` columns.

    >>> brief(12345, 6), brief(123456, 6), brief(12345678, 6)
    ('12,345', '123456', '12.3M')
    """
    texts = (
        count(value),
        count(value, commas=False),
        str(round(value)) if math.isfinite(value) else "n/a",
    )
    return next((text for text in texts if len(text) <= width), f"{value / 1e6:.1f}M")


def percent(rate: float) -> str:
    """Format a share in percent, without the percent sign."""
    return "n/a" if math.isnan(rate) else f"{round(100 * rate, 1) + 0.0:.1f}"  # never -0.0


def points(rate: float) -> str:
    """Format a difference of shares in points, with its sign."""
    return "n/a" if math.isnan(rate) else f"{100 * rate:+.1f}"


def nats(*values: float) -> list[str]:
    """Format changes in nats with two decimals, or with three.

    Three decimals are used if a change would be shown as 0.00.

    >>> nats(-0.042, -0.07, -0.014), nats(-0.012, -0.021, -0.003)
    (['-0.04', '-0.07', '-0.01'], ['-0.012', '-0.021', '-0.003'])
    """
    return _signed(values, 2)


def bits(*values: float) -> list[str]:
    """Format changes of bits per byte with three or four decimals.

    Four decimals are used if a change would be shown as 0.000.

    >>> bits(0.0463, 0.0312, 0.0614), bits(-0.0021, -0.0044, 0.0002)
    (['+0.046', '+0.031', '+0.061'], ['-0.0021', '-0.0044', '+0.0002'])
    """
    return _signed(values, 3)


def _signed(values: Sequence[float], digits: int) -> list[str]:
    """Add a decimal where a value that is not 0 would be shown as 0."""
    digits += any(0 < abs(value) < 0.5 * 10**-digits for value in values)
    return [
        "n/a" if math.isnan(value) else f"{round(value, digits) + 0.0:+.{digits}f}"
        for value in values
    ]


def between(interval: Interval, show: Callable[[float], str]) -> str:
    """Format an interval, such as ``13.9 to 21.8``; n/a if undefined."""
    return "n/a" if math.isnan(interval[0]) else f"{show(interval[0])} to {show(interval[1])}"


def probability(p: float) -> str:
    """Format a p-value with three decimals."""
    if math.isnan(p):
        return "n/a"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def fit(name: str, width: int) -> str:
    """Fit a name into exactly `width` columns, cut at its end.

    >>> fit("Mathematics", 6), fit("数学和物理", 6)
    ('Mathe…', '数学… ')
    """
    line = one_line(name)
    if cell_len(line) > width:
        line = set_cell_size(line, width - 1).rstrip(" ") + "…"
    # A wide character that does not fit at the cut leaves one column to fill.
    return set_cell_size(line, width)


def fit_ends(name: str, width: int) -> str:
    """Fit a name into exactly `width` columns, cut in its middle.

    The names of a sweep differ at their ends.

    >>> fit_ends("sft-qwen-lr-1e-5", 11)
    'sft-q…-1e-5'
    """
    line = one_line(name)
    if cell_len(line) <= width:
        return set_cell_size(line, width)
    tail = next(line[at:] for at in range(len(line) + 1) if cell_len(line[at:]) <= (width - 1) // 2)
    return set_cell_size(
        set_cell_size(line, width - 1 - cell_len(tail)).rstrip(" ") + "…" + tail, width
    )


_NAME: Final = 24
"""Columns of a name in a sentence."""


def short_name(name: str) -> str:
    """Cut a long name in its middle."""
    return fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()


def one_line(text: str) -> str:
    """Join lines, and make control characters visible."""
    return visible(" ".join(text.split()))


def run_name(folder: Path) -> str:
    """Name of a run: the folder that holds its run folder.

    >>> run_name(Path("/home/me/out/_forgetwatch")), run_name(Path("/home/me/out"))
    ('out', 'out')
    """
    folder = folder.resolve()
    return (
        folder.parent
        if folder.name in ("_forgetwatch", "forgetwatch", "_forgetwatch_follow")
        else folder
    ).name


_NAMED: Final = 4
"""Maximum number of names that a sentence lists."""


def items(number: float) -> str:
    """Phrase for a number of items.

    >>> items(1), items(1200), passages(60), questions(0)
    ('1 item', '1,200 items', '60 passages', 'No question')
    """
    return f"{count(number)} item{'' if number == 1 else 's'}"


def passages(number: float) -> str:
    """Phrase for a number of passages."""
    return f"{count(number)} passage{'' if number == 1 else 's'}"


def questions(number: float) -> str:
    """Phrase for a number of questions, at a sentence's beginning."""
    return f"{count(number)} question{'' if number == 1 else 's'}" if number else "No question"


def is_or_are(number: float) -> str:
    """Verb that fits a number."""
    return "is" if number in (0, 1) else "are"


def listed(names: Sequence[str]) -> str:
    """Phrase for a list of names: the first, and the rest counted."""
    names_in_words = [
        *names[:_NAMED],
        *([f"{count(len(names) - _NAMED)} more"] if len(names) > _NAMED else []),
    ]
    return (
        names_in_words[0]
        if len(names_in_words) == 1
        else f"{', '.join(names_in_words[:-1])} and {names_in_words[-1]}"
    )


def change_points(change: float, interval: Interval) -> str:
    """Phrase for a change of accuracy, with its interval.

    >>> change_points(-0.011, (-0.042, 0.02))
    '-1.1 points (-4.2 to +2.0)'
    """
    return f"{points(change)} points ({between(interval, points)})"


def shorten(text: str, longest: int = 160) -> str:
    """Keep the last `longest` characters: the question ends a prompt."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"… {line[-longest:]}"

"""A figure as markup inside a page: it takes the page's colours, and says in words what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from forgetwatch.report.plots import LOST, WON, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS: Final = {LOST["color"]: "var(--lost)", WON["color"]: "var(--won)", "#1f3b73": "var(--accent)"}


CURVES: Final = "Curves: accuracy, forgotten and gained answers at each look; the table of looks has the same numbers."
"""What the picture of a run shows, for those who do not see it."""


def svg(draw: Callable[[], Figure | None], *, name: str, label: str) -> Markup | None:
    """A figure as an SVG element; None where nothing is drawn.

    Args:
        draw: Makes the figure.
        name: Tells its element ids from those of the page's other figures.
        label: What it shows, for those who do not see it.
    """
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), drawn():
        figure = draw()
        if figure is None:
            return None
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Markup(_of_the_page(buffer.getvalue(), label))


def _of_the_page(text: str, label: str) -> str:
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    # Names such as "axes_1" repeat from figure to figure; only what is referred to needs one.
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    for color, variable in _COLORS.items():
        text = text.replace(color, variable)
    text = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)

"""A figure as markup that stands inside a page and takes the page's colours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from forgetwatch.report.plots import LOST, WON, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS: Final = {LOST["color"]: "var(--lost)", WON["color"]: "var(--won)", "#1f3b73": "var(--accent)"}


def inline_svg(figure: Figure | None) -> Markup | None:
    """A figure as markup; its colours are the variables --lost, --won and --accent, and the text's own."""
    if figure is None:
        return None
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "forgetwatch"}), drawn():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for color, variable in _COLORS.items():
        text = text.replace(color, variable)
    text = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", text)
    return Markup(text)

"""Shorter looks for trainings of tests: a look of a tiny model takes less time than its drift, or than a picture."""

from typing import Any

from markupsafe import Markup

FEW_PROMPTS = 12


def no_picture(draw: Any, *, name: str, label: str) -> Markup:
    """In place of the function that draws a picture of a page."""
    return Markup("<svg></svg>")


def shorten() -> None:
    """Measure the drift on few prompts, and draw no pictures, in the rest of this process."""
    from forgetwatch.report import html
    from forgetwatch.run import drift

    drift.PROMPTS = FEW_PROMPTS  # type: ignore[misc]
    html.svg = no_picture  # type: ignore[assignment]

"""One item whose answer changed, for a terminal and for programs."""

from __future__ import annotations

import math
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.flips import Flip, Side
from forgetwatch.report.visible import visible
from forgetwatch.report.words import shorten

_STYLES: Final = {"forgotten": "bold red", "gained": "bold green", "churned": "bold yellow"}
_OUTPUT: Final = 400
_QUESTION: Final = 600


def flip_lines(flip: Flip) -> Lines:
    """One item as lines for a console: the question, the right answer, and the two answers."""
    head = Text(flip.what + (", clearly known" if flip.known else ""), style=_STYLES[flip.what])
    where = [part for part in (flip.category, " / ".join(filter(None, (flip.task, flip.item_id)))) if part]
    head.append(f"  {visible(', '.join(where))}", style="not bold dim")
    lines = [head] if flip.question is None else [head, Text(f"  {visible(shorten(flip.question, _QUESTION))}")]
    rows = [("right", flip.right), ("before", _said(flip, flip.before)), ("after", _said(flip, flip.after))]
    rows += [
        (name, shorten(side.output, _OUTPUT))
        for name, side in (("wrote", flip.before), ("writes", flip.after))
        if side.output is not None and side.chosen is not None
    ]
    rows += [] if flip.first is None else [("lost", f"first at step {flip.first}")]
    lines += [Text(f"  {name:<7}").append(visible(text or "not known"), "" if text else "dim") for name, text in rows]
    return Lines(*lines, Text())


def _said(flip: Flip, side: Side) -> str | None:
    answer = flip.answer(side)
    if answer is None:
        return None
    margin = f"  (by {side.margin:.2f} nats)" if side.margin is not None else ""
    return f"{shorten(answer, _OUTPUT)}{margin}"


def flip_json(flip: Flip) -> dict[str, Any]:
    """One item as JSON values; what is not known is null."""
    return {
        "what": flip.what,
        "known": flip.known,
        "item_id": flip.item_id,
        "task": flip.task,
        "category": flip.category,
        "sample": flip.sample,
        "k": flip.k,
        "gold": list(flip.gold),
        "question": flip.question,
        "right": flip.right,
        "before": _side_json(flip, flip.before),
        "after": _side_json(flip, flip.after),
        "margin": flip.margin if math.isfinite(flip.margin) else None,
        "first_forgotten": flip.first,
    }


def _side_json(flip: Flip, side: Side) -> dict[str, Any]:
    return {
        "chosen": side.chosen,
        "answer": flip.answer(side),
        "margin": side.margin,
        "output": side.output,
        "outcome": side.outcome,
    }

"""Items whose answer changed: a list in a page, lines in a terminal, documents for programs.

    flip_list       JSON that the page's script shows as text; of each kind those of the largest margin, texts cut
    lost_examples   a few lost questions with both answers, for the first screen
    flip_lines      one item for a terminal
    flip_json       one item in full

A list takes at most `MOST` items and `ROOM` bytes of each kind, so that a page has a few megabytes
at most, and states how many it leaves out.
"""

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.flips import Flip, Side, sort_flips
from forgetwatch.text import count, nats, shorten
from forgetwatch.visible_text import visible

MOST: Final = 500
"""Items in the page, of all kinds together."""
ROOM: Final = 600_000
"""Bytes of JSON of each kind."""
_KEPT: Final = {"forgotten": 350, "gained": 100, "churned": 50}
"""Items of each kind that the others leave room for."""
LONGEST: Final = 1024
"""Characters of an output in the page."""

EXAMPLES: Final = 3
"""Lost questions on the first screen."""

_MATCHES: Final = 5_000
"""Pairs of equal words up to which two outputs are compared word by word."""
_QUESTION: Final = 4096
_OPTION: Final = 1024
_OPTIONS: Final = 64
_ANSWER: Final = 200
_NAME: Final = 200


@dataclass(frozen=True, kw_only=True)
class FlipList:
    """List of a page: JSON of the items, in which nothing ends a script element, and sentences on what is left out."""

    data: str
    left_out: str
    empty: bool


def flip_list(changed: Sequence[Flip]) -> FlipList:
    """List the items of a page whose answer changed."""
    forgotten = [flip for flip in changed if flip.what == "forgotten"]
    known_lost, form = (
        sum(flip.known for flip in forgotten),
        sum(flip.loss == "form" for flip in forgotten),
    )
    everywhere = sum(flip.again == "lost in every wording" for flip in forgotten)
    kinds_lost = {"everywhere": everywhere, "known_lost": known_lost, "form_lost": form}
    counts = {name: number for name, number in kinds_lost.items() if number}
    rows: list[str] = []
    shares = []
    # The page can restore the order of the probe, which the order of this list is not.
    position = {id(flip): index for index, flip in enumerate(changed)}
    kinds = {flip_kind: [flip for flip in changed if flip.what == flip_kind] for flip_kind in _KEPT}
    for flip_kind, of_kind in kinds.items():
        taken_by_rest = sum(
            min(len(kinds[rest_kind]), limit_of_rest)
            for rest_kind, limit_of_rest in _KEPT.items()
            if rest_kind != flip_kind
        )
        taken = _taken(of_kind, position, max(MOST - taken_by_rest, _KEPT[flip_kind]))
        counts[flip_kind] = len(of_kind)
        rows += taken
        if len(of_kind) > len(taken):
            shares.append(f"{count(len(taken))} of the {count(len(of_kind))} {_WORDS[flip_kind]}")
    data = _within_script(f'{{"counts":{json.dumps(counts)},"flips":[{",".join(rows)}]}}')
    return FlipList(data=data, left_out=_left_out(changed, shares), empty=not changed)


def script_json(value: Any) -> str:
    """Value as JSON that a script element can hold."""
    return _within_script(json.dumps(value, separators=(",", ":"), allow_nan=False))


def _within_script(text: str) -> str:
    for letter in "<>&\u2028\u2029":  # could end a script element or a line of JavaScript
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


_WORDS: Final = {
    "forgotten": "forgotten",
    "gained": "gained",
    "churned": "wrong both times with another answer",
}


def _taken(flips: Sequence[Flip], position: dict[int, int], limit: int) -> list[str]:
    # Those of the largest margin first.
    rows, room = [], ROOM
    for flip in sort_flips(flips)[:limit]:
        row = json.dumps(_flip(flip, position[id(flip)]), ensure_ascii=False, separators=(",", ":"))
        room -= len(row.encode("utf-8"))
        # Not skipped: the list is to have no gap in its order by margin.
        if room < 0:
            break
        rows.append(row)
    return rows


def _left_out(changed: Sequence[Flip], shares: Sequence[str]) -> str:
    parts = []
    if shares:
        first = (
            "Those of the largest margin"
            if any(math.isfinite(flip.margin) for flip in changed)
            else "The first"
        )
        parts.append(
            f"{first} are listed: {', '.join(shares)}. The numbers below count all of them."
        )
    if changed and all(flip.item is None for flip in changed):
        parts.append(
            "The text of the questions is not in these files; run the command again with "
            "--probe to see it."
        )
    if any(
        len(side.output or "") > LONGEST for flip in changed for side in (flip.before, flip.after)
    ):
        parts.append(f"Outputs are cut at {LONGEST:,} characters.")
    return " ".join(parts)


def _flip(flip: Flip, position: int) -> dict[str, Any]:
    # Cut first: the time of the comparison grows with the length of the outputs.
    parts_before, parts_after = marked(_cut(flip.before.output), _cut(flip.after.output))
    options = flip.item.choices if flip.item else ()
    values = {
        "what": flip.what,
        "known": flip.known,
        "loss": flip.loss,
        "again": flip.again,
        "mass": None if flip.log_mass_change is None else nats(flip.log_mass_change)[0],
        "conditional": None
        if flip.log_conditional_change is None
        else nats(flip.log_conditional_change)[0],
        "id": _short(flip.item_id, _NAME),
        "task": _short(flip.task, _NAME),
        "category": _short(flip.category, _NAME),
        "sample": flip.sample,
        "question": _short(flip.question, _QUESTION),
        "options": [_short(option.strip(), _OPTION) for option in options[:_OPTIONS]],
        "gold": list(flip.gold),
        "right": _short(flip.right, _OPTION),
        "before": _side(flip, flip.before, parts_before),
        "after": _side(flip, flip.after, parts_after),
        "margin": flip.margin if math.isfinite(flip.margin) else None,
        "first": flip.first,
        "place": position,
    }
    return {
        name: value for name, value in values.items() if value not in (None, [])
    }  # the script knows these values


def _side(flip: Flip, side: Side, parts: list[tuple[bool, str]]) -> dict[str, Any]:
    length = len(side.output or "")
    values = {
        "chosen": side.chosen,
        "answer": _short(flip.answer(side), _ANSWER),
        "parts": parts,
        "cut": length if length > LONGEST else 0,
    }
    return {name: value for name, value in values.items() if value not in (None, [])}


def marked(before: str, after: str) -> tuple[list[tuple[bool, str]], list[tuple[bool, str]]]:
    """Compare two texts word by word.

    >>> marked("a b c", "a x c")
    ([(True, 'a '), (False, 'b '), (True, 'c')], [(True, 'a '), (False, 'x '), (True, 'c')])

    Returns:
        (is common, text) of each piece, before and after.
    """
    if not before or not after:
        return [(True, before)] if before else [], [(True, after)] if after else []
    words_before, words_after = (
        re.findall(r"\w+\s*|[^\w\s]\s*|\s+", text) for text in (before, after)
    )
    sides: tuple[list[tuple[bool, str]], list[tuple[bool, str]]] = ([], [])
    for same, a, b, c, d in _pieces(words_before, words_after):
        for side, words in zip(sides, (words_before[a:b], words_after[c:d]), strict=True):
            if words:
                side.append((same, "".join(words)))
    return sides


def _pieces(words: list[str], other_words: list[str]) -> list[tuple[bool, int, int, int, int]]:
    # (is equal, start, end, other start, other end), as in `difflib`. The matcher takes time in the
    # number of pairs of equal words: ten seconds for a model that repeats one word for ever. Beyond
    # `_MATCHES` pairs only the common beginning and end are found.
    counts = Counter(other_words)
    if sum(number * counts[word] for word, number in Counter(words).items()) <= _MATCHES:
        # autojunk would ignore every word that is frequent in a long output.
        opcodes = difflib.SequenceMatcher(None, words, other_words, autojunk=False).get_opcodes()
        return [(operation == "equal", a, b, c, d) for operation, a, b, c, d in opcodes]
    start = _common(words, other_words)
    # The common end must not reach back into the common beginning.
    end = min(_common(words[::-1], other_words[::-1]), len(words) - start, len(other_words) - start)
    middle = (False, start, len(words) - end, start, len(other_words) - end)
    return [
        (True, 0, start, 0, start),
        middle,
        (True, len(words) - end, len(words), len(other_words) - end, len(other_words)),
    ]


def _common(words: list[str], other_words: list[str]) -> int:
    differing = (
        index
        for index, pair in enumerate(zip(words, other_words, strict=False))
        if pair[0] != pair[1]
    )
    return next(differing, min(len(words), len(other_words)))


def _cut(output: str | None) -> str:
    return visible((output or "")[:LONGEST])


def _short(text: str | None, longest: int) -> str | None:
    if text is None or len(text) <= longest:
        return text and visible(text)
    return f"{visible(text[:longest])} … cut here; {len(text):,} characters in all"


_STYLES: Final = {"forgotten": "bold red", "gained": "bold green", "churned": "bold yellow"}
_OUTPUT: Final = 400
_QUESTION_SHOWN: Final = 600


def flip_lines(flip: Flip) -> Lines:
    """Item for a console: question, right answer, both answers."""
    head = Text(flip.what + (", clearly known" if flip.known else ""), style=_STYLES[flip.what])
    where = [
        label
        for label in (flip.category, " / ".join(filter(None, (flip.task, flip.item_id))))
        if label
    ]
    head.append(f"  {visible(', '.join(where))}", style="not bold dim")
    lines = (
        [head]
        if flip.question is None
        else [head, Text(f"  {visible(shorten(flip.question, _QUESTION_SHOWN))}")]
    )
    rows = [
        ("right", flip.right),
        ("before", _said(flip, flip.before)),
        ("after", _said(flip, flip.after)),
    ]
    for name, side in (("output before", flip.before), ("output after", flip.after)):
        if side.output is not None and side.chosen is not None:
            rows.append((name, shorten(side.output, _OUTPUT)))
    if why := _why(flip):
        rows.append(("loss", why))
    rows += [] if flip.again is None else [("asked again", flip.again)]
    rows += [] if flip.first is None else [("lost", f"first at step {flip.first}")]
    width = max(len(name) for name, _ in rows)
    lines += [
        Text(f"  {name:<{width}} ").append(visible(cell or "not known"), "" if cell else "dim")
        for name, cell in rows
    ]
    return Lines(*lines, Text())


def _why(flip: Flip) -> str:
    # Only a forgotten answer has a reason.
    if flip.what != "forgotten":
        return ""
    parts = [] if flip.loss is None else [f"of {flip.loss}"]
    if flip.log_mass_change is not None and flip.log_conditional_change is not None:
        mass, conditional = nats(flip.log_mass_change)[0], nats(flip.log_conditional_change)[0]
        parts.append(f"all options {mass} nats, the right one among them {conditional}")
    return "; ".join(parts)


def _said(flip: Flip, side: Side) -> str | None:
    answer = flip.answer(side)
    if answer is None:
        return None
    margin = f"  (by {side.margin:.2f} nats)" if side.margin is not None else ""
    return f"{shorten(answer, _OUTPUT)}{margin}"


class Lost(NamedTuple):
    """A lost question with both answers, as text."""

    question: str
    before: str
    after: str


def lost_examples(changed: Sequence[Flip], worst: str) -> tuple[str, tuple[Lost, ...]]:
    """Lost questions as examples, and their category.

    The clearly known first, of different tasks if possible. If no question of the category `worst`
    was lost, the category is empty and the questions are of all.
    """
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten" and _has_answers(flip)]
    of_worst = [flip for flip in lost if worst and flip.category == worst]
    lost = sorted(of_worst or lost, key=lambda flip: not flip.known)  # stable: each part by margin
    chosen: list[Flip] = []
    # The second pass fills up with further losses of the same task.
    for flip in (*lost, *lost):
        if len(chosen) < EXAMPLES and flip not in chosen:
            if flip.task in {flip_chosen.task for flip_chosen in chosen} and len(
                {flip_lost.task for flip_lost in lost}
            ) > len(chosen):
                continue
            chosen.append(flip)
    quoted = []
    for flip in chosen:
        question = (
            f"{flip.task} / {flip.item_id}"
            if flip.question is None
            else f"“{shorten(flip.question)}”"
        )
        quoted.append(Lost(question, *(_quoted(flip, side) for side in (flip.before, flip.after))))
    return worst if of_worst else "", tuple(quoted)


def _quoted(flip: Flip, side: Side) -> str:
    if not (answer_text := flip.answer(side)):
        return "nothing"
    return (
        shorten(answer_text)
        if side.chosen is None and side.output is None
        else f"“{shorten(answer_text)}”"
    )


def _has_answers(flip: Flip) -> bool:
    return flip.answer(flip.before) is not None or flip.answer(flip.after) is not None


def flip_json(flip: Flip) -> dict[str, Any]:
    """Item as JSON values; an unknown value is null."""
    return {
        "what": flip.what,
        "known": flip.known,
        "known_lost_by_luck": flip.by_luck,
        "loss": flip.loss,
        "again": flip.again,
        "wording": flip.wording,
        "log_mass_change": flip.log_mass_change,
        "log_conditional_change": flip.log_conditional_change,
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

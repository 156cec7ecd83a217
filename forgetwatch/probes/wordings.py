r"""The same question in other words: another frame around it, with its worked examples in that frame.

    shipped    Question: What is a whisk made for?\nAnswer:          as the probe has it
    short      Q: What is a whisk made for?\nA:
    right      What is a whisk made for?\nThe right answer is:
    bare       Question: What is a whisk made for?\nAnswer:          without worked examples

Question, options and key stay; only what stands around the question changes. A prompt that is no question with a label
behind it, such as a sentence that the options continue, gets a beginning instead. A loss in one wording alone is a
loss of form; what was known is lost in all of them.

Prompts of text whose options are scored as continuations have wordings. Chat messages, listed letters, generated
answers and passages have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.probe import Probe

PLACE: Final = "{question}"

_FRAMED: Final = re.compile(r"(?:[^\n:]{1,30}:[ ]*)?(?P<question>.+?)\n[^\n:]{1,30}:", re.DOTALL)
"""A question, perhaps behind a label, and the label of the answer on a line of its own."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A way to ask a question.

    Attributes:
        name: Its name.
        frame: The text around the question, with `PLACE` for it; None keeps that of the probe.
        beginning: Stands before a prompt that is no question with a label behind it; with a space after it.
        shots: True to keep the worked examples, in the same frame.

    Raises:
        ProbeError: If the frame has no place for the question, or its end would become a part of an option.
    """

    name: str
    frame: str | None = None
    beginning: str = ""
    shots: bool = True

    def __post_init__(self) -> None:
        """Check the frame."""
        if self.frame is None:
            return
        if self.frame.count(PLACE) != 1:
            raise ProbeError(f"wording {self.name!r}: needed {PLACE} once in its frame, got {self.frame!r:.80}")
        if self.frame != self.frame.rstrip():
            raise ProbeError(
                f"wording {self.name!r}: its frame ends in a space, which would change the tokens of the options; "
                "options begin with the space themselves"
            )


WORDINGS: Final = (
    Wording(name="short", frame="Q: {question}\nA:", beginning="Complete:"),
    Wording(name="right", frame="{question}\nThe right answer is:", beginning="Here is a sentence."),
    Wording(name="bare", shots=False, beginning="It says:"),
)
"""The wordings that are shipped, beside that of the probe."""

OTHERS: Final = ("short", "right")
"""Names of the wordings in which lost answers are asked again by default."""


def wordings_of(names: Sequence[str]) -> list[Wording]:
    """Return shipped wordings by their names.

    Raises:
        ProbeError: If a name is unknown, given twice, or none is given.
    """
    known = {one.name: one for one in WORDINGS}
    if unknown := [name for name in names if name not in known]:
        raise ProbeError(f"wording {unknown[0]!r}: needed some of {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise ProbeError(f"needed one or more wordings, each once, got {', '.join(names) or 'none'}")
    return [known[name] for name in names]


def reworded(item: Item, wording: Wording) -> Item | None:
    """Return an item in another wording; None if it has none, or the wording would ask it as before."""
    if item.is_passage or not item.choices or not isinstance(item.prompt, str):
        return None
    found = _FRAMED.fullmatch(item.prompt)
    if found is None:
        prompt = f"{wording.beginning} {item.prompt}".lstrip()
    else:
        prompt = item.prompt if wording.frame is None else wording.frame.replace(PLACE, found["question"])
    shots = _reworded_shots(item.shots, wording) if wording.shots else ""
    if shots is None or (prompt, shots) == (item.prompt, item.shots):
        return None
    return replace(item, prompt=prompt, shots=shots, must_pass=False)


def _reworded_shots(shots: str, wording: Wording) -> str | None:
    """Return worked examples in the frame of a wording; None if they are not in that of a question and its answer."""
    if wording.frame is None or not shots:
        return shots
    blocks, framed = shots.rstrip("\n").split("\n\n"), []
    for block in blocks:
        found = re.fullmatch(_FRAMED.pattern + r"(?P<answer> .+)", block, re.DOTALL)
        if found is None:
            return None
        framed.append(wording.frame.replace(PLACE, found["question"]) + found["answer"])
    return "\n\n".join(framed) + shots[len(shots.rstrip("\n")) :]


def worded_probe(probe: Probe, items: Sequence[Item], wordings: Sequence[Wording]) -> tuple[Probe | None, list[Item]]:
    """Return the probe of items in each of some wordings, and the items that have all of them, in their order.

    The id of an item in a wording is ``ID@WORDING``. None if no item has all of them.
    """
    asked, kept = [], []
    if probe.scoring == "loglikelihood" and probe.rendering == "plain":
        for item in items:
            made = [reworded(item, wording) for wording in wordings]
            if item.rendering in (None, "plain") and all(made):
                kept.append(item)
                asked += [
                    replace(one, id=f"{item.id}@{wording.name}")
                    for one, wording in zip(made, wordings, strict=True)
                    if one is not None
                ]
    name = f"{probe.name} in {len(wordings)} other wording{'' if len(wordings) == 1 else 's'}"
    return (replace(probe, items=tuple(asked), name=name, decoding=None) if asked else None), kept

r"""A wording: another frame around a question, with its worked examples in that frame.

    shipped    Question: What is a whisk made for?\nAnswer:          as the probe has it
    short      Q: What is a whisk made for?\nA:
    right      What is a whisk made for?\nThe right answer is:
    bare       Question: What is a whisk made for?\nAnswer:          without worked examples
    chat       What is a whisk made for?                             in the tokenizer's chat template

Question, options and key stay; only what stands around the question changes, and a text before
"Question:" stays too. A line that the options continue gets a beginning instead. All other prompts
have no wording: nothing shows where their question begins. `probes.wordings` has the wordings that
are shipped, and gives them to the items of a probe.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.files.reading import is_text

SHIPPED: Final = "shipped"
"""Name of the wording that a probe itself has. Questions that are asked in several have it too;
others have none.
"""


PLACE: Final = "{question}"


_FRAMED: Final = re.compile(
    r"(?P<context>(?:.*\n)?)(?:(?:Question|Q):[ ]*)(?P<question>.+?)\n(?:Answer|A):"
    r"|(?P<bare>.+?)\n(?:Answer|A):",
    re.DOTALL,
)
"""A question behind its label, perhaps after a text that it is about, or without one; and the label
of the answer.
"""


_ANSWERED: Final = re.compile(
    r"(?:(?:Question|Q):[ ]*)?(?P<question>.+?)\n(?:Answer|A):(?P<answer> .+)", re.DOTALL
)


_TO_CONTINUE: Final = re.compile(r"[^\n]*[\w,'’-]")
"""A line that does not end as a sentence does: the options continue it."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A way to ask a question.

    Attributes:
        name: Its name.
        frame: The text around the question, with `PLACE` for it; None keeps that of the probe.
        beginning: Stands before a line that the options continue; with a space after it.
        shots: True to keep the worked examples, in the same frame.
        rendering: ``chat`` asks in the tokenizer's chat template; None as the probe does.

    Raises:
        ProbeError: If the frame has no place for the question, or its end would become a part of an
            option.
    """

    name: str
    frame: str | None = None
    beginning: str = ""
    shots: bool = True
    rendering: Literal["chat"] | None = None

    def __post_init__(self) -> None:
        is_own = (self.frame, self.beginning, self.shots, self.rendering) == (None, "", True, None)
        if not is_text(self.name) or not self.name or (self.name == SHIPPED and not is_own):
            raise ProbeError(
                f"a wording needs a name other than {SHIPPED!r}, got {self.name!r:.80}"
            )
        wrong = [
            (name, expected)
            for name, fits, expected in (
                ("frame", self.frame is None or is_text(self.frame), "text"),
                ("beginning", is_text(self.beginning), "text"),
                ("shots", isinstance(self.shots, bool), "true or false"),
                ("rendering", self.rendering in (None, "chat"), "chat, or left out"),
            )
            if not fits
        ]
        if wrong:
            name, expected = wrong[0]
            raise ProbeError(
                f"wording {self.name!r}: {name} must be {expected}, got {getattr(self, name)!r:.80}"
            )
        if self.frame is None:
            return
        if self.frame.count(PLACE) != 1:
            raise ProbeError(
                f"wording {self.name!r}: needed {PLACE} once in its frame, got {self.frame!r:.80}"
            )
        if self.frame != self.frame.rstrip():
            raise ProbeError(
                f"wording {self.name!r}: its frame ends in a space, which would change the "
                "tokens of the options; options begin with the space themselves"
            )

    def asks(self, prompt: str, shots: str = "") -> tuple[str, str] | None:
        """Put a prompt and its worked examples in this wording.

        Returns:
            Prompt and examples, or None if the wording is missing or changes nothing.
        """
        if self.name == SHIPPED:
            return prompt, shots
        framed = _FRAMED.fullmatch(prompt)
        if framed is None:
            if _TO_CONTINUE.fullmatch(prompt) is None:
                return None
            reworded = f"{self.beginning} {prompt}" if self.beginning else prompt
        elif self.frame is None:
            reworded = prompt
        else:
            reworded = (framed["context"] or "") + self.frame.replace(
                PLACE, framed["question"] or framed["bare"]
            )
        examples = self._examples(shots) if self.shots else ""
        if examples is None or ((reworded, examples) == (prompt, shots) and self.rendering is None):
            return None
        return reworded, examples

    def _examples(self, shots: str) -> str | None:
        if self.frame is None or not shots:
            return shots
        blocks, framed = shots.rstrip("\n").split("\n\n"), []
        for block in blocks:
            answered = _ANSWERED.fullmatch(block)
            if answered is None:
                return None
            framed.append(self.frame.replace(PLACE, answered["question"]) + answered["answer"])
        return "\n\n".join(framed) + shots[len(shots.rstrip("\n")) :]

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything but the name."""
        return tuple(getattr(self, spec.name) for spec in fields(self) if spec.name != "name")

    def to_json(self) -> dict[str, Any]:
        """Wording as a JSON object, without fields at their default."""
        return {
            spec.name: value
            for spec in fields(self)
            if (value := getattr(self, spec.name)) != spec.default
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read a wording from a JSON object.

        Raises:
            ProbeError: If a field is missing, unknown, or wrong.
        """
        names = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(row) - names):
            near = did_you_mean(unknown[0], names)
            raise ProbeError(
                f"wording: unknown field {unknown[0]!r}{near}; a wording has "
                f"{', '.join(sorted(names))}"
            )
        if "name" not in row:
            raise ProbeError("a wording needs a name")
        return cls(**row)

r"""One question, or one passage, with a stable id, and the hash of its content.

    question    prompt, choices or an open answer, and which answer is right
    passage     choices=(text,), an empty prompt and no answer: its log-likelihood is measured, nothing is right

The content hash covers prompt, choices, answers and everything else that the model sees, and neither the id nor the
position in a file: two logs hold the same question if and only if their hashes are equal.

**Wording.** A wording: another frame around a question, with its worked examples in that frame.

    shipped    Question: What is a whisk made for?\nAnswer:          as the probe has it
    short      Q: What is a whisk made for?\nA:
    right      What is a whisk made for?\nThe right answer is:
    bare       Question: What is a whisk made for?\nAnswer:          without worked examples
    chat       What is a whisk made for?                             in the tokenizer's chat template

Question, options and key stay; only what stands around the question changes, and a text before "Question:" stays too. A
line that the options continue gets a beginning instead. All other prompts have no wording: nothing shows where their
question begins. `probes.wordings` has the wordings that are shipped, and gives them to the items of a probe.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal, Self, get_args

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.files.reading import holds_text, is_text

PLACE: Final = "{question}"

SHIPPED: Final = "shipped"
"""Name of the wording that a probe itself has. Questions that are asked in several have it too; others have none."""

_FRAMED: Final = re.compile(
    r"(?P<context>(?:.*\n)?)(?:(?:Question|Q):[ ]*)(?P<question>.+?)\n(?:Answer|A):"
    r"|(?P<bare>.+?)\n(?:Answer|A):",
    re.DOTALL,
)
"""A question behind its label, perhaps after a text that it is about, or without one; and the label of the answer."""

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
        ProbeError: If the frame has no place for the question, or its end would become a part of an option.
    """

    name: str
    frame: str | None = None
    beginning: str = ""
    shots: bool = True
    rendering: Literal["chat"] | None = None

    def __post_init__(self) -> None:
        """Check the name, the frame and the types."""
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
                f"wording {self.name!r}: its frame ends in a space, which would change the tokens of the options; "
                "options begin with the space themselves"
            )

    def asks(self, prompt: str, shots: str = "") -> tuple[str, str] | None:
        """Return a prompt and its worked examples in this wording; None if it has none, or would change nothing."""
        if self.name == SHIPPED:
            return prompt, shots
        found = _FRAMED.fullmatch(prompt)
        if found is None:
            if _TO_CONTINUE.fullmatch(prompt) is None:
                return None
            asked = f"{self.beginning} {prompt}" if self.beginning else prompt
        elif self.frame is None:
            asked = prompt
        else:
            asked = (found["context"] or "") + self.frame.replace(
                PLACE, found["question"] or found["bare"]
            )
        shown = self._examples(shots) if self.shots else ""
        if shown is None or ((asked, shown) == (prompt, shots) and self.rendering is None):
            return None
        return asked, shown

    def _examples(self, shots: str) -> str | None:
        """Return worked examples in the frame; None if they are not in that of a question and its answer."""
        if self.frame is None or not shots:
            return shots
        blocks, framed = shots.rstrip("\n").split("\n\n"), []
        for block in blocks:
            found = _ANSWERED.fullmatch(block)
            if found is None:
                return None
            framed.append(self.frame.replace(PLACE, found["question"]) + found["answer"])
        return "\n\n".join(framed) + shots[len(shots.rstrip("\n")) :]

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything but the name: wordings of equal content ask alike."""
        return tuple(getattr(self, spec.name) for spec in fields(self) if spec.name != "name")

    def to_json(self) -> dict[str, Any]:
        """Return the wording as a JSON object; fields that hold their default are left out."""
        return {
            spec.name: value
            for spec in fields(self)
            if (value := getattr(self, spec.name)) != spec.default
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the wording that a JSON object describes.

        Raises:
            ProbeError: If a field is missing, unknown, or wrong.
        """
        known = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(given) - known):
            near = did_you_mean(unknown[0], known)
            raise ProbeError(
                f"wording: unknown field {unknown[0]!r}{near}; a wording has {', '.join(sorted(known))}"
            )
        if "name" not in given:
            raise ProbeError("a wording needs a name")
        return cls(**given)


Message = Mapping[str, Any]

_LABEL: Final = re.compile(r"[^\n:]{1,30}:")
"""Label that a question begins with, up to its colon."""

_SHOWN: Final = 200
"""Maximum number of characters of a wrong value that an error shows."""

Rendering = Literal["plain", "chat"]

PRIVATE: Final = "private"
"""A tag: the item's text must not be published, and is left out of reports and trackers."""

TRAITS: Final = ("stops", "loops", "refuses", "language", "length", "case")
"""Matches that describe the output itself instead of its answer."""

MATCHES: Final = (
    *("exact", "exact:fold", "contains", "number", "letter", "regex"),
    *(
        "json",
        "json:only",
        "json:keys",
        "json:keys:only",
        "tool_call",
        "boxed",
        "math",
        "instructions",
    ),
    *TRAITS,
)
"""Ways to grade a generated answer, next to ``regex:PATTERN``; the package `grading` defines each."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question with a stable id, or a passage: a text as its only choice, without prompt and answer.

    Attributes:
        id: Stable name of the item, unique within its task.
        task: The benchmark that the item belongs to.
        category: The coarser label, for reporting only.
        prompt: The text before the answer, or chat messages (``{"role": ..., "content": ...}``).
        choices: The options, exactly as they are appended to the prompt (a leading space included); empty for an
            open answer; of a passage its text alone.
        answer: Index of the right choice, or several indices where several are right; the text or texts of an open
            answer; None for a passage.
        match: Rule by which a generated answer is graded: one of `MATCHES`, or ``regex:PATTERN``; None for choices,
            which are graded by their letters.
        cluster: Items with the same cluster share a passage or a template and flip together.
        tags: Free labels; `PRIVATE` keeps the item's text out of reports.
        must_pass: An item that a release may never lose.
        judge: Function of the model's output and the item that returns True, False, or None if it cannot decide.
            It replaces `match`, in Python only: a file keeps its name.
        system: System message for the chat rendering.
        tools: Tool descriptions for the chat rendering.
        rendering: ``plain`` or ``chat``, if it differs from the rest of its probe.
        shots: Worked examples that the model reads before a prompt of text, with the space between them. They are part
            of the question, and reports leave them out. Where the prompt is plain and begins with a label such as
            ``Question:``, a generated answer ends before the next such label after an empty line.
        wording: The wording in which a question with options is asked; `prompt` and `shots`, and with them the content
            hash, stay those of the item. None asks it as it is written.
        meta: Anything else; read by a match of lm-evaluation-harness alone, which finds its document there.

    Raises:
        ProbeError: If a field has the wrong type, an answer index is outside the choices, the match is unknown, or an
            item without an answer is no passage.
    """

    id: str
    task: str
    prompt: str | Sequence[Message]
    answer: int | str | Sequence[int] | Sequence[str] | None = None
    choices: Sequence[str] = ()
    category: str = ""
    match: str | None = None
    cluster: str | None = None
    tags: Sequence[str] = ()
    must_pass: bool = False
    judge: Callable[[str, Item], bool | None] | None = None
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    rendering: Rendering | None = None
    shots: str = ""
    wording: Wording | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields, and turn sequences into tuples."""
        for name, (fits, expected) in _FIELDS.items():
            if not fits(getattr(self, name)):
                given = repr(getattr(self, name))
                shown = given if len(given) <= _SHOWN else f"{given[:_SHOWN]}..."
                raise ProbeError(
                    f"item {str(self.id)[:_SHOWN]!r}: {name} must be {expected}, got {shown}"
                )
        for name in ("choices", "tags", "prompt", "answer", "tools"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        problem = self._passage_problem() if self.is_passage else self._question_problem()
        if problem:
            raise ProbeError(f"item {self.id!r}: {problem}")

    def _passage_problem(self) -> str:
        """Return the reason why an item without an answer is no passage; empty if it is one."""
        if len(self.choices) != 1:
            return (
                "no answer is given; only a passage has none, and it has one choice, its text: got "
                f"{len(self.choices)} choices"
            )
        if not self.choices[0].strip():
            return f"a passage needs text as its choice, got {self.choices[0]!r:.80}"
        if self.prompt:
            return (
                f"an item without an answer is a passage, and a passage has no prompt, got {self.prompt!r:.80}; "
                "give the answer, or an empty prompt"
            )
        given = [name for name in _NOT_OF_PASSAGES if getattr(self, name)]
        given += ["rendering='chat'"] if self.rendering == "chat" else []
        reason = "a passage has no right answer and is read as it is, so that {} has no meaning for it; leave it out"
        return reason.format(given[0]) if given else ""

    def _question_problem(self) -> str:  # noqa: C901
        """Return the reason why the fields of a question do not fit together; empty if they do."""
        if self.shots and not isinstance(self.prompt, str):
            return "shots is for a prompt of text; put worked examples into the messages"
        answers, k = self.answers, len(self.choices)
        if not answers:
            return "no answer is given"
        if problem := self._wording_problem():
            return problem
        if not k and not all(isinstance(answer, str) for answer in answers):
            return (
                f"choices is empty, so the answer must be text, got {self.answer!r}; give the choices, or an open "
                "answer with match"
            )
        for answer in answers if k else ():
            if isinstance(answer, bool) or not isinstance(answer, int):
                return f"answer must be an index into choices, got {answer!r}"
            if not 0 <= answer < k:
                return f"answer {answer} is outside its {k} choices; indices run from 0 to {k - 1}"
        if k and len(set(answers)) < len(answers):
            return f"answer {self.answer!r} names a choice twice"
        if self.match is None:
            return ""
        if (
            self.match not in MATCHES and not self.match.startswith(("regex:", "lm_eval:"))
        ) or self.match == "regex:":
            near = did_you_mean(self.match, MATCHES)
            return f"match must be one of {', '.join(MATCHES)} or regex:PATTERN, got {self.match!r}{near}"
        if k and self.match != "letter":
            return f"match {self.match!r} is for open answers, and this item has choices"
        until = self.meta.get("until", "")
        if self.match.startswith("lm_eval:") and not (is_text(until) or _is_list_of(str)(until)):
            return f"meta.until must be text or a list of texts, got {until!r:.80}"
        return ""

    def _wording_problem(self) -> str:
        """Return the reason why the question cannot be asked in its wording; empty if it can, or has none."""
        if self.wording is None:
            return ""
        if self.must_pass and self.wording.name != SHIPPED:
            return "an item that must pass is asked as it is written; leave its wording out"
        if not self.choices or not isinstance(self.prompt, str) or self.rendering == "chat":
            return "a wording is for a plain prompt of text with choices; leave it out"
        if self.wording.asks(self.prompt, self.shots) is None:
            return f"the wording {self.wording.name!r} does not fit its prompt and worked examples; leave it out"
        return ""

    @property
    def asked_prompt(self) -> str | Sequence[Message]:
        """The prompt in the wording of the item, without the worked examples."""
        if isinstance(self.prompt, str) and self.wording is not None:
            asked = self.wording.asks(self.prompt, self.shots)
            return self.prompt if asked is None else asked[0]
        return self.prompt

    @property
    def full_prompt(self) -> str | Sequence[Message]:
        """Everything before the answer: the worked examples and the prompt, in the wording of the item."""
        if not isinstance(self.prompt, str):
            return self.prompt
        if (
            self.wording is not None
            and (asked := self.wording.asks(self.prompt, self.shots)) is not None
        ):
            return asked[1] + asked[0]
        return self.shots + self.prompt

    @property
    def next_question(self) -> str | None:
        """Text with which a further question of the same form begins; None without a label such as ``Question:``."""
        label = _LABEL.match(self.prompt) if isinstance(self.prompt, str) else None
        return None if label is None else f"\n\n{label[0]}"

    @property
    def answers(self) -> tuple[int, ...] | tuple[str, ...]:
        """All right answers, in the order given; empty for a passage."""
        if self.answer is None:
            return ()
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @property
    def is_passage(self) -> bool:
        """True for a passage: a text whose log-likelihood is measured, without a right answer."""
        return self.answer is None

    @property
    def k(self) -> int | None:
        """Number of options; None for an open answer and for a passage."""
        return None if self.is_passage else len(self.choices) or None

    @cached_property
    def content_hash(self) -> str:
        """First 16 hex digits of SHA-256 over the question's content, without its id, position, file or wording."""
        prompt = (
            self.shots + self.prompt
            if isinstance(self.prompt, str)
            else [dict(m) for m in self.prompt]
        )
        tools = None if self.tools is None else [dict(t) for t in self.tools]
        # The order in which several right answers are listed does not change the question.
        content = [
            prompt,
            list(self.choices),
            sorted(self.answers),
            self._judged_by,
            self.system,
            tools,
        ]
        content += (
            [self.meta.get("doc")]
            if self.match is not None and self.match.startswith("lm_eval:")
            else []
        )
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def _judged_by(self) -> str | None:
        if self.judge is None:
            return self.match
        return f"judge:{getattr(self.judge, '__module__', '')}.{getattr(self.judge, '__qualname__', 'judge')}"

    def to_json(self) -> dict[str, Any]:
        """Return the item as one JSON object; fields that hold their default are left out."""
        row: dict[str, Any] = {}
        for spec in fields(self):
            value = self._judged_by if spec.name == "match" else getattr(self, spec.name)
            if spec.name == "judge":
                continue
            # An empty system message is none by default, but it is another question: the hash tells the two apart.
            default = spec.default_factory() if callable(spec.default_factory) else spec.default
            if value != default:
                value = value.to_json() if isinstance(value, Wording) else value
                row[spec.name] = list(value) if isinstance(value, tuple) else value
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the item that one JSON object describes.

        Raises:
            ProbeError: If a field is missing, unknown, or wrong.
        """
        known = {spec.name for spec in fields(cls)} - {"judge"}
        # Without an answer one choice is a passage; several are a question whose answer was forgotten.
        needed = _REQUIRED - {"answer"} if has_one_choice_alone(row) else _REQUIRED
        if missing := sorted(needed - set(row)):
            raise ProbeError(
                f"an item needs {', '.join(missing)}, got only {', '.join(sorted(row)) or 'nothing'}"
            )
        if unknown := sorted(set(row) - known):
            near = did_you_mean(unknown[0], known)
            raise ProbeError(
                f"unknown field {unknown[0]!r}{near}; an item has {', '.join(sorted(known))}"
            )
        if isinstance(row.get("wording"), Mapping):
            row = {**row, "wording": Wording.from_json(row["wording"])}
        return cls(**row)


_REQUIRED: Final = frozenset({"id", "task", "prompt", "answer"})

_NOT_OF_PASSAGES: Final = ("shots", "wording", "match", "judge", "system", "tools", "must_pass")
"""Fields that a passage cannot have."""


def has_one_choice_alone(row: Mapping[str, Any]) -> bool:
    """Return True for the JSON object of a passage: one choice and no answer."""
    choices = row.get("choices")
    return "answer" not in row and isinstance(choices, (list, tuple)) and len(choices) == 1


def _is_list_of(kind: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, (list, tuple))
        and all(isinstance(part, kind) for part in value)
        and holds_text(value)
    )


def _is_prompt(value: Any) -> bool:
    if isinstance(value, str):
        return is_text(value)
    return (
        bool(value)
        and _is_list_of(Mapping)(value)
        and all({"role", "content"} <= set(m) for m in value)
    )


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_FIELDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "id": (lambda value: is_text(value) and value != "", "text that is not empty"),
    "task": (lambda value: is_text(value) and value != "", "text that is not empty"),
    "category": (is_text, "text"),
    "prompt": (_is_prompt, "text, or chat messages with role and content"),
    "choices": (_is_list_of(str), "a list of texts"),
    "answer": (
        _or_none(
            lambda value: _is_list_of((int, str))(
                value if isinstance(value, (list, tuple)) else [value]
            )
        ),
        "an index or text, or a list of them",
    ),
    "match": (_or_none(is_text), "text"),
    "cluster": (_or_none(is_text), "text"),
    "tags": (_is_list_of(str), "a list of texts"),
    "must_pass": (lambda value: isinstance(value, bool), "true or false"),
    "judge": (_or_none(callable), "a function of the output and the item"),
    "system": (_or_none(is_text), "text"),
    "tools": (_or_none(_is_list_of(Mapping)), "a list of objects"),
    "shots": (is_text, "text"),
    "wording": (_or_none(lambda value: isinstance(value, Wording)), "a wording"),
    "rendering": (_or_none(lambda value: value in get_args(Rendering)), "plain or chat"),
    "meta": (lambda value: isinstance(value, Mapping) and holds_text(value), "an object"),
}
"""Test of each field of an item, and its description for messages."""

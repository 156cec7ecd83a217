"""One question, or one passage, with a stable id, and the hash of its content.

    question    prompt, choices or an open answer, and which answer is right
    passage     choices=(text,), an empty prompt and no answer: its log-likelihood is measured, nothing is right

The content hash covers prompt, choices, answers and everything else that the model sees, and
neither the id nor the position in a file: two logs hold the same question if and only if their
hashes are equal.
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
from forgetwatch.wording import SHIPPED, Wording

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
    "exact",
    "exact:fold",
    "contains",
    "number",
    "letter",
    "regex",
    "json",
    "json:only",
    "json:keys",
    "json:keys:only",
    "tool_call",
    "boxed",
    "math",
    "instructions",
    *TRAITS,
)
"""Ways to grade a generated answer, next to ``regex:PATTERN``; the package `grading` defines each.
"""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question with a stable id, or a passage: a text as its only choice, without prompt and answer.

    Attributes:
        id: Stable name of the item, unique within its task.
        task: The benchmark that the item belongs to.
        category: The coarser label, for reporting only.
        prompt: The text before the answer, or chat messages (``{"role": ..., "content": ...}``).
        choices: The options, exactly as they are appended to the prompt (a leading space included);
            empty for an open answer; of a passage its text alone.
        answer: Index of the right choice, or several indices where several are right; the text or
            texts of an open answer; None for a passage.
        match: Rule by which a generated answer is graded: one of `MATCHES`, or ``regex:PATTERN``;
            None for choices, which are graded by their letters.
        cluster: Items with the same cluster share a passage or a template and flip together.
        tags: Free labels; `PRIVATE` keeps the item's text out of reports.
        must_pass: An item that a release may never lose.
        judge: Function of the model's output and the item that returns True, False, a score, or None if it
            cannot decide. It replaces `match`, in Python only: a file keeps its name.
        system: System message for the chat rendering.
        tools: Tool descriptions for the chat rendering.
        rendering: ``plain`` or ``chat``, if it differs from the rest of its probe.
        shots: Worked examples that the model reads before a prompt of text, with the space between
            them. They are part of the question, and reports leave them out. Where the prompt is
            plain and begins with a label such as ``Question:``, a generated answer ends before the
            next such label after an empty line.
        wording: The wording in which a question with options is asked; `prompt` and `shots`, and
            with them the content hash, stay those of the item. None asks it as it is written.
        meta: Anything else; read by a match of lm-evaluation-harness alone, which finds its
            document there.

    Raises:
        ProbeError: If a field has the wrong type, an answer index is outside the choices, the match
            is unknown, or an item without an answer is no passage.
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
    judge: Callable[[str, Item], float | None] | None = None
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    rendering: Rendering | None = None
    shots: str = ""
    wording: Wording | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (fits, expected) in _FIELDS.items():
            if not fits(getattr(self, name)):
                value_text = repr(getattr(self, name))
                excerpt = value_text if len(value_text) <= _SHOWN else f"{value_text[:_SHOWN]}..."
                raise ProbeError(
                    f"item {str(self.id)[:_SHOWN]!r}: {name} must be {expected}, got {excerpt}"
                )
        for name in ("choices", "tags", "prompt", "answer", "tools"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        problem = self._passage_problem() if self.is_passage else self._question_problem()
        if problem:
            raise ProbeError(f"item {self.id!r}: {problem}")

    def _passage_problem(self) -> str:
        if len(self.choices) != 1:
            return (
                "no answer is given; only a passage has none, and it has one choice, its text: got "
                f"{len(self.choices)} choices"
            )
        if not self.choices[0].strip():
            return f"a passage needs text as its choice, got {self.choices[0]!r:.80}"
        if self.prompt:
            return (
                "an item without an answer is a passage, and a passage has no prompt, got "
                f"{self.prompt!r:.80}; give the answer, or an empty prompt"
            )
        excluded = [name for name in _NOT_OF_PASSAGES if getattr(self, name)]
        excluded += ["rendering='chat'"] if self.rendering == "chat" else []
        reason = "a passage has no right answer and is read as it is, so that {} has no meaning for it; leave it out"
        return reason.format(excluded[0]) if excluded else ""

    def _question_problem(self) -> str:  # noqa: C901
        if self.shots and not isinstance(self.prompt, str):
            return "shots is for a prompt of text; put worked examples into the messages"
        answers, k = self.answers, len(self.choices)
        if not answers:
            return "no answer is given"
        if problem := self._wording_problem():
            return problem
        if not k and not all(isinstance(answer, str) for answer in answers):
            return (
                f"choices is empty, so the answer must be text, got {self.answer!r}; give the "
                "choices, or an open answer with match"
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
            self.match not in MATCHES
            and not self.match.startswith(("regex:", "lm_eval:", "judge:"))
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
        """The prompt in the item's wording, without worked examples."""
        if isinstance(self.prompt, str) and self.wording is not None:
            reworded = self.wording.asks(self.prompt, self.shots)
            return self.prompt if reworded is None else reworded[0]
        return self.prompt

    @property
    def full_prompt(self) -> str | Sequence[Message]:
        """The prompt after its worked examples, in the item's wording."""
        if not isinstance(self.prompt, str):
            return self.prompt
        if (
            self.wording is not None
            and (reworded := self.wording.asks(self.prompt, self.shots)) is not None
        ):
            return reworded[1] + reworded[0]
        return self.shots + self.prompt

    @property
    def next_question(self) -> str | None:
        """Text with which a further question of this form begins.

        Returns:
            The text, or None without a label such as ``Question:``.
        """
        label = _LABEL.match(self.prompt) if isinstance(self.prompt, str) else None
        return None if label is None else f"\n\n{label[0]}"

    @property
    def answers(self) -> tuple[int, ...] | tuple[str, ...]:
        """All right answers, in the order of the file.

        Returns:
            Indices of options, or texts; empty for a passage.
        """
        if self.answer is None:
            return ()
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @property
    def right_texts(self) -> tuple[str, ...]:
        """Texts of all right answers, without surrounding spaces."""
        right = [self.choices[int(at)] for at in self.answers] if self.choices else self.answers
        return tuple(str(text).strip() for text in right)

    @property
    def is_passage(self) -> bool:
        """Is the item a passage, scored by log-likelihood alone?"""
        return self.answer is None

    @property
    def k(self) -> int | None:
        """Number of options.

        Returns:
            The number, or None for an open answer and for a passage.
        """
        return None if self.is_passage else len(self.choices) or None

    @cached_property
    def content_hash(self) -> str:
        """Hash of the question's content.

        First 16 hex digits of SHA-256; without id, position, file and wording.
        """
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
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def _judged_by(self) -> str | None:
        if self.judge is None:
            return self.match
        return f"judge:{getattr(self.judge, '__module__', '')}.{getattr(self.judge, '__qualname__', 'judge')}"

    def to_json(self) -> dict[str, Any]:
        """Item as a JSON object, without fields at their default."""
        row: dict[str, Any] = {}
        for spec in fields(self):
            value = self._judged_by if spec.name == "match" else getattr(self, spec.name)
            if spec.name == "judge":
                continue
            # An empty system message is none by default, but it is another question: the hash tells
            # the two apart.
            default = spec.default_factory() if callable(spec.default_factory) else spec.default
            if value != default:
                value = value.to_json() if isinstance(value, Wording) else value
                row[spec.name] = list(value) if isinstance(value, tuple) else value
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read an item from a JSON object.

        Raises:
            ProbeError: If a field is missing, unknown, or wrong.
        """
        names = {spec.name for spec in fields(cls)} - {"judge"}
        # Without an answer one choice is a passage; several are a question whose answer was
        # forgotten.
        needed = _REQUIRED - {"answer"} if has_one_choice_alone(row) else _REQUIRED
        if missing := sorted(needed - set(row)):
            raise ProbeError(
                f"an item needs {', '.join(missing)}, got only "
                f"{', '.join(sorted(row)) or 'nothing'}"
            )
        if unknown := sorted(set(row) - names):
            near = did_you_mean(unknown[0], names)
            raise ProbeError(
                f"unknown field {unknown[0]!r}{near}; an item has {', '.join(sorted(names))}"
            )
        if isinstance(row.get("wording"), Mapping):
            row = {**row, "wording": Wording.from_json(row["wording"])}
        return cls(**row)


_REQUIRED: Final = frozenset({"id", "task", "prompt", "answer"})


_NOT_OF_PASSAGES: Final = ("shots", "wording", "match", "judge", "system", "tools", "must_pass")
"""Fields that a passage cannot have."""


def has_one_choice_alone(row: Mapping[str, Any]) -> bool:
    """Is this JSON object a passage: one choice and no answer?"""
    choices = row.get("choices")
    return "answer" not in row and isinstance(choices, (list, tuple)) and len(choices) == 1


def _is_list_of(kind: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, (list, tuple))
        and all(isinstance(element, kind) for element in value)
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

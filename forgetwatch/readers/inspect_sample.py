"""One sample of a log of Inspect: its question, what the scorers say of it, and which option was chosen.

Message ids are new in every run, and a text may stand alone or in a list: `_plain` keeps what a model is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

WANTED: Final = frozenset(
    {
        *("id", "epoch", "input", "choices", "target", "score", "scores", "error", "completed", "invalidation"),
        "output",
    }
)
"""The fields that are read; transcripts are stepped over."""

_SHORTENED: Final = "...\n(content truncated)"
_MEDIUM: Final = re.compile(r"\([A-Z][a-z_]+\)")
"""What stands in a summary for an image or a document."""
_TRUTH: Final = {"C": 1, "I": 0, "P": 0, "N": 0, "yes": 1, "true": 1, "no": 0, "false": 0}
_MOST_EPOCHS: Final = 2**31


@dataclass(frozen=True)
class Sample:
    """What a record says of one answer.

    Attributes:
        item_id: The sample's id in the data set, often its position.
        epoch: From 1.
        question: Input, targets and choices.
        choices: The options; empty for an open question.
        golds: Indices of the right options, where targets name options.
        scores: Each judgement by scorer, or scorer/key.
        grades: The grades "P" and "N" that count as wrong, by the same names.
        answers: What each scorer took for the answer.
        unscored: Why there is no score, if so.
        output: What the model wrote, where the record has it.
    """

    item_id: str
    epoch: int
    question: tuple[Any, Any, Any]
    choices: tuple[str, ...]
    golds: tuple[int, ...]
    scores: Mapping[str, Any]
    grades: Mapping[str, str]
    answers: Mapping[str, str]
    unscored: str | None
    output: str | None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The sample in a summary or a whole sample.

        Raises:
            ValueError: If a field is not what Inspect writes; the message names it.
        """
        item_id, epoch = record.get("id"), record.get("epoch", 1)
        if type(item_id) not in (int, str) or item_id == "":
            raise ValueError(f"a sample's id must be a number or text, got {item_id!r:.40}")
        if type(epoch) is not int or not 1 <= epoch < _MOST_EPOCHS:
            raise ValueError(f"sample {item_id!r:.40}: epoch must count from 1, got {epoch!r:.40}")
        choices = _texts(record, "choices")
        targets = _texts(record, "target")
        scores, grades, answers = _judgements(record)
        return cls(
            item_id=clean(str(item_id)),
            epoch=epoch,
            question=(_plain(record.get("input")), targets, choices or None),
            choices=choices,
            golds=_options(targets, choices),
            scores=scores,
            grades=grades,
            answers=answers,
            unscored=None if scores else _reason(record),
            output=clean(written) if (written := _output(record.get("output"))) is not None else None,
        )

    def chosen(self, scorer: str | None) -> int | None:
        """The option that the scorer took for the answer; None where there is none, or several."""
        found = _options((self.answer(scorer) or "",), self.choices)
        return found[0] if len(found) == 1 else None

    def answer(self, scorer: str | None) -> str | None:
        """What that scorer, or else the first that names one, took for the answer."""
        return self.answers.get(scorer or "", next(iter(self.answers.values()), None))


def is_shortened(record: Mapping[str, Any]) -> bool:
    """Whether a summary shortened the question, or left pictures out of it."""
    texts = [record.get("input"), *(target if isinstance(target := record.get("target"), list) else [target])]
    for message in texts[0] if isinstance(texts[0], list) else []:
        content = message.get("content") if isinstance(message, Mapping) else None
        listed = content if isinstance(content, list) else [{"text": content}]
        found = [part.get("text") for part in listed if isinstance(part, Mapping)]
        if isinstance(content, list) and any(isinstance(text, str) and _MEDIUM.fullmatch(text) for text in found):
            return True
        texts += found
    return any(isinstance(text, str) and text.endswith(_SHORTENED) for text in texts)


def _judgements(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    given = record.get("scores")
    if given is None:
        given = {} if record.get("score") is None else {"score": record["score"]}  # before there were several scorers
    if not isinstance(given, Mapping):
        raise ValueError(f"scores must be an object, got {given!r:.40}")
    values: dict[str, Any] = {}
    answers = {}
    for name, score in given.items():
        scorer = clean(name)
        if not isinstance(score, Mapping):
            raise ValueError(f"the score of {scorer!r:.40} must be an object, got {score!r:.40}")
        value = score.get("value")
        nested = {f"{scorer}/{key}": one for key, one in value.items()} if isinstance(value, Mapping) else None
        values |= {scorer: value} if nested is None else nested
        if isinstance(answer := score.get("answer"), str):
            answers[scorer] = answer
    grades = {name: value for name, value in values.items() if value in ("P", "N")}
    return {name: _number(value) for name, value in values.items()}, grades, answers


def _number(value: Any) -> Any:
    """1 or 0 where a text says right or wrong, a text that is a number as one, anything else as it is."""
    if not isinstance(value, str):
        return value
    if (found := _TRUTH.get(value, _TRUTH.get(value.lower()))) is not None:
        return found
    try:
        return float(value)
    except ValueError:
        return value


def _reason(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    if isinstance(error, Mapping):
        error = error.get("message")
    if error:
        return clean("error: " + " ".join(str(error)[:200].split())[:80])
    if record.get("invalidation"):
        return "invalidated"
    return "not finished" if record.get("completed") is False else "no scores in the log"


def _plain(content: Any) -> Any:
    """A text, or what matters of messages and their parts."""
    if not isinstance(content, list):
        return content
    return [_message(part) if isinstance(part, Mapping) else part for part in content]


def _message(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    listed = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    shown = [_part(part) if isinstance(part, Mapping) else part for part in listed]
    calls = message.get("tool_calls")
    asked = [_call(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    return [message.get("role"), shown, asked]


def _part(part: Mapping[str, Any]) -> Any:
    kind = part.get("type")
    return part.get("text") if kind == "text" else [kind, part.get(kind) if isinstance(kind, str) else None]


def _call(call: Mapping[str, Any]) -> list[Any]:
    return [call.get("function"), call.get("arguments")]


def _output(output: Any) -> str | None:
    """The text of the first answer in a sample's output."""
    if not isinstance(output, Mapping):
        return None
    if isinstance(completion := output.get("completion"), str):
        return completion
    options = output.get("choices")
    first = options[0] if isinstance(options, list) and options else None
    message = first.get("message") if isinstance(first, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    listed = content if isinstance(content, list) else []
    texts = [part.get("text") for part in listed if isinstance(part, Mapping) and part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def _options(named: tuple[str, ...], choices: tuple[str, ...]) -> tuple[int, ...]:
    """The indices of the options that letters, numbers behind Z, or whole texts name; empty where one is none."""
    found: list[int | None] = []
    for text in named if choices else ():
        tokens = text.replace(",", " ").split()
        marks = [mark for token in tokens for mark in ([token] if token.isdecimal() else token)]
        places = [_place(mark) for mark in marks] or [None]
        if all(place is not None and place < len(choices) for place in places):
            found += places
        else:
            found.append(next((at for at, choice in enumerate(choices) if choice.strip() == text.strip()), None))
    known = sorted({place for place in found if place is not None})
    return tuple(known) if None not in found else ()


def _place(mark: str) -> int | None:
    """A is 0, Z is 25, "1" is 26."""
    if mark.isascii() and mark.isdecimal() and len(mark) < 5:
        return int(mark) + 25
    return ord(mark.upper()) - ord("A") if len(mark) == 1 and "A" <= mark.upper() <= "Z" else None


def _texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = record.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(one, str) for one in listed):
        raise ValueError(f"{name} must be text or a list of texts, got {value!r:.40}")
    return tuple(listed)


def clean(text: str) -> str:
    """The text without lone halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()

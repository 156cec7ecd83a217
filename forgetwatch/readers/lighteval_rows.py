"""One row of lighteval's details, in either schema, as one answer.

    from 0.11    doc {query, choices, gold_index, id, task_name, ...}  metric {acc: 1}   model_response {text, logprobs}
    up to 0.10   example, full_prompt, choices, gold_index, gold       metrics {acc: 1}  predictions

In the older schema `predictions` holds a text, a log-likelihood for each option, or such a number with whether it was
greedy; there is no id, so the question's own hash stands for it. A task with log-likelihood and generative metrics
logs each question once for each kind, with null for the metrics of the other: `joined` makes one answer of the two.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

NEW: Final = ("doc", "metric", "model_response")
OLD: Final = ("example", "full_prompt", "choices", "gold_index", "gold", "metrics", "predictions")

READ: Final = (
    *(f"doc.{name}" for name in ("query", "choices", "gold_index", "id", "task_name")),
    *(f"model_response.{name}" for name in ("input", "input_tokens", "text", "logprobs", "unconditioned_logprobs")),
    *("metric", *OLD),
)
"""The columns that are read; the few-shot examples and the tokens of the answers are large, and say nothing more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a row says of one question.

    Attributes:
        item_id: The log's own id, else a hash of the question.
        task: The task that the row names; empty where the file's name has it.
        question: What defines the question: its text, its options and the right ones.
        choices: The options, or the reference texts of an open question.
        golds: Indices of the right ones.
        metrics: Every judgement that is not null.
        is_whole: Whether none was null, so that no other row judges the same question.
        logprobs: Log-likelihood of each option, nats; empty for a written answer.
        priors: The same without the prompt, where the log has them.
        text: What the model wrote.
        generated: The metrics that judge `text`, where the question was scored as well.
        prompt_hash: A hash of what the model was given.
    """

    item_id: str
    task: str
    question: tuple[Any, ...]
    choices: tuple[str, ...]
    golds: tuple[int, ...]
    metrics: Mapping[str, Any]
    is_whole: bool
    logprobs: tuple[float, ...]
    priors: tuple[float, ...]
    text: str | None
    prompt_hash: str | None
    generated: frozenset[str] = frozenset()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The answer in a row of either schema.

        Raises:
            ValueError: If a field is not what lighteval writes; the message names it.
        """
        return cls._new(row) if "doc" in row else cls._old(row)

    @classmethod
    def _new(cls, row: Mapping[str, Any]) -> Self:
        doc, response = _object(row, "doc"), _object(row, "model_response")
        choices, golds = _texts(doc, "choices"), _indices(doc, "gold_index")
        scores = _numbers(response, "logprobs")
        if len(scores) == 2 * len(choices):  # the second half was scored without the prompt
            logprobs, priors = scores[: len(choices)], scores[len(choices) :]
        else:
            logprobs, priors = scores, _numbers(response, "unconditioned_logprobs")
        question = (_text(doc, "query"), choices, golds)
        given = response.get("input") or response.get("input_tokens")
        return cls(
            item_id=str(doc.get("id") or "") or _hash(question),
            task=str(doc.get("task_name") or ""),
            question=question,
            choices=choices,
            golds=golds,
            metrics=_judgements(row, "metric"),
            is_whole=None not in row["metric"].values(),
            logprobs=logprobs if len(logprobs) == len(choices) else (),
            priors=priors if len(priors) == len(choices) else (),
            text=next(iter(_texts(response, "text")), None),
            prompt_hash=_hash(given) if given else None,
        )

    @classmethod
    def _old(cls, row: Mapping[str, Any]) -> Self:
        options, golds, references = _texts(row, "choices"), _indices(row, "gold_index"), _texts(row, "gold")
        given = row.get("predictions") or []
        if not isinstance(given, list):
            raise ValueError(f"predictions must be a list, got {given!r:.40}")
        firsts = [one[0] if isinstance(one, list) and one else one for one in given]  # [-4.7, 0.0]: with is_greedy
        scores = tuple(float(one) for one in firsts if isinstance(one, (int, float)))
        question = (_text(row, "example"), options or references, golds)
        prompt = row.get("full_prompt")
        return cls(
            item_id=_hash(question),
            task="",
            question=question,
            choices=options,
            golds=golds,
            metrics=_judgements(row, "metrics"),
            is_whole=None not in row["metrics"].values(),
            logprobs=scores if len(scores) == len(options) else (),
            priors=(),
            text=next((one for one in firsts if isinstance(one, str)), None),
            prompt_hash=_hash(prompt) if isinstance(prompt, str) else None,
        )

    @property
    def k(self) -> int | None:
        """Number of options that the answer was chosen from; None where it was not, or nobody knows."""
        if self.logprobs:
            return len(self.choices)
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(self.choices)]
        return len(letters) if len(letters) > 1 and [one.strip() for one in self.choices] == list(letters) else None


def joined(answers: Iterable[Answer]) -> Iterator[Answer]:
    """The answers, where a scored and a written one to the same question, n-th with n-th, are one.

    Those that lack a judgement come last, since what they lack may stand at the end.
    """
    made: list[Answer] = []
    first: dict[tuple[Any, ...], int] = {}
    times: Counter[tuple[Any, ...]] = Counter()
    for answer in answers:
        if answer.is_whole:
            yield answer
            continue
        key, is_scored = (answer.task, answer.item_id, answer.question), bool(answer.logprobs)
        times[key, is_scored] += 1
        place = first.get((key, not is_scored, times[key, is_scored]))
        if place is None or made[place].metrics.keys() & answer.metrics.keys():
            first[key, is_scored, times[key, is_scored]] = len(made)
            made.append(answer)
            continue
        scored, written = (answer, made[place]) if is_scored else (made[place], answer)
        made[place] = replace(
            scored,
            text=written.text,
            generated=frozenset(written.metrics),
            metrics={**made[place].metrics, **answer.metrics},
        )
    yield from made


def _object(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be an object, got {value!r:.40}")
    return value


def _judgements(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {metric: value for metric, value in _object(row, name).items() if value is not None}


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {value!r:.40}")
    return value


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r:.40}")
    return tuple(value)


def _numbers(row: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, (int, float)) for one in value):
        return ()  # a written answer's are those of its tokens, in lists
    return tuple(map(float, value))


def _indices(row: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = row.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(one, int) for one in listed):
        raise ValueError(f"{name} must be an index or a list of them, got {value!r:.40}")
    return tuple(sorted(set(listed)))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()[:16]

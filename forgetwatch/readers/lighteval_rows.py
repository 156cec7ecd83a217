"""Rows of lighteval's details, in either schema, as answers.

    from 0.11    doc {query, choices, gold_index, id, task_name, ...}  metric {acc: 1}   model_response {text, logprobs}
    up to 0.10   example, full_prompt, choices, gold_index, gold       metrics {acc: 1}  predictions

In the older schema `predictions` contains a text, a log-likelihood for each option, or pairs of a log-likelihood and a
flag; there is no id, so a hash of the question is used as one. A task with log-likelihood and generative metrics logs
each question once for each kind, with null for the metrics of the other: `merge_halves` makes one answer of the two.
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

COLUMNS: Final = (
    *(f"doc.{name}" for name in ("query", "choices", "gold_index", "id", "task_name")),
    *(f"model_response.{name}" for name in ("input", "input_tokens", "text", "logprobs", "unconditioned_logprobs")),
    *("metric", *OLD),
)
"""The columns that are read; the few-shot examples and the tokens of the answers are large and not needed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a log.

    Attributes:
        item_id: The log's own id, else a hash of the question.
        task: Task that the row names; empty if the file's name has it.
        question: The question's text, its options and the right ones: they define it.
        choices: The options, or the reference texts of an open question.
        golds: Indices of the right options.
        metrics: The metric values that are not null, by name.
        is_whole: No metric was null, so that no other row is about the same question.
        logprobs: Log-likelihood of each option, nats; empty for a generated answer.
        priors: Log-likelihood of each option without the prompt, nats; empty if the log has none.
        text: The generated text.
        generated: Metrics of `text`, if the question has log-likelihoods as well.
        prompt_hash: Hash of the model's input.
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
            metrics=_metric_values(row, "metric"),
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
        firsts = [entry[0] if isinstance(entry, list) and entry else entry for entry in given]  # [-4.7, is_greedy]
        scores = tuple(float(first) for first in firsts if isinstance(first, (int, float)))
        # An open question has no options, and is defined by its references instead.
        question = (_text(row, "example"), options or references, golds)
        prompt = row.get("full_prompt")
        return cls(
            item_id=_hash(question),
            task="",
            question=question,
            choices=options,
            golds=golds,
            metrics=_metric_values(row, "metrics"),
            is_whole=None not in row["metrics"].values(),
            logprobs=scores if len(scores) == len(options) else (),
            priors=(),
            text=next((first for first in firsts if isinstance(first, str)), None),
            prompt_hash=_hash(prompt) if isinstance(prompt, str) else None,
        )

    @property
    def k(self) -> int | None:
        """Number of options that the answer was chosen from; None for an open answer."""
        if self.logprobs:
            return len(self.choices)
        # A generated answer has options if its references are the letters that name them.
        letters = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(self.choices)])
        return len(letters) if len(letters) > 1 and [text.strip() for text in self.choices] == letters else None


def merge_halves(answers: Iterable[Answer]) -> Iterator[Answer]:
    """The answers; one with log-likelihoods and a generated one to the same question, n-th with n-th, become one.

    Answers that lack a metric come last, because their other half may be the log's last row.
    """
    halves: list[Answer] = []
    position: dict[tuple[Any, ...], int] = {}
    times: Counter[tuple[Any, ...]] = Counter()
    for answer in answers:
        if answer.is_whole:
            yield answer
            continue
        key, is_scored = (answer.task, answer.item_id, answer.question), bool(answer.logprobs)
        times[key, is_scored] += 1
        other = position.get((key, not is_scored, times[key, is_scored]))
        # Halves of one answer have no metric in common.
        if other is None or halves[other].metrics.keys() & answer.metrics.keys():
            position[key, is_scored, times[key, is_scored]] = len(halves)
            halves.append(answer)
            continue
        scored, generated = (answer, halves[other]) if is_scored else (halves[other], answer)
        halves[other] = replace(
            scored,
            text=generated.text,
            generated=frozenset(generated.metrics),
            metrics={**halves[other].metrics, **answer.metrics},
        )
    yield from halves


def _object(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be an object, got {value!r:.40}")
    return value


def _metric_values(row: Mapping[str, Any], name: str) -> dict[str, Any]:
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
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r:.40}")
    return tuple(value)


def _numbers(row: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(number, (int, float)) for number in value):
        return ()  # a generated answer's are those of its tokens, in lists
    return tuple(map(float, value))


def _indices(row: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = row.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(index, int) for index in listed):
        raise ValueError(f"{name} must be an index or a list of them, got {value!r:.40}")
    return tuple(sorted(set(listed)))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()[:16]

"""The rows of lm-evaluation-harness, one per document and filter, to a Log.

    {"doc_id": 3, "doc": {...}, "target": "1", "arguments": {...}, "resps": [[["-2.25", "False"]], [["-1.5", "True"]]],
     "filtered_resps": [...], "filter": "none", "metrics": ["acc"], "doc_hash": ..., "prompt_hash": ..., "acc": 1.0}

A question is its `doc` and `target`, in any order of their names (which depends on the version of the data's library),
and not `doc_id`, which can be wrong. The target counts as text: files hold text where the harness's results hold
numbers. Rows of several filters are one answer under several metrics ("exact_match,strict-match"); of a document that
occurs twice, the n-th row of one filter is the n-th of the other. Responses with a log-likelihood each are options;
texts are generated answers. Repeats are samples if each of them has a metric value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.readers.log import Log, question_hash
from forgetwatch.readers.option_scores import LogLikelihoods

NORMS: Final[Mapping[str, str]] = {
    "acc": "sum",
    "acc_norm": "chars",
    "acc_bytes": "bytes",
    "acc_mutual_info": "unconditional",
}
"""Norm of the score behind each metric of multiple choice; any other metric is tried with the sum."""

Key = tuple[str, str]
"""(item id, content hash)."""

_NEEDED: Final = frozenset(("doc_id", "doc", "target"))
_FIELDS: Final = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    )
)
_FLAGS: Final = frozenset(("True", "False"))
"""Texts of a greedy flag in files of samples; results have booleans."""
_MAX_LOGPROB: Final = 1.0
"""A number above this, nats, is no log-likelihood; those of bf16 may exceed 0 by rounding."""


def is_sample(names: Iterable[str]) -> bool:
    """True if an object with these names is a row of the harness."""
    return set(names) >= _NEEDED


class Task:
    """Reader of one task's rows.

    Args:
        log: Receives the answers.
        options: Receives their log-likelihoods.
        name: Name of the task.
        config: The harness's configuration of the task; empty if it is not known.
    """

    def __init__(self, log: Log, options: LogLikelihoods, name: str, config: Mapping[str, Any]) -> None:
        self._log, self._options, self.name = log, options, name
        self._is_choice = config.get("output_type") == "multiple_choice"
        delimiter = config.get("target_delimiter")
        self._delimiter = delimiter if isinstance(delimiter, str) else " "
        self._filters = _Filters(log)

    def read(self, rows: Iterable[tuple[int, Any]], unit: str) -> None:
        """Add all rows.

        Args:
            rows: (number, value) of each row.
            unit: Unit of the number in messages, such as "line".

        Raises:
            SnapshotError: If a row is not what the harness writes; it is named.
        """
        for number, row in rows:
            try:
                self._add(row)
            except (ValueError, RecursionError) as error:
                raise SnapshotError(f"{self._log.path}, {unit} {number}: {error}") from error

    def _add(self, row: Any) -> None:
        if not isinstance(row, dict):
            raise ValueError(f"a row is a JSON object, got {type(row).__name__}")
        if lacking := _NEEDED - row.keys():
            raise ValueError(f"a row of lm-evaluation-harness needs {min(lacking)!r}, and it is not there")
        filtered = row.get("filter")
        if not isinstance(filtered, str | None):
            raise ValueError(f"the filter must be text, got {type(filtered).__name__}")
        metrics = _metrics(row, "" if filtered in (None, "none") else f",{filtered}")
        item_id, question = str(row["doc_id"]), [row["doc"], str(row["target"])]
        resps = row.get("resps")
        if not isinstance(resps, list | None):
            raise ValueError(f"resps must be a list, got {type(resps).__name__}")
        # One entry per repeat; the same answer may come again under another filter.
        by_sample = _by_sample(metrics, resps or [])
        known = self._filters.find(filtered or "none", item_id, question)
        if known is not None:
            if len(by_sample) != (repeats := self._log.samples(known)):
                raise ValueError(f"{len(by_sample)} repeats have a metric, and {repeats} under another filter")
            for sample, values in enumerate(by_sample):
                self._log.add_metrics(known + sample, values)
            return
        prompt_hash = row.get("prompt_hash")
        logprobs = _logprobs(resps or [])
        outputs = _outputs(resps or []) if logprobs is None else []
        for sample, values in enumerate(by_sample):
            index = self._log.add(
                task=self.name,
                item_id=item_id,
                question=question,
                metrics=values,
                sample=sample,
                output=outputs[sample] if sample < len(outputs) else None,
                source_prompt_hash=prompt_hash if isinstance(prompt_hash, str) else None,
            )
        self._filters.add(index - len(by_sample) + 1)  # an answer is known by the row of its first sample
        if logprobs is not None and (len(logprobs) > 1 or self._is_choice):
            self._add_options(index, row, logprobs)

    def _add_options(self, index: int, row: dict[str, Any], logprobs: list[float]) -> None:
        k, priors = len(logprobs), []
        if "acc_mutual_info" in row and k % 2 == 0:  # the second half was scored without the prompt
            k //= 2
            logprobs, priors = logprobs[:k], logprobs[k:]
        requests = _requests(row.get("arguments"), k)
        contexts_vary = requests is not None and k > 1 and any(context != requests[0][0] for context, _ in requests)
        texts = None
        if requests is not None and not contexts_vary:
            has_delimiter = all(text.startswith(self._delimiter) for _, text in requests)
            cut = len(self._delimiter) if has_delimiter else 0
            texts = [text[cut:] for _, text in requests]
        # winogrande varies the context: its target is the text that follows every context, and names no option.
        target = None if contexts_vary else row["target"]
        self._options.add(index, logprobs=logprobs, priors=priors, texts=texts, target=target)


class _Filters:
    """Index of a task's answers by item and question, for rows of further filters.

    It is built at the first row of a second filter, so that a log with one filter costs nothing.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._start = log, len(log)
        self._first: str | None = None
        self._rows: dict[Key, list[int]] | None = None
        self._seen: dict[str, Counter[Key]] = {}
        self._key: Key | None = None

    def find(self, filtered: str, item_id: str, question: object) -> int | None:
        """Log row of the same answer under another filter; None if the answer is new."""
        if self._first is None:
            self._first = filtered
        if self._rows is None and filtered == self._first:
            return None  # still one filter: every row is a new answer
        if self._rows is None:
            self._rows, keys = {}, self._log.keys(self._start)
            for row, key in keys:
                self._rows.setdefault(key, []).append(row)
            self._seen[self._first] = Counter(key for _, key in keys)
        self._key = key = (item_id, question_hash(question))
        seen = self._seen.setdefault(filtered, Counter())
        seen[key] += 1
        rows = self._rows.get(key, [])
        return rows[seen[key] - 1] if seen[key] <= len(rows) else None

    def add(self, row: int) -> None:
        """Note the log row of the answer that `find` did not know."""
        if self._rows is not None and self._key is not None:
            self._rows.setdefault(self._key, []).append(row)


def _metrics(row: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """Metric values by name; older rows do not list their metrics."""
    names = row.get("metrics")
    if names is None:
        # Any other field may be a metric; those that are no correctness are left out later.
        return {f"{name}{suffix}": value for name, value in row.items() if name not in _FIELDS}
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("metrics must be a list of names")
    return {f"{name}{suffix}": row[name] for name in names if name in row and name not in _FIELDS}


def _by_sample(metrics: dict[str, Any], resps: list[Any]) -> list[dict[str, Any]]:
    """Metric values of each repeat if a metric has a list of them; else those of the one answer."""
    repeats = len(resps[0]) if len(resps) == 1 and isinstance(resps[0], list) else 1
    each = {name for name, value in metrics.items() if isinstance(value, list) and len(value) == repeats > 1}
    # A list of other numbers is no correctness, whether it is of the repeats or of one answer.
    each = {name for name in each if all(value in (0, 1) for value in metrics[name])}
    if not each:
        return [metrics]
    return [
        {name: value[sample] if name in each else value for name, value in metrics.items()} for sample in range(repeats)
    ]


def _outputs(resps: list[Any]) -> list[str]:
    """Generated texts, one per repeat."""
    texts = resps[0] if resps and isinstance(resps[0], list) else resps[:1]
    return [text for text in texts if isinstance(text, str)]


def _logprobs(resps: list[Any]) -> list[float] | None:
    """Log-likelihood of each response, nats, nan if it is no number; None if responses are texts.

    Raises:
        ValueError: If one is plus infinity.
    """
    found = []
    for resp in resps:
        answer = resp[0] if isinstance(resp, list) and resp else None
        if not (isinstance(answer, list) and len(answer) == 2):
            return None
        value, greedy = answer
        if not (greedy in _FLAGS if isinstance(greedy, str) else isinstance(greedy, bool)):
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if number == math.inf:
            raise ValueError(f"needed a log-likelihood, got {value!r}; write the log again, or remove the row")
        found.append(number if number <= _MAX_LOGPROB else math.nan)
    return found or None


def _requests(arguments: Any, k: int) -> list[tuple[str, str]] | None:
    """(context, continuation) of the first k requests, in either shape that logs have; None in any other."""
    pairs = []
    for number in range(k):
        try:
            if isinstance(arguments, dict):
                request = arguments[f"gen_args_{number}"]
                context, continuation = request["arg_0"], request["arg_1"]
            else:
                context, continuation = arguments[number][:2]
        except (LookupError, TypeError, ValueError):
            return None
        if not (isinstance(context, str) and isinstance(continuation, str)):
            return None
        pairs.append((context, continuation))
    return pairs


def norm_of(metric: str) -> str:
    """Norm of the score behind a metric of multiple choice."""
    return NORMS.get(metric.split(",")[0], "sum")

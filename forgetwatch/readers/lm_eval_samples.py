"""The rows of lm-evaluation-harness, one per document and filter, to a Log.

    {"doc_id": 3, "doc": {...}, "target": "1", "arguments": {...}, "resps": [[["-2.25", "False"]], [["-1.5", "True"]]],
     "filtered_resps": [...], "filter": "none", "metrics": ["acc"], "doc_hash": ..., "prompt_hash": ..., "acc": 1.0}

A question is its `doc` and `target`, whatever the order of their names (which other versions of the data's library
change), and not `doc_id`, which can be wrong. The target counts as text: files hold text where the harness's results
hold numbers. Rows of several filters are one answer judged in several ways ("exact_match,strict-match"); where a
document stands twice, the n-th of one filter is the n-th of the other. Answers with a log-likelihood each are options;
texts are what the model wrote. Repeats are samples where each of them was judged.
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
"""The score that each metric of multiple choice goes by; any other goes by the sum, as far as it fits."""

Key = tuple[str, str]
"""Id and content hash."""

_NEEDED: Final = frozenset(("doc_id", "doc", "target"))
_FIELDS: Final = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    )
)
_FLAGS: Final = frozenset(("True", "False"))
_MOST: Final = 1.0
"""A log-likelihood above this, nats, is none."""


def is_sample(names: Iterable[str]) -> bool:
    """Whether an object with these names is a row of the harness."""
    return set(names) >= _NEEDED


class Task:
    """The rows of one task, on their way into a log.

    Args:
        log: Where the answers go.
        options: Where their log-likelihoods go.
        name: The task.
        config: The harness's configuration of the task; empty where it is not known.
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
            rows: Number and value of each.
            unit: What the number counts, for messages.
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
        judged = _by_sample(metrics, resps or [])
        known = self._filters.find(filtered or "none", item_id, question)
        if known is not None:
            if len(judged) != (repeats := self._log.samples(known)):
                raise ValueError(f"{len(judged)} repeats are judged, and {repeats} by another filter")
            for sample, of_sample in enumerate(judged):
                self._log.note(known + sample, of_sample)
            return
        hashed = row.get("prompt_hash")
        scored = _likelihoods(resps or [])
        outputs = _outputs(resps or []) if scored is None else []
        for sample, of_sample in enumerate(judged):
            at = self._log.add(
                task=self.name,
                item_id=item_id,
                question=question,
                metrics=of_sample,
                sample=sample,
                output=outputs[sample] if sample < len(outputs) else None,
                source_prompt_hash=hashed if isinstance(hashed, str) else None,
            )
        self._filters.added(at - len(judged) + 1)
        if scored is not None and (len(scored) > 1 or self._is_choice):
            self._add_options(at, row, scored)

    def _add_options(self, at: int, row: dict[str, Any], scored: list[float]) -> None:
        k, priors = len(scored), []
        if "acc_mutual_info" in row and k % 2 == 0:
            k //= 2
            scored, priors = scored[:k], scored[k:]
        asked = _asked(row.get("arguments"), k)
        contexts_vary = asked is not None and k > 1 and any(one != asked[0][0] for one, _ in asked)
        texts = None
        if asked is not None and not contexts_vary:
            cut = len(self._delimiter) if all(text.startswith(self._delimiter) for _, text in asked) else 0
            texts = [text[cut:] for _, text in asked]
        # Where the contexts vary the target is what follows each of them, and names none.
        target = None if contexts_vary else row["target"]
        self._options.add(at, logprobs=scored, priors=priors, texts=texts, target=target)


class _Filters:
    """Which answer of a task a row of another filter judges again; costs nothing while there is one filter."""

    def __init__(self, log: Log) -> None:
        self._log, self._start = log, len(log)
        self._first: str | None = None
        self._rows: dict[Key, list[int]] | None = None
        self._seen: dict[str, Counter[Key]] = {}
        self._key: Key | None = None

    def find(self, filtered: str, item_id: str, question: object) -> int | None:
        """The row that came under another filter; None where the answer is new."""
        if self._first is None:
            self._first = filtered
        if self._rows is None and filtered == self._first:
            return None
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

    def added(self, row: int) -> None:
        """The answer that was new stands in this row."""
        if self._rows is not None and self._key is not None:
            self._rows.setdefault(self._key, []).append(row)


def _metrics(row: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """What judges the answer, by name; older rows do not list their metrics."""
    names = row.get("metrics")
    if names is None:
        return {f"{name}{suffix}": value for name, value in row.items() if name not in _FIELDS}
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("metrics must be a list of names")
    return {f"{name}{suffix}": row[name] for name in names if name in row and name not in _FIELDS}


def _by_sample(metrics: dict[str, Any], resps: list[Any]) -> list[dict[str, Any]]:
    """The judgements of each repeat, where a metric has one for each; else those of the one answer."""
    repeats = len(resps[0]) if len(resps) == 1 and isinstance(resps[0], list) else 1
    each = {name for name, value in metrics.items() if isinstance(value, list) and len(value) == repeats > 1}
    each = {name for name in each if all(one in (0, 1) for one in metrics[name])}
    if not each:
        return [metrics]
    return [
        {name: value[sample] if name in each else value for name, value in metrics.items()} for sample in range(repeats)
    ]


def _outputs(resps: list[Any]) -> list[str]:
    """What the model wrote, one text per repeat."""
    written = resps[0] if resps and isinstance(resps[0], list) else resps[:1]
    return [text for text in written if isinstance(text, str)]


def _likelihoods(resps: list[Any]) -> list[float] | None:
    """The log-likelihood of each answer, nats, nan where it is none; None where answers are texts."""
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
        found.append(number if number <= _MOST else math.nan)
    return found or None


def _asked(arguments: Any, k: int) -> list[tuple[str, str]] | None:
    """Context and continuation of the first k requests, in either of the shapes that logs have."""
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
    """The score that a metric of multiple choice goes by."""
    return NORMS.get(metric.split(",")[0], "sum")

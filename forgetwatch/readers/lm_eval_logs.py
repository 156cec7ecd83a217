"""Logs of lm-evaluation-harness (0.4 and later, written with ``--log_samples``) to a Snapshot.

    samples_<task>_<date>.jsonl       one task; the results next to it, if there are any, describe the run
    results with `samples` in them    what ``simple_evaluate(..., log_samples=True)`` returns, as JSON
    one JSON array                    the rows of one task
    an output folder                  the latest samples of each task

An output folder collects runs; of each task the file with the latest date in its name counts:

    out/org__model/results_2026-01-03T10-00-00.000001.json         the run: model, seeds, versions, settings
    out/org__model/samples_arc_easy_2026-01-03T10-00-00.000001.jsonl
    out/org__model/samples_arc_easy_2026-01-02T09-00-00.000001.jsonl     an older run: ignored

There is a row for each document and filter:

    {"doc_id": 3, "doc": {...}, "target": "1", "arguments": {...}, "resps": [[["-2.25", "False"]],
    [["-1.5", "True"]]],
     "filtered_resps": [...], "filter": "none", "metrics": ["acc"], "doc_hash": ..., "prompt_hash":
     ..., "acc": 1.0}

`correct` is a metric of the harness, and no answer is graded again. A question is its `doc` and
`target`, in any order of their names (which depends on the version of the data's library), and not
`doc_id`, which can be wrong. The target counts as text: files hold text where the harness's results
hold numbers. Rows of several filters are one answer under several metrics
("exact_match,strict-match"); of a document that occurs twice, the n-th row of one filter is the
n-th of the other. Rows that do not name their filter (written before it was logged) and repeat the
responses of an earlier row are scored under "filter 2", and so on. Responses with a log-likelihood
each are options, and the choice, its margin and gold's share follow from them (`option_scores`);
texts are generated answers. Repeats are samples if each of them has a metric value.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError, some_of
from forgetwatch.files.json_pieces import Document, begins_json, first_object
from forgetwatch.files.reading import read_head
from forgetwatch.files.rows import json_array, json_lines
from forgetwatch.readers.log import Log, Reading, question_hash, task_and_date
from forgetwatch.readers.option_scores import UNKNOWN, LogLikelihoods, norms_in_metadata
from forgetwatch.snapshot import Snapshot

TOOL: Final = "lm-evaluation-harness"

_NORMS: Final = {
    "acc": "sum",
    "acc_norm": "chars",
    "acc_bytes": "bytes",
    "acc_mutual_info": "unconditional",
}
"""Norm of the score behind each metric of multiple choice; any other metric is tried with the sum."""
_NEEDED: Final = frozenset(("doc_id", "doc", "target"))
"""Names that a row of the harness has."""
_FIELDS: Final = frozenset(
    (
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    )
)
_FLAGS: Final = frozenset(("True", "False"))
"""Texts of a greedy flag in files of samples; results have booleans."""
_LONGEST_CATEGORY: Final = 80
_MAX_LOGPROB: Final = 1.0
"""A number above this, nats, is no log-likelihood; those of bf16 may exceed 0 by rounding."""
# Task names contain underscores and dates do not, so the greedy group ends where the date begins.
# Anchored at a comma or the beginning: `tokenizer_path=` is not `path=`.
_MODEL: Final = re.compile(r"(?:^|,)(peft|delta|pretrained|model|path)=([^,]+)")
# An adapter or delta identifies the model; `pretrained` next to it is only its base.
_MODEL_ORDER: Final = ("peft", "delta", "pretrained", "model", "path")
_SEEDS: Final = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_COPIED: Final = {
    "git_hash": "harness_git_hash",
    "lm_eval_version": "harness_version",
    "transformers_version": "transformers_version",
    "date": "date",
    "chat_template_sha": "chat_template_sha",
    "system_instruction_sha": "system_instruction_sha",
    "fewshot_as_multiturn": "fewshot_as_multiturn",
    "max_length": "max_length",
}
_PARTS: Final = frozenset(
    (*_COPIED, "config", "configs", "versions", "n-shot", "n-samples", "model_name")
)
"""Members of a run's results that are read. The machine, the chat template and the totals are not needed."""


def recognises(path: Path) -> bool:
    """Are there rows or results of the harness?"""
    if path.is_dir():
        return bool(_latest_samples(path))
    if not begins_json(read_head(path)):
        return False
    names = first_object(path)
    return (
        set(names) >= _NEEDED or names.get("samples") == "{" or {"results", "configs"} <= set(names)
    )


def read(path: Path, reading: Reading) -> Snapshot:
    """Read samples, results with samples, or an output folder."""
    if path.is_dir():
        return _read_samples(_latest_samples(path), path, reading)
    names = first_object(path)
    if set(names) >= _NEEDED:
        return _read_samples({task_and_date(path)[0]: path}, path, reading)
    if names.get("samples") == "{":
        return _read_results(path, reading)
    raise SnapshotError(
        f"{path}: totals of lm-evaluation-harness without its samples; write them with "
        "--log_samples, and give samples_*.jsonl or the output folder"
    )


def _read_results(path: Path, reading: Reading) -> Snapshot:
    answers = _Answers(path, reading)
    parts: dict[str, Any] = {}
    with Document(path, reading.progress) as document:
        for name in document.members():
            if name != "samples":
                value = document.value()
                if name in _PARTS:
                    parts[name] = value
                continue
            for task in document.members():
                answers.read(task, Run(parts), document.values(), f"samples of {task}, row")
        document.end()
    # `configs` may follow `samples`, so the runs are described after everything is read.
    return answers.snapshot({task: Run(parts) for task in answers.log.tasks})


def _read_samples(files: Mapping[str, Path], path: Path, reading: Reading) -> Snapshot:
    answers, runs = _Answers(path, reading), {}
    total, before = sum(file.stat().st_size for file in files.values()), 0

    def progress(done: int, _: int) -> None:
        reading.report(before + done, total)

    for task, file in files.items():
        runs[task], notes = _run_beside(file)
        answers.notes += notes
        with Document(file) as document:
            is_array = document.peek() == "["
        if is_array:
            answers.read(task, runs[task], json_array(file, progress), "row")
        else:
            answers.read(task, runs[task], json_lines(file, progress), "line")
        before += file.stat().st_size
    return answers.snapshot(runs)


class _Answers:
    """Answers and log-likelihoods of one snapshot."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.log, self._options = Log(path, TOOL, reading), LogLikelihoods()
        self.notes: tuple[str, ...] = ()
        self._metric = reading.metric

    def read(self, name: str, run: Run, rows: Iterable[tuple[int, Any]], unit: str) -> None:
        """Add all rows of a task.

        `unit` names the row numbers in errors, such as "line".
        """
        task = _Task(self.log, self._options, name, run.config(name))
        for number, row in rows:
            try:
                task.add(row)
            except (ValueError, RecursionError) as error:
                raise SnapshotError(f"{self.log.path}, {unit} {number}: {error}") from error

    def snapshot(self, runs: Mapping[str, Run]) -> Snapshot:
        """Build a snapshot of all rows, with the run of each task."""
        log = self.log
        if not len(log):
            raise SnapshotError(f"{log.path}: the log has no answers")
        metric = log.metric(self._metric)
        right, used, _ = log.correctness(metric)
        norms = {
            task: _NORMS.get(used.get(task, metric).split(",")[0], "sum") for task in log.tasks
        }
        columns, notes = self._options.columns(
            right=right, tasks=log.task_codes, norms=list(norms.values())
        )
        meta: dict[str, Any] = {}
        for task, run in runs.items():
            for name, value in run.describe(task).items():
                # If the runs of two tasks differ, the second's value counts.
                meta[name] = {**meta.get(name, {}), **value} if isinstance(value, dict) else value
        # A task of generated answers has no norm; with it a log of one norm would count as one of
        # two.
        with_options = set(log.task_codes[self._options.rows].tolist())
        meta |= norms_in_metadata(
            {task: norms[task] for task, code in log.tasks.items() if code in with_options}
        )
        return log.snapshot(metric, meta, (*self.notes, *_notes(log, runs), *notes), columns)


def _notes(log: Log, runs: Mapping[str, Run]) -> Iterator[str]:
    # A run may have several models, or more items than the log has.
    models = sorted({run.model for run in runs.values() if run.model is not None})
    if len(models) > 1:
        yield f"its tasks come from runs of several models: {', '.join(models)}"
    held = log.items()
    for task, run in runs.items():
        items = run.items(task)
        if task in held and items is not None and held[task] < items:
            yield f"{task}: the log holds {held[task]:,} of the {items:,} items that the run's results count"


@dataclass(frozen=True)
class Run:
    """Description of one run, from its results; empty if there are none."""

    parts: Mapping[str, Any] = field(
        default_factory=dict
    )  # the members of the results that are read

    def _of_task(self, section: str, task: str) -> Any:
        by_task = self.parts.get(section)
        return by_task.get(task) if isinstance(by_task, dict) else None

    def config(self, task: str) -> Mapping[str, Any]:
        """Configuration of a task; empty if unknown."""
        config = self._of_task("configs", task)
        return config if isinstance(config, dict) else {}

    def items(self, task: str) -> int | None:
        """Number of documents of a task that the run counts.

        Returns:
            The number, or None if unknown.
        """
        counted = self._of_task("n-samples", task)
        effective = counted.get("effective") if isinstance(counted, dict) else None
        return effective if isinstance(effective, int) else None

    @property
    def model(self) -> str | None:
        """Name or path of the model.

        Returns:
            The name, or None if the run has none.
        """
        model_name, config = self.parts.get("model_name"), self.parts.get("config")
        if isinstance(model_name, str) and model_name:
            return model_name
        arguments = config.get("model_args") if isinstance(config, dict) else None
        if isinstance(arguments, dict):
            return next(
                (str(arguments[name]) for name in _MODEL_ORDER if arguments.get(name)), None
            )
        model_arguments = dict(_MODEL.findall(arguments)) if isinstance(arguments, str) else {}
        return next(
            (model_arguments[name] for name in _MODEL_ORDER if name in model_arguments), None
        )

    def describe(self, task: str) -> dict[str, Any]:
        """Metadata of a snapshot for a task, as far as known."""
        config = self.parts.get("config")
        config = config if isinstance(config, dict) else {}
        metadata = {
            "model": self.model,
            "model_args": _plain(config.get("model_args")),
            "revision": _plain(config.get("model_sha")) or _plain(config.get("model_revision")),
            "dtype": _plain(config.get("model_dtype")),
            "limit": _plain(config.get("limit")),
            "seeds": {name: config[name] for name in _SEEDS if isinstance(config.get(name), int)},
            **{ours: _plain(self.parts.get(theirs)) for theirs, ours in _COPIED.items()},
        }
        for section, ours in (("versions", "task_versions"), ("n-shot", "num_fewshot")):
            value = _plain(self._of_task(section, task))
            metadata[ours] = {} if value is None else {task: value}
        return {name: value for name, value in metadata.items() if value not in (None, "", {})}


def _run_beside(path: Path) -> tuple[Run, tuple[str, ...]]:
    # The note says that the results cannot be read.
    date = task_and_date(path)[1]
    results_files = [
        file
        for file in path.parent.glob("*_*.json")
        if date and file.name.endswith(f"_{date}.json")
    ]
    # Files of samples may end in .json as well.
    beside = sorted(file for file in results_files if not task_and_date(file)[0])
    if not beside:  # the harness names the folder of a model "org__model"
        folder = path.parent.name
        return Run({"model_name": folder.replace("__", "/")} if "__" in folder else {}), ()
    try:
        results = json.loads(beside[0].read_bytes().decode("utf-8"))
        if not isinstance(results, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        return Run(), (
            f"{beside[0].name} cannot be read, so nothing is known of the run ({error})",
        )
    return Run({name: value for name, value in results.items() if name in _PARTS}), ()


def _latest_samples(folder: Path) -> dict[str, Path]:
    # In an output folder, or in the one folder of a model within it.
    sample_files = sorted(
        path for path in folder.rglob("samples_*") if task_and_date(path)[0] and path.is_file()
    )
    homes = sorted({path.parent for path in sample_files})
    if len(homes) > 1:
        listed = some_of((home.relative_to(folder) for home in homes), 5)
        raise SnapshotError(
            f"{folder}: needed the results of one model, got {len(homes)} folders with samples: "
            f"{listed}; give one of them"
        )
    # In the order of their dates, so that a later file replaces an earlier one of the same task.
    by_date = sorted(sample_files, key=lambda file: task_and_date(file)[1])
    return dict(sorted({task_and_date(path)[0]: path for path in by_date}.items()))


def _plain(value: Any) -> Any:
    # Text is cut to 500 characters; None if the value is neither text nor a number that JSON can
    # hold.
    if isinstance(value, str):
        return value[:500]
    return value if isinstance(value, (bool, int, float)) and abs(value) < 2**63 else None


class _Task:
    """Reader of one task's rows, which adds answers to a log and their log-likelihoods to `options`."""

    def __init__(
        self, log: Log, options: LogLikelihoods, name: str, config: Mapping[str, Any]
    ) -> None:
        self._log, self._options, self._name = log, options, name
        self._is_choice = config.get("output_type") == "multiple_choice"
        delimiter = config.get("target_delimiter")
        self._delimiter = delimiter if isinstance(delimiter, str) else " "
        self._filters = _Filters(log)
        self._times = Counter[str]()  # rows without a filter's name, by their responses

    def add(self, row: Any) -> None:  # noqa: C901
        """Add a row.

        Raises:
            ValueError: If the row is not what the harness writes.
        """
        if not isinstance(row, dict):
            raise ValueError(f"a row is a JSON object, got {type(row).__name__}")
        if lacking := _NEEDED - row.keys():
            raise ValueError(
                f"a row of lm-evaluation-harness needs {min(lacking)!r}, and it is not there"
            )
        filtered = row["filter"] if "filter" in row else self._unnamed_filter(row)
        if not isinstance(filtered, str | None):
            raise ValueError(f"the filter must be text, got {type(filtered).__name__}")
        metrics = _metrics(row, "" if filtered in (None, "none") else f",{filtered}")
        item_id, question = str(row["doc_id"]), [row["doc"], str(row["target"])]
        resps = row.get("resps")
        if not isinstance(resps, list | None):
            raise ValueError(f"resps must be a list, got {type(resps).__name__}")
        # One entry per repeat; the same answer may come again under another filter.
        by_sample = _by_sample(metrics, resps or [])
        known_row = self._filters.find(filtered or "none", item_id, question)
        if known_row is not None:
            if len(by_sample) != (repeats := self._log.samples(known_row)):
                raise ValueError(
                    f"{len(by_sample)} repeats have a metric, and {repeats} under another filter"
                )
            for sample, values in enumerate(by_sample):
                self._log.add_metrics(known_row + sample, values)
            return
        prompt_hash = row.get("prompt_hash")
        logprobs, outputs = _logprobs(resps or []), []
        if logprobs is None and resps:  # generated texts, one per repeat
            texts = resps[0] if isinstance(resps[0], list) else resps[:1]
            outputs = [text for text in texts if isinstance(text, str)]
        for sample, values in enumerate(by_sample):
            index = self._log.add(
                task=self._name,
                item_id=item_id,
                question=question,
                metrics=values,
                sample=sample,
                output=outputs[sample] if sample < len(outputs) else None,
                source_prompt_hash=prompt_hash if isinstance(prompt_hash, str) else None,
                category=_category(row["doc"]),
            )
        self._filters.add(
            index - len(by_sample) + 1
        )  # an answer is known by the row of its first sample
        if logprobs is not None and (len(logprobs) > 1 or self._is_choice):
            self._add_options(index, row, logprobs)

    def _unnamed_filter(self, row: dict[str, Any]) -> str | None:
        # The same responses again are scored under the next filter.
        responses = question_hash([row["doc_id"], row["doc"], row["target"], row.get("resps")])
        self._times[responses] += 1
        return f"filter {times}" if (times := self._times[responses]) > 1 else None

    def _add_options(self, index: int, row: dict[str, Any], logprobs: list[float]) -> None:
        k, priors = len(logprobs), []
        if "acc_mutual_info" in row and k % 2 == 0:  # the second half was scored without the prompt
            k //= 2
            logprobs, priors = logprobs[:k], logprobs[k:]
        requests = _requests(row.get("arguments"), k)
        contexts_vary = (
            requests is not None
            and k > 1
            and any(context != requests[0][0] for context, _ in requests)
        )
        texts = None
        if requests is not None and not contexts_vary:
            has_delimiter = all(text.startswith(self._delimiter) for _, text in requests)
            cut = len(self._delimiter) if has_delimiter else 0
            texts = [text[cut:] for _, text in requests]
        # winogrande varies the context: its target is the text that follows every context, and
        # names no option.
        target = None if contexts_vary else row["target"]
        self._options.add(index, logprobs=logprobs, priors=priors, texts=texts, target=target)


def _category(document: Any) -> str | None:
    # Some benchmarks hold several categories under one task.
    candidates = (
        (document.get(name) for name in ("category", "subject"))
        if isinstance(document, Mapping)
        else ()
    )
    return next(
        (
            text
            for text in candidates
            if isinstance(text, str) and 0 < len(text) <= _LONGEST_CATEGORY
        ),
        None,
    )


class _Filters:
    """Index of a task's answers by item and question, built at the first row of a second filter.

    A key is (item id, content hash). A log with one filter costs nothing.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._start = log, len(log)
        self._first: str | None = None
        self._rows: dict[tuple[str, str], list[int]] | None = None
        self._seen: dict[str, Counter[tuple[str, str]]] = {}
        self._key: tuple[str, str] | None = None

    def find(self, filtered: str, item_id: str, question: object) -> int | None:
        """Find the row of the same answer under another filter.

        Returns:
            The row, or None for a new answer.
        """
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
        """Note the row of an answer that `find` did not know."""
        if self._rows is not None and self._key is not None:
            self._rows.setdefault(self._key, []).append(row)


def _metrics(row: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    names = row.get("metrics")
    if names is None:
        # Any other field may be a metric; those that are no correctness are left out later.
        return {f"{name}{suffix}": value for name, value in row.items() if name not in _FIELDS}
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("metrics must be a list of names")
    return {f"{name}{suffix}": row[name] for name in names if name in row and name not in _FIELDS}


def _by_sample(metrics: dict[str, Any], resps: list[Any]) -> list[dict[str, Any]]:
    # A metric may have a list of values; without one there is a single answer.
    repeats = len(resps[0]) if len(resps) == 1 and isinstance(resps[0], list) else 1
    of_repeats = {
        name
        for name, value in metrics.items()
        if isinstance(value, list) and len(value) == repeats > 1
    }
    # A list of other numbers is no correctness, whether it is of the repeats or of one answer.
    of_repeats = {name for name in of_repeats if all(value in (0, 1) for value in metrics[name])}
    if not of_repeats:
        return [metrics]
    return [
        {name: value[sample] if name in of_repeats else value for name, value in metrics.items()}
        for sample in range(repeats)
    ]


def _logprobs(resps: list[Any]) -> list[float] | None:
    # Nats, `UNKNOWN` if a response has none; None if responses are texts.
    logprobs = []
    for resp in resps:
        answer = resp[0] if isinstance(resp, list) and resp else None
        if not (isinstance(answer, list) and len(answer) == 2):
            return None
        value, greedy = answer
        if not (greedy in _FLAGS if isinstance(greedy, str) else isinstance(greedy, bool)):
            return None
        try:
            number = None if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number == math.inf:
            raise ValueError(
                f"needed a log-likelihood, got {value!r}; write the log again, or remove the row"
            )
        logprobs.append(UNKNOWN if number is None or number > _MAX_LOGPROB else number)
    return logprobs or None


def _requests(arguments: Any, k: int) -> list[tuple[str, str]] | None:
    # (context, continuation), in either shape that logs have; None in any other.
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

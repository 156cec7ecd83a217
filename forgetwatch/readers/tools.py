"""Logs of further tools to a Snapshot, each by a declaration in `TOOLS`.

    EvalScope              reviews/<model>/<data set>.jsonl
    OpenCompass            results/<model>/<data set>.json, written with --dump-eval-details
    HELM                   per_instance_stats.json; the questions are those of instances.json beside it
    OLMES                  task-*-predictions.jsonl
    EvalPlus               *_eval_results.json
    human-eval             *_results.jsonl
    MMLU-Pro               the results of its own scripts
    promptfoo              results of one provider
    trainings              answers that verl, NeMo RL, SkyRL, TRL, AReaL, ms-swift, ... write (`DUMPS`)

A declaration says which names the first object of a file has, where the rows are, and what each row
says. A folder of one model's files is read as one log; of a data set with several files the last in
the order of their paths counts. The task is the data set that the file's place names, so that
renamed files pair too. The answers to one item are samples in their order, where a tool repeats
questions. Tools that are met rarely have a command in `docs/how-to/logs.md`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError, some_of
from forgetwatch.files.json_pieces import begins_json, first_object
from forgetwatch.files.reading import read_head
from forgetwatch.files.rows import ABSENT, read_rows, value_at
from forgetwatch.grading.output_text import normalise
from forgetwatch.probe import LETTERS
from forgetwatch.readers.log import Log, Reading
from forgetwatch.readers.table import parquet_schema
from forgetwatch.snapshot import Snapshot

Row = Mapping[str, Any]
Answers = Iterator[dict[str, Any]]
"""Answers in a row, as the arguments of `Log.add` without the task."""

_MISREAD: Final = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Declaration of the logs of one tool.

    Attributes:
        name: Name of the tool.
        starts: Names that the first object of a file has.
        has: Paths of fields that the first row has.
        answers: Function from a row to its answers.
        within: Path of the rows within the document; None for a table.
        files: Pattern of the files in a folder; empty if only files are read.
        place: Groups ``task`` and ``model`` in the path of a file.
        model: Path of the field that names the model in each row.
        repeats: True if rows with one id are samples.
        step: Path of the field that holds the step of a training.
    """

    name: str
    starts: frozenset[str]
    has: tuple[str, ...]
    answers: Callable[[Row], Answers]
    within: str | None = None
    files: str = ""
    place: str = ""
    model: str = ""
    repeats: bool = False
    step: str = ""

    def rows(self, path: Path) -> Iterator[Row]:
        """Yield the rows of a file."""
        yield from read_rows(path, self.within)


def _first(row: Row, *paths: str) -> Any:
    # The first of these fields that the row has.
    return next(
        (value for path in paths if (value := value_at(row, path)) not in (ABSENT, None)), None
    )


def _id(row: Row, *paths: str) -> str | None:
    item_id = _first(row, *paths)
    return None if item_id is None else str(item_id)


def _text(value: Any) -> str | None:
    # A text, or the first text of a list.
    while isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else None


def _evalscope(row: Row) -> Answers:
    # The messages have an id of their own in each run.
    prompts = [
        message["content"]
        for message in row.get("messages") or ()
        if message.get("role") != "assistant"
    ]
    are_texts = prompts and all(isinstance(prompt, str) for prompt in prompts)
    yield {
        "item_id": _id(row, "sample_score.group_id", "sample_score.sample_id", "index"),
        "question": [
            "\n\n".join(prompts) if are_texts else prompts or row.get("input"),
            row.get("target"),
        ],
        "metrics": row["sample_score"]["score"]["value"],
        "output": _first(row, "sample_score.score.prediction"),
    }


def _opencompass(row: Row) -> Answers:
    right = _first(row, "correct", "is_correct")
    for sample, value in enumerate(right if isinstance(right, list) else [right]):
        yield {
            "item_id": _id(row, "example_abbr", "key"),
            "question": [
                _first(row, "prompt", "origin_prompt", "key"),
                _first(row, "references", "gold", "answer", "refr"),
            ],
            "metrics": {"correct": value},
            "output": _text(_first(row, "predictions", "prediction", "pred")),
            "sample": sample,
        }


def _helm(row: Row) -> Answers:
    changed = _first(row, "perturbation.name")
    name = str(row["instance_id"])
    yield {
        "item_id": name if changed is None else f"{name} {changed}",
        "question": row.get("input") or [name, changed],
        "metrics": {stat["name"]["name"]: stat.get("mean") for stat in row["stats"]},
        "sample": int(row.get("train_trial_index") or 0),
    }


def _olmes(row: Row) -> Answers:
    yield {
        "item_id": str(row["doc_id"]),
        "question": [row.get("doc"), _first(row, "native_id"), row.get("label")],
        "metrics": row["metrics"],
        "output": _first(row, "model_output.0.continuation"),
    }


def _evalplus(row: Row) -> Answers:
    passed = {name: row.get(f"{name}_status") for name in ("plus", "base")}
    right = {name: status == "pass" for name, status in passed.items() if status is not None}
    if "plus" in right:
        right["plus"] = all(right.values())  # its tests are those of the base and more
    yield {
        "item_id": row["key"],
        "question": row["key"],
        "metrics": right,
        "output": _text(row.get("solution")),
        "sample": int(row["sample"]),
    }


def _code(row: Row) -> Answers:
    yield {
        "item_id": str(row["task_id"]),
        "question": str(row["task_id"]),
        "metrics": {"passed": row["passed"]},
        "output": _text(row.get("completion")),
    }


def _mmlu_pro(row: Row) -> Answers:
    options, key, pred = row.get("options") or (), str(row["answer"]), row.get("pred")
    indices = [LETTERS.find(str(mark)) for mark in (key, pred)]
    gold, chosen = (index if 0 <= index < len(options) else None for index in indices)
    yield {
        "item_id": str(row["question_id"]),
        "question": [row["question"], key, *([options] if options else ())],
        "metrics": {} if pred is None else {"pred": str(pred) == key},
        "unscored": "no answer was found in the output" if pred is None else None,
        "category": row.get("category"),
        "output": _text(_first(row, "model_outputs", "generated_text")),
        **({"k": len(options), "gold": gold, "chosen": chosen} if gold is not None else {}),
    }


def _promptfoo(row: Row) -> Answers:
    failed = row.get("failureReason") == 2  # an error of the provider, not of the answer
    yield {
        "item_id": "/".join(str(row[name]) for name in ("testIdx", "promptIdx") if name in row),
        "question": [row.get("vars"), _first(row, "prompt.label", "prompt.raw")],
        "metrics": {"success": row["success"], "score": row.get("score")},
        "unscored": f"error: {' '.join(str(row.get('error')).split())[:80]}" if failed else None,
        "output": _text(_first(row, "response.output")),
    }


_QUESTIONS: Final = ("input_prompt", "input", "prompt", "question", "messages", "turns", "content")
_OUTPUTS: Final = ("output_response", "output", "completion", "response", "predict")
_GOLDS: Final = (
    *("gts", "ground_truth", "env_extras.reward_spec.ground_truth", "gold_answer"),
    *("answer", "labels", "label"),
)
_OUTCOMES: Final = {
    **{name: name for name in ("acc", "correct", "score", "reward")},
    **{"rewards": "reward", "metrics.correct": "correct"},
}
"""Fields of answers that trainings write, and the names of metrics."""

_NO_OUTCOMES: Final = frozenset(
    ("step", "advantage", "idx", "index", "seqlen", "prompt_len", "sample_idx", "uid")
)


def _rollout(row: Row) -> Answers:
    # Questions pair by their text: the order of rows is not stable, and ids count rows.
    question, gold, output = (_first(row, *names) for names in (_QUESTIONS, _GOLDS, _OUTPUTS))
    if isinstance(question, list) and question and isinstance(question[0], list):
        question = question[0]
    if isinstance(question, list):  # what follows the first answer depends on it
        roles = [turn["role"] for turn in question]
        first = roles.index("assistant") if "assistant" in roles else len(roles)
        output = question[-1].get("content") if output is None and first < len(roles) else output
        question = [turn["content"] for turn in question[:first]]
    if isinstance(output, list):
        output = output[-1].get("content")
    metrics = {
        name: value
        for path, name in _OUTCOMES.items()
        if not isinstance(value := _first(row, path), dict | None)
    }
    # A reward for each token.
    metrics = {name: sum(v) if isinstance(v, list) else v for name, v in metrics.items()}
    if not metrics:  # reward functions have names of their own
        numbers = {name: value for name, value in row.items() if isinstance(value, (int, float))}
        metrics = {name: value for name, value in numbers.items() if name not in _NO_OUTCOMES}
    if not metrics and isinstance(gold, str):
        metrics = {"exact_match": normalise(str(output)) == normalise(gold)}
    yield {
        "item_id": None,
        "question": [question, gold],
        "metrics": metrics,
        "category": _text(_first(row, "data_source", "benchmark", "task")),
        "output": _text(output),
        "unscored": "error" if isinstance(row.get("error"), str) else None,
    }


DUMPS: Final = {
    "verl": ("input", "output", "score"),
    "NeMo RL": ("content", "rewards"),
    "SkyRL": ("input_prompt", "output_response", "score"),
    "AReaL": ("prompt", "completion", "reward", "head_version"),
    "verifiers, prime-rl": ("prompt", "completion", "reward"),
    "a rollout": ("prompt", "response", "reward"),
    "TRL": ("prompt", "completion", "advantage"),
    "ms-swift": ("response", "labels", "messages"),
    "LLaMA-Factory": ("prompt", "predict", "label"),
    "Tinker": ("turns", "reward"),
    "ART": ("messages", "reward"),
    "Atropos": ("messages", "question", "score"),
}
"""Fields of the answers that trainings write, by the tool."""

TOOLS: Final = (
    Tool(
        name="EvalScope",
        starts=frozenset({"index", "sample_score"}),
        has=("sample_score.score.value",),
        answers=_evalscope,
        files="reviews/*/*.jsonl",
        place=r"reviews/(?P<model>[^/]+)/(?P<task>[^/]+)\.jsonl",
        repeats=True,
    ),
    *(
        Tool(
            name="OpenCompass",
            starts=frozenset({"details"}),
            has=(right,),
            answers=_opencompass,
            within="details",
            files="results/*/*.json",
            place=r"results/(?P<model>[^/]+)/(?P<task>[^/]+)\.json",
        )
        for right in ("correct", "is_correct")
    ),
    Tool(
        name="HELM",
        starts=frozenset({"instance_id", "stats"}),
        has=("stats.0.name.name",),
        answers=_helm,
        files="per_instance_stats.json",
        place=r"(?P<task>[^/]*?),?model=(?P<model>[^/,]+)[^/]*/per_instance_stats\.json",
    ),
    Tool(
        name="OLMES",
        starts=frozenset({"doc_id", "metrics", "model_output"}),
        has=("metrics",),
        answers=_olmes,
        files="task-*-predictions.jsonl",
        place=r"task-(?:\d+-)?(?P<task>[^/]+)-predictions\.jsonl",
    ),
    Tool(
        name="EvalPlus",
        starts=frozenset({"eval"}),
        has=("base_status",),
        answers=_evalplus,
        within="eval",
    ),
    Tool(
        name="human-eval",
        starts=frozenset({"task_id", "completion", "passed"}),
        has=("passed",),
        answers=_code,
        repeats=True,
    ),
    Tool(
        name="MMLU-Pro",
        starts=frozenset({"question_id", "question", "answer", "pred"}),
        has=("answer",),
        answers=_mmlu_pro,
    ),
    Tool(
        name="promptfoo",
        starts=frozenset({"results"}),
        has=("success", "vars"),
        answers=_promptfoo,
        within="results.results",
        model="provider.id",
        repeats=True,
    ),
    *(
        Tool(
            name=name,
            starts=frozenset(fields),
            has=(),
            answers=_rollout,
            repeats=True,
            step="head_version" if name == "AReaL" else "step",
        )
        for name, fields in DUMPS.items()
    ),
)
"""Declarations in the order in which they are tried."""

PATTERNS: Final = ", ".join(dict.fromkeys(tool.files for tool in TOOLS if tool.files))
"""Patterns of the files in the folders that are read."""


def find_tool(path: Path) -> Tool | None:
    """Find the tool that wrote a file or the files of a folder.

    Returns:
        The tool, or None.
    """
    if path.is_dir():
        for tool in TOOLS:
            if (files := _files(path, tool)) and find_tool(files[0]) is not None:
                return find_tool(files[0])
        return None
    schema = parquet_schema(path)
    if schema is None and not begins_json(read_head(path)):
        return None
    names = set(schema.names) if schema is not None else first_object(path).keys()
    if {"item_id", "correct"} <= names:
        return None  # a table of our own may have more columns
    return next((tool for tool in TOOLS if tool.starts <= names and _is_of(path, tool)), None)


def _is_of(path: Path, tool: Tool) -> bool:
    try:
        row = next(tool.rows(path), {})
    except SnapshotError:
        return False
    return all(value_at(row, field) is not ABSENT for field in tool.has)


def _files(folder: Path, tool: Tool) -> list[Path]:
    return sorted(folder.rglob(tool.files)) if tool.files else []


def recognises(path: Path) -> bool:
    """Is a file, or a folder of files, from a known tool?"""
    return find_tool(path) is not None


def is_dump(path: Path) -> bool:
    """Did a training write the answers in a file?"""
    return (tool := find_tool(path)) is not None and tool.name in DUMPS


def read(path: Path, reading: Reading) -> Snapshot:
    """Read the outcomes in a file or folder of a known tool."""
    tool = find_tool(path)
    if tool is None:
        raise SnapshotError(
            f"{path}: needed a log of {', '.join(dict.fromkeys(tool.name for tool in TOOLS))}"
        )
    files = _files(path, tool) if path.is_dir() else [path]
    (log, models) = _read(path, tool, files, reading)[0]
    if len(models) > 1:
        remedy = (
            f"; `forgetwatch convert` with --where {tool.model}=MODEL takes one"
            if tool.model
            else ""
        )
        raise SnapshotError(
            f"{path}: needed the log of one model, got {len(models)}: "
            f"{some_of(sorted(models), 5)}{remedy}"
        )
    return log.snapshot(log.metric(reading.metric), {"model": min(models)} if models else {})


def read_steps(files: Sequence[Path], reading: Reading, column: str = "") -> dict[int, Snapshot]:
    """Read the rows of many steps.

    Args:
        files: The files.
        reading: Options.
        column: Path of the field that holds the step; empty for that of the tool.

    Returns:
        Outcomes by step; empty if no file is of a training.
    """
    steps: dict[int, Snapshot] = {}
    for path in files:
        tool = find_tool(path)
        if tool is None and column:
            tool = Tool(name="a table", starts=frozenset(), has=(), answers=_rollout, repeats=True)
        if tool is not None and (column or tool.step):
            logs = _read(path, tool, [path], reading, step=column or tool.step)
            steps |= {
                step: log.snapshot(log.metric(reading.metric), {})
                for step, (log, _) in logs.items()
            }
    return steps


def _read(
    path: Path, tool: Tool, files: Sequence[Path], reading: Reading, *, step: str = ""
) -> dict[int, tuple[Log, set[str]]]:
    # The log and the names of the models, by step; 0 for all rows without the field of one.
    logs: dict[int, tuple[Log, set[str]]] = (
        {} if step else {0: (Log(path, tool.name, reading), set())}
    )
    places = [
        re.search(tool.place, file.absolute().as_posix()) if tool.place else None for file in files
    ]
    groups = [match.groupdict() if match else {} for match in places]
    by_task = {group.get("task", ""): file for group, file in zip(groups, files, strict=True)}
    times = Counter[tuple[int, str, str]]()
    for number, (task, file) in enumerate(by_task.items(), start=1):
        beside = _beside(file) if tool.name == "HELM" else {}
        for at, row in enumerate(tool.rows(file), start=1):
            reason = reading.rule.unscored_reason(row)
            try:
                if step and step not in row:
                    raise SnapshotError(
                        f"{file}, row {at}: needed the step in {step!r}; there are {', '.join(row)}"
                    )
                of_step = int(row[step]) if step else 0
                if of_step not in logs:
                    logs[of_step] = Log(path, tool.name, reading), set()
                log, models = logs[of_step]
                models |= (
                    {model} if (model := _text(_first(row, tool.model))) is not None else set()
                )
                full_row = {**row, "input": beside.get(_place_of(row))} if beside else row
                for answer in tool.answers(full_row):
                    answer["unscored"] = reason or answer.get("unscored")
                    if tool.repeats:
                        name = answer["item_id"] or json.dumps(answer["question"], sort_keys=True)
                        answer["sample"] = times[of_step, task, name]
                        times[of_step, task, name] += 1
                    log.add(task=task, **answer)
            except _MISREAD as error:
                raise SnapshotError(
                    f"{file}, row {at}: not a row of {tool.name} ({error!r:.120})"
                ) from error
        reading.report(number, len(by_task))
    for _, models in logs.values():
        models |= {group["model"] for group in groups if "model" in group}
    return logs


def _beside(file: Path) -> dict[tuple[Any, Any], Any]:
    # Keys are instance and perturbation; the file is beside the statistics.
    instances = file.with_name("instances.json")
    return (
        {_place_of(row): row.get("input") for row in read_rows(instances)}
        if instances.is_file()
        else {}
    )


def _place_of(row: Row) -> tuple[Any, Any]:
    return _first(row, "instance_id", "id"), _first(row, "perturbation.name")

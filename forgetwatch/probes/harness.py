"""Tasks of lm-evaluation-harness as probes, made and graded by the harness's own task objects: `lm_eval:TASK`.

    lm_eval:arc_easy          a task of multiple choice; decided by `acc`, the sum of log-likelihoods
    lm_eval:mmlu              a group or a tag: its tasks interleaved, so that every prefix is a fair sample
    norm="chars"              decided as `acc_norm` is; "bytes" as `acc_bytes`
    lm_eval:gsm8k             a task of generated answers; the task's own filters and metric decide, if it is 1 or 0
    lm_eval:gsm8k,drop        several names
    paper                     the paper's benchmarks that the harness has, see `PAPER`

The harness renders the question, the options and the worked examples, which its own sampler draws
with its own seed. An item's id is the index of the document, as `doc_id` in the harness's logs.
Rows come from the hub, or from a folder:

    data/test.jsonl           one file of JSON lines a split, as the task names its splits
    data/arc_easy/test.jsonl  the same of one task of a group

An item of generated answers has the match ``lm_eval:TASK:METRIC,FILTER``, and its document in
`meta`: whoever grades an answer later needs the harness and no data. Answers are decoded greedily,
up to the task's own stop texts. The task of an item that a file holds loads no module and looks
nothing up, unless the user names it: as a probe, or in `NAMED`.

Tasks that run a model's code, that ask a question several times, that decide multiple choice by a
function of their own, or whose options vary the question are refused with the reason, or left out
of a group with a warning. A document whose right option is not among its options is left out, with
a warning.
"""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError, did_you_mean, some_of
from forgetwatch.extras import install
from forgetwatch.item import Item
from forgetwatch.probe import Norm, Probe
from forgetwatch.probes.categories import paper_category
from forgetwatch.probes.shipped_probes import interleave

PREFIX: Final = "lm_eval:"
"""Beginning of the names of the harness's tasks, and of the matches that they grade."""

CORRECTNESS: Final = (
    "acc",
    "exact_match",
    "em",
    "acc_norm",
    "acc_bytes",
    "prompt_level_strict_acc",
    "prompt_level_loose_acc",
    "pass@1",
    "extractive_match",
    "quasi_exact_match",
    "mc1",
    "loglikelihood_acc",
    "bleu_acc",
    "rouge1_acc",
)
"""Metric by which an answer is right if none is named: the first of these that there is, else the first of all."""

PAPER: Final = (
    "mmlu",
    "leaderboard_bbh",
    "gpqa_diamond_zeroshot",
    "leaderboard_musr",
    "arc_easy",
    "arc_challenge",
    "hellaswag",
    "truthfulqa_mc1",
    "social_iqa",
    "piqa",
    "commonsense_qa",
    "ifeval",
)
"""Benchmarks of arXiv 2510.17776 that the harness has; it has neither SaladBench nor MCTest."""

NAMED: Final = "FORGETWATCH_TASKS"
"""Environment variable with the tasks, separated by commas, whose code a file may have loaded."""

_SEED: Final = 1234
"""Seed with which the harness draws worked examples."""

_TOKENS: Final = 256
"""Tokens of an answer where a task names no number, as in the harness."""


def is_harness_name(name: str) -> bool:
    """Does the name begin with ``lm_eval:``, or is it ``paper``?"""
    return name.startswith(PREFIX) or name == "paper"


def is_installed() -> bool:
    """Can the harness be imported?"""
    return find_spec("lm_eval") is not None


def harness_probe(
    name: str,
    *,
    data: str | Path | None = None,
    norm: Norm = "sum",
    shots: int | None = None,
    limit: int | None = None,
    metric: str | None = None,
) -> Probe:
    """Make a probe of tasks, groups or tags of lm-evaluation-harness.

    Args:
        name: ``lm_eval:`` and the names in the harness, with commas between them; or ``paper``.
        data: A folder with a file of JSON lines for each split, in place of the hub.
        norm: Divisor of an option's log-likelihood; ``sum`` is the harness's `acc`, ``chars`` its
            `acc_norm`.
        shots: Worked examples before each question; None for the task's own number.
        limit: Maximum number of items.
        metric: Metric that decides generated answers, with or without its filter; by default see
            `CORRECTNESS`.

    Raises:
        ProbeError: If the harness is not installed, has no such task, cannot load its data, or no
            task can be a probe.
    """
    manager = _manager(name)
    wanted = PAPER if name == "paper" else tuple(name.removeprefix(PREFIX).split(","))
    for wanted_name in wanted:
        if wanted_name not in manager.task_index:
            near = did_you_mean(wanted_name, manager.all_tasks)
            raise ProbeError(
                f"{name}: the harness has no task {wanted_name!r}{near or ';'} `lm_eval ls "
                "tasks` lists them"
            )
    if shots is not None and shots < 0:
        raise ProbeError(f"{name}: shots must be 0 or more, got {shots}")
    tasks = {str(task.config.task): task for task in _tasks(manager, name, wanted, data)}
    _NAMED.update(tasks)
    refused = {task_name: reason for task_name, task in tasks.items() if (reason := _refusal(task))}
    if refused:
        reasons = some_of(
            (f"the task {task_name} {reason}" for task_name, reason in refused.items()), 3
        )
        problem = f"{name}: {reasons}; a probe takes multiple choice decided by `acc`, and generated answers"
        if len(refused) == len(tasks):
            raise ProbeError(problem)
        warnings.warn(f"{problem}: left out", stacklevel=3)
    kept = {task_name: task for task_name, task in tasks.items() if task_name not in refused}
    items = [
        item
        for task in kept.values()
        for item in _items(task, name=name, shots=shots, metric=metric)
    ]
    lengths = [
        _generation(task).get("max_gen_toks", _TOKENS) for task in kept.values() if _generates(task)
    ]
    decoding = {"tokens": max(lengths)} if lengths else None
    return Probe(interleave(items)[:limit], name=name, norm=norm, decoding=decoding)


def harness_judge(item: Item) -> Callable[[str, Item], Any] | None:
    """The harness's own judgement of outputs to an item.

    Returns:
        A function of output and item; None for other items.

    Raises:
        ProbeError: If the harness is not installed, or cannot make the task from the item's
            document.
    """
    if item.match is None or not item.match.startswith(PREFIX):
        return None
    task_name, _, decides = item.match.removeprefix(PREFIX).partition(":")
    doc = item.meta.get("doc")
    if not isinstance(doc, Mapping):
        raise ProbeError(
            f"item {item.id!r}: match {item.match!r} needs the document under `doc` in its meta"
        )
    if task_name not in _TASKS:
        _TASKS[task_name] = _task_of(task_name, _Documents([doc]))
    task = _TASKS[task_name]

    def judge(output: str, _: Item) -> Any:
        return _judged(task, dict(doc), output).get(decides)

    return judge


def harness_stops(item: Item) -> tuple[str, ...]:
    """Texts that end a generated answer; none for other items."""
    stops = (
        item.meta.get("until", ())
        if item.match is not None and item.match.startswith(PREFIX)
        else ()
    )
    return (stops,) if isinstance(stops, str) else tuple(stops)


def _judged(task: Any, doc: Any, output: str) -> dict[str, Any]:
    # Names have the filter, as in the harness's results: ``exact_match,none``.
    from lm_eval.api.instance import Instance

    instance = Instance(
        request_type="generate_until", doc=doc, arguments=("", {}), idx=0, resps=[output]
    )
    metrics: dict[str, Any] = {}
    for of in task._filters:
        of.apply([instance])
        graded = task.process_results(doc, [instance.filtered_resps[of.name]])
        metrics |= {f"{name},{of.name}": value for name, value in graded.items()}
    return metrics


class _Documents(list[Any]):
    """Documents as the harness takes a split of a data set."""

    @property
    def features(self) -> dict[str, None]:
        return dict.fromkeys(self[0])


_TASKS: Final[dict[str, Any]] = {}
"""Tasks that grade, by name."""

_NAMED: Final = set[str]()
"""Tasks that were loaded as probes, by name."""


def _check_is_data(entry: Any, task_name: str) -> None:
    # The user has not named such a task. Nothing is imported.
    from lm_eval.api.registry import metric_registry
    from lm_eval.tasks._yaml_loader import load_yaml

    if getattr(entry, "yaml_path", None) is None or "TASK" not in entry.kind.name:
        raise ProbeError(f"{PREFIX}{task_name} is no single task of the harness")
    config: dict[str, Any] = load_yaml(entry.yaml_path, resolve_func=False)
    if config.get("unsafe_code"):
        raise ProbeError(f"{PREFIX}{task_name} runs code that a model wrote")
    metrics = config.get("metric_list") or ()
    is_foreign = any(
        metric.get("hf_evaluate") or metric["metric"] not in metric_registry for metric in metrics
    )
    # A function is the path of its module.
    has_code = is_foreign or any(map(os.path.isabs, json.dumps(config, default=str).split('"')))
    if has_code and task_name not in {*_NAMED, *os.environ.get(NAMED, "").split(",")}:
        raise ProbeError(
            f"{PREFIX}{task_name} loads Python code or a metric of another library, and only a "
            f"file names it; set {NAMED}={task_name} to allow it"
        )


def _task_of(task_name: str, docs: _Documents) -> Any:
    # It has some documents and no data set.
    manager = _manager(task_name)
    _check_is_data(manager.task_index.get(task_name), task_name)
    # A document was processed before it was stored, and no example is drawn.
    without = (
        "validation_split",
        "training_split",
        "fewshot_split",
        "fewshot_config",
        "process_docs",
        "dataset_kwargs",
    )
    spec: dict[str, Any] = {**dict.fromkeys(without), "test_split": "test", "num_fewshot": 0}
    spec |= {"task": task_name, "custom_dataset": lambda **_: {"test": docs}}
    (task,) = _loaded(manager, task_name, {"group": task_name, "task": [spec]})
    if reason := _refusal(task):  # a probe file may name any task
        raise ProbeError(f"{PREFIX}{task_name} {reason}")
    return task


def _manager(name: str) -> Any:
    try:
        return _index()
    except ImportError as error:
        raise ProbeError(f"{name}: needs lm-evaluation-harness: {install('lm_eval')}") from error


@cache
def _index() -> Any:
    # Reading the files takes seconds.
    from lm_eval.tasks import TaskManager

    return TaskManager()


def _tasks(manager: Any, name: str, wanted: Sequence[str], data: str | Path | None) -> list[Any]:
    leaves: list[Any] = list(wanted)
    if data is not None:  # a task takes settings of its own only as a member of a group
        leaves = [
            _with_data(spec, Path(data), name)
            for wanted_name in wanted
            for spec in _leaves(manager, wanted_name)
        ]
    elif len(wanted) == 1:
        return _loaded(manager, name, wanted[0])
    return _loaded(manager, name, {"group": name, "task": leaves})


def _loaded(manager: Any, name: str, spec: Any) -> list[Any]:
    with _quiet():
        try:
            return list(manager.load(spec)["tasks"].values())
        except (
            Exception
        ) as error:  # the harness raises what the hub's client and its task files raise
            line = " ".join(str(error).split())
            raise ProbeError(
                f"{name}: the harness cannot load it ({type(error).__name__}: {line[:200]}); with "
                "a network it is loaded from the hub, else data= (--data) names a folder with a "
                "JSONL file for each split"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    # The warnings are of the harness's own defaults.
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _leaves(manager: Any, name: str) -> list[dict[str, Any]]:
    # The name may be that of a task, a group or a tag.
    entry = manager.task_index[name]
    parts: Sequence[Any] = sorted(entry.tags) if entry.kind.name == "TAG" else ()
    if entry.kind.name == "GROUP":
        listed = (entry.cfg or {}).get("task") or ()
        parts = [listed] if isinstance(listed, str) else listed
    if not parts:
        return [{"task": name}]
    specs: list[dict[str, Any]] = []
    for member in parts:
        own: dict[str, Any] = dict(member) if isinstance(member, Mapping) else {"task": member}
        is_known_task = str(own.get("task")) in manager.task_index
        specs += (
            [{**spec, **own, "task": spec["task"]} for spec in _leaves(manager, own["task"])]
            if is_known_task
            else [own]
        )
    return specs


def _with_data(spec: Mapping[str, Any], folder: Path, name: str) -> dict[str, Any]:
    folder_of_task = folder / str(spec["task"])
    files = {
        file.stem: str(file)
        for file in sorted((folder_of_task if folder_of_task.is_dir() else folder).glob("*.jsonl"))
    }
    if not files:
        raise ProbeError(
            f"{name}: needed JSONL files in {folder}, one a split such as test.jsonl, and there "
            "are none"
        )
    return {
        **spec,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }


def _items(task: Any, *, name: str, shots: int | None, metric: str | None) -> list[Item]:
    # The sampler draws the worked examples in that order.
    task_name = str(task.config.task)
    count = int(task.config.num_fewshot or 0) if shots is None else shots
    task.set_fewshot_seed(seed=_SEED)
    items_made, wrong = list[Item](), list[str]()
    decides = _metric(task, name, metric) if _generates(task) else ""
    for number, doc in enumerate(task.eval_docs):
        context = task.fewshot_context(doc, num_fewshot=count, gen_prefix=task.doc_to_prefix(doc))
        question = str(task.doc_to_text(doc))
        at = max(context.rfind(question) if question else len(context), 0)
        settings: dict[str, Any] = {
            "id": str(number),
            "task": task_name,
            "prompt": context[at:],
            "shots": context[:at],
        }
        settings["category"] = paper_category(
            task_name.removeprefix("leaderboard_").removesuffix("_zeroshot")
        )
        if _generates(task):
            items_made.append(_open_item(task, doc, settings, decides))
            continue
        # The harness may score the options a second time without the question: those requests come
        # last.
        k = len(task.doc_to_choice(doc))
        requests = [request.args[:2] for request in task.construct_requests(doc=doc, ctx=context)][
            :k
        ]
        answer = _answer(task, doc)
        if answer is None or not all(0 <= index < k for index in answer):
            wrong.append(
                f"document {number} has the target {task.doc_to_target(doc)!r:.40} of {k} options"
            )
            continue
        choices = [continuation for _, continuation in requests]
        items_made.append(
            Item(**settings, choices=choices, answer=answer if len(answer) > 1 else answer[0])
        )
    if wrong:
        warnings.warn(
            f"{name}: {len(wrong):,} document{'s' if len(wrong) > 1 else ''} of {task_name} "
            f"left out: {wrong[0]}",
            stacklevel=4,
        )
    return items_made


def _open_item(task: Any, doc: Any, settings: Mapping[str, Any], decides: str) -> Item:
    target = task.doc_to_target(doc)
    try:
        stored = json.loads(json.dumps(doc))
    except (TypeError, ValueError) as error:
        raise ProbeError(
            f"{settings['task']}: document {settings['id']} cannot be stored as JSON: {error}"
        ) from error
    answers = (
        [str(target_text) for target_text in target]
        if isinstance(target, list) and target
        else str(target)
    )
    meta = {"doc": stored, "until": _generation(task).get("until", [])}
    return Item(
        **settings, answer=answers, match=f"{PREFIX}{settings['task']}:{decides}", meta=meta
    )


def _metric(task: Any, name: str, wanted: str | None) -> str:
    rank = {metric: number for number, metric in enumerate(CORRECTNESS)}
    better = [name for name, is_higher in task.higher_is_better().items() if is_higher is not False]
    metrics = sorted(better, key=lambda metric: rank.get(metric, len(rank)))
    full = [f"{metric},{of.name}" for metric in metrics for of in task._filters]
    chosen = next(
        (metric for metric in full if wanted in (None, metric, metric.partition(",")[0])), None
    )
    if chosen is None:
        raise ProbeError(
            f"{name}: the task {task.config.task} has no metric {wanted!r}; it has "
            f"{', '.join(full)}"
        )
    return chosen


def _generates(task: Any) -> bool:
    return str(task.OUTPUT_TYPE) == "generate_until"


def _generation(task: Any) -> Mapping[str, Any]:
    return task.config.generation_kwargs or {}


def _refusal(task: Any) -> str:
    if task.config.doc_to_image or task.config.doc_to_audio:
        return "shows pictures or plays sound"
    if _generates(task):
        if getattr(task, "UNSAFE_CODE", False):
            return "runs code that a model wrote"
        return (
            f"asks each question {task.config.repeats} times"
            if (task.config.repeats or 1) > 1
            else ""
        )
    if str(task.OUTPUT_TYPE) != "multiple_choice":
        return f"has the output type {task.OUTPUT_TYPE}"
    if callable(task.config.process_results):
        return "decides by a function of its own"
    return "varies the question by option" if task.multiple_input else ""


def _answer(task: Any, doc: Any) -> tuple[int, ...] | None:
    # The harness's `acc` counts these options as right.
    target = task.doc_to_target(doc)
    choices = list(task.doc_to_choice(doc))
    targets = target if isinstance(target, list) else [target]
    indices = [
        choices.index(target) if isinstance(target, str) and target in choices else target
        for target in targets
    ]
    return tuple(indices) if indices and all(isinstance(index, int) for index in indices) else None

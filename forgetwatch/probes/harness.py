"""Tasks of lm-evaluation-harness as probes, made by the harness's own task objects: `lm_eval:TASK`.

    lm_eval:arc_easy          a task; its items are decided by `acc`, the sum of log-likelihoods
    lm_eval:mmlu              a group or a tag: its tasks interleaved, so that every prefix is a fair sample
    norm="chars"              decided as `acc_norm` is; "bytes" as `acc_bytes`

The harness renders the question, the options and the worked examples, which its own sampler draws with its own seed.
An item's id is the index of the document, as `doc_id` in the harness's logs. Rows come from the hub, or from a folder:

    data/test.jsonl           one file of JSON lines a split, as the task names its splits
    data/arc_easy/test.jsonl  the same of one task of a group

Tasks of multiple choice are probes. Those that generate answers, that decide by a function of their own, or whose
options vary the question are refused with the reason, or left out of a group with a warning. A document whose right
option is not among its options is left out, with a warning.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.extras import install
from forgetwatch.item import Item
from forgetwatch.probe import Norm, Probe
from forgetwatch.probes.categories import paper_category
from forgetwatch.probes.order import interleave

PREFIX: Final = "lm_eval:"
"""Beginning of the names of the harness's tasks."""

_SEED: Final = 1234
"""Seed with which the harness draws worked examples."""


def is_harness_task(name: str) -> bool:
    """Return whether a name is that of a task of the harness."""
    return name.startswith(PREFIX)


def harness_probe(
    name: str, *, data: str | Path | None = None, norm: Norm = "sum", shots: int | None = None, limit: int | None = None
) -> Probe:
    """Make a probe of a task, a group or a tag of lm-evaluation-harness.

    Args:
        name: ``lm_eval:`` and the name in the harness.
        data: A folder with a file of JSON lines for each split, in place of the hub.
        norm: Divisor of an option's log-likelihood; ``sum`` is the harness's `acc`, ``chars`` its `acc_norm`.
        shots: Worked examples before each question; None for the task's own number.
        limit: Maximum number of items.

    Raises:
        ProbeError: If the harness is not installed, has no such task, cannot load its data, or the task is not one of
            multiple choice.
    """
    try:
        manager = _manager()
    except ImportError as error:
        raise ProbeError(f"{name}: needs lm-evaluation-harness: {install('lm_eval')}") from error
    wanted = name.removeprefix(PREFIX)
    if wanted not in manager.task_index:
        near = did_you_mean(wanted, manager.all_tasks)
        raise ProbeError(f"{name}: the harness has no task {wanted!r}{near or ';'} `lm_eval ls tasks` lists them")
    if shots is not None and shots < 0:
        raise ProbeError(f"{name}: shots must be 0 or more, got {shots}")
    tasks = {str(task.config.task): task for task in _tasks(manager, name, wanted, data)}
    refused = {own: reason for own, task in tasks.items() if (reason := _refusal(task))}
    if refused:
        shown = ", ".join(f"the task {own} {reason}" for own, reason in list(refused.items())[:3])
        more = f", and {len(refused) - 3} more" if len(refused) > 3 else ""
        problem = f"{name}: {shown}{more}; a probe takes tasks of multiple choice, decided by `acc`"
        if len(refused) == len(tasks):
            raise ProbeError(problem)
        warnings.warn(f"{problem}: left out", stacklevel=3)
    items = [item for own, task in tasks.items() if own not in refused for item in _items(task, name=name, shots=shots)]
    return Probe(interleave(items)[:limit], name=name, norm=norm)


@cache
def _manager() -> Any:
    """Return the index of the harness's tasks; reading its files takes seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager()


def _tasks(manager: Any, name: str, wanted: str, data: str | Path | None) -> list[Any]:
    """Return the task objects of a name, with their data."""
    spec: Any = wanted
    if data is not None:  # a task takes settings of its own only as a member of a group
        spec = {"group": name, "task": [_with_data(own, Path(data), name) for own in _leaves(manager, wanted)]}
    # The harness warns of its own defaults.
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return list(manager.load(spec)["tasks"].values())
    except Exception as error:  # the harness raises what the hub's client and its task files raise
        line = " ".join(str(error).split())
        raise ProbeError(
            f"{name}: the harness cannot load it ({type(error).__name__}: {line[:200]}); with a network it is loaded "
            "from the hub, else data= (--data) names a folder with a JSONL file for each split"
        ) from error
    finally:
        logger.setLevel(before)


def _leaves(manager: Any, name: str) -> list[dict[str, Any]]:
    """Return the specifications of all tasks of a task, a group or a tag."""
    entry = manager.task_index[name]
    parts: Sequence[Any] = sorted(entry.tags) if entry.kind.name == "TAG" else ()
    if entry.kind.name == "GROUP":
        listed = (entry.cfg or {}).get("task") or ()
        parts = [listed] if isinstance(listed, str) else listed
    if not parts:
        return [{"task": name}]
    found: list[dict[str, Any]] = []
    for part in parts:
        own: dict[str, Any] = dict(part) if isinstance(part, Mapping) else {"task": part}
        known = str(own.get("task")) in manager.task_index
        found += [{**spec, **own, "task": spec["task"]} for spec in _leaves(manager, own["task"])] if known else [own]
    return found


def _with_data(spec: Mapping[str, Any], folder: Path, name: str) -> dict[str, Any]:
    """Return the specification of a task whose data are the files of a folder."""
    own = folder / str(spec["task"])
    files = {file.stem: str(file) for file in sorted((own if own.is_dir() else folder).glob("*.jsonl"))}
    if not files:
        raise ProbeError(f"{name}: needed JSONL files in {folder}, one a split such as test.jsonl, and there are none")
    return {**spec, "dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files}}


def _items(task: Any, *, name: str, shots: int | None) -> list[Item]:
    """Return the items of a task, in the order of its documents.

    Its sampler draws the worked examples in that order.
    """
    own = str(task.config.task)
    count = int(task.config.num_fewshot or 0) if shots is None else shots
    task.set_fewshot_seed(seed=_SEED)
    made, wrong = list[Item](), list[str]()
    for number, doc in enumerate(task.eval_docs):
        context = task.fewshot_context(doc, num_fewshot=count, gen_prefix=task.doc_to_prefix(doc))
        # The harness may score the options a second time without the question: those requests come last.
        k = len(task.doc_to_choice(doc))
        requests = [request.args[:2] for request in task.construct_requests(doc=doc, ctx=context)][:k]
        answer = _answer(task, doc)
        if answer is None or not all(0 <= index < k for index in answer):
            wrong.append(f"document {number} has the target {task.doc_to_target(doc)!r:.40} of {k} options")
            continue
        question = str(task.doc_to_text(doc))
        at = context.rfind(question) if question else len(context)
        made.append(
            Item(
                id=str(number),
                task=own,
                category=paper_category(own),
                prompt=context[max(at, 0) :],
                shots=context[: max(at, 0)],
                choices=[continuation for _, continuation in requests],
                answer=answer if len(answer) > 1 else answer[0],
            )
        )
    if wrong:
        warnings.warn(
            f"{name}: {len(wrong):,} document{'s' if len(wrong) > 1 else ''} of {own} left out: {wrong[0]}",
            stacklevel=4,
        )
    return made


def _refusal(task: Any) -> str:
    if str(task.OUTPUT_TYPE) != "multiple_choice":
        return f"has the output type {task.OUTPUT_TYPE}"
    if callable(task.config.process_results):
        return "decides by a function of its own"
    if task.multiple_input:
        return "varies the question by option"
    return "shows pictures or plays sound" if task.config.doc_to_image or task.config.doc_to_audio else ""


def _answer(task: Any, doc: Any) -> tuple[int, ...] | None:
    """Return the right options of a document, as the harness's `acc` counts them."""
    target = task.doc_to_target(doc)
    choices = list(task.doc_to_choice(doc))
    named = target if isinstance(target, list) else [target]
    indices = [choices.index(one) if isinstance(one, str) and one in choices else one for one in named]
    return tuple(indices) if indices and all(isinstance(index, int) for index in indices) else None

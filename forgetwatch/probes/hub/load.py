"""Presets by name to probes: find the preset, read its rows, make its items, put them in their order.

Items are ordered so that every beginning of the probe is a fair sample of its tasks: within a task by content hash,
tasks interleaved by their size. A run that can afford only the first 500 items sees all tasks. Rows that are no
question are left out and counted; a shape that the loader does not know is an error.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.item import PRIVATE, Item
from forgetwatch.probe import Probe
from forgetwatch.probes.categories import paper_category
from forgetwatch.probes.few_shot import few_shot
from forgetwatch.probes.hub.names import Named, named
from forgetwatch.probes.hub.preset import FORMS, Form, Preset, Source
from forgetwatch.probes.hub.question import BadRowError, Question
from forgetwatch.probes.hub.rows import rows_of

_SHOTS: Final = 5
"""Worked examples of the form for base models."""

_POOL: Final = 512
"""Rows that are read of a split with worked examples."""

_OWN: Final = 64
"""Examples of a task from which those of an item are drawn."""


@dataclass(frozen=True)
class Loaded:
    """A probe, and what was left out of it: one sentence a reason."""

    probe: Probe
    left_out: tuple[str, ...]


def load_preset(
    name: str,
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    shots: int | None = None,
    limit: int | None = None,
) -> Probe:
    """The probe of a preset's name, ``NAME[:PART[+PART ...]][:FORM]``; what had to be left out is a warning.

    Args:
        name: Such as ``mmlu``, ``bbh:navigate`` or ``arc_easy:cot``.
        root: A folder with copies of the data sets under their ids, in place of the hub.
        revision: Revision of the data sets.
        shots: Worked examples before each question; by default 5 in the form for base models, else none.
        limit: Only so many items: a fair sample of the tasks.

    Raises:
        ProbeError: If there is no such preset, or its data cannot be read.
    """
    loaded = read_preset(name, root=root, revision=revision, shots=shots, limit=limit)
    for line in loaded.left_out:
        warnings.warn(f"{name}: {line}", stacklevel=3)
    return loaded.probe


def read_preset(
    name: str,
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    shots: int | None = None,
    limit: int | None = None,
) -> Loaded:
    """The same, with what was left out."""
    if limit is not None and limit < 1:
        raise ProbeError(f"{name}: limit must be at least 1 item, got {limit}")
    if shots is not None and shots < 0:
        raise ProbeError(f"{name}: shots must be 0 or more, got {shots}")
    wanted = named(name)
    count = shots if shots is not None else _SHOTS if wanted.form == "base" else 0
    read = _Read(form=wanted.form, root=root, revision=revision)
    pairs = [(preset, source) for preset, part in wanted.presets for source in preset.chosen(part)]
    made = [(preset, source, read.questions(preset, source)) for preset, source in pairs]
    items: list[tuple[Item, str]] = []
    for preset, source, questions in made:
        items += read.items(preset, source, questions)
    chosen = spread([item for item, _ in items])[:limit]
    headers = {(item.task, item.id): header for item, header in items}
    probe = Probe(chosen, name=name, **_settings(wanted, chosen))
    if count:
        examples = [item for preset, source, _ in made for item in read.examples(preset, source)]
        own = {item.task for item in examples}
        examples += [item for item, _ in items if item.task not in own]
        probe = _with_examples(probe, examples, count)
    if wanted.form == "scored":
        shown = (replace(item, prompt=headers[item.task, item.id] + str(item.prompt)) for item in probe)
        probe = replace(probe, items=tuple(shown))
    return Loaded(probe, tuple(read.left_out()))


def spread(items: Sequence[Item]) -> list[Item]:
    """The items in an order whose every beginning is a fair sample of the tasks."""
    of_task: dict[str, list[Item]] = {}
    for item in items:
        of_task.setdefault(item.task, []).append(item)
    placed = [
        ((rank + 0.5) / len(own), task, item)
        for task, own in of_task.items()
        for rank, item in enumerate(sorted(own, key=lambda item: (item.content_hash, item.id)))
    ]
    return [item for _, _, item in sorted(placed, key=lambda one: one[:2])]


def _settings(wanted: Named, items: Sequence[Item]) -> dict[str, Any]:
    settings: dict[str, Any] = dict(FORMS[wanted.form][1])
    if wanted.form == "scored":
        settings["norm"] = wanted.norm
        if any(not item.choices for item in items):
            settings["decoding"] = wanted.written
    return settings


def _with_examples(probe: Probe, examples: Sequence[Item], shots: int) -> Probe:
    """Few-shot prompts, task by task; instructions are asked as they are."""
    of_task: dict[str, list[Item]] = {}
    for item in probe:
        of_task.setdefault(item.task, []).append(item)
    shown: dict[tuple[str, str], Item] = {}
    for task, items in of_task.items():
        if items[0].match == "instructions":
            continue
        own = [item for item in examples if item.task == task][:_OWN]
        asked = few_shot(replace(probe, items=tuple(items), decoding=_decoding(probe, items)), own, shots=shots)
        shown |= {(item.task, item.id): item for item in asked}
    return replace(probe, items=tuple(shown.get((item.task, item.id), item) for item in probe))


def _decoding(probe: Probe, items: Sequence[Item]) -> Any:
    return probe.decoding if any(probe.is_written(item) for item in items) else None


class _Read:
    """Rows read to questions and items, with a count of what was left out."""

    def __init__(self, *, form: Form, root: str | Path | None, revision: str | None) -> None:
        self._form = form
        self._root = root
        self._revision = revision
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._names: Counter[tuple[str, str]] = Counter()

    def questions(
        self, preset: Preset, source: Source, *, split: str | None = None, most: int | None = None
    ) -> list[tuple[str, Question]]:
        """The questions of a split, each with its name; at most so many rows."""
        found: list[tuple[str, Question]] = []
        last, where = "", str(replace(source, split=split or source.split))
        for number, row in enumerate(rows_of(source, split=split, root=self._root, revision=self._revision)):
            if most is not None and len(found) >= most:
                break
            try:
                question = preset.question(row, source)
            except BadRowError as error:
                last = str(error)
                self._skipped[where, last] += 1
                continue
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                raise ProbeError(_unknown_shape(source, split, number, row, error)) from error
            if question is not None:
                found.append((question.key or str(number), question))
        if not found and most is None:
            why = f"; the last of its rows: {last}" if last else ""
            raise ProbeError(f"{where}: needed questions, and no row is one{why}")
        return found

    def items(
        self, preset: Preset, source: Source, questions: Iterable[tuple[str, Question]], *, example: bool = False
    ) -> list[tuple[Item, str]]:
        """Their items, each with the header of its prompt."""
        made = []
        for key, question in questions:
            task = question.task or source.task
            self._names[task, key] += 1
            again = self._names[task, key]
            name = key if again == 1 else f"{key}#{again}"
            made.append((_item(question, preset, task, name, self._form, example=example), question.header))
        return made

    def examples(self, preset: Preset, source: Source) -> list[Item]:
        """Worked examples from the split that is meant for them; none where there is none."""
        if source.examples is None:
            return []
        questions = self.questions(preset, source, split=source.examples, most=_POOL)
        return [item for item, _ in self.items(preset, source, questions, example=True)]

    def left_out(self) -> Iterable[str]:
        """What was left out, and why."""
        for (source, why), count in self._skipped.items():
            yield f"{count:,} row{'s' if count > 1 else ''} of {source} left out: {why}"


def _item(question: Question, preset: Preset, task: str, name: str, form: Form, *, example: bool) -> Item:
    scored = form == "scored" or (form == "base" and not question.choices)
    answer: Any = question.worked if example and question.worked else question.answer
    return Item(
        id=name,
        task=task,
        category=question.category or paper_category(task),
        prompt=question.prompt if scored else question.question,
        choices=question.choices if scored else question.options,
        answer=answer,
        match=question.match,
        cluster=question.cluster,
        tags=(PRIVATE,) if preset.private else (),
        meta={"reasoning": question.reasoning} if question.reasoning else {},
    )


def _unknown_shape(source: Source, split: str | None, number: int, row: Mapping[str, Any], error: Exception) -> str:
    return (
        f"{source.dataset}, split {split or source.split}, row {number}: not the shape that is known "
        f"({type(error).__name__}: {error}); it has {', '.join(map(str, row))}; an older revision may have it: "
        "revision=..."
    )

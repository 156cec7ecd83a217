"""The table of presets, and a preset's name to a probe: read the rows, make the items, put them in order.

The grammar of names:

    NAME[:PART[+PART ...]][:FORM]

    mmlu                      a benchmark, its choices scored as lm-evaluation-harness scores them
    mmlu:anatomy+virology     some of its parts: subjects, tasks or languages
    mmlu:cot                  another form: `letters`, `cot` and `base` are described in `FORMS`
    bbh:navigate:cot          part and form, always in this order
    arc_easy                  names are those of lm-evaluation-harness where it has one; - and _ are the same
    paper, paper:cot          the paper's twelve benchmarks and IFEval as one probe; it has forms and no parts

Items are ordered so that every prefix of the probe is a fair sample of its tasks: within a task by content hash, tasks
interleaved by their size. A run that evaluates only the first 500 items covers all tasks. Rows that are not questions
are left out and counted; a row of unknown shape is an error.

Rows come from the hub, from its cache, or from a folder of copies. Only this module outside the scoring packages
imports `datasets`, and only when rows are read. No code of a data set is executed.
"""

from __future__ import annotations

import os
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.extras import install
from forgetwatch.item import PRIVATE, Item
from forgetwatch.probe import Probe
from forgetwatch.probes.categories import paper_category, subjects
from forgetwatch.probes.hub import row_functions
from forgetwatch.probes.hub.preset import FORMS, BadRowError, Form, Preset, Question, Source
from forgetwatch.probes.order import interleave
from forgetwatch.probes.prompts import few_shot

_SHOTS: Final = 5
"""Worked examples of the form for base models."""

_EXAMPLE_ROWS: Final = 512
"""Maximum number of rows that are read of a split with worked examples."""

_TASK_EXAMPLES: Final = 64
"""Maximum number of examples of a task from which those of an item are drawn."""


_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "subjects": subjects(),
    "bbh": sorted([*row_functions.BBH_LISTED, *row_functions.BBH_WORDS]),
}
"""Lists of parts by the names that the table uses for them."""


def _presets() -> Iterator[Preset]:
    """Yield the presets of presets.toml, in its order."""
    text = files(__package__).joinpath("presets.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(text).items():
        parts, row_function = row.pop("parts", ()), getattr(row_functions, row.pop("row"))
        if isinstance(parts, str):
            parts = _PARTS.get(parts, parts.split())
        shared = row.pop("shared", {})
        sources: list[Source] = []
        for fields in row.pop("sources"):
            fields = {**shared, **fields}
            if not any("{part}" in text for text in fields.values()):
                sources.append(Source(**fields))
                continue
            for part in parts:
                # Not format(): the names of files also hold a {split}.
                of_part = {field: text.replace("{part}", part) for field, text in fields.items()}
                sources.append(Source(part=part, **of_part))
        yield Preset(name=name, question=row_function, sources=tuple(sources), **row.pop("data"), **row)


PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _presets()}
"""All presets of the hub, by name."""

ALIASES: Final = {
    "social-iqa": "siqa",
    "commonsense-qa": "csqa",
    "truthfulqa": "truthfulqa-mc1",
    "gpqa": "gpqa-diamond",
    "salad-bench": "salad-mrq",
}
"""Other names of presets."""

PAPER: Final = "paper"
"""Name of the paper's benchmarks as one probe."""

PAPER_PRESETS: Final = (
    *("mmlu", "bbh", "gpqa-diamond", "musr", "arc-easy", "arc-challenge", "hellaswag", "truthfulqa-mc1", "siqa"),
    *("mctest", "piqa", "csqa", "salad-mrq", "ifeval"),
)
"""The paper's twelve benchmarks, ARC's two parts being one of them, and IFEval for its tenth category."""

PAPER_DECODING: Final[Mapping[str, int]] = {"tokens": 1280}
"""Decoding of IFEval's answers in `paper`."""


def load_preset(
    name: str,
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    shots: int | None = None,
    limit: int | None = None,
) -> Probe:
    """Return the probe of a preset's name, with a warning about every kind of row that was left out; see `load_probe`.

    The default of `shots` is 5 in the form for base models, else 0.
    """
    if limit is not None and limit < 1:
        raise ProbeError(f"{name}: limit must be at least 1 item, got {limit}")
    if shots is not None and shots < 0:
        raise ProbeError(f"{name}: shots must be 0 or more, got {shots}")
    presets, form = _parse_name(name)
    count = shots if shots is not None else _SHOTS if form == "base" else 0
    reader = _Reader(form=form, root=root, revision=revision)
    pairs = [(preset, source) for preset, part in presets for source in preset.sources_of(part)]
    read = [(preset, source, reader.questions(preset, source)) for preset, source in pairs]
    items: list[tuple[Item, str]] = []
    for preset, source, questions in read:
        items += reader.items(preset, source, questions)
    chosen = interleave([item for item, _ in items])[:limit]
    headers = {(item.task, item.id): header for item, header in items}
    settings: dict[str, Any] = dict(FORMS[form][1])
    if form == "scored":
        norm, decoding = ("chars", PAPER_DECODING) if len(presets) > 1 else (presets[0][0].norm, presets[0][0].decoding)
        settings["norm"] = norm
        if any(not item.choices for item in chosen):
            settings["decoding"] = decoding
    probe = Probe(chosen, name=name, **settings)
    if count:
        examples = [item for preset, source, _ in read for item in reader.examples(preset, source)]
        # A task without a split of examples takes them from its own items; few_shot leaves out the item itself.
        with_examples = {item.task for item in examples}
        examples += [item for item, _ in items if item.task not in with_examples]
        probe = _with_examples(probe, examples, count)
    if form == "scored":
        # The header goes before the worked examples, so it is added last.
        before = [(item, headers[item.task, item.id]) for item in probe]
        probe = probe.with_items(
            replace(item, shots=text + item.shots) if item.shots else replace(item, prompt=text + str(item.prompt))
            for item, text in before
        )
    for (source_name, why), rows in reader.left_out.items():
        warnings.warn(f"{name}: {rows:,} row{'s' if rows > 1 else ''} of {source_name} left out: {why}", stacklevel=3)
    return probe


def is_preset(name: str) -> bool:
    """Return True if the first part of a name, up to its colon, is the name of a preset, or of the paper's."""
    return _canonical(name.split(":")[0]) in (*PRESETS, PAPER)


def find_preset(name: str) -> Preset | None:
    """Return the preset of a name, by the first part up to its colon; None if that names no single preset."""
    return PRESETS.get(_canonical(name.split(":")[0]))


def _parse_name(name: str) -> tuple[list[tuple[Preset, str]], Form]:
    """Return (Presets with the parts of each, the form in which they are evaluated).

    Several presets are the paper's.
    """
    first, *rest = name.split(":")
    # The last segment is a form if it is the name of one; no part has such a name.
    form = next((known for known in FORMS if rest[-1:] == [known]), None)
    rest = rest[:-1] if form else rest
    form = form or "scored"
    if not is_preset(first):
        near = did_you_mean(first, (*PRESETS, PAPER))
        raise ProbeError(f"{name}: no such preset{near}; there are {PAPER}, {', '.join(PRESETS)}")
    if len(rest) > 1:
        raise ProbeError(f"{name}: needed NAME[:PART[+PART ...]][:FORM]; forms are {', '.join(FORMS)}")
    part = rest[0] if rest else ""
    if first == PAPER and part:
        raise ProbeError(f"{name}: {PAPER} has no parts; forms are {', '.join(FORMS)}")
    if first == PAPER:
        return [(PRESETS[preset], "") for preset in PAPER_PRESETS], form
    preset = PRESETS[_canonical(first)]
    preset.sources_of(part)  # a wrong part is an error before any row is read
    return [(preset, part)], form


def _canonical(name: str) -> str:
    canonical = name.lower().replace("_", "-")
    return ALIASES.get(canonical, canonical)


def _with_examples(probe: Probe, examples: Sequence[Item], shots: int) -> Probe:
    """Return few-shot prompts, task by task; instructions keep their prompts."""
    by_task: dict[str, list[Item]] = {}
    for item in probe:
        by_task.setdefault(item.task, []).append(item)
    prompted: dict[tuple[str, str], Item] = {}
    for task, items in by_task.items():
        if items[0].match == "instructions":
            continue
        pool = [item for item in examples if item.task == task][:_TASK_EXAMPLES]
        of_task = few_shot(probe.with_items(items), pool, shots=shots)
        prompted |= {(item.task, item.id): item for item in of_task}
    return probe.with_items(prompted.get((item.task, item.id), item) for item in probe)


class _Reader:
    """Reads rows to questions and questions to items, and counts the rows that are left out."""

    def __init__(self, *, form: Form, root: str | Path | None, revision: str | None) -> None:
        self._form = form
        self._root = root
        self._revision = revision
        self.left_out: Counter[tuple[str, str]] = Counter()  # rows by (source, reason)
        self._names: Counter[tuple[str, str]] = Counter()

    def questions(
        self, preset: Preset, source: Source, *, split: str | None = None, most: int | None = None
    ) -> list[tuple[str, Question]]:
        """Return the questions of a split, each with its id; at most `most` of them."""
        found: list[tuple[str, Question]] = []
        last, where = "", str(replace(source, split=split or source.split))
        for number, row in enumerate(rows_of(source, split=split, root=self._root, revision=self._revision)):
            if most is not None and len(found) >= most:
                break
            try:
                question = preset.question(row, source)
            except BadRowError as error:
                last = str(error)
                self.left_out[where, last] += 1
                continue
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                raise ProbeError(
                    f"{source.dataset}, split {split or source.split}, row {number}: not the shape that is known "
                    f"({type(error).__name__}: {error}); it has {', '.join(map(str, row))}; an older revision may have "
                    "it: revision=..."
                ) from error
            if question is not None:
                found.append((question.key or str(number), question))
        if not found and most is None:
            why = f"; the last of its rows: {last}" if last else ""
            raise ProbeError(f"{where}: needed questions, and no row is one{why}")
        return found

    def items(
        self, preset: Preset, source: Source, questions: Iterable[tuple[str, Question]], *, example: bool = False
    ) -> list[tuple[Item, str]]:
        """Return the items of some questions, each with the header of its prompt."""
        made = []
        for key, question in questions:
            task = question.task or source.task
            # Ids may repeat within a task (two splits, two configs): later ones are numbered.
            self._names[task, key] += 1
            times = self._names[task, key]
            # Open questions of the base form keep the harness's prompt: it ends where the answer begins.
            scored = self._form == "scored" or (self._form == "base" and not question.choices)
            item = Item(
                id=key if times == 1 else f"{key}#{times}",
                task=task,
                category=question.category or paper_category(task),
                prompt=question.prompt if scored else question.question,
                choices=question.choices if scored else question.options,
                answer=question.worked if example and question.worked else question.answer,
                match=question.match,
                cluster=question.cluster,
                tags=(PRIVATE,) if preset.private else (),
                meta={"reasoning": question.reasoning} if question.reasoning else {},
            )
            made.append((item, question.header))
        return made

    def examples(self, preset: Preset, source: Source) -> list[Item]:
        """Return the worked examples from the split that holds them; empty where there is none."""
        if source.examples is None:
            return []
        questions = self.questions(preset, source, split=source.examples, most=_EXAMPLE_ROWS)
        return [item for item, _ in self.items(preset, source, questions, example=True)]


_SWITCHES: Final = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""Environment variables that switch the hub off."""


def rows_of(
    source: Source, *, split: str | None = None, root: str | Path | None = None, revision: str | None = None
) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a source's split, or of another split of its data set, in their order.

    Args:
        source: The data set, config and split.
        split: Another split of it, such as that of its worked examples.
        root: A folder with copies of data sets under their ids, such as ``root/cais/mmlu``, in place of the hub.
        revision: Commit, tag or branch, in place of the source's.
    """
    split = split or source.split
    where = f"{source.dataset}{f' ({source.config})' if source.config else ''}, split {split}"
    if root is not None and not (Path(root) / source.dataset).is_dir():
        raise ProbeError(f"{where}: needed the folder {Path(root) / source.dataset}, a copy of the data set")
    try:
        import datasets
    except ImportError as error:
        raise ProbeError(f"{where}: needs the package datasets: {install('datasets')}") from error
    config, data_files = source.config, None
    if source.files:
        config, data_files = None, {split: source.files.format(split=split)}
    load = partial(datasets.load_dataset, name=config, split=split, data_files=data_files)
    try:
        if root is None:
            return cast("Iterable[Mapping[str, Any]]", load(source.dataset, revision=revision or source.revision))
        # The cache of `datasets` does not see that a local file has changed: each copy is read afresh.
        with TemporaryDirectory() as cache, _quiet(datasets):
            return list(cast("Iterable[Mapping[str, Any]]", load(str(Path(root) / source.dataset), cache_dir=cache)))
    except Exception as error:  # the hub's client raises what its own libraries raise
        raise ProbeError(f"{where}: {_reason(error, source, local=root is not None)}") from error


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Switch progress bars off: local copies load in no time."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _reason(error: Exception, source: Source, *, local: bool) -> str:
    """Return the cause of a failed load, and the remedy."""
    kind, said = type(error).__name__, " ".join(str(error).split())
    page = f"huggingface.co/datasets/{source.dataset}"
    if local:
        return f"the copy cannot be read ({said[:200]}); it must hold its README.md and data as the hub has them"
    if "gated" in said.lower() or kind == "GatedRepoError" or "401" in said or "403" in said:
        return f"gated: accept its terms at {page}, then log in with `hf auth login` or set HF_TOKEN"
    if "BuilderConfig" in said or "Unknown split" in said:
        return f"no such config or split ({said[:200]}); the data set may have changed: name a revision"
    if any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in _SWITCHES):
        return (
            "it is not in the cache, and the hub is switched off (HF_HUB_OFFLINE); load it once with network, or give "
            "root=, a folder of copies"
        )
    if isinstance(error, ConnectionError) or "connect" in said.lower() or "resolve" in said.lower():
        return "the hub cannot be reached, and it is not in the cache; load it once with network, or give root="
    if kind == "DatasetNotFoundError":
        return f"the hub has no such data set, or it is gated; see {page}, `hf auth login`, HF_TOKEN"
    return f"it cannot be loaded ({kind}: {said[:200]})"

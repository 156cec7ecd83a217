"""The pairs of a study, one after the other: both sides are read or scored, compared, and dropped.

Only counts stay in memory. A pair that cannot be compared is a result with a sentence, and the next
one follows. Scored models are kept in the study's folder, so that a killed study resumes:

    STUDY/snapshots/Llama-3.1-8B-3f0c41d07a6b.parquet

The digits are a digest of the model (of a folder: the names, sizes and times of its files, and of
those of an adapter's base), the probe with its settings, and the version of forgetwatch: a folder
that changed is scored again. A model id of the hub stays what it was when it was scored; delete its
file to score it again. Files of outcomes are read each time, and nothing is imported that scoring
needs.

Beside the counts is what averages show of them:

    task A   right before 60 of 100   after 62   lost 9, gained 11      an average shows no forgetting
    task B   right before 40 of 100   after 37   lost 8, gained  5      an average shows 3 of the 8

Conventional forgetting of a task is max(0, accuracy before - accuracy after), averaged over tasks.
Questions lost and gained cancel in it, within each task. It is never above the mean over tasks of
the share 1->0: that share less the share 0->1 is the accuracy lost. Neither is corrected for
guessing.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from forgetwatch.comparing.causes import Causes, why_lost
from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.decision import Decision, decide
from forgetwatch.comparing.paper_means import CategoryMeans, Spread
from forgetwatch.comparing.verdict import estimated, ranked_categories
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ForgetwatchError, SnapshotError, StudyError
from forgetwatch.extras import missing
from forgetwatch.measures.base import MISSING_CELL
from forgetwatch.measures.pairing import item_codes
from forgetwatch.probe import Probe
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.ladder import without_trial
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.nearness import answers_of, nearness_to
from forgetwatch.probes.row_files import training_texts
from forgetwatch.progress import log
from forgetwatch.readers.joining import concatenate
from forgetwatch.readers.mapping import read_mapped
from forgetwatch.readers.outcomes import SUFFIXES, is_outcomes
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot
from forgetwatch.study.plan import DISTANCE, MEASURED, Pair, Plan, Source
from forgetwatch.text import between, listed, percent, points
from forgetwatch.version import VERSION

Rate = Literal["forgetting", "backward transfer"]
RATES: Final[tuple[Rate, ...]] = ("forgetting", "backward transfer")

_SNAPSHOTS: Final = "snapshots"
_DIGITS: Final = 12
_KEYS: Final = {
    "pass --allow-prompt-mismatch to compare": "set allow_prompt_mismatch: true",
    "with --on-mismatch intersect": "with on_mismatch: intersect",
    "--metric": "metric",
    "--match": "match",
}
"""Keys of a study that do what options of other commands do."""

Resolve = Callable[[Source, Probe | None], Snapshot]
"""Function of a source and a probe to a snapshot: it reads files and scores models."""


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Forgetting of one pair that averages show, and that they hide; shares are nan without an item."""

    tasks: int  # items without a task are one
    conventional: float  # mean over tasks of max(0, accuracy lost), 0 to 1
    forgetting: float  # mean over tasks of the share 1->0, 0 to 1
    forgotten: float  # questions 1->0, over all tasks
    in_tasks_that_fell: float  # those of them in tasks whose accuracy fell

    @classmethod
    def of(cls, comparison: Comparison) -> Averages:
        """Averages of a comparison."""
        whole = comparison.all
        tasks = [
            (group.n, group.forgotten, group.gained)
            for group in comparison.by("task").values()
            if group.n
        ]
        # Items without a task. Rounded, because means over samples carry errors, and no loss may
        # come from one.
        n, forgotten, gained = (
            round(of_all - sum(of_tasks), 9)
            for of_all, *of_tasks in zip(
                (whole.n, whole.forgotten, whole.gained), *tasks, strict=True
            )
        )
        tasks += [(n, forgotten, gained)] if n else []
        lost = np.array([(forgotten - gained) / n for n, forgotten, gained in tasks])
        return cls(
            tasks=len(tasks),
            conventional=float(np.maximum(lost, 0).mean()) if tasks else math.nan,
            forgetting=float(np.mean([forgotten / n for n, forgotten, _ in tasks]))
            if tasks
            else math.nan,
            forgotten=whole.forgotten,
            in_tasks_that_fell=sum(
                forgotten for (_, forgotten, _), fell in zip(tasks, lost > 0, strict=True) if fell
            ),
        )


class Value(NamedTuple):
    """One cell of the paper's tables: fractions, over seeds."""

    rate: Spread
    ceiling: Spread

    @property
    def text(self) -> str:
        """The cell in percent, such as ``5.0 ± 0.1 (29.4)``."""
        if math.isnan(self.rate.mean):
            return MISSING_CELL
        sd = "" if math.isnan(self.rate.sd) else f" ± {percent(self.rate.sd)}"
        return f"{percent(self.rate.mean)}{sd} ({percent(self.ceiling.mean)})"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A pair that was compared."""

    pair: Pair
    comparison: Comparison
    means: CategoryMeans  # the paper's, by the rule of the study
    averages: Averages
    causes: Causes | None  # why answers were lost; None for several samples of a question
    left_out: tuple[str, ...] = ()  # what the file asks for and could not be measured

    def values(self, rate: Rate) -> dict[str, Value]:
        """Value of each category."""
        which, ceilings = RATES.index(rate), self.means.ceilings_by_category
        return {
            name: Value(rates[which], ceilings[name][which])
            for name, rates in self.means.by_category.items()
        }

    def total(self, rate: Rate) -> Value:
        """Value of all categories: the mean over them."""
        which = RATES.index(rate)
        return Value(
            (self.means.forgetting, self.means.backward_transfer)[which], self.means.ceilings[which]
        )

    def unclipped(self, rate: Rate) -> float:
        """Mean over categories, not clipped at 0.

        The trends take this mean.
        """
        return self.means.unclipped[RATES.index(rate)].mean

    @cached_property
    def decision(self) -> Decision:
        """Verdict on the pair."""
        return decide(self.comparison)

    @property
    def net_change(self) -> str:
        """Estimated net change of all questions, as text.

        In points, with a 95 % interval.
        """
        value, interval = estimated(self.comparison.all)
        return f"{points(value)} ({between(interval, points)})"

    @property
    def worst(self) -> str:
        """Categories that fell most beyond chance; a dash for none.

        With their shrunk changes in points.
        """
        fell = [
            category
            for category in ranked_categories(self.comparison)[0]
            if category.side == "below"
        ]
        return (
            listed([f"{category.group.name} {points(category.change)}" for category in fell])
            if fell
            else MISSING_CELL
        )


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A pair that could not be compared, and the sentence that says why."""

    pair: Pair
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study and the results of its pairs, one for each, in the order of the plan."""

    plan: Plan
    results: tuple[Compared | Failed, ...]

    @property
    def compared(self) -> tuple[Compared, ...]:
        """Pairs that were compared."""
        return tuple(result for result in self.results if isinstance(result, Compared))

    @property
    def failed(self) -> tuple[Failed, ...]:
        """Pairs that could not be compared."""
        return tuple(result for result in self.results if isinstance(result, Failed))

    @property
    def has_causes(self) -> bool:
        """Were enough answers of some pair lost to find causes?"""
        return any(
            result.causes is not None and result.causes.is_tested for result in self.compared
        )

    @property
    def categories(self) -> list[str]:
        """Categories that some pair has, in order of appearance."""
        return list(
            dict.fromkeys(name for result in self.compared for name in result.means.by_category)
        )

    def of_stage(self, stage: str) -> tuple[Compared, ...]:
        """Pairs of a stage that were compared."""
        return tuple(result for result in self.compared if result.pair.stage == stage)


def run_study(plan: Plan, sources: Sources, *, on_pair: Callable[[int, Pair], None]) -> Study:
    """Compare all pairs of a study.

    Raises:
        ForgetwatchError: If a probe or the map of categories cannot be loaded.
    """
    categories = None if plan.categories is None else Categories.read(plan.categories)
    results: list[Compared | Failed] = []
    for number, pair in enumerate(plan.pairs, 1):
        on_pair(number, pair)
        if (
            number == 1
        ):  # after the first line, a probe of the hub takes a while; before any model is scored
            for source in filter(is_model, plan.sources):
                sources.probe_of(source)
        try:
            before, after = sources.sides(pair)
            comparison = compare(
                before=before,
                after=after,
                on_mismatch=pair.on_mismatch,
                allow_prompt_mismatch=pair.allow_prompt_mismatch,
                categories=categories,
                chance=plan.chance,
            )
            if not comparison.items.compared:
                raise SnapshotError(
                    f"none of the {comparison.items.unscored:,} items was scored on both sides"
                )
        except (ForgetwatchError, OSError) as error:
            reason = str(error)
            for option, key in _KEYS.items():
                reason = reason.replace(option, key)
            results.append(Failed(pair=pair, reason=f"{pair.name}: {reason}"))
        else:
            sources.left_out.clear()
            pair = sources.with_distance(pair)
            means, averages = comparison.paper_compat or comparison.macro, Averages.of(comparison)
            causes = sources.causes(pair, before, after) if comparison.samples == 1 else None
            results.append(
                Compared(
                    pair=pair,
                    comparison=comparison,
                    means=means,
                    averages=averages,
                    causes=causes,
                    left_out=tuple(sources.left_out),
                )
            )
    return Study(plan=plan, results=tuple(results))


class Sources:
    """The sources of a study, read or scored one by one.

    Args:
        folder: Folder of the study; scored models are kept in it.
        resolve: Reads a file of outcomes, or scores a model.
        is_first: True in the process that writes files.
        is_alone: False where several processes score together.
    """

    def __init__(
        self, folder: Path, resolve: Resolve, *, is_first: bool = True, is_alone: bool = True
    ) -> None:
        self._folder, self._resolve, self._is_first, self._is_alone = (
            folder / _SNAPSHOTS,
            resolve,
            is_first,
            is_alone,
        )
        self.left_out: list[str] = []  # of the pair at hand
        self._probes: dict[str, Probe] = {}
        self._failed: dict[Path, str] = {}

    def probe_of(self, source: Source) -> Probe | None:
        """Probe by which a source is scored.

        Returns:
            The probe with the source's settings, or None without a probe.
        """
        if source.probe is None:
            return None
        key = json.dumps([source.probe, dict(source.decoding), source.rendering], sort_keys=True)
        if key not in self._probes:
            probe = without_trial(load_probe(source.probe))
            changes: dict[str, Any] = (
                {} if source.rendering is None else {"rendering": source.rendering}
            )
            if source.decoding:
                settings = probe.decoding.to_json() if isinstance(probe.decoding, Decoding) else {}
                changes["decoding"] = {**settings, **source.decoding}
            try:
                self._probes[key] = replace(probe, **changes)
            except ForgetwatchError as error:
                raise StudyError(
                    f"{source.given}: the settings do not fit its probe: {error}"
                ) from error
        return self._probes[key]

    def sides(self, pair: Pair) -> tuple[Snapshot, Snapshot]:
        """Snapshots of both sides of a pair.

        With as many samples of each item; the sample of seed j is j.

        Raises:
            ForgetwatchError: If a source cannot be read or scored, several do not make one side, or
                both sides have several samples and unlike numbers of them.
        """
        sides = self._side(pair.before, pair), self._side(pair.after, pair)
        samples = tuple(map(_samples, sides))
        if min(samples) > 1 and samples[0] != samples[1]:
            raise StudyError(
                f"{sides[0].label} has {samples[0]} answers to an item and {sides[1].label} has "
                f"{samples[1]}; give as many on both sides, or one on one side, which is then "
                "compared with each of the other"
            )
        before, after = (  # one answer to each item is the same answer for each seed
            side if n == max(samples) else concatenate([side] * max(samples), as_samples=True)
            for side, n in zip(sides, samples, strict=True)
        )
        return before, after

    def _leave_out(self, pair: Pair, why: str) -> None:
        log(f"{pair.name}: {why}")
        self.left_out.append(why)

    def causes(self, pair: Pair, before: Snapshot, after: Snapshot) -> Causes:
        """Find why a pair lost answers.

        By the nearness to the training rows too, if the pair has rows and a probe.
        """
        probe = self.probe_of(pair.before[0])
        if not pair.train or probe is None:
            if pair.train:
                needed = "needed a probe (probe: FILE, or --probe), which has the questions"
                self._leave_out(pair, f"train is left out: {needed}")
            return why_lost(before, after, answers=None if probe is None else answers_of(probe))
        try:
            near = nearness_to(probe.items, training_texts(pair.train))
        except (ModuleNotFoundError, ValueError, ForgetwatchError) as error:
            self._leave_out(
                pair, f"train is left out: {missing(error, needed_by='train') or error}"
            )
            return why_lost(before, after)
        keys = [(item.task, item.id) for item in probe]
        return why_lost(
            before,
            after,
            near=dict(zip(keys, near.tolist(), strict=True)),
            answers=answers_of(probe),
        )

    def with_distance(self, pair: Pair) -> Pair:
        """Measure the distance of the weights, if the file asks for it.

        nan without a distance.
        """
        if pair.covariates.get(DISTANCE) != MEASURED:
            return pair
        # Not at the top: it imports torch, which files of outcomes do not need.
        from forgetwatch.merge.weights import ModelPair

        try:
            if not all(
                is_model(side) and side.merge is None for side in (pair.before[0], pair.after[0])
            ):
                raise StudyError("needed saved models on both sides")
            ends = ModelPair(
                a=pair.before[0].location, b=pair.after[0].location, method="linear", alphas=()
            )
            distance = ends.distance().overall
        except ForgetwatchError as error:
            self._leave_out(pair, f"{DISTANCE}: {MEASURED} is left out: {error}")
            distance = math.nan
        return replace(pair, covariates={**pair.covariates, DISTANCE: distance})

    def _side(self, sources: Sequence[Source], pair: Pair) -> Snapshot:
        # One snapshot for each seed, with the items that are in all of them.
        read = [
            self._read(source, ignore_examples=pair.allow_prompt_mismatch) for source in sources
        ]
        if len(read) == 1:
            return read[0]
        for snapshot in read:
            if (samples := _samples(snapshot)) > 1:
                raise StudyError(
                    f"{snapshot.label} has {samples} answers to an item, and in a list each "
                    "file is one seed; give it alone, or one file for each seed"
                )
        joined = concatenate(read, as_samples=True)
        items = item_codes(joined)
        in_all = np.bincount(items) == len(read)
        if in_all.all():
            return joined
        if pair.on_mismatch != "intersect" or not in_all.any():
            rows = [len(snapshot) for snapshot in read]
            short = sources[rows.index(min(rows))].given
            remedy = "compare those that all have with on_mismatch: intersect"
            raise StudyError(
                f"{short} is one of {len(read)} seeds, which need the same items: "
                f"{int((~in_all).sum()):,} are not in "
                f"all of their files; {remedy if in_all.any() else 'they have no item in common'}"
            )
        note = f"{int((~in_all).sum()):,} items that are not in the files of all its seeds are left out"
        return replace(
            joined, table=joined.table.filter(pa.array(in_all[items])), notes=(*joined.notes, note)
        )

    def _read(self, source: Source, *, ignore_examples: bool) -> Snapshot:
        if source.columns is not None:
            return read_mapped(source.location, source.columns)
        if not is_model(source):
            return self._resolve(source, None)
        probe = self.probe_of(source)
        if probe is None or source.metric is not None:
            return self._resolve(source, probe)  # which says what is wrong
        snapshot = self._scored(source, probe)
        # Of two sides that were scored here with unlike prompts, no question would else be the
        # same.
        return _without_examples(snapshot, probe) if ignore_examples else snapshot

    def _scored(self, source: Source, probe: Probe) -> Snapshot:
        # A new snapshot is kept.
        path = self._folder / _file_name(source, probe)
        # Of several processes only one may have this folder; together they have the cache of the
        # first.
        if self._is_alone:
            with suppress(SnapshotError, OSError):  # none, or a damaged one
                kept = read_snapshot(path)
                return replace(
                    kept,
                    meta={name: value for name, value in kept.meta.items() if name != "source"},
                )
        # A model of several pairs fails once: to load it, or to run out of memory, may have taken
        # an hour.
        if path in self._failed:
            raise StudyError(self._failed[path])
        try:
            snapshot = self._resolve(source, probe)
        except ForgetwatchError as error:
            self._failed[path] = str(error)
            raise
        if self._is_first:
            save_snapshot(snapshot, path)
        return snapshot


def is_model(source: Source) -> bool:
    """Is the source scored: a model's folder, or a model's id?

    An id is neither a path nor there.
    """
    if source.merge is not None:
        return True
    path = Path(source.location)
    if source.columns is not None or is_outcomes(source.location):
        return False
    return path.exists() or not (path.suffix in SUFFIXES or source.location.startswith((".", "/")))


def _samples(snapshot: Snapshot) -> int:
    return len(np.unique(snapshot.ints("sample")))


def _file_name(source: Source, probe: Probe) -> str:
    # The name has a digest of what determines the rows, weights apart.
    model_name = source.given.rstrip("/").rsplit("/", maxsplit=1)[-1]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model_name).strip("-.")[:60] or "model"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    location = source.location
    stamps = [_stamps(Path(model)) for model in source.merge or (location,)]
    parts = [location, *stamps, probe.name, probe.fingerprint, labels, VERSION]
    return f"{name}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]}.parquet"


def _stamps(folder: Path, adapters: frozenset[Path] = frozenset()) -> list[list[Any]]:
    # The files of an adapter's base follow.
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.is_file())
    stamps = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    if (folder / "adapter_config.json").is_file() and folder.resolve() not in adapters:
        # What is wrong with an adapter is said when it is loaded.
        with suppress(OSError, ValueError, TypeError, KeyError):
            config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
            stamps += _stamps(
                Path(config["base_model_name_or_path"]), adapters | {folder.resolve()}
            )
    return stamps


def _without_examples(snapshot: Snapshot, probe: Probe) -> Snapshot:
    # The worked examples before a question are no part of its identity.
    if not any(item.shots for item in probe):
        return snapshot
    hashes = {(item.task, item.id): replace(item, shots="").content_hash for item in probe}
    hashes_of_rows = [hashes[key] for key in snapshot.item_keys]
    position = snapshot.table.column_names.index("content_hash")
    table = snapshot.table.set_column(
        position, "content_hash", pa.array(hashes_of_rows, pa.string())
    )
    return replace(snapshot, table=table)

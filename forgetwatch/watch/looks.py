"""The looks of a run in progress: measured, and compared with the baseline and with further references.

    Measurer     baseline              all items, announced, with the time that it will take
                 second measurement    the first items again in smaller batches: what flips is noise
                 look                  the items that the budget keeps
    Looks        their comparisons, in memory

All comparisons of a run are over one `Subset` of its probe. The budget is decided before the first look after the
baseline, so that only the rows of the baseline and of the latest look stay in memory. Outcomes near a tie depend on the
composition of a batch, so the batches of the baseline are those of the run, also after a resume.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from torch import nn

from forgetwatch.comparing import Comparison, Subset, Trajectory, compare, repeated_prompts, right_answers, with_null
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress, log, shown
from forgetwatch.readers import load_snapshot
from forgetwatch.run_folder import LAST_STEP, GuardFinding, Kind
from forgetwatch.scoring import (
    CANNOT_GENERATE,
    Generator,
    Scorer,
    all_gather,
    model_name,
    rank,
    tokenizer_settings,
    versions,
    world_size,
)
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.known_baseline import CHECKED_ITEMS, KnownBaseline, differing, without_trial
from forgetwatch.watch.schedule import (
    FEWEST_ITEMS,
    HALVES,
    TWICE_ITEMS,
    Decision,
    Trial,
    evaluated_items,
    evaluated_worth,
    start_sizes,
    stored_decision,
)

PREVIOUS: Final = "previous"
"""Reference to the look before."""

_TRIAL_ITEMS: Final = 32
"""Items of a trial, two batches on a CPU."""

_FEWEST_TOKENS: Final = 64
"""Tokens of the smallest batch with which the baseline is measured again."""

_NAMES: Final = ("_name_or_path", "transformers_version")
"""Settings of a model's configuration by which no outcome changes."""


class Looks:
    """Comparisons of the looks so far; no model, no files. A `Watch` adds to them.

    Attributes:
        probe: The items.
        baseline: The snapshot that everything is compared with; None before the first look.
        null: The baseline's weights measured again, in other batches; None if they were not.
        subset: Items that all looks of the run evaluate.
        decision: Decision on the items that looks evaluate; None before it is made.
        comparisons: Baseline against each look so far, by step.
        others: The same for each further reference, by its name and step.
        resumed: Looks that were measured again after a resume, against the stored ones, by step.
        planned: Looks planned after the baseline; None if unknown. Alarms are corrected for it.
    """

    def __init__(self, probe: Probe, *, against: Mapping[str, Snapshot | str | Path] | None = None) -> None:
        self.probe = probe
        self.baseline: Snapshot | None = None
        self.null: Snapshot | None = None
        self.subset = Subset()
        self.decision: Decision | None = None
        self.comparisons: dict[int, Comparison] = {}
        self.others: dict[str, dict[int, Comparison]] = {}
        self.resumed: dict[int, Comparison] = {}
        self.planned: int | None = None
        self.findings: tuple[GuardFinding, ...] = ()
        self._references = references(against)
        self._snapshots: dict[int, Snapshot] = {}  # rows of the latest look
        self._described: dict[int, dict[str, Any]] = {}
        self._again: dict[int, str] = {}  # checksums of the looks that were measured again
        self._right: dict[int, NDArray[np.float64]] = {}

    @property
    def items(self) -> int | None:
        """Number of items that the looks evaluate, a prefix of the probe; None for all."""
        return self.subset.items

    @property
    def generates(self) -> bool:
        """False if the looks leave out items whose answers are generated, other than `must_pass` ones."""
        return self.decision is None or self.decision.generates

    @property
    def taken(self) -> dict[int, str]:
        """Checksums of the looks after the baseline, by step."""
        start = None if self.baseline is None else self.baseline.meta["step"]
        return {step: one["checksum"] for step, one in sorted(self._described.items()) if step != start}

    def _add(self, snapshot: Snapshot, *, step: int) -> Comparison:
        """Add a look: compare it with the baseline and the other references."""
        if self.baseline is None:
            raise WatchError("a look needs a baseline to be compared with; the first look of a run is its baseline")
        subset = self.subset
        baseline = subset.apply(self.baseline)
        look = baseline if snapshot is self.baseline else subset.apply(snapshot)
        comparison = compare(before=baseline, after=look, null=None if self.null is None else subset.apply(self.null))
        # After a resume the noise is that of this machine: the null was measured on another one, in other batches.
        if earlier := [other for other in self.resumed if other < step]:
            comparison = with_null(comparison, self.resumed[max(earlier)])
        previous = [other for other in self.comparisons if other < step]
        for name, reference in self._references.items():
            if isinstance(reference, Snapshot):
                before = subset.apply_to_reference(reference, baseline=self.baseline)
                self.others.setdefault(name, {})[step] = compare(before=before, after=look)
            # Right after a resume the rows of the look before may be gone; then there is nothing to compare with.
            elif previous and max(previous) in self._snapshots:
                before = subset.apply(self._snapshots[max(previous)])
                self.others.setdefault(name, {})[step] = compare(before=before, after=look)
        self.comparisons[step] = comparison
        # Only the rows of the latest look are needed: for "previous" and for the report.
        if step == max(self.comparisons):
            self._snapshots = {step: snapshot}
        self._right[step] = right_answers(baseline, look)
        self._described[step] = {
            "step": step,
            "checksum": snapshot.full_checksum,
            "seconds": snapshot.meta.get("seconds"),
        }
        return comparison

    def _compare_again(self, again: Snapshot, *, step: int) -> Comparison:
        """Add a second measurement of a look: its flips are the noise of later looks."""
        before, after = map(self.subset.apply, (self._snapshots[step], again))
        self.resumed[step] = compare(before=before, after=after)
        self._again[step] = again.full_checksum
        return self.resumed[step]

    def decide(self, decision: Decision) -> None:
        """Cut all comparisons, so far and from here on, to the items that were decided on, or change nothing."""
        before = self.decision, self.subset, self.comparisons, self._right, self._snapshots, self.others
        rows = self._snapshots if self.baseline is None else {min(self.comparisons): self.baseline} | self._snapshots
        self._use(decision)
        if self.subset == before[1]:
            return
        try:
            if set(rows) != set(self.comparisons):
                raise WatchError(
                    f"cutting {len(self.comparisons)} looks to fewer items needs the rows of each, and those of "
                    f"{len(rows)} are in memory; decide before the second look after the baseline"
                )
            self.comparisons, self._right, self.others = {}, {}, {}
            for step, snapshot in sorted(rows.items()):
                self._add(snapshot, step=step)
        # An interrupt, too, must not leave looks over unlike items.
        except BaseException:
            self.decision, self.subset, self.comparisons, self._right, self._snapshots, self.others = before
            raise

    def _drop_after(self, step: int) -> None:
        """Drop the looks later than `step`."""
        self.findings = tuple(finding for finding in self.findings if finding.step <= step)
        kept: tuple[dict[int, Any], ...] = (self.comparisons, self.resumed, self._described, self._right)
        for looks in (*kept, self._snapshots, *self.others.values()):
            for later in [look for look in looks if look > step]:
                del looks[later]

    @property
    def evaluates(self) -> bool:
        """False if no item is left that the looks could evaluate: all are left out."""
        return evaluated_items(self.probe, self.decision or Decision()) > 0

    def latest(self) -> Snapshot | None:
        """The latest look over the items that all looks evaluate; None before the first."""
        found = self._snapshots.get(max(self._snapshots, default=0))
        return None if found is None else self.subset.apply(found)

    def trajectory(self) -> Trajectory:
        """All looks so far, in order; a WatchError if there is none yet."""
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self._right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        baseline, latest = self.subset.apply(self.baseline), self.latest()
        last = baseline if latest is None else latest
        return Trajectory(steps, comparisons, right, baseline, last, self.planned, findings=self.findings)

    def retained_before(self) -> int:
        """Number of right answers of the baseline."""
        return int((self._right[min(self._right)] == 1.0).sum()) if self._right else 0

    def lost_must_pass(self, step: SupportsIndex) -> list[str]:
        """Ids of the `must_pass` items that were right at the baseline and are wrong at `step`."""
        if self.baseline is None:
            return []
        look = checked_step(step, lowest=-1)  # that of a baseline from elsewhere
        must = {(item.task, item.id) for item in self.probe if item.must_pass}
        baseline = self.subset.apply(self.baseline)
        names = zip(baseline.texts("task"), baseline.texts("item_id"), strict=True)
        before, after = (self._right[one] for one in (min(self._right), look))
        lost = (
            name
            for (task, name), was, now in zip(names, before, after, strict=False)
            if was == 1.0 and now == 0.0 and (task, name) in must
        )
        # An item with several samples is named once.
        return list(dict.fromkeys(lost))

    def _description(self, *, without: Collection[tuple[Kind, int]] = ()) -> dict[str, Any]:
        """Description of the run, for ``run.json``; empty before the baseline. Looks that have no file are left out."""
        if self.baseline is None:
            return {}
        null = None
        if self.null is not None:
            whole = next(iter(self.comparisons.values())).all
            null = {"checksum": self.null.full_checksum, "lost": whole.null_lost, "gained": whole.null_gained}
        return {
            "probe": self.baseline.meta["probe"],
            **stored_decision(self.decision),
            "baseline": {"step": self.baseline.meta["step"], "checksum": self.baseline.full_checksum},
            "null": null,
            "resumed": [
                {"step": step, "checksum": self._again[step], "lost": again.all.forgotten, "gained": again.all.gained}
                for step, again in sorted(self.resumed.items())
                if ("again", step) not in without
            ],
            "looks": [self._described[step] for step in sorted(self._described) if ("step", step) not in without],
            "planned_looks": self.planned,
            "guard": [vars(finding) for finding in self.findings],
            "versions": versions(),
        }

    def _use(self, decision: Decision | None) -> None:
        """Set the items that looks evaluate; all before there is a decision."""
        made = decision or Decision()
        self.subset = Subset.of_probe(self.probe, items=made.items, generates=made.generates, regraded=made.regraded)
        self.decision = decision


class Measurer:
    """Evaluates the model of a run: in the same batches at every look, with its progress shown.

    Attributes:
        seconds: Seconds of the latest look that evaluated the model; after a resume those of the baseline, for as many
            items.
        generation_seconds: Seconds of these that generated answers.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the device.
        is_announced: True if a line says already what the baseline measures.
        is_kept: True if the baseline is in the cache.

    Args:
        looks: The looks of the run: they name the items, and the batches of the baseline.
        token_budget: Tokens of a batch; None for what suits the device.
        generator: Generates answers if items need that; None for the model itself.
    """

    def __init__(self, looks: Looks, *, token_budget: int | None = None, generator: Generator | None = None) -> None:
        self.seconds = self.generation_seconds = 0.0
        self.token_budget = token_budget
        self.is_announced = self.is_kept = False
        self._looks = looks
        self._generator = generator
        self._scorer: Scorer | None = None
        self._kind: tuple[Any, ...] = ()  # of model and tokenizer, see `restart_for`
        self._encoded_at = 0  # step of the look whose tokenizer encoded the items
        self._obstacle_logged = False
        self._trial: Trial | None = None
        self._known: KnownBaseline | None = None  # reading all weights for it takes a while

    def restart(self) -> None:
        """Lay out the batches anew at the next look, which has other items."""
        self._scorer = None

    def restart_for(self, model: nn.Module, tokenizer: Any) -> None:
        """Encode the items and lay out the batches anew, if the model or tokenizer is of another kind than before."""
        words = tokenizer_settings(tokenizer) or object()  # another one each time: encoded again
        config: Any = getattr(model, "config", None)
        values = {} if config is None else config.to_dict()
        settings = str({name: value for name, value in values.items() if name not in _NAMES})
        kind = type(model), settings, str(getattr(model, "peft_config", None)), words
        if kind != self._kind:
            self.restart()
        self._kind = kind

    def trial(self, model: nn.Module, tokenizer: Any) -> Trial | None:
        """Seconds of the first items that are scored, read twice: the first time is slower; None if none is scored."""
        probe = self._looks.probe
        scored = [item for item in probe if not probe.is_generated(item)]
        if not scored:
            return None
        known = self._known_baseline(model, tokenizer)
        if known is not None and (found := known.trial(start_sizes(len(probe)))) is not None:
            self._trial = found
            return found
        if rank() == 0:
            log(f"timing a few of the {len(probe):,} items of {probe.name}, to decide how many are measured")
        few = Scorer(probe.with_items(scored[:_TRIAL_ITEMS]), tokenizer, model, token_budget=self.token_budget)
        few.score(model)
        token = float(few.score(model).meta["seconds"]) / max(few.engine.tokens, 1)
        if not token:  # none of them fits into the context
            return None
        # More items share more of their beginnings, and read fewer tokens each.
        more = probe.with_items(scored[:FEWEST_ITEMS])
        engine = Scorer(more, tokenizer, model, token_budget=self.token_budget).engine
        tokens = engine.planned_tokens(few.engine.layout or "rows", few.engine.attention)
        self._trial = Trial(question=token * tokens / evaluated_worth(more, Decision()), token=token * world_size())
        return self._trial

    def _known_baseline(self, model: nn.Module, tokenizer: Any) -> KnownBaseline | None:
        """Entries of the cache for the baseline; None where an engine generates the answers, or they are sampled."""
        if self._known is not None:
            return self._known
        probe = self._looks.probe
        sampled = any(map(probe.is_generated, probe)) and Decoding.of(probe.decoding).temperature > 0
        if self._generator is not None or sampled:
            return None
        self._known = KnownBaseline.of(model, tokenizer, probe, token_budget=self.token_budget)
        return self._known

    def baseline(self, model: nn.Module, tokenizer: Any, *, step: int, twice: bool) -> tuple[Snapshot, Snapshot | None]:
        """Outcomes of the model before the training, and those of a second measurement, None without one."""
        probe, is_main = self._looks.probe, rank() == 0
        items = self._looks.items or len(probe)
        again = min(TWICE_ITEMS, items) if twice else 0
        known = self._known_baseline(model, tokenizer)
        if known is not None and (found := known.read(items)) is not None:
            found = without_trial(found, model=model_name(model), step=step)
            checked: Snapshot | None = None
            with suppress(ScoringError):  # what was right when it was measured may be impossible here
                checked = self._again(found, model, tokenizer, step=step, items=CHECKED_ITEMS, progress=None)
            number = None if checked is None else differing(found, checked)
            if is_main:
                made = str(found.meta.get("time"))[:10]
                line = f"baseline: measured on {made} already; {min(CHECKED_ITEMS, items)} items measured again"
                line += ", which differ: it is measured anew" if number is None else f", {number} with another outcome"
                log(line)
            if number is not None:
                self.set_seconds(found, share=1.0)
                _check_baseline(found, probe, step=step)
                self._obstacle_logged = True
                return found, checked if twice else None
        opening = ""
        if not self.is_announced:
            which = "all" if again == items else f"the first {again:,}"
            opening = f"baseline: {probe.name}, {items:,} items"
            opening += f", then {which} of them again for the noise" if twice else ""
        with shown(
            "baseline",
            opening=opening,
            again=HALVES * again / items,
            is_main_process=is_main,
        ) as progress:
            snapshot = self.look(model, tokenizer, step=step, progress=progress)
        _check_baseline(snapshot, probe, step=step)
        self._obstacle_logged = True  # with the other unscored items
        if known is not None:
            self.is_kept = known.write(snapshot, items, self._trial)
        null = None
        if twice:
            with shown("second measurement", is_main_process=is_main) as progress:
                null = self._again(snapshot, model, tokenizer, step=step, items=TWICE_ITEMS, progress=progress)
        return snapshot, null

    def look(self, model: nn.Module, tokenizer: Any, *, step: int, progress: Progress | None) -> Snapshot:
        """Outcomes of the model on the items that the looks evaluate."""
        looks = self._looks
        if self._scorer is None:
            self._encoded_at = step
            made = looks.baseline.meta if looks.baseline else {}
            # The same batches also after a resume: outcomes near a tie depend on the composition of a batch.
            self._scorer = Scorer(
                looks.probe.head(looks.items or len(looks.probe)),
                tokenizer,
                model,
                layout=made.get("way"),
                attention=made.get("attention"),
                noise=made.get("noise"),
                token_budget=(made.get("batch") or {}).get("tokens") or self.token_budget,
                left_out=looks.subset.left_out,
                progress=progress,
            )
        scorer = self._scorer
        if not all(all_gather(lambda: scorer.encodes_alike(tokenizer))):
            raise ScoringError(
                f"the tokenizer at step {step} encodes the questions differently from the one at step "
                f"{self._encoded_at}; needed one tokenizer for all looks of a run"
            )
        snapshot = scorer.score(model, step=step, generator=self._generator, progress=progress)
        # Once: answers of a baseline from elsewhere may be impossible to generate here.
        reasons = Counter(outcome for outcome in snapshot.texts("outcome") if outcome.startswith(CANNOT_GENERATE))
        if looks.baseline is not None and reasons and not self._obstacle_logged:
            self._obstacle_logged = True
            if rank() == 0:
                log(f"{reasons.total():,} of {len(snapshot):,} items are unscored at every look: {_reasons(reasons)}")
        self.set_seconds(snapshot, share=1.0)
        return looks.subset.describe(snapshot, fingerprint=looks.probe.fingerprint)

    def _again(
        self, first: Snapshot, model: nn.Module, tokenizer: Any, *, step: int, items: int, progress: Progress | None
    ) -> Snapshot:
        """Second measurement of the weights of a baseline, over its first items, in batches of half the tokens."""
        looks, made = self._looks, first.meta
        probe = looks.probe.head(min(items, looks.items or items))
        twice = Scorer(
            probe,
            tokenizer,
            model,
            layout=made["way"],
            attention=made["attention"],
            noise=made["noise"],
            token_budget=max(_FEWEST_TOKENS, made["batch"]["tokens"] // 2),
            progress=progress,
        )
        null = twice.score(model, step=step, generator=self._generator, progress=progress, again=True)
        part = Subset.of_probe(looks.probe, items=len(probe), generates=True)
        return part.describe(null, fingerprint=looks.probe.fingerprint)

    def set_seconds(self, snapshot: Snapshot, *, share: float) -> None:
        """Set the seconds of the latest evaluation to those of a snapshot, or to a share of them."""
        self.seconds, self.generation_seconds = (
            share * float(snapshot.meta.get(name) or 0.0) for name in ("seconds", "written_seconds")
        )


def references(against: Mapping[str, Snapshot | str | Path] | None) -> dict[str, Snapshot | str]:
    """References by name, each a snapshot or ``"previous"``; those in files are read."""
    if against is not None and not isinstance(against, Mapping):
        raise WatchError(f"against={against!r}: needed names and references, such as {{'previous': 'previous'}}")
    for name in against or {}:
        if not re.fullmatch(r"[a-z0-9_]+", str(name)):
            raise WatchError(f"against: the name {name!r} becomes part of tracker keys; needed a-z, 0-9 and _ only")
    return {
        name: given if isinstance(given, Snapshot) else PREVIOUS if given == PREVIOUS else load_snapshot(given)
        for name, given in (against or {}).items()
    }


def checked_step(step: SupportsIndex, *, lowest: int = 0) -> int:
    """A step as a plain integer, also of a numpy integer; a WatchError for any other value."""
    try:
        number = None if isinstance(step, bool) else operator.index(step)
    except TypeError:
        number = None
    if number is None or not lowest <= number <= LAST_STEP:
        raise WatchError(f"step={step!r}: needed a whole number of optimizer steps from {lowest} to {LAST_STEP}")
    return number


def _check_baseline(snapshot: Snapshot, probe: Probe, *, step: int) -> None:
    """Raise if a baseline has no scored item, and log how many items are unscored or wrong by rule."""
    outcomes = list(zip(snapshot.texts("outcome"), snapshot.is_unscored, strict=True))
    unscored = Counter(outcome for outcome, without in outcomes if without)
    wrong = Counter(outcome for outcome, without in outcomes if outcome != "ok" and not without)
    if unscored.total() == len(snapshot):
        raise ScoringError(
            f"no item of probe {probe.name!r} ({len(snapshot):,} items) can be scored: {_reasons(unscored)}"
        )
    # Every process has checked the baseline, so that all stop; only the main process logs.
    if rank() != 0:
        return
    if unscored:
        log(f"{unscored.total():,} of {len(snapshot):,} items are unscored: {_reasons(unscored)}")
    if repeated := repeated_prompts(snapshot):
        log(repeated)
    if wrong:
        log(f"{wrong.total():,} of {len(snapshot):,} answers count as wrong: {_reasons(wrong)}")
    if step > 0:
        log(f"the baseline is taken at step {step}: losses before it cannot be seen")


def _reasons(outcomes: Counter[str]) -> str:
    return "; ".join(f"{count:,} {why.removeprefix('unscored: ')}" for why, count in outcomes.most_common(3))

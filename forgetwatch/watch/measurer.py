"""Measurements of the model of a run: a trial, the baseline and its second measurement, looks.

    trial                 the seconds of a few items
    baseline              the items that were decided on, or those in the cache
    second measurement    the first of them again in smaller batches: what flips is noise
    look                  the items that the budget keeps

A measurer is handed the items of each measurement (`Evaluated`). Outcomes near a tie depend on the composition of a
batch, so the batches of the baseline are those of the run, also after a resume.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import nn

from forgetwatch.comparing import Subset, repeated_prompts
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress, log, shown
from forgetwatch.scoring import (
    CANNOT_GENERATE,
    Scorer,
    all_gather,
    execution,
    generation_obstacle,
    model_name,
    rank,
    tokenizer_settings,
    world_size,
)
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.budget import (
    CHECKED_ITEMS,
    FEWEST_ITEMS,
    HALVES,
    TWICE_ITEMS,
    Decision,
    Trial,
    evaluated_worth,
    start_sizes,
)
from forgetwatch.watch.known_baseline import KnownBaseline, differing, without_trial

_TRIAL_ITEMS: Final = 32
"""Items of a trial, two batches on a CPU."""
_TRIAL_ANSWERS: Final = 16
_TRIAL_ON_CPU: Final = 2
"""Generated answers of a trial, on a GPU and on a CPU."""

_FEWEST_TOKENS: Final = 64
"""Tokens of the smallest batch with which the baseline is measured again."""

_NAMES: Final = ("_name_or_path", "transformers_version")
"""Settings of a model's configuration by which no outcome changes."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What a look evaluates.

    Attributes:
        probe: The probe.
        subset: The items of it.
        baseline: The baseline, in whose batches they are read; None before there is one.
    """

    probe: Probe
    subset: Subset
    baseline: Snapshot | None

    @property
    def items(self) -> int:
        """Length of the prefix of the probe."""
        return self.subset.items or len(self.probe)


class LookScorer:
    """Evaluates the model of a run: in the same batches at every look, with its progress shown.

    Attributes:
        seconds: Seconds of the latest look that evaluated the model; after a resume those of the baseline, for as many
            items.
        generation_seconds: Seconds of these that generated answers.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the device.
        is_announced: True if a line says already what the baseline measures.

    Args:
        token_budget: Tokens of a batch; None for what suits the device.
    """

    def __init__(self, *, token_budget: int | None = None) -> None:
        self.seconds = self.generation_seconds = 0.0
        self.token_budget = token_budget
        self.is_announced = False
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

    def trial(
        self, model: nn.Module, tokenizer: Any, probe: Probe, *, items: int | None, weights: str | None
    ) -> Trial | None:
        """Time the first items that are scored, read twice, since the first time is slower, and a few answers.

        Seconds that were measured with a baseline are taken from the cache; it has `items` if these are set by hand.
        `weights` is the fingerprint of the model; None if it is not known.
        """
        scored = [item for item in probe if not probe.is_generated(item)]
        known = self._known_baseline(model, tokenizer, probe, weights)
        sizes = start_sizes(len(probe)) if items is None else [min(items, len(probe))]
        if known is not None and (found := known.trial(sizes)) is not None:
            self._trial = found
            return found
        if rank() == 0:
            log(f"timing a few of the {len(probe):,} items of {probe.name}, to decide how many are measured")
        self._trial = Trial(question=0.0, token=0.0, answer=self._answer_seconds(model, tokenizer, probe))
        if not scored:
            return self._trial
        few = Scorer(probe.with_items(scored[:_TRIAL_ITEMS]), tokenizer, model, token_budget=self.token_budget)
        few.score(model)
        token = float(few.score(model).meta["seconds"]) / max(few.engine.tokens, 1)
        if not token:  # none of them fits into the context
            return None
        # More items share more of their beginnings, and read fewer tokens each.
        more = probe.with_items(scored[:FEWEST_ITEMS])
        engine = Scorer(more, tokenizer, model, token_budget=self.token_budget).engine
        tokens = engine.planned_tokens(few.engine.layout or "rows", few.engine.attention)
        question = token * tokens / evaluated_worth(more, Decision())
        self._trial = replace(self._trial, question=question, token=token * world_size())
        return self._trial

    def _answer_seconds(self, model: nn.Module, tokenizer: Any, probe: Probe) -> float:
        """Time the first items whose answers are generated, and return the seconds of one; 0 if there are none."""
        generated = [item for item in probe if probe.is_generated(item)]
        if not generated or generation_obstacle(model):
            return 0.0
        few = probe.with_items(generated[: _TRIAL_ANSWERS if execution(model)["device"] == "cuda" else _TRIAL_ON_CPU])
        timed = Scorer(few, tokenizer, model, token_budget=self.token_budget).score(model)
        return float(timed.meta["seconds"]) / len(few)

    def _known_baseline(
        self, model: nn.Module, tokenizer: Any, probe: Probe, weights: str | None
    ) -> KnownBaseline | None:
        """Return the entries of the cache for the baseline.

        None where answers are sampled.
        """
        if self._known is not None:
            return self._known
        sampled = any(map(probe.is_generated, probe)) and Decoding.of(probe.decoding).temperature > 0
        if sampled:
            return None
        self._known = KnownBaseline.of(model, tokenizer, probe, token_budget=self.token_budget, weights=weights)
        return self._known

    def baseline(
        self,
        model: nn.Module,
        tokenizer: Any,
        part: Evaluated,
        *,
        step: int,
        twice: bool,
        weights: str | None = None,
    ) -> tuple[Snapshot, Snapshot | None]:
        """Return the outcomes of the model before the training, and those of a second measurement, None without one."""
        probe, items, is_main = part.probe, part.items, rank() == 0
        again = min(CHECKED_ITEMS, items) if twice else 0
        known = self._known_baseline(model, tokenizer, probe, weights)
        if known is not None and (found := known.read(items, whole=not part.subset.left_out)) is not None:
            found = without_trial(found, model=model_name(model), step=step)
            checked: Snapshot | None = None
            with suppress(ScoringError):  # what was right when it was measured may be impossible here
                checked = self._again(found, model, tokenizer, part, step=step, items=CHECKED_ITEMS, progress=None)
            number = None if checked is None else differing(found, checked)
            if is_main:
                made = str(found.meta.get("time"))[:10]
                line = f"baseline: measured on {made} already; {min(CHECKED_ITEMS, items)} items measured again"
                line += ", which differ: it is measured anew" if number is None else f", {number} with another outcome"
                log(line)
            if number is not None:
                self.set_seconds(found, share=1.0)
                if checked is not None and not self.generation_seconds:  # the machine may have been busy then
                    whole, few = (evaluated_worth(probe, Decision(items=size)) for size in (items, len(checked)))
                    self.seconds = min(self.seconds, float(checked.meta["seconds"]) * whole / few)
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
            snapshot = self.look(model, tokenizer, part, step=step, progress=progress)
        _check_baseline(snapshot, probe, step=step)
        self._obstacle_logged = True  # with the other unscored items
        if known is not None:
            known.write(snapshot, items, self._trial, whole=not part.subset.left_out)
        null = None
        if twice:
            with shown("second measurement", is_main_process=is_main) as progress:
                null = self._again(snapshot, model, tokenizer, part, step=step, items=CHECKED_ITEMS, progress=progress)
                if differing(snapshot, null) != 0 and len(null) < items:
                    null = self._again(
                        snapshot, model, tokenizer, part, step=step, items=TWICE_ITEMS, progress=progress
                    )
        return snapshot, null

    def changed(
        self, baseline: Snapshot, model: nn.Module, tokenizer: Any, part: Evaluated, *, step: int
    ) -> tuple[int, int]:
        """Return (Answers to the first items that differ from those of the baseline, number of these items)."""
        now = self._again(baseline, model, tokenizer, part, step=step, items=CHECKED_ITEMS, progress=None)
        (was_right, right), (was, chosen) = (
            (baseline.head(len(now)).floats("correct"), now.floats("correct")),
            (baseline.head(len(now)).ints("chosen"), now.ints("chosen")),
        )
        return int(((was != chosen) | ((was_right != right) & (right == right))).sum()), len(now)

    def look(
        self,
        model: nn.Module,
        tokenizer: Any,
        part: Evaluated,
        *,
        step: int,
        progress: Progress | None,
    ) -> Snapshot:
        """Return the outcomes of the model on the items that the looks evaluate."""
        if self._scorer is None:
            self._encoded_at = step
            made = part.baseline.meta if part.baseline else {}
            # The same batches also after a resume: outcomes near a tie depend on the composition of a batch.
            self._scorer = Scorer(
                part.probe.head(part.items),
                tokenizer,
                model,
                layout=made.get("way"),
                attention=made.get("attention"),
                noise=made.get("noise"),
                token_budget=(made.get("batch") or {}).get("tokens") or self.token_budget,
                left_out=part.subset.left_out,
                progress=progress,
            )
        scorer = self._scorer
        if not all(all_gather(lambda: scorer.encodes_alike(tokenizer))):
            raise ScoringError(
                f"the tokenizer at step {step} encodes the questions differently from the one at step "
                f"{self._encoded_at}; needed one tokenizer for all looks of a run"
            )
        snapshot = scorer.score(model, step=step, progress=progress)
        # Once: answers of a baseline from elsewhere may be impossible to generate here.
        reasons = Counter(outcome for outcome in snapshot.texts("outcome") if outcome.startswith(CANNOT_GENERATE))
        if part.baseline is not None and reasons and not self._obstacle_logged:
            self._obstacle_logged = True
            if rank() == 0:
                log(f"{reasons.total():,} of {len(snapshot):,} items are unscored at every look: {_reasons(reasons)}")
        self.set_seconds(snapshot, share=1.0)
        return part.subset.describe(snapshot, fingerprint=part.probe.fingerprint)

    def _again(
        self,
        first: Snapshot,
        model: nn.Module,
        tokenizer: Any,
        part: Evaluated,
        *,
        step: int,
        items: int,
        progress: Progress | None,
    ) -> Snapshot:
        """Measure a baseline's weights again, over its first items, in batches of half the tokens."""
        made, probe = first.meta, part.probe.head(min(items, part.items))
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
        null = twice.score(model, step=step, progress=progress, again=True)
        subset = Subset.from_probe(part.probe, items=len(probe), generates=True)
        return subset.describe(null, fingerprint=part.probe.fingerprint)

    def set_seconds(self, snapshot: Snapshot, *, share: float) -> None:
        """Set the seconds of the latest evaluation to those of a snapshot, or to a share of them."""
        self.seconds, self.generation_seconds = (
            share * float(snapshot.meta.get(name) or 0.0) for name in ("seconds", "written_seconds")
        )


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

"""Measuring the model of a run: the baseline, its second measurement, and the looks, all in the same batches.

    baseline              all items, announced, with the time that it will take
    second measurement    the first items again in smaller batches: what flips is noise
    look                  the items that the budget keeps

Outcomes near a tie depend on the composition of a batch, so the batches of the baseline are those of the run, also
after a resume.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from torch import nn

from forgetwatch.comparing import Subset, repeated_prompts
from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress, log, shown
from forgetwatch.scoring import CANNOT_GENERATE, Generator, Scorer, all_gather, rank
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.looks import Looks

_TWICE_ITEMS: Final = 500
"""Number of items of the second measurement of the baseline."""

_FEWEST_TOKENS: Final = 64
"""Tokens of the smallest batch with which the baseline is measured again."""

_HALVES: Final = 1.15
"""Seconds of an item in batches of half the size, as a multiple of those in whole ones; measured on a CPU."""

_QUICK_ITEMS: Final = 500
"""Items of the probe `quick`, the first ones of `standard`."""


class Measurer:
    """Evaluates the model of a run: in the same batches at every look, with its progress shown.

    Attributes:
        seconds: Seconds of the latest look that evaluated the model; after a resume those of the baseline, for as many
            items.
        generation_seconds: Seconds of these that generated answers.
        token_budget: Tokens of a batch of the baseline, and so of the run; None for what suits the device.

    Args:
        looks: The looks of the run: they name the items, and the batches of the baseline.
        token_budget: Tokens of a batch; None for what suits the device.
        generator: Generates answers if items need that; None for the model itself.
    """

    def __init__(self, looks: Looks, *, token_budget: int | None = None, generator: Generator | None = None) -> None:
        self.seconds = self.generation_seconds = 0.0
        self.token_budget = token_budget
        self._looks = looks
        self._generator = generator
        self._scorer: Scorer | None = None
        self._encoded_at = 0  # step of the look whose tokenizer encoded the items
        self._obstacle_logged = False

    def restart(self) -> None:
        """Lay out the batches anew at the next look, which has other items."""
        self._scorer = None

    def baseline(self, model: nn.Module, tokenizer: Any, *, step: int, twice: bool) -> tuple[Snapshot, Snapshot | None]:
        """Outcomes of the model before the training, and those of a second measurement, None without one.

        Args:
            model: The model.
            tokenizer: Its tokenizer.
            step: Optimizer steps taken so far.
            twice: True to measure a second time.

        Raises:
            ScoringError: If no item can be scored.
        """
        probe, is_main = self._looks.probe, rank() == 0
        opening = f"baseline: {probe.name}, {len(probe):,} items"
        again = min(_TWICE_ITEMS, len(probe)) if twice else 0
        which = "all" if again == len(probe) else f"the first {again:,}"
        opening += f", then {which} of them again for the noise" if twice else ""
        with shown(
            "baseline",
            opening=opening,
            again=_HALVES * again / len(probe),
            advice=_shorter(probe),
            is_main_process=is_main,
        ) as progress:
            snapshot = self.look(model, tokenizer, step=step, progress=progress)
        _check_baseline(snapshot, probe, step=step)
        self._obstacle_logged = True  # with the other unscored items
        null = None
        if twice:
            with shown("second measurement", is_main_process=is_main) as progress:
                null = self._again(model, tokenizer, step=step, progress=progress)
        return snapshot, null

    def look(self, model: nn.Module, tokenizer: Any, *, step: int, progress: Progress | None) -> Snapshot:
        """Outcomes of the model on the items that the looks evaluate.

        Args:
            model: The model.
            tokenizer: Its tokenizer.
            step: Optimizer steps taken so far.
            progress: Called after each batch; None for no display.

        Raises:
            ScoringError: If the tokenizer encodes the items otherwise than that of the first look.
        """
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
        if looks.baseline is not None:
            self._log_obstacle(snapshot)
        self.set_seconds(snapshot, share=1.0)
        return looks.subset.describe(snapshot, fingerprint=looks.probe.fingerprint)

    def _log_obstacle(self, snapshot: Snapshot) -> None:
        """Log once that answers of a baseline from elsewhere cannot be generated here."""
        reasons = Counter(outcome for outcome in snapshot.texts("outcome") if outcome.startswith(CANNOT_GENERATE))
        if reasons and not self._obstacle_logged and rank() == 0:
            log(f"{reasons.total():,} of {len(snapshot):,} items are unscored at every look: {_reasons(reasons)}")
        self._obstacle_logged = self._obstacle_logged or bool(reasons)

    def _again(self, model: nn.Module, tokenizer: Any, *, step: int, progress: Progress | None) -> Snapshot | None:
        """Second measurement of the baseline's weights, in batches of half the tokens: its flips are noise.

        It is over the first items only, which suffice to see noise.
        """
        if self._scorer is None:
            return None
        engine = self._scorer.engine
        tokens = max(_FEWEST_TOKENS, engine.token_budget // 2)
        probe = self._looks.probe.head(_TWICE_ITEMS)
        twice = Scorer(
            probe,
            tokenizer,
            model,
            layout=engine.layout,
            attention=engine.attention,
            noise=engine.noise,
            token_budget=tokens,
            progress=progress,
        )
        null = twice.score(model, step=step, generator=self._generator, progress=progress, again=True)
        part = Subset.of_probe(self._looks.probe, items=len(probe), generates=True)
        return part.describe(null, fingerprint=self._looks.probe.fingerprint)

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


def _shorter(probe: Probe) -> str:
    """Advice on a baseline that takes long."""
    smaller = ""
    if len(probe) > _QUICK_ITEMS:
        smaller = "the probe 'quick'" if probe.name == "standard" else f"fewer items (probe.head({_QUICK_ITEMS}))"
        smaller += ", or "
    return f"shorter: {smaller}a snapshot of this model (`forgetwatch score`) as the baseline, not measured twice"


def _reasons(outcomes: Counter[str]) -> str:
    return "; ".join(f"{count:,} {why.removeprefix('unscored: ')}" for why, count in outcomes.most_common(3))

"""Groups of items (all, kinds, categories, tasks), each with its cells, intervals, tests and corrections for guessing.

A `Group` is a row of every table and of the JSON document; `comparing.quantities` names its numbers. All numbers come
from `metrics`; this module decides which rows they are taken over and how many independent items these are worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.aligned import AlignedPairs
from forgetwatch.comparing.aligned_passages import AlignedPassages
from forgetwatch.comparing.labels import Labels
from forgetwatch.comparing.vanished import count_vanished
from forgetwatch.metrics import (
    DELTA,
    Bound,
    Cells,
    Change,
    Confidence,
    Corrected,
    Interval,
    LogScore,
    MassChanges,
    NoiseFloor,
    Paper,
    Persistence,
    Soft,
    bits_per_byte,
    bootstrap,
    bound,
    bounds,
    count_cells,
    count_known,
    count_losses,
    detectable_change,
    effective_items,
    false_discovery,
    flip_interval,
    guessing,
    log_shares,
    loss_p_value,
    mass_changes,
    mcnemar,
    newcombe,
    noise_floor,
    null,
    persistence,
    sign_flip,
    smallest_loss,
    soft,
)
from forgetwatch.metrics.log_score import log_score
from forgetwatch.metrics.paper import paper

Ints = NDArray[np.int64]
Level = Literal["all", "kind", "category", "task"]


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Corrections of a group's flips for guessing; a quantity that is undefined for the group is None.

    Attributes:
        n: Items with k >= 2.
        paper: The paper's adjustment, over those items.
        guess_corrected: Needs logged options and k >= 3.
        guess_corrected_calibrated: Needs the scores of the options as well.
        bound: Rates that balanced guessing leaves possible.
        persistence: Wrong answers that stay the same; needs logged options.
        tipping_interval: 95 % bootstrap interval of the tipping ratio; None without a generator.
    """

    n: float
    paper: Paper | None
    guess_corrected: Corrected | None
    guess_corrected_calibrated: Corrected | None
    bound: Bound | None
    persistence: Persistence | None
    tipping_interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Group(Cells):
    """The four cells of one group of items, and what follows from them. Intervals are 95 %.

    Attributes:
        level: ``all``, ``kind``, ``category`` or ``task``; there are kinds if some answers were scored by
            log-likelihood (``scored``) and others generated (``written``).
        name: The category's or task's name; ``all`` for the whole.
        known: Items right before with a confident answer; None if no item takes part. See `metrics.known`.
        known_lost: Those of them that are wrong now; luck is in it.
        newly_known: Items wrong before and right now with a confident answer; luck is in it.
        known_by_luck: Number of the known items that luck alone makes; None without a mirror.
        known_lost_by_luck: Number of the lost ones that luck alone makes; None without a mirror.
        known_net: `known` less `known_by_luck`.
        known_lost_net: `known_lost` less `known_lost_by_luck`.
        known_lost_net_interval: Its interval, in items.
        known_lost_net_share: `known_lost_net` as a share of `known_net`; None if that is below 20.
        known_lost_interval: Of `known_lost` as a share of `known`, luck included; None if no item takes part.
        log_scores: Log score before and after; None without the scores of the options. See `metrics.log_score`.
        log_score_before: Mean log share of the right option before, nats an item; None likewise.
        log_score_after: The same, after.
        log_score_change: Mean of the paired differences; None for fewer than 50 scored items, as all that follow from
            it.
        log_score_change_interval: Its interval.
        log_score_change_clipped: The change with each item's difference cut at 2 nats.
        log_score_change_clipped_interval: Its interval.
        log_score_change_calibrated: The change after each side's scores are divided by their best temperature.
        log_score_change_calibrated_interval: Its interval.
        log_score_p_value: Two-sided p-value of "no change" of the calibrated log score.
        log_score_q_value: Benjamini-Hochberg of it over the groups of the level.
        temperature_before: Temperature with the highest log score before.
        temperature_after: The same, after.
        forgotten_log_score_change: Mean change of the log score over the forgotten items, nats an item; None if none of
            them has scores.
        mass: Mass and conditional of the options, with standard errors; None without the log-likelihoods of the options
            on both sides, as the next eleven. See `metrics.mass`.
        log_mass_change: Mean change of the logarithm of the options' total probability, nats an item: below 0, none of
            them is what the model would say now.
        log_mass_change_interval: Its interval.
        log_conditional_change: Mean change of the logarithm of the right option's part of it, nats an item. It is
            `log_score_change` where the sum of the log-likelihoods decides; no norm and no temperature enters it.
        log_conditional_change_interval: Its interval.
        forgotten_log_mass_change: Mean change of the log mass over the forgotten items; None if none is measured.
        forgotten_log_mass_change_interval: Its interval.
        forgotten_log_conditional_change: Mean change of the log conditional over the forgotten items; None likewise.
        forgotten_log_conditional_change_interval: Its interval.
        mass_kl: Mean KL(Bern m || Bern m') of the mass, nats an item.
        conditional_kl: Mean KL(c || c') within the options, nats an item.
        weighted_conditional_kl: Mean m KL(c || c'); None unless options are letters: otherwise m is near 0.
        forgotten_at_constant_mass: Answers right before and wrong after, had the options of each item kept their total
            probability; None unless a score divided by a length decides. See `metrics.choices`.
        format_lost: Answers right before whose form is lost, without evidence that the knowledge is; None if no form
            was measured. See `metrics.form`.
        knowledge_lost: Answers right before and wrong now, not by their form.
        null_n: Items that were measured again with the same weights; None if none was.
        null_lost: Items right before and wrong when the same weights were measured again; None if they were not.
        null_gained: Items wrong before and right when measured again; None likewise.
        effective_n: Number of independent items with the same standard error: below n where items come in clusters,
            above it where independent samples of an item add up.
        forgetting_interval: Of `forgetting` (Wilson; one-sided exact limit for no flips).
        backward_transfer_interval: Of `backward_transfer`, in the same way.
        net_change_interval: Of `net_change`, after minus before (Newcombe, corrected phi).
        net_change_interval_worst: The same in the worst case of the outcomes that vanished; see `comparing.vanished`.
        unscored_before: Items without an outcome before.
        unscored_after: Items without an outcome after.
        newly_unscored: Items that were scored before and are unscored after.
        vanished: Items that were scored on one side alone.
        known_vanished: Known items that are unscored after; None if nothing shows which were known.
        p_value: Two-sided mid-p McNemar test of "no net change"; over clusters where there are any.
        loss_p_value: One-sided p-value of "no net loss", for alarms over many looks: exact McNemar; over clusters a
            sign-flip test, with the normal approximation for many clusters.
        q_value: Benjamini-Hochberg over the groups of the level.
        chance: Corrections for guessing.
        soft: Loss and gain of gold's probability share; None without option probabilities.
        noise_floor: Flips that sampled decoding makes by itself; None for one sample an item.
        passages: Number of passages, which are in no other count; None if there are none, as all that follow from them.
            See `metrics.passages`.
        bits_per_byte_before: Bits per byte of the passages before.
        bits_per_byte_after: The same, after.
        bits_per_byte_change: After minus before: above 0, the texts have become harder to predict.
        bits_per_byte_change_interval: Its interval.
        bits_per_byte_p_value: Two-sided p-value of "no change".
        bits_per_byte_q_value: Benjamini-Hochberg of it over the groups of the level.
    """

    level: Level
    name: str
    known: float | None
    known_lost: float | None
    newly_known: float | None
    known_by_luck: float | None
    known_lost_by_luck: float | None
    known_net: float | None
    known_lost_net: float | None
    known_lost_net_interval: Interval | None
    known_lost_net_share: float | None
    known_lost_interval: Interval | None
    log_scores: LogScore | None
    log_score_before: float | None
    log_score_after: float | None
    log_score_change: float | None
    log_score_change_interval: Interval | None
    log_score_change_clipped: float | None
    log_score_change_clipped_interval: Interval | None
    log_score_change_calibrated: float | None
    log_score_change_calibrated_interval: Interval | None
    log_score_p_value: float | None
    log_score_q_value: float | None
    temperature_before: float | None
    temperature_after: float | None
    forgotten_log_score_change: float | None
    mass: MassChanges | None
    log_mass_change: float | None
    log_mass_change_interval: Interval | None
    log_conditional_change: float | None
    log_conditional_change_interval: Interval | None
    forgotten_log_mass_change: float | None
    forgotten_log_mass_change_interval: Interval | None
    forgotten_log_conditional_change: float | None
    forgotten_log_conditional_change_interval: Interval | None
    mass_kl: float | None
    conditional_kl: float | None
    weighted_conditional_kl: float | None
    forgotten_at_constant_mass: float | None
    format_lost: float | None
    knowledge_lost: float | None
    null_n: float | None
    null_lost: float | None
    null_gained: float | None
    effective_n: float
    forgetting_interval: Interval
    backward_transfer_interval: Interval
    net_change_interval: Interval
    net_change_interval_worst: Interval
    unscored_before: int
    unscored_after: int
    newly_unscored: int
    vanished: int
    known_vanished: float | None
    p_value: float
    loss_p_value: float
    q_value: float
    chance: Chance
    soft: Soft | None
    noise_floor: NoiseFloor | None
    passages: float | None = None
    bits_per_byte_before: float | None = None
    bits_per_byte_after: float | None = None
    bits_per_byte_change: float | None = None
    bits_per_byte_change_interval: Interval | None = None
    bits_per_byte_p_value: float | None = None
    bits_per_byte_q_value: float | None = None

    @property
    def detectable_change(self) -> float:
        """Smallest net change that these items see with 80 % power at the observed share of flips; nan for no items."""
        if not self.n:
            return math.nan
        # With fewer than three flips the observed share is too uncertain to plan with.
        return detectable_change(self.effective_n, max(self.forgotten + self.gained, 3) / self.n)

    def fading_p_value(self, delta: float = DELTA) -> float:
        """One-sided p-value of "the calibrated log score did not fall by more than delta"; nan where it is undefined.

        Args:
            delta: The tolerated fall, nats an item.
        """
        change = None if self.log_scores is None else self.log_scores.calibrated
        return math.nan if change is None else change.fading_p_value(delta)

    def smallest_loss(self, level: float) -> float:
        """Smallest net loss (share of the items) that could have a one-sided p-value of `level`; nan if none could.

        Exact for independent items, an approximation by `effective_n` for clusters.
        """
        worth = self.effective_n / self.n if self.n else 0.0
        flips = round((self.forgotten + self.gained) * worth)
        return smallest_loss(flips, level) / self.effective_n if worth else math.nan


def count_groups(
    paired: AlignedPairs,
    unscored: AlignedPairs,
    passages: AlignedPassages | None = None,
    *,
    rng: np.random.Generator | None = None,
    replications: int = 2000,
) -> Iterator[Group]:
    """Yield the groups of every level: all, kinds, categories, tasks, each in the order of their first rows.

    Groups without an answer that was scored on both sides come after the others of their level: of unscored items, then
    of passages, which are of no kind.

    Args:
        paired: The pairs of answers that were scored on both sides.
        unscored: The pairs of the items that were not.
        passages: The passages; None for none.
        rng: Generator of bootstrap draws; None leaves out the intervals that need them.
        replications: Draws of each interval.
    """

    def group(rows: Ints, level: Level, name: str) -> Group:
        return _group(paired.take(rows), missing.get(name, nothing), level, name, rng, replications)

    missing, nothing = {"all": unscored}, unscored.take(np.zeros(0, np.int64))
    whole = replace(group(np.arange(len(paired)), "all", "all"), **_bits_per_byte(passages))
    # A level of one group has nothing to correct for.
    yield replace(
        whole,
        q_value=whole.p_value,
        log_score_q_value=whole.log_score_p_value,
        bits_per_byte_q_value=whole.bits_per_byte_p_value,
    )
    levels: list[tuple[Level, Labels, Labels]] = [
        ("category", paired.category, unscored.category),
        ("task", paired.task, unscored.task),
    ]
    if len(np.unique(paired.kind.code)) > 1:
        levels.insert(0, ("kind", paired.kind, unscored.kind))  # one kind alone would repeat the whole
    for level, labels, of_unscored in levels:
        missing = {name: unscored.take(rows) for name, rows in of_unscored.split()}
        groups = [group(rows, level, name) for name, rows in labels.split()]
        q_values = false_discovery(np.array([one.p_value for one in groups], float))
        fading = _q_values([one.log_score_p_value for one in groups])
        texts = _texts(passages, level)
        for one, q, log_score_q in zip(groups, q_values, fading, strict=True):
            yield replace(one, q_value=float(q), log_score_q_value=log_score_q, **texts.get(one.name, {}))
        # No answer, so no test of one: these groups are none of those that p_value is corrected for.
        for name in dict.fromkeys((*missing, *texts)):
            if name not in {one.name for one in groups}:
                yield replace(group(np.zeros(0, np.int64), level, name), **texts.get(name, {}))


def _texts(passages: AlignedPassages | None, level: Level) -> dict[str, dict[str, Any]]:
    """Attributes that follow from the passages of each group of a level, by the group's name."""
    if passages is None or level not in ("category", "task"):
        return {}
    labels = passages.category if level == "category" else passages.task
    texts = {name: _bits_per_byte(passages.take(rows)) for name, rows in labels.split()}
    q_values = _q_values([found.get("bits_per_byte_p_value") for found in texts.values()])
    return {
        name: found | {"bits_per_byte_q_value": q} for (name, found), q in zip(texts.items(), q_values, strict=True)
    }


def _bits_per_byte(passages: AlignedPassages | None) -> dict[str, Any]:
    """Attributes of a group that follow from its passages."""
    found = None if passages is None else bits_per_byte(passages.passages)
    if found is None:
        return {}
    return {
        "passages": found.passages,
        "bits_per_byte_before": found.before,
        "bits_per_byte_after": found.after,
        "bits_per_byte_change": found.change.mean,
        "bits_per_byte_change_interval": found.change.interval,
        "bits_per_byte_p_value": found.change.p_value,
    }


def _q_values(p_values: list[float | None]) -> list[float | None]:
    """Benjamini-Hochberg over the groups that have a p-value; None for the others."""
    tested = np.array([p is not None and math.isfinite(p) for p in p_values], bool)
    found: list[float | None] = [None] * len(p_values)
    q_values = false_discovery(np.array([p for p, has in zip(p_values, tested, strict=True) if has], float))
    for index, q in zip(np.flatnonzero(tested).tolist(), q_values, strict=True):
        found[index] = float(q)
    return found


def _group(
    paired: AlignedPairs,
    unscored: AlignedPairs,
    level: Level,
    name: str,
    rng: np.random.Generator | None,
    replications: int,
) -> Group:
    samples, cluster = paired.samples, paired.cluster
    cells = count_cells(paired.before, paired.after, samples=samples)
    lost = count_losses(
        paired.before,
        paired.after,
        paired.form_before,
        paired.form_after,
        paired.forced_after,
        constant_mass=paired.mass_after,
        samples=samples,
    )
    again = null(paired.before, paired.again, samples=samples) if paired.again is not None else None
    if not len(paired):
        p_values = math.nan, math.nan
        worth_lost = worth_won = worth_net = 0.0
    elif cluster is None:
        forgotten, gained = int(cells.forgotten), int(cells.gained)
        p_values = mcnemar(forgotten, gained), loss_p_value(forgotten, gained)
        worth_lost = worth_won = worth_net = cells.n
    else:
        # Each rate has its own design effect: losses may cluster where gains do not.
        gone, won = paired.before & ~paired.after, ~paired.before & paired.after
        change = won.astype(np.int64) - gone
        tested = sign_flip(change, cluster)
        p_values = tested.p_value, tested.loss_p_value
        worth_lost, worth_won, worth_net = (effective_items(x.astype(np.float64), cluster) for x in (gone, won, change))
    known, interval = _known(paired), newcombe(cells.scaled(worth_net))
    vanished = count_vanished(paired, unscored, interval=interval, has_known=known["known"] is not None)
    return Group(
        **vars(cells),
        **vars(vanished),
        level=level,
        name=name,
        **known,
        **_log_scores(paired),
        **_mass(paired),
        forgotten_at_constant_mass=_at_constant_mass(paired),
        format_lost=lost.format_lost if lost else None,
        knowledge_lost=lost.knowledge_lost if lost else None,
        null_n=again.measured if again else None,
        null_lost=again.null_lost if again else None,
        null_gained=again.null_gained if again else None,
        effective_n=worth_net,
        forgetting_interval=flip_interval(cells.forgetting * worth_lost, worth_lost),
        backward_transfer_interval=flip_interval(cells.backward_transfer * worth_won, worth_won),
        net_change_interval=interval,
        p_value=p_values[0],
        loss_p_value=p_values[1],
        q_value=math.nan,  # set by `count_groups`, which has all groups of the level
        chance=_chance(paired, rng, replications),
        soft=soft(paired.share_before, paired.share_after, cluster=cluster),
        noise_floor=noise_floor(paired.before, paired.after, paired.item, samples=samples, cluster=cluster),
    )


def _chance(paired: AlignedPairs, rng: np.random.Generator | None, replications: int) -> Chance:
    adjusted = paper(paired.before, paired.after, paired.k, cluster=paired.cluster, samples=paired.samples)
    answers = paired.answers()
    tipping = None
    if answers is not None and rng is not None:
        units = np.arange(len(answers.k)) if answers.cluster is None else answers.cluster
        drawn = answers  # narrowed to not None, which a closure over `answers` would lose
        tipping = bootstrap(lambda rows: bounds.tipping_ratio(drawn.take(rows)), units, rng, replications=replications)
    return Chance(
        n=adjusted.n,
        paper=adjusted if adjusted.n else None,
        guess_corrected=guessing.guess_corrected(answers) if answers else None,
        guess_corrected_calibrated=guessing.guess_corrected_calibrated(answers) if answers else None,
        bound=bound(paired.before, paired.after, paired.k, paired.golds, cluster=paired.cluster),
        persistence=persistence(answers) if answers else None,
        tipping_interval=tipping,
    )


_KNOWN: Final = (
    *("known", "known_lost", "newly_known", "known_by_luck", "known_lost_by_luck", "known_net", "known_lost_net"),
    *("known_lost_net_interval", "known_lost_net_share"),
)
"""Attributes of a group that are those of `metrics.known.Known`."""


def _known(paired: AlignedPairs) -> dict[str, Any]:
    """Attributes of a group that follow from its known items."""
    items = paired.confidence()
    found = count_known(items, samples=paired.samples)
    interval = None if found is None else _known_interval(items)
    return {name: getattr(found, name, None) for name in _KNOWN} | {"known_lost_interval": interval}


def _known_interval(items: Confidence) -> Interval:
    """Interval of the share of the known items that are wrong now."""
    rows = items.known
    lost = ~items.after[rows]
    worth = len(lost) if items.cluster is None else effective_items(lost.astype(float), items.cluster[rows])
    return flip_interval(float(lost.mean()) * worth, worth) if len(lost) else flip_interval(0, 0)


def _log_scores(paired: AlignedPairs) -> dict[str, Any]:
    """Attributes of a group that follow from the log scores of its items."""
    before, after = paired.options_before, paired.options_after
    found = None
    if before is not None and after is not None:
        found = log_score(before, after, cluster=paired.cluster, samples=paired.samples)
    values: dict[str, Any] = {"log_scores": found, "log_score_p_value": None, "log_score_q_value": None}
    for name in ("before", "after"):
        values[f"log_score_{name}"] = getattr(found, name, None)
        values[f"temperature_{name}"] = getattr(found, f"temperature_{name}", None)
    for name, suffix in (("change", ""), ("clipped", "_clipped"), ("calibrated", "_calibrated")):
        change: Change | None = getattr(found, name, None)
        values[f"log_score_change{suffix}"] = None if change is None else change.mean
        values[f"log_score_change{suffix}_interval"] = None if change is None else change.interval
        if name == "calibrated" and change is not None:
            values["log_score_p_value"] = change.p_value
    lost = None
    if before is not None and after is not None and (gone := paired.before & ~paired.after).any():
        change_of = log_shares(after.take(gone)) - log_shares(before.take(gone))
        lost = float(change_of[finite].mean()) if (finite := np.isfinite(change_of)).any() else None
    return values | {"forgotten_log_score_change": lost}


_OF_MASS: Final = {
    "log_mass_change": "mass",
    "log_conditional_change": "conditional",
    "forgotten_log_mass_change": "forgotten_mass",
    "forgotten_log_conditional_change": "forgotten_conditional",
}
"""Attributes of a group that are a change with its interval, and those of `metrics.mass.MassChanges`."""


def _mass(paired: AlignedPairs) -> dict[str, Any]:
    """Attributes of a group that follow from the log-likelihoods of its options."""
    found = None
    if paired.mass_split is not None:
        found = mass_changes(
            paired.mass_split,
            forgotten=paired.before & ~paired.after,
            letters=paired.letters,
            cluster=paired.cluster,
            samples=paired.samples,
        )
    values: dict[str, Any] = {"mass": found}
    for name, of in _OF_MASS.items():
        change: Change | None = getattr(found, of, None)
        values[name] = None if change is None else change.mean
        values[f"{name}_interval"] = None if change is None else change.interval
    for name in ("mass_kl", "conditional_kl", "weighted_conditional_kl"):
        change = getattr(found, name, None)
        values[name] = None if change is None else change.mean
    return values


def _at_constant_mass(paired: AlignedPairs) -> float | None:
    """Forgotten items at constant mass; None unless an item was decided by a score divided by a length."""
    right = paired.right_at_constant_mass
    if right is None:
        return None
    forgotten = int((paired.before & ~right).sum())
    return forgotten / paired.samples if paired.samples > 1 else forgotten

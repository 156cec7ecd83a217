"""Tables of the measurements that `measure.py` has stored: the tables of benchmarks/real_model/results.md.

    python benchmarks/real_model/report.py OUT > tables.md

Every answer is decided by the sum and by bytes from the same stored log-likelihoods.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from forgetwatch import Snapshot, load_snapshot
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.pairing import pair
from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.known import TAU, Confidence, count_known, is_known
from forgetwatch.metrics.log_score import Change, LogScore, log_score, log_shares
from forgetwatch.metrics.significance import mcnemar

SEED: Final = 20261122
TAUS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
HARMLESS: Final = ("narrow-0.25", "narrow-0.5", "form-0.25", "form-0.5")
"""Doses at which neither accuracy nor the log score fell: damage that is seen there has to be doubted."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The start and one dose of one training."""

    name: str
    pairs: AlignedPairs
    items: Confidence
    scores: LogScore

    @classmethod
    def of(cls, before: Snapshot, after: Snapshot, *, name: str) -> Pair:
        """Align both sides."""
        sides = before.head(len(after)), after
        pairs = AlignedPairs.align(*sides, pair(*sides))[0]
        assert pairs.options_before is not None
        assert pairs.options_after is not None
        scores = log_score(pairs.options_before, pairs.options_after)
        assert scores is not None
        return cls(name=name, pairs=pairs, items=pairs.confidence(), scores=scores)

    @property
    def flips(self) -> tuple[int, int]:
        """Numbers of right-to-wrong and of wrong-to-right answers."""
        return int((self.pairs.before & ~self.pairs.after).sum()), int(
            (~self.pairs.before & self.pairs.after).sum()
        )

    def differences(self) -> NDArray[np.float64]:
        """Difference of the log score of each item."""
        assert self.pairs.options_before is not None
        assert self.pairs.options_after is not None
        return log_shares(self.pairs.options_after) - log_shares(self.pairs.options_before)

    def net_of(self, tau: float) -> NDArray[np.float64]:
        """Known and lost less luck, item by item, for one tau."""
        lost = (
            is_known(self.items.before, self.items.share_before, tau)
            & self.items.measured
            & ~self.items.after
        )
        return lost - self.items.luck(tau)[1]


def z_of(values: NDArray[np.float64]) -> float:
    """Mean over its standard error; 0 where nothing varies."""
    mean, error = clustered_mean(values)
    return 0.0 if math.isnan(error) else mean / error


def power(
    found: Pair, rng: np.random.Generator, *, draws: int = 1000
) -> tuple[float, float, float]:
    """Shares of bootstrap draws over items in which net flips, known and lost and the log score have p < .05."""
    change = found.pairs.after.astype(int) - found.pairs.before.astype(int)
    net, fall = found.net_of(TAU), found.differences()
    hits = np.zeros(3)
    for _ in range(draws):
        rows = rng.integers(0, len(change), len(change))
        lost, won = int((change[rows] < 0).sum()), int((change[rows] > 0).sum())
        hits += [
            mcnemar(lost, won) < 0.05,
            abs(z_of(net[rows])) > 1.96,
            abs(z_of(fall[rows])) > 1.96,
        ]
    return tuple(hits / draws)


def main() -> None:
    """Print all tables."""
    out = Path(sys.argv[1])
    start = load_snapshot(out / "score" / "start-0.parquet")
    cells = sorted(out.glob("score/*.parquet"))
    doses = [path for path in cells if not path.stem.startswith("start")]
    found = {
        path.stem: Pair.of(start, load_snapshot(path), name=path.stem)
        for path in track(
            doses, description="reading", console=Console(stderr=True), transient=True
        )
    }
    for table in (
        dose_table(found),
        tau_table(found),
        random_keys(found),
        noise_table(out, start),
        form_table(out),
    ):
        print("\n".join(table), end="\n\n", flush=True)


def dose_table(found: dict[str, Pair]) -> Iterator[str]:
    """Dose and response."""
    rng = np.random.default_rng(SEED)
    yield (
        "| training, dose | items | accuracy | 1->0, 0->1 | net z | known, now lost | by luck "
        "| net (interval; z) | log score (t) | log m | power: net, known, log |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, one in sorted(found.items()):
        lost, won = one.flips
        known, scores = count_known(one.items), one.scores
        assert known is not None
        assert scores.change is not None
        low, high = known.lost_net_interval or (math.nan, math.nan)
        share = power(one, rng)
        mass = log_mass(one)
        yield (
            f"| {name} | {len(one.pairs):,} | {one.pairs.before.mean():.3f} -> {one.pairs.after.mean():.3f} "
            f"| {lost}, {won} | {(won - lost) / math.sqrt(max(lost + won, 1)):+.1f} "
            f"| {known.known:g}, {known.known_lost:g} | {known.known_lost_by_luck:.1f} "
            f"| {known.lost_net:+.1f} ({low:+.0f} to {high:+.0f}; {z_of(one.net_of(TAU)):+.1f}) "
            f"| {scores.change.mean:+.3f} ({t(scores.change):+.1f}) | {mass} "
            f"| {share[0]:.2f}, {share[1]:.2f}, {share[2]:.2f} |"
        )


def t(change: Change) -> float:
    """Mean over its standard error; 0 where nothing changed."""
    return change.mean / change.error if change.error else 0.0


def log_mass(one: Pair) -> str:
    """Mean change of the logarithm of the options' total probability, nats."""
    assert one.pairs.options_before is not None
    assert one.pairs.options_after is not None
    return f"{float(np.mean(one.pairs.options_after.log_mass - one.pairs.options_before.log_mass)):+.2f}"


def tau_table(found: dict[str, Pair]) -> Iterator[str]:
    """The z of known and lost, net, by tau: damage has to give much, and a dose at which nothing fell little."""
    yield f"| dose, sum | {' | '.join(f'tau {tau:g}' for tau in TAUS)} |\n|---|{'---|' * len(TAUS)}"
    sums = dict(sorted(found.items()))
    zs = {name: [z_of(one.net_of(tau)) for tau in TAUS] for name, one in sums.items()}
    for name, row in zs.items():
        nets = [float(sums[name].net_of(tau).sum()) for tau in TAUS]
        mark = " (nothing fell)" if name in HARMLESS else ""
        yield f"| {name}{mark} | {' | '.join(f'{z:+.1f} ({net:+.0f})' for z, net in zip(row, nets, strict=True))} |"
    harmed = [row for name, row in zs.items() if name not in HARMLESS]
    calm = [row for name, row in zs.items() if name in HARMLESS]
    for label, rows in (("median z of damage", harmed), ("median z where nothing fell", calm)):
        if rows:
            yield f"| **{label}** | {' | '.join(f'**{z:+.1f}**' for z in np.median(rows, axis=0))} |"


def random_keys(found: dict[str, Pair], *, draws: int = 500) -> Iterator[str]:
    """Keys drawn at random: nothing can be known, so the net has to be 0."""
    rng = np.random.default_rng(SEED)
    yield "| random keys, 500 draws | tau | known, now lost | net (its error) | intervals beyond 0 |"
    yield "|---|---|---|---|---|"
    for name in [name for name in ("destroy-1", "form-1", "narrow-1") if name in found]:
        pairs = found[name].pairs
        assert pairs.options_before is not None
        assert pairs.options_after is not None
        for tau in (0.5, TAU, 0.9):
            rows = []
            for _ in range(draws):
                counted = count_known(with_keys(pairs, rng), tau=tau)
                assert counted is not None
                low, high = counted.lost_net_interval or (math.nan, math.nan)
                rows.append(
                    (counted.known, counted.known_lost, counted.lost_net, not low <= 0 <= high)
                )
            known, lost, net, beyond = np.mean(np.array(rows, float), axis=0)
            error = np.std([row[2] for row in rows]) / math.sqrt(draws)
            yield f"| {name} | {tau:g} | {known:.0f}, {lost:.1f} | {net:+.2f} ({error:.2f}) | {100 * beyond:.1f} % |"


def with_keys(pairs: AlignedPairs, rng: np.random.Generator) -> Confidence:
    """Confidence of the same answers if the right options were others."""
    assert pairs.options_before is not None
    assert pairs.options_after is not None
    sides = [side.dense()[0] for side in (pairs.options_before, pairs.options_after)]
    rows, gold = np.arange(len(pairs)), rng.integers(0, pairs.options_before.k)
    shares = [np.exp(side - np.logaddexp.reduce(side, axis=1)[:, None]) for side in sides]
    chosen = [side.argmax(axis=1) for side in sides]
    wrong = shares[0].copy()
    wrong[rows, gold] = 0.0
    return Confidence(
        before=chosen[0] == gold,
        after=chosen[1] == gold,
        share_before=shares[0][rows, gold],
        share_after=shares[1][rows, gold],
        wrong_share=wrong.max(axis=1),
        other_wrong=(chosen[0] != gold) & (chosen[1] != gold) & (chosen[0] != chosen[1]),
        k=pairs.options_before.k,
        golds=np.ones(len(pairs), np.int64),
    )


def noise_table(out: Path, start: Snapshot) -> Iterator[str]:
    """The same weights measured again."""
    yield "| the same weights | items | 1->0, 0->1 | known and lost, net | log score |"
    yield "|---|---|---|---|---|"
    for name in ("batches", "bf16"):
        path = out / "score" / f"start-{name}.parquet"
        if path.exists():
            one = Pair.of(start, load_snapshot(path), name=name)
            known, change = count_known(one.items), one.scores.change
            assert known is not None
            assert change is not None
            low, high = change.interval
            yield (
                f"| {name} | {len(one.pairs):,} | {one.flips[0]}, {one.flips[1]} | {known.lost_net:+.1f} "
                f"| {change.mean:+.4f} ({low:+.4f} to {high:+.4f}) |"
            )


def form_table(out: Path) -> Iterator[str]:
    """The same damage in two renderings: what each sees, and per second."""
    yield (
        "| trained on, dose | rendering | accuracy | 1->0, 0->1 | net z | known net (z) | log score t | seconds "
        "| t per second |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in ("destroy-0.5", "destroy-1", "destroy-chat-0.5", "destroy-chat-1"):
        for rendering in ("plain", "chat"):
            paths = [out / "form" / f"{side}-{rendering}.parquet" for side in ("start-0", name)]
            if not all(path.exists() for path in paths):
                continue
            before, after = map(load_snapshot, paths)
            one = Pair.of(before, after, name=name)
            change = one.scores.change
            assert change is not None
            lost, won = one.flips
            seconds = after.meta["seconds"]
            yield (
                f"| {name} | {rendering} "
                f"| {one.pairs.before.mean():.3f} -> {one.pairs.after.mean():.3f} | {lost}, {won} "
                f"| {(won - lost) / math.sqrt(max(lost + won, 1)):+.1f} | {one.net_of(TAU).sum():+.0f} "
                f"({z_of(one.net_of(TAU)):+.1f}) | {t(change):+.1f} | {seconds:.0f} | {abs(t(change)) / seconds:.3f} |"
            )


if __name__ == "__main__":
    main()

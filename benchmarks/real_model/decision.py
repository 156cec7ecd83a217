"""What the net change from margins, the verdict and the worst categories are worth on real pairs of models.

    python benchmarks/real_model/decision.py OUT [--draws 200] [--only widths,verdicts] [NAME=BEFORE,AFTER ...]

OUT is the folder of `measure.py`, whose start is compared with every dose, and with itself in other batches and in
bf16. NAME=BEFORE,AFTER adds pairs of files that `load_snapshot` reads. Five planted worlds are always there. Every
finished cell is a file in OUT/decision; a second run goes on with the cells that are missing, and prints all tables.

    widths       each c: variance of flips over margins, bias of S, coverage of 250, 500 and 1,000 items against the
                 flips of the items not drawn, size with sides swapped at random
    verdicts     PASS, FAIL, INCONCLUSIVE at 250 to 2,000 items, by flips alone and by the three legs
    categories   the worst category of one half against the other half, by flips and as it is shown
    nothing      random keys, and items that did not flip: what an unchanged model gives
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy import special

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support import decided

from forgetwatch import Snapshot, load_snapshot
from forgetwatch.comparing import Group, estimated, ranked_categories
from forgetwatch.comparing.comparison import in_common_norm
from forgetwatch.comparing.verdict import verdict
from forgetwatch.measures import FLIPS, KNOWN, NET_ESTIMATE, VANISHED, Rows, margin_rule
from forgetwatch.metrics import NetMargin, OptionScores, boundary, count_cells, margins, net_margin, newcombe, shrunk
from forgetwatch.pairing import AlignedPairs, pair

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEED: Final = 20261124
WIDTHS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
BIASES: Final = ((0.0, 0.0), (0.004, 0.0), (0.004, 0.2), (0.004, 0.3), (0.004, 0.4), (0.004, 0.6), (0.01, 0.3))
"""Floor and share of the bias that S is charged."""
DRAWN: Final = (250, 500, 1000, 2000)
LARGE: Final = 0.08
"""Net change from which a pair counts as one of a large effect."""
TOLERANCE: Final = 0.02
OUT = Console(highlight=False, width=200, soft_wrap=True)
ERR = Console(stderr=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Two snapshots, aligned: right answers, margins in nats, and the pairs of the package."""

    name: str
    pairs: AlignedPairs
    before: Bools
    after: Bools
    margins_before: Floats
    margins_after: Floats

    @classmethod
    def of(cls, name: str, before: Snapshot, after: Snapshot) -> Pair:
        """Align the items that both sides have."""
        before, after = in_common_norm((before, after))
        return cls.aligned(name, AlignedPairs.align(before, after, pair(before, after))[0])

    @classmethod
    def aligned(cls, name: str, pairs: AlignedPairs) -> Pair:
        """Keep the pairs whose options have scores on both sides."""
        assert pairs.options_before is not None
        assert pairs.options_after is not None
        sides = margins(pairs.options_before), margins(pairs.options_after)
        there = np.flatnonzero(np.isfinite(sides[0]) & np.isfinite(sides[1]))
        pairs = pairs.take(there)
        return cls(
            name=name,
            pairs=pairs,
            before=pairs.before,
            after=pairs.after,
            margins_before=sides[0][there],
            margins_after=sides[1][there],
        )

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: Ints) -> Pair:
        """The items of some rows."""
        return replace(
            self,
            pairs=self.pairs.take(rows),
            before=self.before[rows],
            after=self.after[rows],
            margins_before=self.margins_before[rows],
            margins_after=self.margins_after[rows],
        )

    @property
    def flips(self) -> Floats:
        """Right after minus right before."""
        return self.after.astype(float) - self.before

    def net(self, rows: Ints | slice, c: float, *, swap: Bools | None = None) -> NetMargin | None:
        """Both measurements of the net change of some rows, with before and after swapped where `swap` is true."""
        sides = [self.before[rows], self.after[rows], self.margins_before[rows], self.margins_after[rows]]
        if swap is not None:
            sides = [np.where(swap, sides[at ^ 1], sides[at]) for at in range(4)]
        widths = boundary(sides[2], sides[3], c=c)
        if widths is None:
            return None
        changed = sides[1].astype(float) - sides[0]
        return net_margin(widths.softened(sides[2], sides[3]), changed, newcombe(count_cells(sides[0], sides[1])))


def estimate(found: NetMargin, floor: float, share: float) -> tuple[float, float, float]:
    """Estimate, its standard error, and the weight of S, for a bias of this floor and share."""
    alone = found.margins.error**2
    biased = alone + floor**2 + (share * found.margins.mean) ** 2
    shared = found.correlation * np.sqrt(found.flips_variance * alone)
    spread = found.flips_variance + biased - 2 * shared
    weight = float(np.clip((found.flips_variance - shared) / spread, 0, 1)) if spread > 0 else 0.0
    variance = (1 - weight) ** 2 * found.flips_variance + weight**2 * biased + 2 * weight * (1 - weight) * shared
    return (1 - weight) * found.flips + weight * found.margins.mean, float(np.sqrt(max(variance, 0.0))), weight


def widths(one: Pair, draws: int) -> dict[str, Any]:
    """Numbers of one pair for each c: variances, bias, coverage and size."""
    made: dict[str, Any] = {"n": len(one), "net": float(one.flips.mean()), "flips": float(np.abs(one.flips).mean())}
    for c in WIDTHS:
        rng = np.random.default_rng(SEED)
        whole = one.net(slice(None), c)
        if whole is None:
            continue
        error = np.sqrt(
            max(
                whole.flips_variance
                + whole.margins.error**2
                - 2 * whole.correlation * np.sqrt(whole.flips_variance) * whole.margins.error,
                1e-12,
            )
        )
        cell: dict[str, Any] = {
            "s": whole.margins.mean,
            "ratio": whole.flips_variance / max(whole.margins.error**2, 1e-12),
            "bias": whole.margins.mean - whole.flips,
            "z": (whole.margins.mean - whole.flips) / error,
            "coverage": {},
            "size": {},
        }
        surer = replace(one, margins_after=1.25 * one.margins_before, after=one.before).net(slice(None), c)
        cell["sureness"] = None if surer is None else surer.margins.mean
        for n in (250, 500, 1000):
            if 2 * n <= len(one):
                cell["coverage"][n] = coverage(one, n, c, draws, rng)
        for n in (50, 250, 500):
            if n <= len(one):
                cell["size"][n] = size(one, n, c, draws, rng)
        made[str(c)] = cell
    return made


def coverage(one: Pair, n: int, c: float, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Share of draws whose interval holds the net change of the items not drawn, whose own error is counted."""
    inside: dict[str, float] = {}
    ratio = dict.fromkeys(map(str, BIASES), 0.0)
    for _ in range(draws):
        order = rng.permutation(len(one))
        found, rest = one.net(order[:n], c), one.flips[order[n:]]
        if found is None:
            continue
        truth, error = float(rest.mean()), float(rest.std()) / np.sqrt(len(rest))

        def holds(name: str, centre: float, half: float, truth: float = truth, error: float = error) -> None:
            inside[name] = inside.get(name, 0) + (abs(centre - truth) <= np.hypot(half, 1.96 * error)) / draws

        quantile = float(special.stdtrit(n - 1, 0.975))
        holds("flips", found.flips, 1.96 * np.sqrt(found.flips_variance))
        holds("margins", found.margins.mean, quantile * found.margins.error)
        for floor, share in BIASES:
            centre, own, _ = estimate(found, floor, share)
            holds(str((floor, share)), centre, quantile * own)
            ratio[str((floor, share))] += found.flips_variance / max(own**2, 1e-12) / draws
    return {"inside": inside, "ratio": ratio}


def size(one: Pair, n: int, c: float, draws: int, rng: np.random.Generator) -> list[float]:
    """Share of p-values of S at most .05, .01 and .001, with the sides of each item swapped at random."""
    levels = np.zeros(3)
    for _ in range(10 * draws):
        rows = rng.choice(len(one), n, replace=False)
        found = one.net(rows, c, swap=rng.random(n) < 0.5)
        if found is not None:
            levels += found.margins.p_value <= np.array([0.05, 0.01, 0.001])
    return (levels / (10 * draws)).tolist()


def light(pairs: AlignedPairs, *, known: bool = True) -> Any:
    """Comparison of some pairs with the measures of a verdict alone: the whole, and its categories."""
    nothing = pairs.take(np.zeros(0, np.int64))
    whole = Rows(pairs=pairs, unscored=nothing, margin_rule=margin_rule(pairs))

    def group(level: Any, name: str, rows: Rows) -> Group:
        measures = [NET_ESTIMATE, VANISHED, *([KNOWN] if known and level == "all" else [])]
        found = {measure.key: measure.of(rows) for measure in measures}
        return Group(**vars(FLIPS.of(rows)), level=level, name=name, found=found)

    categories = {
        name: group("category", name, replace(whole, pairs=pairs.take(rows))) for name, rows in pairs.category.split()
    }
    return SimpleNamespace(all=group("all", "all", whole), by=lambda level: categories)


def verdicts(one: Pair, draws: int) -> dict[str, Any]:
    """Shares of PASS, FAIL and INCONCLUSIVE by number of items: by flips, by the legs together, and each leg alone."""
    whole = light(one.pairs)
    made: dict[str, Any] = {
        "n": len(one),
        "net": whole.all.net_change,
        "known": whole.all.known_lost_net_share,
        "known_interval": whole.all.known_lost_net_share_interval,
        "coverage": {},
    }
    for n in DRAWN:
        rng = np.random.default_rng(SEED)
        if n > len(one):
            continue
        counts: dict[str, dict[str, float]] = {}
        held = total = 0
        for _ in range(1 if n == len(one) else draws):
            order = rng.permutation(len(one))
            drawn = light(one.pairs.take(order[:n]))
            found = verdict(drawn)
            low, high = drawn.all.net_change_interval
            before = "PASS" if low > -TOLERANCE else "FAIL" if high < -TOLERANCE else "INCONCLUSIVE"
            answers = {"flips": before, "all": found.answer}
            answers |= {leg.name: str(leg.answer) for leg in found.legs}
            for name, answer in answers.items():
                of_name = counts.setdefault(name, {})
                of_name[answer] = of_name.get(answer, 0) + 1
            rest = one.pairs.take(order[n:])
            share, interval = drawn.all.known_lost_net_share, drawn.all.known_lost_net_share_interval
            if 2 * n <= len(one) and share is not None and interval is not None:
                of_rest = KNOWN.of(Rows(pairs=rest, unscored=rest.take(np.zeros(0, np.int64))))
                if of_rest and of_rest.known_lost_net_share is not None:
                    truth, own = of_rest.known_lost_net_share, of_rest.known_lost_net_share_interval
                    low, high = interval
                    side = (truth - own[0]) if share > truth else (own[1] - truth)
                    near = (share - low) if share > truth else (high - share)
                    held += abs(share - truth) <= np.hypot(near, side)
                    total += 1
        made[str(n)] = {
            name: {answer: count / sum(found.values()) for answer, count in found.items()}
            for name, found in counts.items()
        }
        made["coverage"][n] = held / total if total else None
    return made


def categories(one: Pair, draws: int) -> dict[str, Any]:
    """The worst category of one half, read in the other: squared error in points^2 beyond that of the other half."""
    rng, found = np.random.default_rng(SEED), {name: [] for name in ("flips", "shrunk", "shown")}
    inside: dict[str, list[bool]] = {name: [] for name in ("flips", "simultaneous", "own")}
    for _ in range(draws):
        order = rng.permutation(len(one))
        halves = [one.take(np.sort(order[: len(one) // 2])), one.take(np.sort(order[len(one) // 2 :]))]
        first = light(halves[0].pairs, known=False)
        groups = {name: group for name, group in first.by("category").items() if group[NET_ESTIMATE] is not None}
        if len(groups) < 2:
            return {}
        flips_of = {name: halves[1].flips[rows] for name, rows in halves[1].pairs.category.split()}

        def read(name: str, shown: float, into: str, flips_of: dict[str, Floats] = flips_of) -> tuple[float, float]:
            truth, noise = float(flips_of[name].mean()), float(flips_of[name].var() / len(flips_of[name]))
            found[into].append(1e4 * ((shown - truth) ** 2 - noise))
            return truth, 1.96 * noise**0.5

        worst = min(groups.values(), key=lambda group: group.net_change)
        truth, error = read(worst.name, worst.net_change, "flips")
        half = (worst.net_change_interval[1] - worst.net_change_interval[0]) / 2
        inside["flips"].append(abs(worst.net_change - truth) <= np.hypot(half, error))
        changes = [estimated(group)[0] for group in groups.values()]
        errors = [group[NET_ESTIMATE].change.error for group in groups.values()]
        values = shrunk(np.array(changes), np.array(errors), overall=estimated(first.all)[0]).values
        at = int(values.argmin())
        read(list(groups)[at], float(values[at]), "shrunk")
        # Of any worst category, by its simultaneous interval.
        level = 1 - 0.05 / len(groups)
        lowest = min(groups.values(), key=lambda group: estimated(group)[0])
        low, high = lowest[NET_ESTIMATE].interval_at(level)
        truth, error = (
            float(flips_of[lowest.name].mean()),
            1.96 * float(flips_of[lowest.name].std()) / np.sqrt(len(flips_of[lowest.name])),
        )
        inside["simultaneous"].append(abs((low + high) / 2 - truth) <= np.hypot((high - low) / 2, error))
        ranked, _ = ranked_categories(first)
        if ranked:
            read(ranked[0].group.name, ranked[0].change, "shown")
    return {
        "error": {name: float(np.mean(values)) if values else None for name, values in found.items()},
        "covered": {name: float(np.mean(values)) if values else None for name, values in inside.items()},
        "ranked": len(found["shown"]) / draws,
    }


def nothing(one: Pair, draws: int) -> dict[str, Any]:
    """What an unchanged model gives: keys drawn at random, and items that did not flip."""
    rng, fails, legs = np.random.default_rng(SEED), 0, dict.fromkeys(("accuracy", "knowledge", "category"), 0)
    for _ in range(draws):
        found = verdict(light(random_key(one.pairs, rng)))
        fails += found.answer == "FAIL"
        for leg in found.legs:
            legs[leg.name] += leg.answer == "FAIL"
    still, unflipped = np.flatnonzero(one.before == one.after), {}
    for n in (6, 10, 25, 50, 100, 250):
        if n > len(still):
            continue
        ends = []
        for _ in range(draws):
            found = NET_ESTIMATE.of(rows_of(one.pairs.take(rng.choice(still, n, replace=False))))
            assert found is not None
            ends.append(found.interval)
        low, high = np.array(ends).T
        unflipped[n] = {"holds_0": float(np.mean((low <= 0) & (high >= 0))), "half": float((high - low).mean() / 2)}
    return {
        "fail": fails / draws,
        "legs": {name: count / draws for name, count in legs.items()},
        "no_flips": unflipped,
    }


def rows_of(pairs: AlignedPairs) -> Rows:
    """Rows of some pairs with the rule of margins that is theirs."""
    return Rows(pairs=pairs, unscored=pairs.take(np.zeros(0, np.int64)), margin_rule=margin_rule(pairs))


def random_key(pairs: AlignedPairs, rng: np.random.Generator) -> AlignedPairs:
    """The same answers under a key drawn at random: nothing that changes is forgetting."""
    before, after = pairs.options_before, pairs.options_after
    assert before is not None
    assert after is not None
    gold = (rng.random(len(pairs)) * before.k).astype(np.int64)
    ends = np.cumsum(before.k)
    golds = np.zeros(int(ends[-1]), bool)
    golds[ends - before.k + gold] = True
    sides = [OptionScores(side.k, side.scores, golds) for side in (before, after)]
    right, shares = [], []
    for side in sides:
        scores, keyed = side.dense()
        right.append(keyed[np.arange(len(pairs)), scores.argmax(axis=1)])
        shares.append(np.where(keyed, special.softmax(scores, axis=1), 0.0).sum(axis=1))
    return replace(
        pairs,
        before=right[0],
        after=right[1],
        share_before=shares[0],
        share_after=shares[1],
        options_before=sides[0],
        options_after=sides[1],
        mass_split=None,
        mass_after=None,
        golds=np.ones(len(pairs), np.int64),
    )


PARTS: Final[dict[str, Callable[[Pair, int], dict[str, Any]]]] = {
    "widths": widths,
    "verdicts": verdicts,
    "categories": categories,
    "nothing": nothing,
}


def pairs_of(out: Path, given: list[str]) -> Iterator[Pair]:
    """The start against every dose, then the pairs that were given."""
    start = out / "score" / "start-0.parquet"
    if start.exists():
        first = load_snapshot(start)
        for path in sorted((out / "score").glob("*.parquet")):
            if path != start:
                after = load_snapshot(path)
                yield Pair.of(path.stem, first.head(len(after)), after)
    for text in given:
        name, _, sides = text.partition("=")
        before, _, after = sides.partition(",")
        yield Pair.of(name, load_snapshot(before), load_snapshot(after))


def planted(items: int = 4000) -> Iterator[Pair]:
    """Worlds of four options with a known change: two that keep the assumption of S, and three that do not."""
    for name in ("noise", "all-fall", "jumps", "edge", "surer"):
        rng = np.random.default_rng(SEED)
        before = 2.0 * rng.normal(size=(items, 4))
        before[:, 0] += 1.5
        after = before + 0.5 * rng.normal(size=before.shape)
        margin = before[:, 0] - before[:, 1:].max(axis=1)
        if name == "all-fall":
            after[:, 0] -= 0.4
        elif name == "jumps":  # one in ten of the right answers becomes a guess, whatever its margin was
            gone = (margin > 0) & (rng.random(items) < 0.1)
            after[gone] = 2.0 * rng.normal(size=(int(gone.sum()), 4))
        elif name == "edge":  # answers that are just right fall, and nothing else moves
            after[(margin > 0) & (margin < 1), 0] -= 0.6
        elif name == "surer":
            after = 1.25 * after
        yield Pair.of(f"planted-{name}", decided(before), decided(after))


def main() -> None:
    """Measure the cells that are missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("pairs", nargs="*", help="NAME=BEFORE,AFTER")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    given = parser.parse_intermixed_args()
    folder = given.out / "decision"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = given.only.split(",")
    pairs = [*pairs_of(given.out, given.pairs), *planted()]
    for one in track(pairs, description="pairs", console=ERR):
        for part in wanted:
            target = folder / f"{part}-{one.name}.json"
            if not target.exists():
                target.write_text(json.dumps(PARTS[part](one, given.draws)))
    for part in wanted:
        cells = {path.stem.removeprefix(f"{part}-"): json.loads(path.read_text()) for path in folder.glob(f"{part}-*")}
        TABLES[part](dict(sorted(cells.items())))


def widths_table(cells: dict[str, Any]) -> None:
    """Tables of the choice of c and of the bias."""
    OUT.print("\n## Each c over all pairs\n")
    OUT.print("| c | var(R)/var(S), median | bias z, rms | abs. bias at most, points | sureness alone, points | "
              "coverage 250: flips / margins | coverage 500 | size at .05, .01, .001 |")  # fmt: skip
    OUT.print("|---|---|---|---|---|---|---|---|")
    for c in map(str, WIDTHS):
        there = [cell[c] for cell in cells.values() if c in cell and cell["flips"] > 0.01]
        if not there:
            continue
        sizes = np.mean([one["size"]["250"] for one in there if "250" in one["size"]], axis=0)
        z = np.array([one["z"] for one in there])
        parts = []
        for n in ("250", "500"):
            inside = [one["coverage"][n]["inside"] for one in there if n in one["coverage"]]
            parts.append(" / ".join(_ends([one[name] for one in inside]) for name in ("flips", "margins")))
        sure = max(abs(one["sureness"] or 0.0) for one in there)
        OUT.print(
            f"| {c} | {np.median([one['ratio'] for one in there]):.1f} | {np.sqrt((z**2).mean()):.2f} | "
            f"{100 * max(abs(one['bias']) for one in there):.1f} | {100 * sure:.2f} | {' | '.join(parts)} | "
            f"{', '.join(f'{share:.4f}' for share in sizes)} |"
        )
    OUT.print("\n## Coverage of the estimate by c, floor and share; variance of the flips over its own, median\n")
    OUT.print("| c | floor, share | 250 items: small / large / planted | 500 items | gain at 250, small |")
    OUT.print("|---|---|---|---|---|")
    for c in map(str, WIDTHS):
        there = {name: cell for name, cell in cells.items() if c in cell and cell["flips"] > 0.01}
        kinds = {
            "small": [cell[c] for name, cell in there.items() if abs(cell["net"]) < LARGE and "planted" not in name],
            "large": [cell[c] for name, cell in there.items() if abs(cell["net"]) >= LARGE and "planted" not in name],
            "planted": [cell[c] for name, cell in there.items() if "planted" in name],
        }
        for bias in map(str, BIASES):
            shown = [
                " / ".join(
                    _ends([one["coverage"][n]["inside"][bias] for one in of_kind if n in one["coverage"]])
                    for of_kind in kinds.values()
                )
                for n in ("250", "500")
            ]
            ratio = [one["coverage"]["250"]["ratio"][bias] for one in kinds["small"] if "250" in one["coverage"]]
            OUT.print(f"| {c} | {bias} | {' | '.join(shown)} | {np.median(ratio):.1f} |")
    OUT.print("\n## Each pair, c = 0.75\n")
    OUT.print("| pair | items | flips | R, points | S | var(R)/var(S) | S - R (z) |\n|---|---|---|---|---|---|---|")
    for name, cell in cells.items():
        if "0.75" in cell:
            one = cell["0.75"]
            OUT.print(
                f"| {name} | {cell['n']} | {100 * cell['flips']:.1f} % | {100 * cell['net']:+.1f} | "
                f"{100 * one['s']:+.1f} | {one['ratio']:.1f} | {100 * one['bias']:+.1f} ({one['z']:+.1f}) |"
            )


def _ends(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "-"


def verdicts_table(cells: dict[str, Any]) -> None:
    """Tables of the verdict."""
    OUT.print("\n## PASS / FAIL / INCONCLUSIVE, percent\n")
    OUT.print("| pair | net, points; known lost | items | by flips | three legs | accuracy | knowledge | category | "
              "coverage of the known share |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name, cell in cells.items():
        known = "-" if cell["known"] is None else f"{100 * cell['known']:.1f} %"
        for n in map(str, DRAWN):
            if n in cell:
                shown = [_three(cell[n].get(leg, {})) for leg in ("flips", "all", "accuracy", "knowledge", "category")]
                held = cell["coverage"].get(n)
                OUT.print(
                    f"| {name} | {100 * cell['net']:+.1f}; {known} | {n} | {' | '.join(shown)} | "
                    f"{'-' if held is None else f'{held:.3f}'} |"
                )

    lists = {
        "harmless (net at least 0, known share at most 2 %): PASS": (
            lambda net, known: net >= 0 and known <= 0.02,
            "PASS",
        ),
        "destructive (net at most -10 points): FAIL": (lambda net, known: net <= -0.1, "FAIL"),
    }
    OUT.print("\n| list | pairs | items | by flips | three legs |\n|---|---|---|---|---|")
    for title, (belongs, answer) in lists.items():
        there = {
            name: cell
            for name, cell in cells.items()
            if "planted" not in name and cell["known"] is not None and belongs(cell["net"], cell["known"])
        }
        for n in map(str, DRAWN):
            if found := [cell[n] for cell in there.values() if n in cell]:
                shares = [[one[rule].get(answer, 0.0) for one in found] for rule in ("flips", "all")]
                shown = [f"{100 * np.mean(one):.0f} % ({100 * min(one):.0f} to {100 * max(one):.0f})" for one in shares]
                OUT.print(f"| {title} | {', '.join(there)} | {n} | {' | '.join(shown)} |")


def _three(found: dict[str, float]) -> str:
    return "/".join(f"{100 * found.get(answer, 0.0):.0f}" for answer in ("PASS", "FAIL", "INCONCLUSIVE"))


def categories_table(cells: dict[str, Any]) -> None:
    """Table of the worst categories."""
    OUT.print("\n## The worst category of one half, read in the other\n")
    OUT.print("| pair | excess squared error, points^2: flips / shrunk / as shown | ranked in | "
              "covered: 95 % of flips / simultaneous |\n|---|---|---|---|")  # fmt: skip
    for name, cell in cells.items():
        if cell:
            errors = ("-" if value is None else f"{value:.1f}" for value in cell["error"].values())
            inside = (f"{cell['covered'][one]:.3f}" for one in ("flips", "simultaneous"))
            OUT.print(f"| {name} | {' / '.join(errors)} | {100 * cell['ranked']:.0f} % | {' / '.join(inside)} |")


def nothing_table(cells: dict[str, Any]) -> None:
    """Tables of unchanged models."""
    OUT.print("\n## Keys drawn at random: FAIL, percent of draws; items that did not flip\n")
    OUT.print("| pair | all legs | accuracy | knowledge | category | no flip at 6, 10, 25, 50, 100, 250 items: "
              "share that holds 0; half width, points |\n|---|---|---|---|---|---|")  # fmt: skip
    for name, cell in cells.items():
        legs = " | ".join(f"{100 * share:.1f}" for share in cell["legs"].values())
        still = "; ".join(f"{one['holds_0']:.2f}, {100 * one['half']:.1f}" for one in cell["no_flips"].values())
        OUT.print(f"| {name} | {100 * cell['fail']:.1f} | {legs} | {still} |")


TABLES: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "widths": widths_table,
    "verdicts": verdicts_table,
    "categories": categories_table,
    "nothing": nothing_table,
}

if __name__ == "__main__":
    main()

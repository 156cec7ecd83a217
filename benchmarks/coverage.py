"""Do 95 % intervals hold the truth in 95 % of repetitions, and do alarms stay silent? By simulation.

python benchmarks/coverage.py [replications [part ...]]

Parts: coverage, clusters, known_lost_net, few_events, log_score_change, false_alarms, run_alarms, power,
power_of_runs, look_power; all unless named. Seeds are fixed for each part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy import optimize, stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from looks import (
    LOOKS,
    alarm_power,
    boundary_of,
    damaged_run,
    fall_p_value,
    null_run,
    raised,
    run_tests,
    skewed,
)
from worlds import (
    Population,
    draw_rows,
    know_or_guess,
    option_scores,
    planted_losses,
    score_changes,
)

from forgetwatch.metrics.guessing import guess_corrected, paper
from forgetwatch.metrics.intervals import Interval, effective_items, flip_interval, newcombe, wilson
from forgetwatch.metrics.known import Confidence, count_known
from forgetwatch.metrics.log_score import log_score
from forgetwatch.metrics.significance import alarm_level, sign_flip
from forgetwatch.metrics.transitions import Cells, count_cells

SEED = 20251017
OUT = Console(highlight=False, width=120)
ERR = Console(stderr=True)


def drawn_truth(rng: np.random.Generator) -> dict[str, float]:
    """Another truth for each repetition: at a single one, coverage of any interval of a count jumps with n."""
    return {
        "known": rng.uniform(0.4, 0.8),
        "lost": rng.uniform(0.03, 0.25),
        "won": rng.uniform(0.05, 0.3),
        "persistence": rng.uniform(0.0, 0.9),
    }


def expected(truth: dict[str, float], k: int = 4) -> dict[str, float]:
    """True values that the intervals should hold in that world."""
    known, lost, won, persistence = truth.values()
    guess, unknown = 1 / k, 1 - known
    twice = (
        persistence * guess + (1 - persistence) * guess * guess
    )  # right twice when unknown twice
    p10 = known * lost * (1 - guess) + unknown * (1 - won) * (guess - twice)
    p01 = unknown * (1 - won) * (guess - twice) + unknown * won * (1 - guess)
    acc = known + unknown * guess
    chance = (1 - acc) * (1 - acc + p10 - p01) / (k - 1)
    return {
        "net change, Newcombe": p01 - p10,
        "forgetting, Wilson": p10,
        "kept, Wilson": 1 - p10 / acc,
        "paper, delta method": p10 - chance,
        "guess-corrected": known * lost,
    }


def coverage(replications: int) -> None:
    OUT.print("| interval | " + " | ".join(f"N = {n}" for n in (100, 1000)) + " |\n|---|---|---|")
    covered: dict[str, list[float]] = {}
    for n in (100, 1000):
        rng, inside = (
            np.random.default_rng(SEED),
            dict.fromkeys(expected(drawn_truth(np.random.default_rng(0))), 0),
        )
        for _ in track(
            range(replications), description=f"coverage, {n}", console=ERR, transient=True
        ):
            truth = drawn_truth(rng)
            answers = know_or_guess(rng, n=n, **truth).answers
            cells = count_cells(answers.before, answers.after)
            corrected = guess_corrected(answers)
            half = 1.96 * corrected.forgetting_se
            intervals: dict[str, Interval] = {
                "net change, Newcombe": newcombe(cells),
                "forgetting, Wilson": flip_interval(cells.forgotten, n),
                "kept, Wilson": wilson(cells.retained, cells.retained + cells.forgotten),
                "paper, delta method": paper(
                    answers.before, answers.after, answers.k
                ).forgetting_interval,
                "guess-corrected": (corrected.forgetting - half, corrected.forgetting + half),
            }
            for name, value in expected(truth).items():
                inside[name] += intervals[name][0] <= value <= intervals[name][1]
        for name, count in inside.items():
            covered.setdefault(name, []).append(count / replications)
    for name, shares in covered.items():
        OUT.print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")


def clusters(replications: int) -> None:
    """Ten questions share a passage; each passage has its own chance to be lost or gained."""
    OUT.print(
        "\nPassages of 10 questions, no net change (net 0): coverage of the 95 % interval, false alarms at 5 %"
    )
    OUT.print(
        "| passages | items counted alone | clustered | p over items | p over clusters |\n|---|---|---|---|---|"
    )
    for passages in (10, 30, 100):
        rng, counts = np.random.default_rng(SEED), np.zeros(4)
        cluster = np.repeat(np.arange(passages), 10)
        for _ in track(
            range(replications), description=f"{passages} passages", console=ERR, transient=True
        ):
            tilt = rng.choice([0.0, 0.5, 1.0], passages)[cluster]
            flips = rng.random(len(cluster)) < rng.choice([0.0, 0.3, 0.6], passages)[cluster]
            change = np.where(flips, np.where(rng.random(len(cluster)) < tilt, -1, 1), 0)
            lost, won, n = int((change < 0).sum()), int((change > 0).sum()), len(change)
            cells = np.array([0.5 * n - lost, lost, won, 0.5 * n - won])
            worth = effective_items(change.astype(float), cluster) / n
            plain, wide = (
                newcombe(Cells(**dict(zip(_CELLS, cells * f, strict=True)))) for f in (1.0, worth)
            )
            p_item = stats.binomtest(lost, lost + won).pvalue if lost + won else 1.0
            counts += [
                plain[0] <= 0 <= plain[1],
                wide[0] <= 0 <= wide[1],
                p_item <= 0.05,
                sign_flip(change, cluster).p_value <= 0.05,
            ]
        OUT.print(
            f"| {passages} | "
            + " | ".join(f"{share:.3f}" for share in counts / replications)
            + " |"
        )


_CELLS = ("retained", "forgotten", "gained", "missed")


def false_alarms(runs: int) -> None:
    """Twenty looks at an unchanged model whose answers are drawn anew at every look."""
    OUT.print(f"\n20 looks at an unchanged model, {runs} runs: share of runs with any alarm")
    OUT.print(
        "| items | groups | looks known (T = 20) | looks unknown | naive p <= .05 |\n|---|---|---|---|---|"
    )
    looks = 20
    for n, groups in ((200, 1), (500, 1), (2000, 1), (2000, 10)):
        rng, counts = np.random.default_rng(SEED), np.zeros(3)
        for _ in track(
            range(runs), description=f"{n} items, {groups} groups", console=ERR, transient=True
        ):
            right = rng.random((1 + looks, groups, n // groups)) < rng.beta(
                0.6, 0.4, (groups, n // groups)
            )
            p_values = loss_p_values(right)
            planned = alarm_level(1, groups=groups, planned=looks)
            open_ended = np.array(
                [alarm_level(look, groups=groups) for look in range(1, looks + 1)]
            )
            counts += [
                (p_values <= planned).any(),
                (p_values <= open_ended[:, None]).any(),
                (p_values <= 0.05).any(),
            ]
        OUT.print(
            f"| {n} | {groups} | "
            + " | ".join(f"{100 * share:.1f} %" for share in counts / runs)
            + " |"
        )


def loss_p_values(right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One-sided exact p of each look and group, from right answers [1 + looks, groups, items]."""
    lost, won = (right[0] & ~right[1:]).sum(-1), (~right[0] & right[1:]).sum(-1)
    return stats.binom.sf(lost - 1, lost + won, 0.5)


def power(runs: int) -> None:
    OUT.print(
        "\nProbability that one look of 20 alarms (one group), by net loss; discordance .15; exact, simulated"
    )
    OUT.print("| items | 2 points | 5 points | 8 points |\n|---|---|---|---|")
    level, psi = alarm_level(1, groups=1, planned=20), 0.15
    for n in (200, 500, 2000):
        cells = []
        for loss in (0.02, 0.05, 0.08):
            rng = np.random.default_rng(SEED)
            flips = rng.binomial(n, psi, runs)
            lost = rng.binomial(flips, (psi + loss) / (2 * psi))
            simulated = np.mean(stats.binom.sf(lost - 1, flips, 0.5) <= level)
            cells.append(
                f"{alarm_power(n, discordance=psi, loss=loss, level=level):.2f}, {simulated:.2f}"
            )
        OUT.print(f"| {n} | " + " | ".join(cells) + " |")


POPULATION = 200_000


def planted_worlds() -> dict[str, Population]:
    """Populations in which guesses are confident and move, and a known share of the known items is lost."""
    rng = np.random.default_rng(SEED)

    def world(**settings: float) -> Population:
        return planted_losses(rng, items=POPULATION, **settings)  # type: ignore[arg-type]

    worlds = {
        f"{100 * lost:.0f} % lost, {100 * learned:.0f} % learned": world(lost=lost, learned=learned)
        for lost in (0.0, 0.05, 0.3)
        for learned in (0.0, 0.1, 0.3)
    }
    few = {"lost": 0.05, "learned": 0.1}
    return worlds | {
        "90 % known, 5 % lost": world(known=0.9, **few),
        "k = 3": world(k=3, **few),
        "k = 10": world(k=10, **few),
        "k = 3, 4, 5, 10": Population.mixed([world(k=k, **few) for k in (3, 4, 5, 10)]),
        "two of six right": world(k=6, golds=2, **few),
        "passages of 10, 5 % lost": world(size=10, **few),
        "passages of 10, 30 % lost": world(size=10, lost=0.3, learned=0.1),
    }


def known_lost_net(replications: int) -> None:
    """Samples of populations whose truth is known: the known items that are truly lost, and wrong now."""
    sizes = (100, 250, 500, 2000)
    OUT.print(
        "\nknown_lost_net, k = 4 unless stated: coverage of the 95 % interval (expected events; bias in items)"
    )
    OUT.print(
        "| world | "
        + " | ".join(f"N = {n}" for n in sizes)
        + " |\n|---"
        + "|---" * len(sizes)
        + "|"
    )
    for name, population in planted_worlds().items():
        rng, cells = np.random.default_rng(SEED), []
        for n in sizes:
            truth, inside, nets, events = n * population.lost.mean(), 0, [], []
            for _ in track(
                range(replications), description=f"{name}, {n}", console=ERR, transient=True
            ):
                items = population.draw(rng, n)
                found = count_known(items)
                if found is None or found.lost_net is None or found.lost_net_interval is None:
                    continue
                low, high = found.lost_net_interval
                inside += low <= truth <= high
                nets.append(found.lost_net)
                events.append(
                    np.count_nonzero(items.known & ~items.after)
                    + np.count_nonzero(items.take(items.measured).luck()[1])
                )
            share = inside / len(nets)
            bias = f"{np.mean(nets) - truth:+.1f}"
            cells.append(
                f"{share:.3f} ({np.mean(events):.0f}; {'0.0' if float(bias) == 0 else bias})"
            )
        OUT.print(f"| {name} | " + " | ".join(cells) + " |")


def few_events(_: int) -> None:
    """Exact coverage among 500 items, of which some are lost and some are confident wrong answers that moved."""
    n, means, shares = 500, (2, 5, 10, 20, 40), (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    OUT.print(
        "\nknown_lost_net, 500 items, 0 to 100 % of the events losses: range of exact coverage; lowest of normal"
    )
    OUT.print(
        "| options | "
        + " | ".join(f"{mean} events" for mean in means)
        + " |\n|---"
        + "|---" * len(means)
        + "|"
    )
    for k in (3, 4, 10):
        weight, top = 1 / (k - 2), 90
        lost, moved = np.meshgrid(np.arange(top), np.arange(top), indexing="ij")
        ends = np.array(
            [_net_interval_of(a, b, n, weight) for a, b in zip(lost.flat, moved.flat, strict=True)]
        )
        low, high = ends.T.reshape(2, top, top)
        net, squares = lost - weight * moved, lost + weight**2 * moved
        half = 1.96 * np.sqrt(np.maximum(squares - net**2 / n, 0) * n / (n - 1))
        cells = []
        for mean in means:
            covered = []
            for share in shares:
                rates = np.array([mean * share, mean * (1 - share), n - mean]) / n
                chance = stats.multinomial.pmf(
                    np.stack([lost, moved, n - lost - moved], axis=-1), n, rates
                )
                truth = mean * share - weight * mean * (1 - share)
                inside = [(low <= truth) & (truth <= high), np.abs(net - truth) <= half]
                covered.append([float((chance * one).sum()) for one in inside])
            ours, normal = np.transpose(covered)
            cells.append(f"{ours.min():.3f}-{ours.max():.3f}; {normal.min():.3f}")
        OUT.print(f"| {k} | " + " | ".join(cells) + " |")


def _net_interval_of(lost: int, moved: int, n: int, weight: float) -> Interval:
    """The interval of `count_known` for these numbers of lost and of moved items."""
    rows, k = np.arange(n), round(1 / weight) + 2
    is_lost, is_moved = rows < lost, (rows >= lost) & (rows < lost + moved)
    items = Confidence(
        before=is_lost,
        after=np.zeros(n, bool),
        share_before=np.where(is_lost, 1.0, 0.0),
        share_after=np.zeros(n),
        wrong_share=np.where(is_moved, 1.0, 0.0),
        other_wrong=is_moved,
        k=np.full(n, k),
        golds=np.ones(n, np.int64),
    )
    return count_known(items).lost_net_interval


def log_score_change(replications: int) -> None:
    """Samples of populations."""
    sizes = (50, 100, 500, 2000)
    OUT.print("\nlog_score_change: coverage of the 95 % interval; truth in nats")
    OUT.print(
        "| change | truth | "
        + " | ".join(f"N = {n}" for n in sizes)
        + " |\n|---|---"
        + "|---" * len(sizes)
        + "|"
    )
    for change in (
        "exchangeable",
        "surer",
        "noise after",
        "heavy tails",
        "few large losses",
        "clusters",
    ):
        size = 10 if change == "clusters" else 1
        rng = np.random.default_rng(SEED)
        scores = score_changes(rng, items=POPULATION, change=change, size=size)
        whole = log_score(*map(option_scores, scores))
        truth, cells = whole.change.mean, []
        for n in sizes:
            inside = 0
            for _ in track(
                range(replications), description=f"{change}, {n}", console=ERR, transient=True
            ):
                rows, cluster = draw_rows(rng, POPULATION, n, size=size)
                found = log_score(*(option_scores(side[rows]) for side in scores), cluster=cluster)
                low, high = found.change.interval
                inside += low <= truth <= high
            cells.append(f"{inside / replications:.3f}")
        OUT.print(f"| {change} | {truth:+.3f} | " + " | ".join(cells) + " |")


def run_alarms(runs: int) -> None:
    """Unchanged runs: a shared base, independent noise of one size on the baseline and on every look; then skewed ones.

    Of the skewed ones the true change of every look is 0, and its items differ by few large changes on one side and
    many small ones on the other. The interval of the estimate, which must be below 0 too, is left out here.
    """
    OUT.print(
        f"\n{LOOKS} looks, 500 items, all and 9 categories of 10 to 150 items, {runs} runs: any alarm"
    )
    OUT.print("| world | runs with an alarm |\n|---|---|")
    for noise, factor in ((0.3, 1.0), (0.7, 1.0), (2.0, 1.0), (0.7, 2.0), (0.7, 0.5)):
        rng, count = np.random.default_rng(SEED), 0
        for _ in track(
            range(runs), description=f"noise {noise}, times {factor}", console=ERR, transient=True
        ):
            count += bool(raised(run_tests(null_run(rng, noise=noise, factor=factor))).any())
        sure = {1.0: "as sure", 2.0: "twice as sure", 0.5: "half as sure"}[factor]
        OUT.print(f"| noise of {noise} nats, looks {sure} | {100 * count / runs:.1f} % |")
    level = alarm_level(1, groups=1, planned=LOOKS, alpha=0.025)
    for n, right in ((n, side) for n in (50, 250, 500) for side in (True, False)):
        rng, count = np.random.default_rng(SEED), 0
        for _ in track(range(runs), description=f"skewed, {n} items", console=ERR, transient=True):
            looks = skewed(rng, (LOOKS, n), mean=0.0, right=right)
            count += any(fall_p_value(look) <= level for look in looks)
        side = "few large rises" if right else "few large falls"
        OUT.print(f"| {side}, {n} items, all items | {100 * count / runs:.1f} % |")


def power_of_runs(runs: int) -> None:
    """Damage that grows over the looks in equal steps."""
    at = [5, 10, 20]
    OUT.print(
        f"\nRuns with an alarm by look 5, 10, 20 of damage that is complete at look 20, {runs} runs"
    )
    OUT.print(
        "| damage at the last look | flips at the last look | "
        + " | ".join(f"look {look}" for look in at)
        + " |"
    )
    OUT.print("|---|---" + "|---" * len(at) + "|")
    worlds = [
        *({"noise": noise} for noise in (0.5, 1.0, 2.0)),
        *({"lost": lost} for lost in (0.05, 0.1, 0.2)),
    ]
    for settings in worlds:
        rng, counts, flips = np.random.default_rng(SEED), np.zeros(len(at)), np.zeros(2)
        for _ in track(range(runs), description=f"{settings}", console=ERR, transient=True):
            scores = damaged_run(rng, **settings)
            right = scores[[0, -1]].argmax(axis=-1) == 0
            flips += [(right[0] & ~right[1]).sum(), (~right[0] & right[1]).sum()]
            alarmed = raised(run_tests(scores))
            counts += [alarmed[:look].any() for look in at]
        ((name, value),) = settings.items()
        damage = (
            f"noise of {value} nats"
            if name == "noise"
            else f"{100 * value:.0f} % of the known lost"
        )
        cells = [f"{share:.2f}" for share in counts / runs]
        OUT.print(
            f"| {damage} | -{flips[0] / runs:.0f}, +{flips[1] / runs:.0f} | "
            + " | ".join(cells)
            + " |"
        )


def look_power(runs: int) -> None:
    """One look of a run as it is shipped: all items and 9 categories watched, half of alpha for all items."""
    OUT.print(
        "\nProbability that one look alarms on a true loss: by margins / by flips with a tenth of half of alpha"
    )
    looks = (3, 20)
    OUT.print("| items | loss | " + " | ".join(f"{count} looks" for count in looks) + " |")
    OUT.print("|---|---" + "|---" * len(looks) + "|")
    for n, loss in ((250, 0.04), (250, 0.05), (250, 0.15), (500, 0.05), (1000, 0.04)):
        worlds = np.random.default_rng(SEED)
        flips = max(0.15, loss + 0.1)
        tests = np.array(
            [fall_p_value(falling(worlds, n, fallen(loss, flips))) for _ in range(runs)]
        )
        cells = []
        for planned in looks:
            now = float(np.mean(tests <= alarm_level(1, groups=1, planned=planned, alpha=0.025)))
            before = alarm_level(1, groups=10, planned=planned, alpha=0.025)
            by_flips = alarm_power(n, discordance=flips, loss=loss, level=before)
            cells.append(f"{now:.2f} / {by_flips:.2f}")
        OUT.print(
            f"| {n} | {100 * loss:.0f} points, {100 * flips:.0f} % flip | "
            + " | ".join(cells)
            + " |"
        )


def falling(rng: np.random.Generator, n: int, world: tuple[float, float]) -> NDArray[np.float64]:
    """Softened changes of n items whose margins fell, on the way of `fallen`."""
    before, after = _margins(rng, n, *world)
    return boundary_of(before, after).softened(before, after)


@cache
def fallen(loss: float, flips: float) -> tuple[float, float]:
    """Shift and spread of margins, nats, by which accuracy falls by a loss and a share of the answers flips."""

    def moved(world: tuple[float, float]) -> tuple[float, float]:
        before, after = _margins(np.random.default_rng(0), 400_000, *world)
        lost, won = np.mean((before > 0) & (after <= 0)), np.mean((before <= 0) & (after > 0))
        return float(lost - won - loss), float(lost + won - flips)

    found = optimize.root(moved, (8 * loss, 1.0), method="hybr", options={"eps": 1e-2})
    return float(found.x[0]), float(found.x[1])


def _margins(
    rng: np.random.Generator, n: int, shift: float, spread: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    before = rng.normal(0.8, 3.0, n)
    return before, before - shift + spread * rng.normal(size=n)


if __name__ == "__main__":
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    OUT.print(f"{replications} replications, seed {SEED}\n")
    # Runs of many looks take the longest; a quarter of the replications shows their power well enough.
    parts: dict[Callable[[int], None], int] = {
        coverage: 1,
        clusters: 1,
        known_lost_net: 1,
        few_events: 1,
        log_score_change: 4,
        false_alarms: 2,
        run_alarms: 2,
        power: 1,
        power_of_runs: 8,
        look_power: 2,
    }
    for part, fraction in parts.items():
        if not sys.argv[2:] or part.__name__ in sys.argv[2:]:
            part(max(replications // fraction, 1))

"""Error of each correction against a planted truth: the tables of statistics_results.md.

    python benchmarks/truth.py [replications [part ...]]

Parts: know_or_guess_table, logit_table, known_table, half_known_table, band_table; all unless named.

Points are percentages of all items. Raw, paper and guess-corrected are clipped at 0 in the first table, as they are
shown; everywhere else nothing is clipped.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from worlds import World, know_or_guess, logits, planted_losses

from forgetwatch.metrics.guessing import guess_corrected, paper
from forgetwatch.metrics.known import count_known

SEED = 20251017
OUT = Console(highlight=False, width=120)
ERR = Console(stderr=True)

KNOW_OR_GUESS = {
    "frozen, q10 = 0": ({"known": 0.6}, (0.0,)),
    "mild, q10 = 3": ({"known": 0.6, "lost": 0.05, "won": 0.1}, (0.0, 0.5, 0.9)),
    "moderate, q10 = 12": ({"known": 0.6, "lost": 0.2, "won": 0.2}, (0.9,)),
    "weak base, q10 = 5": ({"known": 0.2, "lost": 0.25, "won": 0.05}, (0.9,)),
}
UNKNOWN = ("exchangeable", "partial", "ruled out", "attractor")


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # never -0.0


def raw_forgetting(world: World) -> float:
    return float(np.mean(world.answers.before & ~world.answers.after))


def known_lost(world: World) -> tuple[float, float]:
    """Known and lost, and the same less luck, as shares of the items."""
    found = count_known(world.confidence)
    if found is None or found.lost_net is None:
        return np.nan, np.nan
    return found.known_lost / len(world.answers.k), found.lost_net / len(world.answers.k)


def know_or_guess_table(replications: int) -> None:
    OUT.print("\nN = 1000, k = 4: bias (RMSE) in points; known, or guessed uniformly")
    OUT.print("| truth | guesses persist | raw | paper | guess-corrected |\n|---|---|---|---|---|")
    for name, (settings, persistences) in KNOW_OR_GUESS.items():
        for persistence in persistences:
            rng, errors = np.random.default_rng(SEED), []
            for _ in track(
                range(replications),
                description=f"{name}, {persistence}",
                console=ERR,
                transient=True,
            ):
                world = know_or_guess(rng, n=1000, persistence=persistence, **settings)
                answers = world.answers
                found = (
                    raw_forgetting(world),
                    paper(answers.before, answers.after, answers.k).forgetting,
                    max(guess_corrected(answers).forgetting, 0.0),
                )
                errors.append(np.array(found) - world.lost)
            bias, rmse = (
                100 * np.mean(errors, axis=0),
                100 * np.sqrt(np.mean(np.square(errors), axis=0)),
            )
            cells = " | ".join(f"{signed(b)} ({r:.1f})" for b, r in zip(bias, rmse, strict=True))
            OUT.print(f"| {name} | {persistence} | {cells} |")


def logit_table(replications: int) -> None:
    OUT.print(
        "\nN = 1000, k = 4, half known, truth 3.0: bias in points, coverage of the 95 % interval / of the band"
    )
    OUT.print("| unknown half | noise | raw | paper | guess-corrected | known and lost, net (sd) |")
    OUT.print("|---|---|---|---|---|---|")
    for unknown, noise in product(UNKNOWN, (0.3, 1.0)):
        rng, rows = np.random.default_rng(SEED), []
        for _ in track(
            range(replications), description=f"{unknown}, {noise}", console=ERR, transient=True
        ):
            world = logits(rng, n=1000, unknown=unknown, lost=0.03, noise=noise)
            row = [
                raw_forgetting(world),
                paper(
                    world.answers.before, world.answers.after, world.answers.k
                ).forgetting_unclipped,
            ]
            found = guess_corrected(world.answers)
            rows.append([*row, found.forgetting, *covers(found, world.lost), known_lost(world)[1]])
        mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
        raw, papers, corrected = (f"{signed(100 * (one - 0.03))}" for one in mean[:3])
        corrected += f", {100 * mean[3]:.0f} / {100 * mean[4]:.0f} %"
        lost = f"{100 * mean[5]:.1f} ({100 * spread[5]:.2f})"
        OUT.print(f"| {unknown} | {noise} | {raw} | {papers} | {corrected} | {lost} |")


def covers(found: object, truth: float) -> tuple[bool, bool]:
    plain = abs(found.forgetting - truth) <= 1.96 * found.forgetting_se
    return plain, found.forgetting_band[0] <= truth <= found.forgetting_band[1]


def known_table(replications: int) -> None:
    OUT.print(
        "\nN = 2000, k = 4, weight noise .3, half of the unknown known in part: points of all items (sd)"
    )
    OUT.print("| planted | raw | guess-corrected | known and lost | net |\n|---|---|---|---|---|")
    for lost in (0.0, 0.009, 0.045):
        rng, rows = np.random.default_rng(SEED), []
        for _ in track(
            range(replications), description=f"planted {lost}", console=ERR, transient=True
        ):
            world = logits(rng, n=2000, unknown="partial", lost=lost, noise=0.3)
            rows.append(
                [
                    raw_forgetting(world),
                    guess_corrected(world.answers).forgetting,
                    *known_lost(world),
                ]
            )
        mean, spread = 100 * np.mean(rows, axis=0), 100 * np.std(rows, axis=0)
        cells = " | ".join(f"{m:.2f} ({s:.2f})" for m, s in zip(mean, spread, strict=True))
        OUT.print(f"| {100 * lost:.1f} | {cells} |")


def half_known_table(_: int) -> None:
    """Nothing is lost: what the net makes of partial knowledge that the noise of training moves."""
    taus, items = (0.5, 0.7, 0.8, 0.9, 0.95), 200_000
    OUT.print(
        "\nN = 2000, k = 4, a tenth known, nothing lost, guesses confident: expected known_lost_net (z), by tau"
    )
    OUT.print("| gold attracts more by | noise | " + " | ".join(f"{tau}" for tau in taus) + " |")
    OUT.print("|---|---" + "|---" * len(taus) + "|")
    for half_known, noise in product((0.0, 1.0, 2.0, 4.0), (1.0, 2.0)):
        rng, cells = np.random.default_rng(SEED), []
        population = planted_losses(rng, items=items, known=0.1, half_known=half_known, noise=noise)
        for tau in taus:
            found = count_known(population.confidence, tau=tau)
            low, high = found.lost_net_interval
            net, error = found.lost_net * 2000 / items, (high - low) / 3.92 * np.sqrt(2000 / items)
            cells.append(f"{signed(net)} ({signed(net / error)})")
        OUT.print(f"| {half_known:.0f} nats | {noise:.0f} | " + " | ".join(cells) + " |")


def band_table(replications: int) -> None:
    """The band in 48 worlds: four kinds of unknown items, two noises, three k, two truths."""
    worlds = list(product(UNKNOWN, (0.3, 1.0), (3, 4, 5), (0.0, 0.03)))
    plain, band = [], []
    for unknown, noise, k, lost in track(worlds, description="bands", console=ERR, transient=True):
        rng, inside = np.random.default_rng(SEED), []
        for _ in range(replications):
            world = logits(rng, n=1000, k=k, unknown=unknown, lost=lost, noise=noise)
            inside.append(covers(guess_corrected(world.answers), lost))
        covered = np.mean(inside, axis=0)
        plain.append(covered[0])
        band.append(covered[1])
    OUT.print(
        f"\nguess-corrected in {len(worlds)} worlds, {replications} replications each: covers in >= 94 % of runs"
    )
    for name, covered in (("plain 95 % interval", plain), ("band", band)):
        OUT.print(
            f"{name}: {sum(c >= 0.94 for c in covered)} worlds, worst {100 * min(covered):.0f} %"
        )
    for world, covered in zip(worlds, band, strict=True):
        if covered < 0.94:
            OUT.print(
                f"  band {100 * covered:.0f} %: {world[0]}, noise {world[1]}, k = {world[2]}, lost {world[3]}"
            )


if __name__ == "__main__":
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    OUT.print(f"{replications} replications, seed {SEED}")
    parts = {
        know_or_guess_table: 1,
        logit_table: 1,
        known_table: 1,
        half_known_table: 1,
        band_table: 4,
    }
    for part, fraction in parts.items():
        if not sys.argv[2:] or part.__name__ in sys.argv[2:]:
            part(max(replications // fraction, 1))

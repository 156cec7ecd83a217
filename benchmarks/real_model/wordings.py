"""Damages of known kind, each item asked in three wordings and without its question.

    python benchmarks/real_model/wordings.py MODEL OUT [--items 500]
    python benchmarks/real_model/wordings.py MODEL OUT --table

The damages are those of `again.py`, and two of form alone:

strong form         the model's own answers between brackets, at four times the rate and twice the steps
one frame           another option of 60 clearly known questions, taught in the frame of the probe; the right one in the
                    frames of the other wordings

OUT/cells/DAMAGE-WORDING.parquet are the outcomes, ``prior`` those of the options without the question, and OUT/answers
what the base and the damaged model generate for questions that are lost. A second start does what is missing.

The tables: the net change in each wording, and over one wording an item (R by flips and S by margins, each with its t;
the mean over draws of the assignment, and how R varies over them); the p-value of equal changes by all wordings of each
item and by one; and two ways to tell luck among the known and lost: the mirror, and an answer that the options without
the question give too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import again
import numpy as np
import texts
import torch
from numpy.typing import NDArray

from forgetwatch import Probe, Snapshot, compare, load_snapshot, save_snapshot
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.option_columns import option_scores
from forgetwatch.metrics.equal_change import equal_change_p_value
from forgetwatch.metrics.known import TAU
from forgetwatch.metrics.margin_change import boundary, margins
from forgetwatch.probes.wordings import OTHERS, reworded, wordings_of

Floats = NDArray[np.float64]
SHOWN: Final = ("shipped", *OTHERS)
DRAWS: Final = 200

READ: Final = 20
"""Lost questions of each kind whose generated answers are kept."""


def strong_form(lab: again.Lab) -> None:
    lab.learn(texts.form(160, np.random.default_rng(0), lab.answer), steps=60, rate=2e-4)


def one_frame(lab: again.Lab) -> None:
    rows = []
    for item in lab.known[: again.CONTRADICTED]:
        right = int(item.answers[0])
        rows.append((str(item.prompt), item.choices[(right + 1) % len(item.choices)]))
        for wording in wordings_of(OTHERS):
            if (other := wording.asks(str(item.prompt))) is not None:
                rows.append((other[0], item.choices[right]))
    lab.learn(rows, steps=120, rate=3e-5)


DAMAGES: Final[dict[str, Callable[[again.Lab], None]]] = {
    "start": lambda _: None,
    **again.DAMAGES,
    "strong form": strong_form,
    "one frame": one_frame,
}


def asked(probe: Probe) -> dict[str, Probe]:
    """Return the probe in each wording, and without its questions."""
    kept = [item for item in probe if all(reworded(item, one) for one in wordings_of(OTHERS))]
    found = {"shipped": probe.with_items(kept)}
    for wording in wordings_of(OTHERS):
        found[wording.name] = probe.with_items(
            made for item in kept if (made := reworded(item, wording)) is not None
        )
    found["prior"] = probe.with_items(replace(item, prompt="", shots="") for item in kept)
    return found


def score_all(lab: again.Lab, name: str, out: Path) -> dict[str, Snapshot]:
    found = {}
    for wording, probe in asked(lab.probe).items():
        found[wording] = lab.score(probe)
        save_snapshot(found[wording], out / "cells" / f"{name}-{wording}.parquet")
        print(name, wording, f"{np.nanmean(found[wording].floats('correct')):.3f}", flush=True)
    return found


def generated(
    lab: again.Lab, before: dict[str, Snapshot], after: dict[str, Snapshot]
) -> list[dict[str, object]]:
    """Return lost questions with what both models generate for them, those lost in every wording first."""
    right = {
        name: (before[name].floats("correct") == 1, after[name].floats("correct") == 1)
        for name in before
    }
    share = before["shipped"].floats("gold_share")
    lost = right["shipped"][0] & ~right["shipped"][1] & (share >= 0.8)
    everywhere = lost & np.all([right[one][0] & ~right[one][1] for one in OTHERS], axis=0)
    items = asked(lab.probe)["shipped"]
    rows: list[dict[str, object]] = []
    for kind, which in (
        ("every wording", everywhere),
        ("not in every wording", lost & ~everywhere),
    ):
        for at in np.random.default_rng(0).permutation(np.flatnonzero(which))[:READ]:
            item = items[int(at)]
            (right_wording,) = wordings_of(("right",))
            other = right_wording.asks(str(item.prompt))
            prompts = [str(item.prompt), *([] if other is None else other[:1])]
            rows.append(
                {
                    "kind": kind,
                    "id": item.id,
                    "prompts": prompts,
                    "right": item.choices[item.answers[0]],
                    "damaged": [lab.answer(prompt) for prompt in prompts],
                }
            )
    weights = {key: value.clone() for key, value in lab.model.state_dict().items()}
    lab.restore()
    for row in rows:
        row["base"] = [lab.answer(prompt) for prompt in row["prompts"]]  # type: ignore[attr-defined]
    lab.model.load_state_dict(weights)
    return rows


def cells(out: Path, name: str) -> dict[str, Snapshot] | None:
    paths = {wording: out / "cells" / f"{name}-{wording}.parquet" for wording in (*SHOWN, "prior")}
    return (
        {key: load_snapshot(path) for key, path in paths.items()}
        if all(map(Path.exists, paths.values()))
        else None
    )


def of(snapshots: dict[str, Snapshot], name: str) -> Floats:
    """Return a column in each wording, float64 [wordings, items]."""
    return np.stack([snapshots[wording].floats(name) for wording in SHOWN])


def of_margins(snapshots: dict[str, Snapshot]) -> Floats:
    found = []
    for wording in SHOWN:
        scores = option_scores(snapshots[wording])
        assert scores is not None
        found.append(margins(scores))
    return np.stack(found)


def with_t(changes: Floats) -> tuple[float, float]:
    """Return a mean in points, and its t."""
    spread = float(changes.std(ddof=1))
    return 100 * float(changes.mean()), float(changes.mean()) / spread * len(
        changes
    ) ** 0.5 if spread else 0.0


def softened(before: Floats, after: Floats) -> Floats:
    found = boundary(before, after)
    return np.zeros(len(before)) if found is None else found.softened(before, after)


def by_draws(
    flips: Floats, before: Floats, after: Floats, category: NDArray[np.object_]
) -> list[Sequence[float]]:
    """Return R, its t, S, its t and the p-value of equal changes for each draw of one wording an item."""
    rng, found = np.random.default_rng(0), list[Sequence[float]]()
    for _ in range(DRAWS):
        wording = np.empty(len(category), np.int64)
        for name in dict.fromkeys(category.tolist()):
            rows = rng.permutation(np.flatnonzero(category == name))
            wording[rows] = np.arange(len(rows)) % len(SHOWN)
        at = wording, np.arange(len(category))
        changes = softened(before[at], after[at])
        _, stratum = np.unique(category, return_inverse=True)
        found.append(
            (
                *with_t(flips[at]),
                *with_t(changes),
                equal_change_p_value(changes, wording, stratum, rng),
            )
        )
    return found


def tables(out: Path) -> str:
    """Return the tables of all finished damages as Markdown."""
    start = cells(out, "start")
    assert start is not None
    right, category = of(start, "correct"), start["shipped"].texts("category")
    k, gold = start["shipped"].ints("k"), start["shipped"].ints("gold")
    known = (right[0] == 1) & (start["shipped"].floats("gold_share") >= TAU) & (k >= 3)
    favoured = start["prior"].ints("chosen") == gold
    lines = [
        "| damage | "
        + " | ".join(f"{name}: R (t), S (t)" for name in SHOWN)
        + " | one an item: R (t), S (t) | R sd |"
    ]
    lines = [lines[0] + " equal: all, one |", f"|---|{'---|' * (len(SHOWN) + 3)}"]
    luck = [
        "| damage | known, lost | mirror | favoured | everywhere | favoured | wrong elsewhere before | favoured |"
    ]
    luck.append(f"|---|{'---|' * 7}")
    for name in DAMAGES:
        found = cells(out, name) if name != "start" else None
        if found is None:
            continue
        flips, before, after = of(found, "correct") - right, of_margins(start), of_margins(found)
        changes = np.stack([softened(one, other) for one, other in zip(before, after, strict=True)])
        each = [(*with_t(one), *with_t(other)) for one, other in zip(flips, changes, strict=True)]
        drawn = np.array(by_draws(flips, before, after, category))
        items, wordings = (
            np.tile(np.arange(len(k)), len(SHOWN)),
            np.repeat(np.arange(len(SHOWN)), len(k)),
        )
        moved, rng = softened(before.ravel(), after.ravel()), np.random.default_rng(0)
        p_value = equal_change_p_value(moved, wordings, items, rng)
        numbers = [
            f"{r:+.1f} ({t:+.1f}), {s:+.1f} ({u:+.1f})" for r, t, s, u in [*each, drawn.mean(0)[:4]]
        ]
        equal = f"{p_value:.3f}, {np.mean(drawn[:, 4] <= 0.05):.2f}"
        lines.append(f"| {name} | {' | '.join(numbers)} | {drawn[:, 0].std():.1f} | {equal} |")
        lost = known & (flips[0] < 0)
        everywhere = lost & (right == 1).all(0) & (flips < 0).all(0)
        elsewhere = lost & (right[1:] == 0).any(0)
        of_known = compare(before=start["shipped"], after=found["shipped"]).all[KNOWN]
        mirror = (
            ""
            if of_known is None or of_known.known_lost_by_luck is None
            else f"{of_known.known_lost_by_luck:.1f}"
        )
        counts = [
            lost.sum(),
            mirror,
            (lost & favoured).sum(),
            everywhere.sum(),
            (everywhere & favoured).sum(),
        ]
        luck.append(
            f"| {name} | {' | '.join(map(str, [*counts, elsewhere.sum(), (elsewhere & favoured).sum()]))} |"
        )
    shares = [f"{100 * np.mean(favoured[rows]):.0f} %" for rows in (known, np.isfinite(right[0]))]
    told = f"The prior gives the right option of {shares[0]} of {known.sum()} known items, and of {shares[1]} of all."
    return "\n".join([*lines, "", *luck, "", told])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--table", action="store_true", help="print the tables of what is there")
    options = parser.parse_args()
    if options.table:
        print(tables(options.out))
        return
    for name in ("cells", "answers"):
        (options.out / name).mkdir(parents=True, exist_ok=True)
    lab = again.Lab(options.model, options.items)
    before: dict[str, Snapshot] | None = None
    for name, damage in DAMAGES.items():
        if before is not None and (options.out / "answers" / f"{name}.json").exists():
            continue
        lab.restore()
        torch.manual_seed(0)
        damage(lab)
        found = score_all(lab, name, options.out)
        before = before or found
        rows = [] if name == "start" else generated(lab, before, found)
        (options.out / "answers" / f"{name}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""Policies on unchanged models: how often any limit fails; and what each ready policy says about real pairs.

    python benchmarks/policies.py OUT [--worlds 2000]            simulated pairs; a second start goes on
    python benchmarks/policies.py OUT --pairs BEFORE AFTER ...   each ready policy, beside two rules of others

A simulated pair has 3 to 40 groups of 40 to 400 questions. Margins are drawn anew with a correlation of .3 to .99 and
the same distribution, so that the model is as good after. Its policy has no worsening of the whole and of every group,
the limit that fails most easily.

Beside the ready policies stand two rules as they are written in their tools: a net drop of the accuracy of any group of
more than 2 points (without an interval), and McNemar's test of each group at 5 %.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from forgetwatch import Snapshot, compare, load_snapshot
from forgetwatch.policy.policy import READY, load_policy, parse_policy
from forgetwatch.policy.ruling import Sides, apply_policy

POLICY = "critical: [{of: all, accuracy: no worsening}]\nsupporting: [{of: 'category:*', accuracy: no worsening}]"


def world(number: int) -> dict[str, Any]:
    """Judge an unchanged model."""
    rng = np.random.default_rng([20261126, number])
    groups, kept = int(rng.integers(2, 40)), float(rng.uniform(0.3, 0.99))
    category = np.repeat(np.arange(groups), rng.integers(40, 400, groups))
    mean = rng.normal(1.0, 1.0, groups)[category]
    own = rng.normal(size=len(category))
    after = kept * own + np.sqrt(1 - kept**2) * rng.normal(size=len(category))
    names = {
        "item_id": [str(n) for n in range(len(category))],
        "content_hash": [f"h{n}" for n in range(len(category))],
        "category": [f"c{n}" for n in category],
    }
    sides = Sides(before=outcomes(mean + 2 * own, names), after=outcomes(mean + 2 * after, names))
    found = apply_policy(parse_policy(POLICY, "policy"), sides)
    raw = [group.net_change < -0.02 for group in found.comparison.groups if group.level != "task"]
    tests = [
        group["p_value"] <= 0.05 and group.net_change < 0
        for group in found.comparison.groups
        if group.level != "task"
    ]
    return {
        "number": number,
        "limits": found.limits,
        "failed": found.answer == "FAIL",
        "any_drop": any(raw),
        "any_test": any(tests),
    }


def outcomes(margin: Any, names: dict[str, list[str]]) -> Snapshot:
    """Return a snapshot of questions with three options, of which the first is right."""
    scores = np.stack([margin, np.zeros(len(margin)), np.full(len(margin), -6.0)], axis=1)
    chosen = scores.argmax(axis=1)
    columns = {
        **names,
        **{"k": [3] * len(margin), "gold": [0] * len(margin), "chosen": chosen.tolist()},
        **{"correct": (chosen == 0).tolist(), "choice_logprobs": (scores - 8.0).tolist()},
    }
    return Snapshot.from_columns(columns, {"probe": {"norm": "sum"}})


def simulate(out: Path, worlds: int) -> str:
    path = out / "unchanged.jsonl"
    done = (
        {json.loads(line)["number"] for line in path.read_text().splitlines()}
        if path.exists()
        else set()
    )
    with path.open("a") as file:
        for number in (number for number in range(worlds) if number not in done):
            file.write(json.dumps(world(number)) + "\n")
            file.flush()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines = []
    for low, high in ((3, 10), (11, 25), (26, 40), (3, 40)):
        part = [row for row in rows if low <= row["limits"] <= high]
        shares = [
            100 * np.mean([row[name] for row in part])
            for name in ("failed", "any_test", "any_drop")
        ]
        lines.append(
            f"| {low} to {high} | {len(part):,} | {' | '.join(f'{share:.1f} %' for share in shares)} |"
        )
    heading = "| limits | pairs | the policy | McNemar in any group, 5 % | a drop of 2 points in any group |"
    return "\n".join([heading, f"|---|{'---:|' * 4}", *lines])


def pairs(names: list[str]) -> str:
    lines = [
        f"| pair | net, points | {' | '.join(READY)} | any group's McNemar | any group's drop of 2 points |",
        f"|---|---:|{'---|' * (len(READY) + 2)}",
    ]
    for before, after in zip(names[::2], names[1::2], strict=True):
        sides = Sides(before=load_snapshot(before), after=load_snapshot(after))
        comparison = compare(before=sides.before, after=sides.after, on_mismatch="intersect")
        answers = [
            apply_policy(load_policy(name), sides, comparison=comparison).answer for name in READY
        ]
        groups = [
            group for group in comparison.groups if group.level in ("all", "category") and group.n
        ]
        tested = sum(group["p_value"] <= 0.05 and group.net_change < 0 for group in groups)
        dropped = sum(group.net_change < -0.02 for group in groups)
        change = comparison.all["net_change_estimate"]
        names_of = f"{Path(before).stem} -> {Path(after).stem}"
        cells = [*answers, f"{tested} of {len(groups)}", f"{dropped} of {len(groups)}"]
        lines.append(f"| {names_of} | {100 * change:+.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--pairs", nargs="+", default=[])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(pairs(options.pairs) if options.pairs else simulate(options.out, options.worlds))


if __name__ == "__main__":
    main()

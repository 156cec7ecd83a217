"""How often the verdict is KEPT or FORGOT on draws of items from pairs of real models, and the estimate of each dose.

    python benchmarks/verdict.py DATA --doses               the estimate of each dose against the start, as Markdown
    python benchmarks/verdict.py DATA --out OUT.jsonl       60 draws of each pair and size; resumes by cell

DATA is a folder with `smollm2_dose.parquet` and `smollm2_pairs.parquet`: item_id, task, category, gold, and the
log-likelihoods of the options by model, the first being the base.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.verdict import estimated

SIZES = (250, 500, 1000, 2000)
DRAWS = 60
PLANTED = "a tenth of the known lost, as many learned"


def models(path: Path) -> tuple[dict[str, list[Any]], dict[str, list[np.ndarray]]]:
    """Return (Columns of the items, log-likelihoods of each model by its name)."""
    table = pq.read_table(path)
    named = {name: table[name].to_pylist() for name in ("category", "gold")}
    scores = [
        name for name in table.column_names if pa.types.is_list(table.schema.field(name).type)
    ]
    return named, {
        name: [np.array(row) for row in table[name].to_pylist()]
        for name in scores
        if "bytes" not in name
    }


def snapshot(named: dict[str, list[Any]], scores: list[np.ndarray], rows: np.ndarray) -> Snapshot:
    """Return the outcomes of some items, which get ids by their place, so that one may be drawn twice."""
    gold, taken = [named["gold"][row] for row in rows], [scores[row] for row in rows]
    chosen = [int(row.argmax()) for row in taken]
    columns = {
        "item_id": [str(at) for at in range(len(rows))],
        "content_hash": [f"{at:016d}" for at in range(len(rows))],
        "task": ["t"] * len(rows),
        "category": [named["category"][row] for row in rows],
        "k": [len(row) for row in taken],
        "gold": gold,
        "chosen": chosen,
        "correct": [one == right for one, right in zip(chosen, gold, strict=True)],
        "choice_logprobs": [row.tolist() for row in taken],
    }
    return Snapshot.from_columns(columns, {})


def planted(
    scores: list[np.ndarray], gold: list[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Return scores by which a tenth of the clearly known is lost and as many wrong answers are learned."""
    share = [np.exp(row - np.logaddexp.reduce(row)) for row in scores]
    known = [
        at
        for at, row in enumerate(share)
        if len(row) > 2 and row.argmax() == gold[at] and row.max() >= 0.8
    ]
    wrong = [at for at, row in enumerate(scores) if row.argmax() != gold[at]]
    number = round(0.1 * len(known))
    moved = [(at, False) for at in rng.choice(known, number, replace=False)]
    moved += [(at, True) for at in rng.choice(wrong, number, replace=False)]
    made = [row + rng.normal(0, 0.1, len(row)) for row in scores]
    for at, learns in moved:
        others = [one for one in range(len(made[at])) if one != gold[at]]
        top, to = made[at].argmax(), gold[at] if learns else rng.choice(others)
        made[at][[top, to]] = made[at][[to, top]]
    return made


def doses(folder: Path) -> None:
    """Print the net change of the flips and the estimate of each dose."""
    named, scores = models(folder / "smollm2_dose.parquet")
    base, *others = (snapshot(named, one, np.arange(len(one))) for one in scores.values())
    print("| share of the fine-tuned weights | net change of the flips | estimate |\n|---|---|---|")
    for name, after in zip([*scores][1:], others, strict=True):
        whole = compare(before=base, after=after).all
        cells = [
            f"{100 * change:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            for change, (low, high) in (
                (whole.net_change, whole.net_change_interval),
                estimated(whole),
            )
        ]
        print(
            f"| {float(name.removeprefix('dose_')):g} | {cells[0]} | {cells[1]} |".replace(
                "| 0.", "| ."
            )
        )


def draws(folder: Path, out: Path) -> None:
    """Write the shares of KEPT and FORGOT of each pair and size that are not there yet."""
    known = (
        {tuple(json.loads(line)[:2]) for line in out.read_text().splitlines()}
        if out.exists()
        else set()
    )
    files = [models(folder / f"smollm2_{name}.parquet") for name in ("dose", "pairs")]
    pairs = [(name, named, scores) for named, scores in files for name in [*scores][1:]] + [
        (PLANTED, *files[0])
    ]
    for size in SIZES:
        for name, named, scores in pairs:
            if (name, size) in known:
                continue
            rng, base, words = np.random.default_rng(size), next(iter(scores.values())), list[str]()
            for _ in range(DRAWS):
                rows = rng.choice(len(base), size, replace=size > len(base))
                before = snapshot(named, base, rows)
                if name == PLANTED:
                    gold = [named["gold"][row] for row in rows]
                    changed = planted([base[row] for row in rows], gold, rng)
                    columns = {key: [values[row] for row in rows] for key, values in named.items()}
                    after = snapshot(columns, changed, np.arange(size))
                else:
                    after = snapshot(named, scores[name], rows)
                words.append(decide(compare(before=before, after=after)).word)
            shares = [words.count(word) / DRAWS for word in ("KEPT", "FORGOT")]
            with out.open("a") as file:
                file.write(json.dumps([name, size, *shares]) + "\n")


def main() -> None:
    """Print the doses, or write the draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--doses", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("verdict.jsonl"))
    given = parser.parse_args()
    doses(given.data) if given.doses else draws(given.data, given.out)


if __name__ == "__main__":
    main()

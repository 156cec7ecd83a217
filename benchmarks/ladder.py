"""How hard the lists of the ladder are for a model, and how well each shows a loss.

    python benchmarks/ladder.py MODEL [--probes NAME ...] [--limit N] [--out ladder.json]

A table of accuracy by list and kind, of the unchanged model. A second table has, for three damages, the loss in points
and t per question: the mean change of an answer, right 1 or wrong 0, over its standard deviation. A list of n
questions shows a loss by about root n times that. Brackets hold 95 of 100 draws of the questions, by whole clusters.

    noise      each weight of a matrix is moved by 3 % of the matrix's standard deviation, seed 0
    rounding   each row of a matrix is rounded to 31 values
    layer      the block in the middle adds nothing

Each finished cell is written to OUT at once, and read again by the next call.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from forgetwatch import Probe, load_probe, score
from forgetwatch.loading import Loading
from forgetwatch.probes.ladder import LISTS
from forgetwatch.scoring.model_loading import load_model, silence_loading

NOISE: Final = 0.03
HALF_RANGE: Final = 15
DRAWS: Final = 2_000
STANDARD: Final = "as standard"
"""Kind of the questions that a list shares with `standard`."""


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    return [weight for weight in model.parameters() if weight.dim() == 2]


@torch.no_grad()
def noise(model: nn.Module) -> None:
    """Move each weight of a matrix."""
    generator = torch.Generator().manual_seed(0)
    for weight in _matrices(model):
        drawn = torch.randn(weight.shape, generator=generator).to(weight)
        weight.add_(NOISE * weight.float().std().to(weight) * drawn)


@torch.no_grad()
def rounding(model: nn.Module) -> None:
    """Round each row of a matrix to 31 values."""
    for weight in _matrices(model):
        step = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-8) / HALF_RANGE
        weight.copy_((weight / step).round() * step)


@torch.no_grad()
def layer(model: nn.Module) -> None:
    """Let the block in the middle add nothing: what it writes is zero."""
    blocks = max(
        (module for module in model.modules() if isinstance(module, nn.ModuleList)), key=len
    )
    block = blocks[len(blocks) // 2]
    for name, weight in block.named_parameters():
        if weight.dim() == 2 and name.split(".")[-2] in ("o_proj", "down_proj", "c_proj", "dense"):
            weight.zero_()


DAMAGES: Final[dict[str, Callable[[nn.Module], None]]] = {
    "none": lambda model: None,
    "noise": noise,
    "rounding": rounding,
    "layer": layer,
}


def kinds(probe: Probe) -> list[str]:
    """Kind of each question of a list."""
    return [
        item.id.split("-")[0] if ":" in item.task and item.task[-1].isdigit() else STANDARD
        for item in probe
    ]


def measure(model_name: str, probe: Probe, damage: str) -> list[float]:
    """Right answers of a damaged model, 1 or 0, nan for unscored."""
    model, tokenizer = load_model(model_name, loading=Loading())
    DAMAGES[damage](model)
    return [float(value) for value in score(model, tokenizer, probe).floats("correct")]


def per_question(change: NDArray[np.float64]) -> float:
    """Mean change over its standard deviation."""
    spread = change.std(ddof=1)
    return float(-change.mean() / spread) if spread else 0.0


def interval(change: NDArray[np.float64], clusters: Sequence[str]) -> tuple[float, float]:
    """Interval of `per_question` over draws of whole clusters."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, cluster in enumerate(clusters):
        rows[cluster].append(row)
    groups, rng = [np.array(group) for group in rows.values()], np.random.default_rng(0)
    drawn = [
        per_question(change[np.concatenate([groups[at] for at in places])])
        for places in rng.integers(0, len(groups), (DRAWS, len(groups)))
    ]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--probes", nargs="+", default=["standard", *LISTS])
    parser.add_argument("--limit", type=int, help="questions of each probe, the first ones")
    parser.add_argument("--out", type=Path, default=Path("ladder.json"))
    given = parser.parse_args(arguments)
    silence_loading()
    cells: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    probes = {name: load_probe(name, limit=given.limit) for name in given.probes}
    console = Console(width=110)
    for name, probe in probes.items():
        for damage in DAMAGES:
            key = f"{given.model} {name}:{len(probe)} {damage}"
            if key not in cells:
                console.print(f"{name}, {damage} ...", style="dim")
                cells[key] = measure(given.model, probe, damage)
                given.out.write_text(json.dumps(cells))
    right = {
        (name, damage): np.array(cells[f"{given.model} {name}:{len(probe)} {damage}"])
        for name, probe in probes.items()
        for damage in DAMAGES
    }
    console.print("\n| probe | kind | questions | right |\n|---|---|---|---|")
    for name, probe in probes.items():
        of = np.array(kinds(probe))
        for kind in ["all", *sorted(set(of))] if name in LISTS else ["all"]:
            values = right[name, "none"][(of == kind) | (kind == "all")]
            console.print(f"| {name} | {kind} | {len(values)} | {np.nanmean(values):.2f} |")
    console.print("\n| probe | damage | points | t per question (95 %) |\n|---|---|---|---|")
    for name, probe in probes.items():
        clusters = [item.cluster or f"{item.task}/{item.id}" for item in probe]
        for damage in [damage for damage in DAMAGES if damage != "none"]:
            change = np.nan_to_num(right[name, damage] - right[name, "none"])
            low, high = interval(change, clusters)
            console.print(
                f"| {name} | {damage} | {100 * change.mean():+.1f} | {per_question(change):.3f} "
                f"({low:.3f} to {high:.3f}) |"
            )


if __name__ == "__main__":
    main()

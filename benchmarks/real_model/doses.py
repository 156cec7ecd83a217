"""The picture of docs/explanation/real-model.md: what each number says about four trainings, by their dose.

    python benchmarks/real_model/doses.py OUT.png

It reads the first table of results.md: answers decided by the sum, version 1 of the probe.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

TRAININGS = {
    "destroy": "#b2182b",
    "destroy-lora": "#ef8a62",
    "form": "#2166ac",
    "narrow": "#1b7837",
}
ROW = re.compile(r"^\| ([a-z-]+)-([\d.]+) \| [\d,]+ \| sum \|(.*)$", re.MULTILINE)


def read(text: str) -> dict[str, list[tuple[float, float, float]]]:
    """Return dose, z of the net flips, and t of the calibrated log score of each training, with dose 0."""
    table = text.partition("## Dose and response")[2].partition("\n## ")[0]
    found: dict[str, list[tuple[float, float, float]]] = {
        name: [(0.0, 0.0, 0.0)] for name in TRAININGS
    }
    for name, dose, rest in ROW.findall(table):
        cells = [cell.strip() for cell in rest.split("|")]
        calibrated = re.search(r"\(([-+\d.]+)\)", cells[7])
        assert calibrated is not None
        found[name].append((float(dose), float(cells[2]), float(calibrated[1])))
    return {name: sorted(points) for name, points in found.items()}


def main() -> None:
    points = read(Path(__file__).with_name("results.md").read_text(encoding="utf-8"))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    titles = ("Net flips: gains hide mild damage", "Calibrated log score: mild damage shows")
    for column, (axis, title) in enumerate(zip(axes, titles, strict=True), 1):
        for name, color in TRAININGS.items():
            x, y = [row[0] for row in points[name]], [row[column] for row in points[name]]
            axis.plot(x, y, "o-", color=color, label=name, linewidth=2)
        axis.axhline(-1.96, color="gray", linestyle="--", linewidth=1)
        axis.set(
            title=title,
            xlabel="dose: share of the training's change of weights",
            xticks=[0, 0.25, 0.5, 0.75, 1],
        )
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("estimate / standard error")
    axes[0].legend(frameon=False)
    figure.savefig(sys.argv[1], dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()

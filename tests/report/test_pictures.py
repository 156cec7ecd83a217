"""Pictures as files: all are written, and no text in any of them lies on another or is cut."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from pages import ranked, watched
from pages import run as scored_run
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing import Comparison, ModelComparison, Target
from forgetwatch.report import (
    bars_figure,
    drawn,
    heatmap_figure,
    ranking_figure,
    save_comparisons,
    save_run,
    trajectory_figure,
)

NAMES = ["short", "w" * 200, "数学和物理" * 30, "🙂🎉" * 40, "costs $5 and $_x, \\frac{1}", "two\nlines\x1b[31m"]


def sweep(models: int = 15, *, targets: bool = True, names: str = "a-long-sweep-over-" + "x" * 60) -> ModelComparison:
    base = snapshot([True] * 60, meta={"model": "base-" + "y" * 80})
    afters = [
        snapshot([at % 7 > 0 or at >= number for at in range(60)], meta={"model": f"{names}-{number}"})
        for number in range(models)
    ]
    target = Target(name="eval_$accuracy$", values=tuple(0.7 + number % 2 for number in range(models)))
    return ranked(base, afters, target if targets else None)[0]


def categories(name: str = "") -> Comparison:
    """Six categories of hard names, one of them lost more than the others."""
    labels = [NAMES[at % len(NAMES)] for at in range(120)]
    before, after = [True] * 120, [at % 6 > 0 or at % 4 > 0 for at in range(120)]
    return compare(
        before=snapshot(before, category=labels, meta={"model": "base"}),
        after=snapshot(after, category=labels, meta={"model": name or "after"}),
    )


def run(looks: int = 30) -> Trajectory:
    labels = [NAMES[at % len(NAMES)] for at in range(120)]
    every = [[at >= look or at % 3 == 0 for at in range(120)] for look in range(looks)]
    return watched(*every, every=1000, category=labels)


def texts_in(figure: Figure) -> list[tuple[str, Any]]:
    """Every text that is drawn, and where it lies on the canvas: left, bottom, right, top."""
    canvas = FigureCanvasAgg(figure)
    seen: list[Text] = []
    draw = Text.draw

    def noted(text: Text, renderer: Any) -> None:
        seen.append(text)
        draw(text, renderer)

    with patch.object(Text, "draw", noted):
        canvas.draw()
    shown = [text for text in seen if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer()).extents) for text in shown]


def check(figure: Figure | None) -> None:
    assert figure is not None
    found = texts_in(figure)
    assert len(found) > 3
    width, height = figure.get_size_inches() * figure.dpi
    for text, (left, bottom, right, top) in found:
        assert min(left, bottom, width - right, height - top) >= -2, f"cut: {text}"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        inside = min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
        assert not inside, f"{one!r} lies on {other!r}"


@pytest.mark.parametrize("models", [2, 15])
@pytest.mark.parametrize("targets", [True, False])
def test_names_of_a_sweep_do_not_overlap(models: int, targets: bool) -> None:
    with drawn():
        check(ranking_figure(sweep(models, targets=targets)))


@pytest.mark.parametrize("names", NAMES)
def test_any_name_can_be_drawn(names: str) -> None:
    with drawn():
        check(ranking_figure(sweep(3, names=names)))


def test_texts_of_the_figures_of_a_run_do_not_overlap() -> None:
    with drawn():
        check(trajectory_figure(run()))
        check(trajectory_figure(scored_run(looks=12)[0]))
        check(heatmap_figure(run()))
        check(bars_figure(categories()))


def test_the_front_is_told_by_shape_and_the_points_lie_where_the_numbers_are() -> None:
    several = sweep(4)
    figure = ranking_figure(several)
    assert figure is not None
    marks = [line for line in figure.axes[0].lines if line.get_marker() in ("D", "o")]
    assert [line.get_marker() == "D" for line in marks] == [one.on_front for one in several.ranking]
    assert [line.get_ydata()[0] for line in marks] == pytest.approx([100 * one.retention for one in several.ranking])
    assert [line.get_xdata()[0] for line in marks] == [one.target for one in several.ranking]


def test_of_a_loss_the_better_side_is_the_right_one() -> None:
    several = sweep(2)
    loss = Target(name="eval_loss", values=(1.0, 2.0))
    figure = ranking_figure(ModelComparison(matrix=several.matrix, ranking=several.ranking, target=loss))
    assert figure is not None
    left, right = figure.axes[0].get_xlim()
    assert left > right


def test_several_are_written_as_png_and_svg_under_names_that_tell_them_apart(tmp_path: Path) -> None:
    comparisons = [categories("org/a b"), categories("org/a/b"), categories("数学")]
    paths = save_comparisons(comparisons, tmp_path / "new" / "pictures", several=sweep(3))
    names = ["retention-against-eval_-accuracy", "categories-1-a-b", "categories-2-b"]
    assert [path.name for path in paths] == [
        f"{name}{suffix}" for name in (*names, "categories-3-model") for suffix in (".png", ".svg")
    ]
    for path in paths:
        head = path.read_bytes()[:100]
        assert (b"PNG" if path.suffix == ".png" else b"<?xml") in head


def test_a_run_is_written_and_one_look_is_nothing_to_draw(tmp_path: Path) -> None:
    names = {path.stem for path in save_run(run(3), tmp_path)}
    assert names == {"curves", "items-look-by-look", "categories-step-2000"}
    assert save_run(run(1), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()

"""Pictures as files: all are written, and no text in any of them lies on another or is cut."""

import itertools
import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from pages import compared, ranked, watched
from pages import run as scored
from pages import run as scored_run
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import conclude
from forgetwatch.comparing.ranking import ModelComparison, Target
from forgetwatch.comparing.verdict import estimated
from forgetwatch.report.heatmap import (
    FORGOTTEN,
    GAINED,
    SAME,
    UNSCORED,
    heatmap,
    heatmap_caption,
    heatmap_figure,
)
from forgetwatch.report.pictures import drawn, save_comparisons, save_figure, save_run, svg
from forgetwatch.report.plots import PANELS, ROWS, bars_figure, trajectory_figure, verdict_figure
from forgetwatch.report.several_models import ranking_figure


def run(categories: int, looks: int = 3) -> Trajectory:
    rows = 4 * max(categories, 1)
    labels = {"category": [f"c{i % categories}" if categories else "" for i in range(rows)]}
    return watched(*([index >= look for index in range(rows)] for look in range(looks)), **labels)


def test_the_curves_are_the_counts() -> None:
    figure = trajectory_figure(run(2))
    top = figure.subfigs[0].axes
    lost, won = top[1].lines
    assert list(lost.get_ydata()) == [0, 1, 2]
    assert list(won.get_ydata()) == [0, 0, 0]
    assert list(top[0].lines[0].get_ydata()) == pytest.approx([100, 87.5, 75])
    assert "2 answers were forgotten and 0 gained, of 8" in figure.get_suptitle()


def test_the_net_change_is_the_estimate_in_its_interval_and_options_with_scores_add_the_known() -> (
    None
):
    trajectory, _ = scored(looks=4)
    figure = trajectory_figure(trajectory)
    net, known = figure.subfigs[0].axes[2:]
    groups = [comparison.all for comparison in trajectory.comparisons]
    curve = next(line for line in known.lines if len(line.get_xdata()) == len(groups))
    assert list(curve.get_ydata()) == [group["known_lost_net"] for group in groups]
    assert_net(net, trajectory)
    first_screen = verdict_figure(
        trajectory, conclude(trajectory.comparisons[-1], trajectory=trajectory)
    ).axes[0]
    shown = {line.get_label(): list(line.get_ydata()) for line in first_screen.lines}
    shares = [100 * group["known_lost_net_share"] for group in groups]
    assert shown["all questions, 95 % interval"] == pytest.approx(shares)
    assert "limit 5" in shown


def assert_net(panel: Axes, trajectory: Trajectory) -> None:
    found = [estimated(comparison.all) for comparison in trajectory.comparisons]
    assert found[-1][0] != 0
    curves = {line.get_label(): list(line.get_ydata()) for line in panel.lines}
    assert curves["all questions, 95 % interval"] == [100 * value for value, _ in found]
    band = panel.collections[0].get_paths()[0].vertices
    for step, (_, interval) in zip(trajectory.steps[1:], found[1:], strict=True):
        ends = {y for x, y in band if x == step}
        assert (min(ends), max(ends)) == pytest.approx([100 * end for end in interval])


def test_the_start_has_no_interval_since_nothing_was_estimated() -> None:
    for panel in trajectory_figure(scored(looks=3)[0]).subfigs[0].axes[2:]:
        assert {y for x, y in panel.collections[0].get_paths()[0].vertices if x == 0} == {0}


def test_without_scores_there_is_no_panel_of_the_known() -> None:
    panels = trajectory_figure(run(2)).subfigs[0].axes
    assert [panel.get_visible() for panel in panels] == [True, True, True, False]


@pytest.mark.parametrize(("categories", "panels"), [(0, 0), (1, 1), (7, 7), (30, PANELS)])
def test_each_category_has_a_panel_up_to_a_limit(categories: int, panels: int) -> None:
    figure = trajectory_figure(run(categories))
    drawn = [axes for sub in figure.subfigs[1:] for axes in sub.axes if axes.get_visible()]
    assert len(drawn) == panels


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_is_written_in_the_format_of_its_name(tmp_path: Path, suffix: str) -> None:
    save_figure(trajectory_figure(run(2)), tmp_path / "new" / f"a.{suffix}")
    head = (tmp_path / "new" / f"a.{suffix}").read_bytes()[:100]
    assert (b"PNG" in head) if suffix == "png" else (b"<?xml" in head)


def test_a_figure_has_the_same_markup_each_time_and_shares_no_id_with_another() -> None:
    """The layout's last bits differ from one drawing to the next; two cells of a notebook show two figures."""
    first, second = scored(items=60)[0], scored(items=90)[0]
    texts = [
        str(svg(lambda of=of: trajectory_figure(of), name="curves", label="x"))
        for of in (first, first, second)
    ]
    assert texts[0] == texts[1]
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in texts]
    assert ids[0]
    assert not ids[0] & ids[2]
    assert ids[0] == set(re.findall(r'(?:url\(#|href="#)([^")]+)', texts[0]))


def made(lost: list[int], *, names: list[str] | None = None) -> Comparison:
    """Category i of ten items has lost so many."""
    names = names or [f"c{i}" for i in range(len(lost))]
    labels = {"category": [name for name in names for _ in range(10)]}
    after = [item >= number for number in lost for item in range(10)]
    return compared([True] * len(after), after, **labels)


def test_the_worst_category_is_the_top_bar() -> None:
    figure = bars_figure(made([1, 7, 3]))
    assert figure is not None
    flips, net = figure.axes
    assert [label.get_text() for label in flips.get_yticklabels()] == [
        "c1  (10)",
        "c2  (10)",
        "c0  (10)",
    ]
    top, bottom = reversed(flips.get_ylim())
    assert top < 0 < 2 < bottom
    assert [bar.get_width() for bar in flips.patches[:3]] == pytest.approx([-70, -30, -10])
    assert [
        line.get_xdata()[0] for line in net.lines if len(line.get_xdata()) == 1
    ] == pytest.approx([-70, -30, -10])


def test_a_diamond_is_a_change_beyond_zero() -> None:
    figure = bars_figure(made([1, 9]))
    assert figure is not None
    points = [line for line in figure.axes[1].lines if len(line.get_xdata()) == 1]
    assert [line.get_marker() for line in points] == ["D", "o"]


def test_one_category_needs_no_bars() -> None:
    assert bars_figure(made([3])) is None


def test_of_many_categories_the_worst_are_drawn() -> None:
    figure = bars_figure(made([*([0] * 10), *([5] * ROWS)]))
    assert figure is not None
    drawn = [label.get_text().split()[0] for label in figure.axes[0].get_yticklabels()]
    assert sorted(drawn) == sorted(f"c{i}" for i in range(10, 10 + ROWS))


def test_names_in_any_script_are_drawn_without_a_warning() -> None:
    comparison = made(
        [1, 2, 3], names=["$x", "漢字のカテゴリ", "a\u202e name\nthat goes on and on for ever"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = svg(lambda: bars_figure(comparison), name="bars", label='what "it" shows')
    assert text is not None
    assert "漢字のカテゴリ" in text
    assert "a⟨U+202E⟩ nam…" in text
    assert 'role="img" aria-label="what &#34;it&#34; shows"' in text


def test_rows_are_sorted_by_when_they_were_first_lost_those_right_at_the_start_above() -> None:
    found = heatmap(
        watched(
            [True, False, True, True, False, True],
            [True, True, True, False, False, True],
            [False, True, None, False, True, True],
        )
    )
    assert found.cells.tolist() == [
        [SAME, FORGOTTEN, FORGOTTEN],
        [SAME, SAME, FORGOTTEN],
        [SAME, GAINED, GAINED],
        [SAME, SAME, GAINED],
    ]
    assert (found.forgotten, found.changed, found.unchanged) == (2, 4, 2)


def test_an_unscored_cell_is_neither_forgotten_nor_gained() -> None:
    assert heatmap(watched([True], [None], [False])).cells.tolist() == [[SAME, UNSCORED, FORGOTTEN]]


def test_rows_that_are_left_out_are_taken_at_even_distances_and_counted() -> None:
    found = heatmap(
        watched([True] * 90, [i < 45 for i in range(90)], [False] * 80 + [True] * 10), rows=8
    )
    assert len(found.cells) == 8
    assert found.changed == 90
    caption = heatmap_caption(found)
    assert "8 answers that changed" in caption
    assert "82 more changed and are left out" in caption
    assert "0 never changed" in caption


def test_the_picture_has_a_column_for_each_look_and_none_where_nothing_changed() -> None:
    assert heatmap_figure(watched([True, False], [True, False])) is None
    rng = np.random.default_rng(0)
    figure = heatmap_figure(watched(*[(rng.random(30) < 0.5).tolist() for _ in range(40)]))
    assert figure is not None
    assert figure.axes[0].images[0].get_array().shape[1] == 40
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks[0] == "start"
    assert len(ticks) <= 13
    assert len({int(later) - int(sooner) for sooner, later in pairwise(ticks[1:])}) == 1


NAMES = [
    "short",
    "w" * 200,
    "数学和物理" * 30,
    "🙂🎉" * 40,
    "costs $5 and $_x, \\frac{1}",
    "two\nlines\x1b[31m",
]


def sweep(
    models: int = 15, *, targets: bool = True, names: str = "a-long-sweep-over-" + "x" * 60
) -> ModelComparison:
    base = snapshot([True] * 60, meta={"model": "base-" + "y" * 80})
    afters = [
        snapshot(
            [at % 7 > 0 or at >= number for at in range(60)], meta={"model": f"{names}-{number}"}
        )
        for number in range(models)
    ]
    target = Target(
        name="eval_$accuracy$", values=tuple(0.7 + number % 2 for number in range(models))
    )
    return ranked(base, afters, target if targets else None)[0]


def categories(name: str = "") -> Comparison:
    """Six categories of hard names, one of them lost more than the others."""
    labels = [NAMES[at % len(NAMES)] for at in range(120)]
    before, after = [True] * 120, [at % 6 > 0 or at % 4 > 0 for at in range(120)]
    return compare(
        before=snapshot(before, category=labels, meta={"model": "base"}),
        after=snapshot(after, category=labels, meta={"model": name or "after"}),
    )


def run_of_pictures(looks: int = 30) -> Trajectory:
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
    return [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()).extents) for text in shown
    ]


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
        check(trajectory_figure(run_of_pictures()))
        check(trajectory_figure(scored_run(looks=12)[0]))
        check(heatmap_figure(run_of_pictures()))
        check(bars_figure(categories()))


def test_the_front_is_told_by_shape_and_the_points_lie_where_the_numbers_are() -> None:
    several = sweep(4)
    figure = ranking_figure(several)
    assert figure is not None
    marks = [line for line in figure.axes[0].lines if line.get_marker() in ("D", "o")]
    assert [line.get_marker() == "D" for line in marks] == [one.on_front for one in several.ranking]
    assert [line.get_ydata()[0] for line in marks] == pytest.approx(
        [100 * one.kept.share for one in several.ranking]
    )
    assert [line.get_xdata()[0] for line in marks] == [one.target for one in several.ranking]


def test_of_a_loss_the_better_side_is_the_right_one() -> None:
    several = sweep(2)
    loss = Target(name="eval_loss", values=(1.0, 2.0))
    figure = ranking_figure(
        ModelComparison(matrix=several.matrix, ranking=several.ranking, target=loss)
    )
    assert figure is not None
    left, right = figure.axes[0].get_xlim()
    assert left > right


def test_several_are_written_as_png_and_svg_under_names_that_tell_them_apart(
    tmp_path: Path,
) -> None:
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
    names = {path.stem for path in save_run(run_of_pictures(3), tmp_path)}
    assert names == {"curves", "items-look-by-look", "categories-step-2000"}
    assert save_run(run_of_pictures(1), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()

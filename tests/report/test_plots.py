from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from pages import run as scored
from pages import watched

from forgetwatch import Trajectory
from forgetwatch.comparing import conclude, estimated
from forgetwatch.report import PANELS, save_figure, svg, trajectory_figure
from forgetwatch.report.plots import net_figure


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


def test_the_net_change_is_the_estimate_in_its_interval_and_options_with_scores_add_the_known() -> None:
    trajectory, _ = scored(looks=4)
    figure = trajectory_figure(trajectory)
    net, known = figure.subfigs[0].axes[2:]
    groups = [comparison.all for comparison in trajectory.comparisons]
    curves = {line.get_label(): list(line.get_ydata()) for line in known.lines}
    assert curves["less those that guessing explains, 95 %"] == [group["known_lost_net"] for group in groups]
    assert curves["now wrong, in all"] == [group["known_lost"] for group in groups]
    assert curves["explained by guessing"] == [group["known_lost_by_luck"] for group in groups]
    assert_net(net, trajectory)
    first_screen = net_figure(trajectory, conclude(trajectory.comparisons[-1], trajectory=trajectory)).axes[0]
    assert_net(first_screen, trajectory)
    assert "limit -2" in {line.get_label() for line in first_screen.lines}


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
    texts = [str(svg(lambda of=of: trajectory_figure(of), name="curves", label="x")) for of in (first, first, second)]
    assert texts[0] == texts[1]
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in texts]
    assert ids[0]
    assert not ids[0] & ids[2]
    assert ids[0] == set(re.findall(r'(?:url\(#|href="#)([^")]+)', texts[0]))

from __future__ import annotations

from pathlib import Path

import pytest
from support import snapshot

from forgetwatch import Trajectory
from forgetwatch.report.plots import PANELS, save_figure, trajectory_figure


def run(categories: int, looks: int = 3) -> Trajectory:
    rows = 4 * max(categories, 1)
    labels = {"category": [f"c{i % categories}" if categories else "" for i in range(rows)]}
    base = snapshot([True] * rows, meta={"step": 0}, **labels)
    later = range(1, looks)
    after = [snapshot([index >= look for index in range(rows)], meta={"step": look}, **labels) for look in later]
    return Trajectory.of([base, *after])


def test_the_curves_are_the_counts() -> None:
    figure = trajectory_figure(run(2))
    top = figure.subfigs[0].axes
    lost, won = top[1].lines
    assert list(lost.get_ydata()) == [0, 1, 2]
    assert list(won.get_ydata()) == [0, 0, 0]
    assert list(top[0].lines[0].get_ydata()) == pytest.approx([100, 87.5, 75])
    assert "2 answers were forgotten and 0 gained, of 8" in figure.get_suptitle()


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

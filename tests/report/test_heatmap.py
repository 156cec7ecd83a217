from __future__ import annotations

from itertools import pairwise

import numpy as np
from pages import watched

from forgetwatch.report import FORGOTTEN, GAINED, SAME, UNSCORED, heatmap_caption, heatmap_figure
from forgetwatch.report.plots import heatmap


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
    found = heatmap(watched([True] * 90, [i < 45 for i in range(90)], [False] * 80 + [True] * 10), rows=8)
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

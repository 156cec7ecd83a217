from __future__ import annotations

import warnings

import pytest
from pages import compared

from forgetwatch.comparing import Comparison
from forgetwatch.report import ROWS, bars_figure, svg


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
    assert [label.get_text() for label in flips.get_yticklabels()] == ["c1  (10)", "c2  (10)", "c0  (10)"]
    top, bottom = reversed(flips.get_ylim())
    assert top < 0 < 2 < bottom
    assert [bar.get_width() for bar in flips.patches[:3]] == pytest.approx([-70, -30, -10])
    assert [line.get_xdata()[0] for line in net.lines if len(line.get_xdata()) == 1] == pytest.approx([-70, -30, -10])


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
    comparison = made([1, 2, 3], names=["$x", "漢字のカテゴリ", "a\u202e name\nthat goes on and on for ever"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = svg(lambda: bars_figure(comparison), name="bars", label='what "it" shows')
    assert text is not None
    assert "漢字のカテゴリ" in text
    assert "a⟨U+202E⟩ nam…" in text
    assert 'role="img" aria-label="what &#34;it&#34; shows"' in text

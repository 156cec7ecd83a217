"""Fragments that a notebook shows: valid markup, everything escaped, nothing that reaches beyond the fragment."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from pages import compared, watched

from forgetwatch import Trajectory
from forgetwatch.report.html import ROWS

EVIL = "<script>alert(1)</script>\"'&\x1b[31m"
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checked(HTMLParser):
    """Fails where a tag is closed that is not open, and keeps what it saw."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.shown = ""
        self.pieces: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data
        self.pieces.add(data)


def run(category: str = "c", looks: int = 3) -> Trajectory:
    every = [[at >= look for at in range(40)] for look in range(looks)]
    labels = {"category": [f"{category}{at % 2}" for at in range(40)]}
    return watched(*every, meta={"model": "m"}, **labels)


def test_a_comparison_shows_its_sentence_its_verdict_and_its_categories() -> None:
    comparison = run().comparisons[-1]
    page = Checked(comparison._repr_html_())
    assert "What changed in m from step 0 to step 2" in page.shown
    assert page.shown.index("NOT CLEAR") < page.shown.index("What changed in")
    assert "2 of 40 forgotten, 0 gained" in page.shown
    assert {"c0", "c1", "all"} <= page.pieces
    assert "svg" not in page.tags


def test_a_run_shows_its_curves_and_its_alarms() -> None:
    page = Checked(run()._repr_html_())
    assert {"svg", "table"} <= page.tags
    assert "What changed in m from step 0 to step 2" in page.shown
    assert any(piece.startswith("no fall beyond chance at 2 looks;") for piece in page.pieces)
    assert "in at most 5 of 100 runs" in page.shown


def test_a_run_without_a_look_says_so() -> None:
    page = Checked(run(looks=1)._repr_html_())
    assert "no look was taken after the start" in page.shown
    assert "svg" not in page.tags


@pytest.mark.parametrize("what", ["comparison", "run"])
def test_foreign_text_is_shown_and_never_becomes_markup(what: str) -> None:
    trajectory = run(EVIL)
    fragment = trajectory._repr_html_() if what == "run" else trajectory.comparisons[-1]._repr_html_()
    page = Checked(fragment)
    assert "script" not in page.tags
    assert "<script>alert(1)</script>\"'&" in page.shown
    assert "\x1b" not in fragment
    assert not any(name.startswith("on") for name in page.attributes)


def test_no_rule_reaches_beyond_the_fragment() -> None:
    fragment = run()._repr_html_()
    assert fragment.startswith('<div class="forgetwatch-fragment">')
    own, *of_figures = re.findall(r"<style>(.*?)</style>", fragment, flags=re.DOTALL)
    selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{", own) for one in rule.split(",")]
    assert selectors
    assert all(one.startswith(".forgetwatch-fragment") for one in selectors)
    for text in of_figures:  # classes of a figure have its digest
        assert all(re.fullmatch(r"\.[a-z]+-[0-9a-f]{10}-c\d+", one) for one in re.findall(r"([^{}]+)\{", text))


def test_pictures_bring_no_styles_of_their_own() -> None:
    """Matplotlib puts a rule for every element into each picture, which would reach the whole notebook."""
    fragment = run()._repr_html_()
    assert "<svg" in fragment
    assert '<style type="text/css">' not in fragment


def test_of_many_categories_some_are_shown_and_the_others_counted() -> None:
    labels = {"category": [f"c{at}" for at in range(ROWS + 5)]}
    page = Checked(compared([True] * (ROWS + 5), [True] * (ROWS + 5), **labels)._repr_html_())
    assert "and 5 more" in page.shown

"""The frozen files of `standard` and `confirmation` are reproduced by the generators, and agree with their card."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from standard_probe import measured
from standard_probe.card import with_figures
from standard_probe.make import pools, write_shipped
from standard_probe.question import alike_in_length

from forgetwatch import load_probe
from forgetwatch.probes.shipped import FILES

SHIPPED = files("forgetwatch.probes.shipped")
STANDARD, CONFIRMATION = load_probe("standard"), load_probe("confirmation")
ITEMS = [*STANDARD, *CONFIRMATION]


def test_make_reproduces_the_frozen_files_and_the_card(tmp_path: Path) -> None:
    write_shipped(tmp_path)
    for name in ("standard", "confirmation"):
        made = gzip.decompress((tmp_path / FILES[name]).read_bytes())
        assert made == gzip.decompress(SHIPPED.joinpath(FILES[name]).read_bytes()), name
    assert (tmp_path / "CARD.md").read_text("utf-8") == SHIPPED.joinpath("CARD.md").read_text("utf-8")


def test_options_are_alike_in_length_and_two_are_yes_and_no() -> None:
    for item in ITEMS:
        options = [choice.strip() for choice in item.choices]
        assert alike_in_length(options) if len(options) > 2 else sorted(options) == ["No", "Yes"], item.prompt
    two = [item for item in STANDARD if item.k == 2]
    assert len(two) <= 60
    assert {item.cluster for item in two} == {"yes or no"}
    assert {item.cluster for item in ITEMS if item.k != 2} == {None}


def test_the_card_has_the_figures_of_the_probes() -> None:
    card = SHIPPED.joinpath("CARD.md").read_text(encoding="utf-8")
    assert with_figures(card, [STANDARD, CONFIRMATION]) == card


def test_the_forms_are_disjoint_in_questions_and_facts() -> None:
    assert (len(STANDARD), len(CONFIRMATION)) == (2000, 500)
    assert len({item.content_hash for item in ITEMS}) == len({item.id for item in ITEMS}) == 2500
    uses = {one.asked: one.uses for pool in pools().values() for one in pool}
    assert max(Counter(fact for item in ITEMS for fact in uses[item.prompt]).values()) == 1


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_beginnings_are_as_hard_as_the_whole_for_a_small_model(count: int) -> None:
    rows = measured.read()
    for column in ("trained_right", "trained_log_share"):
        values = np.array([rows[item.id][column] for item in STANDARD])
        # The error of a sample of a finite number of items.
        error = values.std() / math.sqrt(count) * math.sqrt(1 - count / len(values))
        assert abs(values[:count].mean() - values.mean()) < 2 * error

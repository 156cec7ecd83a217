"""Every number in long form, for people who draw themselves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing import comparison as module
from forgetwatch.comparing.comparison import frame


def looks() -> list[Any]:
    right = ([True] * 6, [False] * 2 + [True] * 4, [False] * 3 + [True] * 3)
    return [snapshot(one, category=["Math", "Law"] * 3, meta={"step": 5 * at}) for at, one in enumerate(right)]


def test_a_comparison_and_a_run_give_a_row_for_each_group_and_quantity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    start, _, end = looks()
    found = compare(before=start, after=end).to_frame()
    assert isinstance(found, pa.Table)
    rows = {(row["level"], row["name"], row["quantity"]): row["value"] for row in found.to_pylist()}
    assert (rows["all", "all", "forgotten"], rows["category", "Math", "forgotten"]) == (3.0, 2.0)
    assert rows["all", "all", "net_change_interval_low"] < rows["all", "all", "net_change"] == -0.5
    assert ("all", "all", "known") not in rows
    run = Trajectory.of(looks()).to_frame().to_pylist()
    steps = {row["step"]: row["value"] for row in run if (row["level"], row["quantity"]) == ("all", "forgotten")}
    assert steps == {0: 0.0, 5: 2.0, 10: 3.0}


def test_pandas_is_used_where_it_is_installed() -> None:
    pandas = pytest.importorskip("pandas")
    assert isinstance(frame([{"level": "all", "value": 1.0}]), pandas.DataFrame)

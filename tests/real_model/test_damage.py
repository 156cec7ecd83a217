"""A destructive run of a real model: its counts, made twice, and what they say."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from real_model.plain import recount

from forgetwatch import Comparison, Snapshot, compare, load_snapshot
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.pairing import pair
from forgetwatch.metrics.known import Known, count_known

pytestmark = pytest.mark.full(reason="a real language model")

STEPS = 12
COMPARED = 60


@pytest.fixture
def checkpoint(ruined: Path) -> Iterator[Path]:
    """The checkpoint of the run's end, which is deleted after its only use: it has the size of the model."""
    yield (path := ruined / f"checkpoint-{STEPS}")
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def sides(ruined: Path) -> tuple[Snapshot, Snapshot]:
    """The baseline and the look at the end."""
    folder = ruined / "_forgetwatch"
    return load_snapshot(folder / "baseline.parquet"), load_snapshot(
        folder / f"step-{STEPS:06}.parquet"
    )


def test_counts_are_those_of_plain_calls_of_transformers(
    ruined: Path, folder: Path, checkpoint: Path
) -> None:
    assert checkpoint.is_dir()
    found = recount(ruined, step=STEPS, start=folder, items=COMPARED)
    assert found.unstable <= 3
    assert found.items == COMPARED - found.unstable
    assert found.difference < 1e-3
    assert found.plain["forgotten"] > 0
    assert found.plain["known_lost_by_luck"] > 0
    assert "log_score_change" in found.plain
    assert found.plain == pytest.approx(found.stated, abs=1e-4)


def test_a_destroyed_model_lost_more_than_it_gained_and_its_log_score_fell(
    sides: tuple[Snapshot, Snapshot],
) -> None:
    comparison: Comparison = compare(before=sides[0], after=sides[1])
    whole = comparison.all
    assert whole.n == 250
    assert whole.forgotten > whole.gained
    assert whole.net_change_interval[1] < 0
    assert whole["known_lost_net_interval"] is not None
    assert whole["known_lost_net_interval"][0] > 0
    assert whole["log_score_change_interval"] is not None
    assert whole["log_score_change_interval"][1] < 0


def test_keys_drawn_at_random_show_nothing_known_and_lost(sides: tuple[Snapshot, Snapshot]) -> None:
    k, rng = sides[0].ints("k"), np.random.default_rng(0)
    assert set(k.tolist()) <= {2, 3, 4, 5, 6}
    # Over 60 keys in turn every option of every item is right equally often: the net adds up to 0, not only nearly.
    turns = [known_by_keys(sides, (np.arange(len(k)) + turn) % k) for turn in range(60)]
    assert np.mean([found.known_lost for found in turns]) > 5
    assert np.mean([found.known_net for found in turns]) == pytest.approx(0, abs=1e-9)
    assert np.mean([found.lost_net for found in turns]) == pytest.approx(0, abs=1e-9)
    drawn = [known_by_keys(sides, rng.integers(0, k)) for _ in range(400)]
    net = np.array([found.lost_net for found in drawn], float)
    assert abs(net.mean()) < 4 * net.std() / np.sqrt(len(net))
    intervals = np.array([found.lost_net_interval for found in drawn], float)
    missed = (intervals[:, 0] > 0) | (intervals[:, 1] < 0)
    assert 0.005 < missed.mean() < 0.11


def known_by_keys(sides: tuple[Snapshot, Snapshot], keys: Any) -> Known:
    """Known and lost items of the run if the right options were those of `keys`, int [items]."""
    before, after = (with_keys(side, keys) for side in sides)
    found = count_known(AlignedPairs.align(before, after, pair(before, after))[0].confidence())
    assert found is not None
    return found


def with_keys(snapshot: Snapshot, keys: Any) -> Snapshot:
    """Snapshot with other right options; what followed from the old ones is computed again or empty."""
    columns = {name: snapshot.table[name] for name in snapshot.table.column_names}
    columns["gold"] = pa.array(keys, columns["gold"].type)
    columns["correct"] = pa.array(snapshot.ints("chosen") == keys)
    columns["gold_share"] = pa.nulls(len(snapshot), columns["gold_share"].type)
    return replace(snapshot, table=pa.table(columns))

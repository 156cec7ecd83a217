"""A few hundred cases of the fuzzer; `python tests/faults/fuzz.py` runs more."""

import random
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from faults.cases import CPU_LIMIT, attempt
from faults.fuzz import KINDS, State, run_case
from faults.seeds import OUTCOMES
from forgetwatch.errors import SnapshotError
from forgetwatch.readers import outcomes

CASES = 12


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_is_read_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    first = list(KINDS).index(kind)
    for number in range(first, first + CASES * len(KINDS), len(KINDS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found, outcome = run_case(20261122, number, folder)
        assert found == kind
        assert not outcome.is_finding, f"--seed 20261122 --only {number}: {outcome}"


@pytest.mark.parametrize("reader", outcomes._READERS, ids=lambda reader: reader.tool)
def test_every_reader_is_fed_by_the_fuzzer(reader: Any, tmp_path: Path) -> None:
    for number, (write, seed) in enumerate(product(OUTCOMES.values(), range(3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with suppress(SnapshotError):  # the fuzzer damages some of its files
            if reader.recognises(write(folder, random.Random(seed))):
                return
    raise AssertionError(f"no seed is of {reader.tool}")


def test_a_case_that_fails_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(error: BaseException) -> str:
        def call() -> None:
            raise error

        return attempt(call, names="log.csv").kind

    assert raises(SnapshotError("log.csv: is cut")) == "refused"
    assert raises(SnapshotError("is cut")) == "message"
    assert (
        raises(SnapshotError("log.csv: is\ncut")) == "refused"
    )  # the text of our errors is one line
    assert raises(KeyError("x")) == "unexpected"
    assert raises(MemoryError()) == "memory"
    peaks = iter((2**30, 2**32, 2**32))
    monkeypatch.setattr("faults.cases._peak", lambda: next(peaks))
    assert attempt(lambda: None, names="").kind == "memory"
    monkeypatch.undo()
    state = State(tmp_path / "s.json")
    state.add("CSV", 7, attempt(lambda: 1 / 0, names=""))
    state.save()
    assert "--only 7 (CSV): ZeroDivisionError" in State(tmp_path / "s.json").summary()


def test_a_hang_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.cases.CPU_LIMIT", 0.2)

    def hang() -> None:
        while True:
            pass

    assert attempt(hang, names="").kind == "slow"
    assert CPU_LIMIT == 5.0

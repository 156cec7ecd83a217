"""Trainings of a few items: the floor of a run is 250 items here, so that tests of it need no more than 260."""

from collections.abc import Iterator

import pytest
from short_looks import no_picture

from forgetwatch.report import html
from forgetwatch.run import questions, schedule
from forgetwatch.run import trial_run as trial


@pytest.fixture(autouse=True)
def floor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        schedule, "LOOKS_SECONDS", 0.0
    )  # or every look of a tiny training would fit
    if request.node.get_closest_marker("usual_floor") is None:
        for module in (schedule, questions, trial):
            monkeypatch.setattr(module, "FEWEST_ITEMS", 250)


@pytest.fixture(scope="module")
def without_pictures() -> Iterator[None]:
    """Leave the pictures out of the pages of trainings: they take longer than the training of a tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "svg", no_picture)
        yield

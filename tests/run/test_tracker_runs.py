"""A follower's trackers get the callback's keys on the checkpoints' steps, each look once, and nothing unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import saved_runs as runs
from accelerate import tracking

from forgetwatch.errors import WatchError
from forgetwatch.run import trackers

pytestmark = pytest.mark.usefixtures("without_pictures")


class Board:
    """A tracker in memory, with the interface of `accelerate`."""

    made: ClassVar[list[Board]] = []
    requires_logging_directory = False

    def __init__(self, project: str, **options: Any) -> None:
        self.project, self.options, self.rows, self.ended = (
            project,
            options,
            list[tuple[int | None, dict[str, Any]]](),
            0,
        )
        self.metrics: dict[str, dict[str, Any]] = {}
        Board.made.append(self)

    def start(self) -> None:
        pass

    @property
    def tracker(self) -> Any:
        return self

    def define_metric(self, name: str, **settings: Any) -> None:
        self.metrics[name] = settings

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        self.rows.append((step, values))

    def finish(self) -> None:
        self.ended += 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.base(tmp_path_factory.mktemp("base"))


def test_each_look_is_sent_once_with_the_keys_of_the_callback(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "wandb", Board)
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "dvclive", Board)
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: ["wandb", "dvclive"])
    monkeypatch.setattr(Board, "made", [])
    runs.save(tmp_path, 10)
    runs.followed(tmp_path, base, report_to=("wandb", "dvclive"), group="mine")
    wandb, other = Board.made
    assert [row["train/global_step"] for _, row in wandb.rows] == [0, 10]
    assert {step for step, _ in wandb.rows} == {None}  # its own step may not go back
    assert "eval/forget/all/forgotten" in wandb.rows[1][1]
    assert wandb.options["group"] == "mine"
    # Every curve is over the checkpoints' steps, and not over the number of calls.
    assert wandb.metrics == {
        "train/global_step": {},
        "*": {"step_metric": "train/global_step", "step_sync": True},
    }
    assert [step for step, _ in other.rows] == [0, 10]
    assert (
        other.rows[1][1]["eval_forget/all/forgotten"]
        == wandb.rows[1][1]["eval/forget/all/forgotten"]
    )
    assert (wandb.ended, other.ended) == (1, 1)
    # A follower that continues sends the new look only, to the same run of W&B.
    runs.save(tmp_path, 20)
    runs.follower(tmp_path, base, report_to=("wandb",)).follow()
    assert [row["train/global_step"] for _, row in Board.made[2].rows] == [20]
    assert Board.made[2].options["id"] == wandb.options["id"]


def test_a_snapshot_as_base_is_step_zero_and_the_file_of_another_run_counts_for_nothing(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "dvclive", Board)
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: ["dvclive"])
    monkeypatch.setattr(Board, "made", [])
    runs.save(tmp_path, 10)
    first = runs.followed(tmp_path, base, report_to=("dvclive",))
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / trackers.SENT).write_text((first.run.folder.path / trackers.SENT).read_text())
    snapshot = first.run.folder.path / "baseline.parquet"
    runs.follower(tmp_path, snapshot, run=folder, report_to=("dvclive",)).follow()
    assert [[step for step, _ in board.rows] for board in Board.made] == [[0, 10], [0, 10]]
    assert trackers._sent(first.run.folder.path / trackers.SENT, "another") == {}


def test_nothing_is_sent_unasked_and_a_tracker_that_fails_stops_nothing(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no network")

    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "wandb", Board)
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: ["wandb"])
    monkeypatch.setattr(Board, "made", [])
    monkeypatch.setattr(Board, "start", fail)
    runs.save(tmp_path, 10)
    made = runs.followed(tmp_path, base)
    assert not Board.made
    runs.save(tmp_path, 20)
    made = runs.followed(tmp_path, base, report_to=("wandb",))
    assert made.scored == [20]
    assert (
        "sending the row at step 20 failed, following continues: no network"
        in capsys.readouterr().err
    )
    folder = made.run.folder
    assert json.loads((folder.path / trackers.SENT).read_text()) == {"run": folder.run, "wandb": []}


def test_tensorboard_gets_the_rows_on_their_steps(tmp_path: Path, base: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs.save(tmp_path, 10)
    made = runs.followed(tmp_path, base, report_to=("tensorboard",))
    (path,) = made.run.folder.path.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(path)).Reload()
    found = events.Scalars("eval/forget/all/forgotten")
    assert [(event.step, event.value) for event in found] == [
        (0, 0),
        (10, made.run.comparisons[10].all.forgotten),
    ]


@pytest.mark.parametrize(("name", "near"), [("wandbb", ", did you mean 'wandb'"), ("paper", "")])
def test_an_unknown_tracker_is_refused_at_once(
    tmp_path: Path, base: Path, name: str, near: str
) -> None:
    with pytest.raises(WatchError, match=rf"--report-to {name}: needed one of aim, .*{near}"):
        runs.follower(tmp_path, base, report_to=(name,))


def test_a_tracker_that_is_not_installed_is_refused_at_once(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [])
    with pytest.raises(WatchError, match="--report-to wandb: its package is not installed"):
        runs.follower(tmp_path, base, report_to=("wandb",))


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ((), "no --report-to"),
        (("tensorboard",), "tensorboard"),
        (("wandb", "mlflow"), "wandb, mlflow"),
    ],
)
def test_a_run_is_resumed_in_one_tracker_that_can(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], got: str
) -> None:
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: list(names))
    with pytest.raises(
        WatchError,
        match=rf"--resume-run x1: needed one of mlflow, trackio, wandb as .*, got {got}$",
    ):
        runs.follower(tmp_path, base, report_to=names, resume_run="x1")

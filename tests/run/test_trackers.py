"""Rows, tables and alerts in W&B, TensorBoard, trackio and MLflow, read back by their own libraries."""

import dataclasses
import json
import os
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import saved_runs
import torch
from support import model, probe, tokenizer, trained, trainer, wait_until
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, load_snapshot, score
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.verdict import estimated
from forgetwatch.report.tracker_rows import FLIPPED, FLIPPED_TEXTS, flipped_rows

pytestmark = [  # both within MLflow
    pytest.mark.filterwarnings(
        "ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"
    ),
    pytest.mark.filterwarnings(
        "ignore:For backward compatibility, 'str' dtypes are included:DeprecationWarning"
    ),
]

STEPS = 4
LOOKS = [0, 2, 4]
SECRETS = ("zanzibar", "quibble")
"""A word of every question, and one of every answer."""
TEXTS = ("forgetwatch/verdict", "forgetwatch/alarm")
"""Names of the texts."""
CATEGORIES = {"a": "??", "b": "数学"}
"""Names whose keys differ, and become equal where letters of other scripts are underscores."""


@dataclass
class Read:
    """Content of a tracker.

    Attributes:
        rows: Step, name and value of each number.
        tables: Tables of flipped items: the names of the columns, and the rows as text.
        table_steps: Their steps, where the tracker has them.
        alerts: Texts of the alerts.
        texts: The last text of each name.
        runs: How many runs there are.
    """

    rows: list[tuple[int, str, float]] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    table_steps: set[int] = field(default_factory=set)
    alerts: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    runs: int = 0

    def of(self, name: str) -> list[tuple[int, float]]:
        """Steps and values of one number, in the order in which they were logged."""
        return [(step, value) for step, key, value in self.rows if key == name]


def cells(columns: Any, rows: Any) -> list[list[str]]:
    return [list(columns), *([str(cell) for cell in row] for row in rows)]


class WandB:
    """Offline: one file of records a run, in blocks as LevelDB writes its log."""

    looks, losses, alerts = "eval/forget/all/forgotten", "train/loss", True

    def prepare(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("wandb")
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_DIR", str(folder))
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("WANDB_ERROR_REPORTING", "false")

    def end(self) -> None:
        import wandb

        wandb.finish()
        # Or the next run of this process would be written into the folder of this one.
        wandb.teardown()
        # Its service goes on writing when `finish` has come back, and may not have made the file yet; the last record
        # is that of the exit.
        wait_until(self.has_whole, "the last record of the run in its file")

    def has_whole(self) -> bool:
        paths = list(Path(os.environ["WANDB_DIR"]).glob("wandb/offline-run-*/*.wandb"))
        return bool(paths) and self.is_whole(max(paths, key=lambda path: path.stat().st_mtime))

    def is_whole(self, path: Path) -> bool:
        from google.protobuf.message import DecodeError

        try:
            return any(record.WhichOneof("record_type") == "exit" for record in self.records(path))
        except (struct.error, DecodeError):  # the record that is being written
            return False

    def read(self, folder: Path) -> Read:
        read = Read()
        for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
            read.runs += 1
            for record in self.records(path):
                if record.WhichOneof("record_type") == "alert":
                    read.alerts.append(record.alert.text)
                if record.WhichOneof("record_type") == "summary":
                    values = {
                        "/".join(item.nested_key) or item.key: item.value_json
                        for item in record.summary.update
                    }
                    read.texts |= {
                        name: json.loads(value) for name, value in values.items() if name in TEXTS
                    }
                if record.WhichOneof("record_type") == "history":
                    row = {
                        "/".join(item.nested_key) or item.key: item.value_json
                        for item in record.history.item
                    }
                    values = {name: json.loads(value) for name, value in row.items()}
                    step = values["train/global_step"]
                    read.rows += [
                        (step, name, v) for name, v in values.items() if isinstance(v, (int, float))
                    ]
        for path in sorted(
            folder.glob("wandb/offline-run-*/files/media/table/forgetwatch/flipped*.json")
        ):
            table = json.loads(path.read_text())
            read.tables.append(cells(table["columns"], table["data"]))
        return read

    @staticmethod
    def records(path: Path) -> Iterator[Any]:
        from wandb.proto.wandb_internal_pb2 import Record

        data, at, part, block = path.read_bytes(), 7, b"", 2**15
        while at < len(data):
            if block - at % block < 7:
                at += block - at % block
                continue
            _, length, kind = struct.unpack("<IHB", data[at : at + 7])
            part += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):  # whole, or the last part
                yield Record.FromString(part)
                part = b""


class TensorBoard:
    looks, losses, alerts = "eval/forget/all/forgotten", "train/loss", False

    def prepare(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("tensorboard")

    def end(self) -> None:
        """Its file is closed with the run."""

    def read(self, folder: Path) -> Read:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        files = sorted(folder.rglob("events.out.tfevents.*"))
        read = Read(runs=len(files))
        for path in files:
            events = EventAccumulator(
                str(path), size_guidance={"scalars": 0, "tensors": 0}
            ).Reload()
            for name in events.Tags()["scalars"]:
                read.rows += [(event.step, name, event.value) for event in events.Scalars(name)]
            for name in [
                name for name in TEXTS if f"{name}/text_summary" in events.Tags()["tensors"]
            ]:
                read.texts[name] = (
                    events.Tensors(f"{name}/text_summary")[-1].tensor_proto.string_val[0].decode()
                )
            for event in events.Tensors("forgetwatch/flipped/text_summary"):
                read.table_steps.add(event.step)
                header, _, *rows = event.tensor_proto.string_val[0].decode().splitlines()
                read.tables.append(cells(header.split(" | "), (row.split(" | ") for row in rows)))
        return read


class Trackio:
    looks, losses, alerts = "eval/forget/all/forgotten", "train/loss", True

    def prepare(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("TRACKIO_DIR", str(folder / "trackio"))
        for name in [name for name in sys.modules if name.split(".")[0] == "trackio"]:
            patch.delitem(
                sys.modules, name
            )  # it reads its folder when it is imported, and TRL imports it
        trackio = pytest.importorskip("trackio")
        assert folder / "trackio" == trackio.utils.TRACKIO_DIR

    def end(self) -> None:
        """The trainer ends the run."""

    def read(self, folder: Path) -> Read:
        from trackio.sqlite_storage import SQLiteStorage

        read = Read(alerts=[alert["text"] for alert in SQLiteStorage.get_alerts("huggingface")])
        for run in SQLiteStorage.get_run_records("huggingface"):
            read.runs += 1
            for row in SQLiteStorage.get_logs("huggingface", run["name"]):
                step, table = row["train/global_step"], row.get("forgetwatch/flipped")
                read.rows += [
                    (step, name, v) for name, v in row.items() if isinstance(v, (int, float))
                ]
                if table is not None:
                    read.table_steps.add(step)
                    shown = table["_value"]
                    read.tables.append(
                        cells(shown[0] if shown else (), (each.values() for each in shown))
                    )
        return read


class MLflow:
    looks, losses, alerts = "eval_forget/all/forgotten", "loss", False

    def prepare(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        pytest.importorskip("mlflow")
        pytest.importorskip("alembic")  # its database
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")

    def end(self) -> None:
        """The trainer ends the run."""

    def read(self, folder: Path) -> Read:
        from mlflow import MlflowClient

        client, read = MlflowClient(f"sqlite:///{folder}/mlflow.db"), Read()
        for run in client.search_runs(["0"]):
            read.runs += 1
            read.texts |= {name: text for name, text in run.data.tags.items() if name in TEXTS}
            for name in run.data.metrics:
                history = client.get_metric_history(run.info.run_id, name)
                read.rows += [(metric.step, name, metric.value) for metric in history]
        for path in sorted(folder.glob("mlruns/**/forgetwatch/flipped.json")):
            table = json.loads(path.read_text())
            read.tables.append(cells(table["columns"], table["data"]))
        return read


TRACKERS = {
    "wandb": WandB(),
    "tensorboard": TensorBoard(),
    "trackio": Trackio(),
    "mlflow": MLflow(),
}


class Ruin(TrainerCallback):
    """Throws the weights away after the first step."""

    def on_step_end(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        if state.global_step == 1:
            with torch.no_grad():
                for weight in model.parameters():
                    weight.copy_(torch.randn_like(weight))


def known() -> Probe:
    """Items that the untrained model gets right and must not lose, with a word in each text to look for."""
    tok, (asked, answer) = tokenizer(), SECRETS
    items = [
        dataclasses.replace(
            item,
            prompt=item.prompt.replace("Q :", f"Q : {asked} :"),
            choices=[f"{choice} {answer}" for choice in item.choices],
            category=CATEGORIES[item.category],
            must_pass=True,
        )
        for item in probe()
    ]
    chosen = score(model(tok), tok, Probe(items, name="draft")).ints("chosen")
    return Probe(
        [dataclasses.replace(item, answer=int(c)) for item, c in zip(items, chosen, strict=True)],
        name="own",
    )


@dataclass
class Tracked:
    """A run that was tracked, and one after it that shares its texts."""

    tracker: Any
    run: Any
    read: Read
    flipped: list[list[str]]
    told: set[str]
    shared: Read
    shared_told: set[str]


def words_in(folder: Path) -> set[str]:
    """Those of the items' words that stand in any file, other than those of the run folder itself."""
    files = [
        path for path in folder.rglob("*") if path.is_file() and "_forgetwatch" not in path.parts
    ]
    return {word for word in SECRETS for path in files if word.encode() in path.read_bytes()}


@pytest.fixture(scope="module", params=TRACKERS)
def tracked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tracked]:
    folder, tracker = tmp_path_factory.mktemp(request.param), TRACKERS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tracker.prepare(folder, patch)

        def train(name: str, **options: Any) -> Any:
            callback = ForgetWatchCallback(
                known(), every=2, max_overhead=None, strict=True, **options
            )
            run = trained(
                folder / name,
                callbacks=[callback, Ruin()],
                steps=STEPS,
                logging_steps=1,
                report_to=[request.param],
            )
            tracker.end()
            return run

        run = train("plain")
        read, told = tracker.read(folder), words_in(folder)
        files = folder / "plain" / "_forgetwatch"
        before, after = (
            load_snapshot(files / f"{name}.parquet") for name in ("baseline", f"step-{STEPS:06d}")
        )
        flipped = cells(*flipped_rows(flips(before, after), texts=False))
        train("shared", share_text=True)
        yield Tracked(tracker, run, read, flipped, told, tracker.read(folder), words_in(folder))


@pytest.mark.full("mlflow", "trackio", reason="further trackers")
def test_every_look_arrives_once_at_its_step(tracked: Tracked) -> None:
    logged = {
        row["step"]: row["eval_forget/all/forgotten"]
        for row in tracked.run.state.log_history
        if "eval_forget/all/forgotten" in row
    }
    assert sorted(logged) == LOOKS
    assert logged[STEPS] > 0
    assert sorted(tracked.read.of(tracked.tracker.looks)) == sorted(logged.items())


@pytest.mark.full("mlflow", reason="further trackers")
@pytest.mark.parametrize("key", ["__", "数学"])
def test_the_numbers_of_a_category_arrive_under_its_name_in_any_script(
    tracked: Tracked, key: str
) -> None:
    name = f"eval_forget/{key}/forgotten"
    logged = {row["step"]: row[name] for row in tracked.run.state.log_history if name in row}
    assert sorted(logged) == LOOKS
    assert dict(tracked.read.of(tracked.tracker.looks.replace("/all/", f"/{key}/"))) == logged


def test_the_rows_of_the_trainer_are_all_there_in_one_run(tracked: Tracked) -> None:
    logged = [(row["step"], row["loss"]) for row in tracked.run.state.log_history if "loss" in row]
    assert len(logged) == STEPS
    read = sorted(tracked.read.of(tracked.tracker.losses))
    assert [step for step, _ in read] == [step for step, _ in logged]
    assert [loss for _, loss in read] == pytest.approx([loss for _, loss in logged])
    assert tracked.read.runs == 1


def test_the_flipped_items_arrive_by_id(tracked: Tracked) -> None:
    assert len(tracked.flipped) > 1
    assert tracked.read.tables == [tracked.flipped]
    assert tracked.read.table_steps <= {STEPS}
    assert tracked.flipped[0] == list(FLIPPED)


def test_no_text_of_an_item_arrives_unless_it_is_shared(tracked: Tracked) -> None:
    assert tracked.told == set()
    assert tracked.shared_told == set(SECRETS)
    (shared,) = (table for table in tracked.shared.tables if table[0] == [*FLIPPED, *FLIPPED_TEXTS])
    texts = {item.id: item.prompt for item in known()}
    assert len(shared) > 1
    assert all(row[len(FLIPPED)] == texts[row[1]] for row in shared[1:])


def test_a_look_alerts_at_most_once_and_no_finding_twice(tracked: Tracked) -> None:
    if not tracked.tracker.alerts:
        pytest.skip("the tracker has no alerts")
    assert 0 < len(tracked.read.alerts) < len(LOOKS)
    lost = sum(row[0] == "forgotten" for row in tracked.flipped[1:])
    for once in (
        f" and {lost - 4} more, which must pass, were right and are wrong at step 2",
        "ALARM: all",
    ):
        assert sum(once in text for text in tracked.read.alerts) == 1


def test_the_verdict_and_the_last_alarm_arrive_as_texts(tracked: Tracked) -> None:
    if isinstance(tracked.tracker, Trackio):
        pytest.skip("the tracker has no texts")
    verdict, alarm = (tracked.read.texts[name] for name in TEXTS)
    assert re.match(
        "(FORGOT: accuracy fell by|NOT CLEAR: accuracy may have fallen up to) .* points ",
        verdict,
    )
    assert re.match(
        r"ALARM: all -.* points \(step 2\).*\nguard: all accuracy -.* points .*: beyond the limit at step 2",
        alarm,
    )


@pytest.mark.full(reason="further trackers")
@pytest.mark.parametrize("name", TRACKERS)
def test_at_learning_rate_zero_every_curve_is_flat_although_the_budget_cuts_the_probe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tracker = TRACKERS[name]
    tracker.prepare(tmp_path, monkeypatch)
    watch = ForgetWatchCallback(probe(400), max_overhead=1e-6, strict=True)
    trained(
        tmp_path, callbacks=[watch], steps=30, learning_rate=0.0, logging_steps=10, report_to=[name]
    )
    tracker.end()
    read = tracker.read(tmp_path)
    curves: dict[str, list[tuple[int, float]]] = {}
    for step, key, value in read.rows:
        if key.startswith(("eval/forget/", "eval_forget/")) and not key.endswith("/new_task_loss"):
            curves.setdefault(key, []).append((step, value))
    names = {key.partition("forget/")[2] for key in curves}
    looks = list(Trajectory.from_run(tmp_path).steps)
    assert len(looks) > 2
    assert names == {
        *(f"all/{name}" for name in ("accuracy", "forgotten", "gained", "known_lost_net", "kept")),
        *(f"all/net_change_points{end}" for end in ("", "_low", "_high")),
        *(f"{category}/{name}" for category in "ab" for name in ("forgotten", "net_change_points")),
    }
    for key, points in curves.items():
        # As logged: the point at step 0 comes first, although it is sent after step 10.
        assert [step for step, _ in points] == looks, key
        # Looks of fewer items have other batches: scores differ in the last bits, and counts do not.
        assert [value for _, value in points] == pytest.approx(
            [points[0][1]] * len(looks), abs=1e-9
        ), key
    first = {
        key.rpartition("/")[2]: points[0][1] for key, points in curves.items() if "/all/" in key
    }
    whole = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet").floats("correct")
    assert len(whole) == 250  # nothing is measured and then thrown away
    assert first["accuracy"] == pytest.approx(whole.mean())
    losses = read.of(tracker.losses)
    assert [step for step, _ in losses] == [10, 20, 30]
    # The figure of the new task is that of the look's own step, also where the trainer logs it after the look.
    figures = dict(read.of(tracker.looks.replace("all/forgotten", "new_task_loss")))
    assert {step: figures[step] for step, _ in losses if step in looks} == {
        step: value for step, value in losses if step in looks
    }


def test_the_configuration_names_what_is_asked_and_one_chart_has_loss_and_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = WandB()
    board.prepare(tmp_path, monkeypatch)
    items = probe(60)
    trained(
        tmp_path / "run",
        callbacks=[ForgetWatchCallback(items, every=2)],
        steps=6,
        report_to=["wandb"],
        logging_steps=1,
    )
    board.end()
    configs, charts, summary = dict[str, Any](), list[str](), dict[str, Any]()
    for path in tmp_path.glob("wandb/offline-run-*/*.wandb"):
        for record in board.records(path):
            for one in record.config.update if record.WhichOneof("record_type") == "config" else ():
                configs["/".join(one.nested_key) or one.key] = json.loads(one.value_json)
            for one in record.history.item if record.WhichOneof("record_type") == "history" else ():
                charts.append("/".join(one.nested_key) or one.key)
            for one in (
                record.summary.update if record.WhichOneof("record_type") == "summary" else ()
            ):
                summary["/".join(one.nested_key) or one.key] = json.loads(one.value_json)
    about = configs["forgetwatch"]
    assert (about["name"], about["fingerprint"], about["items"]) == ("toy", items.fingerprint, 60)
    assert about["version"]
    assert charts.count("forgetwatch/loss_and_gain_table/_type") == 1  # once, at the end
    changes = [
        100 * estimated(one.all)[0] for one in Trajectory.from_run(tmp_path / "run").comparisons
    ]
    assert summary["forgetwatch/worst_net_change_points"] == pytest.approx(min(changes))


@pytest.mark.filterwarnings("ignore:`resume` will be ignored:UserWarning")
def test_a_follower_is_in_the_group_of_the_training_or_continues_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read back from the files of W&B: groups, ids, and the step that each curve is drawn over."""
    board = WandB()
    board.prepare(tmp_path, monkeypatch)
    monkeypatch.setenv("WANDB_RUN_GROUP", "mine")
    base, out = saved_runs.base(tmp_path / "base"), tmp_path / "out"
    trainer(out, steps=4, report_to=["wandb"], save_strategy="steps", save_steps=2).train()
    board.end()
    monkeypatch.delenv("WANDB_RUN_GROUP")
    (training,) = runs_of(tmp_path)
    saved_runs.followed(out, base, report_to=("wandb",), group="mine")
    board.end()
    saved_runs.followed(
        out, base, run=tmp_path / "again", report_to=("wandb",), resume_run=training
    )
    board.end()
    found = runs_of(tmp_path)
    (own,) = found.keys() - {training}
    assert own.startswith("follow-")
    assert [groups for groups, _ in (found[training], found[own])] == [["mine", ""], ["mine"]]
    for _, metrics in found.values():
        assert metrics["*"] == "train/global_step"
    assert [step for step, _ in board.read(tmp_path).of("eval/forget/all/forgotten")] == [
        0,
        2,
        4,
        0,
        2,
        4,
    ]


def runs_of(folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the groups under which each run was begun, and the step metric of each metric, by the id of the run."""
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        records = list(WandB.records(path))
        (run,) = {
            record.run.run_id: record.run
            for record in records
            if record.WhichOneof("record_type") == "run"
        }.values()
        groups, metrics = found.setdefault(run.run_id, ([], {}))
        groups.append(run.run_group)
        for record in records:
            if record.WhichOneof("record_type") == "metric":
                metrics[record.metric.glob_name or record.metric.name] = record.metric.step_metric
    return found

"""Trainings one after another: each counts against the base of the first, and against its own start."""

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from saved_runs import LORA, curve, described, examples, length, weights
from support import model, probe, tokenizer, trained
from transformers import AutoModelForCausalLM

from forgetwatch import ForgetWatchCallback, Guard, Item, Probe, Snapshot, Trajectory, load_snapshot
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.trajectory import this_stage
from forgetwatch.errors import MismatchError, SnapshotError, WatchError
from forgetwatch.run import schedule
from forgetwatch.run.state import LookPlan
from forgetwatch.run_folder.lineage import lineage_after

pytestmark = pytest.mark.usefixtures("without_pictures")

RATE = 5e-3
SAVES: dict[str, Any] = {"save_strategy": "steps", "save_steps": 4}
FOUND = "baseline of the first base found: counting against both"
LAST: dict[int, Path] = {}
MODELS: list[Any] = []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stage(
    folder: Path, network: Any, *, items: Probe | None = None, rate: float = RATE, **options: Any
) -> Any:
    """Train a model for eight steps with a look at each fourth, and return the trainer.

    A model that was trained here before is the next stage of that training, by its name.
    """
    named = {
        name: options.pop(name) for name in ("lineage", "baseline", "guard") if name in options
    }
    if "baseline" not in named and not options.get("resume"):
        named.setdefault("lineage", LAST.get(id(network)))
    callback = ForgetWatchCallback(items or probe(60), every=4, max_overhead=None, **named)
    made = trained(
        folder,
        callbacks=[callback],
        network=network,
        steps=8,
        learning_rate=rate,
        **SAVES,
        **options,
    )
    LAST[id(network)] = folder
    MODELS.append(network)  # no other model gets its id
    return made


def again(folder: Path) -> Any:
    """The model that a training ended with, loaded from its checkpoint."""
    return AutoModelForCausalLM.from_pretrained(folder / "checkpoint-8", dtype=torch.float32)


def rows(made: Any) -> list[dict[str, float]]:
    return [row for row in made.state.log_history if "eval_forget/all/forgotten" in row]


def flips(before: Snapshot, after: Snapshot) -> tuple[int, int]:
    """Forgotten and gained, counted from the rows of two snapshots by question."""
    was = dict(zip(before.texts("content_hash"), before.floats("correct"), strict=True))
    now = dict(zip(after.texts("content_hash"), after.floats("correct"), strict=True))
    both = was.keys() & now.keys()
    lost = sum(was[one] == 1 and now[one] == 0 for one in both)
    return lost, sum(was[one] == 0 and now[one] == 1 for one in both)


def snapshot_of(folder: Path, name: str) -> Snapshot:
    return load_snapshot(folder / "_forgetwatch" / f"{name}.parquet")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Folder of three trainings of one model in one process, without an option, and what they printed."""
    folder, network = tmp_path_factory.mktemp("stages"), model(tokenizer())
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        for number in range(3):
            stage(folder / f"task{number}", network, seed=number)
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture
def stages(printed: tuple[Path, str, str], tmp_path: Path) -> list[Path]:
    """A copy of these trainings."""
    shutil.copytree(printed[0], tmp_path, dirs_exist_ok=True)
    return [tmp_path / f"task{number}" for number in range(3)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Folder of two trainings of one model, a and b; its weights between them, and the second trainer."""
    folder, network = tmp_path_factory.mktemp("two"), model(tokenizer())
    stage(folder / "a", network)
    between = deepcopy(network.state_dict())
    return folder, between, stage(folder / "b", network)


@pytest.fixture
def network(two: tuple[Path, Any, Any], tmp_path: Path) -> Any:
    """The model after the first training, whose folder is a copy in `tmp_path`."""
    shutil.copytree(two[0] / "a", tmp_path / "a")
    made = model(tokenizer())
    made.load_state_dict(two[1])
    LAST[id(made)] = tmp_path / "a"
    MODELS.append(made)
    return made


@pytest.fixture
def second(two: tuple[Path, Any, Any], network: Any, tmp_path: Path) -> Any:
    """The trainer of the second training, whose folder is a copy in `tmp_path`, too."""
    shutil.copytree(two[0] / "b", tmp_path / "b")
    return two[2]


def test_a_later_stage_counts_against_the_first_base_and_against_its_start(
    stages: list[Path], printed: tuple[Path, str, str]
) -> None:
    _, out, err = printed
    assert f"stage 2 of this model, after task0 (by the name given); {FOUND}" in err
    assert f"stage 3 of this model, after task0 and task1 (by the name given); {FOUND}" in err
    base = snapshot_of(stages[0], "baseline")
    for number, folder in enumerate(stages):
        start, end = snapshot_of(folder, "baseline"), snapshot_of(folder, "step-000008")
        run = Trajectory.from_run(folder)
        last = run.comparisons[-1].all
        assert (last.forgotten, last.gained) == flips(base, end)
        own = this_stage(run).comparisons[-1].all
        assert (own.forgotten, own.gained) == flips(start, end)
        assert run.number == number + 1
        assert run.steps == ((0, 4, 8) if number == 0 else (-1, 0, 4, 8))
    assert flips(base, end) != flips(start, end)  # or nothing is shown by it
    assert "task2, stage 3, step 8: " in " ".join(out.split())
    lost, won = flips(start, end)
    assert f"this stage {lost} of 60 lost since its start, {won} gained: " in out


def test_trackers_get_both_and_the_keys_say_which(tmp_path: Path, second: Any) -> None:
    base, start = snapshot_of(tmp_path / "a", "baseline"), snapshot_of(tmp_path / "b", "baseline")
    for row, name in zip(rows(second), ("baseline", "step-000004", "step-000008"), strict=True):
        end = snapshot_of(tmp_path / "b", name)
        assert (row["eval_forget/all/forgotten"], row["eval_forget/all/gained"]) == flips(base, end)
        assert (
            row["eval_forget_stage/all/forgotten"],
            row["eval_forget_stage/all/gained"],
        ) == flips(start, end)


def test_the_training_is_left_as_it_is(tmp_path: Path) -> None:
    network, other = model(tokenizer()), model(tokenizer())
    for number in range(2):
        watched = stage(tmp_path / f"watched{number}", network, seed=number)
        plain = trained(
            tmp_path / f"plain{number}",
            network=other,
            steps=8,
            learning_rate=RATE,
            seed=number,
            **SAVES,
        )
        assert weights(watched) == weights(plain)


def test_nothing_is_lost_and_no_stage_is_found_at_a_rate_of_zero(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = model(tokenizer())
    for number in range(3):
        made = stage(tmp_path / f"{number}", network, rate=0.0)
        network = again(tmp_path / f"{number}")
        assert all(
            row["eval_forget/all/forgotten"] == row["eval_forget/all/gained"] == 0
            for row in rows(made)
        )
    assert "of this model" not in capfd.readouterr().err


def test_a_checkpoint_shows_its_lineage_by_its_copy_in_another_place(
    stages: list[Path], tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As on another machine: without the cache, and without the run folder."""
    shutil.rmtree(cache, ignore_errors=True)
    moved = tmp_path / "elsewhere" / "checkpoint-8"
    shutil.copytree(stages[1] / "checkpoint-8", moved)
    capfd.readouterr()
    network = AutoModelForCausalLM.from_pretrained(moved, dtype=torch.bfloat16).to(torch.float32)
    stage(tmp_path / "last", network)
    assert (
        "stage 3 of this model, after task0 and elsewhere (by the folder of the model)"
        in capfd.readouterr().err
    )
    assert (
        snapshot_of(tmp_path / "last", "first").checksum
        == snapshot_of(stages[0], "baseline").checksum
    )


def test_a_lineage_is_named_after_a_change_of_the_weights(
    stages: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = model(tokenizer(), seed=7)
    capfd.readouterr()
    stage(tmp_path / "last", network, lineage=stages[1])
    assert (
        f"stage 3 of this model, after task0 and task1 (by the name given); {FOUND}"
        in capfd.readouterr().err
    )
    base, end = snapshot_of(stages[0], "baseline"), snapshot_of(tmp_path / "last", "step-000008")
    last = Trajectory.from_run(tmp_path / "last").comparisons[-1].all
    assert (last.forgotten, last.gained) == flips(base, end)


def test_it_can_be_turned_off(
    tmp_path: Path, network: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    second = stage(tmp_path / "b", network, lineage=False)
    assert "of this model" not in capfd.readouterr().err
    assert not any(key.startswith("eval_forget_stage") for row in rows(second) for key in row)


def test_a_resumed_stage_keeps_its_lineage_and_is_one_of_the_next(
    tmp_path: Path, second: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Trajectory.from_run(tmp_path / "b")
    for lost in ("_forgetwatch", "checkpoint-8"):  # the copy in the checkpoint is all that is left
        shutil.rmtree(tmp_path / "b" / lost)
    capfd.readouterr()
    again = stage(tmp_path / "b", model(tokenizer()), resume=True)
    same = Trajectory.from_run(tmp_path / "b")
    assert weights(again) == weights(second)
    assert same.number == run.number == 2
    assert [one.all.forgotten for one in same.comparisons] == [
        one.all.forgotten for one in run.comparisons
    ]
    assert curve(again)[8] == curve(second)[8]
    stage(tmp_path / "c", again.model)
    assert "stage 3 of this model, after a and b" in capfd.readouterr().err


def test_the_guard_acts_on_the_losses_of_this_stage_alone(
    tmp_path: Path, network: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The base of the first training is made to know everything, and the second one changes nothing."""

    def knowing(folder: Path, **options: Any) -> Any:
        found = lineage_after(folder, **options)
        assert found is not None
        assert found.first is not None
        column = found.first.table.column_names.index("correct")
        table = found.first.table.set_column(column, "correct", pa.array([True] * len(found.first)))
        return replace(found, first=replace(found.first, table=table))

    monkeypatch.setattr("forgetwatch.run.model_lineage.lineage_after", knowing)
    capfd.readouterr()
    second = stage(tmp_path / "b", network, rate=0.0, guard=Guard("stop", no_worse_than="1%"))
    assert second.state.global_step == 8  # it was not stopped
    run = Trajectory.from_run(tmp_path / "b")
    assert run.comparisons[-1].all.forgotten > 20
    assert run.alarms() == ()
    assert "guard" not in capfd.readouterr().err.replace(
        "the alarms and the guard are about this stage", ""
    )


def with_other_probe(count: int) -> Probe:
    more = [
        Item(
            id=f"new{n}",
            task="new",
            category="c",
            prompt=f"Q : w{n} w1 Answer :",
            choices=[" w3", " w4"],
            answer=0,
        )
        for n in range(count)
    ]
    return Probe([*probe(60), *more], name="toy and more")


def test_a_probe_with_more_questions_counts_those_that_the_base_has(
    tmp_path: Path, network: Any
) -> None:
    stage(tmp_path / "b", network, items=with_other_probe(10))
    run = Trajectory.from_run(tmp_path / "b")
    assert (run.comparisons[-1].all.n, this_stage(run).comparisons[-1].all.n) == (60, 70)
    base, end = snapshot_of(tmp_path / "a", "baseline"), snapshot_of(tmp_path / "b", "step-000008")
    last = run.comparisons[-1].all
    assert (last.forgotten, last.gained) == flips(base, end)
    assert "60 of 70 questions were measured on the first base" in run.comparisons[-1].notes
    line = read_stages([tmp_path / "a", tmp_path / "b"])
    assert line.comparisons[-1].all.n == 60


@pytest.mark.parametrize("named", [False, True])
def test_the_report_of_stages_is_the_same_with_and_without_a_named_baseline(
    stages: list[Path], tmp_path: Path, network: Any, *, named: bool
) -> None:
    folders = [tmp_path / name for name in "abc"] if named else stages
    for number, folder in enumerate(folders[1:] if named else ()):
        stage(
            folder,
            network,
            seed=number,
            baseline=tmp_path / "a" / "_forgetwatch" / "baseline.parquet",
        )
    line = read_stages(folders)
    assert line.steps == (0, 4, 8, 12, 16, 20, 24)
    base, last = snapshot_of(folders[0], "baseline"), snapshot_of(folders[2], "step-000008")
    assert (line.comparisons[-1].all.forgotten, line.comparisons[-1].all.gained) == flips(
        base, last
    )
    assert line.matrix is not None
    ends = [snapshot_of(folder, "step-000008") for folder in folders]
    for row, before, after in zip(line.matrix.rows, [base, *ends], ends, strict=False):
        since, previous = row.since_first.all, row.since_previous.all
        assert (since.forgotten, since.gained) == flips(base, after)
        assert (previous.forgotten, previous.gained) == flips(before, after)
    assert not any("began with a model" in note for note in line.comparisons[-1].notes)


def test_stages_that_do_not_belong_together_are_refused_in_one_sentence(
    stages: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one, two, three = stages
    with pytest.raises(
        MismatchError,
        match=r"continues the model of .*task1.*; give the stages in the order of the",
    ):
        read_stages([three, two])
    with pytest.raises(MismatchError, match="are the same run; give each stage once"):
        read_stages([one, two, two])
    assert any(
        "task1 came between" in note for note in read_stages([one, three]).comparisons[-1].notes
    )
    stage(tmp_path / "other", model(tokenizer(), seed=3))
    with pytest.raises(
        MismatchError, match=r"continues the model of task0, and not that of .*other"
    ):
        read_stages([tmp_path / "other", two])
    (two / "_forgetwatch" / "baseline.parquet").write_bytes(b"PAR1")
    with pytest.raises(SnapshotError, match=r"baseline\.parquet"):
        read_stages([one, two])


def test_a_named_lineage_that_does_not_fit_is_an_error_and_a_found_one_is_left_out(
    tmp_path: Path, network: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    tok = tokenizer()
    tok.add_tokens(["another"])
    with pytest.raises(WatchError, match="unlike tokenizers; name the right one"):
        stage(tmp_path / "b", model(tok), tok=tok, lineage=tmp_path / "a")
    with pytest.raises(
        WatchError, match="needed the output_dir of an earlier training that was watched"
    ):
        stage(tmp_path / "c", network, lineage=tmp_path / "nothing")
    with pytest.raises(WatchError, match=r"baseline=\.\.\. or lineage=\.\.\., not both"):
        ForgetWatchCallback(probe(60), lineage=tmp_path / "a", baseline="base")
    with pytest.raises(WatchError, match="needed a folder, None or False"):
        ForgetWatchCallback(probe(60), lineage=True)  # type: ignore[arg-type]
    with pytest.raises(
        MismatchError, match="the first base was measured with norm 'sum', this is 'bytes'"
    ):
        stage(tmp_path / "n", network, items=probe(60, norm="bytes"), lineage=tmp_path / "a")
    questions = Probe(
        [Item(id="x", task="t", prompt="Q : w1", choices=[" w2", " w3"], answer=0)], name="other"
    )
    with pytest.raises(
        MismatchError, match="the first base was measured on other questions than those of other"
    ):
        stage(tmp_path / "d", network, items=questions, lineage=tmp_path / "a")
    capfd.readouterr()
    stage(tmp_path / "e", again(tmp_path / "a"), items=questions)
    assert (
        "an earlier training of this model is not counted: the first base was measured"
        in capfd.readouterr().err
    )


def test_a_first_base_that_is_damaged_is_noted_and_the_stage_is_counted(stages: list[Path]) -> None:
    folder = stages[2] / "_forgetwatch"
    (folder / "first.parquet").write_bytes(b"PAR1")
    run = Trajectory.from_run(folder)
    assert run.stage is None
    assert any(
        "first.parquet, the baseline of the first training, is missing or damaged" in note
        for note in run.notes
    )
    described = json.loads((folder / "run.json").read_text())
    assert [one["name"] for one in described["lineage"]["runs"]] == ["task0", "task1"]


def by(
    method: str,
    folder: Path,
    network: Any,
    *,
    adapter: dict[str, Any] | None = None,
    rate: float = 1e-2,
    **named: Any,
) -> Any:
    """Train a model, or the one in a folder, for four steps by a trainer of TRL, and return the trainer.

    `adapter` makes it a LoRA, with these further options.
    """
    import trl
    from peft import LoraConfig

    kind = {"SFT": "chat", "DPO": "pair", "GRPO": "prompt"}[method]
    settings: dict[str, Any] = {
        "max_steps": 4,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
    }
    settings |= {
        "report_to": "none",
        "disable_tqdm": True,
        "learning_rate": rate,
        "save_strategy": "no",
    }
    settings |= {"model_init_kwargs": {"dtype": "float32"}} if isinstance(network, str) else {}
    further: dict[str, Any] = {}
    if method == "GRPO":
        settings |= {"num_generations": 2, "max_completion_length": 8}
        further = {"reward_funcs": length}
    made = getattr(trl, f"{method}Trainer")(
        model=network,
        args=getattr(trl, f"{method}Config")(output_dir=str(folder), **settings),
        train_dataset=examples(kind),
        processing_class=tokenizer(),
        callbacks=[ForgetWatchCallback(probe(60), every=2, max_overhead=None, **named)],
        peft_config=None if adapter is None else LoraConfig(**LORA, **adapter),
        **further,
    )
    made.train()
    return made


def check_stages(folders: list[Path], *, last: str = "step-000004") -> None:
    base = snapshot_of(folders[0], "baseline")
    for number, folder in enumerate(folders):
        run = Trajectory.from_run(folder)
        assert run.number == number + 1
        group = run.comparisons[-1].all
        assert (group.forgotten, group.gained) == flips(base, snapshot_of(folder, last))
    line = read_stages(folders)
    whole = line.comparisons[-1].all
    assert (whole.forgotten, whole.gained) == flips(base, snapshot_of(folders[-1], last))


@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
def test_sft_then_dpo_then_grpo_are_three_stages(tmp_path: Path) -> None:
    folders, saved = [tmp_path / name for name in ("sft", "dpo", "grpo")], str(tmp_path / "start")
    model(tokenizer()).save_pretrained(saved)
    for method, folder in zip(("SFT", "DPO", "GRPO"), folders, strict=True):
        by(method, folder, saved).save_model()  # into its output_dir, beside the run folder
        saved = str(folder)
    check_stages(folders)


@pytest.mark.full("False", reason="further stages")
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
@pytest.mark.filterwarnings("ignore:.*peft:UserWarning")
@pytest.mark.parametrize("merges", [False, True])
def test_adapters_are_stages_merged_and_unmerged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, merges: bool
) -> None:
    network, folders = model(tokenizer()), [tmp_path / name for name in ("a", "b", "c")]
    for number, folder in enumerate(folders):
        named = {"lineage": folders[number - 1]} if number else {}
        made = by("SFT", folder, network, adapter={} if merges or number == 0 else None, **named)
        network = made.model.merge_and_unload() if merges else made.model
    check_stages(folders)
    assert "stage 3 of this model, after a and b (by the name given)" in capfd.readouterr().err


def test_a_loaded_adapter_that_started_at_random_is_that_of_the_stage_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from peft import PeftModel

    network = model(tokenizer())
    first = by(
        "SFT", tmp_path / "a", deepcopy(network), adapter={"init_lora_weights": False}, rate=5e-2
    )
    first.save_model()
    lost = Trajectory.from_run(tmp_path / "a").comparisons[-1].all.forgotten
    assert lost > 0
    again = PeftModel.from_pretrained(network, tmp_path / "a", is_trainable=True)
    by("SFT", tmp_path / "b", again, rate=1e-12, lineage=tmp_path / "a")
    assert "with its adapter (LORA), which the earlier training left" in capfd.readouterr().err
    run = Trajectory.from_run(tmp_path / "b")
    assert [look.all.forgotten for look in run.comparisons] == [
        0,
        lost,
        lost,
        lost,
    ]  # the first base, and three looks
    assert run.stage is not None
    assert [look.all.forgotten + look.all.gained for look in run.stage.comparisons] == [0] * 3


def test_a_training_without_the_callback_in_between_is_counted_with_the_next_stage(
    tmp_path: Path, network: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    trained(tmp_path / "unwatched", network=network, steps=4, learning_rate=RATE)
    capfd.readouterr()
    stage(folders[1], network, lineage=folders[0])
    assert "stage 2 of this model, after a (by the name given)" in capfd.readouterr().err
    check_stages(folders, last="step-000008")
    assert any(
        "began with a model that answers" in note
        for note in read_stages(folders).comparisons[-1].notes
    )


def test_shares_of_a_category_are_over_the_same_questions_at_every_stage(tmp_path: Path) -> None:
    """A larger probe, and then one of which fewer items are evaluated, of a model that does not change."""
    network = model(tokenizer())
    more = [
        Item(
            id=f"more{n}",
            task="t",
            category="a",
            prompt=f"Q w{n} w2 :",
            choices=[" w3", " w4"],
            answer=n % 2,
        )
        for n in range(40)
    ]
    stage(tmp_path / "a", network, rate=0.0)
    stage(tmp_path / "b", network, items=Probe([*probe(60), *more], name="more"), rate=0.0)
    line = read_stages([tmp_path / "a", tmp_path / "b"])
    assert line.matrix is not None
    for shares in line.matrix.accuracy().values():
        assert len(set(shares.tolist())) == 1


def test_answers_that_were_generated_otherwise_are_not_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = model(tokenizer())
    open_items = [
        Item(id=str(n), task="t", prompt=f"Q w{n} :", answer=f"w{n}", match="contains")
        for n in range(6)
    ]
    for number, decoding in enumerate(({"tokens": 2, "temperature": 0.7}, {"tokens": 2})):
        stage(
            tmp_path / str(number), network, items=Probe(open_items, name="open", decoding=decoding)
        )
        network = again(tmp_path / str(number))
    assert (
        "is not counted: the answers of the first base were generated by other settings"
        in capfd.readouterr().err
    )
    with pytest.raises(MismatchError, match="generated their answers in unlike ways"):
        read_stages([tmp_path / "0", tmp_path / "1"])


def test_a_prefix_that_shares_no_question_counts_this_stage_alone(
    tmp_path: Path, network: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    more = with_other_probe(40).items[60:]
    callback = ForgetWatchCallback(
        Probe([*more, *probe(60)], name="other first"), every=4, max_overhead=None
    )
    monkeypatch.setattr(schedule.Budget, "decide", lambda *_, **__: LookPlan(items=30))
    trained(
        tmp_path / "b",
        callbacks=[callback],
        network=again(tmp_path / "a"),
        steps=8,
        learning_rate=RATE,
        **SAVES,
    )
    assert "the first base was measured on none of these questions" in capfd.readouterr().err
    run = Trajectory.from_run(tmp_path / "b")
    assert (run.stage, run.steps) == (None, (0, 4, 8))


def test_a_base_that_a_resumed_run_did_not_change_is_no_stage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stage(tmp_path / "a", model(tokenizer()), rate=0.0)
    shutil.rmtree(tmp_path / "a" / "checkpoint-8")
    stage(tmp_path / "a", model(tokenizer()), rate=0.0, resume=True)
    stage(tmp_path / "b", model(tokenizer()))
    assert "of this model, after" not in capfd.readouterr().err


def test_a_folder_whose_run_began_with_these_weights_is_no_ancestor(
    tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base"
    model(tokenizer()).save_pretrained(base)
    for _ in range(2):  # the run folder is in the folder of the base
        network = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        stage(base, network)
        shutil.rmtree(cache, ignore_errors=True)
    assert "of this model, after" not in capfd.readouterr().err


def test_new_weights_under_the_name_of_a_checkpoint_are_no_stage(
    tmp_path: Path, network: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(tmp_path / "a" / "checkpoint-8")
    torch.manual_seed(11)
    network = AutoModelForCausalLM.from_config(config)
    made = stage(tmp_path / "b", network)
    assert "its answers are not those of that training's end" in capfd.readouterr().err
    assert Trajectory.from_run(tmp_path / "b").number == 1
    assert not any(key.startswith("eval_forget_stage") for row in rows(made) for key in row)
    assert rows(made)[0]["eval_forget/all/forgotten"] == 0


def test_of_two_trainings_with_one_end_the_copy_in_the_checkpoint_says_which(
    tmp_path: Path,
) -> None:
    for name in ("a", "twin"):
        stage(tmp_path / name, model(tokenizer()))
    network = AutoModelForCausalLM.from_pretrained(
        tmp_path / "a" / "checkpoint-8", dtype=torch.float32
    )
    stage(tmp_path / "b", network)
    assert [one["name"] for one in described(tmp_path / "b")["lineage"]["runs"]] == ["a"]
    read_stages([tmp_path / "a", tmp_path / "b"])


def test_a_named_baseline_in_between_keeps_the_chain(tmp_path: Path) -> None:
    network, folders = model(tokenizer()), [tmp_path / name for name in "abc"]
    for number, folder in enumerate(folders):
        named = (
            {"baseline": folders[0] / "_forgetwatch" / "baseline.parquet"} if number == 1 else {}
        )
        stage(folder, network, seed=number, **named)
        network = again(folder)
    assert [one["name"] for one in described(folders[2])["lineage"]["runs"]] == ["a", "b"]
    first, second = ({**described(one)["model"], "loaded": "", "files": ""} for one in folders[:2])
    assert first == second
    read_stages([folders[0], folders[2]])


def test_a_first_base_that_comes_back_counts_again(tmp_path: Path, second: Any) -> None:
    shutil.rmtree(tmp_path / "b" / "checkpoint-8")
    file = tmp_path / "b" / "_forgetwatch" / "first.parquet"
    copy = tmp_path / "b" / "checkpoint-4" / "forgetwatch" / "first.parquet"
    content = file.read_bytes()
    file.unlink()
    copy.unlink()
    stage(tmp_path / "b", model(tokenizer()), resume=True)
    assert Trajectory.from_run(tmp_path / "b").number == 1
    file.write_bytes(content)
    assert Trajectory.from_run(tmp_path / "b").number == 2


def test_a_base_that_was_resized_and_another_template_do_not_fit(tmp_path: Path) -> None:
    chat = probe(60, rendering="chat")
    network = model(tokenizer())
    stage(tmp_path / "a", network, items=chat)
    network.resize_token_embeddings(len(tokenizer()) + 8)
    with pytest.raises(WatchError, match=r"unlike numbers of tokens \(\d+, then \d+\)"):
        stage(tmp_path / "b", network, items=chat, lineage=tmp_path / "a")
    tok = tokenizer()
    tok.chat_template = tok.chat_template.replace("assistant :", "answer :")
    with pytest.raises(
        WatchError, match="unlike chat templates, in which the questions are other texts"
    ):
        stage(tmp_path / "c", model(tok), tok=tok, items=chat, lineage=tmp_path / "a")
    with pytest.raises(
        MismatchError, match="the first base was measured with rendering 'chat', this is 'plain'"
    ):
        stage(tmp_path / "d", model(tok), tok=tok, lineage=tmp_path / "a", items=probe(60))


def test_the_verdict_of_a_look_says_both(tmp_path: Path, network: Any) -> None:
    from forgetwatch.run.trackers import run_verdict

    callback = ForgetWatchCallback(probe(60), every=4, max_overhead=None, lineage=tmp_path / "a")
    trained(
        tmp_path / "b", callbacks=[callback], network=network, steps=8, learning_rate=RATE, **SAVES
    )
    text = run_verdict(callback.watch.run)
    assert text.startswith("against the first base: ")
    assert "; against the start of this stage: " in text


def test_a_copy_with_an_earlier_look_alone_is_not_held_against_the_checkpoint(
    tmp_path: Path,
) -> None:
    callback = ForgetWatchCallback(probe(60), every=[3, 8], max_overhead=None)
    trained(
        tmp_path,
        callbacks=[callback],
        network=model(tokenizer()),
        steps=8,
        learning_rate=RATE,
        **SAVES,
    )
    for step, has_end in ((4, False), (8, True)):
        found = lineage_after(tmp_path / f"checkpoint-{step}" / "forgetwatch", how="test")
        assert found is not None
        assert (found.end is not None) == has_end


def stages_in_a_loop(
    tmp_path: Path, hand_on: Any, *, adapter: dict[str, Any] | None = None
) -> list[Path]:
    """Three trainings of one model in a loop, and the folders of their runs; nothing names the one before."""
    network, folders = model(tokenizer()), [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        made = by("SFT", folder, network, adapter=adapter)
        network = hand_on(made, folder)
    return folders


def saved_below(made: Any, folder: Path) -> str:
    made.save_model(str(folder / "final"))
    return str(folder / "final")


def merged_below(made: Any, folder: Path) -> str:
    made.model.merge_and_unload().save_pretrained(folder / "merged")
    tokenizer().save_pretrained(folder / "merged")
    return str(folder / "merged")


@pytest.mark.filterwarnings("ignore:.*peft:UserWarning")
@pytest.mark.parametrize(
    ("hand_on", "adapter", "how"),
    [
        pytest.param(lambda made, folder: made.model, None, "the model in memory", id="memory"),
        pytest.param(
            lambda made, folder: made.model.merge_and_unload(),
            {},
            "the model in memory",
            id="merged",
        ),
        pytest.param(saved_below, None, "the folder of the model", id="saved below"),
        pytest.param(merged_below, {}, "the folder of the model", id="merged below"),
    ],
)
def test_stages_that_nobody_names_count_from_the_first_base(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    hand_on: Any,
    adapter: dict[str, Any] | None,
    how: str,
) -> None:
    folders = stages_in_a_loop(tmp_path, hand_on, adapter=adapter)
    check_stages(folders)
    said = capfd.readouterr().err
    assert f"stage 2 of this model, after a (by {how})" in said
    assert f"stage 3 of this model, after a and b (by {how})" in said


def test_an_adapter_in_memory_is_trained_further(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = by(
        "SFT", tmp_path / "a", model(tokenizer()), adapter={"init_lora_weights": False}, rate=5e-2
    )
    by("SFT", tmp_path / "b", first.model, rate=1e-12)
    assert "with its adapter (LORA), which the earlier training left" in capfd.readouterr().err
    run = Trajectory.from_run(tmp_path / "b")
    assert run.stage is not None
    assert run.comparisons[-1].all.forgotten > 0
    assert [look.all.forgotten + look.all.gained for look in run.stage.comparisons] == [0] * 3


def test_a_base_whose_adapter_was_taken_off_is_no_stage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = by("SFT", tmp_path / "a", model(tokenizer()), adapter={})
    by("SFT", tmp_path / "b", first.model.unload())
    assert "stage 2" not in capfd.readouterr().err
    assert Trajectory.from_run(tmp_path / "b").number == 1


def test_a_model_in_memory_with_other_weights_is_no_stage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = by("SFT", tmp_path / "a", model(tokenizer())).model
    network.load_state_dict(model(tokenizer(), seed=9).state_dict())
    by("SFT", tmp_path / "b", network)
    assert "its answers are not those of that training's end" in capfd.readouterr().err
    assert Trajectory.from_run(tmp_path / "b").number == 1


def test_a_model_beside_a_run_that_it_began_with_is_no_stage(tmp_path: Path) -> None:
    model(tokenizer()).save_pretrained(tmp_path / "a" / "base")
    for name in ("a", "b"):
        by("SFT", tmp_path / name, str(tmp_path / "a" / "base"))
    assert Trajectory.from_run(tmp_path / "b").number == 1


def test_a_folder_without_a_model_belongs_to_no_run(tmp_path: Path, network: Any) -> None:
    (tmp_path / "a" / "mistyped").mkdir()
    with pytest.raises(WatchError, match="found no baseline there"):
        stage(tmp_path / "b", network, lineage=tmp_path / "a" / "mistyped")

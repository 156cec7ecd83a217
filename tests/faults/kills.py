"""Trainings that are killed at random moments and resumed: do they end as if nothing had happened?

    python tests/faults/kills.py --seed 7 --kills 60 --out kills.jsonl       continues where the file ends
    python tests/faults/kills.py --seed 7 --only 4                           one case again, with its folder kept

A case is a number; with the seed it decides everything but the exact instant. A real training (SFT of 60 steps, or GRPO
of 30) of a tiny model is killed with SIGKILL and resumed from its last checkpoint, up to three times, until it comes to
its end. Moments are drawn over the steps of an undisturbed run, in proportion to their time, and in two of five draws
over its begin and its end.

After each kill every look that can be read is that of the undisturbed run. At the end all of these are equal to those
of the undisturbed run: weights bit for bit, losses, the logged curve, steps and rows of the looks. No look is later
than the last step, no note is left, no temporary file, and no lock.

The process that imports the libraries does nothing else: each training, and each reading of a folder, is a fork of it.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

STEPS: Final = {"SFT": 60, "GRPO": 30}
EVERY: Final = {"SFT": 5, "GRPO": 3}
SAVE: Final = {"SFT": 10, "GRPO": 5}
MOST_KILLS: Final = 3
"""Kills of one training."""
COUNTS: Final = ("eval_forget/all/forgotten", "eval_forget/all/gained")
HARMLESS: Final = ("is not listed in run.json", "run.json is missing")
"""Notes of a folder right after a kill: the look, or the baseline, is written before run.json."""


@dataclass
class Case:
    """One training, killed and resumed.

    Attributes:
        number: Number of the case.
        method: SFT or GRPO.
        kills: Moment of each kill.
        halves: Half-written checkpoints of the trainer that were deleted before a resume.
        wrong: Sentences on what differs from the undisturbed run; empty if nothing does.
        seconds: Time that it took.
    """

    number: int
    method: str
    kills: list[str] = field(default_factory=list)
    halves: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def make_trainer(method: str, folder: Path, callbacks: list[Any]) -> Any:
    """A trainer of the tiny model that saves and resumes."""
    from support import WORDS, model, tokenizer, trainer

    options: dict[str, Any] = {
        "save_strategy": "steps",
        "save_steps": SAVE[method],
        "gradient_checkpointing": False,
    }
    if method == "SFT":
        return trainer(folder, steps=STEPS[method], callbacks=callbacks, **options)
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rng, tok = random.Random(0), tokenizer()
    # One epoch: TRL itself shuffles anew where it resumes in a later one.
    prompts = Dataset.from_list(
        [{"prompt": " ".join(rng.choices(WORDS[:40], k=4))} for _ in range(2 * STEPS[method])]
    )
    return GRPOTrainer(
        model=model(tok),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=STEPS[method],
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=6,
            use_cpu=True,
            bf16=False,
            report_to="none",
            disable_tqdm=True,
            logging_steps=1,
            learning_rate=3e-2,
            seed=3,
            **options,
        ),
        train_dataset=prompts,
        processing_class=tok,
        callbacks=callbacks,
    )


def train(method: str, folder: Path, tell: Callable[[str], None]) -> None:
    """Begin a training, or resume it from its last checkpoint, and write its curve and the hash of its weights."""
    from support import probe
    from transformers import TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint

    from forgetwatch import ForgetWatchCallback

    class Before(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            tell("begin")

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            tell("end")

    class After(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            tell(f"step {state.global_step + 1}")

    watch = ForgetWatchCallback(probe(40, norm="bytes"), every=EVERY[method], max_overhead=None)
    made = make_trainer(method, folder, [Before(), watch, After()])
    tell("made")
    made.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))
    history = made.state.log_history
    weights = hashlib.sha256(
        b"".join(one.detach().numpy().tobytes() for one in made.model.parameters())
    )
    end = {
        "weights": weights.hexdigest(),
        "curve": [[row[key] for key in ("step", *COUNTS)] for row in history if COUNTS[0] in row],
        # A trainer that resumes after its end takes one more step, at a learning rate of 0.
        "losses": [
            row["loss"] for row in history if "loss" in row and row["step"] <= STEPS[method]
        ],
    }
    (folder / "end.json").write_text(json.dumps(end))
    tell("over")


def fork(work: Callable[[], object], output: Path) -> int:
    """Do something in a child whose output goes to a file, and return its process id."""
    if process := os.fork():
        return process
    status = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ended(process: int) -> int:
    """Exit status of a child, negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run(
    method: str, folder: Path, kill: tuple[str, float] | None = None
) -> tuple[int, list[tuple[str, float]]]:
    """Run a training in a child and kill it some seconds after an event.

    Args:
        method: SFT or GRPO.
        folder: Its output_dir.
        kill: Event and seconds; None to let it come to its end.

    Returns:
        (Exit status; its events, with their seconds from the first).
    """
    ours, theirs = os.pipe()
    folder.mkdir(exist_ok=True)

    def work() -> None:
        os.close(ours)
        train(method, folder, lambda event: os.write(theirs, f"{event}\n".encode()))

    process = fork(work, folder.with_suffix(".txt"))
    os.close(theirs)
    events: list[tuple[str, float]] = []
    with os.fdopen(ours) as lines:
        for line in lines:
            events.append((line.strip(), time.monotonic()))
            if kill is not None and events[-1][0] == kill[0]:
                time.sleep(kill[1])
                os.kill(
                    process, signal.SIGKILL
                )  # of a child that is not waited for yet, thus never of another process
                break
    return ended(process), [(event, at - events[0][1]) for event, at in events]


def draw(rng: random.Random, timeline: list[tuple[str, float]], *, step: int) -> tuple[str, float]:
    """Draw a moment of a training that resumes at a step: an event, and seconds after it."""
    spans = {event: until - at for (event, at), (_, until) in pairwise(timeline)} | {"over": 0.0}
    steps = [event for event in spans if event.startswith("step ") and int(event.split()[1]) > step]
    # A training that resumes after its end has no step of the timeline left.
    aim = rng.choices(("begin", "steps", "end", "any"), (15, 60 if steps else 0, 20, 5))[0]
    named = {
        "begin": ["begin"],
        "steps": steps,
        "end": [*steps[-1:], "end", "over"],
        "any": ["made", "begin", "end"],
    }
    event = rng.choices(named[aim], [spans[one] + 0.01 for one in named[aim]])[0]
    return event, rng.uniform(0, spans[event])


def last_step(folder: Path) -> int:
    """Step of the last checkpoint; 0 if there is none."""
    return max(
        (int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*")), default=0
    )


def drop_halves(folder: Path) -> int:
    """Delete half-written checkpoints, which the trainer itself refuses, and return their number."""
    dropped = 0
    for path in folder.glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_text())
        except (OSError, ValueError):
            shutil.rmtree(path)
            dropped += 1
    return dropped


def looks(folder: Path) -> tuple[dict[str, str], list[str]]:
    """(Checksum of the rows of each look by its step, the baseline among them; notes). For a child."""
    from forgetwatch.errors import SnapshotError
    from forgetwatch.run_folder.contents import StoredRun

    try:
        stored = StoredRun.read(folder)
    except SnapshotError as error:
        return {}, [] if "found none there" in str(error) else [str(error)]
    return {str(one.meta["step"]): one.checksum for one in (stored.baseline, *stored.looks)}, list(
        stored.notes
    )


def read_looks(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The same, read in a child: a process that has read a table must not be forked."""
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place) / "answer.json"
        status = ended(
            fork(lambda: answer.write_text(json.dumps(looks(folder))), Path(place) / "output.txt")
        )
        if status:
            return {}, ["reading ended with " + (Path(place) / "output.txt").read_text()[-300:]]
        found, notes = json.loads(answer.read_text())
        return found, notes


def wrong_after_kill(folder: Path, reference: Path, *, resumes_at: int) -> list[str]:
    """Sentences on looks that are not those of the undisturbed run, and on notes that a kill must not cause."""
    whole, _ = read_looks(reference)
    found, notes = read_looks(folder)
    wrong = [
        f"after a kill: another look at step {step}"
        for step, rows in found.items()
        if whole.get(step) != rows
    ]
    for note in notes:
        # A resume first deletes the looks that it takes again, and then writes run.json.
        named = [int(step) for step in re.findall(r"step-(\d+)\.parquet", note)]
        is_dropped = "missing" in note and named and min(named) > resumes_at
        if not is_dropped and not any(part in note for part in HARMLESS):
            wrong.append(f"after a kill: {note}")
    return wrong


def wrong_at_end(folder: Path, reference: Path, *, steps: int) -> list[str]:
    """Sentences on what differs from the undisturbed run; empty if nothing does."""
    wrong = []
    ours, theirs = (json.loads((each / "end.json").read_text()) for each in (folder, reference))
    wrong += [f"other {name}" for name in theirs if ours[name] != theirs[name]]
    found, notes = read_looks(folder)
    whole, _ = read_looks(reference)
    if found != whole:
        unlike = sorted({int(step) for step, _ in {*found.items()} ^ {*whole.items()}})
        wrong.append(f"other looks at steps {unlike}")
    if late := [step for step in found if int(step) > steps]:
        wrong.append(f"looks beyond the last step: {late}")
    described = json.loads((folder / "_forgetwatch" / "run.json").read_text())
    if [str(one["step"]) for one in described["looks"]] != [step for step in found if step != "0"]:
        wrong.append("run.json lists other looks than there are")
    wrong += [f"note: {note}" for note in notes]
    # A run that died before its first checkpoint is put aside as it is.
    partials = [path.relative_to(folder) for path in folder.rglob(".*.partial")]
    wrong += [
        f"left over: {path}"
        for path in sorted(partials)
        if not path.parts[0].startswith("_forgetwatch-")
    ]
    return wrong


class Kills:
    """Cases of a seed, and the undisturbed runs that they are held to.

    Args:
        seed: The seed.
        place: Folder of all trainings.
    """

    def __init__(self, seed: int, place: Path) -> None:
        self.seed, self.place = seed, place
        self._undisturbed: dict[str, tuple[Path, list[tuple[str, float]]]] = {}
        # What a training imports when it needs it, once for all.
        for name in (
            "support",
            "trl.trainer.sft_trainer",
            "trl.trainer.grpo_trainer",
            "peft",
            "datasets",
            "forgetwatch.run",
        ):
            importlib.import_module(name)

    def undisturbed(self, method: str) -> tuple[Path, list[tuple[str, float]]]:
        """(Folder of the undisturbed run, its events)."""
        if method not in self._undisturbed:
            folder = self.place / f"undisturbed-{method}"
            status, events = run(method, folder)
            if status:
                raise RuntimeError(folder.with_suffix(".txt").read_text()[-2000:])
            self._undisturbed[method] = folder, events
        return self._undisturbed[method]

    def case(
        self,
        number: int,
        *,
        method: str | None = None,
        moments: list[tuple[str, float]] | None = None,
    ) -> Case:
        """Run one case.

        Args:
            number: Its number.
            method: SFT or GRPO; None to draw it.
            moments: Moments of the kills; None to draw them.
        """
        rng, started = random.Random(f"{self.seed}-{number}"), time.monotonic()
        method = method or ("GRPO" if number % 5 in (1, 3) else "SFT")
        made = Case(number, method)
        reference, timeline = self.undisturbed(method)
        folder = self.place / f"case-{number}"
        planned = len(moments) if moments is not None else rng.choice((1, 1, 1, 2, 2, MOST_KILLS))
        for nth in range(planned):
            moment = (
                moments[nth] if moments is not None else draw(rng, timeline, step=last_step(folder))
            )
            status, _ = run(method, folder, moment)
            if status == -signal.SIGKILL:
                made.kills.append(f"{moment[1]:.3f} s after {moment[0]!r}")
            elif status:
                made.wrong.append(f"exit {status}: {_tail(folder)}")
            made.halves += drop_halves(folder)
            made.wrong += wrong_after_kill(folder, reference, resumes_at=last_step(folder))
        if not made.wrong:
            status, _ = run(method, folder)
            if status:
                made.wrong.append(f"exit {status} at the last resume: {_tail(folder)}")
            else:
                made.wrong += wrong_at_end(folder, reference, steps=STEPS[method])
        made.seconds = round(time.monotonic() - started, 1)
        return made


def _tail(folder: Path) -> str:
    return folder.with_suffix(".txt").read_text().strip().splitlines()[-1]


def table(cases: list[Case]) -> str:
    """Cases and kills by method."""
    lines = ["method  trainings  kills  half checkpoints  unlike the undisturbed run"]
    for method in STEPS:
        own = [case for case in cases if case.method == method]
        kills, halves = sum(len(case.kills) for case in own), sum(case.halves for case in own)
        lines.append(
            f"{method:6}  {len(own):9}  {kills:5}  {halves:16}  {sum(map(bool, (case.wrong for case in own)))}"
        )
    where = Counter(kill.split("'")[1].split()[0] for case in cases for kill in case.kills)
    lines.append(
        "killed after " + ", ".join(f"{name} {count}" for name, count in where.most_common())
    )
    return "\n".join(lines)


def main() -> int:
    """Run the cases; exit status 1 if one differs from the undisturbed run."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=7)
    options.add_argument(
        "--kills", type=int, default=60, help="go on until so many processes were killed"
    )
    options.add_argument("--only", type=int, help="run this case alone and keep its folder")
    options.add_argument(
        "--out", type=Path, help="one line of JSON for each case; cases in it are not repeated"
    )
    given = options.parse_args()
    done: list[Case] = []
    if given.out is not None and given.out.exists():
        done = [Case(**json.loads(line)) for line in given.out.read_text().splitlines()]
    with contextlib.ExitStack() as stack:
        if given.only is not None:
            place = Path(tempfile.mkdtemp(prefix="kills-"))
            print(f"kept in {place}", flush=True)
        else:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        kills = Kills(given.seed, place)
        numbers = [given.only] if given.only is not None else range(1_000_000)
        seen = {case.number for case in done}
        for number in numbers:
            if given.only is None and sum(len(case.kills) for case in done) >= given.kills:
                break
            if number in seen:
                continue
            made = kills.case(number)
            done.append(made)
            print(
                number,
                made.method,
                "; ".join(made.kills),
                f"{made.seconds} s",
                *made.wrong or ["equal"],
                flush=True,
            )
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(asdict(made)) + "\n")
            if given.only is None and not made.wrong:
                shutil.rmtree(place / f"case-{number}", ignore_errors=True)
    print(table(done))
    return int(any(case.wrong for case in done))


if __name__ == "__main__":
    sys.exit(main())

"""Watched runs of 60 steps that kill themselves at a named moment; `test_killed.py` starts this.

Reads one run a line from stdin, forks, and answers with the child's exit status: libraries are imported once.
"""

import hashlib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from short_looks import shorten
from support import probe, trainer
from transformers import Trainer, TrainerCallback, TrainerState
from transformers.trainer_utils import get_last_checkpoint

from forgetwatch import ForgetWatchCallback
from forgetwatch.run_folder.folder import RunFolder
from forgetwatch.scoring.scorer import Scorer

COUNTS = ("eval_forget/all/forgotten", "eval_forget/all/gained")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in(owner: type, name: str, when: Callable[..., bool]) -> None:
    """Die in place of the first call whose arguments satisfy `when`."""
    call = getattr(owner, name)

    def mortal(*given: Any, **named: Any) -> Any:
        if when(*given, **named):
            die()
        return call(*given, **named)

    setattr(owner, name, mortal)


def die_in_look(at: int) -> None:
    """Die when the look at a step runs its second batch."""
    score = Scorer.score

    def mortal(self: Scorer, model: Any, *, step: int | None = None, **named: Any) -> Any:
        batches: list[int] = []

        def second(*_: Any) -> None:
            batches.append(1)
            if len(batches) == 2:
                die()

        if step == at:
            model.get_input_embeddings().register_forward_hook(second)
        return score(self, model, step=step, **named)

    Scorer.score = mortal  # type: ignore[method-assign]


class Dies(TrainerCallback):
    """Kills the process before the watching callback gets the event."""

    def __init__(self, *, step: int = -1, save: int = -1) -> None:
        self.step, self.save = step, save

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            die()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= self.save > 0:
            die()


class Saves(TrainerCallback):
    """Asks for a save at every sixteenth step, after the watching callback got the event."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = control.should_save or state.global_step % 16 == 0


def arm(moment: str | None) -> list[TrainerCallback]:
    """Let this process die at that moment; the callbacks needed for it."""

    def named(name: str) -> Callable[[Path, Path], bool]:
        return lambda _, target: target.name == name

    match moment:
        case None:
            pass
        case "before the baseline is written":
            die_in(RunFolder, "start", lambda *_: True)
        case "between the baseline and its second measurement":
            die_in(Path, "replace", named("null.parquet"))
        case "in the middle of a look":
            die_in_look(25)
        case "when a look is written and has no name yet":
            die_in(Path, "replace", named("step-000025.parquet"))
        case "when a look has its name and run.json does not know it":
            die_in(
                Path,
                "replace",
                lambda _, target: (
                    target.name == "run.json" and (target.parent / "step-000025.parquet").exists()
                ),
            )
        case "between a look and its save":
            die_in(Trainer, "_save_checkpoint", lambda made, *_: made.state.global_step == 20)
        case "in a save, before the trainer's state":
            die_in(TrainerState, "save_to_json", lambda _, path: "checkpoint-20" in path)
        case "after a save, before anything of ours":
            return [Dies(save=20)]
        case "after the last save":
            return [Dies(save=60)]
        case "while the history is put into the checkpoint":
            die_in(
                Path,
                "replace",
                lambda _, target: target.name == "null.parquet" and "checkpoint-20" in str(target),
            )
        case "between two looks":
            return [Dies(step=37)]
        case "in the last look":
            die_in_look(60)
        case "while looks are taken back from the checkpoint":
            die_in(Path, "replace", named("step-000030.parquet"))
        case _:
            raise ValueError(moment)
    return []


def run(wanted: dict[str, Any]) -> None:
    """Begin the run, or resume it from its last checkpoint; write its curve and the hash of its weights."""
    folder = Path(wanted["folder"])
    adapter = None
    if wanted["lora"]:
        from peft import LoraConfig

        adapter = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", lora_alpha=64)
    watch = ForgetWatchCallback(
        probe(40, norm="bytes"),
        every=wanted["every"],
        max_overhead=None,
        drift=wanted.get("drift", True),
    )
    asks = wanted["save_strategy"] == "asked"
    made = trainer(
        folder,
        steps=60,
        save_strategy="no" if asks else wanted["save_strategy"],
        save_steps=10,
        gradient_checkpointing=False,
        peft_config=adapter,
        callbacks=[*arm(wanted["moment"]), watch, *([Saves()] if asks else [])],
    )
    made.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))
    rows = [row for row in made.state.log_history if "eval_forget/all/forgotten" in row]
    weights = hashlib.sha256(
        b"".join(p.detach().numpy().tobytes() for p in made.model.parameters())
    )
    end = {
        "curve": [[row[key] for key in ("step", *COUNTS)] for row in rows],
        "losses": [row["loss"] for row in made.state.log_history if "loss" in row],
        "weights": weights.hexdigest(),
    }
    (folder / "end.json").write_text(json.dumps(end))


def child(wanted: dict[str, Any]) -> int:
    try:
        out = os.open(wanted["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        run(wanted)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    # What a run imports when it needs it, once for all.
    for name in ("trl.trainer.sft_trainer", "peft", "datasets", "wandb"):
        importlib.import_module(name)
    shorten()
    for line in sys.stdin:
        if (process := os.fork()) == 0:
            os._exit(child(json.loads(line)))
        status = os.waitpid(process, 0)[1]
        print(f"exit {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

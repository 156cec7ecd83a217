"""TRL's own training scripts, with forgetwatch's keys beside theirs.

    python -m forgetwatch.trl sft --config configs/sft.yaml --output_dir runs/sft
    accelerate launch -m forgetwatch.trl grpo --config configs/grpo.yaml

Everything that TRL's script takes, on the command line or in the file, it takes here; `forget_probe` and the other keys
of `ForgetArguments` stand beside. The script is TRL's, and so is the trainer; it gets one callback more.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from forgetwatch.errors import ForgetwatchError
from forgetwatch.watch import ForgetWatchCallback

TRAINERS: Final = {
    "sft": "SFTTrainer",
    "dpo": "DPOTrainer",
    "grpo": "GRPOTrainer",
    "kto": "KTOTrainer",
    "rloo": "RLOOTrainer",
}
"""TRL's scripts, and the trainers that they make."""


@dataclass
class ForgetArguments:
    """The keys of forgetwatch; see `ForgetWatchCallback` for what they mean."""

    forget_probe: str | None = field(
        default=None, metadata={"help": "A probe: its file or name; by default what the callback asks by default."}
    )
    forget_every: str | None = field(default=None, metadata={"help": "Steps between looks, 'save' or 'epoch'."})
    forget_max_overhead: float = field(
        default=0.02, metadata={"help": "Share of the training's time that looks may take; 0 asks every item."}
    )
    forget_baseline: str | None = field(default=None, metadata={"help": "Snapshot or model to compare with."})
    forget_guard: Literal["warn", "save", "stop", "none"] = field(
        default="warn", metadata={"help": "What happens when the run loses more than it may."}
    )
    forget_on_look: str | None = field(default=None, metadata={"help": "A command that is started after each look."})
    forget_composite: str | None = field(default=None, metadata={"help": "A metric to choose checkpoints by too."})
    forget_log: Literal["counts", "full"] = field(default="counts", metadata={"help": "counts, or full."})
    forget_strict: bool = field(default=False, metadata={"help": "Whether a look that fails stops the run."})

    def callback(self) -> ForgetWatchCallback:
        """The callback with these settings.

        Raises:
            ForgetwatchError: If one of them is out of range, or the probe cannot be loaded.
        """
        every: Any = self.forget_every
        return ForgetWatchCallback(
            self.forget_probe,
            every=int(every) if every is not None and every.isdigit() else every,
            max_overhead=self.forget_max_overhead or None,
            baseline=self.forget_baseline,
            guard=None if self.forget_guard == "none" else self.forget_guard,
            on_look=self.forget_on_look,
            composite=self.forget_composite,
            log=self.forget_log,
            strict=self.forget_strict,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of TRL's scripts with the callback in its trainer.

    Args:
        arguments: The script's name and its arguments; by default those of the command line.

    Raises:
        ForgetwatchError: If there is no such script, or a key is wrong.
    """
    import trl

    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in TRAINERS:
        raise ForgetwatchError(
            f"needed one of {', '.join(TRAINERS)}, got {given[0] if given else 'nothing'}: "
            "python -m forgetwatch.trl sft --config sft.yaml"
        )
    script, trainer = importlib.import_module(f"trl.scripts.{given[0]}"), TRAINERS[given[0]]
    parser = trl.TrlParser((*script.make_parser().dataclass_types, ForgetArguments), prog=f"forgetwatch.trl {given[0]}")
    *theirs, own = parser.parse_args_and_config(given[1:])
    with _watched(trl, trainer, own.callback()):
        script.main(*theirs)


@contextmanager
def _watched(trl: Any, name: str, callback: ForgetWatchCallback) -> Iterator[None]:
    """TRL's trainer with one callback more; the scripts look it up by its name when they run."""
    trainer = getattr(trl, name)

    def start(self: Any, *args: Any, callbacks: Sequence[Any] | None = None, **kwargs: Any) -> None:
        trainer.__init__(self, *args, callbacks=[*(callbacks or []), callback], **kwargs)

    setattr(trl, name, type(name, (trainer,), {"__init__": start, "__doc__": trainer.__doc__}))
    try:
        yield
    finally:
        setattr(trl, name, trainer)


if __name__ == "__main__":
    try:
        main()
    except ForgetwatchError as error:
        sys.exit(f"forgetwatch: {error}")

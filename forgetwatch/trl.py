"""TRL's own training scripts, with the callback in their trainers.

    python -m forgetwatch.trl sft --config configs/sft.yaml --output_dir runs/sft
    accelerate launch -m forgetwatch.trl grpo --config configs/grpo.yaml

Every key of TRL's script is accepted, on the command line and in the file, and in addition `forget_probe` and the other
keys of `ForgetArguments`. Script and trainer are TRL's; the trainer gets one more callback.
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
"""Trainer classes by the name of TRL's script."""


@dataclass
class ForgetArguments:
    """Keys of forgetwatch; see `ForgetWatchCallback` for their meaning."""

    forget_probe: str | None = field(
        default=None, metadata={"help": "A probe: its file or name; by default that of the callback."}
    )
    forget_every: str | None = field(default=None, metadata={"help": "Steps between looks, 'save' or 'epoch'."})
    forget_max_overhead: float = field(
        default=0.02, metadata={"help": "Share of the training's time that looks may take; 0 evaluates every item."}
    )
    forget_baseline: str | None = field(default=None, metadata={"help": "Snapshot or model to compare with."})
    forget_guard: Literal["warn", "save", "stop", "none"] = field(
        default="warn", metadata={"help": "Reaction to a loss beyond the bounds."}
    )
    forget_on_look: str | None = field(default=None, metadata={"help": "A command that is started after each look."})
    forget_composite: str | None = field(default=None, metadata={"help": "A metric to combine with retention."})
    forget_log: Literal["counts", "full"] = field(default="counts", metadata={"help": "counts, or full."})
    forget_strict: bool = field(default=False, metadata={"help": "True to stop the run when a look fails."})

    def callback(self) -> ForgetWatchCallback:
        """Callback with these settings.

        Raises:
            ForgetwatchError: If one of them is out of range, or the probe cannot be loaded.
        """
        every: Any = self.forget_every
        return ForgetWatchCallback(
            self.forget_probe,
            every=int(every) if every is not None and every.isascii() and every.isdigit() else every,
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

    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in TRAINERS:
        raise ForgetwatchError(
            f"needed one of {', '.join(TRAINERS)}, got {words[0] if words else 'nothing'}: "
            "python -m forgetwatch.trl sft --config sft.yaml"
        )
    script, trainer = importlib.import_module(f"trl.scripts.{words[0]}"), TRAINERS[words[0]]
    parser = trl.TrlParser((*script.make_parser().dataclass_types, ForgetArguments), prog=f"forgetwatch.trl {words[0]}")
    *theirs, own = parser.parse_args_and_config(words[1:])
    with _watched(trl, trainer, own.callback()):
        script.main(*theirs)


@contextmanager
def _watched(trl: Any, name: str, callback: ForgetWatchCallback) -> Iterator[None]:
    """Add the callback to TRL's trainer inside; a script looks the trainer up by its name when it runs."""
    trainer = getattr(trl, name)

    def start(self: Any, *args: Any, callbacks: Sequence[Any] | None = None, **kwargs: Any) -> None:
        # Named and not super(): `self` is of a class that is made below.
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

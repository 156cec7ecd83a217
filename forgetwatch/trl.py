"""TRL's own training scripts, with the callback in their trainers.

    python -m forgetwatch.trl sft --config configs/sft.yaml --output_dir runs/sft
    accelerate launch -m forgetwatch.trl grpo --config configs/grpo.yaml

Every key of TRL's script is accepted, on the command line and in the file, and one more, `forget`:
the arguments of `ForgetWatchCallback`, which may be left out.

    in the file            forget: {probe: standard, every: [10, 50], guard: stop}, also on several lines
    on the command line    the same in YAML or JSON, in place of that of the file: --forget '{guard: stop}'

Script and trainer are TRL's; the trainer gets one more callback.
"""

import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from forgetwatch.errors import ForgetwatchError, WatchError, did_you_mean
from forgetwatch.run.callback import ForgetWatchCallback

TRAINERS: Final = {name: f"{name.upper()}Trainer" for name in ("sft", "dpo", "grpo", "kto", "rloo")}
"""Trainer classes by the name of TRL's script."""

KEYS: Final = tuple(inspect.signature(ForgetWatchCallback).parameters)
"""Names of the callback's arguments."""


@dataclass
class ForgetArguments:
    """The key of a script that gives the callback its arguments, as TRL's parser reads it."""

    forget: str | None = field(
        default=None,
        metadata={"help": f"Arguments of ForgetWatchCallback, in YAML or JSON: {', '.join(KEYS)}"},
    )


def settings(block: Any, *, key: str) -> dict[str, Any]:
    """Read the arguments of the callback from a configuration's block.

    Empty without a block. Dicts and lists are plain ones.

    Returns:
        Plain dicts and lists; empty without a block.

    Raises:
        WatchError: If it is no mapping, or names no argument of the callback; `key` is the block's
            own name.
    """
    if isinstance(block, str):
        try:
            block = yaml.safe_load(block)
        except yaml.YAMLError as error:
            raise WatchError(
                f"{key}: needed YAML or JSON, got {block!r:.80} ({str(error).splitlines()[0]})"
            ) from error
    if block is None:
        return {}
    if not isinstance(block, Mapping):
        raise WatchError(
            f"{key}: needed a block of names and values, such as {{guard: stop}}, got {block!r:.80}"
        )
    for name in block:
        if name not in KEYS:
            near = did_you_mean(str(name), KEYS)
            raise WatchError(f"{key}: unknown name {name!r}{near}; there are {', '.join(KEYS)}")
    # axolotl hands its own kind of dict over, also inside of one.
    return {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in block.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a script of TRL with the callback in its trainer."""
    import trl

    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in TRAINERS:
        raise ForgetwatchError(
            f"needed one of {', '.join(TRAINERS)}, got {words[0] if words else 'nothing'}: "
            "python -m forgetwatch.trl sft --config sft.yaml"
        )
    script, trainer = importlib.import_module(f"trl.scripts.{words[0]}"), TRAINERS[words[0]]
    parser = trl.TrlParser(
        (*script.make_parser().dataclass_types, ForgetArguments), prog=f"forgetwatch.trl {words[0]}"
    )
    *theirs, block = parser.parse_args_and_config(words[1:])
    with _watched(trl, trainer, ForgetWatchCallback(**settings(block.forget, key="forget"))):
        script.main(*theirs)


@contextmanager
def _watched(trl: Any, name: str, callback: ForgetWatchCallback) -> Iterator[None]:
    """The script looks the trainer up by its name when it runs."""
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

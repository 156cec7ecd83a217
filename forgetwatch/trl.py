"""TRL's own training scripts, with the callback in their trainers.

    python -m forgetwatch.trl sft --config configs/sft.yaml --output_dir runs/sft
    accelerate launch -m forgetwatch.trl grpo --config configs/grpo.yaml

Every key of TRL's script is accepted, on the command line and in the file, and one more, `forget`: the arguments of
`ForgetWatchCallback`, which may be left out.

    in the file            forget: {probe: standard, every: [10, 50], guard: stop}, also on several lines
    on the command line    the same in YAML or JSON, in place of that of the file: --forget '{guard: stop}'

Script and trainer are TRL's; the trainer gets one more callback.
"""

from __future__ import annotations

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


def settings(given: Any, *, key: str) -> dict[str, Any]:
    """Return the arguments of the callback that a block of a configuration gives, or its text in YAML.

    Empty without a block. Dicts and lists are plain ones.

    Raises:
        WatchError: If it is no mapping, or names no argument of the callback; `key` is the block's own name.
    """
    if isinstance(given, str):
        try:
            given = yaml.safe_load(given)
        except yaml.YAMLError as error:
            raise WatchError(
                f"{key}: needed YAML or JSON, got {given!r:.80} ({str(error).splitlines()[0]})"
            ) from error
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise WatchError(
            f"{key}: needed a block of names and values, such as {{guard: stop}}, got {given!r:.80}"
        )
    for name in given:
        if name not in KEYS:
            near = did_you_mean(str(name), KEYS)
            raise WatchError(f"{key}: unknown name {name!r}{near}; there are {', '.join(KEYS)}")
    # axolotl hands its own kind of dict over, also inside of one.
    return {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of TRL's scripts, by its name and arguments, with the callback in its trainer."""
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
    *theirs, own = parser.parse_args_and_config(words[1:])
    with _watched(trl, trainer, ForgetWatchCallback(**settings(own.forget, key="forget"))):
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

"""TRL's own training scripts, with the callback in their trainers.

    python -m forgetwatch.trl sft --config configs/sft.yaml --output_dir runs/sft
    accelerate launch -m forgetwatch.trl grpo --config configs/grpo.yaml

Every key of TRL's script is accepted, on the command line and in the file, and in addition the arguments of
`ForgetWatchCallback`, each with ``forget_`` before its name: `forget_probe`, `forget_guard` and so on.

    in the file            as in YAML: forget_every: [10, 50]
    on the command line    these two in JSON: --forget_every 200, --forget_probes '{"base": "standard"}'

The guard ``none`` is none, and a text that is no action names a policy or its file; a `forget_max_overhead` of 0
evaluates all items. Script and trainer are TRL's; the trainer gets one more callback.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, make_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

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

PREFIX: Final = "forget_"

_ARGUMENTS: Final = inspect.signature(ForgetWatchCallback).parameters
_ANNOTATIONS: Final = get_type_hints(ForgetWatchCallback.__init__)
_NONE: Final = "none"
"""Choice that means None."""


def arguments_class() -> type:
    """Return the dataclass of the arguments of `ForgetWatchCallback`, as TRL's parser reads them."""
    fields = [
        (PREFIX + name, _type_of_key(name), field(default=argument.default, metadata={"help": _help(name)}))
        for name, argument in _ARGUMENTS.items()
    ]
    return make_dataclass("ForgetArguments", fields)


def callback_of(given: Any) -> ForgetWatchCallback:
    """Return the callback with the values of an object of `arguments_class`."""
    return ForgetWatchCallback(**{name: _value(name, getattr(given, PREFIX + name)) for name in _ARGUMENTS})


def _kinds(name: str) -> list[Any]:
    """Return the types that an argument may have, without the parameters of generic ones; Literals as they are."""
    annotation = _ANNOTATIONS[name]
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return [one if get_origin(one) in (None, Literal) else get_origin(one) for one in members]


def _type_of_key(name: str) -> Any:
    """Return the type of the key for an argument: a number, true or false, one of some choices, or text."""
    kinds = _kinds(name)
    if float in kinds or bool in kinds:
        return _ANNOTATIONS[name]
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices and str not in kinds and not _has_json(name):
        return Literal.__getitem__((*choices, _NONE) if NoneType in kinds else tuple(choices))
    return str | None


def _has_json(name: str) -> bool:
    """Return True if an argument may be a whole number, a list or a mapping, which a command line gives as JSON."""
    return not {int, Sequence, Mapping}.isdisjoint(_kinds(name))


def _value(name: str, given: Any) -> Any:
    """Return the value of an argument, given its key in a file or on the command line."""
    if given == _NONE and any(get_origin(kind) is Literal for kind in _kinds(name)):
        return None
    if not isinstance(given, str) or (str in _kinds(name) and not (Mapping in _kinds(name) and given[:1] == "{")):
        return given
    if _has_json(name):
        with suppress(ValueError, RecursionError):  # "save" is none; the callback refuses what has no meaning
            return json.loads(given)
    return None if given == _NONE else given


def _help(name: str) -> str:
    """Return the first sentence on an argument in the callback's documentation, for argparse."""
    found = re.search(rf"^    {name}: (.+?)\.\s", inspect.getdoc(ForgetWatchCallback) or "", re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()).replace("%", "%%") if found else name


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
        (*script.make_parser().dataclass_types, arguments_class()), prog=f"forgetwatch.trl {words[0]}"
    )
    *theirs, own = parser.parse_args_and_config(words[1:])
    with _watched(trl, trainer, callback_of(own)):
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

"""The lineage of the model that a training begins with, found by its folder, or by name.

    in memory         a run of this process trained the model, or the base under its adapters
    by its folder     a checkpoint has a copy of its run, or the run folder is beside or above the model's
    by name           ``lineage="runs/sft"``: for a model that was copied, cast or quantised

A lineage that is found by itself and does not fit, or whose last look has other answers, is left
out, with one line. One that is named and does not fit is an error.
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from torch import nn

from forgetwatch.errors import ForgetwatchError, MismatchError, SnapshotError, WatchError
from forgetwatch.run.run import Run
from forgetwatch.run_folder.description import (
    files_digest,
)
from forgetwatch.run_folder.lineage import NAMED, Lineage, check_one_model, folder_of, lineage_after
from forgetwatch.scoring.encoding import tokenizer_settings, tokenizer_state
from forgetwatch.scoring.model import base_model, without_wrappers
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.text import one_line

LineageSetting = str | Path | Literal[False] | None


_TRAINED: Final[weakref.WeakKeyDictionary[nn.Module, Path]] = weakref.WeakKeyDictionary()
"""Run folder of each model in memory that a run of this process trained, and of the base under its adapters."""


def remember_trained(model: nn.Module, run: Run) -> None:
    """Let a later run of this process find the run by model."""
    _TRAINED[base_model(model)] = _TRAINED[without_wrappers(model)] = run.folder.path


def facts_of(model: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """What two stages of one model have in common.

    The facts include whether the model was loaded from a folder or by a name.
    """
    config: Any = getattr(without_wrappers(model), "config", None)
    name_or_path = str(getattr(config, "_name_or_path", "") or "")
    is_folder = bool(name_or_path) and Path(name_or_path).is_dir()
    settings, template = tokenizer_settings(tokenizer) or (str(tokenizer_state(tokenizer)), "")
    return {
        "architecture": str(getattr(config, "model_type", type(model).__name__)),
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "tokenizer": _digest(settings),
        "template": _digest(template),
        "loaded": "folder" if is_folder else "name" if name_or_path else "memory",
        "files": files_digest(Path(name_or_path)) if is_folder else None,
    }


def join_lineage(
    run: Run, model: nn.Module, tokenizer: Any, *, setting: LineageSetting, counts: bool = True
) -> str:
    """Let a run count against the base of earlier trainings.

    Every process calls this.

    Args:
        run: The run, before its first look.
        model: The model.
        tokenizer: Its tokenizer.
        setting: The folder of the earlier training, False for none, None to search for it.
        counts: False to note the earlier trainings alone, as with a baseline from elsewhere.

    Returns:
        A line on that, empty if there is none.

    Raises:
        WatchError: If the named folder has no run, or is of another model.
        MismatchError: If the named one was measured on other questions.
    """
    fingerprint = known_fingerprint(model)
    run.note_model(facts_of(model, tokenizer), fingerprint)
    lineage = on_main_process(lambda: found_lineage(model, setting, fingerprint))
    if lineage is None:
        return ""
    if not counts:
        run.descend(replace(lineage, first=None))
        return ""
    try:
        _check(lineage, run)
        run.descend(lineage)
    except (WatchError, MismatchError) as error:
        if setting is not None:
            raise
        return f"an earlier training of this model is not counted: {error}"
    names = one_line(" and ".join(ancestor.name for ancestor in lineage.runs))
    stage_text = f"stage {lineage.stage} of this model, after {names} (by {lineage.how})"
    if lineage.first is None:
        return f"{stage_text}; the baseline of the first base is lost: counting against the start of this stage alone"
    return (
        f"{stage_text}; baseline of the first base found: counting against both. eval/forget is "
        "against the first base; "
        "eval/forget_stage, the alarms and the guard are about this stage"
    )


def known_fingerprint(model: nn.Module) -> str | None:
    """Fingerprint of a model.

    Returns:
        The fingerprint, or None if the weights cannot be read. Every process calls this.
    """
    try:
        return model_fingerprint(model)
    except Exception:  # of any kind of tensor that cannot be read here: the folder alone decides
        return None


def found_lineage(
    model: nn.Module, setting: LineageSetting, fingerprint: str | None = None
) -> Lineage | None:
    """Find the earlier trainings of a model.

    Returns:
        Those that are named, else in memory, else by folder, or None.
    """
    if setting is False:
        return None
    if setting is not None:
        return _named(Path(setting))
    network = without_wrappers(model)
    config: Any = getattr(network, "config", None)
    name_or_path = str(getattr(config, "_name_or_path", "") or "")
    how, folder = "the model in memory", _TRAINED.get(network) or _TRAINED.get(base_model(model))
    try:
        if folder is None or not folder.is_dir():
            how, folder = (
                "the folder of the model",
                folder_of(Path(name_or_path))
                if name_or_path and Path(name_or_path).is_dir()
                else None,
            )
        lineage = (
            None if folder is None else lineage_after(folder, how=how, fingerprint=fingerprint)
        )
    except (
        ForgetwatchError,
        OSError,
        ValueError,
    ):  # a name that is no path, or a damaged copy: nothing is found
        return None
    # An adapter on a base that was trained is a new one.
    return lineage if lineage is None or network in _TRAINED else replace(lineage, adapter=None)


def _named(path: Path) -> Lineage | None:
    folder = folder_of(path)
    if folder is None:
        raise WatchError(
            f"lineage={str(path)!r}: needed the output_dir of an earlier training that was "
            "watched, its run folder, or "
            "one of its checkpoints; found no baseline there"
        )
    try:
        lineage = lineage_after(folder, how=NAMED)
    except SnapshotError as error:
        raise WatchError(f"lineage={str(path)!r}: {error}") from error
    return lineage


def _check(lineage: Lineage, run: Run) -> None:
    # The model of an earlier training must be able to have become the present one.
    uses_template = run.probe.rendering == "chat" or any(
        item.rendering == "chat" for item in run.probe
    )
    if problem := check_one_model(lineage.model, run.state.model, with_template=uses_template):
        raise WatchError(
            f"{lineage.runs[-1].name} and this training: {problem}; name the right one "
            "(lineage=...), or turn it off "
            "(lineage=False)"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

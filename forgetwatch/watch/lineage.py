"""The lineage of the model that a training begins with, found by its folder, or by name.

    by its folder     a checkpoint has a copy of its run, or the run folder is beside it
    by name           ``lineage="runs/sft"``: for a model that was handed on in memory, merged, cast or quantised

A lineage that is found by itself and does not fit is left out, with one line. One that is named and does not fit is an
error.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from torch import nn

from forgetwatch.errors import ForgetwatchError, MismatchError, SnapshotError, WatchError
from forgetwatch.pairing import one_line
from forgetwatch.run_folder import (
    BASELINE,
    CARRIED,
    NAMED,
    Lineage,
    check_one_model,
    folder_of,
    lineage_after,
)
from forgetwatch.scoring import (
    model_fingerprint,
    on_main_process,
    tokenizer_settings,
    tokenizer_state,
    without_wrappers,
)
from forgetwatch.watch.run import Run

LineageSetting = str | Path | Literal[False] | None

BY_FOLDER: Final = "the folder of the model"
"""Value of `how` for a lineage that nobody named."""


def facts_of(model: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """Return what two stages of one model have in common, and whether it was loaded from a folder or by a name."""
    config: Any = getattr(without_wrappers(model), "config", None)
    place = str(getattr(config, "_name_or_path", "") or "")
    settings, template = tokenizer_settings(tokenizer) or (str(tokenizer_state(tokenizer)), "")
    return {
        "architecture": str(getattr(config, "model_type", type(model).__name__)),
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "tokenizer": _digest(settings),
        "template": _digest(template),
        "loaded": "folder" if place and Path(place).is_dir() else "name" if place else "memory",
    }


def join_lineage(run: Run, model: nn.Module, tokenizer: Any, *, setting: LineageSetting, counts: bool = True) -> str:
    """Let a run that begins count against the base of earlier trainings, and return a line on that; empty if none.

    Every process calls it.

    Args:
        run: The run, before its first look.
        model: The model.
        tokenizer: Its tokenizer.
        setting: The folder of the earlier training, False for none, None to search for it.
        counts: False to note the earlier trainings alone, as with a baseline from elsewhere.

    Raises:
        WatchError: If the named folder has no run, or is of another model.
        MismatchError: If the named one was measured on other questions.
    """
    fingerprint = _fingerprint(model)
    run.note_model(facts_of(model, tokenizer), fingerprint)
    if setting is False:
        return ""
    config: Any = getattr(without_wrappers(model), "config", None)
    place = str(getattr(config, "_name_or_path", "") or "")

    def search() -> Lineage | None:
        if setting is not None:
            return _named(Path(setting))
        # The copy in a checkpoint knows best: two trainings may have ended with the same weights.
        return _by_copy(place, fingerprint) or _by_folder(place, fingerprint)

    lineage = on_main_process(search)
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
    names = one_line(" and ".join(one.name for one in lineage.runs))
    found = f"stage {lineage.stage} of this model, after {names} (by {lineage.how})"
    if lineage.first is None:
        return f"{found}; the baseline of the first base is lost: counting against the start of this stage alone"
    return (
        f"{found}; baseline of the first base found: counting against both. eval/forget is against the first base; "
        "eval/forget_stage, the alarms and the guard are about this stage"
    )


def _fingerprint(model: nn.Module) -> str | None:
    """Return the fingerprint of a model; None if its weights cannot be read. Every process calls it."""
    try:
        return model_fingerprint(model)
    except Exception:  # of any kind of tensor that cannot be read here: the folder alone decides
        return None


def _by_copy(place: str, fingerprint: str | None) -> Lineage | None:
    copy = Path(place) / CARRIED
    return _by_folder(str(copy), fingerprint) if place and (copy / BASELINE).is_file() else None


def _by_folder(place: str, fingerprint: str | None) -> Lineage | None:
    try:
        folder = folder_of(Path(place)) if place and Path(place).is_dir() else None
        return None if folder is None else lineage_after(folder, how=BY_FOLDER, fingerprint=fingerprint)
    except (ForgetwatchError, OSError, ValueError):  # a name that is no path, or a damaged copy: nothing is found
        return None


def _named(path: Path) -> Lineage | None:
    folder = folder_of(path)
    if folder is None:
        raise WatchError(
            f"lineage={str(path)!r}: needed the output_dir of an earlier training that was watched, its run folder, or "
            "one of its checkpoints; found no baseline there"
        )
    try:
        found = lineage_after(folder, how=NAMED)
    except SnapshotError as error:
        raise WatchError(f"lineage={str(path)!r}: {error}") from error
    return found


def _check(lineage: Lineage, run: Run) -> None:
    """Raise a WatchError if the model of an earlier training cannot have become the present one."""
    uses_template = run.probe.rendering == "chat" or any(item.rendering == "chat" for item in run.probe)
    if problem := check_one_model(lineage.model, run.model_facts, with_template=uses_template):
        raise WatchError(
            f"{lineage.runs[-1].name} and this training: {problem}; name the right one (lineage=...), or turn it off "
            "(lineage=False)"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

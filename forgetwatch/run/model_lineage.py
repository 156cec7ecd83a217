"""The lineage of the model that a training begins with, found by its folder, or by name.

    in memory         a run of this process trained the model, or the base under its adapters
    by its folder     a checkpoint has a copy of its run, or the run folder is beside or above the model's
    by name           ``lineage="runs/sft"``: for a model that was copied, cast or quantised

A lineage that is found by itself and does not fit, or whose last look has other answers, is left
out, with one line. One that is named and does not fit is an error.
"""

import hashlib
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from torch import nn

from forgetwatch.errors import ForgetwatchError, MismatchError, SnapshotError, WatchError
from forgetwatch.measures.pairing import rows_of_baseline
from forgetwatch.probe import Probe
from forgetwatch.run.run import Run
from forgetwatch.run_folder.description import files_digest
from forgetwatch.run_folder.lineage import NAMED, Lineage, check_one_model, folder_of, lineage_after
from forgetwatch.scoring.encoding import tokenizer_settings, tokenizer_state
from forgetwatch.scoring.model import base_model, without_wrappers
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import one_line

LineageSetting = str | Path | Literal[False] | None


_UNLIKE: Final = 0.15
"""Share of the answers that change, from which two measurements are not of one model: casting changes far fewer."""


_TRAINED: Final[weakref.WeakKeyDictionary[nn.Module, Path]] = weakref.WeakKeyDictionary()
"""Run folder of each model in memory that a run of this process trained, and of the base under its adapters."""


def remember_trained(model: nn.Module, run: Run) -> None:
    """Let a later run of this process find the run by model."""
    _TRAINED[base_model(model)] = _TRAINED[without_wrappers(model)] = run.folder.path


def facts_of(model: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """Facts that two stages of a model have in common.

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
    run.update(model=facts_of(model, tokenizer), started_with=fingerprint)
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
        "against the first base; eval/forget_stage, the alarms and the guard are about this stage"
    )


def leave_unlike_lineage(run: Run) -> bool:
    """Leave a lineage whose end is not the baseline of a run.

    A model that was made anew from the configuration of a checkpoint has its name, and answers
    otherwise.

    Returns:
        True if the lineage was left.
    """
    lineage, baseline = run.state.lineage, run.baseline
    if lineage is None or lineage.how == NAMED or lineage.end is None or baseline is None:
        return False
    end = rows_of_baseline(lineage.end, baseline)
    start = rows_of_baseline(baseline, end)
    right, chosen = (
        [snapshot.floats("correct") for snapshot in (end, start)],
        [snapshot.ints("chosen") for snapshot in (end, start)],
    )
    # By the option that was chosen: of weak models many answers are wrong in both.
    differs = np.where(
        (chosen[0] >= 0) & (chosen[1] >= 0), chosen[0] != chosen[1], right[0] != right[1]
    )
    both_scored = np.isfinite(right[0]) & np.isfinite(right[1])
    if not both_scored.any() or differs[both_scored].mean() <= _UNLIKE:
        return False
    run.leave_lineage()
    return True


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
            "watched, its run folder, or one of its checkpoints; found no baseline there"
        )
    try:
        lineage = lineage_after(folder, how=NAMED)
    except SnapshotError as error:
        raise WatchError(f"lineage={str(path)!r}: {error}") from error
    return lineage


def _check(lineage: Lineage, run: Run) -> None:
    # The model of an earlier training must be able to have become the present one.
    if lineage.first is not None:
        _check_measured(lineage.first, run.probe)
    uses_template = run.probe.rendering == "chat" or any(
        item.rendering == "chat" for item in run.probe
    )
    if problem := check_one_model(lineage.model, run.state.model, with_template=uses_template):
        raise WatchError(
            f"{lineage.runs[-1].name} and this training: {problem}; name the right one "
            "(lineage=...), or turn it off (lineage=False)"
        )


def _check_measured(base: Snapshot, probe: Probe) -> None:
    # The first base must have been measured on some of these questions, by the same settings.
    hashes = set(base.texts("content_hash"))
    if not any(item.content_hash in hashes for item in probe):
        raise MismatchError(
            f"the first base was measured on other questions than those of {probe.name}"
        )
    made_with = base.meta.get("probe") or {}
    for name in ("scoring", "rendering", "norm"):
        setting = getattr(probe, name)
        if made_with.get(name, setting) != setting:
            raise MismatchError(
                f"the first base was measured with {name} {made_with[name]!r}, this is {setting!r}"
            )
    decoding = probe.settings.get("decoding")
    if decoding is not None and made_with.get("decoding", decoding) != decoding:
        raise MismatchError(
            "the answers of the first base were generated by other settings (decoding)"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

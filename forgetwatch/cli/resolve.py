"""Names on the command line to snapshots: a file of outcomes, a folder of logs, or a model that is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from forgetwatch.cli.output import announce_import, bytes_bar, echo, scoring_unless_cached
from forgetwatch.comparing.checks import Subset
from forgetwatch.comparing.flips import Flip, What, sort_flips
from forgetwatch.errors import ProbeError, SnapshotError, did_you_mean_path
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.probes.ladder import at_levels, described_levels, is_pool
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.row_files import SUFFIXES
from forgetwatch.readers.log import QuestionStore, QuestionText
from forgetwatch.readers.outcomes import is_outcomes, load_snapshot
from forgetwatch.run_folder.description import (
    CARRIED,
    Description,
    carried_baseline,
    carried_look,
    files_digest,
    find_run_folder,
    is_run_folder,
    run_probe,
)
from forgetwatch.snapshot import Snapshot, read_snapshot

_QUESTIONS = 2000
"""Items of each kind whose questions are read; no report lists more."""


def read_outcomes(path: Path, metric: str | None = None, *, texts: bool = False) -> Snapshot:
    """Return the snapshot of a file or a folder of outcomes, read with a progress bar; see `load_snapshot`."""
    with bytes_bar(f"reading {path}") as progress:
        return load_snapshot(path, metric=metric, progress=progress, texts=texts)


def resolve_all(
    given: Sequence[str],
    probe: Probe | None,
    metric: str | None = None,
    *,
    loading: Loading = Loading(),
) -> list[Snapshot]:
    """Return the snapshots of both sides of a comparison, as `resolve`.

    Without a probe also what checkpoints of a run carry: the look of their step, and the baseline for the model with
    which the run began. One without a look is scored on its items.
    """
    found = [
        _named(read_outcomes(carried), one)
        if probe is None and (carried := _carried(one, given)) is not None
        else (_of_run(one, loading) if probe is None else None)
        or resolve(one, probe, metric, loading=loading)
        for one in given
    ]
    if metric is not None and not any("metric" in one.meta for one in found):
        raise SnapshotError(
            f"--metric {metric}: chooses among those of a harness's log, and none of these is one"
        )
    return found


def _of_run(given: str, loading: Loading) -> Snapshot | None:
    """Return a checkpoint without a look, scored on the items of its run; None if that is not at hand."""
    folder = Path(given).parent
    is_saved = (
        Path(given).is_dir()
        and Path(given).name.startswith("checkpoint-")
        and is_run_folder(folder)
    )
    if not is_saved or (probe := run_probe(folder)) is None:
        return None
    items = Description.read(find_run_folder(folder)).values.get("items")
    has_copy = (Path(given) / CARRIED).is_dir()
    why = (
        "its files are not those of the look that it carries" if has_copy else "no look of its own"
    )
    echo(f"{given}: {why}; it is scored on the items of its run", err=True)
    scored = resolve(given, probe.head(items or len(probe)), loading=loading)
    return Subset.from_probe(probe, items=items, generates=True).describe(
        scored, fingerprint=probe.fingerprint
    )


def _named(carried: Snapshot, given: str) -> Snapshot:
    """Return a look that a checkpoint carries, under the name that was given."""
    return replace(
        carried,
        meta={name: value for name, value in carried.meta.items() if name != "step"}
        | {"model": given},
    )


def questions_of_run(sides: Sequence[str]) -> Probe | None:
    """Return the probe of the run whose checkpoints are compared, for the text of its questions.

    None if it is not at hand.
    """
    folders = (Path(side).parent for side in sides if carried_look(Path(side)) is not None)
    return next((probe for folder in folders if (probe := run_probe(folder)) is not None), None)


def _carried(given: str, sides: Sequence[str]) -> Path | None:
    """Return the file of the look or baseline of a model that one of these checkpoints carries; None if none does."""
    if is_outcomes(given):
        return None
    if (own := carried_look(Path(given))) is not None:
        echo(f"{given}: its own look, without scoring it again (--probe scores it)", err=True)
        return own
    for side in sides:
        if (baseline := carried_baseline(Path(side))) is not None:
            made_of = str(read_snapshot(baseline).meta.get("model"))
            is_same = given == made_of or (
                Path(given).exists() and Path(given).resolve() == Path(made_of).resolve()
            )
            if is_same and Description.read(baseline.parent).model.get("files") == _files(
                Path(given)
            ):
                echo(
                    f"{given}: the baseline that {side} carries, without scoring it again", err=True
                )
                return baseline
    return None


def _files(folder: Path) -> str | None:
    return files_digest(folder) if folder.is_dir() else None


def resolve(
    given: str,
    probe: Probe | None,
    metric: str | None = None,
    *,
    loading: Loading = Loading(),
) -> Snapshot:
    """Return the snapshot of a file or folder of outcomes, or of a model, which is scored once and then cached.

    What is given is a path, or the id of a model; `metric` decides, if a log has several.

    Raises:
        SnapshotError: If it is none of these, or a model and there is no probe.
    """
    path = Path(given)
    if is_outcomes(given):
        return read_outcomes(path, metric)
    is_model = path.exists()
    # A name in the form of a path is never looked up as a model id.
    if not is_model and (
        path.is_symlink() or path.suffix in SUFFIXES or given.startswith((".", "/"))
    ):
        raise SnapshotError(f"{given}: no such file or folder{did_you_mean_path(path)}")
    if probe is None and is_model:
        raise SnapshotError(
            f"{given}: a model folder without a look of its own, which needs --probe (such as standard)"
        )
    if probe is None:
        near = did_you_mean_path(path)
        raise SnapshotError(
            f"{given}: no such file or folder{near or ';'} a model id needs --probe (such as standard)"
        )
    if metric is not None:
        raise SnapshotError(
            f"{given}: a model, scored by the probe alone; --metric chooses among those of a harness's log"
        )
    announce_import()
    with scoring_unless_cached(given, probe) as progress:
        # Not at the top: this imports torch, which comparing files does not need.
        from forgetwatch.scoring.model_loading import score_checkpoint, silence_loading

        silence_loading()
        return score_checkpoint(given, probe, loading=loading, progress=progress)


def fitted(probe: Probe, base: str, *, loading: Loading = Loading(), run: str | Path = "") -> Probe:
    """Return the ladder at the levels of a run, of outcomes, or that suit a model; any other probe as it is.

    Args:
        probe: The probe.
        base: What comparisons begin with: a model, or its outcomes.
        loading: How the model is loaded.
        run: A folder that may hold a run, whose levels are taken if it has any.

    Raises:
        ProbeError: If outcomes are given that were measured with another probe.
    """
    if not is_pool(probe):
        return probe
    made = run_probe(run) if run and is_run_folder(run) else None
    if made is None or not described_levels(made.name):
        if not is_outcomes(base):
            made = at_levels(probe, lambda tried: resolve(base, tried, loading=loading))
        elif described_levels(
            found := str((read_outcomes(Path(base)).meta.get("probe") or {}).get("name"))
        ):
            made = load_probe(found)
        else:
            raise ProbeError(
                f"{base}: outcomes of {found}; needed those of a ladder, or a model to fit it to"
            )
    echo(f"ladder: {described_levels(made.name)}", err=True)
    return made


def with_questions(
    changed: list[Flip], given: str, snapshot: Snapshot, metric: str | None
) -> list[Flip]:
    """Return the flips with the text of their questions, taken in a second pass from another tool's log.

    The log is that of the side before: as it was given, the snapshot that was read from it, and by which metric.
    """
    if snapshot.table["question"].null_count < len(snapshot):
        rows = zip(*(snapshot.texts(name) for name in ("task", "item_id", "question")), strict=True)
        texts = {
            (task, item_id): QuestionText.from_column(text) for task, item_id, text in rows if text
        }
        return [
            replace(flip, item=flip.item or texts.get((flip.task, flip.item_id)))
            for flip in changed
        ]
    if (
        "tool" not in snapshot.meta
        or not Path(given).exists()
        or all(flip.item for flip in changed)
    ):
        return changed
    listed = {
        what: [flip for flip in sort_flips(changed) if flip.what == what][:_QUESTIONS]
        for what in get_args(What)
    }
    store = QuestionStore(
        flip.content_hash for some in listed.values() for flip in some if flip.content_hash
    )
    with bytes_bar(f"reading questions in {given}") as progress:
        load_snapshot(given, metric=metric, progress=progress, kept=store)

    def text_of(flip: Flip) -> QuestionText | None:
        text = store.texts.get(flip.content_hash or "")
        # A log may list options that the model was not offered: an open answer has none.
        return replace(text, choices=()) if text is not None and flip.k is None else text

    return [replace(flip, item=flip.item or text_of(flip)) for flip in changed]

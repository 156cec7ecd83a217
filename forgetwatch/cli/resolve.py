"""Names on the command line to snapshots: a file of outcomes, a folder of logs, or a model that is scored."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from forgetwatch.cli.output import announce_import, bytes_bar, echo, scoring_unless_cached
from forgetwatch.comparing.flips import Flip, What, sort_flips
from forgetwatch.comparing.subset import Subset
from forgetwatch.endpoint.address import check_scheme, is_endpoint
from forgetwatch.errors import ProbeError, SnapshotError, did_you_mean_path
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.probes.ladder import is_list, is_trial
from forgetwatch.probes.named import fitted as probe_fitted
from forgetwatch.probes.open_rendering import as_measured, rendered
from forgetwatch.probes.row_files import SUFFIXES
from forgetwatch.readers.log import QuestionStore, QuestionText
from forgetwatch.readers.outcomes import is_outcomes, load_snapshot
from forgetwatch.run_folder.contents import (
    carried_baseline,
    carried_look,
    find_run_folder,
    is_run_folder,
    run_probe,
)
from forgetwatch.run_folder.description import CARRIED, Description, files_digest
from forgetwatch.snapshot import Snapshot, read_snapshot

_QUESTIONS = 2000
"""Items of each kind whose questions are read; no report lists more."""


def read_outcomes(
    path: Path,
    metric: str | None = None,
    *,
    texts: bool = False,
    rule: OutcomeRule = UPPER_HALF,
) -> Snapshot:
    """Read outcomes from a file or folder, with a progress bar."""
    with bytes_bar(f"reading {path}") as progress:
        return load_snapshot(path, metric=metric, progress=progress, texts=texts, rule=rule)


def served_again(before: str, probe: Probe | None, *, loading: Loading) -> Snapshot | None:
    """Measure a served model a second time: servers batch and round.

    Returns:
        Its outcomes, or None for anything else.
    """
    if probe is None or not is_endpoint(before):
        return None
    return score_named(before, probe, loading=loading, is_second=True)


def read_repeat(
    repeat: str | Path | None,
    before: str,
    metric: str | None = None,
    *,
    rule: OutcomeRule = UPPER_HALF,
) -> Snapshot | None:
    """Read the second measurement of the side before.

    Returns:
        Its outcomes, or None if none is named.

    Raises:
        SnapshotError: If it is the first measurement itself, which shows no noise.
    """
    if repeat is None:
        return None
    if Path(repeat).resolve() == Path(before).resolve():
        raise SnapshotError(
            f"--repeat {repeat}: needed a second measurement of the weights before, got the first "
            "one; evaluate them again, into another file"
        )
    return read_outcomes(Path(repeat), metric, rule=rule)


def resolve_all(
    paths: Sequence[str],
    probe: Probe | None,
    metric: str | None = None,
    *,
    rule: OutcomeRule = UPPER_HALF,
    loading: Loading = Loading(),
) -> list[Snapshot]:
    """Find the snapshots of both sides of a comparison.

    Without a probe, a checkpoint of a run stands for its stored look, and the model with which the
    run began for the baseline. A checkpoint without a look is scored on the items of the run.

    Without a probe also what checkpoints of a run carry: the look of their step, and the baseline
    for the model with which the run began. One without a look is scored on its items.
    """
    snapshots = [
        _named(read_outcomes(carried), path)
        if probe is None and (carried := _carried(path, paths)) is not None
        else (_of_run(path, loading) if probe is None else None)
        or resolve(path, probe, metric, rule=rule, loading=loading)
        for path in paths
    ]
    if metric is not None and not any("metric" in snapshot.meta for snapshot in snapshots):
        raise SnapshotError(
            f"--metric {metric}: chooses among those of a harness's log, and none of these is one"
        )
    return snapshots


def _of_run(path: str, loading: Loading) -> Snapshot | None:
    folder = Path(path).parent
    is_saved = (
        Path(path).is_dir() and Path(path).name.startswith("checkpoint-") and is_run_folder(folder)
    )
    if not is_saved or (probe := run_probe(folder)) is None:
        return None
    items = Description.read(find_run_folder(folder)).values.get("items")
    has_copy = (Path(path) / CARRIED).is_dir()
    why = (
        "its files are not those of the look that it carries" if has_copy else "no look of its own"
    )
    echo(f"{path}: {why}; it is scored on the items of its run", err=True)
    scored = resolve(path, probe.head(items or len(probe)), loading=loading)
    return Subset.from_probe(probe, items=items, generates=True).describe(
        scored, fingerprint=probe.fingerprint
    )


def _named(carried: Snapshot, path: str) -> Snapshot:
    return replace(
        carried,
        meta={name: value for name, value in carried.meta.items() if name != "step"}
        | {"model": path},
    )


def questions_of_run(sides: Sequence[str]) -> Probe | None:
    """Find the probe of the run whose checkpoints are compared.

    Returns:
        The probe, or None if it is not at hand.
    """
    folders = (Path(side).parent for side in sides if carried_look(Path(side)) is not None)
    return next((probe for folder in folders if (probe := run_probe(folder)) is not None), None)


def _carried(path: str, sides: Sequence[str]) -> Path | None:
    """Find the look or baseline that a checkpoint carries.

    Returns:
        The file, or None.
    """
    if is_outcomes(path):
        return None
    if (look := carried_look(Path(path))) is not None:
        echo(f"{path}: its own look, without scoring it again (--probe scores it)", err=True)
        return look
    for side in sides:
        if (baseline := carried_baseline(Path(side))) is not None:
            made_of = str(read_snapshot(baseline).meta.get("model"))
            is_same = path == made_of or (
                Path(path).exists() and Path(path).resolve() == Path(made_of).resolve()
            )
            if is_same and Description.read(baseline.parent).model.get("files") == _files(
                Path(path)
            ):
                echo(
                    f"{path}: the baseline that {side} carries, without scoring it again", err=True
                )
                return baseline
    return None


def _files(folder: Path) -> str | None:
    return files_digest(folder) if folder.is_dir() else None


def resolve(
    source: str,
    probe: Probe | None,
    metric: str | None = None,
    *,
    rule: OutcomeRule = UPPER_HALF,
    loading: Loading = Loading(),
) -> Snapshot:
    """Find the snapshot of outcomes or of a model.

    A model is scored once and then cached.

    What is given is a path, or the id of a model; `metric` decides, if a log has several.

    Raises:
        SnapshotError: If it is none of these, or a model and there is no probe.
    """
    path = Path(source)
    if is_outcomes(source):
        return read_outcomes(path, metric, rule=rule)
    is_model = path.exists() or is_endpoint(source)
    # A name in the form of a path is never looked up as a model id.
    if not is_model and (
        path.is_symlink() or path.suffix in SUFFIXES or source.startswith((".", "/"))
    ):
        raise SnapshotError(f"{source}: no such file or folder{did_you_mean_path(path)}")
    if probe is None and is_model:
        what = (
            "a served model" if is_endpoint(source) else "a model folder without a look of its own"
        )
        raise SnapshotError(f"{source}: {what}, which needs --probe (such as standard)")
    if probe is None:
        near = did_you_mean_path(path)
        raise SnapshotError(
            f"{source}: no such file or folder{near or ';'} a model id needs --probe (such as "
            "standard)"
        )
    if metric is not None:
        raise SnapshotError(
            f"{source}: a model, scored by the probe alone; --metric chooses among those of a "
            "harness's log"
        )
    return score_named(source, probe, loading=loading)


def score_named(
    name: str,
    probe: Probe,
    *,
    loading: Loading = Loading(),
    answers: Path | None = None,
    is_second: bool = False,
) -> Snapshot:
    """Score a model by name: a checkpoint, a model id, or a server's address.

    Args:
        name: The name.
        probe: The items.
        loading: How a model is loaded, or a server asked.
        answers: File of the generated answers so far; None for one in the cache.
        is_second: Measure a served model a second time.
    """
    if is_endpoint(name):
        with scoring_unless_cached(name, probe) as progress:
            from forgetwatch.endpoint.served import score_endpoint

            return score_endpoint(
                name,
                probe,
                loading=loading,
                progress=progress,
                answers=answers,
                is_second=is_second,
            )
    check_scheme(name)
    announce_import()
    with scoring_unless_cached(name, probe) as progress:
        # Not at the top: this imports torch, which comparing files does not need.
        from forgetwatch.scoring.cached_score import score_checkpoint
        from forgetwatch.scoring.model_loading import silence_loading

        silence_loading()
        return score_checkpoint(name, probe, loading=loading, progress=progress, answers=answers)


def fitted(probe: Probe, base: str, *, loading: Loading = Loading(), run: str | Path = "") -> Probe:
    """Choose the list of the ladder, and the rendering of open questions.

    Args:
        probe: The probe.
        base: What comparisons begin with: a model, or its outcomes.
        loading: How the model is loaded.
        run: A folder that may hold a run, whose list is taken if it has one.

    Raises:
        ProbeError: If outcomes are given that were measured with another probe.
    """
    of_run = run_probe(run) if run and is_run_folder(run) else None
    if probe.may_chat:
        of_base = read_outcomes(Path(base)).meta.get("probe") if is_outcomes(base) else None
        measured = (of_base or {}).get("fingerprint") if of_run is None else of_run.fingerprint
        probe = as_measured(probe, measured)
        if probe.may_chat and of_base is None:
            probe, line = rendered(probe, lambda tried: resolve(base, tried, loading=loading))
            if line:
                echo(line, err=True)
    if not is_trial(probe):
        return probe
    earlier = "" if of_run is None else of_run.name
    if not is_list(earlier) and is_outcomes(base):
        earlier = str((read_outcomes(Path(base)).meta.get("probe") or {}).get("name"))
        if not is_list(earlier):
            raise ProbeError(
                f"{base}: outcomes of {earlier}; needed those of a list of the ladder, or a model"
            )
    suitable = probe_fitted(
        probe, lambda tried: resolve(base, tried, loading=loading), earlier=earlier
    )
    echo(f"ladder: {suitable.name}", err=True)
    return suitable


def with_questions(
    changed: list[Flip], log: str, snapshot: Snapshot, metric: str | None
) -> list[Flip]:
    """Add the text of questions from another tool's log.

    The log is that of the side before: as it was given, the snapshot that was read from it, and by
    which metric.
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
    if "tool" not in snapshot.meta or not Path(log).exists() or all(flip.item for flip in changed):
        return changed
    listed = {
        change: [flip for flip in sort_flips(changed) if flip.what == change][:_QUESTIONS]
        for change in get_args(What)
    }
    store = QuestionStore(
        flip.content_hash for some in listed.values() for flip in some if flip.content_hash
    )
    with bytes_bar(f"reading questions in {log}") as progress:
        load_snapshot(log, metric=metric, progress=progress, kept=store)

    def text_of(flip: Flip) -> QuestionText | None:
        text = store.texts.get(flip.content_hash or "")
        # A log may list options that the model was not offered: an open answer has none.
        return replace(text, choices=()) if text is not None and flip.k is None else text

    return [replace(flip, item=flip.item or text_of(flip)) for flip in changed]

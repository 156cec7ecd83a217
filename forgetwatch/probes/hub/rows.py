"""The rows of a data set, from the hub, from its cache, or from a folder of copies.

Only this module outside the scoring packages imports `datasets`, and only when rows are read: everything else of a
probe works without it. No code of a data set is executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from forgetwatch.errors import ProbeError
from forgetwatch.probes.hub.preset import Source

_SWITCHES: Final = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""Environment variables that switch the hub off."""


def rows_of(
    source: Source, *, split: str | None = None, root: str | Path | None = None, revision: str | None = None
) -> Iterable[Mapping[str, Any]]:
    """The rows of a source's split, or of another split of its data set, in their order.

    Args:
        source: The data set, config and split.
        split: Another split of it, such as that of its worked examples.
        root: A folder with copies of data sets under their ids, such as ``root/cais/mmlu``, in place of the hub.
        revision: Commit, tag or branch, in place of the source's.
    """
    split = split or source.split
    where = f"{source.dataset}{f' ({source.config})' if source.config else ''}, split {split}"
    if root is not None and not (Path(root) / source.dataset).is_dir():
        raise ProbeError(f"{where}: needed the folder {Path(root) / source.dataset}, a copy of the data set")
    try:
        import datasets
    except ImportError as error:
        raise ProbeError(f"{where}: needs the package datasets; pip install forgetwatch[train]") from error
    config, data_files = source.config, None
    if source.files:
        config, data_files = None, {split: source.files.format(split=split)}
    load = partial(datasets.load_dataset, name=config, split=split, data_files=data_files)
    try:
        if root is None:
            return cast("Iterable[Mapping[str, Any]]", load(source.dataset, revision=revision or source.revision))
        # The cache of `datasets` does not see that a local file has changed: each copy is read afresh.
        with TemporaryDirectory() as cache, _quiet(datasets):
            return list(cast("Iterable[Mapping[str, Any]]", load(str(Path(root) / source.dataset), cache_dir=cache)))
    except Exception as error:  # the hub's client raises what its own libraries raise
        raise ProbeError(f"{where}: {_reason(error, source, local=root is not None)}") from error


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Switch progress bars off: local copies load in no time."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _reason(error: Exception, source: Source, *, local: bool) -> str:
    """The cause of a failed load, and the remedy."""
    kind, said = type(error).__name__, " ".join(str(error).split())
    page = f"huggingface.co/datasets/{source.dataset}"
    if local:
        return f"the copy cannot be read ({said[:200]}); it must hold its README.md and data as the hub has them"
    if "gated" in said.lower() or kind == "GatedRepoError" or "401" in said or "403" in said:
        return f"gated: accept its terms at {page}, then log in with `hf auth login` or set HF_TOKEN"
    if "BuilderConfig" in said or "Unknown split" in said:
        return f"no such config or split ({said[:200]}); the data set may have changed: name a revision"
    if any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in _SWITCHES):
        return (
            "it is not in the cache, and the hub is switched off (HF_HUB_OFFLINE); load it once with network, or give "
            "root=, a folder of copies"
        )
    if isinstance(error, ConnectionError) or "connect" in said.lower() or "resolve" in said.lower():
        return "the hub cannot be reached, and it is not in the cache; load it once with network, or give root="
    if kind == "DatasetNotFoundError":
        return f"the hub has no such data set, or it is gated; see {page}, `hf auth login`, HF_TOKEN"
    return f"it cannot be loaded ({kind}: {said[:200]})"

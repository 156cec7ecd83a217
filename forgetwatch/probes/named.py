"""A probe by its name, from a file, or from a table of questions: `load_probe`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Final, get_args

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.extras import install
from forgetwatch.files.json_pieces import begins_json
from forgetwatch.files.reading import file_errors, open_plain, read_head, table_suffix
from forgetwatch.item import Rendering, has_one_choice_alone
from forgetwatch.loading import LFS
from forgetwatch.probe import Norm, Probe, combine, read_probe
from forgetwatch.probes.answer_key import Key
from forgetwatch.probes.harness import (
    PREFIX,
    harness_probe,
    is_harness_name,
    is_installed,
)
from forgetwatch.probes.ladder import is_list, is_trial, suitable_list, without_trial
from forgetwatch.probes.question_table import probe_from
from forgetwatch.probes.row_files import SUFFIXES
from forgetwatch.probes.shipped_probes import (
    LADDER,
    NAMES,
    demo_probe,
    shipped_probe,
)
from forgetwatch.probes.task_sequence import combine_tasks
from forgetwatch.probes.wordings import AskedIn, worded
from forgetwatch.progress import log
from forgetwatch.snapshot import Snapshot

_LOCAL_NAMES: Final = (*NAMES, "demo")


def load_probe(
    name: str | Path | Iterable[Mapping[str, Any]],
    *,
    shots: int | None = None,
    limit: int | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    key: Key | None = None,
    rows: str | None = None,
    header: Sequence[str] | None = None,
    data: str | Path | None = None,
    norm: Norm | None = None,
    metric: str | None = None,
    rendering: Rendering | None = None,
) -> Probe:
    """Load a probe by name, from a file, or from rows.

    Args:
        name: A shipped probe, a task of lm-evaluation-harness
            (``lm_eval:arc_easy``), a file of items or rows, or the rows: a list of dicts, a
            `datasets.Dataset`. With ``@one`` or ``@each`` at its end, in several wordings
            (`probes.wordings`).
        shots: For tasks of the harness: worked examples before each question.
        limit: Maximum number of items: the first ones; ``standard:100+conduct:50`` names them too.
        columns: For a table of questions: what its columns are for, as in ``{"prompt": "frage"}``.
        key: For a table of questions: how its answers name options.
        rows: For a JSON document: path of its rows, such as ``test``.
        header: For a table without a header: names of its columns.
        data: For tasks of the harness: a folder with a JSONL file for each split, in place of the
            hub.
        norm: For tasks of the harness: divisor of an option's log-likelihood; ``chars`` for its
            `acc_norm`.
        metric: For tasks of the harness: the metric that decides generated answers.
        rendering: ``plain`` or ``chat`` for all its questions; None for that of the file, or as
            `probes.open_rendering` decides.

    Raises:
        ProbeError: If there is no probe of that name, or it cannot be read.
    """
    table = {"columns": columns, "key": key, "rows": rows, "header": header}
    name, wordings = split_asked(name)
    if limit is not None and limit < 1:
        raise ProbeError(f"{name}: limit must be at least 1 item, got {limit}")
    if isinstance(name, str) and is_harness_name(name) and not Path(name).exists():
        _refuse_plan(name, table)
        probe = harness_probe(
            name, data=data, norm=norm or "sum", shots=shots, limit=limit, metric=metric
        )
    elif any(option is not None for option in (data, norm, shots, metric)):
        raise ProbeError(
            f"{name}: data, norm, shots and metric are for tasks of lm-evaluation-harness, such "
            "as lm_eval:arc_easy"
        )
    else:
        probe = _local(name, table)
        probe = probe if limit is None else probe.head(limit)
    if rendering is not None:
        probe = replace(probe, rendering=rendering, may_chat=False)
    if wordings is None:
        return probe
    asked = worded(probe, wordings)
    if without := sum(not item.wording for item in asked):
        log(
            f"{asked.name}: {without:,} of {len(probe):,} questions have no other wording, and are "
            "asked as they are"
        )
    return asked


def split_asked(name: str | Path | Iterable[Mapping[str, Any]]) -> tuple[Any, AskedIn | None]:
    """Split ``@one`` or ``@each`` from a name.

    Returns:
        The name, and the suffix; None without a suffix, and for a file.
    """
    if isinstance(name, (str, Path)) and not Path(name).is_file():
        for suffix in get_args(AskedIn):
            if str(name).endswith(f"@{suffix}"):
                return str(name).removesuffix(f"@{suffix}"), suffix
    return name, None


def load_tasks(probes: Mapping[str, Probe | str | Path] | str | Path) -> Probe:
    """Load a probe for each task of a sequence of trainings.

    As one probe; see `probes.categories`.

    Tasks of a folder that cannot be graded are left out, with a line in the log.

    Raises:
        ProbeError: If a named probe cannot be loaded, two cannot be evaluated together, or no task
            is left.
    """
    combined, notes = combine_tasks(probes, lambda name: without_trial(load_probe(name)))
    for note in notes:
        log(note)
    return combined


def fitted(probe: Probe, answers: Callable[[Probe], Snapshot], *, earlier: str = "") -> Probe:
    """Choose the list of the ladder; any other probe is unchanged.

    Args:
        probe: Any probe.
        answers: As in `probes.ladder.suitable_list`.
        earlier: Name of the probe of an earlier run or measurement, whose list is taken if it is
            one.
    """
    if not is_trial(probe):
        return probe
    return load_probe(earlier if is_list(earlier) else suitable_list(probe, answers))


def _local(name: str | Path | Iterable[Mapping[str, Any]], table: Mapping[str, Any]) -> Probe:
    if not isinstance(name, (str, Path)):
        return probe_from(name, **table)
    path = Path(name)
    if path.is_file():
        _check_kind(path)
    if path.is_file() and not _is_probe_file(path):
        return probe_from(path, **table)
    _refuse_plan(name, table)
    if path.is_file():
        return read_probe(path)
    _refuse_path(name, path)
    parts = str(name).split("+")
    if LADDER in str(name).replace(":", "+").split("+") and str(name) != LADDER:
        raise ProbeError(
            f"{name}: needed a list of the ladder beside another probe or a number, such as "
            f"{str(name).replace(LADDER, 'ladder-2')}"
        )
    if len(parts) > 1 and not path.suffix:  # each with a number of its own
        return reduce(combine, [_local(part, table) for part in parts])
    whole, _, count = str(name).rpartition(":")
    if whole and count.isdecimal() and int(count):
        return _local(whole, table).head(int(count))
    if name not in _LOCAL_NAMES:
        near = did_you_mean(str(name), _LOCAL_NAMES)
        near += "; @one or @each ends a name" if "@" in str(name) else ""
        raise ProbeError(
            f"{name}: no such file, and no such shipped probe{near}; needed "
            f"{', '.join(_LOCAL_NAMES)}, a file of items "
            f"or rows, or a task of lm-evaluation-harness with its prefix, such as {PREFIX}arc_easy"
            + ("" if is_installed() else f", which needs {install('lm_eval')}")
        )
    return demo_probe() if name == "demo" else shipped_probe(str(name))


def _refuse_path(name: str | Path, path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ProbeError(
            f"{path}: needed a regular file of items or rows, got a pipe or device; write it to "
            "a file first"
        )
    if path.is_dir() and str(name) not in NAMES:
        remedy = (
            f" that datasets.save_to_disk wrote; datasets.load_from_disk({str(path)!r})"
            ".to_parquet('questions.parquet') writes one file"
        )
        is_saved = (path / "dataset_info.json").is_file()
        raise ProbeError(f"{path}: needed a file of items or rows, got a folder{remedy * is_saved}")


def _refuse_plan(name: str | Path, table: Mapping[str, Any]) -> None:
    if given := [option for option, value in table.items() if value]:
        raise ProbeError(
            f"{name}: needed a table of questions for {', '.join(given)}, and this is not one"
        )


def _check_kind(path: Path) -> None:
    with file_errors(path, "a probe or a table of questions", ProbeError):
        head = read_head(path)
    if head.startswith(LFS):
        raise ProbeError(f"{path}: a Git LFS pointer, not the data; fetch it with `git lfs pull`")
    if table_suffix(path) not in SUFFIXES and not begins_json(head):
        raise ProbeError(
            f"{path}: needed a probe in JSONL, or a table of questions in CSV, TSV, JSON, JSONL or "
            f"Parquet, got a file of another kind ({path.suffix or 'no suffix'})"
        )


def _is_probe_file(path: Path) -> bool:
    # A table of questions is none.
    if table_suffix(path) in (".csv", ".tsv", ".json", ".parquet"):
        return False
    with file_errors(path, "a probe or a table of questions", ProbeError), open_plain(path) as file:
        line = next((line for line in file if line.strip()), b"")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return True  # reading it as a probe gives the error with its line
    if not isinstance(row, dict) or "forgetwatch_probe" in row:
        return True
    return {"id", "task", "prompt"} <= set(row) and ("answer" in row or has_one_choice_alone(row))

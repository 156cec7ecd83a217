"""Options that commands share, and the files that they write; all are checked before the work.

A path to write is refused if its folder is missing, if it is a folder, if its suffix is that of
another format, if it is a file that the command reads, or if there is a file that forgetwatch did
not write in this format. The path ``-`` is standard output.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.errors import GateError, ScoringError, SnapshotError
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule, threshold_of
from forgetwatch.policy.policy import READY, Policy, limits_of, parse_no_worse_than, parse_share
from forgetwatch.progress import launched_count
from forgetwatch.snapshot import is_snapshot

ITEMS: Final = "Items"
item_option = partial(typer.Option, rich_help_panel=ITEMS)
chance_option = partial(typer.Option, rich_help_panel="Chance (the tables show it with --detail)")
gate_option = partial(typer.Option, rich_help_panel="Gates")
output_option = partial(typer.Option, rich_help_panel="Output")
"""Options under the headings by which `--help` lists those of a command with many."""

JsonOption = Annotated[
    Path | None,
    output_option("--json", help="Write all numbers as JSON to this file; - for stdout."),
]
ReportOption = Annotated[
    Path | None, output_option("--output", "-o", help="Write a report: .html, .md, .csv or .json.")
]
FailIfOption = Annotated[
    list[str] | None,
    gate_option(
        help="Exit with status 3 if this surely holds, with 4 if that is not clear, such as category:*.forgetting>5%; "
        "may be repeated."
    ),
]
NoWorseThanOption = Annotated[
    str | None,
    gate_option(
        help="Exit with status 3 if accuracy fell by more than this (2%), with 4 if that is not clear; "
        "2%,known=5%,category=5% also limits what is lost of the clearly known, and in each "
        "category."
    ),
]
PolicyOption = Annotated[
    str | None, gate_option(help=f"Policy: a YAML file, or a shipped one: {', '.join(READY)}.")
]
ToleranceOption = Annotated[
    str | None,
    gate_option(
        help="Losses that the verdict tolerates, as for --no-worse-than; default: the limits', else "
        "2%,known=5%,category=5%."
    ),
]

RightIfOption = Annotated[
    str | None,
    item_option(help='Scores that count as right, as "score>=0.7". Default: the upper half.'),
]
ScaleOption = Annotated[
    str | None, item_option(help="Lowest and highest possible score, as 0,10. Default: 0,1.")
]
LowerOption = Annotated[
    bool,
    item_option(
        "--lower-is-better", help="A high score is bad, as where 1 is an attack that succeeded."
    ),
]
UnscoredIfOption = Annotated[
    list[str] | None,
    item_option(help="field=value: such rows have no outcome, as status=error; may be repeated."),
]

STDOUT: Final = Path("-")

TrustOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")
]
ConcurrencyOption = Annotated[
    int, typer.Option(min=1, help="Questions that a served model is asked at once.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Agree to the fee of a served model at https://.")
]
DeviceMapOption = Annotated[
    Literal["auto"] | None,
    typer.Option(
        help="Spread a scored model that is larger than one GPU over all GPUs, then the CPU and the disk."
    ),
]


def outcome_rule(
    right_if: str | None,
    scale: str | None,
    lower_is_better: bool,
    unscored_if: Sequence[str] | None,
) -> OutcomeRule:
    """Rule by which outcomes between wrong and right are read.

    Raises:
        typer.BadParameter: If an option cannot be read.
    """
    if wrong := next((text for text in unscored_if or () if "=" not in text), None):
        raise typer.BadParameter(f"--unscored-if {wrong}: needed field=value, as status=error")
    at = {}
    try:
        low, high = map(float, (scale or "0,1").split(","))
        if right_if is not None:
            at = threshold_of(right_if, lower_is_better=lower_is_better)
        return OutcomeRule(
            scale=(low, high),
            lower_is_better=lower_is_better,
            unscored_if=tuple(text.partition("=")[::2] for text in unscored_if or ()),
            **at,
        )
    except (ValueError, SnapshotError) as error:
        raise typer.BadParameter(
            f"--right-if {right_if}: {error}" if at or right_if else f"--scale {scale}: {error}"
        ) from None


def outcome_options(
    rule: OutcomeRule, metric: str | None, *, probe: str | None = None, tasks: Sequence[str] = ()
) -> list[str]:
    """Words of a command that reads the same outcomes."""
    low, high = rule.scale
    values = {
        "--probe": probe,
        "--metric": metric,
        "--right-if": None if rule.threshold is None else rule.right_if,
        "--scale": None if rule.scale == UPPER_HALF.scale else f"{low:g},{high:g}",
    }
    options = ["--lower-is-better"] if rule.lower_is_better else []
    options += [word for of in rule.unscored_if for word in ("--unscored-if", "=".join(of))]
    options += [
        word for name, value in values.items() if value is not None for word in (name, value)
    ]
    return options + [word for name in tasks for word in ("--task", name)]


def check_device_map(device_map: str | None) -> None:
    """Refuse a device map in several processes, which share no GPUs."""
    # The launcher's variable: no process group exists yet.
    if device_map is not None and (count := launched_count()) > 1:
        raise ScoringError(
            f"--device-map spreads one model over all GPUs; needed one process, got {count}"
        )


def share(text: str, option: str) -> float:
    """Read a share from 0 to 1, written as 2% or 0.02."""
    try:
        return parse_share(text, option)
    except GateError as error:
        raise typer.BadParameter(str(error)) from None


def limits(
    *, fail_if: Sequence[str] | None, no_worse_than: str | None, policy: Policy | None = None
) -> Policy | None:
    """Combine the limits of several options.

    Returns:
        The policy, or None without limits.

    Raises:
        typer.BadParameter: If one of them cannot be read.
    """
    if not fail_if and no_worse_than is None:
        return policy
    with _usage(
        "--fail-if" if no_worse_than is None else "--no-worse-than" if not fail_if else "limits"
    ):
        return limits_of(fail_if=fail_if or (), no_worse_than=no_worse_than, policy=policy)


def tolerated(text: str | None) -> Tolerance:
    """Losses that a verdict tolerates: --tolerance, or the default."""
    with _usage("--tolerance"):
        return TOLERANCE if text is None else replace(TOLERANCE, **parse_no_worse_than(text))


@contextmanager
def _usage(option: str) -> Iterator[None]:
    try:
        yield
    except GateError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


MARK: Final = "<!-- forgetwatch -->"
"""Last line of a Markdown file of a command."""

_HEAD: Final = 1000
"""Bytes at the start of a file by which its writer is recognised."""


def check_distinct(*paths: Path | None) -> None:
    """Refuse two outputs of one name."""
    outputs = [path.absolute() for path in paths if path is not None and path != STDOUT]
    if twice := next((path for path in outputs if outputs.count(path) > 1), None):
        raise typer.BadParameter(
            f"{twice}: two outputs have this name, and one would be lost; give one another name"
        )


def check_rows(path: Path) -> None:
    """Refuse to replace a file at the path of training rows.

    Such a file has no mark of its writer.
    """
    if path.suffix != ".jsonl":
        raise typer.BadParameter(f"--output {path}: needed a name that ends in .jsonl")
    if path.is_file() and path.stat().st_size:
        raise SnapshotError(f"{path}: there is a file already; move it away, or give another name")
    check_output(path, "a file of rows")


def check_comment(path: Path | None, inputs: Iterable[object] = ()) -> None:
    """Check the path of a Markdown file that receives a comment."""
    read = [Path(str(read_paths)) for read_paths in inputs if read_paths is not None]
    is_there = path is not None and path.suffix == ".md" and path.is_file()
    if not is_there or any(
        path_read.is_file() and path_read.samefile(str(path)) for path_read in read
    ):
        check_output(path, "a comment", read)


def check_pictures(folder: Path | None) -> None:
    """Check a folder of pictures, which may be missing."""
    if folder is None:
        return
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not above.is_dir():
        raise SnapshotError(f"{folder}: needed a folder for the pictures, and {above} is a file")


def check_study(folder: Path) -> None:
    """Check the folder of a study.

    The folder is missing, empty, or holds an earlier study.
    """
    check_pictures(folder)
    numbers = folder / "study.json"
    is_empty = not folder.exists() or not any(folder.iterdir())
    # A study that was stopped has scored models, and no numbers yet.
    if not is_empty and not (
        _is_own(numbers, "a JSON document") or (folder / "snapshots").is_dir()
    ):
        raise SnapshotError(
            f"{folder}: contains files that no study wrote; name an empty folder with --output"
        )


_SUFFIXES: Final = {
    **dict.fromkeys(("a list of items", "a probe", "a file of rows"), (".jsonl",)),
    "a JSON document": (".json",),
    "a snapshot": (".parquet",),
    "a comment": (".md",),
    "a report": (".html", ".md", ".csv", ".json"),
}
"""Endings of the names of each kind of output; that of a report decides its format."""


def check_output(
    path: Path | None, what: str, inputs: Iterable[object] = (), *, kind: str = ""
) -> None:
    """Check the path of an output.

    Args:
        path: The path; None for no output.
        what: What is written, one of `_SUFFIXES`.
        inputs: What the command reads: none of these files is overwritten.
        kind: Kind of JSON document, such as ``gate``: one of another kind is not replaced.

    Raises:
        SnapshotError: If the path cannot be written to, or has what forgetwatch did not write.
    """
    if path is None or path == STDOUT:
        return
    suffixes = _SUFFIXES[what]
    if path.suffix not in suffixes:
        formats = ", ".join(suffixes[:-1]) + (" or " if suffixes[:-1] else "") + suffixes[-1]
        raise SnapshotError(f"{path}: {what} ends in {formats}; give it another name")
    if path.is_dir():
        raise SnapshotError(f"{path}: needed a file to write to, and this is a folder")
    if not path.absolute().parent.is_dir():
        raise SnapshotError(
            f"{path}: needed a folder that exists, and {path.parent} does not; make it first"
        )
    if not path.exists():
        return
    for path_read in inputs:
        if (
            path_read is not None
            and Path(str(path_read)).is_file()
            and path.samefile(str(path_read))
        ):
            raise SnapshotError(
                f"{path}: the command reads this file, and would overwrite it; give it another name"
            )
    if not _is_own(path, kind or what):
        raise SnapshotError(
            f"{path}: there is a file that is not {what} of forgetwatch{kind and f' ({kind})'}; "
            "move it away, or give another name"
        )


def _is_own(path: Path, what: str) -> bool:
    try:
        if path.is_file() and not path.stat().st_size:
            return True
        return path.is_file() and _OWN[path.suffix](path, what)
    except (OSError, pa.ArrowException):
        return False


def _is_json(path: Path, what: str) -> bool:
    kind = "" if " " in what else what
    return _begins(rf'\A\s*\{{\s*"schema": "forgetwatch/{kind}')(path, what)


def _begins(*patterns: str) -> Callable[[Path, str], bool]:
    def is_own(path: Path, _: str) -> bool:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
        return any(re.search(pattern, head) is not None for pattern in patterns)

    return is_own


def _lines(path: Path, what: str) -> bool:
    return _begins(r"\A\{\"forgetwatch_probe\": " if what == "a probe" else r"\A\{\"what\": ")(
        path, what
    )


def _ends_in_mark(path: Path, _: str) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - len(MARK) - 2, 0))
        return file.read().decode("utf-8", "replace").rstrip().endswith(MARK)


_OWN: Final[Mapping[str, Callable[[Path, str], bool]]] = {
    ".html": _begins(r'<meta name="generator" content="forgetwatch '),
    ".json": _is_json,
    ".md": _ends_in_mark,
    ".csv": _begins(r"\Abefore,after,level,name,", r"\Aprobe,alpha,before,after,"),
    ".jsonl": _lines,
    ".parquet": lambda path, _: is_snapshot(pq.read_schema(path)),
}

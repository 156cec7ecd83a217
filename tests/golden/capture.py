"""What forgetwatch puts out for the golden inputs, as text of equal form on every machine.

Users' entry points make all of it: the command line, `compare`, `Trajectory` and what a notebook shows of them. What
has no such way (rows of a tracker, figures) is taken in one function each.
"""

import csv
import hashlib
import json
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from typer.testing import CliRunner

from forgetwatch import Comparison, Trajectory, compare
from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError

MOST = 4
"""Changed items of a page that are kept in full."""
OUTPUTS = Path(__file__).parent / "outputs"
WIDTH = 110
"""Columns of the lists of numbers that documents and tables are written as."""


@dataclass(frozen=True)
class Case:
    """One call of the command line whose outputs are kept.

    Attributes:
        sides: BEFORE and the AFTERs of `compare`, or the run folders of `report`.
        options: Options of the command.
        settings: The same for `compare` in Python; None if a tracker and a notebook do not show it.
        flips: Options of `flips`; None for none.
        gates: Options of gates, each set judged on its own.
        extra: Further options of tables, each set printed on its own.
        whole: Keep all that is put out. Otherwise documents and tables of numbers are left out, and the fixed text of a
            page is kept as a digest.
    """

    sides: tuple[str, ...]
    options: tuple[str, ...] = ()
    settings: dict[str, Any] | None = field(default_factory=dict)
    flips: tuple[str, ...] | None = ()
    gates: tuple[tuple[str, ...], ...] = ()
    extra: tuple[tuple[str, ...], ...] = ()
    whole: bool = False


def _pair(name: str) -> tuple[str, str]:
    return f"{name}-base.parquet", f"{name}-tuned.parquet"


COMPARISONS = {
    "choices": Case(
        ("base.parquet", "tuned.parquet"),
        ("--probe", "colours.jsonl", "--repeat", "again.parquet"),
        {"repeat": "again.parquet"},
        ("--probe", "colours.jsonl"),
        gates=(
            ("--no-worse-than", "2%"),
            ("--fail-if", "category:Math.forgetting>5%", "--fail-if", "all.gained>=200"),
        ),
        extra=(
            ("--by", "task", "--detail", "--tolerance", "10%"),
            ("--by", "all", "--detail", "--task", "math-0", "--task", "law"),
            ("--chance", "paper-compat", "--detail"),
        ),
        whole=True,
    ),
    "letters": Case(_pair("letters"), gates=(("--no-worse-than", "2%", "--tolerance", "5%"),)),
    "written": Case(
        _pair("written"),
        ("--probe", "written.jsonl", "--repeat", "written-again.parquet"),
        {"repeat": "written-again.parquet"},
        ("--probe", "written.jsonl"),
    ),
    "passages": Case(_pair("mixed"), gates=(("--fail-if", "bits_per_byte_change>0.01"),)),
    "texts": Case(_pair("texts"), flips=None),
    "clusters": Case(
        _pair("clusters"), ("--categories", "labels.csv"), extra=(("--by", "task", "--detail"),)
    ),
    "samples": Case(_pair("samples"), extra=(("--samples", "first", "--detail"),)),
    "harness": Case(
        ("harness-base", "harness-tuned"),
        ("--metric", "acc_norm"),
        {"metric": "acc_norm"},
        ("--metric", "acc_norm"),
    ),
    "vanished": Case(
        _pair("gone"), gates=(("--no-worse-than", "2%"), ("--fail-if", "newly_unscored>5"))
    ),
    "unlike_items": Case(
        ("one.csv", "two.csv"), ("--on-mismatch", "intersect"), {"on_mismatch": "intersect"}, None
    ),
    "several": Case(
        ("start.parquet", "mild.parquet", "strong.parquet", "ruined.parquet"),
        ("--target", "target.csv"),
        None,
        None,
        gates=(("--no-worse-than", "5%"),),
    ),
}
RUNS = {
    "budget": Case(("budget",), whole=True),
    "plain": Case(("plain",), extra=(("--tolerance", "20%"),)),
    "stages": Case(("plain", "stage2"), settings=None, flips=None),
}
CASES = (*COMPARISONS, *RUNS)


def capture(case: str, folder: Path) -> dict[str, str]:
    """Outputs of one case by file name.

    Args:
        case: One of `CASES`.
        folder: A folder with the inputs; files are written there.
    """
    for path in folder.glob("out.*"):  # no output replaces one of another kind
        path.unlink()
    with chdir(folder), warnings.catch_warnings():
        made = _comparison(COMPARISONS[case]) if case in COMPARISONS else _run(RUNS[case])
    made = {name: _plain(text) for name, text in made.items()}
    if case in RUNS:  # the document has these numbers of the last look
        made["csv.txt"] = f"{_digest(made['csv.txt'])}\n"
    return made if {**COMPARISONS, **RUNS}[case].whole else _cut(made)


def golden(case: str) -> dict[str, str]:
    """The stored outputs of one case by file name."""
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted((OUTPUTS / case).glob("*"))
    }


# Entry points


def _comparison(case: Case) -> dict[str, str]:
    made = _shown("compare", case)
    for number, options in enumerate(case.gates, 1):
        made[f"gate-{number}.txt"] = _called(
            "compare", *case.sides, *case.options, *options, table=False
        )
    if case.flips is not None:
        made["flips.txt"] = _flips(*case.sides, *case.flips, whole=case.whole)
    if case.settings is not None:
        comparison = compare(before=case.sides[0], after=case.sides[1], **case.settings)
        made["notebook.txt"] = f"{comparison}\n"
        made["tracker.txt"] = _tracked(comparison)
    return made


def _run(case: Case) -> dict[str, str]:
    made = _shown("report", case)
    if case.flips is not None:
        made["flips.txt"] = _flips(*case.sides, "--sort", "first", whole=case.whole)
    if case.settings is not None:
        trajectory = Trajectory.from_run(case.sides[0])
        made["notebook.txt"] = f"{trajectory}\n"
        made["tests.txt"] = "".join(f"{test}\n" for test in trajectory.verdicts())
        looks = zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True)
        rows = [f"step {step}\n{_tracked(one, full=False)}" for step, one in looks]
        rows.append(f"the last\n{_tracked(trajectory.comparisons[-1], trajectory=trajectory)}")
        made["tracker.txt"] = "".join(rows)
    return made


def _shown(command: str, case: Case) -> dict[str, str]:
    """Tables and documents of `compare` or `report`."""
    given = (command, *case.sides, *case.options)
    made = {"table.txt": _called(*given, "-o", "out.md"), "report.md": Path("out.md").read_text()}
    with _figures() as drawn:
        made["detail.txt"] = _called(*given, "--detail", "--json", "out.json", "-o", "out.html")
    made["page.html"], made["figures.txt"] = _html(Path("out.html").read_text()), "".join(drawn)
    made["document.txt"] = _document(Path("out.json").read_text())
    _called(*given, "-o", "out.csv")
    made["csv.txt"] = _table(Path("out.csv").read_text())
    for number, options in enumerate(case.extra, 1):
        made[f"table-{number}.txt"] = _called(*given, *options)
    if (
        command == "compare" and case.whole
    ):  # once as in a terminal, which is wider, with its styles
        wide = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "100"}
        made["terminal.txt"] = _called(*given, env=wide).replace("\x1b", "\\x1b")
        made["document.txt"] += (
            _document(_called(*given, "--json", "-")).partition("\n")[0] + " on standard output\n"
        )
    return made


def _flips(*given: str, whole: bool) -> str:
    parts = []
    for what in ("forgotten", "known_lost", "gained", "churned") if whole else ("forgotten",):
        parts.append(f"--what {what}\n{_called('flips', *given, '--what', what, '--limit', '3')}")
    lines = _called("flips", *given, "--limit", "4", "--jsonl", "-")
    return "".join(parts) + f"--jsonl\n{lines}"


def _called(*arguments: str, table: bool = True, env: dict[str, str] | None = None) -> str:
    """What a call of the command line prints: its table, or else its exit status, last line and standard error."""
    plain = {"COLUMNS": "100", "GITHUB_STEP_SUMMARY": "", "FORGETWATCH_TRACEBACK": ""}
    colours = dict.fromkeys(
        ("FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    )
    done = CliRunner().invoke(app, list(arguments), env={**colours, **plain, **(env or {})})
    if isinstance(done.exception, ForgetwatchError):
        return f"refused: {done.exception}\n"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if not table:
        return f"exit {done.exit_code}\n{done.stdout.splitlines()[-1]}\n{done.stderr}"
    assert done.exit_code == 0, done.output
    return done.stdout


def _tracked(
    comparison: Comparison, *, full: bool = True, trajectory: Trajectory | None = None
) -> str:
    """Rows of a tracker: by default one ``name value`` a line, and in full a line for each quantity of all groups."""
    from forgetwatch.report.tracker_rows import tracker_row

    text = "".join(
        f"{name} {_number(value)}\n" for name, value in tracker_row(comparison, seconds=1.5).items()
    )
    if not full:
        return text
    of: dict[str, dict[str, str]] = {}
    for name, value in tracker_row(
        comparison, seconds=1.5, full=True, trajectory=trajectory
    ).items():
        group, _, quantity = name.rpartition("/")
        of.setdefault(group, {})[quantity] = _number(value)
    names = dict.fromkeys(name for group in of.values() for name in group)
    lines = [
        f"{name}: {_wrapped([group.get(name, '-') for group in of.values()])}\n" for name in names
    ]
    return f"{text}full, of {' '.join(of)}\n{''.join(lines)}"


# Form of the outputs


def _plain(text: str) -> str:
    """Text without what differs from call to call: the date and version of a page, digits beyond the ninth."""
    text = re.sub(
        r"Made by forgetwatch \S+ on [\d-]+ [\d:]+ UTC", "Made by forgetwatch VERSION on DATE", text
    )
    text = re.sub(r'content="forgetwatch [^"]*"', 'content="forgetwatch VERSION"', text)
    text = re.sub(r"-?\d+\.\d{7,}(e[+-]?\d+)?", lambda found: _number(float(found[0])), text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _number(value: object) -> str:
    """A value as JSON, a float with 9 significant digits."""
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(f"{value:.9g}"))
    return json.dumps(value, ensure_ascii=False)


def _document(text: str) -> str:
    """A JSON document as one list of values for each path, the elements of a list of objects side by side.

    A path is cut to its last name where the rest is that of the line before.
    """
    values: dict[str, list[str]] = {}

    def add(path: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for name, one in value.items():
                add(f"{path}.{name}", one)
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            for number, one in enumerate(value, 1):
                # Of all looks but the last, and of all comparisons, the groups beside the whole are a digest.
                if number < len(value) and "groups" in (of := one.get("comparison", one)):
                    of["groups"][1:] = [
                        {"digest": _digest(_document(json.dumps(of["groups"][1:])))}
                    ]
                add(f"{path}[]", one)
        else:
            shown = (
                f"[{', '.join(map(_number, value))}]" if isinstance(value, list) else _number(value)
            )
            values.setdefault(path.removeprefix("."), []).append(shown)

    add("", json.loads(text))
    lines, above = [f"{len(text.splitlines())} lines\n"], ""
    for path, some in values.items():
        parent, dot, name = path.rpartition(".")
        shown = f"{dot}{name}" if parent == above else path
        lines.append(f"{shown}: {_wrapped(some)}\n")
        above = parent
    return "".join(lines)


def _table(text: str) -> str:
    """A CSV table as one list of values for each column."""
    header, *rows = csv.reader(text.splitlines())
    columns = zip(header, zip(*rows, strict=True), strict=True)
    return "".join(
        f"{name}: {_wrapped([value or '-' for value in some])}\n" for name, some in columns
    )


def _wrapped(values: list[str]) -> str:
    lines = [""]
    for value, equal in groupby(values):
        times = len([*equal])
        value = value if times == 1 else f"{value} ×{times}"
        if lines[-1] and len(lines[-1]) + len(value) > WIDTH:
            lines.append("")
        lines[-1] += f" {value}"
    return "\n   ".join(lines).strip()


def _cut(made: dict[str, str]) -> dict[str, str]:
    """The outputs without documents and tables of numbers, with digests in place of what other outputs hold too."""
    page, method = made["page.html"].split('<section id="method">')
    page = re.sub(
        r"(?<=>)[^<>]{150,}(?=</(?:p|figcaption)>)", lambda found: _digest(found[0]), page
    )
    numbers = ("document.txt", "csv.txt")
    made = {name: text for name, text in made.items() if name not in numbers}
    made["page.html"] = f"{page}method: {_digest(method)}\n"
    if "tracker.txt" in made:
        default, full = made["tracker.txt"].split("full, of ")
        made["tracker.txt"] = f"{default}full: {_digest(full)}\n"
    else:  # several models, or stages, whose parts are cases of their own
        head, summary, rest = page.partition('<section id="summary"')
        made["page.html"] = f"{head}{summary}: {_digest(rest)}\n"
    return made


def _digest(text: str) -> str:
    """Number of lines of a text, and a digest of it with numbers of 6 significant digits."""
    text = re.sub(r"-?\d+\.\d{6,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.6g}", text)
    return f"{len(text.splitlines())} lines {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _html(text: str) -> str:
    """HTML without pictures, style and script; titles of pictures stay, and so do the items that the script shows."""
    text = re.sub(r"<style>.*?</style>", "<style></style>", text, flags=re.DOTALL)
    text = re.sub(r"(<svg[^>]*?aria-label=\"[^\"]*\").*?</svg>", _picture, text, flags=re.DOTALL)
    text = re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL)
    text = re.sub(r"sha256-[\w+/=]+", "sha256-HASH", text)
    head, *changed = text.split('{"what":')
    shown = [head, *(f'\n{{"what":{flip}' for flip in changed[:MOST])]
    text = "".join([*shown, f"\n{_digest(''.join(changed[MOST:]))}\n" if changed[MOST:] else ""])
    cells: list[str] = []
    lines = []
    for line in text.splitlines():
        names = re.findall(r'<td data-name="(\w+)">', line)
        if names and names == cells:  # the first row of a table has the names of its cells
            line = re.sub(r'<td data-name="\w+">', "<td>", line)
        cells = names
        lines.append(f"{line}\n")
    return "".join(lines)


def _picture(found: re.Match[str]) -> str:
    label = re.search(r'aria-label="[^"]*"', found[0])
    assert label is not None
    return f"<svg {label[0]}></svg>"


@contextmanager
def _figures() -> Iterator[list[str]]:
    """Context that lists what is in each figure that is saved: words, lines, points, areas and bars; it draws none."""
    drawn: list[str] = []

    def saved(figure: Figure, file: TextIO, **_: Any) -> None:
        drawn.extend(f"{line}\n" for line in _series(figure))
        file.write("<svg></svg>")

    with patch.object(Figure, "savefig", saved):
        yield drawn


def _series(figure: Figure) -> Iterator[str]:
    for number, axes in enumerate(figure.axes, 1):
        named = (axes.get_title(), axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel())
        yield f"axes {number}: {' | '.join(named)}"
        for line in axes.lines:
            yield f"  line {_label(line)}: {_points(np.column_stack(line.get_data()))}"
        for some in axes.collections:
            offsets = np.ma.filled(some.get_offsets(), np.nan)
            points = [path.vertices for path in some.get_paths()]
            yield f"  {type(some).__name__} {_label(some)}: {_points(*(points if len(offsets) < 2 else [offsets]))}"
        for bar in axes.patches:
            box = bar.get_path().get_extents(bar.get_patch_transform())
            yield f"  bar: {_points(box.get_points())}"
        for image in axes.images:
            shades = np.ma.filled(image.get_array(), np.nan)
            yield f"  image {shades.shape}: {np.nansum(shades):.6g}"
        yield f"  words: {' | '.join(text.get_text() for text in axes.texts)}"


def _label(drawn: Artist) -> str:
    """Label of a line or an area; none where matplotlib numbers it."""
    label = str(drawn.get_label())
    return "" if label.startswith("_") else label


def _points(*some: Any) -> str:
    if not some:  # the lines of a bar of colours that has none
        return ""
    points = np.concatenate([np.asarray(one, float).reshape(-1, 2) for one in some])
    return " ".join(f"{x + 0.0:.6g},{y + 0.0:.6g}" for x, y in np.round(points, 12))


def write_golden(case: str, made: dict[str, str]) -> None:
    """Store outputs in place of the old ones of their case."""
    folder = OUTPUTS / case
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")

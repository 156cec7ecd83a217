"""`forgetwatch probe list|show|build|check|plan`: probes by name, their contents, probes of your own, and their faults.

`forgetwatch probe plan`: how many items for which change, and what a probe can see.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import set_cell_size
from rich.console import Console

from forgetwatch.cli.options import check_probe_file, item_option, share
from forgetwatch.cli.output import echo, print_hanging, print_text, result_console
from forgetwatch.comparing import ALPHA, compare
from forgetwatch.comparing.decision import LOSS, expected_verdicts
from forgetwatch.errors import ProbeError
from forgetwatch.item import PRIVATE, Item
from forgetwatch.metrics import (
    alarm_level,
    detectable_change,
    detectable_estimate,
    detectable_known_lost,
    items_needed,
)
from forgetwatch.metrics.margin_change import FEWEST_TESTED
from forgetwatch.probe import Norm, Probe
from forgetwatch.probes import (
    LADDER,
    SUFFIXES,
    Categories,
    Finding,
    Key,
    check_probe,
    load_probe,
    probe_from,
    questions_once,
    split_halves,
    training_text,
    training_texts,
)
from forgetwatch.probes.checking import overlap
from forgetwatch.readers import load_snapshot
from forgetwatch.text import brief, count, fit, percent

_FLIPS = (0.05, 0.10, 0.20)
_COLUMNS = 3
"""Shares of flips in one table; more go into another below it."""


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Numbers of items of the probe, or of one of its categories."""

    name: str
    n: int
    scored: int  # whose options get scores
    mirrored: int  # those of them with at least two wrong options, of which some can be clearly known


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Checked options of one call."""

    rows: list[_Row]  # the probe, then each category; empty without a probe or a number
    change: float
    shares: tuple[float, ...]
    power: float
    looks: int

    @property
    def groups(self) -> int:
        """Number of groups that the alarm watches."""
        return max(1, len(self.rows))

    def level(self, *, whole: bool) -> float:
        """Return the one-sided p-value at which one look alarms.

        Half of alpha for the whole, half shared by the categories.
        """
        # A single category is the whole.
        shares = self.groups > 2
        alpha = ALPHA / 2 if shares else ALPHA
        return alarm_level(1, groups=1 if whole or not shares else self.groups - 1, planned=self.looks, alpha=alpha)


def plan_command(
    probe: Annotated[str | None, typer.Option(help="Probe to judge: a name or a file.")] = None,
    number: Annotated[int | None, typer.Option("--items", help="Number of items, in place of a probe.")] = None,
    change: Annotated[str, typer.Option(help="Net change that matters, such as 2% or 0.02.")] = "2%",
    flips: Annotated[
        list[str] | None,
        typer.Option(help="Share of answers that flip either way, such as 10%; may be repeated. Default 5, 10, 20 %."),
    ] = None,
    power: Annotated[str, typer.Option(help="Probability of seeing a change that is there.")] = "80%",
    looks: Annotated[int, typer.Option(help="Looks planned in the run, for the alarm.")] = 20,
    base: Annotated[
        Path | None, typer.Option(help="Outcomes of the base: how often a training will read KEPT, or FORGOT.")
    ] = None,
) -> None:
    """Plan a probe: the items that a change needs, the smallest change that it can show, and the verdicts to expect.

    Of items whose options get scores the net change is the estimate from flips and margins. Before a run its variance
    is taken as half of that of the flips.
    """
    plan = _Plan(
        rows=_rows(probe, number),
        change=share(change, "--change"),
        shares=tuple(share(text, "--flips") for text in flips) if flips else _FLIPS,
        power=share(power, "--power"),
        looks=looks,
    )
    if plan.power < 0.5:
        raise typer.BadParameter(f"--power: needed at least 50%, got {power}")
    if looks < 1:
        raise typer.BadParameter(f"--looks: needed at least one look, got {looks}")
    console = result_console()
    for start in range(0, len(plan.shares), _COLUMNS):
        _print_table(console, plan, plan.shares[start : start + _COLUMNS])
    levels = f"alarm at each of {looks} looks: all at p {plan.level(whole=True):.2g}"
    if plan.groups > 2:
        levels += f", {plan.groups - 1} categories at p {plan.level(whole=False):.2g}"
    console.print(f"{100 * plan.power:g} % power, two-sided 5 %", style="dim")
    console.print(levels, style="dim")
    if any(row.scored for row in plan.rows):
        console.print("scored items: half of the variance of the flips is taken, the least measured", style="dim")
    if base is not None:
        print_hanging(_verdicts(base))


def _verdicts(base: Path) -> str:
    """Return the sentence on the verdicts to expect of a training of this base."""
    outcomes = load_snapshot(base)
    found = expected_verdicts(compare(before=outcomes, after=outcomes), outcomes)
    if found is None:
        return "verdicts: most answers of the base have no scores of options, from which they are simulated"
    told = f"verdicts: of {count(len(outcomes))} questions, a harmless training will read KEPT in about "
    told += f"{100 * found.kept:.0f} %"
    if found.forgot is not None:
        told += f", one that loses {100 * LOSS:g} points FORGOT in about {100 * found.forgot:.0f} %"
    return told


def _rows(probe: str | None, number: int | None) -> list[_Row]:
    """Return the items of the probe, then of each of its categories.

    A bare number is of items with scores and four options.
    """
    if probe is not None and number is not None:
        raise typer.BadParameter("--probe and --items exclude each other; give one")
    if number is not None:
        if number < 1:
            raise typer.BadParameter(f"--items: needed at least one item, got {number}")
        return [_Row(name="the probe", n=number, scored=number, mirrored=number)]
    if probe is None:
        return []
    loaded = load_probe(probe)
    items = questions_once([item for item in loaded if not item.is_passage])
    groups = [(loaded.name, items)]
    for category in dict.fromkeys(item.category for item in items if item.category):
        groups.append((category, [item for item in items if item.category == category]))
    rows = []
    for name, of_group in groups:
        # The options of a generated answer are scored next to it.
        scored = [item for item in of_group if item.choices]
        mirrored = sum(len(item.choices) - len(item.answers) >= 2 for item in scored)
        rows.append(_Row(name=name, n=len(of_group), scored=len(scored), mirrored=mirrored))
    return rows


def _print_table(console: Console, plan: _Plan, shares: Sequence[float]) -> None:
    """Print the table of some shares of flips, one column each."""

    def line(label: str, cells: Iterable[str]) -> None:
        # Room for a name of 20 and a number of 9, and for three cells of 15 in 80 columns.
        console.print(f"{set_cell_size(label, 33)} {''.join(f'{cell:>15}' for cell in cells)}", markup=False)

    def block(title: str, rows: Sequence[_Row], shown: Callable[[_Row, float], str]) -> None:
        if rows:
            console.print(title, style="bold")
        for row in rows:
            line(f"  {fit(row.name, 20)} {brief(row.n, 9):>9}", (shown(row, psi) for psi in shares))

    def net(row: _Row, psi: float) -> str:
        return _points(_detectable(row, psi, power=plan.power))

    def alarm(row: _Row, psi: float) -> str:
        # An alarm is one-sided, and its level is that of one look among all looks and groups.
        alpha = 2 * plan.level(whole=row is plan.rows[0])
        return _points(_detectable(row, psi, power=plan.power, alpha=alpha, at_look=True))

    def known(row: _Row, psi: float) -> str:
        value = detectable_known_lost(row.mirrored, psi, power=plan.power)
        return "too few flips" if math.isnan(value) else count(math.ceil(value))

    line("", (f"{100 * psi:g} % flip" for psi in shares))
    console.print(f"items for {100 * plan.change:g} points, without and with scores", style="bold")
    needed = [items_needed(plan.change, psi, power=plan.power) for psi in shares]
    line("  one comparison shows it", map(_items, needed))
    # Half the variance takes half the items.
    line("  with scores of the options", (_items(value / 2) for value in needed))
    block("smallest change that one comparison shows, points", plan.rows, net)
    block("smallest fall that one look alarms on, points", plan.rows, alarm)
    mirrored = [row for row in plan.rows if row.mirrored]
    block("fewest clearly known and lost, without lucky guesses, that it shows", mirrored, known)


def _detectable(row: _Row, psi: float, *, power: float, alpha: float = 0.05, at_look: bool = False) -> float:
    """Return the smallest net change of the items: by the estimate where all have scores, else by flips."""
    if row.scored == row.n and (not at_look or row.n >= FEWEST_TESTED):
        return detectable_estimate(row.n, psi, power=power, alpha=alpha)
    return detectable_change(row.n, psi, power=power, alpha=alpha)


def _points(value: float) -> str:
    return "too few flips" if math.isnan(value) else percent(value)


def _items(value: float) -> str:
    return "impossible" if math.isnan(value) else brief(math.ceil(value), 14)


PROBLEMS = 1

probe_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="List, show, build, check and plan probes.",
    rich_markup_mode="rich",
)

_harness_option = partial(typer.Option, rich_help_panel="Tasks of lm-evaluation-harness")
_own_option = partial(typer.Option, rich_help_panel="Rows of your own")
_check_option = partial(typer.Option, rich_help_panel="Checks")

_Shots = Annotated[int | None, _harness_option(help="Worked examples before each question.")]
_Data = Annotated[
    Path | None,
    _harness_option(help="Folder with a JSONL file for each split of the task, such as DIR/test.jsonl, for the hub."),
]
_Norm = Annotated[
    Norm | None, _harness_option(help="Divisor of an option's log-likelihood: sum for acc, chars for acc_norm.")
]
_Metric = Annotated[str | None, _harness_option(help="Metric that decides generated answers, such as exact_match.")]
_Limit = Annotated[
    int | None, item_option(min=1, help="Maximum number of items; of a benchmark, a stratified sample of its tasks.")
]


probe_app.command("plan")(plan_command)


@probe_app.command("list")
def list_command() -> None:
    """List the probes that have a name, and how to make one of your own."""
    for text, is_heading in listing():
        print_text(text, style="bold" if is_heading else "")


@probe_app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A probe's name or file; - for the map of the paper's tasks.")] = "-",
    categories: Annotated[
        bool, typer.Option("--categories", help="Write the map of tasks to categories, as CSV to edit.")
    ] = False,
    examples: Annotated[int, typer.Option(min=0, help="Items to show in full.")] = 3,
    level: Annotated[int | None, typer.Option(min=1, max=8, help="Level of the questions of ladder to show.")] = None,
    shots: _Shots = None,
    data: _Data = None,
    norm: _Norm = None,
    metric: _Metric = None,
    limit: _Limit = None,
) -> None:
    """Show a probe: number of items, categories, options, settings, fingerprint, and some items in full."""
    if categories and name == "-":
        typer.echo(Categories.paper().to_csv(), nl=False)
        return
    if name == "-":
        raise typer.BadParameter("needed a probe's name or file, or --categories")
    probe = _load(name, shots=shots, limit=limit, data=data, norm=norm, metric=metric)
    if level is not None:
        if not name.startswith(LADDER):
            raise typer.BadParameter(f"--level: needed ladder, got {name}")
        probe = probe.with_items(item for item in probe if item.task.endswith(f":{level}"))
    if categories:
        typer.echo(Categories({item.task: item.category for item in probe}).to_csv(), nl=False)
        return
    for text in summary(probe):
        print_text(text)
    for item in probe.items[:examples]:
        print_text(f"\n{item.task} {item.id}", style="bold")
        for text in shown(item):
            print_text(text)


@probe_app.command("build")
def build_command(
    source: Annotated[str, typer.Argument(help="A file of rows (CSV, JSONL, Parquet), or a probe's name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Probe file to write (JSONL).")],
    column: Annotated[
        list[str] | None,
        _own_option(help="Meaning of a column of the file, such as prompt=frage or choices=a,b,c; may be repeated."),
    ] = None,
    key: Annotated[
        Key | None, _own_option(help="How the answers name options, where the file alone does not show it.")
    ] = None,
    task: Annotated[str, _own_option(help="Task of rows without one; default: the file's name.")] = "",
    category: Annotated[str, _own_option(help="Category of rows without one.")] = "",
    scoring: Annotated[str, _own_option(help="Scoring: loglikelihood, letters or generate.")] = "loglikelihood",
    rendering: Annotated[str | None, _own_option(help="Rendering: plain or chat.")] = None,
    shots: _Shots = None,
    data: _Data = None,
    norm: _Norm = None,
    metric: _Metric = None,
    limit: _Limit = None,
) -> None:
    """Build a probe file from rows of your own, or from a task of lm-evaluation-harness."""
    check_probe_file(output, [source])
    if column or key or task or category or scoring != "loglikelihood" or rendering:
        if any(given is not None for given in (shots, data, norm, metric)):
            raise ProbeError(
                f"{source}: --shots, --data, --norm and --metric are for tasks; --column, "
                "--key, --task, --category, --scoring and --rendering for rows of your own: leave out one or the other"
            )
        settings: dict[str, Any] = {"scoring": scoring, "rendering": rendering}
        probe = probe_from(source, columns=_columns(column or []), task=task, category=category, key=key, **settings)
        probe = probe if limit is None else probe.head(limit)
    else:
        probe = _load(source, shots=shots, limit=limit, data=data, norm=norm, metric=metric)
    probe.save(output)
    for text in summary(probe):
        print_text(text)
    print_text(f"written to {output}; `forgetwatch probe check {output}` looks for faults")


@probe_app.command("split")
def split_command(
    source: Annotated[str, typer.Argument(help="A probe's name, or a file of items or rows.")],
    output: Annotated[
        tuple[Path, Path], typer.Option("--output", "-o", help="The two probe files to write (JSONL): -o A B.")
    ],
    seed: Annotated[int, typer.Option(help="Seed of the halves.")] = 0,
) -> None:
    """Split a probe into two halves: one to train on or to choose by, one to watch."""
    for path in output:
        check_probe_file(path, [source])
    if output[0] == output[1]:
        raise typer.BadParameter(f"--output: needed two files, got {output[0]} twice")
    probe = _load(source)
    for path, items in zip(output, split_halves(probe.items, seed=seed), strict=True):
        half = replace(probe.with_items(items), name=f"{probe.name}, {path.stem}")
        half.save(path)
        print_text(f"{len(items):,} of {len(probe):,} items: {path}")


@probe_app.command("check")
def check_command(
    name: Annotated[str, typer.Argument(help="A probe's name or file.")],
    tokenizer: Annotated[
        str | None, _check_option(help="Checkpoint folder or model id whose tokenizer gives the lengths in tokens.")
    ] = None,
    context: Annotated[int | None, _check_option(min=1, help="Context length in tokens; default: the model's.")] = None,
    train: Annotated[
        list[Path] | None,
        _check_option(
            help="File of the training set (JSONL, Parquet, CSV, text) to search for the items; may be repeated."
        ),
    ] = None,
    seconds: Annotated[float | None, _check_option(min=0, help="Time limit for reading training rows.")] = None,
    strict: Annotated[bool, _check_option("--strict", help="Exit with status 1 if a fault is found.")] = False,
    shots: _Shots = None,
    data: _Data = None,
    norm: _Norm = None,
    metric: _Metric = None,
    limit: _Limit = None,
) -> None:
    """Check a probe for repeated questions, leaked answers, shortcuts, lengths, and overlap with training data."""
    probe = _load(name, shots=shots, limit=limit, data=data, norm=norm, metric=metric)
    tokenize, chats = None, True
    if tokenizer is not None:
        from forgetwatch.scoring import load_tokenizer

        loaded = load_tokenizer(tokenizer)
        tokenize, context, chats = loaded.tokenize, context or loaded.context, loaded.chats
    findings = check_probe(probe, tokenize=tokenize, context=context, chats=chats)
    found = None if not train else overlap(probe, training_texts(train), seconds=seconds)
    is_trained_on = found is not None and (bool(found.exact) or any(found.grams.values()))
    print_text(f"{probe.name}, {len(probe):,} items", style="bold")
    if probe.plan:
        print_hanging(f"  read as         {probe.plan}")
    for finding in findings:
        for text in finding_lines(finding):
            print_hanging(text, style="" if finding.wrong else "dim")
    if found is not None:
        print_hanging(f"{'!' if is_trained_on else ' '} training data   {found.sentence}")
        for task, item, row in found.examples:
            print_hanging(f"    {task} {item}: row {row:,}")
    wrong = sum(finding.wrong for finding in findings) + is_trained_on
    print_text(f"{wrong} kind{'s' if wrong > 1 else ''} of fault" if wrong else "no fault found", style="bold")
    if strict and wrong:
        raise typer.Exit(PROBLEMS)


def _load(name: str, **settings: Any) -> Probe:
    """Load a probe, and print each warning, such as items left out, as a line on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        # A filter of the user must neither hide a note nor turn it into an error.
        warnings.simplefilter("always")
        probe = load_probe(name, **settings)
    for warning in caught:
        echo(f"note: {warning.message}", err=True)
    return probe


def _columns(given: Iterable[str]) -> dict[str, str | list[str]]:
    """Return the columns of a file by their meaning; several for one meaning are a list."""
    columns: dict[str, str | list[str]] = {}
    for text in given:
        part, mark, names = text.partition("=")
        if not mark or not names:
            raise typer.BadParameter(f"--column: needed WHAT=COLUMN, such as prompt=frage, got {text!r}")
        several = names.split(",")
        columns[part] = several if len(several) > 1 else names
    return columns


_CHOOSERS = ("position", "longest option", "negative option", "no question", "option mass", "sure and wrong")
"""Checks whose sentence is shown in any case, and whose items are not examples of a fault."""


def listing() -> Iterator[tuple[str, bool]]:
    """Yield (line, is a heading) of the list of all probes with a name."""
    # The longest shipped name, so that it takes no columns from its own line alone.
    width = len("standard-multilingual")

    def line(name: str, about: str, items: str, k: str) -> tuple[str, bool]:
        # The widths add up to 71 columns, which leaves 9 of 80 for k.
        return f"  {fit(name, width)} {fit(about, 53 - width)} {items:>12}  {k}".rstrip(), False

    yield "shipped, without network", True
    yield line("standard", "nine categories, the default", "2,000", "k 2 to 5")
    yield line("quick", "its first 500", "500", "k 2 to 5")
    yield line("confirmation", "500 others, for looking twice", "500", "k 2 to 5")
    yield line("behaviour", "short answers, graded", "180", "open")
    yield line("standard-long", "reading, one to three hops", "200", "k 4")
    yield line("standard-code", "what small programs print", "200", "k 4")
    yield line("standard-multilingual", "facts in six languages", "600", "k 4")
    yield line("standard-written", "word problems and instructions", "180", "open")
    yield line("passages", "texts, scored as bits per byte", "60", "none")
    yield line("ladder", "harder ones, at a model's levels", "2,000", "k 2 to 5")
    yield line("strata", "of languages, code, instructions", "160", "k 4, open")
    yield line("demo", "an invented world, for the demo", "360", "k 2 to 5")
    yield "tasks of lm-evaluation-harness: lm_eval:TASK, such as lm_eval:arc_easy", True
    yield line("paper", "those of arXiv 2510.17776 that it has", "about 41,000", "")
    yield "  lm_eval ls tasks", False
    yield "your own: rows with a question, options and an answer", True
    yield f"  {' '.join(SUFFIXES)}", False
    yield "  forgetwatch probe build mine.csv -o probe.jsonl", False


def summary(probe: Probe) -> Iterator[str]:
    """Yield the lines with the contents, settings and fingerprint of a probe."""
    ks = Counter("passage" if item.is_passage else "open" if item.k is None else f"k {item.k}" for item in probe)
    tasks = len({item.task for item in probe})
    yield f"{probe.name}: {len(probe):,} items, {tasks:,} task{'s' if tasks > 1 else ''}; {_counts(ks)}"
    yield f"categories: {_counts(Counter(item.category or 'none' for item in probe))}"
    settings = dict(probe.settings)
    decoding = settings.pop("decoding", None)
    yield ", ".join(f"{key} {value}" for key, value in settings.items())
    if decoding:
        yield "generated answers: " + ", ".join(f"{key} {value}" for key, value in decoding.items() if value)
    if probe.plan:
        yield f"read as: {probe.plan}"
    yield f"fingerprint {probe.fingerprint}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())


def shown(item: Item) -> Iterator[str]:
    """Yield the lines of an item in full, its right options marked; a private item is not shown."""
    if PRIVATE in item.tags:
        yield "private: its text must not be published and is not shown"
        return
    if item.is_passage:
        yield item.choices[0]
        return
    yield training_text(item.full_prompt)
    for index, choice in enumerate(item.choices):
        yield f"{'*' if index in item.answers else ' '}{choice}"
    if not item.choices:
        yield f"* {' | '.join(map(str, item.answers))}  (match {item.match})"


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of one check: its name, the number of items found, and the first of them if they are a fault."""
    mark = "!" if finding.wrong else " "
    yield f"{mark} {fit(finding.name, 15)} {len(finding.items):>7,} of {finding.of:,}"
    if finding.wrong or not finding.items or finding.name in _CHOOSERS:
        yield f"    {finding.about}"
    if finding.wrong and finding.name not in _CHOOSERS:
        shown = ", ".join(f"{task} {name}" for task, name in finding.items[:3])
        yield f"    {shown}{', ...' if len(finding.items) > 3 else ''}"

"""`forgetwatch probe list|show|build|check`: probes by name, their contents, probes of your own, and their faults."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from forgetwatch.cli.options import check_output, item_option
from forgetwatch.cli.output import echo, print_hanging, print_text
from forgetwatch.cli.resolve import fitted, resolve
from forgetwatch.errors import ProbeError, some_of
from forgetwatch.item import PRIVATE, Item
from forgetwatch.probe import Norm, Probe
from forgetwatch.probes.answer_key import Key
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.checking import Finding, check_probe
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.overlap import overlap, training_text
from forgetwatch.probes.question_table import probe_from
from forgetwatch.probes.row_files import SUFFIXES, training_texts
from forgetwatch.probes.shipped_probes import split_halves
from forgetwatch.text import fit, one_line

PROBLEMS = 1

_ASKED: Final = 16
"""Questions that `probe check --model` asks."""
_ANSWERS_SHOWN: Final = 4

probe_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="List, show, build and check probes.",
    rich_markup_mode="rich",
)

_harness_option = partial(typer.Option, rich_help_panel="Tasks of lm-evaluation-harness")
_own_option = partial(typer.Option, rich_help_panel="Rows of your own")
_check_option = partial(typer.Option, rich_help_panel="Checks")

_Column = Annotated[
    list[str] | None,
    _own_option(
        help="Meaning of a column of the file, such as question=frage or options=a,b,c; may be repeated."
    ),
]
_Key = Annotated[
    Key | None,
    _own_option(help="How the answers name options, where the file alone does not show it."),
]
_RowsAt = Annotated[
    str | None, _own_option(help="Part of a JSON document with the rows, such as test.")
]
_Header = Annotated[
    str | None,
    _own_option(help="Names of the columns of a file without a header: question,answer."),
]
_Shots = Annotated[int | None, _harness_option(help="Worked examples before each question.")]
_Data = Annotated[
    Path | None,
    _harness_option(
        help="Folder with a JSONL file for each split of the task, such as DIR/test.jsonl, for the hub."
    ),
]
_Norm = Annotated[
    Norm | None,
    _harness_option(help="Divisor of an option's log-likelihood: sum for acc, chars for acc_norm."),
]
_Metric = Annotated[
    str | None, _harness_option(help="Metric that decides generated answers, such as exact_match.")
]
_Limit = Annotated[
    int | None,
    item_option(
        min=1, help="Maximum number of items; of a benchmark, a stratified sample of its tasks."
    ),
]


@probe_app.command("list")
def list_command() -> None:
    """List the probes that have a name, and how to make one of your own."""
    for line in _LISTING.splitlines():
        print_text(line, style="" if line.startswith(" ") else "bold")


@probe_app.command("show")
def show_command(
    name: Annotated[
        str, typer.Argument(help="A probe's name or file; - for the map of the paper's tasks.")
    ] = "-",
    categories: Annotated[
        bool,
        typer.Option("--categories", help="Write the map of tasks to categories, as CSV to edit."),
    ] = False,
    examples: Annotated[int, typer.Option(min=0, help="Items to show in full.")] = 3,
    column: _Column = None,
    key: _Key = None,
    rows: _RowsAt = None,
    header: _Header = None,
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
    table = _table(column, key, rows, header)
    probe = _load(name, shots=shots, limit=limit, data=data, norm=norm, metric=metric, **table)
    if categories:
        typer.echo(Categories({item.task: item.category for item in probe}).to_csv(), nl=False)
        return
    for line in summary(probe):
        print_text(line)
    for item in probe.items[:examples]:
        print_text(f"\n{item.task} {item.id}", style="bold")
        for line in shown(item):
            print_text(line)


@probe_app.command("build")
def build_command(
    source: Annotated[
        str, typer.Argument(help="A file of rows (CSV, JSONL, Parquet), or a probe's name.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Probe file to write (JSONL).")],
    column: _Column = None,
    key: _Key = None,
    rows: _RowsAt = None,
    header: _Header = None,
    task: Annotated[
        str, _own_option(help="Task of rows without one; default: the file's name.")
    ] = "",
    category: Annotated[str, _own_option(help="Category of rows without one.")] = "",
    scoring: Annotated[
        str, _own_option(help="Scoring: loglikelihood, letters or generate.")
    ] = "loglikelihood",
    rendering: Annotated[str | None, _own_option(help="Rendering: plain or chat.")] = None,
    shots: _Shots = None,
    data: _Data = None,
    norm: _Norm = None,
    metric: _Metric = None,
    limit: _Limit = None,
) -> None:
    """Build a probe file from rows of your own, or from a task of lm-evaluation-harness."""
    check_output(output, "a probe", [source])
    table = _table(column, key, rows, header)
    if any(table.values()) or task or category or scoring != "loglikelihood" or rendering:
        if any(option is not None for option in (shots, data, norm, metric)):
            raise ProbeError(
                f"{source}: --shots, --data, --norm and --metric are for tasks; --column, --key, "
                "--rows, --header, --task, --category, --scoring and --rendering for rows of your own: "
                "leave out one or the other"
            )
        table |= {"scoring": scoring, "rendering": rendering}
        probe = probe_from(source, task=task, category=category, **table)
        probe = probe if limit is None else probe.head(limit)
    else:
        probe = _load(source, shots=shots, limit=limit, data=data, norm=norm, metric=metric)
    probe.save(output)
    for line in summary(probe):
        print_text(line)
    print_text(f"written to {output}; `forgetwatch probe check {output}` looks for faults")


@probe_app.command("split")
def split_command(
    source: Annotated[str, typer.Argument(help="A probe's name, or a file of items or rows.")],
    output: Annotated[
        tuple[Path, Path],
        typer.Option("--output", "-o", help="The two probe files to write (JSONL): -o A B."),
    ],
    seed: Annotated[int, typer.Option(help="Seed of the halves.")] = 0,
) -> None:
    """Split a probe into two halves: one to train on or to choose by, one to watch."""
    for path in output:
        check_output(path, "a probe", [source])
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
        str | None,
        _check_option(
            help="Checkpoint folder or model id whose tokenizer gives the lengths in tokens."
        ),
    ] = None,
    context: Annotated[
        int | None, _check_option(min=1, help="Context length in tokens; default: the model's.")
    ] = None,
    train: Annotated[
        list[Path] | None,
        _check_option(
            help="File of the training set (JSONL, Parquet, CSV, text) to search for the items; may be repeated."
        ),
    ] = None,
    seconds: Annotated[
        float | None, _check_option(min=0, help="Time limit for reading training rows.")
    ] = None,
    model: Annotated[
        str | None,
        _check_option(help="Model that answers 16 of the questions, four of them shown."),
    ] = None,
    strict: Annotated[
        bool, _check_option("--strict", help="Exit with status 1 if a fault is found.")
    ] = False,
    column: _Column = None,
    key: _Key = None,
    rows: _RowsAt = None,
    header: _Header = None,
    shots: _Shots = None,
    data: _Data = None,
    norm: _Norm = None,
    metric: _Metric = None,
    limit: _Limit = None,
) -> None:
    """Check a probe for repeated questions, leaked answers, shortcuts, lengths, and overlap with training data."""
    table = _table(column, key, rows, header)
    probe = _load(name, shots=shots, limit=limit, data=data, norm=norm, metric=metric, **table)
    tokenize, chats = None, True
    if tokenizer is not None:
        from forgetwatch.scoring.tokenizer_loading import load_tokenizer

        loaded = load_tokenizer(tokenizer)
        tokenize, context, chats = loaded.tokenize, context or loaded.context, loaded.chats
    findings = check_probe(probe, tokenize=tokenize, context=context, chats=chats)
    overlaps = None if not train else overlap(probe, training_texts(train), seconds=seconds)
    is_trained_on = overlaps is not None and (bool(overlaps.exact) or any(overlaps.grams.values()))
    print_text(f"{probe.name}, {len(probe):,} items", style="bold")
    if probe.plan:
        print_hanging(f"  read as         {probe.plan}")
    for finding in findings:
        for line in finding_lines(finding):
            print_hanging(line, style="" if finding.wrong else "dim")
    if overlaps is not None:
        print_hanging(f"{'!' if is_trained_on else ' '} training data   {overlaps.sentence}")
        for task, item, row in overlaps.examples:
            print_hanging(f"    {task} {item}: row {row:,}")
    if model is not None:
        _show_answers(fitted(probe.head(_ASKED), model), model)
    wrong = sum(finding.wrong for finding in findings) + is_trained_on
    print_text(
        f"{wrong} kind{'s' if wrong > 1 else ''} of fault" if wrong else "no fault found",
        style="bold",
    )
    if strict and wrong:
        raise typer.Exit(PROBLEMS)


def _show_answers(probe: Probe, model: str) -> None:
    snapshot = resolve(model, probe)
    first = snapshot.ints("sample") == 0
    right = snapshot.floats("correct")[first]
    columns = (snapshot.ints("chosen"), snapshot.texts("output"), snapshot.texts("outcome"))
    print_text(f"  {model} answers {np.nansum(right):.0f} of {len(probe)} right")
    answered = list(zip(probe, right, *(column[first] for column in columns), strict=True))
    for item, correct, option, output, outcome in answered[:_ANSWERS_SHOWN]:
        given = (*item.choices, output)[option]  # -1, no option, is the output
        grade = {1.0: "right", 0.0: "wrong"}.get(correct, outcome)
        print_hanging(f"  asked     {one_line(training_text(item.prompt))}")
        print_hanging(f"  answered  {one_line(given or '') or '-'}")
        print_hanging(f"  {grade}; wanted {' | '.join(item.right_texts)}")


def _load(name: str, **settings: Any) -> Probe:
    with warnings.catch_warnings(record=True) as caught:
        # A filter of the user must neither hide a note nor turn it into an error.
        warnings.simplefilter("always")
        probe = load_probe(name, **settings)
    for warning in caught:
        echo(f"note: {warning.message}", err=True)
    return probe


def _table(
    column: Iterable[str] | None, key: Key | None, rows: str | None, header: str | None
) -> dict[str, Any]:
    columns: dict[str, str | list[str]] = {}
    for option in column or ():
        meaning, mark, names = option.partition("=")
        if not mark or not names:
            raise typer.BadParameter(
                f"--column: needed WHAT=COLUMN, such as question=frage, got {option!r}"
            )
        several = names.split(",")
        columns[meaning] = several if len(several) > 1 else names
    names_given = header.split(",") if header else None
    return {"columns": columns, "key": key, "rows": rows, "header": names_given}


_CHOOSERS = (
    "position",
    "longest option",
)
"""Checks whose sentence is shown in any case, and whose items are not examples of a fault."""


_LISTING: Final = f"""\
shipped, without network
  standard              nine categories, the default            2,000  k 2 to 5
  quick                 its first 500                             500  k 2 to 5
  confirmation          500 others, for looking twice             500  k 2 to 5
  conduct               refusals, instructions, code, formats     300  open
  behaviour             short answers, graded                     180  open
  standard-long         reading, one to three hops                200  k 4
  standard-code         what small programs print                 200  k 4
  standard-multilingual facts in six languages                    600  k 4
  standard-written      word problems and instructions            180  open
  passages              texts, scored as bits per byte             60  none
  ladder-1,-2,-3        harder ones, from easy to hard          1,200  k 2 to 5
  ladder                the one of them that suits a model      1,200  k 2 to 5
  strata                of languages, code, instructions          160  k 4, open
  demo                  an invented world, for the demo           360  k 2 to 5
tasks of lm-evaluation-harness: lm_eval:TASK, such as lm_eval:arc_easy
  paper                 those of arXiv 2510.17776 it has  about 41,000
  lm_eval ls tasks
your own: rows with a question, options and an answer
  {" ".join(SUFFIXES)}
  forgetwatch probe build mine.csv -o probe.jsonl
"""
"""All probes with a name; a heading begins its line."""


def summary(probe: Probe) -> Iterator[str]:
    """Lines with the contents, settings and fingerprint of a probe."""
    ks = Counter(
        "passage" if item.is_passage else "open" if item.k is None else f"k {item.k}"
        for item in probe
    )
    tasks = len({item.task for item in probe})
    yield f"{probe.name}: {len(probe):,} items, {tasks:,} task{'s' if tasks > 1 else ''}; {_counts(ks)}"
    yield f"categories: {_counts(Counter(item.category or 'none' for item in probe))}"
    settings = dict(probe.settings)
    settings |= {"rendering": "plain or chat, by the first answers"} if probe.may_chat else {}
    decoding = settings.pop("decoding", None)
    yield ", ".join(f"{key} {value}" for key, value in settings.items())
    if decoding:
        yield "generated answers: " + ", ".join(
            f"{key} {value}" for key, value in decoding.items() if value
        )
    if probe.plan:
        yield f"read as: {probe.plan}"
    yield f"fingerprint {probe.fingerprint}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())


def shown(item: Item) -> Iterator[str]:
    """Lines of an item in full, with right options marked.

    A private item is not shown.
    """
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
    """Lines of one check: name, number of items, and first items."""
    mark = "!" if finding.wrong else " "
    yield f"{mark} {fit(finding.name, 15)} {len(finding.items):>7,} of {finding.of:,}"
    if finding.wrong or not finding.items or finding.name in _CHOOSERS:
        yield f"    {finding.about}"
    if finding.wrong and finding.name not in _CHOOSERS:
        yield f"    {some_of((' '.join(item) for item in finding.items), 3)}"

"""`forgetwatch probe list|show|build|check`: what can be asked, what a probe holds, and what is wrong with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from forgetwatch.cli.options import check_folder
from forgetwatch.cli.output import print_hanging, result_console
from forgetwatch.cli.probe_text import about, finding_lines, listing, overlap_lines, overlaps, shown, summary
from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe, probe_from
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.checking import check_probe
from forgetwatch.probes.overlap import overlap
from forgetwatch.probes.tables import training_texts

PROBLEMS = 1

probe_app = typer.Typer(no_args_is_help=True, help="List, show, build and check probes.", rich_markup_mode=None)

_Root = Annotated[
    Path | None,
    typer.Option(help="A folder with copies of the hub's data sets under their ids, such as ROOT/cais/mmlu."),
]
_Revision = Annotated[str | None, typer.Option(help="Revision of the hub's data sets.")]
_Shots = Annotated[int | None, typer.Option(help="Worked examples before each question of a benchmark.")]
_Limit = Annotated[int | None, typer.Option(help="Only so many items; of a benchmark a fair sample of its tasks.")]


@probe_app.command("list")
def list_command() -> None:
    """List the probes that can be named, and how to make one's own."""
    console = result_console()
    for text, is_heading in listing():
        console.print(text, style="bold" if is_heading else "", markup=False)


@probe_app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A probe's name or file; - for none.")] = "-",
    categories: Annotated[
        bool, typer.Option("--categories", help="Write the map of tasks to categories, as CSV to edit.")
    ] = False,
    examples: Annotated[int, typer.Option(min=0, help="Items to show in full.")] = 3,
    root: _Root = None,
    revision: _Revision = None,
    shots: _Shots = None,
    limit: _Limit = None,
) -> None:
    """Show what a probe holds: items, categories, options, settings, fingerprint, and some items."""
    if categories and name == "-":
        typer.echo(Categories.paper().to_csv(), nl=False)
        return
    if name == "-":
        raise typer.BadParameter("needed a probe's name or file, or --categories")
    probe = _load(name, root=root, revision=revision, shots=shots, limit=limit)
    if categories:
        typer.echo(Categories({item.task: item.category for item in probe}).to_csv(), nl=False)
        return
    console = result_console()
    for text in (*about(name), *summary(probe)):
        console.print(text, markup=False)
    for item in probe.items[:examples]:
        console.print(f"\n{item.task} {item.id}", style="bold", markup=False)
        for text in shown(item):
            console.print(text, markup=False)


@probe_app.command("build")
def build_command(
    source: Annotated[str, typer.Argument(help="A file of rows (CSV, JSONL, Parquet), or a probe's name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The probe file to write (JSONL).")],
    column: Annotated[
        list[str] | None,
        typer.Option(help="What a column of the file is, such as prompt=frage or choices=a,b,c; may be repeated."),
    ] = None,
    task: Annotated[str, typer.Option(help="Task of rows without one; default: the file's name.")] = "",
    category: Annotated[str, typer.Option(help="Category of rows without one.")] = "",
    scoring: Annotated[str, typer.Option(help="Of own rows: loglikelihood, letters or generate.")] = "loglikelihood",
    rendering: Annotated[str | None, typer.Option(help="Of own rows: plain or chat.")] = None,
    root: _Root = None,
    revision: _Revision = None,
    shots: _Shots = None,
    limit: _Limit = None,
) -> None:
    """Build a probe file from rows of your own, or from a benchmark of the hub."""
    if output.suffix != ".jsonl":
        raise ProbeError(f"{output}: a probe is a JSONL file; give it a name that ends in .jsonl")
    check_folder(str(output))
    if column or task or category or scoring != "loglikelihood" or rendering:
        if root is not None or revision is not None or shots is not None:
            raise ProbeError(
                f"{source}: --root, --revision and --shots are for benchmarks of the hub; --column, --task, "
                "--category, --scoring and --rendering for rows of your own: leave out one or the other"
            )
        settings: dict[str, Any] = {"scoring": scoring, "rendering": rendering}
        probe = probe_from(source, columns=_columns(column or []), task=task, category=category, **settings)
        probe = probe if limit is None else probe.head(limit)
    else:
        probe = _load(source, root=root, revision=revision, shots=shots, limit=limit)
    probe.save(output)
    console = result_console()
    for text in summary(probe):
        console.print(text, markup=False)
    console.print(f"written to {output}; `forgetwatch probe check {output}` looks for faults", markup=False)


@probe_app.command("check")
def check_command(
    name: Annotated[str, typer.Argument(help="A probe's name or file.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="A checkpoint folder or model id whose tokenizer is asked.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens that the model reads; default: the model's.")
    ] = None,
    train: Annotated[
        list[Path] | None, typer.Option(help="Files of the training set (JSONL, Parquet, CSV, text); may be repeated.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Look at training rows for no longer than this.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is found.")] = False,
    root: _Root = None,
    revision: _Revision = None,
    shots: _Shots = None,
    limit: _Limit = None,
) -> None:
    """Check a probe: repeated questions, leaked answers, shortcuts, lengths, and what of it stands in training data."""
    probe = _load(name, root=root, revision=revision, shots=shots, limit=limit)
    tokenize, chats = None, True
    if tokenizer is not None:
        from forgetwatch.scoring.tokenizer import load_tokenizer

        loaded = load_tokenizer(tokenizer)
        tokenize, context, chats = loaded.tokenize, context or loaded.context, loaded.chats
    findings = check_probe(probe, tokenize=tokenize, context=context, chats=chats)
    found = None if not train else overlap(probe, training_texts(train), seconds=seconds)
    console = result_console()
    console.print(f"{probe.name}, {len(probe):,} items", style="bold", markup=False)
    for finding in findings:
        for text in finding_lines(finding):
            print_hanging(console, text, style="" if finding.wrong else "dim")
    if found is not None:
        for text in overlap_lines(found):
            print_hanging(console, text)
    wrong = sum(finding.wrong for finding in findings) + int(found is not None and overlaps(found))
    console.print(
        f"{wrong} kind{'s' if wrong > 1 else ''} of fault" if wrong else "no fault found", style="bold", markup=False
    )
    if strict and wrong:
        raise typer.Exit(PROBLEMS)


def _load(name: str, *, root: Path | None, revision: str | None, shots: int | None, limit: int | None) -> Probe:
    """The probe; what was left out of it goes to standard error, a line each."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        probe = load_probe(name, root=root, revision=revision, shots=shots, limit=limit)
    for warning in told:
        typer.echo(f"note: {warning.message}", err=True)
    return probe


def _columns(given: Iterable[str]) -> dict[str, str | list[str]]:
    columns: dict[str, str | list[str]] = {}
    for text in given:
        part, mark, names = text.partition("=")
        if not mark or not names:
            raise typer.BadParameter(f"--column: needed WHAT=COLUMN, such as prompt=frage, got {text!r}")
        several = names.split(",")
        columns[part] = several if len(several) > 1 else names
    return columns

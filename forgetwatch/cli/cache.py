"""`forgetwatch cache list|clear`: the cache of baselines and scored checkpoints."""

from datetime import datetime
from typing import Final

import typer
from rich.table import Table

from forgetwatch.cache import LIMIT, cache_files, cache_folder
from forgetwatch.cli.output import echo, result_console
from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import read_snapshot
from forgetwatch.text import count, fit_ends

cache_app: Final = typer.Typer(
    help="List or clear the cache of baselines and scored checkpoints.",
    no_args_is_help=True,
    add_completion=False,
)


_NAME: Final = 34


@cache_app.command("list")
def _list() -> None:
    """List the entries of the cache, the latest used first."""
    folder = cache_folder()
    files = sorted(cache_files(folder), key=lambda file: file.stat().st_mtime, reverse=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("used", "model", "probe"):
        table.add_column(heading, no_wrap=True)
    for heading in ("items", "kB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for file in files:
        used, size = datetime.fromtimestamp(file.stat().st_mtime), file.stat().st_size
        try:
            snapshot = read_snapshot(file)
            model, probe = (
                snapshot.meta.get("model"),
                (snapshot.meta.get("probe") or {}).get("name"),
            )
            cells = fit_ends(str(model), _NAME).rstrip(), str(probe), count(len(snapshot))
        except SnapshotError:
            cells = ("damaged, and never used", "", "")
        table.add_row(f"{used:%Y-%m-%d %H:%M}", *cells, count(-(-size // 1000)))
    if files:
        result_console().print(table)
    total = sum(file.stat().st_size for file in files)
    echo(
        f"{count(len(files))} entries, {total / 1e6:.1f} MB of at most {LIMIT / 1e9:.1f} GB, in "
        f"{folder}"
    )


@cache_app.command("clear")
def _clear() -> None:
    """Delete all entries of the cache."""
    files = cache_files(cache_folder())
    for file in [*files, *cache_folder().glob("*.lock")]:
        file.unlink(missing_ok=True)
    echo(f"{count(len(files))} entries deleted from {cache_folder()}")

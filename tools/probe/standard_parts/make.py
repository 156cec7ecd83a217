"""Make the frozen files of the shipped probes next to `standard`, and put their figures into their cards.

    PARTS ──▶ probe ──▶ NAME.jsonl.gz, cards/NAME.md with its figures

Run from the root of the repository, with a folder for the files, and the names of the probes to make (without a name,
all are made):

    PYTHONPATH=tools/probe python -m standard_parts.make FOLDER [NAME ...]

The files are frozen so that measurements with them stay comparable. A test makes them again and compares.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from standard_probe.card import with_figures

from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import FILES
from standard_parts import code, multilingual, reading, written

PARTS: Final[Mapping[str, Callable[[], Probe]]] = {
    "standard-long": reading.probe,
    "standard-code": code.probe,
    multilingual.NAME: multilingual.probe,
    written.NAME: written.probe,
}
"""One function for each probe, by its name. A new probe also needs its file in `shipped.FILES`, and a card."""


def write_parts(folder: str | Path, names: Iterable[str] = PARTS) -> None:
    """Write some probes, and their cards with their figures, into a folder."""
    folder = Path(folder)
    for name in names:
        probe = PARTS[name]()
        probe.save(folder / FILES[name])
        card = f"cards/{name}.md"
        text = with_figures(files("forgetwatch.probes.shipped").joinpath(card).read_text(encoding="utf-8"), [probe])
        (folder / "cards").mkdir(exist_ok=True)
        _write(folder / card, text)


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="standard_parts.make", description="Make shipped probes and their cards.")
    parser.add_argument("folder", type=Path, help="folder for the files; made if it does not exist")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a probe to make: {', '.join(PARTS)}; default: all")
    given = parser.parse_args()
    if unknown := sorted({*given.names} - {*PARTS}):
        parser.error(f"needed names of {', '.join(PARTS)}, got {unknown[0]!r}")
    given.folder.mkdir(parents=True, exist_ok=True)
    write_parts(given.folder, given.names or PARTS)
    print(f"written to {given.folder}: {', '.join(FILES[name] for name in given.names or PARTS)}, cards")

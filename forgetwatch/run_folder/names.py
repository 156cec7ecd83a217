"""Names of the run folder and of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

RUN_FOLDER: Final = "_forgetwatch"
"""Name of the run folder in the run's output_dir."""

FOLLOW_FOLDER: Final = "_forgetwatch_follow"
"""Name of the run folder of a process that follows the run from outside it."""

CARRIED: Final = "forgetwatch"
"""Name of the folder in a checkpoint that carries copies."""

PROBE: Final = "probe.jsonl"
BASELINE: Final = "baseline.parquet"
NULL: Final = "null.parquet"
COMPLETIONS: Final = "completions.parquet"
DESCRIPTION: Final = "run.json"
REPORT: Final = "report.html"

LAST_STEP: Final = 10**18 - 1
"""The largest step of a look: names of files and checkpoints have at most 18 digits."""

Kind = Literal["step", "again"]
"""Kind of a look's file: taken at a step, or measured again where the run resumed."""

KINDS: Final[tuple[Kind, Kind]] = ("step", "again")

Look = Literal["baseline", "null", "step", "again"]
"""Value of ``look`` in the metadata of a snapshot in a run folder."""


def look_name(kind: Kind, step: int) -> str:
    """Name of the file of a look."""
    return f"{kind}-{step:06d}.parquet"


def checkpoint_folder(output_dir: str | Path, step: int) -> Path:
    """Folder in which a trainer saves the checkpoint of a step."""
    return Path(output_dir) / f"checkpoint-{step}"

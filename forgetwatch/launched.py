"""Processes that a launcher started together: torchrun, or `accelerate launch`.

    WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=... MASTER_PORT=...

Both set LOCAL_RANK. Some clusters set the other variables for whole machines, also for a shell on one of them: a
command in such a shell is one process.
"""

from __future__ import annotations

import os


def launched_count() -> int:
    """Number of processes that the launcher started; 1 without a launcher."""
    count = os.environ.get("WORLD_SIZE", "1")
    return int(count) if "LOCAL_RANK" in os.environ and count.isdecimal() else 1


def is_first_process() -> bool:
    """True in the process that prints and writes: the only one, or the first of those that a launcher started."""
    return launched_count() == 1 or os.environ.get("RANK", "0") == "0"

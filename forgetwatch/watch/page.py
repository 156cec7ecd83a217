"""The run's page, ``report.html`` in the run folder: written again at each look, so that it can be watched.

Drawing takes half a second. Where looks follow each other so closely that this would be more than a two-hundredth of
the time, a page is left out; the end of the run makes up for it.
"""

from __future__ import annotations

import time
from typing import Final

from forgetwatch.comparing.verdict import TOLERANCE
from forgetwatch.files import write_text
from forgetwatch.report.html import run_page
from forgetwatch.run_folder import REPORT
from forgetwatch.watch.watch import Watch

_SHARE: Final = 0.005


class Page:
    """Writes the page of one run.

    Args:
        tolerance: The net loss of accuracy that its verdict tolerates, 0 to 1.
    """

    def __init__(self, *, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._took = 0.0
        self._written = 0.0
        self._look = -1

    def write(self, watch: Watch, *, soon: bool = False) -> None:
        """Write the page, unless it shows the latest look already, comes too soon, or there is no run folder.

        Args:
            watch: The run.
            soon: Whether it is written however soon it comes.

        Raises:
            OSError: If it cannot be written.
        """
        started, look = time.perf_counter(), max(watch.comparisons)
        if (
            look == self._look
            or not watch.folder.is_started
            or (not soon and self._took > _SHARE * (started - self._written))
        ):
            return
        path = watch.folder.path / REPORT
        text = run_page(watch.trajectory(), probe=watch.probe, tolerance=self._tolerance, title=str(watch.folder.path))
        write_text(path, text)
        self._look, self._written = look, time.perf_counter()
        self._took = self._written - started

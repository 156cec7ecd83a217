"""Notices of a run to its user: its cost before the first step, the looks' share of the time, the report, the table.

Every function returns a line, but `show`, which prints, and `ReportPage`, which writes ``report.html``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from forgetwatch.comparing import TOLERANCE, Comparison, Group, Subset
from forgetwatch.files import write_text
from forgetwatch.item import Item
from forgetwatch.metrics import alarm_level, detectable_change, share_of_alpha
from forgetwatch.pairing import run_name
from forgetwatch.probe import Probe
from forgetwatch.progress import seconds
from forgetwatch.report import WIDTH, run_page
from forgetwatch.report.run_table import run_table
from forgetwatch.run_folder import REPORT, GuardFinding
from forgetwatch.visible_text import visible
from forgetwatch.watch.budget import FEWEST_ITEMS, Cost, Decision
from forgetwatch.watch.watch import Watch

_USUAL_FLIPS: Final = 0.10
"""Share of the answers that flip, assumed for the detectable change before any look."""

_PAGE_SHARE: Final = 0.005
"""Share of the time that drawing pages may take, 0 to 1."""


def cost_line(watch: Watch, *, left: int, extra: float = 0.0, max_overhead: float | None = None) -> str:
    """Line before the first step: the cost of the baseline and of the looks, and the change that they can detect.

    Args:
        watch: The run.
        left: Number of looks that are still planned.
        extra: Seconds of a look outside evaluating the probe.
        max_overhead: Share of the training's time that looks may take; None if it is decided already, or unbounded.
    """
    spent, each = sum(watch.seconds.values()), watch.measurer.seconds + extra
    # A run that resumes, or compares with a baseline from elsewhere, has not measured it.
    took = watch.seconds.get(watch.baseline.meta["step"]) if watch.baseline else None
    also = ", second measurement included" if watch.null else ""
    looks = "" if took is None else f"the baseline took {seconds(took)}{also}; "
    looks += f"{left} look{'' if left == 1 else 's'} planned, {seconds(each)} each: "
    looks += f"about {seconds(spent + left * each)} in all"
    looks += f" unless max_overhead={max_overhead:g} cuts the looks" if max_overhead is not None else ""
    items = watch.items or len(watch.probe)
    questions = [item for item in watch.probe.items[:items] if not item.is_passage]
    if not questions:
        return f"{items:,} passages; {looks}; what changes is their bits per byte: no answer is right or wrong"
    groups = 1 + len({item.category for item in watch.probe if item.category and not item.is_passage})
    share = share_of_alpha(fading=bool(watch.comparisons) and watch.trajectory().has_scores)
    level = alarm_level(1, groups=groups, planned=watch.planned or 1, alpha=share)
    # An alarm is one-sided, and `detectable_change` takes a two-sided level.
    alarms = detectable_change(len(questions), _USUAL_FLIPS, alpha=2 * level)
    also = f", and alarms on net losses from {100 * alarms:.1f}" if alarms == alarms else ""
    return f"{items:,} items; {looks}; this probe {_sees(questions)}{also} (if 1 answer in 10 flips)"


def not_generated_line(probe: Probe) -> str:
    """Line that answers are no longer generated, and which categories are lost with them."""
    lost = Subset.of_probe(probe, items=None, generates=False).missing_categories
    return (
        "generated answers would take the looks beyond max_overhead: from here on only log-likelihood items and "
        "generated must_pass ones are evaluated"
        + (f"; no item of {', '.join(lost)} is among them" if lost else "")
        + "; max_overhead=None evaluates all"
    )


def no_drift_line(cost: Cost, max_overhead: float) -> str:
    """Line that the drift from the base is not measured, and how much time it would take.

    Args:
        cost: Cost of the planned looks, the drift included.
        max_overhead: Share of the training's time that looks may take, 0 to 1.
    """
    allowed = max_overhead * cost.step * cost.steps
    return (
        f"the drift from the base is not measured: {seconds(cost.drift)} at each of {cost.looks} looks, and "
        f"max_overhead={max_overhead:g} gives all looks {seconds(allowed)}, of which it may take a quarter where no "
        "look and no generated answer is left out for it; drift=True measures it"
    )


def share_line(
    share: float,
    probe: Probe,
    decision: Decision,
    *,
    looks: Sequence[int],
    planned: int | None,
    max_overhead: float | None,
) -> str:
    """Line after the first steps: the looks' share of the run, what they evaluate, and which are left out.

    Args:
        share: Share of the looks in the time of looks and training, 0 to 1.
        probe: The probe.
        decision: Decision on the items and looks.
        looks: Steps of the looks.
        planned: Number of looks before the decision was made; None if it was made before a resume.
        max_overhead: Share of the training's time that looks may take; None for no bound.
    """
    line = f"looks take about {100 * share:.1f} % of the run's time"
    items = len(probe) if decision.items is None else decision.items
    if items < len(probe):
        since = "as before they evaluate" if planned is None else "they evaluate"
        line += f": {since} the first {items:,} of {len(probe):,} items, which {_sees(probe.items[:items])}"
        lost = Subset.of_probe(probe, items=items, generates=True).missing_categories
        line += f"; no item of {', '.join(lost)} is among them: shuffle the probe" if lost else ""
        must = sum(item.must_pass for item in probe.items[items:])
        line += f"; {must:,} must_pass items are not among them: put them first" if must else ""
    if planned is not None and len(looks) < planned:
        line += f"; {len(looks)} of {planned} looks are taken, at steps {', '.join(map(str, looks))}"
    # Less than a tenth above the bound is within the error of the timing.
    if max_overhead is not None and share > 1.1 * max_overhead:
        why = "the run is short, or a look long"
        if items <= FEWEST_ITEMS:
            why = "fewer items would detect next to nothing"
        line += f"; that is more than max_overhead={max_overhead:g}: {why}"
    is_cut = items < len(probe) or len(looks) < (planned or 0)
    return line + ("; max_overhead=None evaluates all" if is_cut and planned is not None else "")


def again_line(again: Group, *, step: int) -> str:
    """Line on the noise: the flips when the look from which a run resumed was measured again."""
    return f"step {step} measured again: -{again.forgotten:g} +{again.gained:g} of {again.n:g}, all of it noise"


def stopped_line(
    stopped: int, *, found: Sequence[GuardFinding], left: Sequence[GuardFinding], stops_again: bool
) -> str:
    """Line at the resume of a run that the guard has stopped: what stopped it, and what is still lost.

    Args:
        stopped: Step at which the guard stopped the run.
        found: What it found there.
        left: What of the guard's findings still holds at the latest look.
        stops_again: True if the training stops again.
    """
    line = f"the guard stopped this run at step {stopped}"
    # An item says more than a group of items.
    line += f": {min(found, key=lambda one: one.what != 'must_pass').line}" if found else ""
    line += f", and {len(found) - 1:,} more" if len(found) > 1 else ""
    items = sum(finding.what == "must_pass" for finding in left)
    groups = dict.fromkeys(finding.name.partition(":")[2] for finding in left if finding.what != "must_pass")
    line += f"; {items:,} item{' is' if items == 1 else 's are'} still lost of those that must pass" if items else ""
    line += f"; the loss in {', '.join(groups)} is still there" if groups else ""
    if not left:
        return f"{line}; nothing of it is left at the latest look, and the training continues"
    if not stops_again:
        return f"{line}; the training continues all the same"
    return f'{line}: the training stops again after its first step; Guard("stop", override=True) continues it'


def show(watch: Watch, *, page: ReportPage, max_steps: int | None, against: str = "the start") -> None:
    """Print the table of the last look, with the decisions on the run, and the path of the report.

    A page that does not show the last look is not named: it could not be written.

    Args:
        watch: The run.
        page: Its page.
        max_steps: Steps of the whole training; None if unknown.
        against: The baseline, in words.
    """
    if watch.baseline is None:
        return
    trajectory = watch.trajectory()
    of = "" if max_steps is None else f" of {max_steps}"
    title = f"step {trajectory.steps[-1]}{of}, against {against}"
    console = Console(highlight=False)
    console.width = min(console.width, 120) if console.is_terminal else WIDTH
    console.print(run_table(trajectory, title=title))
    folder = watch.folder.path
    line = f"report: {folder / REPORT}" if page.is_current(watch) else f"looks: {folder}"
    console.print(visible(line), soft_wrap=True, markup=False)


class ReportPage:
    """The page ``report.html`` in the run folder, written again after looks so that it can be watched.

    Drawing takes half a second. Where looks follow so closely that this would be more than a two-hundredth of the time,
    a page is left out; the last one, at the end of the run, makes up for it.

    Args:
        tolerance: Net loss of accuracy that its verdict tolerates, 0 to 1.
    """

    def __init__(self, *, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._seconds = 0.0
        self._written = 0.0
        self._shown: Comparison | None = None

    def is_current(self, watch: Watch) -> bool:
        """True if the page was written by this object, and shows the latest look."""
        return watch.comparisons[max(watch.comparisons)] is self._shown

    def write(self, watch: Watch, *, at_once: bool = False) -> None:
        """Write the page, unless it shows the latest look already, comes too soon, or there is no run folder.

        Args:
            watch: The run.
            at_once: True to write it however soon it comes.

        Raises:
            OSError: If it cannot be written.
        """
        started = time.perf_counter()
        too_soon = self._seconds > _PAGE_SHARE * (started - self._written)
        # A step that was saved again with other weights has another look.
        if self.is_current(watch) or not watch.folder.is_started or (too_soon and not at_once):
            return
        path = watch.folder.path / REPORT
        text = run_page(
            watch.trajectory(), probe=watch.probe, tolerance=self._tolerance, title=run_name(watch.folder.path)
        )
        write_text(path, text)
        self._shown, self._written = watch.comparisons[max(watch.comparisons)], time.perf_counter()
        self._seconds = self._written - started


def _sees(items: Sequence[Item]) -> str:
    """Clause on the smallest net change that some items see; passages see none, and do not count."""
    sees = detectable_change(sum(not item.is_passage for item in items), _USUAL_FLIPS, alpha=0.05)
    return f"sees net changes from {100 * sees:.1f} points" if sees == sees else "is too small to see a net change"

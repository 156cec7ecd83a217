"""What a run says of itself: its cost before it, their share of the time, the table after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from forgetwatch.comparing.groups import Group
from forgetwatch.metrics.alarm import alarm_level
from forgetwatch.metrics.planning import detectable_change
from forgetwatch.probe import Probe
from forgetwatch.report.run_table import run_table
from forgetwatch.report.terminal import WIDTH
from forgetwatch.run_folder import REPORT
from forgetwatch.watch.budget import FEWEST_ITEMS, Cost
from forgetwatch.watch.schedule import Every
from forgetwatch.watch.watch import Watch

_USUAL_FLIPS: Final = 0.10
"""Share of the answers that flip, for saying beforehand what a probe can see."""


def cost_line(watch: Watch, *, planned: int) -> str:
    """Before the first step: what the looks will cost, and what they can see."""
    each = float(watch.baseline.meta.get("seconds") or 0.0) if watch.baseline else 0.0
    items = watch.items or len(watch.probe)
    groups = 1 + len({item.category for item in watch.probe if item.category})
    level = alarm_level(1, groups=groups, planned=watch.planned or 1)
    alarms = detectable_change(items, _USUAL_FLIPS, alpha=2 * level)
    also = f", and alarms on losses from {100 * alarms:.1f}" if alarms == alarms else ""
    return (
        f"{items:,} items, {each:.1f} s a look, {planned} looks planned, about {each * planned:.0f} s in all; "
        f"this probe {_sees(items)}{also} (if 1 answer in 10 flips)"
    )


def not_written_line(probe: Probe) -> str:
    """That written answers are asked no more, and what goes with them."""
    left = {item.category for item in probe if not probe.is_generated(item) or item.must_pass}
    lost = sorted({item.category for item in probe} - left - {""})
    return (
        "written answers would take the looks beyond max_overhead: from here on only scored items and written "
        "must_pass ones are asked"
        + (f"; no item of {', '.join(lost)} is among them" if lost else "")
        + "; max_overhead=None asks all"
    )


def share_line(cost: Cost, probe: Probe, items: int, *, max_overhead: float | None, every: Every, anew: bool) -> str:
    """After the first steps: the looks' share of the run, and how many items they ask, decided `anew` or before."""
    line = f"looks take about {100 * cost.share(items):.1f} % of the run's time"
    if items < cost.items:
        since = "from here on they ask" if anew else "as before they ask"
        line += f": {since} the first {items:,} of {cost.items:,} items, which {_sees(items)}"
        asked = {item.category for item in probe.items[:items]}
        lost = sorted({item.category for item in probe.items[items:]} - asked - {""})
        line += f"; no item of {', '.join(lost)} is among them: shuffle the probe" if lost else ""
        must = sum(item.must_pass for item in probe.items[items:])
        line += f"; {must:,} must_pass items are not among them: put them first" if must else ""
    if max_overhead is not None and cost.share(items) > 1.1 * max_overhead:
        fewest = items == min(FEWEST_ITEMS, cost.items)
        why = "fewer items would see nothing" if fewest else "the run is short, or a look long"
        line += f"; that is more than max_overhead={max_overhead:g}: {why}"
        line += ", and every=... asks for as many looks" if every is not None else ""
    return line + ("; max_overhead=None asks all" if anew and items < cost.items else "")


def again_line(again: Group, *, step: int) -> str:
    """What flipped when the look from which a run goes on was measured again."""
    return f"step {step} measured again: -{again.forgotten:g} +{again.gained:g} of {again.n:g}; so much is noise"


def show(watch: Watch, *, max_steps: int, tripped: Sequence[str] = ()) -> None:
    """After the last step: the table of the last look, what tripped the guard, and where the rest is."""
    if watch.baseline is None:
        return
    trajectory = watch.trajectory()
    console = Console(highlight=False)
    console.width = min(console.width, 120) if console.is_terminal else WIDTH
    title = f"step {trajectory.steps[-1]} of {max_steps}, against the start"
    console.print(run_table(trajectory, title=title, tripped=tripped))
    page = watch.folder.path / REPORT
    console.print(
        f"report: {page}" if page.is_file() else f"every look: {watch.folder.path}", soft_wrap=True, markup=False
    )


def _sees(items: int) -> str:
    sees = detectable_change(items, _USUAL_FLIPS, alpha=0.05)
    return f"sees net changes from {100 * sees:.1f} points" if sees == sees else "is too small to see a net change"

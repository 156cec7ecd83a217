"""A Comparison as a table of at most 80 columns; colour is never the only carrier of meaning.

    clearly known before 1,124   now lost 31 (2.8 %, 1.9 to 3.9)
    all answers  -142 +151 of 2000   net +0.5 points (-1.2 to +2.1)   sees 2.4

Percentages are shares of the items; points are differences of percentages; brackets hold 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.compare import Comparison
from forgetwatch.groups import Group, Level
from forgetwatch.metrics.inference import Interval, flip_interval
from forgetwatch.trajectory import Trajectory

WIDTH: Final = 80
ROWS: Final = 20
"""Groups that the table shows; the JSON holds all of them."""

_LOST: Final = "red"
_WON: Final = "green"


def comparison_table(comparison: Comparison, *, by: Level = "category", title: str = "") -> Lines:
    """One comparison as lines for a console: the headline, the corrections, the groups of a level, worst first.

    Args:
        comparison: What to show.
        by: The level whose groups are listed.
        title: The first line; by default the names of the two snapshots.
    """
    lines = [_title(comparison, title), *_subtitle(comparison)]
    lines += [*_known_line(comparison.all), _all_line(comparison.all), _accuracy_line(comparison.all)]
    lines += _chance_lines(comparison.all)
    if by != "all":
        lines += _group_lines(list(comparison.by(by).values()))
    lines += [Text(f"note: {note}", style="dim", overflow="fold") for note in comparison.notes]
    return Lines(*lines)


def course_line(trajectory: Trajectory) -> Text:
    """What a run forgot at any look and what came back, beside what a pure guesser would show."""
    course, looks = trajectory.course, len(trajectory) - 1
    if not looks:
        return Text("no look after the baseline")
    guessed = trajectory.guessed_ever_forgotten * len(course.events)
    reference = "" if math.isnan(guessed) else f"  (a pure guesser: {guessed:.0f})"
    ever, back = int(course.ever_forgotten[-1]), int(course.regained[-1])
    return Text(f"over {looks} looks: ever forgotten {ever:,}, of them right again {back:,}").append(
        reference, style="dim"
    )


def _title(comparison: Comparison, title: str) -> Text:
    text = Text("forgetwatch  ", style="bold cyan")
    text.append(title or " -> ".join(comparison.labels), style="bold")
    return text


def _subtitle(comparison: Comparison) -> list[Text]:
    probe: dict[str, Any] = comparison.after.get("probe", {})
    items = comparison.items
    parts = [str(probe["name"])] if "name" in probe else []
    parts.append(f"{_count(items.compared)} items compared")
    parts += [f"{probe['rendering']} prompt"] if "rendering" in probe else []
    parts += [f"{items.unscored:,} unscored"] if items.unscored else []
    left_out = items.only_before + items.only_after
    parts += [f"left out {items.only_before:,} only before, {items.only_after:,} only after"] if left_out else []
    return [Text(", ".join(parts), style="dim")]


def _known_line(group: Group) -> list[Text]:
    if group.known is None or group.known_lost is None:
        return []
    text = Text(f"clearly known {_count(group.known)} before   ")
    text.append(f"now lost {_count(group.known_lost)}", style=f"bold {_LOST}")
    if group.known:
        interval = flip_interval(group.known_lost, group.known)
        text.append(f" ({_percent(group.known_lost / group.known)} %, {_range(interval, _percent)})")
    return [text]


def _all_line(group: Group) -> Text:
    text = Text("all answers   ")
    text.append(f"-{_count(group.forgotten, commas=False)}", style=f"bold {_LOST}").append(" ")
    text.append(f"+{_count(group.gained, commas=False)}", style=f"bold {_WON}")
    text.append(f" of {_count(group.n, commas=False)}  net {_points(group.net_change)} points ")
    text.append(f"({_range(group.net_change_interval, _points)})")
    seen = group.detectable_change
    text.append("  too few flips" if math.isnan(seen) else f"  sees {_percent(seen)}", style="dim")
    return text


def _accuracy_line(group: Group) -> Text:
    return Text(
        f"right         {_percent(group.accuracy_before)} % -> {_percent(group.accuracy_after)} %   "
        f"forgot {_percent(group.forgetting)} % ({_range(group.forgetting_interval, _percent)})   "
        f"kept {_percent(group.retention)} %"
    )


def _chance_lines(group: Group) -> list[Text]:
    rows = []
    if (paper := group.chance.paper) is not None:
        rows.append((paper.forgetting, paper.backward_transfer, "paper's rule, k per item"))
    if (corrected := group.chance.guess_corrected) is not None:
        # Shown from 0: what is below is noise around it. The JSON keeps it.
        left_out = f", {_count(corrected.n)} items" if corrected.n < group.n else ""
        error = f"guess-corrected, +-{_percent(1.96 * corrected.forgetting_se)}{left_out}"
        rows.append((max(corrected.forgetting, 0.0), max(corrected.backward_transfer, 0.0), error))
    lines = []
    for index, (lost, won, how) in enumerate(rows):
        head = "corrected    " if index == 0 else " " * 13
        numbers = f"{head} forgot {_percent(lost):>4} %  gained {_percent(won):>4} %   "
        lines.append(Text(numbers).append(how, style="dim"))
    return lines


def _group_lines(groups: Sequence[Group]) -> list[Text]:
    if not groups:
        return []
    has_known = any(group.known is not None for group in groups)
    name_width = 18 if has_known else 22
    columns = f"{'known':>6}  {'now lost':<12}" if has_known else f"{'forgot':>6} {'gained':>7}"
    level = f"worst {'categories' if groups[0].level == 'category' else 'tasks'}"
    lines = [Text(f"{level:<{name_width}} {'n':>6} {columns} {'net points':>24}       q", style="bold")]
    for group in sorted(groups, key=_badness)[:ROWS]:
        text = Text(f"  {_fit(group.name, name_width - 2)} {_count(group.n):>6} ")
        if has_known:
            text.append(f"{_count(group.known or 0):>6}  ")
            text.append(f"{_known_share(group):<12}", style=_LOST if group.known_lost else "")
        else:
            text.append(f"{'-' + _count(group.forgotten):>6}", style=_LOST)
            text.append(f" {'+' + _count(group.gained):>7}", style=_WON)
        net = f"{_points(group.net_change)} ({_range(group.net_change_interval, _points)})"
        text.append(f" {net:>24}   {_probability(group.q_value):>5}")
        lines.append(text)
    if len(groups) > ROWS:
        lines.append(Text(f"  and {len(groups) - ROWS} more, none worse; --json has all", style="dim"))
    return lines


def _badness(group: Group) -> tuple[float, float]:
    """Worst first: by the share of the known that was lost where it exists, then by net change."""
    lost = -group.known_lost / group.known if group.known and group.known_lost else 0.0
    return lost, group.net_change if math.isfinite(group.net_change) else math.inf


def _known_share(group: Group) -> str:
    if not group.known:
        return "-"
    lost = group.known_lost or 0
    return f"{_count(lost)} ({_percent(lost / group.known)} %)" if lost else "0"


def _fit(name: str, width: int) -> str:
    return f"{name:<{width}}" if len(name) <= width else name[: width - 1] + "…"


def _count(value: float, *, commas: bool = True) -> str:
    whole = round(value)
    if abs(value - whole) > 1e-9:
        return f"{value:,.1f}" if commas else f"{value:.1f}"
    return f"{whole:,}" if commas else str(whole)


def _percent(rate: float) -> str:
    return "n/a" if math.isnan(rate) else f"{100 * rate:.1f}"


def _points(rate: float) -> str:
    return "n/a" if math.isnan(rate) else f"{100 * rate:+.1f}"


def _range(interval: Interval, show: Any) -> str:
    return f"{show(interval[0])} to {show(interval[1])}"


def _probability(p: float) -> str:
    if math.isnan(p):
        return "n/a"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"

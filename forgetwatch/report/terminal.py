"""A Comparison as a table of at most 80 columns; colour is never the only carrier of meaning.

    clearly known before 1,124   now lost 31 (2.8 %, 1.9 to 3.9)   measured twice -1 +0
    all answers  -142 +151 of 2000   net +0.5 points (-1.2 to +2.1)   sees 2.4

Percentages are shares of the items; points are differences of percentages; brackets hold 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.category_means import Macro
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group, Level
from forgetwatch.metrics.bounds import Bound
from forgetwatch.metrics.guessing import Corrected
from forgetwatch.metrics.intervals import Interval, mean_interval
from forgetwatch.metrics.paper import Paper
from forgetwatch.report.formatting import (
    between,
    brief,
    count,
    fit,
    items,
    one_line,
    percent,
    points,
    probability,
    visible,
)

WIDTH: Final = 80
ROWS: Final = 20
"""Groups that the table shows; the JSON holds all of them."""

_LOST: Final = "red"
_WON: Final = "green"


ASSUMES: Final = {
    "paper": "before and after unrelated; too high if guesses change, too low if they stay",
    "guess-corrected": "gold tempts like any wrong option; too high if some are ruled out",
    "calibrated": "gold tempts as often as it comes second; too high if half-known items move",
    "bound": "guesses win as often as they lose; from the net loss to k/(k-1) x all flips",
}
"""What each correction assumes, and where it errs; in full in the module of its name in `metrics`."""


def comparison_table(
    comparison: Comparison, *, by: Level = "category", title: str = "", explain: bool = False
) -> Lines:
    """One comparison as lines for a console: the headline, the corrections, the groups of a level, worst first.

    Args:
        comparison: What to show.
        by: The level whose groups are listed.
        title: The first line; by default the names of the two snapshots.
        explain: Whether a line under each correction says what it assumes and where it errs.
    """
    whole = comparison.all
    lines = [_title(comparison, title), *_subtitle(comparison)]
    lines += [*_known_line(whole), _all_line(whole), _accuracy_line(whole), *_form_lines(comparison)]
    lines += _noise_lines(comparison)
    lines += _chance_lines(whole, explain=explain)
    if comparison.paper_compat is not None:
        lines += _compat_lines(comparison.paper_compat)
    if by != "all":
        lines += _group_lines(list(comparison.by(by).values()))
    lines += [Text(f"note: {visible(note)}", style="dim", overflow="fold") for note in comparison.notes]
    return Lines(*lines)


def _title(comparison: Comparison, title: str) -> Text:
    text = Text("forgetwatch  ", style="bold cyan")
    text.append(one_line(title or " -> ".join(comparison.labels)), style="bold")
    return text


def _subtitle(comparison: Comparison) -> list[Text]:
    probe: dict[str, Any] = comparison.after.get("probe", {})
    counted = comparison.items
    parts = [one_line(str(probe["name"]))] if "name" in probe else []
    parts.append(f"{items(counted.compared)} compared")
    parts += [f"{comparison.samples} samples each"] if comparison.samples > 1 else []
    parts += (
        [f"in {comparison.clusters:,} cluster{'s' if comparison.clusters > 1 else ''}"] if comparison.clusters else []
    )
    parts += [f"{probe['rendering']} prompt"] if "rendering" in probe else []
    parts += [f"{counted.unscored:,} unscored"] if counted.unscored else []
    left_out = counted.only_before + counted.only_after
    parts += [f"left out {counted.only_before:,} only before, {counted.only_after:,} only after"] if left_out else []
    return [Text(", ".join(parts), style="dim")]


def _known_line(group: Group) -> list[Text]:
    if group.known is None or group.known_lost is None:
        return []
    text = Text(f"clearly known {count(group.known)} before   ")
    text.append(f"now lost {count(group.known_lost)}", style=f"bold {_LOST}")
    if group.known and group.known_lost_interval is not None:
        text.append(f" ({percent(group.known_lost / group.known)} %, {between(group.known_lost_interval, percent)})")
    return [text]


def _all_line(group: Group) -> Text:
    text = Text("all answers   ")
    text.append(f"-{count(group.forgotten, commas=False)}", style=f"bold {_LOST}").append(" ")
    text.append(f"+{count(group.gained, commas=False)}", style=f"bold {_WON}")
    text.append(f" of {count(group.n, commas=False)}  net {points(group.net_change)} points ")
    text.append(f"({between(group.net_change_interval, points)})")
    seen = group.detectable_change
    text.append("  too few flips" if math.isnan(seen) else f"  sees {percent(seen)}", style="dim")
    return text


def _form_lines(comparison: Comparison) -> list[Text]:
    """Written answers beside scored ones, and what of the losses is form."""
    lines = []
    for name, group in comparison.by("kind").items():
        text = Text(f"{name:<13} ")
        text.append(f"-{count(group.forgotten)}", style=_LOST).append(" ").append(f"+{count(group.gained)}", style=_WON)
        text.append(f" of {count(group.n)}  net {points(group.net_change)} points ")
        lines.append(text.append(f"({between(group.net_change_interval, points)})"))
    whole = comparison.all
    if whole.format_lost and whole.knowledge_lost is not None:
        text = Text("form lost     ").append(count(whole.format_lost), style=f"bold {_LOST}")
        text.append(" (the asked form gone, the answer not)   knowledge lost ")
        lines.append(text.append(count(whole.knowledge_lost), style=f"bold {_LOST}"))
    return lines


def _accuracy_line(group: Group) -> Text:
    return Text(
        f"right         {percent(group.accuracy_before)} % -> {percent(group.accuracy_after)} %   "
        f"forgot {percent(group.forgetting)} % ({between(group.forgetting_interval, percent)})   "
        f"kept {percent(group.retention)} %"
    )


def _noise_lines(comparison: Comparison) -> list[Text]:
    """What flips although nothing was forgotten: the same weights measured twice, and sampled decoding."""
    group, lines = comparison.all, []
    if group.null_lost is not None and group.null_gained is not None:
        flips = f"-{count(group.null_lost)} +{count(group.null_gained)}"
        of = f" of {count(group.null_n)}" if group.null_n is not None and group.null_n < group.n else ""
        lines.append(Text(f"measured twice {flips}{of} by the same weights: that much is noise", "dim"))
    if (noise := group.noise_floor) is not None:
        interval = mean_interval(noise.forgetting_above, noise.forgetting_above_se)
        lines.append(
            Text(
                f"sampling      flips {percent(noise.floor)} % each way by itself; "
                f"forgot above it {points(noise.forgetting_above)} ({between(interval, points)})",
                "dim",
            )
        )
    return lines


def _chance_lines(group: Group, *, explain: bool) -> list[Text]:
    rows = chance_rows(group)
    if not rows:
        return []
    lines = [Text(f"{'corrected':<18}{'forgot %':<22}gained %")]
    for name, lost, won, tail in rows:
        numbers = f"  {name:<15} {lost:<21} {won:<21} " if tail else f"  {name:<15} {lost:<21} {won}"
        lines.append(Text(numbers).append(tail, style="dim"))
        lines += [Text(f"    {ASSUMES[name]}", style="dim")] if explain else []
    if (stays := group.chance.persistence) is not None and not math.isnan(stays.same_wrong):
        fresh = percent(stays.same_wrong_if_fresh)
        lines.append(Text(f"wrong twice   same option {percent(stays.same_wrong)} % (fresh guesses {fresh} %)", "dim"))
        interval = group.chance.tipping_interval
        drawn = "" if interval is None else f" ({between(interval, _ratio)})"
        if not math.isnan(ratio := stays.tipping_ratio):
            lines.append(Text(f"tipping ratio {_ratio(ratio)}{drawn}: {_verdict(ratio)}", "dim"))
    return lines


def chance_rows(group: Group) -> list[tuple[str, str, str, str]]:
    """What each correction leaves: its name, forgotten, gained, and how many items took part where not all did."""
    chance, n = group.chance, group.n
    rows = []
    corrections: tuple[tuple[str, int, Paper | Corrected | None], ...] = (
        ("paper", 2, chance.paper),
        ("guess-corrected", 3, chance.guess_corrected),
        ("calibrated", 3, chance.guess_corrected_calibrated),
    )
    for name, least, rates in corrections:
        if rates is not None:
            if isinstance(rates, Paper):
                intervals = rates.forgetting_interval, rates.backward_transfer_interval
            else:
                intervals = rates.forgetting_band, rates.backward_transfer_band
            lost, won = _from_zero(rates.forgetting, intervals[0]), _from_zero(rates.backward_transfer, intervals[1])
            rows.append((name, lost, won, f"{count(rates.n)} with k>={least}" if rates.n < n else ""))
    if (bound := chance.bound) is not None:
        rows.append(("bound", *_bounds(bound), f"{count(chance.n)} with k>=2" if chance.n < n else ""))
    return rows


def _from_zero(rate: float, interval: Interval) -> str:
    """Shown from 0: what is below is noise around it. The JSON keeps it."""
    if interval[1] < 0:
        return "0.0 (all below 0)"
    return f"{percent(min(max(rate, 0.0), 1.0))} ({between((max(interval[0], 0.0), interval[1]), percent)})"


def _bounds(bound: Bound) -> tuple[str, str]:
    return between(bound.forgetting, percent), between(bound.backward_transfer, percent)


def _compat_lines(macro: Macro) -> list[Text]:
    """The paper's numbers as its released code computes them."""
    lines = [Text(f"{'paper-compat, categories':<30}{'forgot %':>8}{'gained %':>12}", style="bold")]
    rows = [("all", macro.forgetting, macro.backward_transfer)]
    rows += [(name, *rates) for name, rates in sorted(macro.by_category.items())]
    for name, lost, won in rows:
        spread = "" if math.isnan(lost.sd) else f"   sd {percent(lost.sd)}, {percent(won.sd)}"
        if lost.interval is not None and won.interval is not None:
            spread += f"   ({between(lost.interval, percent)}; {between(won.interval, percent)})"
        lines.append(Text(f"  {fit(name, 28)}{percent(lost.mean):>8}{percent(won.mean):>12}").append(spread, "dim"))
    return lines


def _ratio(value: float) -> str:
    return "n/a" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.1f}"


def _verdict(ratio: float) -> str:
    """What a tipping ratio says of the forgetting that is left; see `metrics.bounds.Persistence`."""
    if ratio <= 1:
        return "guessing explains all that was forgotten"
    return "that it was forgotten is fragile" if ratio <= 3 else "that it was forgotten is robust"


def _group_lines(groups: Sequence[Group]) -> list[Text]:
    if not groups:
        return []
    has_known = any(group.known is not None for group in groups)
    shown = sorted(groups, key=_badness)[:ROWS]
    lost_width = max([12, *(len(_known_share(group)) for group in shown)])
    name_width = 30 - lost_width if has_known else 22
    columns = f"{'known':>6}  {'now lost':<{lost_width}}" if has_known else f"{'forgot':>6} {'gained':>7}"
    level = f"worst {'categories' if groups[0].level == 'category' else 'tasks'}"
    lines = [Text(f"{level:<{name_width}} {'n':>6} {columns} {'net points':>24}       q", style="bold")]
    for group in shown:
        text = Text(f"  {fit(group.name, name_width - 2)} {brief(group.n, 6):>6} ")
        if has_known:
            text.append(f"{brief(group.known or 0, 6):>6}  ")
            text.append(f"{_known_share(group):<{lost_width}}", style=_LOST if group.known_lost else "")
        else:
            text.append(f"{'-' + brief(group.forgotten, 5):>6}", style=_LOST)
            text.append(f" {'+' + brief(group.gained, 6):>7}", style=_WON)
        net = f"{points(group.net_change)} ({between(group.net_change_interval, points)})"
        text.append(f" {net:>24}   {probability(group.q_value):>5}")
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
    return f"{brief(lost, 6)} ({percent(lost / group.known)} %)" if lost else "0"

"""A Comparison in a terminal of 80 columns: the first table, and all its numbers in detail.

    forgetwatch  step 600 of 600, against the start   standard, 2,000 items, plain prompt
    forgotten 142   gained 151   net +0.5 points (-1.2 to +2.1)   can see 2.4 points
    clearly known 1,124   now lost 31 (2.8 %)
    worst categories             n forgotten  gained               net points      q
      Math                     222        14       3       -5.0 (-8.9 to -1.2)   .010
    PASS: accuracy did not fall by more than 2 points

The first table has at most `LINES` lines and leaves out whatever is undefined. The detail has every correction, bound
and diagnostic, and up to `ROWS` groups. Percentages are shares of the items, points are differences of percentages,
brackets hold 95 % intervals. No meaning is carried by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.category_means import CategoryMeans
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group, Level
from forgetwatch.comparing.verdict import TOLERANCE, group_verdict
from forgetwatch.metrics.intervals import mean_interval
from forgetwatch.report.cells import ASSUMES, chance_rows, net_change, ratio_text
from forgetwatch.report.formatting import (
    between,
    brief,
    count,
    fit,
    fit_ends,
    items,
    one_line,
    percent,
    points,
    probability,
    tolerance_points,
    visible,
)
from forgetwatch.report.summary import fallen_groups

WIDTH: Final = 80
LINES: Final = 11
"""Maximum number of lines of the first table; the path of a report below it is the twelfth."""
WORST: Final = 3
"""Groups in the first table."""
ROWS: Final = 20
"""Groups in the detail; the JSON document has all of them."""

_LOST: Final = "red"
_WON: Final = "green"
_BRAND: Final = "forgetwatch  "
_NAME: Final = 30


def comparison_table(
    comparison: Comparison,
    *,
    by: Level = "category",
    title: str = "",
    tolerance: float = TOLERANCE,
    alarms: Text | None = None,
) -> Lines:
    """First table of a comparison, for a console.

    Args:
        comparison: The comparison.
        by: Level of the groups that are listed, worst net change first; ``all`` lists none.
        title: Title; by default the names of the two snapshots.
        tolerance: Net loss of accuracy that the verdict tolerates, 0 to 1.
        alarms: Line about the alarms of a run, in place of the one about groups that fell by more than luck.
    """
    whole = comparison.all
    if not whole.n:
        return Lines(*_heading(comparison, title), Text("nothing to compare: no item was scored on both sides"))
    if not whole.forgotten and not whole.gained:
        # Nothing to list: one heading, one sentence, one verdict.
        same = f"no item flipped: {count(whole.retained)} right and {count(whole.missed)} wrong, before and after"
        lines = [_heading_line(comparison, title), Text(same), *_decision_line(whole, tolerance)]
        return Lines(*lines, *([] if alarms is None else [_cut(alarms)]), *note_lines(comparison.notes))
    top = [*_heading(comparison, title), _flips_line(whole), *_known_line(whole)]
    bottom = _decision_line(whole, tolerance)
    bottom += _losses_line(comparison) if alarms is None else [_cut(alarms)]
    bottom += note_lines(comparison.notes)
    # The groups give way first: each of the other lines says something that no other one does.
    room = min(WORST, LINES - len(top) - len(bottom) - 1)
    return Lines(*top, *_worst_lines([] if by == "all" else list(comparison.by(by).values()), room), *bottom)


def _heading(comparison: Comparison, title: str) -> list[Text]:
    """Title and facts, in one line if both fit."""
    name, facts = one_line(title or " -> ".join(comparison.labels)), _facts(comparison)
    if len(_BRAND) + cell_len(name) + 2 + cell_len(facts) <= WIDTH:
        return [_heading_line(comparison, title)]
    return [_title(fit_ends(name, WIDTH - len(_BRAND)).rstrip()), Text(facts, style="dim")]


def _heading_line(comparison: Comparison, title: str) -> Text:
    """Title, without its middle if it is long, and facts in one line."""
    name, facts = one_line(title or " -> ".join(comparison.labels)), _facts(comparison)
    room = max(WIDTH - len(_BRAND) - cell_len(facts) - 2, 12)
    return _cut(_title(fit_ends(name, room)).append(f"  {facts}", style="dim"))


def _title(name: str) -> Text:
    return Text().append(_BRAND, style="bold cyan").append(name, style="bold")


def _facts(comparison: Comparison) -> str:
    """Probe, number of items, and all that limits the comparison; the last parts are dropped if they do not fit."""
    probe: dict[str, Any] = comparison.after.get("probe", {})
    counted = comparison.items
    left_out = counted.only_before + counted.only_after
    parts = [
        fit_ends(str(probe["name"]), _NAME).rstrip() if "name" in probe else "",
        items(counted.compared),
        f"{counted.unscored:,} unscored" if counted.unscored else "",
        f"{left_out:,} left out" if left_out else "",
        f"{comparison.samples} samples each" if comparison.samples > 1 else "",
        _clusters(comparison),
        f"{one_line(str(probe['rendering']))} prompt" if "rendering" in probe else "",
    ]
    parts = [part for part in parts if part]
    # The parts are in the order of their weight.
    while cell_len(", ".join(parts)) > WIDTH:
        parts.pop()
    return ", ".join(parts)


def _clusters(comparison: Comparison) -> str:
    clusters = comparison.clusters
    return f"in {clusters:,} cluster{'s' if clusters > 1 else ''}" if clusters else ""


def _flips_line(group: Group) -> Text:
    parts = [
        Text("forgotten ").append(count(group.forgotten), style=f"bold {_LOST}"),
        Text("gained ").append(count(group.gained), style=f"bold {_WON}"),
    ]
    interval = group.net_change_interval
    net = Text(f"net {points(group.net_change)} points")
    parts.append(net if math.isnan(interval[0]) else net.append(f" ({between(interval, points)})"))
    if not math.isnan(seen := group.detectable_change):
        parts.append(Text(f"can see {percent(seen)} points", style="dim"))
    # Counts of five digits leave less room between the parts, and none for the last word.
    gap = next((gap for gap in (3, 2, 1) if sum(map(len, parts)) + gap * (len(parts) - 1) <= WIDTH), 0)
    if not gap:
        parts[-1] = parts[-1][: -len(" points")]
    return Text(" " * max(gap, 1)).join(parts)


def _known_line(group: Group) -> list[Text]:
    if group.known is None or group.known_lost is None:
        return []
    text = Text(f"clearly known {count(group.known)}   now lost ")
    text.append(count(group.known_lost), style=f"bold {_LOST}")
    return [text.append(f" ({percent(group.known_lost / group.known)} %)" if group.known else "")]


def _worst_lines(groups: Sequence[Group], most: int) -> list[Text]:
    """Groups of the lowest net change under a heading; no line for fewer than two groups."""
    if len(groups) < 2:
        return []
    heading = f"worst {_plural(groups[0].level)}"
    # The widths and the gaps add up to 79 columns, so that no line wraps.
    lines = [Text(f"{heading:<22} {'n':>7} {'forgotten':>9} {'gained':>7} {'net points':>24} {'q':>5}", style="bold")]
    for group in sorted(groups, key=_net_first)[:most]:
        text = Text(f"  {fit(group.name, 20)} {brief(group.n, 7):>7} ")
        text.append(f"{brief(group.forgotten, 9):>9}", style=_LOST).append(" ")
        text.append(f"{brief(group.gained, 7):>7}", style=_WON)
        lines.append(text.append(f" {net_change(group):>24} {probability(group.q_value):>5}"))
    return lines


def _plural(level: Level) -> str:
    return "categories" if level == "category" else f"{level}s"


def _net_first(group: Group) -> tuple[float, float]:
    # nan has no order: groups without items come last.
    return group.net_change if math.isfinite(group.net_change) else math.inf, -group.forgotten


def _decision_line(group: Group, tolerance: float) -> list[Text]:
    """Line of the verdict; none if the net change has no interval."""
    if math.isnan(group.net_change_interval[0]):
        return []
    found = group_verdict(group, tolerance)
    bound = tolerance_points(tolerance)
    says = {
        "PASS": f"accuracy did not fall by more than {bound}",
        "FAIL": f"accuracy fell by more than {bound}",
        "INCONCLUSIVE": f"the net may be below -{bound}",
    }[found.word]
    more = f"; {count(found.items_needed)} items would decide" if found.items_needed is not None else ""
    style = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold"}[found.word]
    return [_cut(Text().append(found.word, style=style).append(f": {says}{more}"))]


def _losses_line(comparison: Comparison) -> list[Text]:
    """Line of the groups that fell by more than luck, at a false discovery rate of 5 %; none if no group did."""
    fallen = [
        f"{'accuracy' if group.level == 'all' else one_line(group.name)} {points(group.net_change)} points"
        for group in fallen_groups(comparison, None)
    ]
    return [_cut(Text(f"fell by more than luck: {', '.join(fallen)}"))] if fallen else []


def note_lines(notes: Sequence[str]) -> list[Text]:
    """Line with the first of some notes, cut at the margin, and their number; none for no notes."""
    if not notes:
        return []
    which = "note" if len(notes) == 1 else f"{len(notes)} notes, the first"
    return [_cut(Text(f"{which}: {one_line(notes[0])}", style="dim"))]


def _cut(text: Text) -> Text:
    text.truncate(WIDTH, overflow="ellipsis")
    return text


def comparison_detail(comparison: Comparison, *, by: Level = "category") -> Lines:
    """All numbers of a comparison that a terminal shows, for a console; the first table is not among them.

    Args:
        comparison: The comparison.
        by: Level of the groups that are listed, worst first; ``all`` lists none.
    """
    whole = comparison.all
    lines = [Text(_all_facts(comparison), style="dim"), *_known_detail(whole), _all_line(whole), _accuracy_line(whole)]
    lines += [*_form_lines(comparison), *_noise_lines(comparison), *_chance_lines(whole)]
    if comparison.paper_compat is not None:
        lines += _compat_lines(comparison.paper_compat)
    if by != "all":
        lines += _group_lines(list(comparison.by(by).values()))
    lines += [Text(f"note: {visible(note)}", style="dim", overflow="fold") for note in comparison.notes]
    return Lines(*lines)


def _all_facts(comparison: Comparison) -> str:
    probe: dict[str, Any] = comparison.after.get("probe", {})
    counted = comparison.items
    left_out = counted.only_before + counted.only_after
    parts = [
        one_line(str(probe["name"])) if "name" in probe else "",
        f"{items(counted.compared)} compared",
        f"{comparison.samples} samples each" if comparison.samples > 1 else "",
        _clusters(comparison),
        f"{one_line(str(probe['rendering']))} prompt" if "rendering" in probe else "",
        f"{counted.unscored:,} unscored" if counted.unscored else "",
        f"left out {counted.only_before:,} only before, {counted.only_after:,} only after" if left_out else "",
    ]
    return ", ".join(filter(None, parts))


def _known_detail(group: Group) -> list[Text]:
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
    return text.append("  too few flips" if math.isnan(seen) else f"  can see {percent(seen)}", style="dim")


def _accuracy_line(group: Group) -> Text:
    return Text(
        f"right         {percent(group.accuracy_before)} % -> {percent(group.accuracy_after)} %   "
        f"forgot {percent(group.forgetting)} % ({between(group.forgetting_interval, percent)})   "
        f"kept {percent(group.retention)} %"
    )


def _form_lines(comparison: Comparison) -> list[Text]:
    """Generated answers next to log-likelihood ones, and the share of the losses that is one of form."""
    lines = []
    for name, group in comparison.by("kind").items():
        text = Text(f"{name:<13} ")
        text.append(f"-{count(group.forgotten)}", style=_LOST).append(" ").append(f"+{count(group.gained)}", style=_WON)
        lines.append(text.append(f" of {count(group.n)}  net {points(group.net_change)} points ").append(_in(group)))
    whole = comparison.all
    if whole.format_lost and whole.knowledge_lost is not None:
        text = Text("form lost     ").append(count(whole.format_lost), style=f"bold {_LOST}")
        text.append(" (answer not in the required form)   knowledge lost ")
        lines.append(text.append(count(whole.knowledge_lost), style=f"bold {_LOST}"))
    return lines


def _in(group: Group) -> str:
    return f"({between(group.net_change_interval, points)})"


def _noise_lines(comparison: Comparison) -> list[Text]:
    """Flips without any forgetting: the same weights measured twice, and sampled decoding."""
    group, lines = comparison.all, []
    if group.null_lost is not None and group.null_gained is not None:
        flips = f"-{count(group.null_lost)} +{count(group.null_gained)}"
        of = f" of {count(group.null_n)}" if group.null_n is not None and group.null_n < group.n else ""
        lines.append(Text(f"measured twice {flips}{of} with the same weights: these flips are noise", "dim"))
    if (noise := group.noise_floor) is not None:
        interval = mean_interval(noise.forgetting_above, noise.forgetting_above_se)
        above = f"{points(noise.forgetting_above)} ({between(interval, points)})"
        lines.append(Text(f"sampling      flips {percent(noise.floor)} % each way; forgot {above} above that", "dim"))
    return lines


def _chance_lines(group: Group) -> list[Text]:
    """Each correction with a line on its assumption and error, then the two diagnostics of guessing."""
    rows = chance_rows(group)
    if not rows:
        return []
    lines = [Text(f"{'corrected':<18}{'forgot %':<22}gained %")]
    for name, lost, won, tail in rows:
        numbers = f"  {name:<15} {lost:<21} {won:<21} " if tail else f"  {name:<15} {lost:<21} {won}"
        lines += [Text(numbers).append(tail, style="dim"), Text(f"    {ASSUMES[name]}", style="dim")]
    if (stays := group.chance.persistence) is not None and not math.isnan(stays.same_wrong):
        fresh = percent(stays.same_wrong_if_fresh)
        lines.append(Text(f"wrong twice   same option {percent(stays.same_wrong)} % (fresh guesses {fresh} %)", "dim"))
        interval = group.chance.tipping_interval
        drawn = "" if interval is None else f" ({between(interval, ratio_text)})"
        if not math.isnan(ratio := stays.tipping_ratio):
            lines.append(Text(f"tipping ratio {ratio_text(ratio)}{drawn}: {_reading(ratio)}", "dim"))
    return lines


def _reading(ratio: float) -> str:
    """Reading of a tipping ratio; see `metrics.bounds.Persistence`."""
    if ratio <= 1:
        return "guessing explains all forgetting"
    return "the finding of forgetting is fragile" if ratio <= 3 else "the finding of forgetting is robust"


def _compat_lines(macro: CategoryMeans) -> list[Text]:
    """Lines of the paper's numbers as its released code computes them."""
    lines = [Text(f"{'paper-compat, categories':<30}{'forgot %':>8}{'gained %':>12}", style="bold")]
    rows = [("all", macro.forgetting, macro.backward_transfer)]
    rows += [(name, *rates) for name, rates in sorted(macro.by_category.items())]
    for name, lost, won in rows:
        spread = "" if math.isnan(lost.sd) else f"   sd {percent(lost.sd)}, {percent(won.sd)}"
        if lost.interval is not None and won.interval is not None:
            spread += f"   ({between(lost.interval, percent)}; {between(won.interval, percent)})"
        lines.append(Text(f"  {fit(name, 28)}{percent(lost.mean):>8}{percent(won.mean):>12}").append(spread, "dim"))
    return lines


def _group_lines(groups: Sequence[Group]) -> list[Text]:
    if not groups:
        return []
    has_known = any(group.known is not None for group in groups)
    shown = sorted(groups, key=_badness)[:ROWS]
    # A long share of the known takes its columns from the name, so that every line keeps 80.
    lost_width = max([12, *(len(_known_share(group)) for group in shown)])
    name_width = 30 - lost_width if has_known else 22
    columns = f"{'known':>6}  {'now lost':<{lost_width}}" if has_known else f"{'forgot':>6} {'gained':>7}"
    level = f"worst {_plural(groups[0].level)}"
    lines = [Text(f"{level:<{name_width}} {'n':>6} {columns} {'net points':>24}       q", style="bold")]
    for group in shown:
        text = Text(f"  {fit(group.name, name_width - 2)} {brief(group.n, 6):>6} ")
        if has_known:
            text.append(f"{brief(group.known or 0, 6):>6}  ")
            text.append(f"{_known_share(group):<{lost_width}}", style=_LOST if group.known_lost else "")
        else:
            text.append(f"{'-' + brief(group.forgotten, 5):>6}", style=_LOST)
            text.append(f" {'+' + brief(group.gained, 6):>7}", style=_WON)
        lines.append(text.append(f" {net_change(group):>24}   {probability(group.q_value):>5}"))
    if len(groups) > ROWS:
        lines.append(Text(f"  and {len(groups) - ROWS} more, none worse; --json has all", style="dim"))
    return lines


def _badness(group: Group) -> tuple[float, float]:
    """Sort key, worst first: by the share of the known that was lost if there is one, then by net change."""
    lost = -group.known_lost / group.known if group.known and group.known_lost else 0.0
    return lost, group.net_change if math.isfinite(group.net_change) else math.inf


def _known_share(group: Group) -> str:
    if not group.known:
        return "-"
    lost = group.known_lost or 0
    return f"{brief(lost, 6)} ({percent(lost / group.known)} %)" if lost else "0"

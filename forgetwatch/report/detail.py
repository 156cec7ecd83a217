"""A Comparison in a terminal, in detail: every correction, bound and diagnostic, and up to `ROWS` groups.

It follows the first table (`report.terminal`). Percentages are shares of the items, points are differences of
percentages, brackets hold 95 % intervals. No meaning is carried by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import CategoryMeans, Comparison, Group, Level, estimated, smallest_seen
from forgetwatch.measures import ASSUMES, ESTIMATORS, KNOWN, MASS, NOT_THERE, chance_rows, net_of_luck, said
from forgetwatch.metrics import mean_interval
from forgetwatch.pairing import between, brief, count, fit, percent, points, probability
from forgetwatch.report.cells import drift_rows
from forgetwatch.report.terminal import LOST, WON, facts, net_text, other_lines, passage_lines, plural
from forgetwatch.visible_text import visible

ROWS: Final = 20
"""Groups in the detail; the JSON document has all of them."""


def comparison_detail(comparison: Comparison, *, by: Level = "category") -> Lines:
    """All numbers of a comparison that a terminal shows, for a console; the first table is not among them.

    The groups of the level `by` are listed, worst first; ``all`` lists none.
    """
    whole = comparison.all
    groups = [] if by == "all" else list(comparison.by(by).values())
    lines = [Text(_all_facts(comparison), style="dim")]
    if whole.n or not whole.passages:
        lines += [*_known_lines(whole), *_flips_lines(whole), *_log_score_lines(whole), *_mass_lines(whole)]
        lines += [*_form_lines(comparison), *_noise_lines(whole), *_chance_lines(whole)]
        if comparison.paper_compat is not None:
            lines += _compat_lines(comparison.paper_compat)
        lines += _group_lines([group for group in groups if group.n])
    lines += [*other_lines(whole), *passage_lines(groups, ROWS), *drift_detail(comparison)]
    lines += [Text(f"note: {visible(note)}", style="dim", overflow="fold") for note in comparison.notes]
    return Lines(*lines)


def _all_facts(comparison: Comparison) -> str:
    found, counted = facts(comparison), comparison.items
    if found["items"]:
        found["items"] += " compared"
    if found["left out"]:
        found["left out"] = f"left out {counted.only_before:,} only before, {counted.only_after:,} only after"
    order = ("probe", "items", "samples", "clusters", "prompt", "unscored", "left out")
    return ", ".join(found[name] for name in order if found[name])


def _known_lines(group: Group) -> list[Text]:
    if group.known is None or group.known_lost is None:
        return []
    text = Text(f"clearly known {count(group.known)} before   ")
    text.append(f"now lost {count(group.known_lost)}", style=f"bold {LOST}")
    if group.known and group.known_lost_interval is not None:
        text.append(f" ({percent(group.known_lost / group.known)} %, {between(group.known_lost_interval, percent)})")
    if group.known_net is None or (net := net_of_luck(group[KNOWN])) is None:
        return [text, Text("  luck not measured", "dim")]
    share = group.known_lost_net_share
    of = "" if share is None else f", {percent(share)} % of {count(round(group.known_net))}"
    lines = [text, Text(f"  lucky guesses {net.by_luck}: without them {net.net} ({net.low} to {net.high}){of}")]
    if group.newly_known_net is not None and group.newly_known_net_interval is not None:
        newly, ends = count(round(group.newly_known_net, 1)), between(group.newly_known_net_interval, _whole)
        lines.append(Text(f"  newly known without lucky guesses {newly} ({ends})"))
    return lines


def _whole(value: float) -> str:
    return count(round(value))


def _flips_lines(group: Group) -> list[Text]:
    """Lines of all answers: flips, accuracy, and the unscored ones with what those that vanished leave possible."""
    flips = Text("all answers   ")
    flips.append(f"-{count(group.forgotten, commas=False)}", style=f"bold {LOST}").append(" ")
    flips.append(f"+{count(group.gained, commas=False)}", style=f"bold {WON}")
    flips.append(f" of {count(group.n, commas=False)}  by flips {points(group.net_change)} points ")
    flips.append(f"({between(group.net_change_interval, points)})")
    seen = smallest_seen(group)
    shows = "too few flips to show a change" if math.isnan(seen) else f"80 % power for {percent(seen)} points"
    net = Text(f"net change    {net_text(group)} points, estimated").append(f"   {shows}", style="dim")
    right = Text(
        f"right         {percent(group.accuracy_before)} % -> {percent(group.accuracy_after)} %   "
        f"forgot {percent(group.forgetting)} % ({between(group.forgetting_interval, percent)})   "
        f"kept {percent(group.retention)} %"
    )
    if not (group.unscored_before or group.unscored_after):
        return [net, flips, right]
    text = f"unscored      {count(group.unscored_before)} before, {count(group.unscored_after)} after, "
    text += f"{count(group.newly_unscored)} newly"
    if group.known_vanished:
        text += f", {count(group.known_vanished)} of them clearly known"
    lines = [net, flips, right, Text(text)]
    if group.vanished:
        lines.append(
            Text(f"  by flips at worst {between(group.net_change_interval_worst, points)} points", style="dim")
        )
    return lines


def _log_score_lines(group: Group) -> list[Text]:
    """Lines of the log score: calibrated, as it is, and clipped, and the temperatures; none without scores."""
    if group.log_score_before is None or group.log_score_after is None:
        return []
    lines = [Text(f"log score     {group.log_score_before:.3f} -> {group.log_score_after:.3f} nats, not calibrated")]
    for name, change, interval in (
        ("calibrated", group.log_score_change_calibrated, group.log_score_change_calibrated_interval),
        ("as it is", group.log_score_change, group.log_score_change_interval),
        ("clipped", group.log_score_change_clipped, group.log_score_change_clipped_interval),
    ):
        if change is not None and interval is not None:
            lines.append(Text(f"  {name:<12}{change:+.3f} ({between(interval, lambda end: f'{end:+.3f}')})"))
    if group.temperature_before is not None and group.temperature_after is not None:
        # The best divisor of a side's scores: above 1 for a model that is surer than it is right.
        lines.append(Text(f"  temperature {group.temperature_before:.2f} -> {group.temperature_after:.2f}", "dim"))
    return lines


def _mass_lines(group: Group) -> list[Text]:
    """Lines of the two parts over all items and over the forgotten ones, and their sentence; none without mass."""
    found = group[MASS]
    if found is None:
        return []
    cells = MASS.cells(found)
    lines = [Text(f"{'why, nats':<14}{'mass, log m':<27}within the options, log c")]
    for name, prefix in (("all", ""), ("forgotten", "forgotten_")):
        mass, conditional = cells[f"{prefix}log_mass_change"], cells[f"{prefix}log_conditional_change"]
        if mass != NOT_THERE:
            lines.append(Text(f"  {name:<12}{mass:<27}{conditional}"))
    weighted = group.weighted_conditional_kl
    letters = "" if weighted is None else f"; letters, times their mass: {weighted:.4f}"
    lines.append(Text(f"  {'KL':<39}{cells['conditional_kl']}{letters}", "dim"))
    if sentence := said(MASS, found):
        lines.append(Text(sentence, "dim"))
    return lines


def _form_lines(comparison: Comparison) -> list[Text]:
    """Generated answers next to log-likelihood ones, and the share of the losses that is one of form."""
    lines = []
    for name, group in comparison.by("kind").items():
        text = Text(f"{name:<13} ")
        text.append(f"-{count(group.forgotten)}", style=LOST).append(" ").append(f"+{count(group.gained)}", style=WON)
        lines.append(text.append(f" of {count(group.n)}  net change {net_text(group)} points"))
    whole = comparison.all
    if whole.format_lost and whole.knowledge_lost is not None:
        text = Text("other answer  ").append(count(whole.knowledge_lost), style=f"bold {LOST}")
        text.append("   form lost ").append(count(whole.format_lost), style=f"bold {LOST}")
        lines.append(text.append(" (right option still first, answered otherwise)"))
    return lines


def _noise_lines(group: Group) -> list[Text]:
    """Flips without any forgetting: the same weights measured twice, and sampled decoding."""
    lines = []
    if group.null_lost is not None and group.null_gained is not None:
        flips = f"-{count(group.null_lost)} +{count(group.null_gained)}"
        of = f" of {count(group.null_n)}" if group.null_n is not None and group.null_n < group.n else ""
        lines.append(Text(f"measured twice, the same weights: {flips}{of}, which is noise", "dim"))
    if (noise := group.noise_floor) is not None:
        interval = mean_interval(noise.forgetting_above, noise.forgetting_above_se)
        above = f"{points(noise.forgetting_above)} ({between(interval, points)})"
        lines.append(Text(f"sampling      flips {percent(noise.floor)} % each way; forgot {above} above that", "dim"))
    return lines


def _chance_lines(group: Group) -> list[Text]:
    """Each correction with a line on its assumption and error, then the two diagnostics of guessing."""
    rows = chance_rows(group.chance, group.n)
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
        drawn = "" if interval is None else f" ({between(interval, _ratio)})"
        if not math.isnan(ratio := stays.tipping_ratio):
            text = f"tipping ratio {_ratio(ratio)}{drawn}: what a right option must attract, unknown,"
            lines += [Text(text, "dim"), Text("    over a wrong one, for guessing to make all flips to wrong", "dim")]
    return lines


def _ratio(value: float) -> str:
    return "n/a" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.1f}"


def drift_detail(comparison: Comparison) -> list[Text]:
    """Lines of all estimators for each set of prompts; none where no drift was measured."""
    lines = []
    for name, cells in drift_rows(comparison.drift or {}):
        lines.append(Text(f"drift after {name}, KL(base||now) in nats a token"))
        there = [one for one in reversed(ESTIMATORS) if cells[one] != NOT_THERE]
        lines += [Text(f"  {ESTIMATORS[one]:<8} {cells[one]}") for one in there]
        lines.append(Text(f"  floor    {cells['floor.kl_sampled']}", "dim"))
        lines.append(Text(f"  overlap  {cells['overlap']} of whole texts", "dim"))
    return lines


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
    # Long counts of the known and lost take their columns from the name, so that every line keeps 80.
    lost_width = max([12, *(len(_known_lost(group)) for group in shown)])
    name_width = 30 - lost_width if has_known else 22
    columns = f"{'known':>6}  {'now lost':<{lost_width}}" if has_known else f"{'forgot':>6} {'gained':>7}"
    level = plural(groups[0].level)
    lines = [Text(f"{level:<{name_width}} {'n':>6} {columns} {'net change, points':>24}       q", style="bold")]
    for group in shown:
        text = Text(f"  {fit(group.name, name_width - 2)} {brief(group.n, 6):>6} ")
        if has_known:
            text.append(f"{'-' if group.known is None else brief(group.known, 6):>6}  ")
            text.append(f"{_known_lost(group):<{lost_width}}")
        else:
            text.append(f"{'-' + brief(group.forgotten, 5):>6}", style=LOST)
            text.append(f" {'+' + brief(group.gained, 6):>7}", style=WON)
        lines.append(text.append(f" {net_text(group):>24}   {probability(group.q_value):>5}"))
    if len(groups) > ROWS:
        lines.append(Text(f"  and {len(groups) - ROWS} more, none worse; --json has all", style="dim"))
    return lines


def _badness(group: Group) -> tuple[float, float]:
    """Sort key, worst first: by the share of the known that was lost, less luck if measured, then by net change."""
    share = group.known_lost_net_share
    if share is None:
        share = group.known_lost / group.known if group.known and group.known_lost else 0.0
    change, _ = estimated(group)
    return -share, change if math.isfinite(change) else math.inf


def _known_lost(group: Group) -> str:
    """Known and lost items, and how many they are less luck; if that is not measured, their share of the known."""
    if group.known is None or group.known_lost is None:
        return "-"
    lost = brief(group.known_lost, 6)
    if (net := net_of_luck(group[KNOWN])) is not None:
        return f"{lost} ({net.by_luck} luck)"
    return f"{lost} ({percent(group.known_lost / group.known)} %)" if group.known_lost else "0"

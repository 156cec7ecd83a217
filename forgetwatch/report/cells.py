"""The quantities of a group as text: the one place that rounds, for all tables of all reports.

    group_cells          one text for each quantity in `HEADINGS`: Markdown, page, notebook
    passage_cells        the same for `PASSAGE_HEADINGS`; only groups of passages have them
    chance_rows          the result of each correction for guessing; `ASSUMES` says what each assumes
    net_change, flips    pieces of lines in the terminal; also known_lost_net, log_score_change
    net_of_luck          known and lost items less those that luck makes

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats; brackets hold 95 %
intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from forgetwatch.comparing import Group
from forgetwatch.metrics import Bound, Corrected, Interval, Paper
from forgetwatch.report.formatting import between, bits, count, nats, percent, points, probability

HEADINGS: Final = {
    "n": "questions",
    "accuracy_before": "right before",
    "accuracy_after": "right after",
    "forgotten": "forgotten",
    "gained": "gained",
    "known": "clearly known",
    "known_lost": "now lost",
    "known_lost_net": "less luck",
    "net_change": "net points",
    "q_value": "q",
    "log_score_change_calibrated": "log score, nats",
}
"""Heading of each column, by quantity."""

PASSAGE_HEADINGS: Final = {
    "passages": "passages",
    "bits_per_byte_before": "bits per byte before",
    "bits_per_byte_after": "after",
    "bits_per_byte_change": "change",
    "bits_per_byte_q_value": "q",
}
"""Heading of each column on passages, by quantity."""

NOT_THERE: Final = "–"

ASSUMES: Final = {
    "paper": "before and after are unrelated; too high if guesses change, too low if not",
    "guess-corrected": "guesses hit like any wrong option; too high if some options are ruled out",
    "calibrated": "guesses hit as often as gold is second; too high if half-known items move",
    "bound": "guesses win as often as they lose; from the net loss to k/(k-1) x all flips",
}
"""Assumption of each correction, and the direction of its error; in full in the module of its name in `metrics`."""


def group_cells(group: Group) -> dict[str, str]:
    """Text of each quantity in `HEADINGS` for one group; dashes if none of its items was compared."""
    if not group.n:
        return dict.fromkeys(HEADINGS, NOT_THERE) | {"n": count(group.n)}
    known, lost = group.known, group.known_lost
    return {
        "n": count(group.n),
        "accuracy_before": f"{percent(group.accuracy_before)} %",
        "accuracy_after": f"{percent(group.accuracy_after)} %",
        "forgotten": count(group.forgotten),
        "gained": count(group.gained),
        "known": NOT_THERE if known is None else count(known),
        "known_lost": NOT_THERE if lost is None else count(lost),
        "known_lost_net": known_lost_net(group),
        "net_change": net_change(group),
        "q_value": probability(group.q_value),
        "log_score_change_calibrated": log_score_change(group),
    }


def passage_cells(group: Group) -> dict[str, str]:
    """Text of each quantity in `PASSAGE_HEADINGS` for one group; empty for a group without passages."""
    before, after, q = group.bits_per_byte_before, group.bits_per_byte_after, group.bits_per_byte_q_value
    if not group.passages or before is None or after is None:
        return {}
    return {
        "passages": count(group.passages),
        "bits_per_byte_before": f"{before:.3f}",
        "bits_per_byte_after": f"{after:.3f}",
        "bits_per_byte_change": bits_per_byte_change(group),
        "bits_per_byte_q_value": probability(math.nan if q is None else q),  # one text has no test
    }


def bits_per_byte_change(group: Group) -> str:
    """Change of the bits per byte with its 95 % interval, such as ``+0.046 (+0.031 to +0.061)``, or a dash."""
    change, interval = group.bits_per_byte_change, group.bits_per_byte_change_interval
    if change is None or interval is None:
        return NOT_THERE
    if math.isnan(interval[0]):
        return bits(change)[0]
    shown, low, high = bits(change, *interval)
    return f"{shown} ({low} to {high})"


def known_lost_net(group: Group) -> str:
    """Known and lost items less luck with their 95 % interval, such as ``22 (10 to 34)``; a dash without a mirror."""
    net = net_of_luck(group)
    return NOT_THERE if net is None else net.net if net.low == "n/a" else f"{net.net} ({net.low} to {net.high})"


def log_score_change(group: Group) -> str:
    """Change of the calibrated log score with its 95 % interval, such as ``-0.04 (-0.07 to -0.01)``, or a dash."""
    change, interval = group.log_score_change_calibrated, group.log_score_change_calibrated_interval
    if change is None or interval is None:
        return NOT_THERE
    shown, low, high = nats(change, *interval)
    return shown if math.isnan(interval[0]) else f"{shown} ({low} to {high})"


def net_change(group: Group) -> str:
    """Net change in points with its 95 % interval, such as ``-1.1 (-7.4 to +5.2)``."""
    return f"{points(group.net_change)} ({between(group.net_change_interval, points)})"


def flips(group: Group) -> str:
    """Forgotten and gained counts with their signs, such as ``-68 +64``."""
    return f"-{count(group.forgotten)} +{count(group.gained)}"


def chance_rows(group: Group) -> list[tuple[str, str, str, str]]:
    """(name, forgotten %, gained %, items) of each correction; `items` is empty if all items took part."""
    chance, n = group.chance, group.n
    rows = []
    corrections: tuple[tuple[str, int, Paper | Corrected | None], ...] = (
        ("paper", 2, chance.paper),
        ("guess-corrected", 3, chance.guess_corrected),
        ("calibrated", 3, chance.guess_corrected_calibrated),
    )
    # `least` is the smallest number of options with which an item takes part.
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
    """Text of a rate and its interval, cut off at 0: values below are noise, and only the JSON keeps them."""
    if interval[1] < 0:
        return "0.0 (all below 0)"
    return f"{percent(min(max(rate, 0.0), 1.0))} ({between((max(interval[0], 0.0), interval[1]), percent)})"


def _bounds(bound: Bound) -> tuple[str, str]:
    return between(bound.forgetting, percent), between(bound.backward_transfer, percent)


def ratio_text(value: float) -> str:
    """Text of a ratio, to one decimal."""
    return "n/a" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.1f}"


@dataclass(frozen=True)
class NetOfLuck:
    """Texts of the known and lost items less luck. `by_luck` and `net` add up to the lost ones as they are shown."""

    by_luck: str
    net: str
    low: str
    high: str


def net_of_luck(group: Group) -> NetOfLuck | None:
    """Texts of the known and lost items less luck, whole from 10 items on; None if luck is not measured."""
    lost, by_luck, interval = group.known_lost, group.known_lost_by_luck, group.known_lost_net_interval
    if lost is None or by_luck is None or interval is None:
        return None
    digits = 0 if max(lost, by_luck) >= 10 and float(lost).is_integer() else 1
    made = round(by_luck, digits)
    return NetOfLuck(*(_counted(value, digits) for value in (made, lost - made, *interval)))


def _counted(value: float, digits: int) -> str:
    if math.isnan(value):
        return "n/a"
    rounded = round(value, digits) + 0.0
    return f"{rounded:,.{0 if rounded == int(rounded) else digits}f}"

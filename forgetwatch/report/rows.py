"""The numbers of every group as people read them: one place that rounds, for the page, Markdown and their tests."""

from __future__ import annotations

from typing import Final

from forgetwatch.groups import Group
from forgetwatch.report.numbers import between, count, percent, points, probability

HEADINGS: Final = {
    "n": "questions",
    "accuracy_before": "right before",
    "accuracy_after": "right after",
    "forgotten": "forgotten",
    "gained": "gained",
    "known": "clearly known",
    "known_lost": "now lost",
    "net_change": "net points",
    "q_value": "q",
}
"""The columns by quantity, and how they are headed."""

NOT_THERE: Final = "–"


def group_cells(group: Group) -> dict[str, str]:
    """The numbers of one group by quantity, as text."""
    known, lost = group.known, group.known_lost
    share = f" ({percent(lost / known)} %)" if known and lost else ""
    return {
        "n": count(group.n),
        "accuracy_before": f"{percent(group.accuracy_before)} %",
        "accuracy_after": f"{percent(group.accuracy_after)} %",
        "forgotten": count(group.forgotten),
        "gained": count(group.gained),
        "known": NOT_THERE if known is None else count(known),
        "known_lost": NOT_THERE if lost is None else f"{count(lost)}{share}",
        "net_change": f"{points(group.net_change)} ({between(group.net_change_interval, points)})",
        "q_value": probability(group.q_value),
    }

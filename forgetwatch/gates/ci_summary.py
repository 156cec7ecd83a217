"""Judgements as Markdown, for the page that a pipeline shows of a run: the verdict, the findings, the counts.

It holds counts, names of groups and ids of items, and no text of any question or answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forgetwatch.gates.finding import worst
from forgetwatch.gates.gate import Judgement
from forgetwatch.report.markdown import escaped, groups_table, table
from forgetwatch.report.numbers import items

_COLUMNS: Final = ("n", "forgotten", "gained", "known_lost", "net_change")


def ci_summary(judgements: Sequence[Judgement]) -> str:
    """One or more judgements as Markdown.

    Args:
        judgements: At least one; the heading has the worst verdict.
    """
    lines = [f"## forgetwatch: {worst(one.verdict for one in judgements)}", ""]
    for judgement in judgements:
        comparison = judgement.comparison
        lines += [f"**{judgement.verdict}** {' → '.join(map(escaped, comparison.labels))}", ""]
        rows = [[one.verdict, one.what, one.measured, one.limit] for one in judgement.findings]
        lines += [*table(["verdict", "what", "measured", "limit"], rows), ""]
        lines += [*groups_table(comparison, columns=_COLUMNS), ""]
        if comparison.items.unscored:
            lines += [f"Unscored, and in no count: {items(comparison.items.unscored)}.", ""]
    return "\n".join(lines).rstrip() + "\n"

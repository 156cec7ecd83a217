"""A gate: limits, items that must be right, and the part of the items that it is about; and its judgement.

verdict   FAIL if any finding fails, else INCONCLUSIVE if any cannot be told, else PASS
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from forgetwatch.compare import Comparison
from forgetwatch.gates.finding import Finding, worst
from forgetwatch.gates.limits import ALL, FailIf, NoWorseThan
from forgetwatch.gates.must_pass import MustPass
from forgetwatch.report.verdict import Word
from forgetwatch.snapshot import Snapshot

Limit = NoWorseThan | FailIf

_TOLD: Final[dict[Word, str]] = {"PASS": "passed", "FAIL": "failed", "INCONCLUSIVE": "cannot be told"}


@dataclass(frozen=True, kw_only=True)
class Subset:
    """The items that a comparison is about: those in one of the tasks, and in one of the categories, and listed.

    Attributes:
        tasks: Names of tasks; none stands for all.
        categories: Names of categories.
        items: Ids of items.
    """

    tasks: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a gate says of one comparison.

    Attributes:
        comparison: What was judged.
        findings: One for each limit, in the order of the gate.
    """

    comparison: Comparison = field(repr=False)
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Word:
        """The worst of the findings."""
        return worst(finding.verdict for finding in self.findings)

    @property
    def line(self) -> str:
        """In one line: whether it passed, and the numbers of what did not; all numbers where it did."""
        word = self.verdict
        text = f"gate {_TOLD[word]}: {_numbers(self.findings, word)}"
        unclear = _numbers(self.findings, "INCONCLUSIVE")
        return f"{text}; cannot be told: {unclear}" if word == "FAIL" and unclear else text


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a comparison must keep.

    Attributes:
        limits: Limits on groups.
        must_pass: Items that must be right; None for no such items.
        subset: The items that the comparison is about.
    """

    limits: tuple[Limit, ...] = ()
    must_pass: MustPass | None = None
    subset: Subset = Subset()

    @property
    def is_empty(self) -> bool:
        """Whether it asks nothing; there is no judgement then."""
        return not self.limits and self.must_pass is None

    @property
    def tolerance(self) -> float | None:
        """The smallest net loss over all items that it tolerates; None where it sets none."""
        return min(
            (one.tolerance for one in self.limits if isinstance(one, NoWorseThan) and one.group == ALL), default=None
        )

    def judge(self, comparison: Comparison, after: Snapshot) -> Judgement:
        """The judgement on a comparison.

        Args:
            comparison: What was measured, over the subset.
            after: Its snapshot after, whole: an item that must be right may lie outside the subset.

        Raises:
            GateError: If a group, a quantity or an item is not there or undefined.
        """
        findings = [limit.judge(comparison) for limit in self.limits]
        findings += [self.must_pass.judge(after)] if self.must_pass is not None else []
        return Judgement(comparison=comparison, findings=tuple(findings))


def _numbers(findings: Sequence[Finding], word: Word) -> str:
    return "; ".join(finding.line for finding in findings if finding.verdict == word)

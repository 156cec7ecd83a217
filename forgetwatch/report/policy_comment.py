"""The result of a policy as Markdown for a pull request, and as annotations of a workflow.

A comment begins and ends with a marker that names the policy, by which a later one takes its place: `put_comment`
replaces the part of a file between the markers, and a workflow finds its comment by the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from forgetwatch.comparing import Flip, sort_flips
from forgetwatch.gates import PolicyResult, Ruling
from forgetwatch.pairing import count, shorten
from forgetwatch.report.export import escaped, table

QUESTIONS: Final = 10
"""Lost questions in a comment."""

_ANSWER: Final = 60
"""Characters of an answer."""

_FIRST: Final = ("PASS", "FAIL", "MISSING")
"""Answers of limits of groups that are not folded: they fail, are missing, or show a small loss."""

_LEVELS: Final = {"FAIL": "error", "INCONCLUSIVE": "warning", "MISSING": "warning"}


def marker(policy: str) -> str:
    """Return the marker of the comments of a policy."""
    return f"<!-- forgetwatch policy: {quote(policy, safe=' ')} -->"


def policy_comment(result: PolicyResult, changed: Sequence[Flip] = (), *, names: tuple[str, str] | None = None) -> str:
    """Return the result as Markdown between its markers: the answer, the limits, and the worst questions folded.

    Args:
        result: The result.
        changed: Items whose answer changed.
        names: Names of the two sides, where their labels are equal; None for the labels.
    """
    whole, own = result.comparison.all, marker(result.policy.name)
    against = () if result.answer == "PASS" else result.deciding
    first = [one for one in result.shown if one in against or one.answer in _FIRST or ":" not in one.what]
    labels = result.comparison.labels
    before, after = map(escaped, names if names and labels[0] == labels[1] else labels)
    lines = [
        own,
        f"### forgetwatch: {result.word}, policy {escaped(result.policy.name)} {result.answer}",
        "",
        f"{before} → {after}: {count(whole.forgotten)} forgotten and {count(whole.gained)} gained of "
        f"{count(whole.n)} questions. {policy_sentence(result)}",
        "",
        *_limits(first),
        "",
    ]
    if folded := [one for one in result.shown if one not in first]:
        lines += [f"<details><summary>{count(len(folded))} limits of groups that are unclear</summary>", ""]
        lines += [*_limits(folded), "", "</details>", ""]
    if held := len(result.rulings) - len(result.shown):
        lines += [f"{count(held)} more limit{'' if held == 1 else 's'} hold{'s' if held == 1 else ''}.", ""]
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten"]
    if lost:
        rows = [
            [
                flip.task,
                flip.item_id,
                shorten(flip.question or ""),
                *(shorten(flip.answer(side) or "", _ANSWER) for side in (flip.before, flip.after)),
            ]
            for flip in lost[:QUESTIONS]
        ]
        shown = min(len(lost), QUESTIONS)
        lines += [
            f"<details><summary>{shown} of {count(len(lost))} forgotten questions, the surest first</summary>",
            "",
            *table(["task", "id", "question", "before", "after"], rows),
            "",
            "</details>",
            "",
        ]
    text = "\n".join(lines[1:]).replace("@", "@\N{ZERO WIDTH SPACE}")  # nobody is called by the text of a question
    return "\n".join([own, text, own.replace("<!-- ", "<!-- end of ")]) + "\n"


def _limits(rulings: Sequence[Ruling]) -> list[str]:
    rows = [[one.tier, one.what, one.limit, one.measured, _shows(one)] for one in rulings]
    return table(["tier", "limit on", "limit", "measured", "shows"], rows)


def _shows(ruling: Ruling) -> str:
    parts = [ruling.word, ruling.excused, ruling.note]
    return "; ".join(part for part in parts if part)


def policy_sentence(result: PolicyResult) -> str:
    """Return what decides, and the error, in one or two sentences."""
    deciding = result.deciding
    if not deciding:
        return "Nothing that decides was measured."
    if result.answer == "PASS":
        held = sum(one.answer == "PASS" for one in deciding)
        first = "The limit holds" if len(deciding) == 1 else f"{count(held)} of {count(len(deciding))} limits hold"
        first += ", and the others may be unclear" if held < len(deciding) else ""
    else:
        first = "; ".join(f"{one.what} {one.measured}: {one.word}" for one in deciding[:2])
        first += f"; {count(len(deciding) - 2)} more" if len(deciding) > 2 else ""
    if not result.limits or all(one.of_gain for one in result.rulings if one.decides):
        return f"{first}."
    error = f"Of unchanged models {100 * result.policy.error:g} % at most fail a limit on a loss"
    together = f", over {count(result.limits)} limits together" if result.limits > 1 else ""
    return f"{first}. {error}{together}."


def put_comment(text: str, comment: str) -> str:
    """Return a text with a comment in place of the earlier one of its policy, or at its end."""
    first, last = comment.splitlines()[0], comment.rstrip("\n").splitlines()[-1]
    start, end = text.find(first), text.find(last)
    if start == -1 or end < start:
        return f"{text.rstrip()}\n\n{comment}" if text.strip() else comment
    return text[:start] + comment.rstrip("\n") + text[end + len(last) :]


def step_annotations(result: PolicyResult) -> list[str]:
    """Return a line for each limit that decides against the model, in the form that GitHub's steps annotate."""

    def quoted(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    title = quoted(f"forgetwatch {result.policy.name}").replace(":", "%3A").replace(",", "%2C")
    against = () if result.answer == "PASS" else result.deciding
    return [f"::{_LEVELS[one.answer]} title={title}::{quoted(one.line)}" for one in against]

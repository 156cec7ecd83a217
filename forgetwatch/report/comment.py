"""The result of a policy as Markdown for a pull request, and as annotations of a workflow.

A comment begins and ends with a marker that names the policy, by which a later one takes its place: `put_comment`
replaces the part of a file between the markers, and a workflow finds its comment by the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from forgetwatch.comparing.flips import Flip, sort_flips
from forgetwatch.policy.ruling import VERDICT_ERROR, PolicyResult, Ruling
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.markdown import escaped, table
from forgetwatch.text import count, shorten

QUESTIONS: Final = 10
"""Lost questions in a comment."""


_ANSWER: Final = 60
"""Characters of an answer."""


_DECIDING: Final = 3
"""Limits that decide against a model, in a comment."""


_LEVELS: Final = {"FAIL": "error", "INCONCLUSIVE": "warning", "MISSING": "warning"}


def marker(policy: str) -> str:
    """Return the marker of the comments of a policy."""
    return f"<!-- forgetwatch policy: {quote(policy, safe=' ')} -->"


def policy_comment(
    result: PolicyResult, changed: Sequence[Flip] = (), *, names: tuple[str, str] | None = None
) -> str:
    """Return the result as Markdown between its markers: verdict, answer, what decides, and lost questions, folded.

    Args:
        result: The result.
        changed: Items whose answer changed.
        names: Names of the two sides, where their labels are equal; None for the labels.
    """
    made, own = result.decision, marker(result.policy.name)
    labels = result.comparison.labels
    before, after = names if names and labels[0] == labels[1] else labels
    first = first_table(result.comparison, name=f"{after} against {before}")
    lines = [
        f"### forgetwatch: {made.word}; policy {escaped(result.policy.name)} {result.answer}",
        "",
        *(f"{escaped(text)}  " for text in (f"{first.name}: {made.claim}", made.basis) if text),
        *(
            f"{label}: {escaped(text)}  "
            for label, text in first.rows
            if label in ("answers", "where")
        ),
        *(f"{one.answer}: {escaped(one.line)}  " for one in against(result)[:_DECIDING]),
        *(f"{escaped(text)}  " for text in (false_alarms(result),) if text),
    ]
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten" and flip.question]
    if lost:
        rows = [
            [
                shorten(flip.question or ""),
                *(shorten(flip.answer(side) or "", _ANSWER) for side in (flip.before, flip.after)),
            ]
            for flip in lost[:QUESTIONS]
        ]
        summary_line = f"{len(rows)} of {count(len(lost))} lost questions, the surest first"
        lines += [
            f"<details><summary>{summary_line}</summary>",
            "",
            *table(["question", "before", "after"], rows),
        ]
        lines += ["", "</details>"]
    text = "\n".join(lines).replace(
        "@", "@\N{ZERO WIDTH SPACE}"
    )  # nobody is called by the text of a question
    return "\n".join([own, text, own.replace("<!-- ", "<!-- end of ")]) + "\n"


def against(result: PolicyResult) -> Sequence[Ruling]:
    """Return the limits that decide against the model; none where the answer is PASS."""
    return () if result.answer == "PASS" else result.deciding


def false_alarms(result: PolicyResult) -> str:
    """Return how many unchanged models fail a policy; empty where it limits no loss."""
    on_verdict = any(
        rule.kind == "verdict" and rule.tier != "advisory" for rule in result.policy.rules
    )
    on_losses = result.limits and not all(one.of_gain for one in result.rulings if one.decides)
    failing = 100 * (VERDICT_ERROR * on_verdict + result.policy.error * bool(on_losses))
    return (
        f"false alarms: at most {failing:g} of 100 unchanged models fail this policy"
        if failing
        else ""
    )


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
    return [f"::{_LEVELS[one.answer]} title={title}::{quoted(one.line)}" for one in against(result)]

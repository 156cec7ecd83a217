"""The result of a policy as Markdown for a pull request, and as annotations of a workflow.

A comment begins and ends with a marker that names the policy, by which a later one takes its place:
`put_comment` replaces the part of a file between the markers, and a workflow finds its comment by
the first.
"""

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
    """Marker of the comments of a policy."""
    return f"<!-- forgetwatch policy: {quote(policy, safe=' ')} -->"


def policy_comment(
    result: PolicyResult, changed: Sequence[Flip] = (), *, names: tuple[str, str] | None = None
) -> str:
    """Comment in Markdown between markers.

    Verdict, answer, what decides, and lost questions, folded.

    Args:
        result: The result.
        changed: Items whose answer changed.
        names: Names of the two sides, where their labels are equal; None for the labels.
    """
    decision, mark = result.decision, marker(result.policy.name)
    labels = result.comparison.labels
    before, after = names if names and labels[0] == labels[1] else labels
    verdict_table = first_table(result.comparison, name=f"{after} against {before}")
    lines = [
        f"### forgetwatch: {decision.word}; policy {escaped(result.policy.name)} {result.answer}",
        "",
        *(
            f"{escaped(line)}  "
            for line in (f"{verdict_table.name}: {decision.claim}", decision.basis)
            if line
        ),
        *(
            f"{label}: {escaped(cell)}  "
            for label, cell in verdict_table.rows
            if label in ("answers", "where")
        ),
        *(f"{ruling.answer}: {escaped(ruling.line)}  " for ruling in against(result)[:_DECIDING]),
        *(f"{escaped(sentence)}  " for sentence in (false_alarms(result),) if sentence),
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
    document = "\n".join(lines).replace(
        "@", "@\N{ZERO WIDTH SPACE}"
    )  # nobody is called by the text of a question
    return "\n".join([mark, document, mark.replace("<!-- ", "<!-- end of ")]) + "\n"


def against(result: PolicyResult) -> Sequence[Ruling]:
    """Limits that decide against the model; none for PASS."""
    return () if result.answer == "PASS" else result.deciding


def false_alarms(result: PolicyResult) -> str:
    """Number of unchanged models that fail a policy.

    Empty where the policy limits no loss.
    """
    on_verdict = any(
        rule.kind == "verdict" and rule.tier != "advisory" for rule in result.policy.rules
    )
    on_losses = result.limits and not all(
        ruling.of_gain for ruling in result.rulings if ruling.decides
    )
    failing = 100 * (VERDICT_ERROR * on_verdict + result.policy.error * bool(on_losses))
    return (
        f"false alarms: at most {failing:g} of 100 unchanged models fail this policy"
        if failing
        else ""
    )


def put_comment(text: str, comment: str) -> str:
    """Put a comment in place of the policy's earlier one.

    Else at the end of the text.
    """
    first_line, last_line = comment.splitlines()[0], comment.rstrip("\n").splitlines()[-1]
    start, end = text.find(first_line), text.find(last_line)
    if start == -1 or end < start:
        return f"{text.rstrip()}\n\n{comment}" if text.strip() else comment
    return text[:start] + comment.rstrip("\n") + text[end + len(last_line) :]


def step_annotations(result: PolicyResult) -> list[str]:
    """Annotations for GitHub of the limits against the model."""

    def quoted(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    title = quoted(f"forgetwatch {result.policy.name}").replace(":", "%3A").replace(",", "%2C")
    return [
        f"::{_LEVELS[ruling.answer]} title={title}::{quoted(ruling.line)}"
        for ruling in against(result)
    ]

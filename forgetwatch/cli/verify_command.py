"""`forgetwatch verify`: evidence computed again from its two snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.output import echo
from forgetwatch.cli.resolve import read_outcomes
from forgetwatch.comparing import in_common_norm
from forgetwatch.errors import GateError
from forgetwatch.gates import READY, policy_text
from forgetwatch.gates.evidence import differences, read_evidence
from forgetwatch.probes import load_probe
from forgetwatch.readers import is_outcomes

_SHOWN = 10
"""Differences that are named."""


def run(
    evidence: Annotated[Path, typer.Argument(metavar="EVIDENCE", help="File that `forgetwatch gate` wrote.")],
    before: Annotated[str | None, typer.Option(help="Outcomes before; by default the path in the evidence.")] = None,
    after: Annotated[str | None, typer.Option(help="Outcomes after; by default the path in the evidence.")] = None,
    policy: Annotated[str | None, typer.Option(help="File of the policy; by default the path in the evidence.")] = None,
    probe: Annotated[str | None, typer.Option(help="Probe, if the policy is about tags or marked items.")] = None,
) -> None:
    """Compute the answer of a policy again from its two snapshots, and name everything that differs."""
    document = read_evidence(evidence)
    paths = [given or document["sides"][name]["path"] for name, given in (("before", before), ("after", after))]
    for path in paths:
        if not Path(path).exists() or not is_outcomes(path):
            raise GateError(
                f"{path}: no such file of outcomes; the evidence is about it: name where it is now with --before or "
                "--after, a snapshot or log (of a model, the snapshot that `forgetwatch score` writes)"
            )
    sides = in_common_norm([read_outcomes(Path(path)) for path in paths])
    named = policy or document["policy"]["path"]
    text = policy_text(named) if policy or named in READY or Path(named).is_file() else None
    if text is None:
        echo(f"{named}: the policy's file is not at hand, and its text was not compared; --policy names it", err=True)
    found = differences(
        document, sides[0], sides[1], policy_file=text, probe=None if probe is None else load_probe(probe)
    )
    for line in found[:_SHOWN]:
        echo(f"differs: {line}", err=True)
    if found:
        echo(f"the evidence does not hold: {len(found)} differences", err=True)
        raise typer.Exit(3)
    name, limits = document["policy"]["name"], len(document["rulings"])
    echo(f"the evidence holds: {document['answer']} of policy {name} ({document['policy']['path']}), {limits} limits")

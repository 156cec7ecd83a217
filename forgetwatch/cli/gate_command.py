"""`forgetwatch gate`: a policy's answer to two models; before any model is scored, what it can see."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from forgetwatch.cli.options import check_device_map, device_map_option, share
from forgetwatch.cli.output import (
    EXIT,
    STEP_SUMMARY,
    append_step_summary,
    echo,
    print_hanging,
    result_console,
    shared_work,
    write_json,
)
from forgetwatch.cli.resolve import resolve_all
from forgetwatch.cli.targets import check_comment, check_json
from forgetwatch.comparing import OnMismatch, compare, in_common_norm
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import GateError
from forgetwatch.files import read_text, write_text
from forgetwatch.gates import READY, Policy, PolicyResult, Sides, apply_policy, check_groups, load_policy
from forgetwatch.gates.power import Planned, planned_power
from forgetwatch.loading import Loading
from forgetwatch.measures import json_value
from forgetwatch.pairing import count, fit, percent
from forgetwatch.probes import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.report.policy_comment import (
    policy_comment,
    policy_sentence,
    put_comment,
    step_annotations,
)

_MOST_COMMENT: Final = 2**22
"""Bytes of a file that a comment is put into."""


def run(
    before: Annotated[str | None, typer.Argument(metavar="BEFORE", help="As for compare.", show_default=False)] = None,
    after: Annotated[str | None, typer.Argument(metavar="AFTER", help="As for compare.", show_default=False)] = None,
    policy: Annotated[str, typer.Option(help=f"Policy: a YAML file, or a shipped one: {', '.join(READY)}.")] = READY[0],
    probe: Annotated[str | None, typer.Option(help="Probe that scores models, and has tags and marked items.")] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(help="Values of a metric of the policy, as eval_accuracy=0.61,0.68; may be repeated."),
    ] = None,
    on_mismatch: Annotated[
        OnMismatch, typer.Option(help="If the two sides have different items: fail, or compare those in both.")
    ] = "error",
    device_map: Annotated[str | None, device_map_option()] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what each limit sees on --probe, without scoring a model.")
    ] = False,
    flips_share: Annotated[
        str, typer.Option("--flips", help="With --plan: share of answers that flip either way.")
    ] = "10%",
    comment: Annotated[
        Path | None,
        typer.Option(help="Write a Markdown comment into this file, in place of an earlier one of the policy."),
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the answers as JSON; - for stdout.")] = None,
) -> None:
    """Judge two models by a policy: limits in three tiers, with one error for all of them together."""
    items = None if probe is None else load_probe(probe)
    found = load_policy(policy, items)
    if plan:
        if items is None:
            raise typer.BadParameter("--plan: needed --probe, whose groups the limits are about")
        check_groups(found, items)
        _print_plan(found, planned_power(found, items, flips=share(flips_share, "--flips")))
        return
    if before is None or after is None:
        raise typer.BadParameter("needed BEFORE and AFTER, or --plan")
    named = [_metric(text) for text in value or ()]
    metrics = dict(named)
    if len(metrics) < len(named):
        raise typer.BadParameter("--value: a metric is given twice; needed one BEFORE,AFTER for each")
    if unknown := sorted(set(metrics) - {rule.metric for rule in found.rules}):
        raise typer.BadParameter(f"--value: the policy has no metric {unknown[0]!r}")
    check_device_map(device_map)
    read = (before, after, probe, policy)
    check_json(json_path, read, kind="gate")
    check_comment(comment, read)
    with shared_work():
        sides = in_common_norm(resolve_all((before, after), items, loading=Loading(device_map=device_map)))
    of_both = Sides(before=sides[0], after=sides[1], probe=items, metrics=metrics)
    comparison = compare(before=sides[0], after=sides[1], on_mismatch=on_mismatch)
    result = apply_policy(found, of_both, comparison=comparison)
    if not is_first_process():
        return
    to_stderr = json_path is not None and str(json_path) == "-"
    if not to_stderr:
        _print(result)
    for line in step_annotations(result) if os.environ.get("GITHUB_ACTIONS") == "true" else ():
        echo(line, err=to_stderr)
    if json_path is not None:
        write_json(_document(result, of_both), json_path)
    if comment is not None or os.environ.get(STEP_SUMMARY):
        text = policy_comment(result, flips(sides[0], sides[1], probe=items), names=(before, after))
        _comment(text, comment, to_stderr=to_stderr)
    if status := EXIT[result.answer]:
        raise typer.Exit(status)


def _metric(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, values = text.partition("=")
    try:
        before, after = map(float, values.split(","))
        if not equals or not name or not 0 <= min(before, after) <= max(before, after) <= 1:
            raise ValueError(text)
    except ValueError:
        raise typer.BadParameter(
            f"--value: needed NAME=BEFORE,AFTER as shares from 0 to 1, such as accuracy=0.61,0.68, got {text!r}"
        ) from None
    return name, (before, after)


def _document(result: PolicyResult, sides: Sides) -> dict[str, Any]:
    """Return the answers as JSON values, with checksums of everything from which they follow."""
    return {
        "schema": "forgetwatch/gate@1",
        "policy": result.policy.name,
        "policy_sha256": result.policy.checksum,
        "sides": {
            name: {key: side.meta.get(key) for key in ("model", "step", "time")} | {"checksum": side.checksum}
            for name, side in (("before", sides.before), ("after", sides.after))
        },
        "metrics": sides.metrics,
        "day": datetime.now(UTC).date().isoformat(),
        "answer": result.answer,
        "error": result.policy.error,
        "limits": result.limits,
        "level": result.level,
        "rulings": [json_value(vars(one)) for one in result.rulings],
    }


def _comment(text: str, path: Path | None, *, to_stderr: bool) -> None:
    """Write the comment, and append it to the summary of a step of GitHub's."""
    if path is not None:
        there = read_text(path, "a Markdown file", GateError, limit=_MOST_COMMENT) if path.exists() else ""
        write_text(path, put_comment(there, text))
        echo(f"comment: {path}", err=to_stderr)
    append_step_summary(f"\n{text}")


def _print(result: PolicyResult) -> None:
    console = result_console()
    told = f"policy {result.policy.name} {result.answer}: {policy_sentence(result)}"
    print_hanging(f"{result.word:<12}{told}", style="bold")
    counted = result.comparison.items
    if left_out := counted.only_before + counted.only_after:
        print_hanging(f"left out: {left_out:,} items that one side alone has; {counted.compared:g} are compared")
    for tier in dict.fromkeys(one.tier for one in result.rulings):
        of_tier, shown = ([one for one in listed if one.tier == tier] for listed in (result.rulings, result.shown))
        held = f", {count(len(of_tier) - len(shown))} more hold" if len(of_tier) > len(shown) else ""
        console.print(f"\n{tier}{held}", style="bold")
        for one in shown:
            extra = f"; {one.excused}" if one.excused else f"; {one.note}" if one.note else ""
            mark = "" if one.answer == "PASS" or not one.decides else f"{one.answer}  "
            print_hanging(f"  {mark}{one.what}: {one.measured}; {one.limit}: {one.word}{extra}")


def _print_plan(policy: Policy, planned: Sequence[Planned]) -> None:
    console = result_console()
    sharing = sum(one.rule.tier != "advisory" and one.rule.has_interval for one in planned)
    console.print(
        f"{policy.name}: {count(sharing)} limits share an error of {100 * policy.error:g} %; 80 % power", style="bold"
    )
    console.print(f"{'limit on':<40} {'items':>6}  {'sees':>16}  unchanged passes", style="bold", markup=False)
    for one in planned:
        sees = "–" if math.isnan(one.sees) else f"{percent(one.sees)} points"
        if not math.isnan(one.known_lost):
            sees = f"{math.ceil(one.known_lost)} questions"
        passes = "–" if one.passes is None else "yes" if one.passes else "no: too few items"
        console.print(f"{fit(one.rule.name, 40)} {count(one.items):>6}  {sees:>16}  {passes}", markup=False)

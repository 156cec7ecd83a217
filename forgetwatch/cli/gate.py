"""`forgetwatch gate`: a policy's answer to two models, and an earlier answer computed again."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from forgetwatch.cli.options import (
    ConcurrencyOption,
    DeviceMapOption,
    FailIfOption,
    JsonOption,
    NoWorseThanOption,
    PolicyOption,
    YesOption,
    check_comment,
    check_device_map,
    check_output,
    limits,
)
from forgetwatch.cli.output import (
    EXIT,
    STEP_SUMMARY,
    answer_json,
    append_step_summary,
    echo,
    json_text,
    print_hanging,
    result_console,
    shared_work,
    write_json,
)
from forgetwatch.cli.resolve import fitted, read_repeat, resolve_all, served_again
from forgetwatch.comparing.checks import OnMismatch, form_notes
from forgetwatch.comparing.comparison import compare
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import GateError
from forgetwatch.files.reading import UnsuitableError, read_text, unique_keys
from forgetwatch.files.writing import write_text
from forgetwatch.loading import Loading
from forgetwatch.policy.policy import READY, check_groups, load_policy
from forgetwatch.policy.ruling import PolicyResult, Sides, apply_policy
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process
from forgetwatch.readers.outcomes import is_outcomes
from forgetwatch.report.comment import (
    against,
    false_alarms,
    policy_comment,
    put_comment,
    step_annotations,
)
from forgetwatch.text import count, listed
from forgetwatch.visible_text import without_folders

SCHEMA: Final = "forgetwatch/gate@2"

_HOME: Final = "~/"
"""Beginning of a path below the user's home folder, whose name no answer holds."""

_DECIDING: Final = 2
"""Limits that decide against a model and are printed without --detail."""

_MOST_COMMENT: Final = 2**22
"""Bytes of a file that a comment is put into."""
_MOST_ANSWER: Final = 2**26
"""Bytes of an earlier answer."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What an answer follows from; see `run`."""

    before: str
    after: str
    policy: str | None = None
    fail_if: Sequence[str] = ()
    no_worse_than: str | None = None
    probe: str | None = None
    value: Sequence[str] = ()
    on_mismatch: OnMismatch = "error"
    repeat: str | None = None
    metric: str | None = None

    def __post_init__(self) -> None:
        texts = (self.before, self.after, *self.fail_if, *self.value)
        texts += tuple(
            text
            for text in (self.policy, self.no_worse_than, self.probe, self.repeat, self.metric)
            if text is not None
        )
        if not all(isinstance(value, str) for value in texts) or self.on_mismatch not in get_args(
            OnMismatch
        ):
            raise TypeError(f"a call of {', '.join(map(repr, texts))}")

    def answer(self, day: date, loading: Loading = Loading()) -> tuple[PolicyResult, Sides]:
        """Compare the two models, and decide on a day."""
        items = None if self.probe is None else load_probe(self.probe)
        is_default = self.policy is None and not self.fail_if and self.no_worse_than is None
        policy_name = READY[0] if is_default else self.policy
        policy = None if policy_name is None else load_policy(policy_name, items)
        policy_limits = limits(
            fail_if=self.fail_if, no_worse_than=self.no_worse_than, policy=policy
        )
        assert policy_limits is not None  # it has the default policy
        metrics = dict(pairs := [_metric(value) for value in self.value])
        if len(metrics) < len(pairs):
            raise typer.BadParameter(
                "--value: a metric is given twice; needed one BEFORE,AFTER for each"
            )
        if unknown := sorted(set(metrics) - {rule.metric for rule in policy_limits.rules}):
            raise typer.BadParameter(f"--value: the policy has no metric {unknown[0]!r}")
        if items is not None and not all(map(is_outcomes, (self.before, self.after))):
            check_groups(policy_limits, items)
        with shared_work():
            items = None if items is None else fitted(items, self.before, loading=loading)
            second = read_repeat(self.repeat, self.before, self.metric)
            second = second or served_again(self.before, items, loading=loading)
            sides = resolve_all((self.before, self.after), items, self.metric, loading=loading)
        of_both = Sides(before=sides[0], after=sides[1], probe=items, metrics=metrics)
        comparison = compare(
            before=sides[0], after=sides[1], on_mismatch=self.on_mismatch, repeat=second
        )
        result = apply_policy(
            policy_limits, of_both, comparison=comparison, today=day, on_mismatch=self.on_mismatch
        )
        return result, of_both


def gate_command(
    before: Annotated[
        str | None, typer.Argument(metavar="BEFORE", help="As for compare.", show_default=False)
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="As for compare.", show_default=False)
    ] = None,
    policy: PolicyOption = None,
    fail_if: FailIfOption = None,
    no_worse_than: NoWorseThanOption = None,
    probe: Annotated[
        str | None, typer.Option(help="Probe that scores models, and has tags and marked items.")
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of a metric of the policy, as eval_accuracy=0.61,0.68; may be repeated."
        ),
    ] = None,
    on_mismatch: Annotated[
        OnMismatch | None,
        typer.Option(help="If the two sides have different items: fail, or compare those in both."),
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option(help="Outcomes of BEFORE measured a second time, for the flips of noise."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric that decides, if a harness's log has several.")
    ] = None,
    device_map: DeviceMapOption = None,
    concurrency: ConcurrencyOption = 16,
    yes: YesOption = False,
    detail: Annotated[
        bool, typer.Option("--detail", help="Also print the limits that hold, by tier.")
    ] = False,
    comment: Annotated[
        Path | None,
        typer.Option(
            help="Write a Markdown comment into this file, in place of an earlier one of the policy."
        ),
    ] = None,
    json_path: JsonOption = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            help="Compute the answer in this JSON file again, from the files that it names."
        ),
    ] = None,
) -> None:
    """Judge two models by a policy: limits in three tiers, with one error for all of them together.

    Without limits the policy is fine-tune. Exit status: 0 PASS, 3 FAIL, 4
    INCONCLUSIVE, 1 an error, 2 wrong usage.
    """
    if verify is not None:
        options = (
            before,
            after,
            policy,
            fail_if,
            no_worse_than,
            probe,
            value,
            on_mismatch,
            repeat,
            metric,
            device_map,
            comment,
            json_path,
        )
        if any(option is not None for option in options):
            raise typer.BadParameter(
                "--verify takes its file alone, which names the models and the limits"
            )
        raise typer.Exit(EXIT[_verify(verify).answer])
    if before is None or after is None:
        raise typer.BadParameter("needed BEFORE and AFTER, or --verify FILE")
    call = _Call(
        before=before,
        after=after,
        policy=policy,
        fail_if=fail_if or (),
        no_worse_than=no_worse_than,
        probe=probe,
        value=value or (),
        on_mismatch=on_mismatch or "error",
        repeat=repeat,
        metric=metric,
    )
    check_device_map(device_map)
    read = (before, after, probe, policy)
    check_output(json_path, "a JSON document", read, kind="gate")
    check_comment(comment, read)
    day = datetime.now(UTC).date()
    loading = Loading(device_map=device_map, concurrency=concurrency, may_spend=yes)
    result, sides = call.answer(day, loading)
    if not is_first_process():
        return
    to_stderr = json_path is not None and str(json_path) == "-"
    if not to_stderr:
        _print(result, detail=detail)
    for line in step_annotations(result) if os.environ.get("GITHUB_ACTIONS") == "true" else ():
        echo(line, err=to_stderr)
    if json_path is not None:
        written = json_text(_document(call, result, sides, day)).replace(
            f'"{Path.home()}/', f'"{_HOME}'
        )
        write_json(json.loads(written), json_path)
    if comment is not None or os.environ.get(STEP_SUMMARY):
        comment_text = policy_comment(
            result, flips(sides.before, sides.after, probe=sides.probe), names=(before, after)
        )
        _comment(comment_text, comment, to_stderr=to_stderr)
    status = EXIT[result.answer]
    echo(f"gate {result.answer}: exit status {status}", err=to_stderr)
    raise typer.Exit(status)


def _verify(path: Path) -> PolicyResult:
    """Repeat an earlier answer, and check that it is the same.

    Returns the answer of today.

    Raises:
        GateError: If the file is no answer, its day cannot be, or a policy, a snapshot or a figure
            is another one now.
    """
    today = datetime.now(UTC).date()
    try:
        stored_text = read_text(path, "an answer of a gate in JSON", GateError, limit=_MOST_ANSWER)
        stored = json.loads(
            stored_text.replace(f'"{_HOME}', f'"{Path.home()}/'), object_pairs_hook=unique_keys
        )
        call, day = _Call(**stored["call"]), date.fromisoformat(stored["day"])
        before, schema = str(stored["answer"]), stored["schema"]
        if schema != SCHEMA:
            raise GateError(
                f"{path}: its format is {schema!r}, this version reads {SCHEMA!r}; run the gate "
                "again"
            )
        if remote := [side for side in (call.before, call.after) if not Path(side).exists()]:
            raise GateError(
                f"{path}: it names {remote[0]}, which is not here, and --verify downloads no model"
            )
        if day > today:
            raise GateError(f"{path}: its day {day} has not come; run the gate again")
        result, sides = call.answer(day)
    except UnsuitableError as error:
        raise GateError(f"{path}: {error}; run the gate again") from error
    except (ValueError, KeyError, TypeError, RecursionError, typer.BadParameter) as error:
        key = f": no key {error}" if isinstance(error, KeyError) else ""
        raise GateError(f"{path}: needed an answer of gate --json, and it is none{key}") from error
    repeated = json.loads(json_text(_document(call, result, sides, day)))
    if more := sorted(stored.keys() - repeated.keys()):
        raise GateError(
            f"{path}: an answer of a gate has no key {listed(more)}; run the gate again"
        )
    day_made = max(str(side.meta.get("time") or "")[:10] for side in (sides.before, sides.after))
    if stored["day"] < day_made:
        raise GateError(
            f"{path}: its day {day} is before {day_made}, when a side was measured; run the "
            "gate again"
        )
    if changed := [key for key in repeated if repeated[key] != stored.get(key)]:
        raise GateError(
            f"{path}: the answer was {before} and is {result.answer} now; not as stored: "
            f"{listed(changed)}"
        )
    today_result, same = (
        result,
        f"{count(len(result.rulings))} limits and all checksums are the same",
    )
    if day != today:
        today_result = call.answer(today)[0]
    echo(f"{path}: {result.answer} on {day} again, {same}; {today_result.answer} today")
    return today_result


def _metric(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, values = text.partition("=")
    try:
        before, after = map(float, values.split(","))
        if not equals or not name or not all(0 <= share <= 1 for share in (before, after)):
            raise ValueError(text)
    except ValueError:
        raise typer.BadParameter(
            "--value: needed NAME=BEFORE,AFTER as shares from 0 to 1, such as "
            f"accuracy=0.61,0.68, got {text!r}"
        ) from None
    return name, (before, after)


def _document(call: _Call, result: PolicyResult, sides: Sides, day: date) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "policy": result.policy.name,
        "policy_sha256": result.policy.checksum,
        "probe": None if sides.probe is None else sides.probe.fingerprint,
        "call": vars(call),
        "sides": {
            name: {key: side.meta.get(key) for key in ("step", "time")}
            | {
                "model": without_folders(str(side.meta.get("model") or "")),
                "checksum": side.checksum,
            }
            for name, side in (("before", sides.before), ("after", sides.after))
        },
        "metrics": sides.metrics,
        "day": day.isoformat(),
        **answer_json(result),
    }


def _comment(text: str, path: Path | None, *, to_stderr: bool) -> None:
    if path is not None:
        there = (
            read_text(path, "a Markdown file", GateError, limit=_MOST_COMMENT)
            if path.exists()
            else ""
        )
        write_text(path, put_comment(there, text))
        echo(f"comment: {path}", err=to_stderr)
    append_step_summary(f"\n{text}")


def _print(result: PolicyResult, *, detail: bool) -> None:
    console, decision = result_console(), result.decision
    print_hanging(f"{decision.word:<11}{decision.claim}", style="bold")
    print_hanging(
        f"{'gate':<11}{result.answer}: policy {result.policy.name}{_left_out(result)}", style="bold"
    )
    deciding = against(result)
    if detail:
        for tier in dict.fromkeys(ruling.tier for ruling in result.rulings):
            console.print(f"\n{tier}", style="bold")
            for ruling in result.rulings:
                if ruling.tier == tier:
                    print_hanging(
                        f"  {ruling.answer}  "
                        f"{ruling.line}{f'; {ruling.excused}' if ruling.excused else ''}"
                    )
        console.print()
    for ruling in () if detail else deciding[:_DECIDING]:
        print_hanging(
            f"  {ruling.answer}  {ruling.what.removeprefix('all ')} {ruling.measured} "
            f"({ruling.limit})"
        )
    for sentence in (*form_notes(result.comparison.notes), false_alarms(result)):
        print_hanging(sentence)


def _left_out(result: PolicyResult) -> str:
    counted = result.comparison.items
    alone = counted.only_before + counted.only_after
    left_out = f"{alone:,} items that one side alone has are left out" if alone else ""
    decide = len(against(result))
    more = f"{decide} limits decide: --detail" if decide > _DECIDING else ""
    if result.answer == "PASS":
        more = f"limits that hold: {sum(ruling.answer == 'PASS' for ruling in result.rulings if ruling.decides)}"
    return "".join(f"; {clause}" for clause in (result.unmeasured, left_out, more) if clause)

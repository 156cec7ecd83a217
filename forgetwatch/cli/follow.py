"""`forgetwatch follow OUTPUT_DIR [--base M]`: score a training's checkpoints, or read the answers that it writes."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from forgetwatch.cli.options import (
    ConcurrencyOption,
    DeviceMapOption,
    LowerOption,
    RightIfOption,
    ScaleOption,
    TrustOption,
    UnscoredIfOption,
    YesOption,
    check_device_map,
    item_option,
    outcome_rule,
)
from forgetwatch.cli.output import EXIT, echo, shared_work
from forgetwatch.cli.resolve import fitted
from forgetwatch.comparing.decision import not_finite, unmeasured
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.endpoint.address import CHECKPOINT, is_endpoint
from forgetwatch.errors import WatchError, did_you_mean_path
from forgetwatch.grading.outcome_rule import OutcomeRule
from forgetwatch.loading import Loading
from forgetwatch.probes.ladder import is_trial
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process, log
from forgetwatch.readers.dumps import is_dumps
from forgetwatch.text import listed

if TYPE_CHECKING:
    from forgetwatch.follow.follow_settings import FollowSettings

_tracker_option = partial(typer.Option, rich_help_panel="Trackers")
_limit_option = partial(typer.Option, rich_help_panel="When it ends")

_TRIPPED = 3
"""Exit status if the guard stops it, that of a gate that failed."""
_UNSTORED = 1
"""Exit status if looks were taken and could not be stored."""


def follow_command(
    output_dir: Annotated[
        str,
        typer.Argument(
            help="The training's output_dir with its checkpoints, a folder or a URL such as s3://...; or the folder "
            "of the answers that it writes at its steps."
        ),
    ],
    base: Annotated[
        str,
        typer.Option(
            help="The model before the training: a model id, a checkpoint folder, or a snapshot. Of answers the "
            "outcomes before; default: the first step."
        ),
    ] = "",
    probe: Annotated[str, typer.Option(help="Probe to score: a name or a file.")] = "standard",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--run", help="Run folder to write. Default: _forgetwatch_follow in OUTPUT_DIR."
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            help="Form of the names of checkpoints or files, as 'step_{N}' or 'v*/checkpoint-{N}'."
        ),
    ] = "",
    metric: Annotated[
        str | None, item_option(help="Metric that decides, if the answers have several.")
    ] = None,
    right_if: RightIfOption = None,
    scale: ScaleOption = None,
    lower_is_better: LowerOption = False,
    unscored_if: UnscoredIfOption = None,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Seconds between two looks at the folder.")
    ] = 5.0,
    idle: Annotated[
        float | None,
        _limit_option(
            min=0.0, help="End after so many seconds without a new checkpoint. Default: never."
        ),
    ] = None,
    once: Annotated[
        bool, _limit_option("--once", help="Score the checkpoints that are there, and end.")
    ] = False,
    guard: Annotated[
        Literal["warn", "stop", "off"],
        _limit_option(
            help="Reaction to a loss beyond the bounds: warn; stop, which ends with exit status 3; or off."
        ),
    ] = "warn",
    report_to: Annotated[
        str,
        _tracker_option(
            help="Trackers that get the numbers: wandb, tensorboard, trackio, mlflow, ...; several with commas."
        ),
    ] = "",
    group: Annotated[
        str | None,
        _tracker_option(
            help="Group of the run in W&B or trackio, for example that of the training."
        ),
    ] = None,
    resume_run: Annotated[
        str | None,
        _tracker_option(
            help="The training's own run, which gets the numbers: its id in W&B or MLflow, its name in trackio."
        ),
    ] = None,
    log_numbers: Annotated[
        Literal["counts", "full"],
        _tracker_option(
            "--log",
            help="Numbers that trackers get: counts, or full, which also measures the drift.",
        ),
    ] = "counts",
    serve: Annotated[
        str,
        typer.Option(
            help="Command that serves a checkpoint, as 'vllm serve {checkpoint}'; it is stopped after each look."
        ),
    ] = "",
    endpoint: Annotated[
        str,
        typer.Option(
            help="Where checkpoints are served: http://HOST:PORT#NAME, with {checkpoint} for a name. "
            "Default with --serve: http://127.0.0.1:8000."
        ),
    ] = "",
    concurrency: ConcurrencyOption = 16,
    yes: YesOption = False,
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Score each checkpoint of a training once, as soon as it is saved, from a process of its own.

    The answers that a trainer for RL writes at its validations are read instead
    where no --base names a model.

    It ends at the training's last step, after --idle, or on SIGTERM or Ctrl-C.
    Started again, it continues. It exits with 3 if the guard stops it or the last
    outputs are not finite, and with 4 if the last checkpoint has no look.

    Several processes share the items: torchrun --nproc-per-node 2 -m --
    forgetwatch follow ...
    """
    check_device_map(device_map)
    _check_serving(base, serve, endpoint)
    is_of_answers = not base or (
        Path(base).is_file() and Path(output_dir).is_dir() and is_dumps([Path(output_dir)])
    )
    probe_named = None if is_of_answers else load_probe(probe)
    is_missing = "://" not in output_dir and not Path(output_dir).exists()
    if is_missing and once:
        raise WatchError(f"{output_dir}: no such folder{did_you_mean_path(Path(output_dir))}")
    if is_first_process():
        if is_missing:
            log(f"{output_dir}: no such folder yet; it is followed once it is there")
        # At once: importing what loads it takes seconds.
        log(f"loading {base or output_dir} ...")
    from forgetwatch.follow.follow_settings import FollowSettings
    from forgetwatch.follow.follower import Follower
    from forgetwatch.run.guard import Guard
    from forgetwatch.scoring.model_loading import silence_loading

    silence_loading()
    settings = FollowSettings(
        base=base,
        name=name,
        poll=poll,
        idle=idle,
        once=once,
        guard={"warn": Guard("warn"), "stop": Guard("stop")}.get(guard),
        report_to=tuple(filter(None, map(str.strip, report_to.split(",")))),
        group=group,
        resume_run=resume_run,
        full=log_numbers == "full",
        loading=Loading(
            trust_remote_code=trust_remote_code,
            device_map=device_map,
            concurrency=concurrency,
            may_spend=yes,
        ),
        endpoint=endpoint or ("http://127.0.0.1:8000" if serve else ""),
        serve=serve,
    )
    if probe_named is None:
        rule = outcome_rule(right_if, scale, lower_is_better, unscored_if)
        _follow_answers(Path(output_dir), settings, folder, rule, metric)
        return
    with shared_work():
        items = probe_named
        if not serve or is_endpoint(base) or is_trial(items):  # else its first server tells
            items = fitted(items, base, loading=settings.loading, run=folder or output_dir)
        follower = Follower(output_dir, items, settings, run=folder, on_look=echo)
        end = follower.follow()
        follower.show()
        queue = follower.queue
        missing, unstored = [*queue.failed, *queue.waiting], follower.unstored
        has_base = follower.run.baseline is not None
        status = _status(follower.run.trajectory()) if has_base else 0
        echo(f"forgetwatch: {_ended(end, missing, unstored, has_base=has_base)}", err=True)
        unscored = missing if end != "stopped" else queue.failed
        if unscored and len(follower.run.comparisons) < 2:
            raise WatchError(
                f"{output_dir}: no checkpoint could be scored; {len(unscored)} failed, were "
                "gone or are not complete"
            )
    if end == "guard":
        raise typer.Exit(_TRIPPED)
    if unstored or status:
        raise typer.Exit(_UNSTORED if unstored else status)


def _check_serving(base: str, serve: str, endpoint: str) -> None:
    if serve and CHECKPOINT not in serve:
        raise WatchError(f"--serve {serve!r}: needed {CHECKPOINT} where the folder stands")
    if endpoint and not serve and CHECKPOINT not in endpoint:
        raise WatchError(
            f"--endpoint {endpoint}: needed the name of each checkpoint, such as "
            f"http://HOST:PORT#{CHECKPOINT}; --serve starts a server of each instead"
        )
    if (serve or endpoint) and not base:
        raise WatchError(
            "--serve and --endpoint score checkpoints; needed the model before (--base)"
        )
    if is_endpoint(base) and not (serve or endpoint):
        raise WatchError(
            f"{base}: a served base; needed how checkpoints are served (--serve or --endpoint)"
        )


def _follow_answers(
    output_dir: Path,
    settings: "FollowSettings",
    folder: Path | None,
    rule: OutcomeRule,
    metric: str | None,
) -> None:
    from forgetwatch.follow.dump_follower import DumpFollower

    follower = DumpFollower(
        output_dir, settings, rule=rule, metric=metric, folder=folder, on_look=echo
    )
    end = follower.follow()
    follower.show()
    failed = sorted(follower.failed.items())
    if follower.run is None:
        raise WatchError(
            f"{output_dir}: no step could be read: {failed[0][1]}"
            if failed
            else f"{output_dir}: needed answers of a training's steps, found none; a model to "
            "compare checkpoints with is named by --base"
        )
    for step, error in failed:
        echo(f"step {step} could not be read: {error}", err=True)
    steps = len(follower.run.comparisons) - 1
    how = "the guard stops it" if end == "guard" else "started again, it goes on"
    echo(f"forgetwatch: {steps} steps after the first are read; {how}", err=True)
    if end == "guard":
        raise typer.Exit(_TRIPPED)


def _status(run: Trajectory) -> int:
    if not_finite(run.final.all):
        return EXIT["FAIL"]
    return EXIT["INCONCLUSIVE"] if unmeasured(run) else 0


def _ended(end: str, missing: list[str], unstored: list[str], *, has_base: bool) -> str:
    rest = "it continues" if has_base else "it begins with the base, which is not scored yet"
    reasons = {
        "last checkpoint": "the training is over"
        + ("" if missing else ", and its last checkpoint is scored"),
        "idle": f"no new checkpoint for --idle seconds; started again, {rest}",
        "stopped": f"stopped by a signal; started again, {rest}",
        "once": "no other checkpoint is there"
        if missing or unstored
        else "all checkpoints that are there are scored",
        "guard": "the guard stops it",
    }
    line = reasons[end]
    line += f"; without a look: {listed(missing)}" if missing else ""
    return line + (f"; scored, and not stored: {listed(unstored)}" if unstored else "")

"""Watch a model while it is trained.

    callback     a watch inside a trainer: its events, the looks, the sinks of a look, and all that is read from it
    run          Run: the state of a training, in memory and in its folder; the stages before it
    watch        Watch: measures a model, and adds what it measured to the run
    known_baseline          the seconds of a few items; baselines in the cache
    schedule                steps of the looks; the items and looks for which the time suffices
    guard                   bounds on losses, and the action beyond them; back to the last good checkpoint
    adapters                the base of a model with adapters, and the start of a run with them
    drift                   texts of the base: sampled, kept in a file, read under a model; the drift of a run's looks
    run_again               the lost asked in other words at the last look
    trackers, run_output    rows and alerts; lines, table, report.html, and a command of the user's
    follow                  the same from another process, checkpoint by checkpoint, read while they may vanish

Read `run` first, then `watch`: it needs no trainer. A look is one evaluation of the probe during a run.
"""

from forgetwatch.run.adapters import adapter_start
from forgetwatch.run.callback import (
    ForgetWatchCallback,
    default_probe,
    evaluation_weights,
    held_out,
    overlap_line,
    resume_checkpoint,
    token_budget,
)
from forgetwatch.run.drift import (
    SCHEMA,
    Completions,
    Reading,
    RunDrift,
    check_completions,
    drift_prompts,
    model_drifts,
    read_completions,
    read_under,
    sample_base,
    sample_completions,
    save_completions,
)
from forgetwatch.run.follow import (
    CheckpointGoneError,
    CheckpointQueue,
    CheckpointStore,
    Follower,
    FollowSettings,
    SavedCheckpoint,
)
from forgetwatch.run.guard import Guard, finding_lines
from forgetwatch.run.run import Run
from forgetwatch.run.run_output import ReportPage, checked_command, cost_line, stopped_line
from forgetwatch.run.schedule import (
    Decision,
    Schedule,
    Trial,
    decide_start,
    evaluated_worth,
    event_steps,
    generated_items,
    last_timed_step,
)
from forgetwatch.run.trackers import composite_row
from forgetwatch.run.watch import Watch

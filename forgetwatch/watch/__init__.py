"""Watch a model while it is trained.

    callback     a watch inside a trainer: its events, the looks, and the sinks of a look
    run          Run: the state of a training, in memory and in its folder
    watch        Watch: measures a model, and adds what it measured to the run
    trial, known_baseline   the seconds of a few items; baselines in the cache
    schedule, budget        steps of the looks; the items and looks for which the time suffices
    trainer                 everything that is read from a trainer, and its default probe
    guard, rollback         bounds on losses, and the action beyond them; back to the last good checkpoint
    run_again               the lost asked in other words at the last look
    trackers, run_output    rows and alerts; lines, table, report.html, and a command of the user's
    follow                  the same from another process, checkpoint by checkpoint
    checkpoint_queue, saved_checkpoints    the checkpoints of a training, in order, and read while they may vanish

Read `run` first, then `watch`: it needs no trainer. A look is one evaluation of the probe during a run.
"""

from forgetwatch.watch.budget import (
    Decision,
    Trial,
    decide_start,
    evaluated,
    evaluated_worth,
    generated_items,
    last_timed_step,
)
from forgetwatch.watch.callback import ForgetWatchCallback
from forgetwatch.watch.checkpoint_queue import CheckpointQueue
from forgetwatch.watch.follow import Follower, FollowSettings
from forgetwatch.watch.guard import Guard, finding_lines
from forgetwatch.watch.run import Look, Run
from forgetwatch.watch.run_output import ReportPage, checked_command, cost_line, stopped_line
from forgetwatch.watch.saved_checkpoints import NAMES, CheckpointGoneError, CheckpointStore, SavedCheckpoint
from forgetwatch.watch.schedule import Schedule, event_steps
from forgetwatch.watch.trackers import composite_row
from forgetwatch.watch.trainer import (
    default_probe,
    evaluation_weights,
    held_out,
    overlap_line,
    resume_checkpoint,
    token_budget,
)
from forgetwatch.watch.watch import Watch

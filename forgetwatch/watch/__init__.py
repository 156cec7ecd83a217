"""Watch a model while it is trained.

    callback     translates the events of a trainer
    session      one training: begin, resume, look, decide the budget, end
    watch        measures a model and stores the result; looks: the comparisons, in memory; measuring: the baseline,
                 its second measurement, the looks, in the same batches
    schedule, budget        steps of the looks, and number of items that they evaluate
    resume, trainer         the baseline of a resumed run; everything that is read from a trainer
    guard, drift, held_out  bounds on losses; KL from the base; the probe against the training examples
    follow, saved_checkpoints, tracker_runs   the same from another process, checkpoint by checkpoint
    trackers, notices, console, command   rows and alerts; report and table; lines on stderr; a command of the user's

Read `watch` first: it needs no trainer. A look is one evaluation of the probe during a run.
"""

from forgetwatch.watch.callback import ForgetWatchCallback
from forgetwatch.watch.guard import Guard
from forgetwatch.watch.watch import Watch

__all__ = ["ForgetWatchCallback", "Guard", "Watch"]

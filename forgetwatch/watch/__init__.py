"""Watch a model while it is trained.

when and how much    schedule, budget, memory
what was measured    looks (in memory), run_folder (on disk), watch (both, with a model)
beside the counts    drift, guard
a run that goes on   resume, rescue
what is said         rows and trackers, notices, say; rotation and start tell and start others
the trainer          checks, callback
"""

from forgetwatch.watch.callback import ForgetWatchCallback
from forgetwatch.watch.guard import Guard
from forgetwatch.watch.watch import Watch

__all__ = ["ForgetWatchCallback", "Guard", "Watch"]

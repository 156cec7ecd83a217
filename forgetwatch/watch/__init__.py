"""Watch a model while it is trained.

schedule   when to look          run_folder   where looks are kept
watch      baseline and looks    callback     the same inside a trainer
"""

from forgetwatch.watch.callback import ForgetWatchCallback
from forgetwatch.watch.guard import Guard
from forgetwatch.watch.watch import Watch

__all__ = ["ForgetWatchCallback", "Guard", "Watch"]

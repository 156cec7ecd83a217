"""Settings of a follower, of checkpoints or of answers."""

from dataclasses import dataclass

from forgetwatch.loading import Loading
from forgetwatch.run.guard import Guard


@dataclass(frozen=True, kw_only=True)
class FollowSettings:
    """Settings of a follower.

    Attributes:
        base: What checkpoints are compared with: a model id, a checkpoint folder, or a snapshot
            file.
        name: Form of the names of the checkpoints' folders, such as ``step_{N}``; empty for the
            usual ones.
        poll: Seconds between two looks at the folder.
        idle: Seconds without a new checkpoint after which it ends; None for no limit.
        once: True to score the checkpoints that are there, and end.
        guard: Bounds on losses, of which ``stop`` ends the follower; None for none.
        report_to: Names of trackers.
        group: Group of the tracker's run; None for none.
        resume_run: Id of a tracker's run, such as the training's own, that gets the numbers; None
            for a new run.
        full: True to send every number of every group, and to measure the drift from the base.
        loading: How models are loaded.
        endpoint: Address at which checkpoints are served, with ``{checkpoint}`` for the name of one;
            empty to score them in this process.
        serve: Command that serves one checkpoint; empty where something else serves them.
    """

    base: str
    name: str = ""
    poll: float = 5.0
    idle: float | None = None
    once: bool = False
    guard: Guard | None = None
    report_to: tuple[str, ...] = ()
    group: str | None = None
    resume_run: str | None = None
    full: bool = False
    loading: Loading = Loading()
    endpoint: str = ""
    serve: str = ""

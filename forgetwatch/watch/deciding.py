"""What the looks of a run take, and how many items they ask from here on: decided once, after the first steps."""

from __future__ import annotations

from forgetwatch.scoring.processes import on_main_process
from forgetwatch.watch.budget import Clock, Cost, decided, is_mixed
from forgetwatch.watch.watch import Watch


def cost_of(watch: Watch, clock: Clock, *, steps: int, planned: int) -> Cost:
    """What looks and steps have taken, and what is still to come.

    Args:
        watch: The run.
        clock: What its first steps took.
        steps: Optimizer steps of the run.
        planned: Looks of the whole run, the first included.
    """
    items = len(watch.probe)
    return Cost(
        items=items,
        look=watch.asking_seconds * items / (watch.items or items),
        extra=clock.extra,
        written=watch.writing_seconds if is_mixed(watch.probe) else 0.0,
        step=clock.step,
        steps=steps,
        spent=clock.spent,
        left=max(0, planned - len(watch.comparisons)),
    )


def settle(watch: Watch, cost: Cost, overhead: float) -> tuple[Cost, int, bool]:
    """Let the run ask what its budget allows; what that costs, how many items, and whether answers are written.

    The same in every process: clocks differ between them, and what they decide must not.

    Args:
        watch: The run.
        cost: What its looks would cost in this process.
        overhead: Share of the training's time that they may take, 0 to 1.

    Raises:
        WatchError: If the looks so far are not at hand.
    """
    cost, items, writes = on_main_process(lambda: decided(cost, overhead))
    if items < cost.items or writes != watch.writes:
        watch.ask_only(items=items if items < cost.items else None, writes=writes)
    return cost, items, writes

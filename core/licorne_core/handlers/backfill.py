"""Shadow starts that are held from now on, and changes of `backfill`.

Where `backfill` changes, shadow starts end, and asks get or lose the runtime in their class.
"""

from collections.abc import Iterator
from typing import Final

from licorne_core.config.schema import Backfill
from licorne_core.handlers.allocations import replace_ask
from licorne_core.handlers.outcome import Deadline, Deadlines, Decisions, Firing, Outcome
from licorne_core.messages.events.allocations import deadline_at_risk
from licorne_core.model.runtimes import Runtimes
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.expected_ends import with_runtime
from licorne_core.scheduling.shadows import Lapsed, Plan
from licorne_core.values.timers import Due, Timer


def _hold_start(partition: Partition, plan: Plan, now: float, _: Outcome) -> None:
    """Let the ask hold the planned start; one that wants to start before it is told so once."""
    shadow = partition.shadows.hold(plan, now)
    if shadow.is_late and not shadow.told_late:
        shadow.told_late = True
        partition.counters.deadlines_at_risk += 1
        ask = shadow.request.ask
        partition.journal.note(deadline_at_risk(now, ask, shadow.start, shadow.start_by))


def follow_backfill(partition: Partition, mode: Backfill, now: float) -> Iterator[int]:
    """Put another `backfill` in force, in steps of a job. Where it begins or ends, all asks wait anew."""
    shadows = partition.shadows
    before, shadows.mode = shadows.mode, mode
    for shadow in list(shadows)[shadows.most :]:
        shadows.give_up(shadow, now)
    yield 1
    if (before is Backfill.OFF) == (mode is Backfill.OFF):
        return
    partition.runtimes = None if mode is Backfill.OFF else Runtimes()
    partition.ends.learn_from(partition.runtimes)
    for app in list(partition.applications.values()):
        for request in list(app.pending()):
            classes = partition.ends.classes
            ask = with_runtime(app, request.ask, classes, backfills=mode is not Backfill.OFF)
            replace_ask(partition, app, request, ask, now)
            yield 1


def _give_up(partition: Partition, lapsed: Lapsed, now: float, _: Outcome) -> None:
    partition.shadows.give_up(lapsed.shadow, now)


def _overdue(firing: Firing, timer: Timer) -> None:
    """A start that was planned for now has not come."""
    app = firing.partition.applications[timer.app_id]
    firing.partition.shadows.overdue(app.requests[timer.key].claim)


DECISIONS: Final[Decisions] = {Plan: _hold_start, Lapsed: _give_up}
DEADLINES: Final[Deadlines] = {Due.SHADOW: Deadline(_overdue)}

"""A4 for ageing: the bonus is that of a time up to which no deadline of the application has come."""

from collections.abc import Sequence
from math import inf

from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.ageing import TIMER
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ranking import NO_PRIORITY, clamp_priority


def check_ages(partition: Partition, app: Application, pending: Sequence[Request]) -> None:
    """Compare the application's ageing with its leaf's terms and its pending requests."""
    ages = app.ages
    known = None if ages is None else ages.terms
    terms = partition.leaf_of(app).settings.ageing
    if known != terms:
        # In the middle of a reload or a move it follows later.
        if Hold.UNFINISHED not in partition.holds:
            raise InvariantBroken(f"A4: {app!r} ages by {known}, its leaf says {terms}")
        return
    if ages is None:
        return
    oldest = min((request.create_time for request in pending), default=inf)
    aged = clamp_priority(app.priorities.top + ages.bonus) if ages.bonus else NO_PRIORITY
    step = inf
    if pending and ages.bonus < ages.terms.most:
        step = oldest + (ages.bonus // ages.terms.step + 1) * ages.terms.every
    booked = (ages.oldest, ages.top, ages.priority, ages.step)
    counted = (oldest, app.priorities.top, aged, step)
    if booked != counted or (ages.bonus and not pending):
        raise InvariantBroken(f"A4: {app!r}: ageing booked {booked}, counted {counted}")
    fires = partition.timers.deadline(TIMER)
    awaited = partition.ageing.next_step(app)
    if step < inf and (fires is None or max(fires, awaited) > step):
        raise InvariantBroken(f"A4: {app!r}: the step at {step} is not awaited, but {awaited} and {fires}")


def top_priority(app: Application) -> int:
    """The priority by which the application is ordered."""
    return app.priorities.top if app.ages is None else max(app.priorities.top, app.ages.priority)

"""Shadow starts that are granted, that lapse, and whose deadlines come."""

from typing import Final

from licorne_core.extensions.backfill import NAME
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.shadow_start import ShadowStart, StartPlan
from licorne_core.extensions.backfill.shadows import Lapsed, StartQuestion
from licorne_core.handlers.outcome import Deadline, Deadlines, Decisions, Firing, Outcome
from licorne_core.messages.events.records import EventRecord, EventType
from licorne_core.partitions.partition import Partition
from licorne_core.standard.predicates.checks import checks_of
from licorne_core.values.asks import Ask
from licorne_core.values.timers import Timer


def _hold_start(partition: Partition, plan: StartPlan, now: float, _: Outcome) -> None:
    """Let the ask hold the planned start; if it is later than requested, publish an event once."""
    shadows = starts_of(partition).shadows
    shadow = shadows.hold(plan, now)
    if 0.0 < shadow.start_by < shadow.start and not shadow.reported_late:
        shadow.reported_late = True
        shadows.counters.deadlines_at_risk += 1
        ask = shadow.request.ask
        partition.journal.note(_at_risk(now, ask, shadow.start, shadow.start_by))


def _at_risk(time: float, ask: Ask, start: float, start_by: float) -> EventRecord:
    """REQUEST: the ask, or its gang, is planned to start later than requested."""
    planned = f"{start:.3f}".rstrip("0").rstrip(".")
    text = f"DEADLINE_AT_RISK: planned to start at {planned}, wants to start by {start_by:.0f}"
    size = ask.ask_class.resources
    return EventRecord(time, EventType.REQUEST, ask.key, reference_id=ask.app_id, message=text, resource=size)


def _give_up(partition: Partition, lapsed: Lapsed, now: float, _: Outcome) -> None:
    lapsed.shadow.give_up(now)


def _ask(partition: Partition, decision: StartQuestion, _: float, __: Outcome) -> None:
    """Ask the RM about nodes; until the answer the application counts as having a planned start."""
    checks_of(partition.check_context).ask_before(decision.question)
    starts_of(partition).shadows.asking[decision.question.app] = decision.waits


def _look(firing: Firing, timer: Timer) -> None:
    """Plan an overdue start again; for a timer without an application, advance the time."""
    if not timer.app_id:
        firing.slice.left -= starts_of(firing.partition).pass_time(firing.now, max(1, firing.slice.left))
        return
    shadow = firing.partition.applications[timer.app_id].requests[timer.key].claim
    assert isinstance(shadow, ShadowStart)
    starts_of(firing.partition).shadows.overdue(shadow)


DECISIONS: Final[Decisions] = {StartPlan: _hold_start, Lapsed: _give_up, StartQuestion: _ask}
DEADLINES: Final[Deadlines] = {NAME: Deadline(_look)}

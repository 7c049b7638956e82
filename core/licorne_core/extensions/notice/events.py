"""Event records about notices of preemption."""

from licorne_core.messages.events.records import EventRecord, EventType
from licorne_core.values.asks import Ask


def victim_noticed(time: float, victim: Ask, whom: str, deadline: float) -> EventRecord:
    """REQUEST: the RM was given notice that the victim will be stopped."""
    return _of(victim, time, f"Will be preempted for {whom} in {deadline - time:g} s")


def victim_spared(time: float, victim: Ask, whom: str) -> EventRecord:
    """REQUEST: the notice of the victim was withdrawn, and the victim continues to run."""
    return _of(victim, time, f"Will not be preempted: {whom} does not need its room any more")


def _of(ask: Ask, time: float, message: str) -> EventRecord:
    size = ask.ask_class.resources
    return EventRecord(
        time, EventType.REQUEST, ask.key, reference_id=ask.app_id, message=message, resource=size
    )

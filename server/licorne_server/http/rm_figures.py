"""Figures of one RM, as the server knows it, for a scrape."""

from licorne_core.values.errors import NotFound
from licorne_server.events.log import EventLogs
from licorne_server.http import EventFigures, RmFigures
from licorne_server.rms.rm import Rm


def rm_figures(rm: Rm, logs: EventLogs) -> RmFigures:
    """The RM's connection, its outbox, its events and its measures."""
    return RmFigures(
        rm_id=rm.rm_id,
        connected=rm.connected,
        since=rm.since,
        outbox_messages=rm.outbox.messages,
        outbox_bytes=rm.outbox.size,
        outbox_age=rm.outbox.age,
        resyncs=rm.resyncs,
        events=_events(rm, logs),
        measures=rm.measures,
    )


def _events(rm: Rm, logs: EventLogs) -> EventFigures:
    try:
        log = logs.get(rm.rm_id)
    except NotFound:  # the RM is being registered just now
        return EventFigures()
    return EventFigures(
        noted=log.next_id,
        kept=log.next_id - log.lowest_id,
        told=0 if rm.session is None else rm.session.next_event,
        memory=log.memory,
        watchers=log.watchers,
    )

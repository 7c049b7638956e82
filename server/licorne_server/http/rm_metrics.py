"""Metrics of RMs: their connections, their usage and their limits."""

from collections.abc import Iterator
from dataclasses import fields

from licorne_core.values.errors import NotFound
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views import Views
from licorne_server.http.families import Families, Labels
from licorne_server.http.sources import EventFigures, Figures, RmFigures

_COUNTED = tuple(field.name for field in fields(RmCaps) if "memory" not in field.name)


def gather_rms(views: Views, figures: Figures, families: Families) -> Iterator[None]:
    """Add the metrics of all RMs, one at a step. The caller may let others run between two."""
    caps = views.caps
    families.gauge(
        "licorne_rm_items_max", "How many one RM may have.", ("kind",), _by_kind((), caps)
    )
    text = "Bytes that one RM may have, as the core reckons them."
    families.gauge("licorne_rm_memory_max_bytes", text, (), {(): caps.memory})
    text = "Bytes of these for applications that are over."
    families.gauge("licorne_rm_ended_memory_max_bytes", text, (), {(): caps.ended_memory})
    families.gauge("licorne_rms", "RMs that are registered.", (), {(): len(figures.rms)})
    text = "RMs that were forgotten because they were gone."
    families.counter("licorne_rms_forgotten_total", text, (), {(): figures.rms_forgotten})
    for rm in figures.rms:
        yield
        _connection(rm, families)
        try:
            counts = views.rm(rm.rm_id).counts
        except NotFound:
            continue  # it went away since the figures were made
        where = (str(rm.rm_id),)
        text = "How many the RM has; ended are applications that are over and can still be seen."
        families.gauge("licorne_rm_items", text, ("rm", "kind"), _by_kind(where, counts))
        text = "Bytes that the RM has, as the core reckons them."
        families.gauge("licorne_rm_memory_bytes", text, ("rm",), {where: counts.memory})
        text = "Bytes of these that applications have that are over."
        families.gauge("licorne_rm_ended_memory_bytes", text, ("rm",), {where: counts.ended_memory})


def _by_kind(where: Labels, amounts: RmCounts | RmCaps) -> dict[Labels, float]:
    return {(*where, kind): getattr(amounts, kind) for kind in _COUNTED}


def _connection(rm: RmFigures, families: Families) -> None:
    where = (str(rm.rm_id),)
    for name, text, value in (
        ("licorne_rm_connected", "1 when the RM has a session.", int(rm.connected)),
        ("licorne_rm_outbox_messages", "Messages that wait.", rm.outbox_messages),
        ("licorne_rm_outbox_bytes", "Bytes that wait.", rm.outbox_bytes),
        (
            "licorne_rm_outbox_age_seconds",
            "For how long the oldest message has waited that is not written yet.",
            rm.outbox_age,
        ),
        ("licorne_rm_events_kept", "Events that can still be read.", rm.events.kept),
        ("licorne_rm_events_memory_bytes", "Bytes that these take.", rm.events.memory),
        ("licorne_rm_event_watchers", "Those who watch events.", rm.events.watchers),
    ):
        families.gauge(name, text, ("rm",), {where: value})
    text = "Replays wanted because the outbox was full."
    families.counter("licorne_rm_resyncs_total", text, ("rm",), {where: rm.resyncs})
    _older_events(where, rm.events, families)


def _older_events(where: Labels, events: EventFigures, families: Families) -> None:
    """The older core's gauges: here an event that was made is in the ring at once."""
    made = dict.fromkeys(("created", "channeled", "processed", "stored"), events.noted)
    for what, count in {**made, "not_channeled": 0, "not_stored": 0}.items():
        text = f"Events of the RM's registration that were {what.replace('_', ' ')}."
        families.gauge(f"yunikorn_event_total_{what}", text, ("rm",), {where: count})
    text = "Events that the RM itself was told."
    families.gauge("yunikorn_event_total_collected", text, ("rm",), {where: events.told})

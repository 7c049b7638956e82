"""The spans of turns and of replays.

Turns are sampled, and those that have placed a traced ask are traced too. Replays are always
traced, unless a caller's context is not sampled.
"""

from collections.abc import Sequence

from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    Effect,
)
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_server.telemetry.tracing.calls import current_context
from licorne_server.telemetry.tracing.spans import RM_ID, Spans, nanoseconds

MAX_LINKS = 128
"""Asks of one turn that its span links to."""


class _Replay:
    """Messages of an RM after its registration, until its replay ends."""

    __slots__ = ("session", "span", "time")

    def __init__(self, time: float, session: int) -> None:
        self.time = time
        self.session = session
        self.span: Span | None = None


class ServerSpans:
    """The spans of the turns of one server, and of the replays of its RMs."""

    def __init__(self, spans: Spans) -> None:
        """Start without open spans."""
        self._spans = spans
        # The last registration of each RM whose replay has not ended.
        self._replays: dict[RmId, _Replay] = {}

    def turned(
        self,
        partition: PartitionName,
        spent: float,
        effects: Sequence[Effect],
        placed: Sequence[SpanContext],
    ) -> None:
        """Record a turn of so many seconds, which has placed the asks with these spans."""
        if not placed and not (effects and self._spans.wanted(None)):
            return
        made = sum(len(e.allocations) for e in effects if isinstance(e, AllocationsMade))
        released = sum(len(e.releases) for e in effects if isinstance(e, AllocationsReleased))
        about: dict[str, str | int] = {
            RM_ID: rm_of(partition),
            "licorne.partition": partition,
            "licorne.allocations": made,
            "licorne.releases": released,
        }
        now = self._spans.now()
        span = self._spans.begin("turn", now - spent, None, about, links=placed[:MAX_LINKS])
        span.end(nanoseconds(now))

    def registered(self, rm_id: RmId, session: int) -> None:
        """The RM was registered; if it replays, that begins now."""
        self.forget(rm_id)
        self._replays[rm_id] = _Replay(self._spans.now(), session)

    def replaying(self, rm_id: RmId) -> None:
        """The RM is served over a session: nothing of it is scheduled before its replay."""
        replay, parent = self._replays.get(rm_id), current_context()
        if replay is not None and (parent is None or parent.sampled):
            about: dict[str, str | int] = {
                RM_ID: rm_id,
                "licorne.session": replay.session,
            }
            replay.span = self._spans.begin("replay", replay.time, parent, about)

    def replayed(self, rm_id: RmId, missing: str) -> None:
        """A replay was ended; with something missing the RM has to try again."""
        replay = self._replays.get(rm_id)
        if replay is None or replay.span is None:
            return
        if missing:
            about = {"licorne.missing": missing}
            replay.span.add_event("incomplete", about, nanoseconds(self._spans.now()))
        else:
            del self._replays[rm_id]
            replay.span.end(nanoseconds(self._spans.now()))

    def forget(self, rm_id: RmId) -> None:
        """The RM is gone, or starts anew: a replay that was under way never ends."""
        replay = self._replays.pop(rm_id, None)
        if replay is not None and replay.span is not None:
            replay.span.set_status(Status(StatusCode.ERROR, "the RM has gone or registered anew"))
            replay.span.end(nanoseconds(self._spans.now()))

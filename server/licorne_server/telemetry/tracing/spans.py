"""Spans in the form in which the event loop records them.

Beginning and ending a span of OpenTelemetry would take some fifty times as long, and one request or turn may
end thousands of spans. So the exporting thread converts spans to OpenTelemetry's.
"""

from collections.abc import Callable, Mapping, Sequence
from random import random
from typing import NamedTuple

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from licorne_server.wire.asks import TraceContext

Value = str | int | bool
"""The value of an attribute."""

RM_ID = "licorne.rm_id"
"""Attribute with the RM of a span; spans of the server itself do not have it."""

MAX_EVENTS = 16
"""Maximum number of events of a span, as an ask may wait for days; the oldest are dropped."""

_ids = RandomIdGenerator()


class Event(NamedTuple):
    """An event of a span."""

    name: str
    time: float
    attributes: Mapping[str, Value]


class Span:
    """A span that has begun; all spans of this class are sampled. Times are in unix seconds."""

    __slots__ = (
        *("attributes", "dropped_events", "end", "error", "events", "links", "name", "parent"),
        *("span_id", "state", "time", "trace_id"),
    )

    sampled = True

    def __init__(
        self,
        name: str,
        time: float,
        parent: "Parent | None",
        attributes: dict[str, Value],
        links: Sequence["Span"] = (),
    ) -> None:
        """Begin a span at `time`; `parent` is None at the root of a trace."""
        self.name = name
        self.time = time
        self.parent = parent
        self.trace_id: int = _ids.generate_trace_id() if parent is None else parent.trace_id
        self.span_id = _ids.generate_span_id()
        self.state: str = "" if parent is None else parent.state
        """State of tracing tools, see `TraceContext`."""
        self.attributes = attributes
        self.links = links
        self.events: list[Event] = []
        """The last `MAX_EVENTS` events."""
        self.dropped_events = 0
        """Number of dropped events."""
        self.error: str | None = None
        """Description of the error with which the span ends; None if there is none."""
        self.end = 0.0

    def add_event(self, name: str, time: float, attributes: Mapping[str, Value]) -> None:
        """Add an event; the oldest is dropped if there are too many."""
        if len(self.events) == MAX_EVENTS:
            del self.events[0]
            self.dropped_events += 1
        self.events.append(Event(name, time, attributes))


Parent = TraceContext | Span
"""A span of a caller, or of this server."""


class Spans:
    """Samples the spans of one server, and passes ended spans on."""

    def __init__(
        self,
        take: Callable[[Span], None],
        now: Callable[[], float],
        sample: float,
        draw: Callable[[], float] = random,
    ) -> None:
        """Pass ended spans to `take`. `now` returns unix seconds.

        `sample` is the share of work that is traced if its caller makes no decision. `draw` returns random
        numbers in [0, 1).
        """
        self._take = take
        self._sample = sample
        self._draw = draw
        self.now = now

    def wanted(self, parent: Parent | None) -> bool:
        """True if work is sampled: as its caller has decided, or else at random."""
        return self._draw() < self._sample if parent is None else parent.sampled

    def end(self, span: Span, error: str | None = None) -> None:
        """End a span now, with the description of an error if it has failed."""
        span.end = self.now()
        span.error = error
        self._take(span)

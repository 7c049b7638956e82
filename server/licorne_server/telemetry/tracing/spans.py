"""Begins spans with a given start, name and parent."""

from collections.abc import Callable, Mapping, Sequence
from random import random

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from licorne_server.wire.trace_context import TraceContext

Attributes = Mapping[str, AttributeValue]

RM_ID = "licorne.rm_id"
"""Attribute with the RM of a span; spans of the server alone have none."""

_ROOT = Context()
"""An empty context: other work of the process is not the parent of anything here."""


def nanoseconds(time: float) -> int:
    """The time in unix seconds as spans have it."""
    return int(time * 1e9)


class Spans:
    """Begins the spans of one server. All times are in unix seconds."""

    def __init__(
        self,
        tracer: Tracer,
        now: Callable[[], float],
        sample: float,
        draw: Callable[[], float] = random,
    ) -> None:
        """`sample` is the share of work traced without a caller's decision.

        `draw` gives numbers from 0 up to, not including, 1.
        """
        self._tracer = tracer
        self._sample = sample
        self._draw = draw
        self.now = now

    def wanted(self, parent: TraceContext | None) -> bool:
        """True if work is sampled: by its caller's decision, or else by chance."""
        return self._draw() < self._sample if parent is None else parent.sampled

    def begin(
        self,
        name: str,
        time: float,
        parent: TraceContext | None,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[SpanContext] = (),
    ) -> Span:
        """A span that is open since that time, below the caller's or at the root of a trace."""
        return self._tracer.start_span(
            name,
            context=_ROOT if parent is None else _below(parent),
            kind=kind,
            attributes=attributes,
            links=[Link(context) for context in links],
            start_time=nanoseconds(time),
        )

    def begin_below(self, name: str, time: float, parent: Span, attributes: Attributes) -> Span:
        """A span that is open since that time, below one of our own."""
        around = set_span_in_context(parent, _ROOT)
        return self._tracer.start_span(
            name, context=around, attributes=attributes, start_time=nanoseconds(time)
        )


def context_of(span: Span) -> TraceContext:
    """Trace context for children of one of our spans."""
    own = span.get_span_context()
    return TraceContext(own.trace_id, own.span_id, own.trace_flags.sampled)


def _below(parent: TraceContext) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([parent.state]) if parent.state else None
    remote = SpanContext(parent.trace_id, parent.span_id, True, flags, state)
    return set_span_in_context(NonRecordingSpan(remote), _ROOT)

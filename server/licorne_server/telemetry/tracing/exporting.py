"""Converts ended spans to OpenTelemetry's in a thread, and exports them.

It replaces the SDK's batch processor, for three reasons. The batch processor starts a thread
in every fork, and copies of the process must have none (`engine/copied_process.py`). It takes up to
half a minute to stop. It logs dropped spans one by one, without a count.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from time import monotonic

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from licorne_server.telemetry.tracing.spans import MAX_EVENTS, RM_ID, Parent, Span
from licorne_server.telemetry.tracing.starting import EXPORT_FAILED, QUEUE_FULL, SHUTDOWN, TraceCounts
from licorne_server.wire.asks import TraceContext

log = structlog.get_logger("core.tracing.exporting")

MAX_ATTRIBUTE = 1024
"""Maximum number of characters of a text in a span; longer texts are cut."""

_ROOT = Context()
"""An empty context, so that no other span of the process becomes a parent."""


class Making(IdGenerator):
    """Converts recorded spans to OpenTelemetry's, one at a time."""

    def __init__(self, version: str) -> None:
        """`version` is that of the server, an attribute of all spans."""
        self._span: Span
        provider = TracerProvider(
            # Sampling is decided before a span begins (`Spans.wanted`).
            sampler=ALWAYS_ON,
            resource=_resource(version),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=MAX_ATTRIBUTE, max_events=MAX_EVENTS),
            id_generator=self,
        )
        self._tracer = provider.get_tracer("licorne_server", version)

    def generate_trace_id(self) -> int:
        """The trace id of the span that is being converted."""
        return self._span.trace_id

    def generate_span_id(self) -> int:
        """The id of the span that is being converted."""
        return self._span.span_id

    def is_trace_id_random(self) -> bool:
        """True: `Span` draws all bits of the ids of new traces."""
        return True

    def make(self, span: Span) -> list[ReadableSpan]:
        """Convert an ended span; the list is empty if the environment has switched the SDK off."""
        self._span = span
        made = self._tracer.start_span(
            span.name,
            context=_ROOT if span.parent is None else _below(span.parent),
            kind=SpanKind.CONSUMER if span.name == "ask" else SpanKind.INTERNAL,
            attributes=span.attributes,
            links=[Link(_context_of(linked)) for linked in span.links],
            start_time=nanoseconds(span.time),
        )
        if isinstance(made, ReadableSpan) and isinstance(made._events, BoundedList):
            # The SDK counts only the events that it drops itself, so the number of dropped events is set.
            made._events.dropped = span.dropped_events
        for event in span.events:
            made.add_event(event.name, event.attributes, nanoseconds(event.time))
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(nanoseconds(span.end))
        return [made] if isinstance(made, ReadableSpan) else []


def nanoseconds(time: float) -> int:
    """Unix seconds in nanoseconds, the unit of spans."""
    return int(time * 1e9)


def _below(parent: Parent) -> Context:
    return set_span_in_context(NonRecordingSpan(_context_of(parent)), _ROOT)


def _context_of(span: Parent) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if span.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([span.state]) if span.state else None
    return SpanContext(span.trace_id, span.span_id, isinstance(span, TraceContext), flags, state)


def _resource(version: str) -> Resource:
    """Resource attributes of all spans; the standard environment variables take precedence."""
    said = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": "licorne", "service.version": version, **said})


MAX_WAITING = 16_384
"""Maximum number of spans that wait for export."""

MAX_OF_RM = MAX_WAITING // 2
"""Maximum number of waiting spans of one RM, so that room is left for other RMs."""

BATCH = 512
"""Maximum number of spans in one batch."""

BATCH_SECONDS = 2.0
"""Seconds after which a batch is sent even if it is not full."""

FLUSH_SECONDS = 3.0
"""Seconds for sending the queue when the server stops."""

TELL_SECONDS = 60.0
"""Minimum seconds between two log lines about failures."""

_LIBRARY = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""Logger of the exporter, which writes a line for every attempt."""


class Exporting:
    """Passes ended spans to an exporter in batches."""

    def __init__(self, exporter: SpanExporter, version: str, counts: TraceCounts) -> None:
        """Queue ended spans; `start` begins to send them."""
        self._exporter = exporter
        self._making = Making(version)
        self._counts = counts
        # Held while a span is queued or a batch is taken, never during an export.
        self._lock = threading.Lock()
        self._waiting: deque[Span] = deque()
        # Queued spans by RM, without zeros.
        self._of_rm: Counter[object] = Counter()
        self._wake = threading.Event()
        self._stopping = self._abandoned = False
        self._told = -TELL_SECONDS
        self._overheard = _Overheard()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Start the thread, which sends ended spans."""
        logging.getLogger(_LIBRARY).addFilter(self._overheard)
        self._thread.start()

    def put(self, span: Span) -> None:
        """Queue a span; if too many wait, drop and count it."""
        rm_id = span.attributes.get(RM_ID)
        with self._lock:
            if len(self._waiting) >= MAX_WAITING or self._of_rm[rm_id] >= MAX_OF_RM:
                self._counts.dropped[QUEUE_FULL] += 1
                return
            self._waiting.append(span)
            self._of_rm[rm_id] += 1
        if len(self._waiting) == BATCH:
            self._wake.set()

    async def stop(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send the queued spans, for at most `seconds`."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, seconds)
        self._abandoned = True
        # This ends a pause between two attempts.
        self._exporter.shutdown()
        logging.getLogger(_LIBRARY).removeFilter(self._overheard)
        self._counts.dropped[SHUTDOWN] += len(self._waiting)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            # Spans that are queued after this line set `_wake` again.
            stopping = self._stopping
            while not self._abandoned and (batch := self._take()):
                self._send(batch)

    def _take(self) -> list[Span]:
        """The next batch, in order of arrival; empty if no span is queued."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._of_rm -= Counter(span.attributes.get(RM_ID) for span in batch)
        return batch

    def _send(self, batch: list[Span]) -> None:
        self._overheard.said = ""
        made: list[ReadableSpan] = []
        try:
            made = [each for span in batch for each in self._making.make(span)]
            taken = not made or self._exporter.export(made) is SpanExportResult.SUCCESS
            reason = self._overheard.said
        except Exception as error:
            taken, reason = False, repr(error)
        if taken:
            self._counts.exported += len(made)
            return
        self._counts.dropped[EXPORT_FAILED] += len(batch)
        if monotonic() - self._told >= TELL_SECONDS:
            self._told = monotonic()
            dropped = self._counts.dropped[EXPORT_FAILED]
            log.warning("spans not taken by the collector", reason=reason, dropped=dropped)


class _Overheard(logging.Filter):
    """Collects the exporter's log messages, for one line in the server's log."""

    said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Store the message in `said`, and suppress the record."""
        self.said = record.getMessage()
        return False

"""Interface of traces for other rooms.

A failure in this room ends the traces and nothing else.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

from licorne_core.messages.commands import Command, UpdateAllocations
from licorne_core.messages.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    PredicatesAsked,
    Registered,
    ReplayEnded,
)
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import TraceSettings
from licorne_server.telemetry.tracing.ask_spans import AskSpans, Looking
from licorne_server.telemetry.tracing.exporting import Exporting
from licorne_server.telemetry.tracing.followed import CheckSpans, FollowedAsks, Stands
from licorne_server.telemetry.tracing.server_spans import (
    ConfigurationSpans,
    Metadata,
    ServerSpans,
    current_context,
    note_call,
)
from licorne_server.telemetry.tracing.spans import Ends, Spans
from licorne_server.telemetry.tracing.starting import Defects, MalformedLog, TraceCounts, harmless

log = structlog.get_logger("core.tracing.tracing")

MAX_ATTRIBUTE = 1024
"""Characters of a text in a span, at most; longer texts are cut."""

MAX_EVENTS = 16
"""Events of a span, at most, as an ask may wait for days; the oldest are dropped. Each takes half a
kilobyte until its span is exported."""

BEGUN_AT_ONCE = 40
"""Spans of asks begun in one step of the loop, which takes a millisecond or two."""


class Tracing:
    """The traces of one server."""

    counts: TraceCounts
    defects: Defects
    followed: FollowedAsks
    configurations: ConfigurationSpans
    """Spans around changes of configurations."""

    def __init__(
        self,
        settings: TraceSettings,
        version: str,
        clock: Clock,
        time_slices: TimeSlices,
        stands: Stands,
    ) -> None:
        """Nothing is sent, and no ask is looked at, before `start`.

        Spans name the `version` of the server. Asks are looked at in `time_slices`.
        """
        self.counts = TraceCounts()
        self.defects = Defects(_tell_of_defect)
        self.followed = FollowedAsks(self.counts)
        self._exporting: Exporting | None = None
        processor: SpanProcessor
        if settings.exporter is not None:
            processor = SimpleSpanProcessor(settings.exporter)
        else:
            exporter = OTLPSpanExporter(endpoint=settings.url)
            processor = self._exporting = Exporting(exporter, self.counts)
        spans = Spans(_tracer(processor, version), clock.now, settings.sample)
        self.configurations = ConfigurationSpans(spans, self.defects)
        self._server = ServerSpans(spans)
        self._ends = Ends(time_slices, self.defects.fail)
        self._checks = CheckSpans(spans, self.followed, self._ends)
        self._asks = AskSpans(spans, self.counts, self.followed, self._checks, stands, self._ends)
        self._looking = Looking(self.followed, stands, self._asks, time_slices, clock, self.defects.fail)
        self._malformed = MalformedLog(self.counts, clock.now)

    def start(self) -> None:
        """Start to send ended spans and to look at asks."""
        if self._exporting is not None:
            self._exporting.start()
        self._ends.start()
        self._looking.start()

    async def stop(self) -> None:
        """Send ended spans, in bounded time. Open spans are never sent."""
        await self._looking.stop()
        await self._ends.stop()
        if self._exporting is not None:
            await self._exporting.stop()

    @harmless
    def called(self, metadata: Metadata) -> None:
        """Read the caller's trace context from a call's metadata, for all work of the call."""
        if not note_call(metadata):
            self.counts.malformed += 1
            self._malformed.tell()

    async def asked(self, rm_id: RmId, command: UpdateAllocations) -> None:
        """Begin the spans of a command's asks, before the core gets the command.

        If many asks are traced the event loop runs other tasks in between.
        """
        self._releasing(rm_id, command)
        begun = self._asks.begin(rm_id, command.asks, current_context())
        is_more = self._begin_some(begun)
        while is_more:
            await asyncio.sleep(0)
            is_more = self._begin_some(begun)

    @harmless
    def _releasing(self, rm_id: RmId, command: UpdateAllocations) -> None:
        """Note releases, as a look may find their asks gone before `carried_out` is called."""
        if command.releases and self.followed.has(rm_id):
            self._asks.releasing(rm_id, command.releases)

    @harmless
    def _begin_some(self, begun: Iterator[None]) -> bool:
        """Begin the spans of some asks; returns True if there may be more."""
        is_more = sum(1 for _ in islice(begun, BEGUN_AT_ONCE)) == BEGUN_AT_ONCE
        self._looking.wake()
        self._malformed.tell()
        return is_more

    @harmless
    def carried_out(self, rm_id: RmId, command: Command) -> None:
        """Note the end of a command: carried out, failed, or abandoned by its caller."""
        if isinstance(command, UpdateAllocations) and command.releases and self.followed.has(rm_id):
            self._asks.released(rm_id, command.releases)
        self._looking.changed(rm_id)

    @harmless
    def told(self, effects: Sequence[Effect]) -> None:
        """Record effects sent to RMs."""
        for effect in effects:
            rm_id = effect.rm_id
            match effect:
                case Registered():
                    self._asks.forget(rm_id)
                    self.configurations.forget(rm_id)
                    self._server.registered(rm_id, effect.session)
                case ReplayEnded():
                    self._server.replayed(rm_id, effect.missing)
                case ConfigurationUpdated() | ConfigurationRefused():
                    self.configurations.told(effect)
                case _:
                    pass
            if self.followed.has(rm_id):
                if isinstance(effect, PredicatesAsked):
                    self._checks.asked(effect)
                else:
                    self._asks.told(effect)
                self._looking.changed(rm_id)

    @harmless
    def turned(self, partition: PartitionName, spent: float, effects: Sequence[Effect]) -> None:
        """Record a turn of `spent` seconds; its effects were sent to RMs."""
        self._server.turned(partition, spent, effects, self._asks.take_placed(effects))
        self._looking.changed(rm_of(partition))

    @harmless
    def answered(self, rm_id: RmId, checks: Sequence[int]) -> None:
        """Record predicate checks answered by the RM."""
        self._checks.answered(rm_id, checks)

    @harmless
    def replaying(self, rm_id: RmId) -> None:
        """Record the begin of a replay, in a new session of an RM."""
        self._server.replaying(rm_id)

    @harmless
    def forget(self, rm_id: RmId) -> None:
        """End the asks and spans of a removed RM."""
        self._asks.forget(rm_id)
        self.configurations.forget(rm_id)
        self._server.forget(rm_id)


def _tell_of_defect() -> None:
    log.exception("traces have failed, none are made from now on")


def _tracer(processor: SpanProcessor, version: str) -> Tracer:
    """A tracer that passes ended spans to the processor."""
    provider = TracerProvider(
        # Sampling is decided before the begin of a span (`Spans.wanted`).
        sampler=ALWAYS_ON,
        resource=_resource(version),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_attribute_length=MAX_ATTRIBUTE, max_events=MAX_EVENTS),
    )
    provider.add_span_processor(processor)
    return provider.get_tracer("licorne_server", version)


def _resource(version: str) -> Resource:
    """Resource attributes of all spans; standard environment variables take precedence."""
    said = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": "licorne", "service.version": version, **said})

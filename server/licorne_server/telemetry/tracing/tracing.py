"""Interface of traces for the rest of the server.

A failure in here ends the traces and nothing else.
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
"""Characters of a text in a span; the rest is left out."""

MAX_EVENTS = 16
"""Events of a span, as an ask may wait for days; of more than that these are the last ones. Each
takes half a kilobyte for as long as its span is open, and while it waits to be sent."""

BEGUN_AT_ONCE = 40
"""Spans of asks that are begun in one step of the loop, which takes a millisecond or two."""


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
        """Make spans; `start` begins to send them, and to look at asks.

        They name the `version` of the server. Looks are made in `time_slices`.
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
        """Send what has ended and look at asks from now on."""
        if self._exporting is not None:
            self._exporting.start()
        self._ends.start()
        self._looking.start()

    async def stop(self) -> None:
        """Send what has ended, which takes bounded time. What has not ended is never sent."""
        await self._looking.stop()
        await self._ends.stop()
        if self._exporting is not None:
            await self._exporting.stop()

    @harmless
    def called(self, metadata: Metadata) -> None:
        """Note a call with this metadata: its work belongs to the caller's trace."""
        if not note_call(metadata):
            self.counts.malformed += 1
            self._malformed.tell()

    async def asked(self, rm_id: RmId, command: UpdateAllocations) -> None:
        """Begin the spans of a command's asks, before it goes to the core.

        Where many asks are traced the loop has a round between parts of them.
        """
        self._releasing(rm_id, command)
        begun = self._asks.begin(rm_id, command.asks, current_context())
        is_more = self._begin_some(begun)
        while is_more:
            await asyncio.sleep(0)
            is_more = self._begin_some(begun)

    @harmless
    def _releasing(self, rm_id: RmId, command: UpdateAllocations) -> None:
        """Note releases: a look may find their asks gone before `carried_out` is called."""
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
        """Note that a command has ended: carried out, failed, or without a waiting caller."""
        if isinstance(command, UpdateAllocations) and command.releases and self.followed.has(rm_id):
            self._asks.released(rm_id, command.releases)
        self._looking.changed(rm_id)

    @harmless
    def told(self, effects: Sequence[Effect]) -> None:
        """Record effects that are sent to RMs."""
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
        """Record a turn of so many seconds; its effects were sent to RMs."""
        self._server.turned(partition, spent, effects, self._asks.take_placed(effects))
        self._looking.changed(rm_of(partition))

    @harmless
    def answered(self, rm_id: RmId, checks: Sequence[int]) -> None:
        """The RM has answered these predicate checks."""
        self._checks.answered(rm_id, checks)

    @harmless
    def replaying(self, rm_id: RmId) -> None:
        """A session of an RM, registered just now, begins with its replay."""
        self._server.replaying(rm_id)

    @harmless
    def forget(self, rm_id: RmId) -> None:
        """End the asks and spans of an RM that is gone."""
        self._asks.forget(rm_id)
        self.configurations.forget(rm_id)
        self._server.forget(rm_id)


def _tell_of_defect() -> None:
    log.exception("traces have failed, none are made from now on")


def _tracer(processor: SpanProcessor, version: str) -> Tracer:
    """The tracer, which gives ended spans to the processor."""
    provider = TracerProvider(
        # What is to be traced is decided before a span is begun (`Spans.wanted`).
        sampler=ALWAYS_ON,
        resource=_resource(version),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_attribute_length=MAX_ATTRIBUTE, max_events=MAX_EVENTS),
    )
    provider.add_span_processor(processor)
    return provider.get_tracer("licorne_server", version)


def _resource(version: str) -> Resource:
    """Resource attributes of all spans; the standard variables of the environment go first."""
    said = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": "licorne", "service.version": version, **said})

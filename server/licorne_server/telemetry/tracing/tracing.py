"""Interface of tracing for other packages.

A failure in this package ends the traces and nothing else.
"""

from collections.abc import Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    OfNoRm,
    UpdateAllocations,
)
from licorne_core.messages.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    ReplayEnded,
)
from licorne_core.messages.reports import Turn
from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import TraceSettings
from licorne_server.telemetry.tracing.ask_spans import AskSpans, Looking, Stands
from licorne_server.telemetry.tracing.exporting import Exporting, Making
from licorne_server.telemetry.tracing.server_spans import (
    ConfigurationSpans,
    Metadata,
    ServerSpans,
    current_context,
    note_call,
)
from licorne_server.telemetry.tracing.spans import Span, Spans
from licorne_server.telemetry.tracing.starting import Defects, MalformedLog, TraceCounts, harmless

log = structlog.get_logger("core.tracing.tracing")


class Tracing:
    """The traces of one server."""

    counts: TraceCounts
    defects: Defects
    asks: AskSpans
    """Asks with open spans."""
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
        """Create the traces; `start` begins to send spans and to examine asks.

        `version` is the version of the server, an attribute of all spans. Asks are examined in `time_slices`.
        """
        self.counts = TraceCounts()
        self.defects = Defects(_tell_of_defect)
        self._exporting: Exporting | None = None
        if (exporter := settings.exporter) is not None:
            making = Making(version)

            def take(span: Span) -> None:
                exporter.export(making.make(span))
        else:
            collector = OTLPSpanExporter(endpoint=settings.url)
            self._exporting = Exporting(collector, version, self.counts)
            take = self._exporting.put
        spans = Spans(take, clock.now, settings.sample)
        self.configurations = ConfigurationSpans(spans, self.defects)
        self.asks = AskSpans(spans, self.counts, stands)
        self._server = ServerSpans(spans)
        self._looking = Looking(self.asks, stands, time_slices, clock, self.defects.fail)
        self._malformed = MalformedLog(self.counts, clock.now)

    def start(self) -> None:
        """Start to send ended spans and to examine asks."""
        if self._exporting is not None:
            self._exporting.start()
        self._looking.start()

    async def stop(self) -> None:
        """Send ended spans, within a bounded time. Open spans are never sent."""
        await self._looking.stop()
        if self._exporting is not None:
            await self._exporting.stop()

    @harmless
    def called(self, metadata: Metadata) -> None:
        """Read the caller's trace context from a call's metadata, for all work of the call."""
        if not note_call(metadata):
            self.counts.malformed += 1
            self._malformed.tell()

    @harmless
    def asked(self, rm_id: RmId, command: UpdateAllocations) -> None:
        """Begin the spans of a command's asks, before the core handles the command."""
        self.asks.begin(rm_id, command.asks, current_context())
        self._looking.wake()
        self._malformed.tell()

    @harmless
    def saw(
        self, command: Command | None, effects: Sequence[Effect], seconds: float, turn: Turn | None
    ) -> None:
        """Record a command or a tick (`Witness`)."""
        if isinstance(command, AnswerPredicates | AnswerPreemptions):
            self.asks.answered(command.rm_id, (answer.check for answer in command.answers))
        placed: list[Span] = []
        for effect in effects:
            self._told(effect)
            if self.asks.has(effect.rm_id):
                placed += self.asks.told(effect)
                self._looking.changed(effect.rm_id)
        if turn is not None:
            self._server.turned(turn.partition, seconds, effects, placed)
            self._looking.changed(turn.rm_id)
        elif command is not None and not isinstance(command, OfNoRm):
            if isinstance(command, UpdateAllocations) and self.asks.has(command.rm_id):
                self.asks.released(command.rm_id, command.releases)
            self._looking.changed(command.rm_id)

    def _told(self, effect: Effect) -> None:
        """Record an effect in the server's own spans."""
        rm_id = effect.rm_id
        match effect:
            case Registered():
                self.asks.forget(rm_id)
                self._server.registered(rm_id, effect.session)
            case ReplayEnded():
                self._server.replayed(rm_id, effect.missing)
            case ConfigurationUpdated() | ConfigurationRefused():
                self.configurations.told(effect)
            case _:
                pass

    @harmless
    def replaying(self, rm_id: RmId) -> None:
        """Record the beginning of a replay, in a new session of an RM."""
        self._server.replaying(rm_id)

    @harmless
    def forget(self, rm_id: RmId) -> None:
        """End the asks and the replay of a removed RM."""
        self.asks.forget(rm_id)
        self._server.forget(rm_id)


def _tell_of_defect() -> None:
    log.exception("traces have failed, none are made from now on")

"""The spans of new configurations and of reloads, around the blocks in which they happen.

They are always traced, unless a caller's context is not sampled. A failure in here ends the traces,
and does not affect the blocks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from opentelemetry.trace import Span, Status, StatusCode

from licorne_core.messages.effects import ConfigurationRefused, ConfigurationUpdated
from licorne_core.values.ids import RmId
from licorne_server.telemetry.tracing.calls import current_context, inside
from licorne_server.telemetry.tracing.defects import Defects, harmless
from licorne_server.telemetry.tracing.spans import RM_ID, Spans, context_of, nanoseconds
from licorne_server.wire.trace_context import TraceContext


class ConfigurationSpans:
    """Spans of RMs' configurations, and of reloads of the default's file."""

    defects: Defects

    def __init__(self, spans: Spans, defects: Defects) -> None:
        """Start without open spans."""
        self.defects = defects
        self._spans = spans
        # What has become of the configuration that an RM gets just now.
        self._outcomes: dict[RmId, ConfigurationUpdated | ConfigurationRefused] = {}

    @contextmanager
    def configuring(self, rm_id: RmId) -> Iterator[None]:
        """Make a span if an RM gets another configuration inside the block."""
        begin = self._spans.now()
        self._expect(rm_id)
        try:
            yield
        finally:
            self._configured(rm_id, begin)

    @harmless
    def told(self, effect: ConfigurationUpdated | ConfigurationRefused) -> None:
        """A configuration is in force, or was refused."""
        self._outcomes[effect.rm_id] = effect

    @harmless
    def forget(self, rm_id: RmId) -> None:
        """The RM is gone, or starts anew."""
        self._outcomes.pop(rm_id, None)

    @harmless
    def _expect(self, rm_id: RmId) -> None:
        """Drop the outcome from before the block."""
        self._outcomes.pop(rm_id, None)

    @harmless
    def _configured(self, rm_id: RmId, begin: float) -> None:
        """The RM has got all that it was to get since then: there is a span if it got any."""
        effect, parent = self._outcomes.pop(rm_id, None), current_context()
        if effect is not None and (parent is None or parent.sampled):
            self._write(effect, begin, parent)

    def _write(
        self,
        effect: ConfigurationUpdated | ConfigurationRefused,
        begin: float,
        parent: TraceContext | None,
    ) -> None:
        span = self._spans.begin("configuration", begin, parent, {RM_ID: effect.rm_id})
        if isinstance(effect, ConfigurationRefused):
            span.set_attribute("licorne.outcome", "refused")
            span.set_status(Status(StatusCode.ERROR, effect.reason))
        else:
            span.set_attribute("licorne.outcome", "changed" if effect.changed else "unchanged")
        span.end(nanoseconds(self._spans.now()))

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Make a span for the reload of the default configuration's file inside the block."""
        span = self._begin_reload()
        problem = ""
        try:
            with nullcontext() if span is None else inside(context_of(span)):
                yield
        except Exception as error:
            problem = str(error) or type(error).__name__
            raise
        finally:
            if span is not None:
                self._end_reload(span, problem)

    @harmless
    def _begin_reload(self) -> Span | None:
        """The span of a reload that begins now; None if its caller wants no trace."""
        parent = current_context()
        if parent is not None and not parent.sampled:
            return None
        return self._spans.begin("reload", self._spans.now(), parent, {})

    @harmless
    def _end_reload(self, span: Span, problem: str) -> None:
        """The file was read and is in force, unless there was a problem."""
        if problem:
            span.set_status(Status(StatusCode.ERROR, problem))
        span.end(nanoseconds(self._spans.now()))

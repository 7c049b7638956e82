"""Spans of the server's own work: turns, replays, new configurations and reloads; and the context of calls.

Turns are sampled, and those that have placed a traced ask are traced too. All else is always traced,
unless a caller's context is not sampled. A failure in here ends the traces, and does not affect the
work inside the spans.

The trace context of the call under way is a context variable: each call has a task of its own, and
tasks that it starts have the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
)
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_server.telemetry.tracing.spans import RM_ID, Spans, context_of, nanoseconds
from licorne_server.telemetry.tracing.starting import Defects, harmless
from licorne_server.wire.asks import TRACEPARENT, TRACESTATE, TraceContext, read_context

Metadata = Iterable[tuple[str, str | bytes]]

_current: ContextVar[TraceContext | None] = ContextVar("trace_context", default=None)


def current_context() -> TraceContext | None:
    """The context that the caller has sent, or that of the span around; None for none."""
    return _current.get()


def note_call(metadata: Metadata) -> bool:
    """Take the context out of a call's metadata; returns False if it is malformed."""
    found: dict[str, list[str]] = {TRACEPARENT: [], TRACESTATE: []}
    for name, value in metadata:
        if name in found and isinstance(value, str):
            found[name].append(value)
    parents = found[TRACEPARENT]
    context = None
    if len(parents) == 1:
        # Several are one list in parts (W3C Trace Context § 3.3.1.1).
        context = read_context(parents[0], ",".join(found[TRACESTATE]))
    _current.set(context)
    return context is not None or not parents


@contextmanager
def inside(context: TraceContext) -> Iterator[None]:
    """Make this span the parent of all work inside the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


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

"""Spans of the server's own work: turns, replays, new configurations and reloads; and contexts of calls.

Turns are sampled, and turns that placed a traced ask are always traced. All other work is always
traced, unless its caller's context is not sampled. A failure here ends the traces, and does not
affect the work inside the spans.

The trace context of the current call is a context variable: each call has its own task, and tasks
started by that task inherit the variable.
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
    """Trace context sent by the caller, or that of the enclosing span; None for none."""
    return _current.get()


def note_call(metadata: Metadata) -> bool:
    """Read the trace context from a call's metadata; returns False if it is malformed."""
    found: dict[str, list[str]] = {TRACEPARENT: [], TRACESTATE: []}
    for name, value in metadata:
        if name in found and isinstance(value, str):
            found[name].append(value)
    parents = found[TRACEPARENT]
    context = None
    if len(parents) == 1:
        # Several values are parts of one list (W3C Trace Context § 3.3.1.1).
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
"""Asks linked from the span of one turn, at most."""


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
        # Last registrations of RMs whose replay has not ended.
        self._replays: dict[RmId, _Replay] = {}

    def turned(
        self,
        partition: PartitionName,
        spent: float,
        effects: Sequence[Effect],
        placed: Sequence[SpanContext],
    ) -> None:
        """Record a turn of `spent` seconds; `placed` has the spans of asks placed by it."""
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
        """Note a registration, the begin of a replay if the RM replays."""
        self.forget(rm_id)
        self._replays[rm_id] = _Replay(self._spans.now(), session)

    def replaying(self, rm_id: RmId) -> None:
        """Note that the RM has a session: nothing of it is scheduled before its replay."""
        replay, parent = self._replays.get(rm_id), current_context()
        if replay is not None and (parent is None or parent.sampled):
            about: dict[str, str | int] = {
                RM_ID: rm_id,
                "licorne.session": replay.session,
            }
            replay.span = self._spans.begin("replay", replay.time, parent, about)

    def replayed(self, rm_id: RmId, missing: str) -> None:
        """End a replay; if `missing` is not empty the RM has to try again."""
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
        """End, with an error, an unfinished replay of an RM that was removed or registers anew."""
        replay = self._replays.pop(rm_id, None)
        if replay is not None and replay.span is not None:
            replay.span.set_status(Status(StatusCode.ERROR, "the RM has gone or registered anew"))
            replay.span.end(nanoseconds(self._spans.now()))


class ConfigurationSpans:
    """Spans of RMs' configurations, and of reloads of the default configuration."""

    defects: Defects

    def __init__(self, spans: Spans, defects: Defects) -> None:
        """Start without open spans."""
        self.defects = defects
        self._spans = spans
        # Results of configurations inside `configuring`.
        self._outcomes: dict[RmId, ConfigurationUpdated | ConfigurationRefused] = {}

    @contextmanager
    def configuring(self, rm_id: RmId) -> Iterator[None]:
        """Make a span if an RM gets a configuration inside the block."""
        begin = self._spans.now()
        self._expect(rm_id)
        try:
            yield
        finally:
            self._configured(rm_id, begin)

    @harmless
    def told(self, effect: ConfigurationUpdated | ConfigurationRefused) -> None:
        """Note a configuration that came into force or was refused."""
        self._outcomes[effect.rm_id] = effect

    @harmless
    def forget(self, rm_id: RmId) -> None:
        """Drop the result of an RM that was removed or registers anew."""
        self._outcomes.pop(rm_id, None)

    @harmless
    def _expect(self, rm_id: RmId) -> None:
        """Drop the result from before the block."""
        self._outcomes.pop(rm_id, None)

    @harmless
    def _configured(self, rm_id: RmId, begin: float) -> None:
        """Make a span if the RM has got a configuration since `begin`."""
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
        """Make a span for the reload of the default configuration inside the block."""
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
        """The span of a reload that begins now; None if its caller's context is not sampled."""
        parent = current_context()
        if parent is not None and not parent.sampled:
            return None
        return self._spans.begin("reload", self._spans.now(), parent, {})

    @harmless
    def _end_reload(self, span: Span, problem: str) -> None:
        """End the span; an empty `problem` means that the file is in force."""
        if problem:
            span.set_status(Status(StatusCode.ERROR, problem))
        span.end(nanoseconds(self._spans.now()))

"""Spans of the server's own work: turns, replays, new configurations and reloads; and contexts of calls.

Turns are sampled, except that turns which have placed a traced ask are always traced. All other work is
always traced, unless its caller's context is not sampled. A failure in this module ends the traces, and does
not affect the work inside the spans.

The trace context of the current call is a context variable: each call has its own task, and tasks
started by that task inherit the variable.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
)
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_server.telemetry.tracing.spans import RM_ID, Parent, Span, Spans, Value
from licorne_server.telemetry.tracing.starting import Defects, harmless
from licorne_server.wire.asks import TRACEPARENT, TRACESTATE, read_context

Metadata = Iterable[tuple[str, str | bytes]]

_current: ContextVar[Parent | None] = ContextVar("trace_context", default=None)


def current_context() -> Parent | None:
    """The trace context sent by the caller, or that of the enclosing span; None if there is neither."""
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
        # Several values of the header are parts of one list (W3C Trace Context § 3.3.1.1).
        context = read_context(parents[0], ",".join(found[TRACESTATE]))
    _current.set(context)
    return context is not None or not parents


@contextmanager
def inside(span: Parent) -> Iterator[None]:
    """Make this span the parent of all work inside the block."""
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


MAX_LINKS = 128
"""Maximum number of asks that the span of one turn is linked to."""


class ServerSpans:
    """The spans of the turns of one server, and of its RMs' replays."""

    def __init__(self, spans: Spans) -> None:
        """Start without open spans."""
        self._spans = spans
        # Time and session of the last registration, for RMs whose replay has not begun.
        self._registered: dict[RmId, tuple[float, int]] = {}
        # Replays that have not ended.
        self._replays: dict[RmId, Span] = {}

    def turned(
        self,
        partition: PartitionName,
        spent: float,
        effects: Sequence[Effect],
        placed: Sequence[Span],
    ) -> None:
        """Record a turn of `spent` seconds; `placed` are the spans of the asks that it placed."""
        if not placed and not (effects and self._spans.wanted(None)):
            return
        made = sum(len(e.allocations) for e in effects if isinstance(e, AllocationsMade))
        released = sum(len(e.releases) for e in effects if isinstance(e, AllocationsReleased))
        about: dict[str, Value] = {
            RM_ID: rm_of(partition),
            "licorne.partition": partition,
            "licorne.allocations": made,
            "licorne.releases": released,
        }
        begin = self._spans.now() - spent
        self._spans.end(Span("turn", begin, None, about, placed[:MAX_LINKS]))

    def registered(self, rm_id: RmId, session: int) -> None:
        """Record a registration, with which a replay begins if the RM replays."""
        self.forget(rm_id)
        self._registered[rm_id] = self._spans.now(), session

    def replaying(self, rm_id: RmId) -> None:
        """Record that the RM has a session, and so has to replay before it is scheduled."""
        registered, parent = self._registered.pop(rm_id, None), current_context()
        if registered is not None and (parent is None or parent.sampled):
            time, session = registered
            about: dict[str, Value] = {RM_ID: rm_id, "licorne.session": session}
            self._replays[rm_id] = Span("replay", time, parent, about)

    def replayed(self, rm_id: RmId, missing: str) -> None:
        """End a replay; if `missing` is not empty, the RM has to try again."""
        span = self._replays.get(rm_id)
        if span is None:
            return
        if missing:
            span.add_event("incomplete", self._spans.now(), {"licorne.missing": missing})
        else:
            del self._replays[rm_id]
            self._spans.end(span)

    def forget(self, rm_id: RmId) -> None:
        """End, with an error, an unfinished replay of an RM that was removed or registers again."""
        self._registered.pop(rm_id, None)
        span = self._replays.pop(rm_id, None)
        if span is not None:
            self._spans.end(span, "the RM has gone or registered anew")


class ConfigurationSpans:
    """Spans of RMs' configurations, and of reloads of the default configuration."""

    defects: Defects

    def __init__(self, spans: Spans, defects: Defects) -> None:
        """Start without open spans."""
        self.defects = defects
        self._spans = spans
        # Start time and context of each `configuring` without a result.
        self._begun: dict[RmId, tuple[float, Parent | None]] = {}

    @contextmanager
    def configuring(self, rm_id: RmId) -> Iterator[None]:
        """Make a span if an RM gets a configuration inside the block."""
        self._begun[rm_id] = self._spans.now(), current_context()
        try:
            yield
        finally:
            self._begun.pop(rm_id, None)

    def told(self, effect: ConfigurationUpdated | ConfigurationRefused) -> None:
        """Record that a configuration came into force or was refused."""
        begun = self._begun.pop(effect.rm_id, None)
        if begun is None:
            return
        begin, parent = begun
        if parent is not None and not parent.sampled:
            return
        span = Span("configuration", begin, parent, {RM_ID: effect.rm_id})
        if isinstance(effect, ConfigurationRefused):
            span.attributes["licorne.outcome"] = "refused"
            self._spans.end(span, effect.reason)
        else:
            span.attributes["licorne.outcome"] = "changed" if effect.changed else "unchanged"
            self._spans.end(span)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Make a span for the reload of the default configuration inside the block."""
        span = self._begin_reload()
        problem = ""
        try:
            with nullcontext() if span is None else inside(span):
                yield
        except Exception as error:
            problem = str(error) or type(error).__name__
            raise
        finally:
            if span is not None:
                self._end_reload(span, problem)

    @harmless
    def _begin_reload(self) -> Span | None:
        """The span of a reload that begins now; None if the context of its caller is not sampled."""
        parent = current_context()
        if parent is not None and not parent.sampled:
            return None
        return Span("reload", self._spans.now(), parent, {})

    @harmless
    def _end_reload(self, span: Span, problem: str) -> None:
        """End the span; an empty `problem` means that the file has come into force."""
        self._spans.end(span, problem or None)

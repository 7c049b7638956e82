"""Begins spans with a given start, name and parent, and ends them in small steps.

One request, or one turn, may end thousands of asks. In each round of the loop a few spans end at
once. Further ones wait, in order, for a time slice among readers. An end has the time of its call,
so the wait lengthens no span.
"""

import asyncio
from collections import deque
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

from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.wire.asks import TraceContext

Attributes = Mapping[str, AttributeValue]

RM_ID = "licorne.rm_id"
"""Attribute with the RM of a span; spans of the server itself have none."""

_ROOT = Context()
"""Empty context, so that other work of the process is no parent."""


def nanoseconds(time: float) -> int:
    """Unix seconds in nanoseconds, the unit of spans."""
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

        `draw` gives random numbers from 0 up to, not including, 1.
        """
        self._tracer = tracer
        self._sample = sample
        self._draw = draw
        self.now = now

    def wanted(self, parent: TraceContext | None) -> bool:
        """True if work is sampled: by its caller's decision, or by chance without one."""
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
        """A span that began at `time`, below `parent` or at the root of a trace."""
        return self._tracer.start_span(
            name,
            context=_ROOT if parent is None else _below(parent),
            kind=kind,
            attributes=attributes,
            links=[Link(context) for context in links],
            start_time=nanoseconds(time),
        )

    def begin_below(self, name: str, time: float, parent: Span, attributes: Attributes) -> Span:
        """A span that began at `time`, below a span of this server."""
        around = set_span_in_context(parent, _ROOT)
        return self._tracer.start_span(
            name, context=around, attributes=attributes, start_time=nanoseconds(time)
        )


def context_of(span: Span) -> TraceContext:
    """Trace context for children of a span of this server."""
    own = span.get_span_context()
    return TraceContext(own.trace_id, own.span_id, own.trace_flags.sampled)


def _below(parent: TraceContext) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([parent.state]) if parent.state else None
    remote = SpanContext(parent.trace_id, parent.span_id, True, flags, state)
    return set_span_in_context(NonRecordingSpan(remote), _ROOT)


AT_ONCE = 64
"""Spans ended at once in a round of the loop, which takes a millisecond or two."""

PEER = "traces"

End = Callable[[], bool | None]
"""Ends one span; returns True if it has to be called again for more."""


class Ends:
    """Queue of due ends of spans."""

    def __init__(self, time_slices: TimeSlices, on_defect: Callable[[], None]) -> None:
        """Start with an empty queue, which is worked off after `start`.

        `on_defect` is called in the handler of an exception that ends this task.
        """
        self._time_slices = time_slices
        self._on_defect = on_defect
        self._waiting: deque[End] = deque()
        # Spans that may still be ended at once in this round.
        self._at_once = AT_ONCE
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to work off the queue."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ends of spans")

    async def stop(self) -> None:
        """Work off the remaining queue, a few spans in each round."""
        await stop_task(self._task)
        try:
            while self._waiting:
                for _ in range(AT_ONCE):
                    self._end_next()
                await asyncio.sleep(0)
        except Exception:
            self._on_defect()

    def add(self, end: End) -> None:
        """Call `end` now, or after all queued ends."""
        self._news.set()
        while self._at_once and not self._waiting:
            self._at_once -= 1
            if not end():
                return
        self._waiting.append(end)

    async def _run(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                self._at_once = AT_ONCE
                while self._waiting:
                    await self._work_off()
        except Exception:
            self._on_defect()

    async def _work_off(self) -> None:
        """Work off the queue for one time slice."""
        async with self._time_slices.slice(PEER) as is_over:
            while self._waiting and not is_over():
                self._end_next()

    def _end_next(self) -> None:
        if self._waiting and not self._waiting[0]():
            self._waiting.popleft()

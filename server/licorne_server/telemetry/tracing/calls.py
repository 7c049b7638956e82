"""The trace context of the gRPC call that is under way.

It is a context variable: each call has a task of its own, and tasks that it starts have the same.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from licorne_server.wire.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    read_context,
)

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

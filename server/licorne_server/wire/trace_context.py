"""The trace context of a caller, in the format of the W3C recommendation *Trace Context*."""

from typing import NamedTuple

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
"""Names in the metadata of a call."""

TAG = f"licorne/{TRACEPARENT}"
STATE_TAG = f"licorne/{TRACESTATE}"
"""Names of the tags of an ask that say the same for this ask alone."""

MAX_STATE = 512
"""Characters of a tracestate; a longer one is left out."""

_LENGTH = len("00-") + 32 + len("-") + 16 + len("-00")
_DASHES = (2, 35, 52)
_HEX = frozenset("0123456789abcdef")


class TraceContext(NamedTuple):
    """A span of a caller."""

    trace_id: int
    span_id: int
    sampled: bool
    """True if the caller samples this trace."""
    state: str = ""
    """State of tracing tools, which is passed on."""


def read_context(parent: str, state: str = "") -> TraceContext | None:
    """The context in a ``traceparent`` and its ``tracestate``; None if the first is none.

    A version that is not known yet is read as far as it is like version 00.
    """
    head = parent[:_LENGTH]
    if len(head) < _LENGTH or any(head[place] != "-" for place in _DASHES):
        return None
    fields = head.split("-")
    if len(fields) != 4 or not all(_HEX.issuperset(field) for field in fields):
        return None
    version, trace_id, span_id, flags = (int(field, 16) for field in fields)
    more = parent[_LENGTH:]
    if version == 0xFF or not trace_id or not span_id:
        return None
    if more and (version == 0 or more[0] != "-"):
        return None
    return TraceContext(trace_id, span_id, bool(flags & 1), state if len(state) <= MAX_STATE else "")

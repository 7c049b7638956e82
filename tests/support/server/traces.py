"""The traces of a server: spans that have ended, and trace contexts that are sent."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_server.assembly.server import Server
from licorne_server.process.settings import TraceSettings
from support.peers.shim import ask, eventually, serving

TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736
PARENT = 0x00F067AA0BA902B7


def traceparent(trace_id: int = TRACE, *, sampled: bool = True) -> str:
    """The context of a caller's span."""
    return f"00-{trace_id:032x}-{PARENT:016x}-{sampled:02x}"


def traced_ask(key: str, value: str = "", vcore: int = 100, **fields: Any) -> si.Allocation:
    """An ask with a trace context of its own."""
    tags = {"licorne/traceparent": value or traceparent()}
    return ask(key, vcore=vcore, allocationTags=tags, **fields)


class Traced:
    """A server, and its ended spans."""

    def __init__(self, server: Server, exporter: InMemorySpanExporter) -> None:
        """Start without spans."""
        self.server = server
        self._exporter = exporter

    def spans(self, name: str = "ask") -> list[ReadableSpan]:
        """The ended spans of a name, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    async def ended(self, count: int = 1, name: str = "ask") -> list[ReadableSpan]:
        """The given number of spans of a name, once they have ended."""
        await eventually(lambda: len(self.spans(name)) >= count)
        found = self.spans(name)
        assert len(found) == count, found
        return found

    async def still(self) -> None:
        """Wait until the core has processed its commands."""
        engine = self.server.engine
        await eventually(lambda: not engine.busy and not engine.inbox)

    async def reason(self, rm_id: str, key: str, wanted: str) -> None:
        """Wait until the trace of an ask has this obstacle."""
        tracing = self.server.tracing
        assert tracing is not None
        asks = tracing.asks
        known = (AppId("app"), AllocationKey(key))

        def seen() -> bool:
            found = asks.of(RmId(rm_id)).get(known)
            return found is not None and found.reason == wanted

        await eventually(seen)


@asynccontextmanager
async def tracing(*, sample: float = 0.0, **changes: Any) -> AsyncIterator[Traced]:
    """A server that follows its callers' sampling decisions, and samples this fraction of other traces."""
    exporter = InMemorySpanExporter()
    settings = TraceSettings(exporter=exporter, sample=sample)
    async with serving(traces=settings, **changes) as server:
        yield Traced(server, exporter)


def reasons(span: ReadableSpan) -> list[str]:
    """The obstacles of an ask in order, without waits for its turn."""
    found = [str((event.attributes or {})["licorne.reason"]) for event in span.events]
    return [reason for reason in found if reason != "WAITS_FOR_TURN"]


def about(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span, without their common prefix."""
    attributes: Mapping[str, Any] = span.attributes or {}
    return {name.removeprefix("licorne."): value for name, value in attributes.items()}


def trace_id(span: ReadableSpan) -> int:
    """The trace that a span belongs to."""
    assert span.context is not None
    return int(span.context.trace_id)

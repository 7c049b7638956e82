"""Export of spans to a collector that may be slow, failing or missing."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientSession, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind
from structlog.testing import capture_logs

from licorne_server.assembly.server import Server
from licorne_server.engine import copied_process
from licorne_server.process.settings import Settings, TraceSettings
from licorne_server.telemetry.tracing import exporting
from licorne_server.telemetry.tracing.exporting import BATCH, MAX_ATTRIBUTE, MAX_OF_RM, MAX_WAITING, Exporting
from licorne_server.telemetry.tracing.spans import RM_ID, Span, Spans
from licorne_server.telemetry.tracing.starting import EXPORT_FAILED, QUEUE_FULL, SHUTDOWN, TraceCounts
from licorne_server.wire.asks import TraceContext
from support.docs.commands import free_port
from support.peers.shim import LOOPBACK, Shim, connected, eventually, new_allocations, serving
from support.server.traces import PARENT, TRACE, traced_ask


class Collector:
    """A collector over HTTP, which accepts or refuses spans."""

    def __init__(self) -> None:
        """Accept all."""
        self.requests: list[ExportTraceServiceRequest] = []
        self.status = 200
        self.paths: list[str] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """Store the request, and accept or refuse it."""
        self.paths.append(request.path)
        self.requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(status=self.status)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector on loopback."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/{path:.*}", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [address] = runner.addresses
    collector.url = f"http://127.0.0.1:{address[1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


async def test_spans_arrive_at_the_collector() -> None:
    """A stopped server has exported all spans, in the standard form, with its name."""
    async with collecting() as collector:
        async with (
            serving(traces=TraceSettings(endpoint=collector.url, sample=0.0)) as server,
            connected(server) as channel,
        ):
            shim = Shim(channel)
            calls = await shim.set_up()
            await shim.ask(calls[0], traced_ask("k"))
            await new_allocations(calls[0], 1)
        found = [
            (resource.resource, span)
            for request in collector.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        [(resource, span)] = [each for each in found if each[1].name == "ask"]
        assert span.trace_id == TRACE.to_bytes(16)
        said = {each.key: each.value.string_value for each in resource.attributes}
        assert said["service.name"] == "licorne"
        assert said["service.version"] == "0.1.0"
        assert set(collector.paths) == {"/v1/traces"}
        assert server.tracing is not None
        assert server.tracing.counts.exported == len(found)
        assert not server.tracing.counts.dropped.total()


async def test_without_a_collector_the_server_serves_and_counts() -> None:
    """A missing collector delays neither RMs nor the stop of the server."""
    settings = TraceSettings(endpoint=f"http://127.0.0.1:{free_port()}", sample=1.0)
    with capture_logs() as lines:
        async with serving(traces=settings, http=LOOPBACK) as server, connected(server) as channel:
            shim = Shim(channel)
            calls = await shim.set_up()
            await shim.ask(calls[0], *(traced_ask(f"k{n}", vcore=1) for n in range(100)))
            assert len(await new_allocations(calls[0], 100)) == 100
    assert server.tracing is not None
    counts = server.tracing.counts
    assert counts.exported == 0
    await eventually(lambda: counts.dropped.total() >= 100)
    told = [line for line in lines if line["event"] == "spans not taken by the collector"]
    assert len(told) <= 1


class Held(SpanExporter):
    """An exporter that waits until it is released."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        """Start blocked."""
        self.go = threading.Event()
        self.entered = threading.Event()
        self.taken: list[Any] = []
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then accept them."""
        self.entered.set()
        self.go.wait(60)
        self.taken += spans
        return self.result

    def shutdown(self) -> None:
        """Unblock."""
        self.go.set()


def span(name: str = "s", rm_id: str = "") -> Span:
    """An ended span, of an RM if it is named."""
    made = Span(name, 1.0, None, {RM_ID: rm_id} if rm_id else {})
    made.end = 2.0
    return made


def begun(exporter: SpanExporter, counts: TraceCounts) -> Exporting:
    """A started export."""
    sending = Exporting(exporter, "1", counts)
    sending.start()
    return sending


def names(exporter: Held) -> list[str]:
    """The names of all exported spans, in order."""
    return [each.name for each in exporter.taken]


async def test_waiting_spans_are_bounded() -> None:
    """If too many spans wait, the newest are dropped and counted; the others arrive in order."""
    exporter, counts = Held(), TraceCounts()
    sending = begun(exporter, counts)
    for _ in range(BATCH):
        sending.put(span("first"))
    await asyncio.to_thread(exporter.entered.wait)
    for number in range(MAX_WAITING + 7):
        sending.put(span(rm_id=f"rm-{number % 3}"))
    assert counts.dropped == {QUEUE_FULL: 7}
    exporter.go.set()
    await sending.stop(60.0)
    assert names(exporter) == ["first"] * BATCH + ["s"] * MAX_WAITING
    assert counts.exported == BATCH + MAX_WAITING


async def test_one_rm_leaves_room_for_the_spans_of_others() -> None:
    """One RM may fill half of the queue; exported spans make room again."""
    exporter, counts = Held(), TraceCounts()
    sending = Exporting(exporter, "1", counts)
    for _ in range(MAX_OF_RM + 5):
        sending.put(span("greedy", rm_id="greedy"))
    sending.put(span("other", rm_id="other"))
    assert counts.dropped == {QUEUE_FULL: 5}
    exporter.go.set()
    sending.start()
    await eventually(lambda: counts.exported == MAX_OF_RM + 1)
    sending.put(span("greedy", rm_id="greedy"))
    await sending.stop(60.0)
    assert counts.dropped[QUEUE_FULL] == 5
    assert names(exporter) == ["greedy"] * MAX_OF_RM + ["other", "greedy"]


async def test_spans_are_made_by_the_export() -> None:
    """The loop only records spans, with ids for children and links; the thread of the export makes them."""
    exporter, counts = Held(), TraceCounts()
    exporter.go.set()
    sending = begun(exporter, counts)
    caller = TraceContext(TRACE, PARENT, sampled=True, state="vendor=1")
    ask = Span("ask", 1.0, caller, {"licorne.message": "x" * 2000})
    child, turn = Span("predicate check", 1.5, ask, {}), Span("turn", 1.25, None, {}, [ask])
    ask.add_event("reason", 1.5, {"licorne.reason": "NO_NODE_FITS"})
    for each in (ask, child, turn):
        Spans(sending.put, lambda: 2.0, 1.0).end(each, "refused" if each is ask else None)
    await sending.stop(60.0)
    first, second, third = exporter.taken
    assert [each.context.trace_id for each in exporter.taken] == [TRACE, TRACE, turn.trace_id]
    assert [each.context.span_id for each in exporter.taken] == [ask.span_id, child.span_id, turn.span_id]
    assert first.parent.span_id == PARENT
    assert (first.parent.is_remote, second.parent.is_remote, third.parent) == (True, False, None)
    assert second.parent.span_id == third.links[0].context.span_id == ask.span_id
    assert first.context.trace_state.to_header() == "vendor=1"
    assert (first.start_time, first.end_time, first.events[0].timestamp) == (10**9, 2 * 10**9, 1_500_000_000)
    assert [each.kind for each in exporter.taken] == [SpanKind.CONSUMER, SpanKind.INTERNAL, SpanKind.INTERNAL]
    assert (first.status.is_ok, first.status.description, second.status.is_ok) == (False, "refused", True)
    assert len(first.attributes["licorne.message"]) == MAX_ATTRIBUTE


async def test_the_end_takes_bounded_time() -> None:
    """Spans that the collector does not accept in time are dropped and counted."""
    exporter, counts = Held(SpanExportResult.FAILURE), TraceCounts()
    sending = begun(exporter, counts)
    for _ in range(BATCH + 5):
        sending.put(span())
    await asyncio.to_thread(exporter.entered.wait)
    await sending.stop(0.01)
    await eventually(lambda: counts.dropped[EXPORT_FAILED])
    assert counts.dropped[EXPORT_FAILED] + counts.dropped[SHUTDOWN] == BATCH + 5


def failed(counts: TraceCounts, number: int) -> bool:
    """True if this number of spans failed to export."""
    return counts.dropped[EXPORT_FAILED] == number


@pytest.mark.slow
async def test_failures_are_logged_at_intervals() -> None:
    """A failing exporter is logged at intervals."""

    class Broken(Held):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            raise OSError("broken")

    counts = TraceCounts()
    with capture_logs() as lines:
        sending = begun(Broken(), counts)
        for number in range(1, 4):
            for _ in range(BATCH):
                sending.put(span())
            await eventually(partial(failed, counts, number * BATCH))
        await sending.stop(60.0)
    [line] = [line for line in lines if line["event"] == "spans not taken by the collector"]
    assert line["reason"] == "OSError('broken')"
    assert counts.dropped[EXPORT_FAILED] == 3 * BATCH


@pytest.mark.slow
async def test_figures_are_scraped() -> None:
    """A scrape has the numbers of exported and dropped spans."""
    async with collecting() as collector:
        collector.status = 400
        settings = TraceSettings(endpoint=collector.url, sample=0.0)
        async with (
            serving(traces=settings, http=LOOPBACK) as server,
            connected(server) as channel,
            ClientSession() as client,
        ):
            shim = Shim(channel)
            calls = await shim.set_up()
            await shim.ask(calls[0], traced_ask("k"), traced_ask("wrong", "x"))
            await shim.ask(calls[0], traced_ask("waits", vcore=10**9))
            await new_allocations(calls[0], 2)
            assert server.tracing is not None
            counts = server.tracing.counts
            await eventually(lambda: counts.dropped[EXPORT_FAILED])
            async with client.get(f"http://{server.http_address}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            assert "licorne_traces_malformed_total 1" in lines
            assert "licorne_traces_asks_followed 1" in lines
            assert "licorne_traces_exported_total 0" in lines
            failed = counts.dropped[EXPORT_FAILED]
            assert f'licorne_traces_dropped_total{{reason="export_failed"}} {failed}' in lines


async def test_a_server_that_was_never_started_has_no_thread_of_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with invalid settings leaves no thread behind."""
    monkeypatch.setattr(exporting, "FLUSH_SECONDS", 10.0**6)
    before = threading.active_count()
    server = Server(Settings(traces=TraceSettings(endpoint="http://127.0.0.1:1")))
    assert threading.active_count() == before
    await server.stop()


def test_a_copy_of_the_process_has_no_thread_of_traces() -> None:
    """A forked process has one thread of ours, whatever the traces do in the parent.

    The system may show another one for a moment, because libraries start some of their own in a fork.
    """
    sending = begun(Held(), TraceCounts())
    child = copied_process.start(lambda _: str(threading.active_count()).encode(), 10)
    os.set_blocking(child.answers, True)
    with open(child.answers, "rb") as answers:
        told = answers.read()
    os.waitpid(child.pid, 0)
    assert copied_process.whole_answer(told) == (copied_process.ANSWERED, b"1")
    asyncio.run(sending.stop())

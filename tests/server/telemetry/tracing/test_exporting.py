"""Export of spans to a collector that may be slow, failing or missing."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic

import pytest
from aiohttp import ClientSession, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from structlog.testing import capture_logs

from licorne_server.assembly.server import Server
from licorne_server.engine import copied_process
from licorne_server.process.settings import Settings, TraceSettings
from licorne_server.telemetry.tracing import exporting
from licorne_server.telemetry.tracing.exporting import BATCH, MAX_OF_RM, MAX_WAITING, Exporting
from licorne_server.telemetry.tracing.starting import EXPORT_FAILED, QUEUE_FULL, SHUTDOWN, TraceCounts
from support.peers.shim import LOOPBACK, Shim, connected, eventually, new_allocations, serving
from support.server.traces import TRACE, traced_ask


class Collector:
    """A collector over HTTP, which takes or refuses spans."""

    def __init__(self) -> None:
        """Take all."""
        self.requests: list[ExportTraceServiceRequest] = []
        self.status = 200
        self.paths: list[str] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """Keep what was sent."""
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


def closed_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
    settings = TraceSettings(endpoint=f"http://127.0.0.1:{closed_port()}", sample=1.0)
    with capture_logs() as lines:
        async with serving(traces=settings, http=LOOPBACK) as server, connected(server) as channel:
            shim = Shim(channel)
            calls = await shim.set_up()
            await shim.ask(calls[0], *(traced_ask(f"k{n}", vcore=1) for n in range(100)))
            assert len(await new_allocations(calls[0], 100)) == 100
            begin = monotonic()
        assert monotonic() - begin < 60
    assert server.tracing is not None
    counts = server.tracing.counts
    assert counts.exported == 0
    await eventually(lambda: counts.dropped.total() >= 100)
    told = [line for line in lines if line["event"] == "spans not taken by the collector"]
    assert len(told) <= 1


class Held(SpanExporter):
    """An exporter that waits until it is released."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        """Held."""
        self.go = threading.Event()
        self.entered = threading.Event()
        self.taken: list[ReadableSpan] = []
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then take them."""
        self.entered.set()
        self.go.wait(60)
        self.taken += spans
        return self.result

    def shutdown(self) -> None:
        """Let go."""
        self.go.set()


def span(name: str = "s", rm_id: str = "") -> ReadableSpan:
    """A span of no recorded trace, with an RM if named."""
    attributes = {"licorne.rm_id": rm_id} if rm_id else {}
    with (
        TracerProvider(shutdown_on_exit=False)
        .get_tracer("test")
        .start_as_current_span(name, attributes=attributes) as made
    ):
        assert isinstance(made, ReadableSpan)
        return made


def begun(exporter: SpanExporter, counts: TraceCounts) -> Exporting:
    """A started export."""
    sending = Exporting(exporter, counts)
    sending.start()
    return sending


async def test_what_waits_is_bounded() -> None:
    """The newest spans are dropped and counted while too many wait; others arrive in order."""
    exporter, counts = Held(), TraceCounts()
    sending = begun(exporter, counts)
    one, many = span("first"), span()
    for _ in range(BATCH):
        sending.on_end(one)
    await asyncio.to_thread(exporter.entered.wait)
    for _ in range(MAX_WAITING + 7):
        sending.on_end(many)
    assert counts.dropped == {QUEUE_FULL: 7}
    exporter.go.set()
    await sending.stop(60.0)
    assert exporter.taken == [one] * BATCH + [many] * MAX_WAITING
    assert counts.exported == BATCH + MAX_WAITING


async def test_one_rm_leaves_room_for_the_spans_of_others() -> None:
    """One RM may fill half of the queue; exported spans make room again."""
    exporter, counts = Held(), TraceCounts()
    sending = Exporting(exporter, counts)
    greedy, other = span(rm_id="greedy"), span(rm_id="other")
    for _ in range(MAX_OF_RM + 5):
        sending.on_end(greedy)
    sending.on_end(other)
    assert counts.dropped == {QUEUE_FULL: 5}
    exporter.go.set()
    sending.start()
    await eventually(lambda: counts.exported == MAX_OF_RM + 1)
    sending.on_end(greedy)
    await sending.stop(60.0)
    assert counts.dropped[QUEUE_FULL] == 5
    assert exporter.taken == [greedy] * MAX_OF_RM + [other, greedy]


async def test_the_end_takes_bounded_time() -> None:
    """Spans that the collector does not take in time are dropped and counted."""
    exporter, counts = Held(SpanExportResult.FAILURE), TraceCounts()
    sending = begun(exporter, counts)
    for _ in range(BATCH + 5):
        sending.on_end(span())
    await asyncio.to_thread(exporter.entered.wait)
    await sending.stop(0.01)
    await eventually(lambda: counts.dropped[EXPORT_FAILED])
    assert counts.dropped[EXPORT_FAILED] + counts.dropped[SHUTDOWN] == BATCH + 5


def failed(counts: TraceCounts, number: int) -> bool:
    """True if `count` spans failed to export."""
    return counts.dropped[EXPORT_FAILED] == number


@pytest.mark.slow
async def test_failures_are_one_line_in_the_log() -> None:
    """A failing exporter is logged at intervals."""

    class Broken(Held):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            raise OSError("broken")

    counts = TraceCounts()
    with capture_logs() as lines:
        sending = begun(Broken(), counts)
        for number in range(1, 4):
            for _ in range(BATCH):
                sending.on_end(span())
            await eventually(partial(failed, counts, number * BATCH))
        await sending.stop(60.0)
    [line] = [line for line in lines if line["event"] == "spans not taken by the collector"]
    assert line["reason"] == "OSError('broken')"
    assert counts.dropped[EXPORT_FAILED] == 3 * BATCH


@pytest.mark.slow
async def test_figures_are_scraped() -> None:
    """A scrape has exported and dropped spans."""
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
    monkeypatch.setattr(exporting, "FLUSH_SECONDS", 60.0)
    before = threading.active_count()
    server = Server(Settings(traces=TraceSettings(endpoint="http://127.0.0.1:1")))
    assert threading.active_count() == before
    begin = monotonic()
    await server.stop()
    assert monotonic() - begin < exporting.FLUSH_SECONDS


def test_a_copy_of_the_process_has_no_thread_of_traces() -> None:
    """What a fork brings along is one thread of ours, whatever the traces do in the parent.

    The system may show another for a moment: libraries start some of their own in a fork.
    """
    sending = begun(Held(), TraceCounts())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(sending)
    child = copied_process.start(lambda _: str(threading.active_count()).encode(), 10)
    os.set_blocking(child.answers, True)
    with open(child.answers, "rb") as answers:
        told = answers.read()
    os.waitpid(child.pid, 0)
    assert copied_process.whole_answer(told) == (copied_process.ANSWERED, b"1")
    asyncio.run(sending.stop())

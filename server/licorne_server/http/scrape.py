"""The answer to a scrape: gathered in small steps in the loop, written out in a thread."""

import asyncio
from time import monotonic, perf_counter

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from licorne_server.http.metrics import Families, gather
from licorne_server.http.probes import Heartbeat, unready
from licorne_server.http.sources import Sources
from licorne_server.http.stream import SLICE_SECONDS, send_bytes

FRESH_SECONDS = 1.0
"""For so long an answer is given again, however many ask."""


class _Gathered:
    """What the last round gathered, as a collector of the registry."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self.metrics


class Scrape:
    """``/metrics``: plain text, or OpenMetrics for those who accept it.

    The registry belongs to this server alone, so that several can live in one process.
    """

    def __init__(self, sources: Sources, heartbeat: Heartbeat) -> None:
        """Read these, and this process."""
        self._sources = sources
        self._heartbeat = heartbeat
        self._gathered = _Gathered()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._gathered)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._lock = asyncio.Lock()
        self._gathered_at = -FRESH_SECONDS
        self._answers: dict[str, bytes] = {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one scrape."""
        try:
            encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # a version that is no number
            encoder, content_type = choose_encoder("")
        async with self._lock:
            if monotonic() - self._gathered_at >= FRESH_SECONDS:
                self._gathered.metrics = await self._gather()
                self._answers.clear()
                self._gathered_at = monotonic()
            body = self._answers.get(content_type)
            if body is None:
                body = await asyncio.to_thread(encoder, self._registry)
                self._answers[content_type] = body
        return await send_bytes(request, content_type, body)

    async def _gather(self) -> list[Metric]:
        families = Families()
        stop = perf_counter() + SLICE_SECONDS
        for _ in gather(self._sources.views, families):
            if perf_counter() > stop:
                await asyncio.sleep(0)
                stop = perf_counter() + SLICE_SECONDS
        self._server(families)
        return families.all()

    def _server(self, families: Families) -> None:
        figures = self._sources.figures()
        ready = not unready(self._sources.status, self._heartbeat)
        for name, text, value in (
            ("licorne_ready", "1 when RMs may be sent here.", 1 if ready else 0),
            ("licorne_inbox", "Commands that wait for the core.", figures.inbox),
            (
                "licorne_loop_lag_seconds",
                "The most that the event loop was late since the last scrape.",
                self._heartbeat.worst_lag(),
            ),
        ):
            families.gauge(name, text, (), {(): value})
        for name, text, value in (
            ("licorne_commands", "Commands handled.", figures.commands),
            ("licorne_turns", "Turns of scheduling.", figures.turns),
            ("licorne_turn_seconds", "Time spent in turns.", figures.turn_seconds),
            ("licorne_defects", "Failures inside the core.", figures.defects),
        ):
            families.counter(name, text, (), {(): value})
        for rm in figures.rms:
            where = (str(rm.rm_id),)
            for name, text, value in (
                ("licorne_rm_connected", "1 when the RM has a session.", int(rm.connected)),
                ("licorne_rm_outbox_messages", "Messages that wait.", rm.outbox_messages),
                ("licorne_rm_outbox_bytes", "Bytes that wait.", rm.outbox_bytes),
            ):
                families.gauge(name, text, ("rm",), {where: value})
            text = "Replays wanted because the outbox was full."
            families.counter("licorne_rm_resyncs", text, ("rm",), {where: rm.resyncs})

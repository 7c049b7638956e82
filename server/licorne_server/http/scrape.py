"""The answer to a scrape, made in the loop a slice at a time."""

from collections.abc import Iterator
from functools import partial
from time import monotonic

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.exposition import generate_latest as write_plain
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics

from licorne_server.http.families import Families
from licorne_server.http.health import Heartbeat, unready
from licorne_server.http.metrics import gather
from licorne_server.http.server_metrics import add_server, gather_rms
from licorne_server.http.sources import Sources
from licorne_server.http.stream import Together, send_bytes, sliced

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

FRESH_SECONDS = 1.0
"""Seconds for which an answer is reused, so that many scrapers cost no more than one."""


PEER = "metrics"
"""Peer whose slices an answer takes: the same for all scrapers, however busy one of them is."""


class Scrape:
    """``/metrics``: plain text, or OpenMetrics for scrapers that accept it.

    The registry belongs to this server alone, so that several can live in one process.
    """

    def __init__(self, sources: Sources, heartbeat: Heartbeat) -> None:
        """Read these, and this process."""
        self._sources = sources
        self._heartbeat = heartbeat
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._together = Together[bytes]()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one scrape."""
        openmetrics = _takes_openmetrics(request.headers.get("Accept", ""))
        body = await self._together.get(openmetrics, partial(self._make, openmetrics))
        return await send_bytes(request, OPENMETRICS if openmetrics else PLAIN, body)

    async def _make(self, openmetrics: bool) -> tuple[bytes, float]:
        chunks = sliced(self._lines(openmetrics), self._sources.time_slices, PEER)
        return b"".join([chunk async for chunk in chunks]), monotonic() + FRESH_SECONDS

    def _lines(self, openmetrics: bool) -> Iterator[str]:
        families = Families()
        names = self._sources.queue_names
        for _ in gather(self._sources.views, families, queue_names=names):
            yield ""
        figures = self._sources.figures()
        for _ in gather_rms(self._sources.views, figures.rms, families):
            yield ""
        add_server(
            figures,
            self._heartbeat,
            families,
            ready=not unready(self._sources.status),
            uptime=self._sources.now() - self._sources.started_time,
        )
        yield from families.lines(openmetrics=openmetrics)
        write = write_openmetrics if openmetrics else write_plain
        yield write(self._process).decode()


def _takes_openmetrics(accept: str) -> bool:
    try:
        return choose_encoder(accept)[1].startswith("application/openmetrics-text")
    except (TypeError, ValueError):  # a version that is no number
        return False

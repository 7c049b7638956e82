"""The HTTP listener: what is served on it, how it starts and how it stops."""

import asyncio

from aiohttp import web

from licorne_server.http.dashboard import DashboardReads
from licorne_server.http.door import BACKLOG, Door
from licorne_server.http.dumps import StateDumps
from licorne_server.http.errors import MAX_BODY, errors_as_json
from licorne_server.http.events import EventReads
from licorne_server.http.health import HealthReads
from licorne_server.http.identity import Identity
from licorne_server.http.probes import Heartbeat, Probes
from licorne_server.http.routes import Reads
from licorne_server.http.scrape import Scrape
from licorne_server.http.sources import Sources
from licorne_server.http.state_dump import DumpReads
from licorne_server.http.stream import SHARE
from licorne_server.http.ui.page import Page
from licorne_server.http.usage import UsageReads
from licorne_server.peer_bounds import PeerBounds

STOP_SECONDS = 3.0
"""How long answers that are under way may take once the server stops."""


class HttpServer:
    """Probes, metrics and REST reads on one address."""

    def __init__(
        self,
        sources: Sources,
        bounds: PeerBounds | None = None,
        dumps: StateDumps | None = None,
    ) -> None:
        """Answer from these sources; `start` begins to listen. Peers are held to the bounds.

        `dumps` makes state dumps for others as well.
        """
        bounds = bounds or PeerBounds()
        self._heartbeat = Heartbeat()
        self._door = Door(bounds.affordable()[1])
        self._runner = web.AppRunner(
            _application(sources, dumps or StateDumps(sources), self._heartbeat, self._door),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            # It counts for the head of the first request as well.
            keepalive_timeout=bounds.http_idle,
        )
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns host and port. For port 0 it is any free one.

        Raises:
            OSError: nobody may listen on the address.
        """
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._door.before(server), host, port, backlog=BACKLOG, reuse_port=False
            )
        except OSError:
            await self._runner.cleanup()
            raise
        self._heartbeat.start()
        address = self._listener.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Take no more requests, give those under way a moment, and close."""
        self._heartbeat.stop()
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()


def _application(
    sources: Sources, dumps: StateDumps, heartbeat: Heartbeat, door: Door
) -> web.Application:
    identity = Identity(sources)
    app = web.Application(
        middlewares=[door.noted, errors_as_json, identity.checked], client_max_size=MAX_BODY
    )
    app[SHARE] = sources.share
    app.on_response_prepare.append(_no_advertising)
    probes = Probes(sources.status)
    scrape = Scrape(sources, heartbeat)
    app.add_routes(
        [
            web.get("/livez", probes.live),
            web.get("/readyz", probes.ready),
            web.get("/metrics", scrape.serve),
            web.get("/ws/v1/metrics", scrape.serve),
            *Reads(sources).routes(),
            *UsageReads(sources).routes(),
            *EventReads(sources).routes(),
            *DashboardReads(sources).routes(),
            *HealthReads(sources).routes(),
            *DumpReads(dumps).routes(),
        ]
    )
    Page(sources).add_to(app)
    return app


async def _no_advertising(request: web.Request, response: web.StreamResponse) -> None:
    """Do not show which libraries, in which versions, the server uses."""
    response.headers["Server"] = "licorne"
    response.headers["X-Content-Type-Options"] = "nosniff"

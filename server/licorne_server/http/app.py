"""The HTTP listeners: their contents, their start and their stop."""

import re
from collections.abc import Iterable
from importlib.metadata import version

from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_server.http import events, hours, reasons
from licorne_server.http.door import Door, Listener
from licorne_server.http.dumps import StateDumps
from licorne_server.http.dumps import routes as debug_routes
from licorne_server.http.health import Heartbeat, health, live, ready
from licorne_server.http.identity import Cors, Hosts, Identity
from licorne_server.http.places import NAMED, named
from licorne_server.http.routes import routes
from licorne_server.http.scrape import Scrape
from licorne_server.http.stream import MISSING_NAMES
from licorne_server.http.ui.files import PUBLIC
from licorne_server.http.ui.page import Page
from licorne_server.http.units import MAX_BODY, errors_as_json
from licorne_server.process.bounds import METRICS_CONNECTIONS, PeerBounds
from licorne_server.process.settings import Address, Settings, SettingsError
from licorne_server.reads.members import MISSING, UNIX
from licorne_server.reads.sources import SOURCES, Sources
from licorne_server.security.handshakes import Handshakes
from licorne_server.security.tls import Certificates
from licorne_server.wire.features import modules

SERVER = f"licorne/{version('licorne-server')}"
"""Name of the server in answers."""

_ESCAPED = re.compile(r"~+\.{1,2}")
"""Escaped form, in a path, of a name of dots, or of tildes and dots."""


class HttpServer:
    """Probes, metrics and REST reads on one address; probes and metrics on another one too."""

    def __init__(
        self,
        sources: Sources,
        bounds: PeerBounds | None = None,
        dumps: StateDumps | None = None,
    ) -> None:
        """Answer from these sources, within the bounds for peers.

        `dumps` may be shared with the gRPC server.
        """
        self._sources = sources
        self._dumps = dumps or StateDumps(sources)
        self._bounds = bounds or PeerBounds()
        self._heartbeat = Heartbeat()
        self._scrape = Scrape(sources, self._heartbeat)
        self._listeners: list[Listener] = []
        # True if other workers listen on the same addresses.
        self._shares = False

    async def open(self, settings: Settings) -> tuple[str, str]:
        """Serve on the addresses for HTTP and for metrics; returns both as ``HOST:PORT``, empty for none.

        Raises:
            SettingsError: listening there is refused, or the files for TLS are not usable.
        """
        certificates = Certificates(settings.tls, "http/1.1") if settings.tls else None
        self._shares = settings.shares_ports
        opened = ["", ""]
        for number, (address, tls, start) in enumerate(
            (
                (settings.http, settings.http_tls, self.start),
                (settings.metrics, settings.metrics_tls, self.start_metrics),
            )
        ):
            if address is not None:
                try:
                    _, port = await start(address.host, address.port, certificates if tls else None)
                except OSError as error:
                    text = f"cannot listen on {address}: {error.strerror}"
                    raise SettingsError(text) from None
                opened[number] = str(address.with_port(port))
        if settings.coordination is not None and settings.shares_ports:
            await self.start_socket(settings.coordination.advertise_http.removeprefix(UNIX))
        return opened[0], opened[1]

    async def start(self, host: str, port: int, certificates: Certificates | None = None) -> tuple[str, int]:
        """Serve everything; returns host and port. For port 0 it is any free one.

        With certificates the connections are encrypted.

        Raises:
            OSError: listening on the address is refused.
        """
        _, most = self._bounds.affordable()
        return await self._listen(self._reads(), most, host, port, certificates, Page(self._sources))

    async def start_metrics(
        self, host: str, port: int, certificates: Certificates | None = None
    ) -> tuple[str, int]:
        """Serve metrics and probes only, as `start` does."""
        return await self._listen([], METRICS_CONNECTIONS, host, port, certificates)

    async def start_socket(self, path: str) -> None:
        """Serve the other workers of this host on a socket of that path.

        Raises:
            OSError: listening there is refused.
        """
        _, most = self._bounds.affordable()
        page = Page(self._sources)
        await self._listener(self._reads(), most, None, page, on_loopback=False).start_at(path)

    def _reads(self) -> list[web.RouteDef]:
        """All paths but those of probes and metrics."""
        reads = [
            *routes(),
            *events.routes(),
            *reasons.ROUTES,
            *hours.ROUTES,
            *(route for module in modules("rest") for route in module.ROUTES),
            web.get("/ws/v1/scheduler/healthcheck", health),
            *debug_routes(self._dumps),
        ]
        if self._sources.members is not None:
            reads.append(web.get(NAMED, named))
        return reads

    async def stop(self) -> None:
        """Stop accepting requests, wait a moment for pending ones, and close."""
        self._heartbeat.stop()
        for listener in self._listeners:
            await listener.stop()

    async def _listen(
        self,
        reads: Iterable[web.RouteDef],
        most: int,
        host: str,
        port: int,
        certificates: Certificates | None,
        page: Page | None = None,
    ) -> tuple[str, int]:
        """Serve as `_listener` says, on an address; returns host and port."""
        # TLS has names of its own: a browser does not take the certificate for another site's.
        here = certificates is None and Address(host=host, port=port).is_loopback
        listener = self._listener(reads, most, certificates, page, on_loopback=here)
        address = await listener.start(host, port, shares=self._shares)
        self._heartbeat.start()
        return address

    def _listener(
        self,
        reads: Iterable[web.RouteDef],
        most: int,
        certificates: Certificates | None,
        page: Page | None,
        *,
        on_loopback: bool,
    ) -> Listener:
        """Serves probes, metrics, these reads and the page, for a bounded number of connections."""
        idle, time_slices = self._bounds.http_idle, self._sources.time_slices
        handshakes = Handshakes(certificates.context, time_slices, idle) if certificates else None
        door = Door(most, handshakes)
        app = _application(self._sources, door, on_loopback=on_loopback)
        app.add_routes(
            [
                web.get("/livez", live),
                web.get("/readyz", ready),
                web.get("/metrics", self._scrape.serve),
                web.get("/ws/v1/metrics", self._scrape.serve),
                *reads,
            ]
        )
        if page is not None:
            page.add_to(app)
        listener = Listener(app, door, idle)
        self._listeners.append(listener)
        return listener


def _application(sources: Sources, door: Door, *, on_loopback: bool) -> web.Application:
    """An application without paths; `on_loopback` is True if it is plain, and for this machine."""
    cors = Cors(sources.cors_origins)
    hosts = Hosts(sources.hosts, checked=on_loopback and not sources.access.by_token)
    app = web.Application(
        middlewares=[
            door.noted,
            errors_as_json,
            hosts.known,
            cors.answered,
            _dots_given_back,
            Identity(sources, PUBLIC).checked,
        ],
        client_max_size=MAX_BODY,
    )
    app[SOURCES] = sources
    app.on_response_prepare.append(_usual_headers)
    app.on_response_prepare.append(cors.allowed)
    return app


@web.middleware
async def _dots_given_back(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Remove the tilde of names in the path that stand for dots.

    Clients remove ``.`` and ``..`` from a path before a request, in any spelling (RFC 3986, 5.2.4).
    """
    names = request.match_info
    for part, name in names.items():
        if _ESCAPED.fullmatch(name):
            names[part] = name[1:]
    return await handler(request)


async def _usual_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the usual headers: the name of this server instead of its libraries, and no caching.

    An answer may be for one reader only. A handler may allow caching.
    """
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = SERVER
    if missing := request.get(MISSING_NAMES):
        response.headers[MISSING] = ", ".join(dict.fromkeys(missing))
    response.headers["X-Content-Type-Options"] = "nosniff"

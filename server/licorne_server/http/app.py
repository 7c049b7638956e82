"""Listeners of HTTP: their paths, start and stop."""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_server.http import events, sums
from licorne_server.http.door import Door, Listener, passed_answer
from licorne_server.http.dumps import StateDumps
from licorne_server.http.dumps import routes as debug_routes
from licorne_server.http.health import Heartbeat, health, live, ready
from licorne_server.http.identity import Cors, Hosts, Identity
from licorne_server.http.routes import routes
from licorne_server.http.scrape import Scrape
from licorne_server.http.stream import MISSING_NAMES
from licorne_server.http.units import MAX_BODY, errors_as_json
from licorne_server.process.bounds import METRICS_CONNECTIONS, PeerBounds
from licorne_server.process.settings import Address, Settings, SettingsError
from licorne_server.reads.members import MISSING
from licorne_server.reads.sources import SOURCES, Sources
from licorne_server.security.access import Caller
from licorne_server.security.handshakes import Handshakes
from licorne_server.security.tls import Certificates
from licorne_server.store.coordination.pb.members_pb2 import ReadRequest
from licorne_server.wire.errors import unavailable
from licorne_server.wire.features import modules

SERVER = f"licorne/{version('licorne-server')}"
"""Value of the header ``Server`` in answers."""

PAGES = ("licorne_server.http.ui.page:Page",)
"""Classes of web pages, each made from `Sources`; without an entry the server has no such page."""

_PAGES = [resolve_name(page) for page in PAGES]
_PUBLIC = frozenset(path for page in _PAGES for path in page.PUBLIC)

_ESCAPED = re.compile(r"~+\.{1,2}")
"""Escaped form, in a path, of a name that consists of dots, or of tildes and dots."""


class HttpServer:
    """Probes, metrics and REST reads on one address; probes and metrics on a second address if configured."""

    def __init__(
        self,
        sources: Sources,
        bounds: PeerBounds | None = None,
        dumps: StateDumps | None = None,
    ) -> None:
        """Answer from `sources`, within the bounds for peers.

        `dumps` may be shared with the gRPC server.
        """
        self._sources = sources
        self._dumps = dumps or StateDumps(sources)
        self._bounds = bounds or PeerBounds()
        self._heartbeat = Heartbeat()
        self._scrape = Scrape(sources, self._heartbeat)
        self._listeners: list[Listener] = []
        # Serves requests that other members pass on; None without other members.
        self._inner: web.Server | None = None
        # True if other workers share the addresses.
        self._shares = False

    async def open(self, settings: Settings) -> tuple[str, str]:
        """Serve on the addresses for HTTP and for metrics; returns both as ``HOST:PORT``, or empty.

        Raises:
            SettingsError: an address cannot be used, or the files for TLS are not usable.
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
        if self._sources.members is not None:
            inner = self._listener(self._reads(), 0, None, self._pages, on_loopback=False)
            self._inner = await inner.prepared()
        return opened[0], opened[1]

    async def start(self, host: str, port: int, certificates: Certificates | None = None) -> tuple[str, int]:
        """Serve everything; returns host and port. Port 0 means any free one.

        With certificates the connections are encrypted.

        Raises:
            OSError: the address cannot be used.
        """
        _, most = self._bounds.affordable()
        return await self._listen(self._reads(), most, host, port, certificates, self._pages)

    async def start_metrics(
        self, host: str, port: int, certificates: Certificates | None = None
    ) -> tuple[str, int]:
        """Serve metrics and probes only, as `start` does."""
        return await self._listen([], METRICS_CONNECTIONS, host, port, certificates)

    def answer(self, asked: ReadRequest, caller: Caller) -> AsyncGenerator[bytes, None]:
        """The messages of the answer to a request that another member has passed on.

        Raises:
            CallError: the server has not started yet.
        """
        if self._inner is None:
            raise unavailable("the server has not started yet")
        return passed_answer(self._inner, asked, caller)

    @cached_property
    def _pages(self) -> list[Any]:
        return [page(self._sources) for page in _PAGES]

    def _reads(self) -> list[web.RouteDef]:
        """All paths but those of probes and metrics."""
        return [
            *routes(),
            *events.routes(),
            *sums.ROUTES,
            *(route for module in modules("rest") for route in module.ROUTES),
            web.get("/ws/v1/scheduler/healthcheck", health),
            *debug_routes(self._dumps),
        ]

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
        pages: Sequence[Any] = (),
    ) -> tuple[str, int]:
        """Serve an application with these reads on an address; returns host and port."""
        # With TLS the certificate protects against foreign host names: a browser refuses it for another site.
        here = certificates is None and Address(host=host, port=port).is_loopback
        listener = self._listener(reads, most, certificates, pages, on_loopback=here)
        address = await listener.start(host, port, shares=self._shares)
        self._heartbeat.start()
        return address

    def _listener(
        self,
        reads: Iterable[web.RouteDef],
        most: int,
        certificates: Certificates | None,
        pages: Sequence[Any],
        *,
        on_loopback: bool,
    ) -> Listener:
        """A listener with probes, metrics, these reads and pages, for a bounded number of connections."""
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
        for page in pages:
            page.add_to(app)
        listener = Listener(app, door, idle)
        self._listeners.append(listener)
        return listener


def _application(sources: Sources, door: Door, *, on_loopback: bool) -> web.Application:
    """An application without paths; `on_loopback` is True if it has no TLS and serves this machine only."""
    cors = Cors(sources.cors_origins)
    hosts = Hosts(sources.hosts, checked=on_loopback and not sources.access.by_token)
    app = web.Application(
        middlewares=[
            door.noted,
            errors_as_json,
            hosts.known,
            cors.answered,
            _dots_given_back,
            Identity(sources, _PUBLIC).checked,
        ],
        client_max_size=MAX_BODY,
    )
    app[SOURCES] = sources
    app.on_response_prepare.append(_usual_headers)
    app.on_response_prepare.append(cors.allowed)
    return app


@web.middleware
async def _dots_given_back(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Restore path parts that are names of dots, by removing the tilde before them.

    Clients remove ``.`` and ``..`` from a path before a request, in any spelling (RFC 3986, 5.2.4).
    """
    names = request.match_info
    for part, name in names.items():
        if _ESCAPED.fullmatch(name):
            names[part] = name[1:]
    return await handler(request)


async def _usual_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the common headers: they name this server instead of its libraries, and forbid caching.

    An answer may be meant for one reader only, so a handler has to allow caching explicitly.
    """
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = SERVER
    if missing := request.get(MISSING_NAMES):
        response.headers[MISSING] = ", ".join(dict.fromkeys(missing))
    response.headers["X-Content-Type-Options"] = "nosniff"

"""Host names under which a server on loopback answers browsers.

A page of another site can have its own name lead to 127.0.0.1 (DNS rebinding). For the browser this
server then is that site, and the page may read all answers. The header ``Host`` still has the name
of the site. So where loopback is open to all, only names count that no other site can have:
addresses, ``localhost``, and those that the operator has given. Probes show nothing, and come under
any name.

CORS: the other origins whose pages may read the answers.

The older core lets the pages of any origin do so. Here none may unless the operator names its
origin: an arbitrary web page must not read the cluster's state from the network place of its
viewer. Cookies and certificates of the browser are never used for another origin.
"""

import ipaddress

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.values.errors import shown
from licorne_server.http.health import PROBES

log = structlog.get_logger("core.http.hosts")

ANY = "*"


class Hosts:
    """Refuses requests under names that may be those of other sites."""

    def __init__(self, names: frozenset[str], *, checked: bool) -> None:
        """These names are this server's as well; every one, if ``*`` is among them.

        Nothing is refused unless requests are to be `checked`.
        """
        self._names = frozenset(map(_plain, names))
        self._checked = checked and ANY not in names

    @web.middleware
    async def known(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests under a name of this server, or under none at all.

        Raises:
            HTTPMisdirectedRequest: it is asked under another name.
        """
        if self._checked and request.path not in PROBES:
            for given in request.headers.getall("Host", []):
                if not self._is_known(given):
                    log.warning("unknown host", host=shown(given), peer=request.remote)
                    raise web.HTTPMisdirectedRequest(text=_refusal(given))
        return await handler(request)

    def _is_known(self, given: str) -> bool:
        name = _plain(_without_port(given))
        if name == "localhost" or name.endswith(".localhost") or name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _without_port(given: str) -> str:
    """The name or address in a header ``Host``."""
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]


def _plain(name: str) -> str:
    """A name as names are compared: case does not matter, nor does a dot at the end."""
    return name.strip().lower().removesuffix(".")


def _refusal(given: str) -> str:
    name = shown(_without_port(given))
    return (
        f"this server does not know itself as {name}: ask for an address or localhost, "
        f"or have it started with --http-host {name}"
    )


METHODS = "GET, HEAD, POST"
HEADERS = "Accept, Authorization, Content-Type"
SECONDS = 600
"""Seconds that a browser may cache the answer to its preflight request."""


class Cors:
    """Sends browsers the origins that may read."""

    def __init__(self, origins: frozenset[str]) -> None:
        """Allow these origins; all, if ``*`` is one of them."""
        self._origins = origins

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a browser's preflight request; it has no identity then."""
        asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        if not (asks and self._allows(request)):
            return await handler(request)
        return web.Response(
            status=204,
            headers={
                "Access-Control-Allow-Methods": METHODS,
                "Access-Control-Allow-Headers": HEADERS,
                "Access-Control-Max-Age": str(SECONDS),
            },
        )

    async def allowed(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers by which the page may read an answer or an error."""
        if not self._origins:
            return
        if ANY not in self._origins:
            # A cache must not give the answer for one origin to another.
            given = response.headers.get("Vary")
            response.headers["Vary"] = f"{given}, Origin" if given else "Origin"
        if self._allows(request):
            origin = ANY if ANY in self._origins else request.headers["Origin"]
            response.headers["Access-Control-Allow-Origin"] = origin

    def _allows(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        return origin is not None and (ANY in self._origins or origin in self._origins)

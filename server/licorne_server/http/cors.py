"""CORS: the other origins whose pages may read the answers.

The older core lets the pages of any origin do so. Here none may unless the operator names its
origin: an arbitrary web page must not read the cluster's state from the network place of its
viewer. Cookies and certificates of the browser are never used for another origin.
"""

from aiohttp import web
from aiohttp.typedefs import Handler

ANY = "*"
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

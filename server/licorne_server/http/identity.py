"""Admission of HTTP requests: host names, origins of pages, and identities (`security/access.py`).

Another site can resolve its own name to 127.0.0.1 (DNS rebinding). The browser then regards this server as
that site, and a page of the site may read all answers. The header ``Host`` still has the name of the site.
So if loopback is open to all, requests are answered only under names that no other site can have:
addresses, ``localhost``, and names in the settings.

The older core lets pages of any origin read answers. Here the operator names the origins: an arbitrary
web page must not read the state of a cluster through the browser of its viewer. Cookies and
certificates of the browser are never used for another origin.

Probes are open to all. All other paths need an identity. An operator sees everything, a viewer everything but
the process itself, an RM only its own data, by the path or by `rm` in the query. A refusal is the same for
existing and missing data. Without identities everything is open to all. The same holds for plain HTTP next to
a gRPC server that identifies callers by certificates, except that no caller is an operator.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import rm_of
from licorne_core.views import Views
from licorne_server.http import pages
from licorne_server.http.door import PASSED
from licorne_server.http.health import PROBES
from licorne_server.http.places import OF_ONE_RM, Place, Places, passed_on
from licorne_server.http.stream import BY_MEMBER, CALLER, IDENTIFIED
from licorne_server.process.bounds import peer_of
from licorne_server.reads.sources import SOURCES, Sources
from licorne_server.security.access import Access, Caller

log = structlog.get_logger("core.http.identity")

OPEN_TO_RMS = frozenset(
    {"/ws/v1/validate-conf", "/ws/v1/reasons", "/ws/v1/resource-hours", pages.ACT, *pages.FILTERED}
)
"""Paths that have no data of RMs, or only data that is `visible_to` the caller, or that check callers as gRPC
does.
"""

READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing; all others are for operators, except on `OPEN_TO_RMS`."""

ALTERNATIVE_NAMES = frozenset({"DNS", "URI", "email", "IP Address"})
"""The kinds of alternative names in a certificate that count; directory entries do not."""

NO_CERTIFICATE = "a client certificate is needed, and this connection has shown none"
NO_IDENTITY = "a client certificate or a viewer's token is needed"

OPERATORS_ONLY = ("/debug/pprof", "/debug/stack")
"""Paths, with all below them, that show the process itself: if callers have identities, they are
for operators only."""


class Identity:
    """Refuses requests without an identity, or without the right to the answer."""

    def __init__(self, sources: Sources, files: frozenset[str]) -> None:
        """Without tokens and certificates everything is open to all.

        Probes need no identity, and neither do paths of `files`, which contain no data of RMs.
        """
        self._open_to_all = PROBES | files
        self._access: Access = sources.access
        self._views: Views = sources.views
        self._members = sources.members
        self._places = Places(sources)

    @web.middleware
    async def checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request if its caller has the right to it.

        Raises:
            HTTPUnauthorized: the token is missing or unknown.
            HTTPForbidden: the certificate is missing, or the identity has no right to the answer.
        """
        if request.path in self._open_to_all:
            return await handler(request)
        self._identify(request)
        caller, place = request[CALLER], None
        if self._members is not None and BY_MEMBER not in request:
            place = await self._places.of(request)
        if not (caller.operator or self._may_see(request, place)):
            log.warning("denied", peer=request.remote, caller=caller.peer, path=request.path)
            raise web.HTTPForbidden(text=f"{self._refused(request)} does not allow it")
        return await (handler(request) if place is None else passed_on(request, place))

    def _identify(self, request: web.Request) -> None:
        """Store the caller of a request: its sender, or the caller that a member has passed on.

        Raises:
            HTTPException: the sender has no identity.
        """
        passed = request.get_extra_info(PASSED)
        if passed is None:
            request[CALLER] = self._caller(request)
            request[IDENTIFIED] = _tells_apart(self._access, request)
        else:
            request[CALLER], request[IDENTIFIED], request[BY_MEMBER] = passed, True, True

    def _refused(self, request: web.Request) -> str:
        """What is refused, as named in the text: a viewer, token, certificate or plain HTTP."""
        if request[CALLER].viewer:
            return "the role of a viewer"
        if self._access.by_token:
            return "this token"
        return "plain HTTP" if _is_plain(request.transport) else "this certificate"

    def _caller(self, request: web.Request) -> Caller:
        """The caller of a request.

        Raises:
            HTTPUnauthorized: there is no known token.
            HTTPForbidden: there is no certificate.
        """
        access, host = self._access, request.remote or ""
        if access.by_token:
            return self._bearer(request, "a valid token is needed")
        if not access.by_certificate:
            return access.anybody(host)
        if _is_plain(request.transport):
            return Caller(frozenset(), False, peer_of(host))
        shown = _certificate(request.transport)
        if not shown and access.has_tokens:
            return self._bearer(request, NO_IDENTITY)
        if not shown:
            log.warning("not authenticated", peer=host)
            raise web.HTTPForbidden(text=NO_CERTIFICATE)
        return access.certified(_names(shown))

    def _bearer(self, request: web.Request, refusal: str) -> Caller:
        """The owner of a request's token.

        Raises:
            HTTPUnauthorized: there is no known token.
        """
        caller = self._access.bearer(request.headers.getall("Authorization", []))
        if caller is None:
            log.warning("not authenticated", peer=request.remote)
            raise web.HTTPUnauthorized(text=refusal)
        return caller

    def _may_see(self, request: web.Request, place: Place | None) -> bool:
        """True if a caller that is no operator may see the answer, as it concerns only its own RMs."""
        if request.method not in READS and request.path not in OPEN_TO_RMS:
            return False
        visible = visible_to(request)
        if visible is None:
            return not request.path.startswith(OPERATORS_ONLY)
        if request.path in OPEN_TO_RMS:
            return True
        if place is not None:
            return visible(place.rm_id)
        if "partition" in request.match_info:
            rm_id = self._rm_of(request.match_info["partition"])
            return bool(rm_id) and visible(rm_id)
        return request.path in OF_ONE_RM and visible(request.query.get("rm", ""))

    def _rm_of(self, partition: str) -> str:
        """The RM of the partition in a path; empty for an unknown partition."""
        try:
            return rm_of(self._views.resolve(partition))
        except NotFound:
            return ""


def visible_to(request: web.Request) -> Callable[[str], bool] | None:
    """A test of the sender's right to see an RM; None if it may see all of them."""
    caller = request[CALLER]
    if caller.sees_all or not request[IDENTIFIED]:
        return None
    return partial(request.app[SOURCES].access.may_read, caller)


def role_of(request: web.Request) -> str:
    """Role of a caller: ``operator``, ``viewer``, ``rm``, or ``open`` if all callers may do everything.

    On plain HTTP next to gRPC with certificates every caller is a viewer.
    """
    caller = request[CALLER]
    if not request[IDENTIFIED]:
        return "open" if caller.operator else "viewer"
    if caller.operator:
        return "operator"
    return "viewer" if caller.viewer else "rm"


def _tells_apart(access: Access, request: web.Request) -> bool:
    """True if callers on this connection have identities: plain HTTP has no certificates."""
    return access.by_token or (access.by_certificate and not _is_plain(request.transport))


def _is_plain(transport: asyncio.BaseTransport | None) -> bool:
    """True if a connection has no TLS."""
    return transport is None or transport.get_extra_info("ssl_object") is None


def _certificate(transport: asyncio.BaseTransport | None) -> Mapping[str, Any]:
    """The verified certificate of a connection; empty without one."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    return shown or {}


def _names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The names of the caller in a certificate; there may be none.

    As over gRPC, the common name counts only in a certificate without alternative names.
    """
    alternative = certificate.get("subjectAltName", ())
    if alternative:
        return frozenset(name for kind, name in alternative if kind in ALTERNATIVE_NAMES and name)
    return frozenset(_common_names(certificate))


def _common_names(shown: Mapping[str, Any]) -> Iterator[str]:
    for attributes in shown.get("subject", ()):
        for name, value in attributes:
            if name == "commonName" and value:
                yield value


hosts_log = structlog.get_logger("core.http.hosts")

ANY = "*"


class Hosts:
    """Refuses requests under names that may belong to other sites."""

    def __init__(self, names: frozenset[str], *, checked: bool) -> None:
        """Also accept these names, some with port or scheme; all if one is ``*``, or if not `checked`."""
        self._names = frozenset(_plain(_without_port(name.rpartition("://")[2])) for name in names)
        self._origins = frozenset(origin for name in names for origin in _origins_of(name))
        self._checked = checked and ANY not in names

    @web.middleware
    async def known(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests under a name of this server, or without a name.

        Raises:
            HTTPMisdirectedRequest: the request has another name.
        """
        if self._checked and request.path not in PROBES:
            for given in request.headers.getall("Host", []):
                if not self.is_known(given):
                    hosts_log.warning("unknown host", host=shown(given), peer=request.remote)
                    raise web.HTTPMisdirectedRequest(text=_refusal(given))
        return await handler(request)

    def has(self, origin: str) -> bool:
        """True for the origin of one of the names; port and scheme are compared if the name has them."""
        return origin in self._origins

    def is_known(self, given: str) -> bool:
        """True for a name that no other site can have; a port in it is ignored."""
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
    """A name in lower case, without a dot at the end."""
    return name.strip().lower().removesuffix(".")


def _origins_of(name: str) -> Iterator[str]:
    """Origins, in the form of browsers, of a name: ``NAME``, ``NAME:PORT``, or with ``https://`` in front.

    Without a port the default of the scheme is meant, without a scheme both schemes.
    """
    given, _, authority = name.strip().lower().rpartition("://")
    for scheme, port in ("http", ":80"), ("https", ":443"):
        if given in ("", scheme):
            yield f"{scheme}://{authority.removesuffix(port)}"


def _refusal(given: str) -> str:
    name = shown(_without_port(given))
    return (
        f"this server does not know itself as {name}: ask for an address or localhost, "
        f"or have {name} among its access.http_hosts"
    )


METHODS = "GET, HEAD, POST"
HEADERS = "Accept, Authorization, Content-Type"
SECONDS = 600
"""Seconds that a browser may cache the answer to its preflight request."""


class Cors:
    """Sends browsers the origins whose pages may read answers."""

    def __init__(self, origins: frozenset[str]) -> None:
        """Allow these origins; all origins if ``*`` is among them."""
        self._origins = origins

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer the preflight request of a browser, which has no identity."""
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
        """Add the headers that let a page read an answer or an error."""
        if not self._origins:
            return
        if ANY not in self._origins:
            # A cache must not return the answer for one origin to another.
            given = response.headers.get("Vary")
            response.headers["Vary"] = f"{given}, Origin" if given else "Origin"
        if self._allows(request):
            origin = ANY if ANY in self._origins else request.headers["Origin"]
            response.headers["Access-Control-Allow-Origin"] = origin

    def _allows(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        return origin is not None and (ANY in self._origins or origin in self._origins)

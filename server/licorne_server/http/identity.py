"""Authorization of HTTP reads by tokens or certificates (`security/access.py`).

Probes are open to all. All else needs an identity. An operator sees everything, an RM only data of
its own, by the path or by `rm` in the query. A refusal is the same for data that exists and data
that does not.

Without identities everything is open to all. That is so as well where HTTP is plain although gRPC
knows its callers by their certificates, but there no caller is an operator.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import rm_of
from licorne_core.views import Views
from licorne_server.http.health import PROBES
from licorne_server.http.sources import SOURCES, Sources
from licorne_server.http.stream import CALLER
from licorne_server.http.ui import pages
from licorne_server.process.bounds import peer_of
from licorne_server.security.access import Access, Caller

log = structlog.get_logger("core.http.identity")

OPEN_TO_ALL = PROBES | pages.PUBLIC
"""Probes have no identity, and the files of the page show nothing."""

OPEN_TO_RMS = frozenset({"/ws/v1/validate-conf", *pages.FILTERED})
"""Paths that show nothing of any RM, or only what is `visible_to` the caller."""

OF_ONE_RM = frozenset(
    {
        "/ws/v1/config",
        "/ws/v1/events/batch",
        "/ws/v1/events/stream",
        "/ws/v1/scheduler/healthcheck",
        *pages.OF_ONE_RM,
    }
)
"""Paths that show nothing but the RM that `rm` names. A state dump is none of them: the history in
it is that of all RMs."""

ALTERNATIVE_NAMES = frozenset({"DNS", "URI", "email", "IP Address"})
"""The kinds of alternative names in a certificate that count; a directory entry is none of them."""

NO_CERTIFICATE = "a client certificate is needed, and this connection has shown none"

OPERATORS_ONLY = ("/debug/pprof", "/debug/stack")
"""Paths, with all below them, that show the process itself: an identity is not enough where there
are operators."""


class Identity:
    """Refuses requests without an identity, or without the right to the answer."""

    def __init__(self, sources: Sources) -> None:
        """Without tokens and certificates everything is open to all."""
        self._access: Access = sources.access
        self._views: Views = sources.views

    @web.middleware
    async def checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request if its caller has the right to it.

        Raises:
            HTTPUnauthorized: there is no known token.
            HTTPForbidden: there is no certificate, or what there is does not allow it.
        """
        if request.path not in OPEN_TO_ALL:
            caller = request[CALLER] = self._caller(request)
            if not (caller.operator or self._may_see(request)):
                log.warning("denied", peer=request.remote, caller=caller.peer, path=request.path)
                raise web.HTTPForbidden(text=f"{self._refused(request)} does not allow it")
        return await handler(request)

    def _refused(self, request: web.Request) -> str:
        """The subject of a refusal: token, certificate or plain HTTP."""
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
            caller = access.bearer(request.headers.getall("Authorization", []))
            if caller is None:
                log.warning("not authenticated", peer=host)
                raise web.HTTPUnauthorized(text="a valid token is needed")
            return caller
        if not access.by_certificate:
            return access.anybody(host)
        if _is_plain(request.transport):
            return Caller(frozenset(), False, peer_of(host))
        shown = _certificate(request.transport)
        if not shown:
            log.warning("not authenticated", peer=host)
            raise web.HTTPForbidden(text=NO_CERTIFICATE)
        return access.certified(_names(shown))

    def _may_see(self, request: web.Request) -> bool:
        """True if a caller that is no operator may see it: only data of its own RMs."""
        visible = visible_to(request)
        if visible is None:
            return not request.path.startswith(OPERATORS_ONLY)
        if request.path in OPEN_TO_RMS:
            return True
        if "partition" in request.match_info:
            rm_id = self._rm_of(request.match_info["partition"])
            return bool(rm_id) and visible(rm_id)
        return request.path in OF_ONE_RM and visible(request.query.get("rm", ""))

    def _rm_of(self, partition: str) -> str:
        """The RM of the partition in a path; empty if there is no such partition."""
        try:
            return rm_of(self._views.resolve(partition))
        except NotFound:
            return ""


def visible_to(request: web.Request) -> Callable[[str], bool] | None:
    """A test of the sender's right to see an RM; None if it may see all of them."""
    access, caller = request.app[SOURCES].access, request[CALLER]
    if caller.operator or not _tells_apart(access, request):
        return None
    return partial(access.may_read, caller)


def role_of(request: web.Request) -> str:
    """Role of a caller: ``operator``, ``rm``, or ``open`` without identities."""
    if not _tells_apart(request.app[SOURCES].access, request):
        return "open"
    return "operator" if request[CALLER].operator else "rm"


def _tells_apart(access: Access, request: web.Request) -> bool:
    """True if callers have an identity on this connection: plain HTTP has no certificates."""
    return access.by_token or (access.by_certificate and not _is_plain(request.transport))


def _is_plain(transport: asyncio.BaseTransport | None) -> bool:
    """True if a connection has no TLS."""
    return transport is None or transport.get_extra_info("ssl_object") is None


def _certificate(transport: asyncio.BaseTransport | None) -> Mapping[str, Any]:
    """The certificate of a connection, which was checked; empty without one."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    return shown or {}


def _names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The names in a certificate that count; there may be none.

    As over gRPC the common name counts only where there are no alternative names of any kind.
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

"""Who may see what over HTTP, where the server knows tokens.

Probes are open to everybody. All else needs a token. That of an operator shows everything, that of
an RM only what its path, or `rm` in its query, says is of that RM. A refusal says the same of what
is there and of what is not.
"""

from collections.abc import Callable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.errors import NotFound
from licorne_core.ids import rm_of
from licorne_core.views import Views
from licorne_server.http.sources import Sources
from licorne_server.http.stream import PARTY
from licorne_server.http.ui import paths
from licorne_server.tokens import Grant, Tokens

log = structlog.get_logger(__name__)

OPEN_TO_ALL = frozenset({"/livez", "/readyz", *paths.PUBLIC})
"""Probes have no token, and the files of the page show nothing."""

OPEN_TO_RMS = frozenset({"/ws/v1/validate-conf", *paths.FILTERED})
"""Nothing of any RM is shown there, or only what is `visible_to` the caller."""

OF_ONE_RM = frozenset(
    {
        "/ws/v1/config",
        "/ws/v1/events/batch",
        "/ws/v1/events/stream",
        "/ws/v1/scheduler/healthcheck",
        *paths.OF_ONE_RM,
    }
)
"""Paths that show nothing but the RM that `rm` names. A state dump is none of them: the history in
it is that of all RMs."""

GRANT = web.RequestKey("grant", Grant)
"""Where a request has what its token allows."""


class Identity:
    """Refuses whoever has no token, or one that does not allow what is asked for."""

    def __init__(self, sources: Sources) -> None:
        """Without tokens everything is open to everybody."""
        self._tokens: Tokens | None = sources.tokens
        self._views: Views = sources.views

    @web.middleware
    async def checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer those who may have the answer.

        Raises:
            HTTPUnauthorized: there is no known token.
            HTTPForbidden: the token does not allow it.
        """
        if self._tokens is not None and request.path not in OPEN_TO_ALL:
            grant = _grant(self._tokens, request)
            if not (grant.operator or self._is_of(grant, request)):
                log.warning("denied", peer=request.remote, party=grant.party, path=request.path)
                raise web.HTTPForbidden(text="this token does not allow it")
            request[PARTY], request[GRANT] = grant.party, grant
        return await handler(request)

    def _is_of(self, grant: Grant, request: web.Request) -> bool:
        """Whether nothing but what is of the token's RMs is asked for."""
        if request.path in OPEN_TO_RMS:
            return True
        if "partition" in request.match_info:
            return self._rm_of(request.match_info["partition"]) in grant.rms
        return request.path in OF_ONE_RM and request.query.get("rm", "") in grant.rms

    def _rm_of(self, partition: str) -> str:
        """The RM whose partition a path means; empty if there is no such partition."""
        try:
            return rm_of(self._views.resolve(partition))
        except NotFound:
            return ""


def visible_to(request: web.Request) -> Callable[[str], bool] | None:
    """Whether the caller may see an RM; None if it may see everything."""
    grant = request.get(GRANT)
    return None if grant is None or grant.operator else grant.rms.__contains__


def role_of(request: web.Request) -> str:
    """What a caller is: ``operator``, ``rm``, or ``open`` where the server knows no identities."""
    grant = request.get(GRANT)
    return "open" if grant is None else "operator" if grant.operator else "rm"


def _grant(tokens: Tokens, request: web.Request) -> Grant:
    """What the token of a request allows.

    Raises:
        HTTPUnauthorized: there is none that is known, or more than one.
    """
    given = request.headers.getall("Authorization", [])
    grant = tokens.grant(given[0]) if len(given) == 1 else None
    if grant is None:
        log.warning("not authenticated", peer=request.remote)
        raise web.HTTPUnauthorized(text="a valid token is needed")
    return grant

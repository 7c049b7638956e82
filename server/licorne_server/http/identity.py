"""Who may see what over HTTP, where the server knows tokens.

Probes are open to everybody. All else needs a token. That of an operator shows everything, that of
an RM only what its path, or `rm` in its query, says is of that RM. A refusal says the same of what
is there and of what is not.
"""

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.errors import NotFound
from licorne_core.ids import rm_of
from licorne_core.views import Views
from licorne_server.http.sources import Sources
from licorne_server.http.stream import PARTY
from licorne_server.tokens import Grant, Tokens

log = structlog.get_logger(__name__)

OPEN_TO_ALL = frozenset({"/livez", "/readyz"})
"""Probes have no token."""

OPEN_TO_RMS = frozenset({"/ws/v1/validate-conf"})
"""Nothing of any RM is shown there."""

OF_ONE_RM = frozenset(
    {
        "/ws/v1/config",
        "/ws/v1/events/batch",
        "/ws/v1/events/stream",
        "/ws/v1/scheduler/healthcheck",
    }
)
"""Paths that show nothing but the RM that `rm` names. A state dump is none of them: the history in
it is that of all RMs."""


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
            request[PARTY] = grant.party
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

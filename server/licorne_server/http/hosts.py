"""Host names under which a server on loopback answers browsers.

A page of another site can have its own name lead to 127.0.0.1 (DNS rebinding). For the browser this
server then is that site, and the page may read all answers. The header ``Host`` still has the name
of the site. So where loopback is open to all, only names count that no other site can have:
addresses, ``localhost``, and those that the operator has given. Probes show nothing, and come under
any name.
"""

import ipaddress

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.values.errors import shown
from licorne_server.http.probes import PROBES

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

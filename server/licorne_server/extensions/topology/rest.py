"""Free room by topology domain, for REST and the page: `State.ListTopology` in one answer."""

from itertools import islice

from aiohttp import web

from licorne_core.extensions.topology.reports import DomainReport, TopologyReport
from licorne_core.values.errors import shown
from licorne_server.extensions.topology import MAX_SHAPE, topology_of
from licorne_server.http.pages import API, Maker, text_in
from licorne_server.http.stream import JsonObject, Rows, send_json
from licorne_server.http.units import Asked, rest_form
from licorne_server.process.fair import Slices
from licorne_server.wire.errors import CallError

MOST_DOMAINS = 1_000
"""Maximum number of domains that the page gets at a time."""

MAX_TEXT = 4_096
"""Maximum number of characters of a shape in a query."""

_domain = rest_form(DomainReport, {})


async def for_rest(request: web.Request) -> web.StreamResponse:
    """All domains, or those of `level`, with slots for `shape`."""
    maker = Maker.of(request)
    found = await _found(request, maker.slices)
    return await send_json(request, {**_head(found), "domains": Rows(found.domains, _domain)})


async def for_page(request: web.Request) -> web.StreamResponse:
    """The first domains with the fields of the page, and the number of all."""
    maker = Maker.of(request)
    found = await _found(request, maker.slices)
    rows = await maker.all(map(_domain, islice(found.domains, MOST_DOMAINS)))
    return await maker.send(request, {**_head(found), "domains": rows, "total": len(found.domains)})


ROUTES = [
    web.get("/ws/v1/partition/{partition:[^/]+}/topology", for_rest),
    web.get(API + "/partition/{partition:[^/]+}/topology", for_page),
]


async def _found(request: web.Request, slices: Slices) -> TopologyReport:
    asked = Asked(request)
    level, shape = text_in(request, "level"), _shape(asked.query("shape"))
    try:
        return await topology_of(asked.views, asked.partition, level, shape, slices)
    except CallError as error:
        raise web.HTTPBadRequest(text=str(error)) from None


def _shape(text: str) -> dict[str, int]:
    """Amounts by name: ``vcore=8000,memory=68719476736``; none for an empty text.

    Raises:
        HTTPBadRequest: the text is no such list.
    """
    if len(text) > MAX_TEXT:
        raise web.HTTPBadRequest(text=f"shape: {len(text)} characters, {MAX_TEXT} are allowed")
    shape: dict[str, int] = {}
    for part in text.split(",", MAX_SHAPE) if text else ():
        name, _, amount = part.strip().rpartition("=")
        if not name or name in shape or not (amount.isascii() and amount.isdecimal() and len(amount) < 20):
            raise web.HTTPBadRequest(text=f"shape: {shown(part)} is not NAME=AMOUNT, each name once")
        shape[name] = int(amount)
    return shape


def _head(found: TopologyReport) -> JsonObject:
    return {"levels": list(found.levels), "shape": dict(found.shape)}

"""The lists of the page: applications with their asks and allocations, nodes, users, victims, events."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from aiohttp import web

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.scheduling.preemption.ledger import PreemptionRecord
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import shown
from licorne_core.values.ids import AppId
from licorne_core.views import InOrder
from licorne_core.views.applications import AskReport
from licorne_server.http.json_apps import allocation_json, ask_json
from licorne_server.http.routes import APP_STATES
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.pages import API, MAX_LOOKED_AT, MAX_OFFSET, Maker, number, one_of, wanted
from licorne_server.http.ui.rows import application_row, node_row, preemption_row, usage_row
from licorne_server.http.units import Asked, milliseconds, rm_asked
from licorne_server.services.paging import Page

MOST_HOLDERS = 3
"""Reservations of a node that the list of nodes shows."""

T = TypeVar("T")
Name = TypeVar("Name", bound=str)


async def applications(request: web.Request) -> web.StreamResponse:
    """Applications by id, behind `after`.

    `state` is active, rejected or completed, `status` the state of the application. `queue` is a
    queue and includes all queues below. `waiting` selects applications with pending asks. `q` is
    searched in ids and users.
    """
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    state = one_of(request, "state", APP_STATES)
    queue, status = wanted(request, "queue"), wanted(request, "status")
    text, waiting = wanted(request), "waiting" in request.query

    def row(name: AppId) -> JsonObject | None:
        app = views.application(partition, name)
        fits = (
            (not text or text in app.app_id.lower() or text in app.user.lower())
            and (not queue or app.queue == queue or app.queue.startswith(f"{queue}."))
            and (not status or app.state.lower() == status)
            and (not waiting or app.pending_count > 0)
        )
        return application_row(name, app) if fits else None

    names = await maker.once(lambda: views.app_ids_in_order(partition, state=state))
    return await _by_name(request, maker, names, row)


async def asks(request: web.Request) -> web.StreamResponse:
    """The asks of an application in the order of the pass, from `offset` on."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    text = wanted(request)
    report = await maker.once(lambda: views.application(partition, app))
    common: JsonObject = {"partition": partition, "queueName": report.queue}

    def fits(ask: AskReport) -> bool:
        return text in ask.ask.key.lower()

    def row(ask: AskReport) -> JsonObject:
        more = {
            "reservedNode": ask.reserved_node,
            "assumedNode": ask.assumed_node,
            "replaces": ask.replaces,
        }
        return {**ask_json(common, ask), **more}

    asks = views.asks(partition, app)
    return await _by_place(request, maker, asks, fits, row, report.pending_count)


async def allocations(request: web.Request) -> web.StreamResponse:
    """The allocations of an application, the oldest first, from `offset` on."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    text = wanted(request)
    report = await maker.once(lambda: views.application(partition, app))
    common: JsonObject = {"partition": partition, "queueName": report.queue}

    def fits(item: tuple[Allocation, str]) -> bool:
        return text in item[0].key.lower() or text in item[0].node_id.lower()

    def row(item: tuple[Allocation, str]) -> JsonObject:
        return allocation_json(common, *item)

    found = views.allocations(partition, app)
    return await _by_place(request, maker, found, fits, row, report.allocation_count)


async def nodes(request: web.Request) -> web.StreamResponse:
    """Nodes by id, behind `after`; `state` is all, schedulable, drained or reserved."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    text = wanted(request)
    state = one_of(request, "state", ("all", "schedulable", "drained", "reserved"))

    def row(name: str) -> JsonObject | None:
        if text and text not in name.lower():
            return None
        node = views.node(partition, name)
        if state == "schedulable" and not node.schedulable:
            return None
        if state == "drained" and node.schedulable:
            return None
        if state == "reserved" and not node.reserved:
            return None
        return node_row(node, views.first_reservations(partition, name, MOST_HOLDERS))

    names = await maker.once(lambda: views.node_ids_in_order(partition))
    return await _by_name(request, maker, names, row)


async def usage(request: web.Request) -> web.StreamResponse:
    """Users or groups by name, behind `after`; `kind` is user or group."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    kind, text = one_of(request, "kind", ("user", "group")), wanted(request)

    names = await maker.once(lambda: views.usage_names_in_order(partition, kind))
    behind = names.behind(request.query.get("after", ""))
    wanted_names = (name if name and text in name.lower() else None for name in behind)
    usages = views.usages(partition, kind, wanted_names)
    found = await maker.page(request, usages, usage_row)
    following = found.last.name if found.last else ""
    return await _send(request, maker, found, {"next": following, "total": names.count})


async def preemptions(request: web.Request) -> web.StreamResponse:
    """Victims below the number `before`, latest first; `q` is searched in ids and keys."""
    asked, maker = Asked(request), Maker.of(request)
    text = wanted(request)
    before = number(request, "before", 0) or None

    def row(record: PreemptionRecord) -> JsonObject | None:
        names = (record.app_id, record.key, record.beneficiary_app_id, record.node_id)
        return preemption_row(record) if any(text in name.lower() for name in names) else None

    victims = asked.views.preemptions(asked.partition, before=before)
    found = await maker.page(request, victims, row)
    behind = "" if found.last is None else str(found.last.number)
    return await _send(request, maker, found, {"next": behind})


async def _by_name(
    request: web.Request,
    maker: Maker,
    names: InOrder[Name],
    row: Callable[[Name], JsonObject | None],
) -> web.StreamResponse:
    """A page of a list in order of names; the next page begins behind the name `next`."""
    behind = names.behind(request.query.get("after", ""))
    found = await maker.page(request, behind, row)
    return await _send(request, maker, found, {"next": found.last or "", "total": names.count})


async def _by_place(
    request: web.Request,
    maker: Maker,
    items: Iterable[T | None],
    fits: Callable[[T], bool],
    row: Callable[[T], JsonObject],
    total: int,
) -> web.StreamResponse:
    """A page of a list without names; `offset` counts the rows before it."""
    offset = min(MAX_OFFSET, number(request, "offset", 0))

    def behind() -> Iterator[T | None]:
        """Items of the page, with a None wherever the reader may pause."""
        before = offset
        for item in items:
            if item is None or not fits(item):
                yield None
            elif before:
                before -= 1
                yield None
            else:
                yield item

    found = await maker.page(request, behind(), row)
    following = "" if found.last is None else str(offset + len(found.rows))
    return await _send(request, maker, found, {"next": following, "total": total})


async def _send(
    request: web.Request, maker: Maker, found: Page[T, JsonObject], members: JsonObject
) -> web.StreamResponse:
    answer = {**members, "lookedAt": found.spent, "refresh": maker.refresh, "rows": found.rows}
    return await send_json(request, answer)


MAX_ID = 2**63


async def events(request: web.Request) -> web.StreamResponse:
    """Events of `rm` from the id `start` on, oldest first, each with its id.

    `type` selects a type of object, `q` is searched in ids, message and detail. `next` is the first
    id of the next page. After a change of `instance` the ids have started over.
    """
    asked, maker = Asked(request), Maker.of(request)
    log = asked.sources.events.get(rm_asked(request))
    kind, text = wanted(request, "type").upper(), wanted(request)
    if kind and kind not in EventType.__members__:
        raise web.HTTPBadRequest(text=f"type: {shown(kind)} is no kind of event")
    start = min(MAX_ID, number(request, "start", log.lowest_id))
    lowest, behind = log.lowest_id, log.next_id

    def row(event: tuple[int, EventRecord]) -> JsonObject | None:
        number, record = event
        if kind and record.type.name != kind:
            return None
        shown = event_row(number, record)
        names = ("object", "reference", "message", "detail")
        return shown if any(text in str(shown[name]).lower() for name in names) else None

    found = await maker.page(request, log.read(start, MAX_LOOKED_AT), row)
    last = found.last[0] + 1 if found.last else min(behind, max(start, lowest) + MAX_LOOKED_AT)
    answer = {
        "instance": log.instance,
        "tracking": log.settings.event_tracking,
        "lowest": lowest,
        "next": max(last, lowest),
        "behind": behind,
        "refresh": maker.refresh,
        "rows": found.rows,
    }
    return await send_json(request, answer)


def event_row(number: int, record: EventRecord) -> JsonObject:
    """One event; types are names."""
    detail = record.detail
    return {
        "id": number,
        "time": milliseconds(record.time),
        "type": record.type.name,
        "change": "" if record.change is EventChange.NONE else record.change.name,
        "detail": "" if detail is EventDetail.DETAILS_NONE else detail.name,
        "object": record.object_id,
        "reference": record.reference_id,
        "message": record.message,
        "resource": dict(record.resource),
    }


_PARTITION = API + "/partition/{partition:[^/]+}"
_APP = _PARTITION + "/application/{app:[^/]+}"
ROUTES = [
    web.get(_PARTITION + "/applications", applications),
    web.get(_APP + "/asks", asks),
    web.get(_APP + "/allocations", allocations),
    web.get(_PARTITION + "/nodes", nodes),
    web.get(_PARTITION + "/usage", usage),
    web.get(_PARTITION + "/preemptions", preemptions),
    web.get(API + "/events", events),
]
"""All paths. All lists take `limit`, and `q`, which is searched in names."""

"""The lists of the page: applications with their asks and allocations, nodes, users, victims, events."""

from functools import cache
from itertools import chain
from operator import itemgetter
from typing import cast

from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.values.errors import shown
from licorne_core.values.ids import AppId
from licorne_core.views.applications import AskReport
from licorne_core.views.nodes import AllocationReport, ReservationReport
from licorne_core.views.obstacles import FirstObstacle
from licorne_server.http.json_apps import allocation_json, ask_json
from licorne_server.http.pages import API, MAX_LOOKED_AT, Maker, number, one_of, text_in, wanted
from licorne_server.http.routes import APP_STATES
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.listing import by_name, by_place, in_order, order_of, send
from licorne_server.http.ui.rows import (
    application_row,
    node_allocation_row,
    node_row,
    preemption_row,
    reservation_row,
    row_in_list,
    stay_row,
    usage_row,
)
from licorne_server.http.units import Asked, milliseconds, rm_asked
from licorne_server.wire.features import PageList, table

MOST_HOLDERS = 3
"""Maximum number of reservations of a node in the list of nodes."""

NOTHING = FirstObstacle("")


async def applications(request: web.Request) -> web.StreamResponse:
    """Applications by id, after `after`.

    `state` is active, rejected or completed, `status` the state of the application. `queue` is a
    queue and includes all queues below. `user` is a user, `group` the group whose limits apply. `waiting`
    selects applications with pending asks, `reason` those whose first ask has an obstacle with that code.
    `q` is searched in ids and users.
    """
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    state = one_of(request, "state", APP_STATES)
    queue, status = wanted(request, "queue"), wanted(request, "status")
    user, group = text_in(request, "user"), text_in(request, "group")
    text, waiting, reason = wanted(request), "waiting" in request.query, wanted(request, "reason")

    def row(name: AppId) -> JsonObject | None:
        app = views.application(partition, name)
        fits = (
            (not text or text in app.app_id.lower() or text in app.user.lower())
            and (not queue or app.queue == queue or app.queue.startswith(f"{queue}."))
            and (not status or app.state.lower() == status)
            and (not user or app.user == user)
            and (not group or app.group == group)
            and (not (waiting or reason) or app.pending_count > 0)
        )
        if not fits:
            return None
        obstacle = views.first_obstacle(partition, name) if app.pending_count else NOTHING
        wrong = reason and obstacle.code.lower() != reason
        return None if wrong else application_row(name, app, obstacle)

    def finish(row: JsonObject) -> None:
        app, code = str(row["name"]), str(_reason_of(row)["code"])
        _reason_of(row)["text"] = views.obstacle_text(partition, app, str(_reason_of(row)["key"]), code)

    names = await maker.once(lambda: views.app_ids_in_order(partition, state=state))
    return await by_name(request, maker, names, row, "name", finish)


def _reason_of(row: JsonObject) -> dict[str, str]:
    """The columns of a row's reason; the text is computed only for displayed rows."""
    return cast(dict[str, str], row["reason"])


async def asks(request: web.Request) -> web.StreamResponse:
    """The asks of an application in scheduling order, from `offset` on.

    `reason` selects asks whose obstacle has that code.
    """
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    text, reason = wanted(request), wanted(request, "reason")
    report = await maker.once(lambda: views.application(partition, app))
    common: JsonObject = {"partition": partition, "queueName": report.queue}

    def fits(ask: AskReport) -> bool:
        return text in ask.ask.key.lower() and (not reason or ask.obstacle.lower() == reason)

    def row(ask: AskReport) -> JsonObject:
        more = {
            "priority": ask.ask.priority,
            "reservedNode": ask.reserved_node,
            "assumedNode": ask.assumed_node,
            "replaces": ask.replaces,
            "reason": {"code": ask.obstacle, "text": ""},
        }
        return {**ask_json(common, ask), **more}

    def finish(row: JsonObject) -> None:
        key, code = str(row["allocationKey"]), _reason_of(row)["code"]
        _reason_of(row)["text"] = views.obstacle_text(partition, app, key, code)

    asks = views.asks(partition, app)
    return await by_place(request, maker, asks, fits, row, report.pending_count, finish)


async def allocations(request: web.Request) -> web.StreamResponse:
    """The allocations of an application, the oldest first, from `offset` on."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    text = wanted(request)
    report = await maker.once(lambda: views.application(partition, app))
    common: JsonObject = {"partition": partition, "queueName": report.queue}

    def fits(item: AllocationReport) -> bool:
        return text in item[0].key.lower() or text in item[0].node_id.lower()

    def row(item: AllocationReport) -> JsonObject:
        more = {"priority": item.allocation.ask.priority, **stay_row(item.stay)}
        return {**allocation_json(common, *item), **more}

    found = views.allocations(partition, app)
    return await by_place(request, maker, found, fits, row, report.allocation_count)


async def nodes(request: web.Request) -> web.StreamResponse:
    """Nodes by id, after `after`.

    `state` is all, schedulable, drained (not schedulable), cordoned or reserved.
    `attribute` is a name and a value with ``=`` between them, and selects nodes that have both.
    """
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    text = wanted(request)
    state = one_of(request, "state", ("all", "schedulable", "drained", "cordoned", "reserved"))
    attribute, _, value = text_in(request, "attribute").partition("=")

    def row(name: str) -> JsonObject | None:
        if text and text not in name.lower():
            return None
        node = views.node(partition, name)
        if state == "schedulable" and not node.schedulable:
            return None
        if state == "drained" and node.schedulable:
            return None
        if state == "cordoned" and node.closed is None:
            return None
        if state == "reserved" and not node.reserved:
            return None
        if attribute and node.attributes.get(attribute) != value:
            return None
        return node_row(node, ())

    def finish(row: JsonObject) -> None:
        reservations = views.first_reservations(partition, str(row["id"]), MOST_HOLDERS)
        row["reservedFor"] = [reservation_row(found) for found in reservations]

    names = await maker.once(lambda: views.node_ids_in_order(partition))
    return await by_name(request, maker, names, row, "id", finish)


async def allocations_on(request: web.Request) -> web.StreamResponse:
    """Allocations on a node, the oldest first, from `offset` on; those of other schedulers are foreign."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, node = asked.views, asked.partition, asked.name("node")
    text = wanted(request)
    app_of = cache(lambda app_id: views.application(partition, app_id))

    def fits(item: AllocationReport) -> bool:
        ask = item[0].ask
        return text in ask.key.lower() or text in ask.app_id.lower()

    def row(item: AllocationReport) -> JsonObject:
        app_id = item.allocation.ask.app_id
        return node_allocation_row(item, app_of(app_id) if app_id else None)

    report = await maker.once(lambda: views.node(partition, node))
    foreign = (AllocationReport(allocation) for allocation in views.foreign_on(partition, node))
    found = chain(views.allocations_on(partition, node), foreign)
    total = report.allocation_count + report.foreign_count
    return await by_place(request, maker, found, fits, row, total, name_of=itemgetter("key"))


async def usage(request: web.Request) -> web.StreamResponse:
    """Users or groups by name, from the name after `after` on; `kind` is user or group."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    kind, text = one_of(request, "kind", ("user", "group")), wanted(request)

    names = await maker.once(lambda: views.usage_names_in_order(partition, kind))
    order = order_of(request)
    behind = names.behind("" if order else request.query.get("after", ""))
    wanted_names = (name if name and text in name.lower() else None for name in behind)
    usages = views.usages(partition, kind, wanted_names)
    if order is not None:
        return await in_order(request, maker, order, usages, usage_row, itemgetter("name"), names.count)
    found = await maker.page(request, usages, usage_row)
    following = found.last.name if found.last else ""
    return await send(request, maker, found, {"next": following, "total": names.count})


async def preemptions(request: web.Request) -> web.StreamResponse:
    """Victims with numbers below `before`, the latest first; `q` is searched in ids and keys."""
    asked, maker = Asked(request), Maker.of(request)
    text = wanted(request)
    before = number(request, "before", 0) or None

    def row(record: PreemptionRecord) -> JsonObject | None:
        names = (record.app_id, record.key, record.beneficiary_app_id, record.node_id)
        return preemption_row(record) if any(text in name.lower() for name in names) else None

    order = order_of(request)
    victims = asked.views.preemptions(asked.partition, before=before)
    if order is not None:
        return await in_order(request, maker, order, victims, row, _number_of)
    found = await maker.page(request, victims, row)
    behind = "" if found.last is None else str(found.last.number)
    return await send(request, maker, found, {"next": behind})


def _number_of(row: JsonObject) -> str:
    """The number of a row, padded so that texts sort like numbers."""
    return f"{row['number']:020}"


async def reservations(request: web.Request) -> web.StreamResponse:
    """Reservations by node and time, from `offset` on.

    `queue` is a queue and includes all queues below, `reason` a code. `q` is searched in nodes,
    applications and keys.
    """
    asked, maker = Asked(request), Maker.of(request)
    text, queue, reason = wanted(request), wanted(request, "queue"), wanted(request, "reason")

    def fits(found: ReservationReport) -> bool:
        return (
            any(text in name.lower() for name in (found.node_id, found.app_id, found.key))
            and (not queue or found.queue == queue or found.queue.startswith(f"{queue}."))
            and (not reason or found.reason.code.lower() == reason)
        )

    def row(found: ReservationReport) -> JsonObject:
        return {**reservation_row(found), "reason": {"code": found.reason.code, "text": found.reason.text}}

    found = asked.views.reservations(asked.partition)
    return await by_place(request, maker, found, fits, row, name_of=_place_of)


def _listed(shown: PageList) -> Handler:
    """The handler for a list of an extension, from `offset` on; `queue` includes its descendants."""
    row = row_in_list(shown)

    def name_of(row: JsonObject) -> str:
        return " ".join(str(row[name]) for name in shown.named_by)

    async def answer(request: web.Request) -> web.StreamResponse:
        asked, maker = Asked(request), Maker.of(request)
        text, queue = wanted(request), text_in(request, "queue")

        def fits(entry: object) -> bool:
            return any(text in getattr(entry, name).lower() for name in shown.texts)

        found = await maker.once(lambda: list(asked.sources.listed(shown.name, asked.partition, queue)))
        return await by_place(request, maker, found, fits, row, len(found), name_of=name_of)

    return answer


def _place_of(row: JsonObject) -> str:
    return f"{row['node']} {row['application']} {row['key']}"


MAX_ID = 2**63


async def events(request: web.Request) -> web.StreamResponse:
    """Events of `rm` from the id `start` on, oldest first, each with its id.

    `type` selects a type of object, `q` is searched in ids, message and detail. `next` is the first
    id of the next page. After a change of `instance` ids have started over.
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
    """The row of an event, with its types as names."""
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
    web.get(_PARTITION + "/node/{node:[^/]+}/allocations", allocations_on),
    web.get(_PARTITION + "/usage", usage),
    web.get(_PARTITION + "/preemptions", preemptions),
    web.get(_PARTITION + "/reservations", reservations),
    *(web.get(f"{_PARTITION}/{path}", _listed(shown)) for path, shown in table("PAGE_LISTS").items()),
    web.get(API + "/events", events),
]
"""All paths. All lists accept `limit`, and `q`, which is searched in names.

All except that of events accept `sort`, a column of their rows or an amount in one (``pending.vcore``), with
a ``-`` in front for descending order. `after` is then the `next` of the previous page.
"""

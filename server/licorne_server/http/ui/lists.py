"""The lists of the page: applications with their asks and allocations, nodes, users, victims.

Also here:

* Past events for the page: from an id on, filtered by the viewer's search.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from aiohttp import web

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.scheduling.preemption.ledger import PreemptionRecord
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import shown
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.views import InOrder, Views
from licorne_core.views.applications import AskReport
from licorne_server.events.log import EventLogs
from licorne_server.http.json_apps import allocation_json, ask_json
from licorne_server.http.routes import APP_STATES
from licorne_server.http.sources import Sources
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.pages import (
    API,
    MAX_LOOKED_AT,
    MAX_OFFSET,
    Found,
    Maker,
    limit_of,
    number,
    one_of,
    wanted,
)
from licorne_server.http.ui.rows import application_row, node_row, preemption_row, usage_row
from licorne_server.http.units import milliseconds, partition_named

MOST_HOLDERS = 3
"""Reservations of a node that the list of nodes shows."""

T = TypeVar("T")
Name = TypeVar("Name", bound=str)


class ListReads:
    """The lists, a method for each. All take `limit`, and `q`, which is looked for in names."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        partition = API + "/partition/{partition:[^/]+}"
        app = partition + "/application/{app:[^/]+}"
        return [
            web.get(partition + "/applications", self.applications),
            web.get(app + "/asks", self.asks),
            web.get(app + "/allocations", self.allocations),
            web.get(partition + "/nodes", self.nodes),
            web.get(partition + "/usage", self.usage),
            web.get(partition + "/preemptions", self.preemptions),
        ]

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """Applications by id, behind `after`.

        `state` is active, rejected or completed, `status` the application's own state. `queue` is a
        queue, all below it included. `waiting` picks those with asks that wait. `q` is looked for
        in ids and users.
        """
        views, partition = self._views, self._partition(request)
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

        maker = Maker.of(request)
        names = await maker.once(lambda: views.app_ids_in_order(partition, state=state))
        return await _by_name(request, maker, names, row)

    async def asks(self, request: web.Request) -> web.StreamResponse:
        """The asks of an application in the order in which they are looked at, from `offset` on."""
        partition, app = self._partition(request), request.match_info["app"]
        text = wanted(request)
        maker = Maker.of(request)
        report = await maker.once(lambda: self._views.application(partition, app))
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

        asks = self._views.asks(partition, app)
        return await _by_place(request, maker, asks, fits, row, report.pending_count)

    async def allocations(self, request: web.Request) -> web.StreamResponse:
        """The allocations of an application, the oldest first, from `offset` on."""
        partition, app = self._partition(request), request.match_info["app"]
        text = wanted(request)
        maker = Maker.of(request)
        report = await maker.once(lambda: self._views.application(partition, app))
        common: JsonObject = {"partition": partition, "queueName": report.queue}

        def fits(item: tuple[Allocation, str]) -> bool:
            return text in item[0].key.lower() or text in item[0].node_id.lower()

        def row(item: tuple[Allocation, str]) -> JsonObject:
            return allocation_json(common, *item)

        found = self._views.allocations(partition, app)
        return await _by_place(request, maker, found, fits, row, report.allocation_count)

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        """Nodes by id, behind `after`; `state` is all, schedulable, drained or reserved."""
        views, partition = self._views, self._partition(request)
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

        maker = Maker.of(request)
        names = await maker.once(lambda: views.node_ids_in_order(partition))
        return await _by_name(request, maker, names, row)

    async def usage(self, request: web.Request) -> web.StreamResponse:
        """Users or groups by name, behind `after`; `kind` is user or group."""
        views, partition = self._views, self._partition(request)
        kind, text = one_of(request, "kind", ("user", "group")), wanted(request)

        maker = Maker.of(request)
        names = await maker.once(lambda: views.usage_names_in_order(partition, kind))
        behind = names.behind(request.query.get("after", ""))
        wanted_names = (name if name and text in name.lower() else None for name in behind)
        found = Found(views.usages(partition, kind, wanted_names), usage_row, limit_of(request))
        await maker.all(found.go_on)
        following = found.last.name if found.last else ""
        return await _send(request, maker, found, {"next": following, "total": names.count})

    async def preemptions(self, request: web.Request) -> web.StreamResponse:
        """Victims below the number `before`, latest first; `q` is looked for in ids and keys."""
        partition, text = self._partition(request), wanted(request)
        before = number(request, "before", 0) or None

        def row(record: PreemptionRecord) -> JsonObject | None:
            names = (record.app_id, record.key, record.beneficiary_app_id, record.node_id)
            return preemption_row(record) if any(text in name.lower() for name in names) else None

        maker = Maker.of(request)
        found = Found(self._views.preemptions(partition, before=before), row, limit_of(request))
        await maker.all(found.go_on)
        behind = "" if found.last is None else str(found.last.number)
        return await _send(request, maker, found, {"next": behind})

    def _partition(self, request: web.Request) -> PartitionName:
        return partition_named(self._views, request.match_info["partition"])


async def _by_name(
    request: web.Request,
    maker: Maker,
    names: InOrder[Name],
    row: Callable[[Name], JsonObject | None],
) -> web.StreamResponse:
    """A page of a list in order of names; the next one begins behind the name `next`."""
    found = Found(names.behind(request.query.get("after", "")), row, limit_of(request))
    await maker.all(found.go_on)
    return await _send(request, maker, found, {"next": found.last or "", "total": names.count})


async def _by_place(
    request: web.Request,
    maker: Maker,
    items: Iterable[T | None],
    fits: Callable[[T], bool],
    row: Callable[[T], JsonObject],
    total: int,
) -> web.StreamResponse:
    """A page of a list that has no names to go by; `offset` counts the rows that come before."""
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

    found = Found(behind(), row, limit_of(request))
    await maker.all(found.go_on)
    following = str(offset + len(found.rows)) if found.more else ""
    return await _send(request, maker, found, {"next": following, "total": total})


async def _send(
    request: web.Request, maker: Maker, found: Found[T], members: JsonObject
) -> web.StreamResponse:
    answer = {**members, "lookedAt": found.looked_at, "refresh": maker.refresh, "rows": found.rows}
    return await send_json(request, answer)


MAX_ID = 2**63


class EventPages:
    """The path of the events. Viewers hear from the feed that there are new ones."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._logs: EventLogs = sources.events

    def routes(self) -> list[web.RouteDef]:
        """The only path."""
        return [web.get(API + "/events", self.events)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Events of `rm` from the id `start` on, oldest first, each with its id.

        `type` picks a kind of thing, `q` is looked for in ids, message and what happened. `next` is
        the id to go on from. Where `instance` is not that of the events, they have started over.
        """
        log = self._logs.get(request.query.get("rm", ""))
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

        maker = Maker.of(request)
        found = Found(log.read(start, MAX_LOOKED_AT), row, limit_of(request))
        await maker.all(found.go_on)
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
    """One event; kinds are names."""
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

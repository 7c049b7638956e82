"""Past events for the page: from an id on, filtered by the viewer's search."""

from aiohttp import web

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.errors import shown
from licorne_server.events.log import EventLogs
from licorne_server.http.sources import Sources
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.pages import MAX_LOOKED_AT, Found, Maker, limit_of, number, wanted
from licorne_server.http.ui.paths import API
from licorne_server.http.units import milliseconds

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

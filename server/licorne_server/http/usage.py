"""Usage and limits of users and groups in REST (spec § 12.4)."""

from collections.abc import Callable

from aiohttp import web

from licorne_core.views import Views
from licorne_core.views.usage import QueueUsage, UsageReport
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    Rows,
    Verbatim,
    array_of,
    fragments,
    made,
    object_of,
    send_json,
    slice_for,
)
from licorne_server.http.units import partition_named, rest_form

_Show = Callable[[UsageReport], JsonObject]


class UsageReads:
    """The four paths below ``usage``."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views

    def routes(self) -> list[web.RouteDef]:
        """All users or groups, and each by its name."""
        usage = "/ws/v1/partition/{partition:[^/]+}/usage"
        return [
            web.get(usage + "/users", self.users),
            web.get(usage + "/user/{name:[^/]+}", self.user),
            web.get(usage + "/groups", self.groups),
            web.get(usage + "/group/{name:[^/]+}", self.group),
        ]

    async def users(self, request: web.Request) -> web.StreamResponse:
        """Every user that has an application."""
        return await self._all(request, "user", _user)

    async def user(self, request: web.Request) -> web.StreamResponse:
        """One user."""
        return await self._one(request, "user", _user)

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """Every group that an application counts for."""
        return await self._all(request, "group", _group)

    async def group(self, request: web.Request) -> web.StreamResponse:
        """One group."""
        return await self._one(request, "group", _group)

    async def _all(self, request: web.Request, kind: str, show: _Show) -> web.StreamResponse:
        partition = partition_named(self._views, request.match_info["partition"])

        def row(report: UsageReport | None) -> JsonObject | None:
            return None if report is None else show(report)

        async with slice_for(request):
            names = self._views.usage_names_in_order(partition, kind)
        return await send_json(request, Rows(self._views.usages(partition, kind, names), row))

    async def _one(self, request: web.Request, kind: str, show: _Show) -> web.StreamResponse:
        partition = partition_named(self._views, request.match_info["partition"])
        steps = self._views.usage(partition, kind, request.match_info["name"])
        return await send_json(request, made(steps, show))


def _user(report: UsageReport) -> JsonObject:
    return {
        "userName": report.name,
        "groups": object_of((app_id, group) for app_id, group in report.groups.items() if group),
        "queues": Verbatim(fragments(_queue(report.queues))),
    }


def _group(report: UsageReport) -> JsonObject:
    return {
        "groupName": report.name,
        "applications": array_of(report.groups),
        "queues": Verbatim(fragments(_queue(report.queues))),
    }


def _queue(usage: QueueUsage) -> JsonObject:
    return {**_usage(usage), "children": Rows(usage.children, _queue)}


_usage = rest_form(
    QueueUsage,
    {
        "queuePath": "path",
        "resourceUsage": "allocated",
        "runningApplications": ("applications", array_of),
        "maxResources": "max",
    },
    without="children",
)

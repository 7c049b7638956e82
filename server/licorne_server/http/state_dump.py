"""Everything that REST shows in one answer, and what the RMs add to it (spec § 12.5)."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from licorne_core.errors import NotFound
from licorne_core.reports import PartitionReport, RmReport
from licorne_core.views import Views
from licorne_server.config_thread import Origin
from licorne_server.convert_out import nanoseconds
from licorne_server.http import json_apps, json_cluster, json_config, json_nodes, json_queues
from licorne_server.http.dashboard import history_of_applications, history_of_containers
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    Rows,
    Verbatim,
    reader_of,
    send_json,
    slice_for,
)
from licorne_server.http.units import rest_name, rms_named

STATES = ("active", "completed", "rejected")


class DumpReads:
    """The state dump. Its older path leads to it (`debug.py`)."""

    def __init__(self, sources: Sources) -> None:
        """Dump these."""
        self._sources = sources
        self._busy = False

    def routes(self) -> list[web.RouteDef]:
        """The only path."""
        return [web.get("/debug/fullstatedump", self.dump)]

    async def dump(self, request: web.Request) -> web.StreamResponse:
        """The state of all RMs, or of the one that `rm` names; one dump at a time."""
        if self._busy:
            raise web.HTTPServiceUnavailable(text="a state dump is being sent already")
        self._busy = True
        try:
            return await send_json(request, await self._content(request))
        finally:
            self._busy = False

    async def _content(self, request: web.Request) -> JsonObject:
        """The dump; all that has to be waited for comes first."""
        sources, views = self._sources, self._sources.views
        asked = rms_named(views, request.query.get("rm", ""))
        states = await asyncio.gather(*(sources.rm_state(rm.rm_id) for rm in asked))
        configs = [await self._config(rm, reader_of(request)) for rm in asked]
        async with slice_for(request):
            return self._parts(asked, states, configs)

    def _parts(
        self, asked: Sequence[RmReport], states: Sequence[str], configs: Sequence[str]
    ) -> JsonObject:
        """The dump of these RMs, whose lists are read while it is sent."""
        sources, views = self._sources, self._sources.views
        known = {rm.rm_id for rm in asked}
        partitions = [report for report in views.partitions() if report.rm_id in known]
        names = [report.name for report in partitions]
        return {
            "timestamp": nanoseconds(sources.now()),
            "logLevel": sources.log_level.upper(),
            "rmDiagnostics": _by_rm(asked, states),
            "config": _by_rm(asked, configs),
            "eventStreams": [_event_streams(sources, rm) for rm in asked],
            "clusterInfo": json_cluster.clusters(views, sources.started_time, names),
            "partitions": json_cluster.partitions(views, names),
            "placementRules": Rows(partitions, partial(_rules, views)),
            "queues": Rows(partitions, partial(_queues, views)),
            "nodes": Rows(partitions, partial(_nodes, views)),
            "applications": Rows(_applications(views, partitions), _application),
            "appHistory": history_of_applications(sources.history),
            "containerHistory": history_of_containers(sources.history),
        }

    async def _config(self, rm: RmReport, party: str) -> str:
        """The configuration as JSON, made in a thread because it may be large."""
        return await self._sources.config_thread.run(
            Origin(party), lambda: json.dumps(json_config.config_json(rm), separators=(",", ":"))
        )


def _by_rm(rms: Iterable[RmReport], documents: Iterable[str]) -> Verbatim:
    """An object with a JSON document for each RM."""
    pieces = ["{"]
    for rm, document in zip(rms, documents, strict=True):
        pieces += ["," if len(pieces) > 1 else "", json.dumps(rm.rm_id), ":", document]
    return Verbatim([*pieces, "}"])


def _event_streams(sources: Sources, rm: RmReport) -> JsonObject:
    try:
        readers = sources.events.get(rm.rm_id).watchers
    except NotFound:
        readers = 0  # it has unregistered meanwhile
    return {"rmId": rm.rm_id, "readers": readers}


def _rules(views: Views, report: PartitionReport) -> JsonObject:
    rules = json_cluster.placement_rules(views.placement(report.name))
    return {"partition": rest_name(views, report.name), "rules": rules}


def _queues(views: Views, report: PartitionReport) -> JsonObject:
    return json_queues.queue_tree(views, report.name, "root")


def _nodes(views: Views, report: PartitionReport) -> JsonObject:
    nodes = json_nodes.nodes(views, report.name)
    return {"partitionName": rest_name(views, report.name), "nodesInfo": nodes}


def _applications(
    views: Views, partitions: list[PartitionReport]
) -> Iterator[tuple[Callable[[Any], JsonObject | None], Any]]:
    """The applications of all states, each with the function that makes its row."""
    for report in partitions:
        for state in STATES:
            try:
                rows = json_apps.applications(views, report.name, state=state)
            except NotFound:
                break  # the partition has gone meanwhile
            for name in rows.items:
                yield rows.to_json, name


def _application(item: tuple[Callable[[Any], JsonObject | None], Any]) -> JsonObject | None:
    to_json, name = item
    return to_json(name)

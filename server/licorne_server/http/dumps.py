"""State dumps: all REST reads in one document, with the RMs' own parts (spec § 12.5).

It is served over HTTP and over gRPC; there is one dump at a time for all callers.

Also here:

* The state dump under its newer and its older path (spec § 12.5).
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.configurations.thread import Origin
from licorne_server.http import json_apps, json_cluster, json_config, json_nodes, json_queues
from licorne_server.http.dashboard import history_of_applications, history_of_containers
from licorne_server.http.sources import Sources
from licorne_server.http.stream import JsonObject, Rows, Verbatim, fragments, reader_of, send, sliced
from licorne_server.http.units import rest_name, rms_named
from licorne_server.wire.responses import nanoseconds

STATES = ("active", "completed", "rejected")


class DumpInProgress(Exception):
    """Another caller's dump is under way."""

    def __init__(self) -> None:
        """Make the error with its fixed reason."""
        super().__init__("a state dump is being sent already")


class StateDumps:
    """Makes dumps, one at a time."""

    def __init__(self, sources: Sources) -> None:
        """Dump these sources."""
        self._sources = sources
        self._busy = False

    @asynccontextmanager
    async def dump(self, rm_id: str, peer: str) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """The dump of all RMs, or of one, in chunks of UTF-8 that are made as they are read.

        Raises:
            DumpInProgress: another caller's is under way.
            NotFound: that RM is not registered.
        """
        if self._busy:
            raise DumpInProgress
        self._busy = True
        try:
            content = await self._content(rm_id, peer)
            async with aclosing(sliced(fragments(content), self._sources.time_slices, peer)) as chunks:
                yield chunks
        finally:
            self._busy = False

    async def _content(self, rm_id: str, peer: str) -> JsonObject:
        """The dump; all that has to be waited for comes first."""
        sources, views = self._sources, self._sources.views
        asked = rms_named(views, rm_id)
        states = await asyncio.gather(*(sources.rm_state(rm.rm_id) for rm in asked))
        configs = [await self._config(rm, peer) for rm in asked]
        async with sources.time_slices.slice(peer):
            return self._parts(asked, states, configs)

    def _parts(self, asked: Sequence[RmReport], states: Sequence[str], configs: Sequence[str]) -> JsonObject:
        """The dump of these RMs, whose lists are read while it is sent."""
        sources, views = self._sources, self._sources.views
        names = list(chain.from_iterable(rm.partitions for rm in asked))
        return {
            "timestamp": nanoseconds(sources.now()),
            "logLevel": sources.log_level().upper(),
            "rmDiagnostics": _by_rm(asked, states),
            "config": _by_rm(asked, configs),
            "eventStreams": [_event_streams(sources, rm) for rm in asked],
            "clusterInfo": json_cluster.clusters(views, sources.started_time, names),
            "partitions": json_cluster.partitions(views, names),
            "placementRules": Rows(names, partial(_rules, views)),
            "queues": Rows(names, partial(_queues, views)),
            "nodes": Rows(names, partial(_nodes, views)),
            "applications": Rows(_applications(views, names), _application),
            "appHistory": history_of_applications(sources.history),
            "containerHistory": history_of_containers(sources.history),
        }

    async def _config(self, rm: RmReport, peer: str) -> str:
        """The configuration as JSON, made in a thread because it may be large."""
        return await self._sources.config_thread.run(Origin(peer), partial(json_config.config_json, rm))


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


def _rules(views: Views, partition: PartitionName) -> JsonObject:
    rules = json_cluster.placement_rules(views.placement(partition))
    return {"partition": rest_name(views, partition), "rules": rules}


def _queues(views: Views, partition: PartitionName) -> JsonObject:
    return json_queues.queue_tree(views, partition, "root")


def _nodes(views: Views, partition: PartitionName) -> JsonObject:
    nodes = json_nodes.nodes(views, partition)
    return {"partitionName": rest_name(views, partition), "nodesInfo": nodes}


_Row = tuple[Callable[[Any], JsonObject | None], Any]


def _applications(views: Views, partitions: list[PartitionName]) -> Iterator[_Row | None]:
    """The applications of all states, each with the function that makes its row.

    There is a None for each partition: very many of them may have none.
    """
    for partition in partitions:
        yield None
        for state in STATES:
            try:
                rows = json_apps.applications(views, partition, state=state)
            except NotFound:
                break  # the partition has gone meanwhile
            for name in rows.items:
                yield rows.to_json, name


def _application(item: _Row | None) -> JsonObject | None:
    if item is None:
        return None
    to_json, name = item
    return to_json(name)


JSON = "application/json; charset=utf-8"


class DumpReads:
    """Answers with the document of `StateDumps`. Its older path leads to it (`debug.py`)."""

    def __init__(self, dumps: StateDumps) -> None:
        """There is one dump at a time, over gRPC as well."""
        self._dumps = dumps

    def routes(self) -> list[web.RouteDef]:
        """The only path."""
        return [web.get("/debug/fullstatedump", self.dump)]

    async def dump(self, request: web.Request) -> web.StreamResponse:
        """The state of all RMs, or of the one that `rm` names."""
        try:
            async with self._dumps.dump(request.query.get("rm", ""), reader_of(request)) as chunks:
                return await send(request, JSON, chunks)
        except DumpInProgress as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None

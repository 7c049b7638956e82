"""State dumps, and the state of the process itself, for operators (spec §§ 12.4, 12.5).

A state dump has all REST reads in one document, and a part from each RM. It is served over HTTP and
over gRPC, to one caller at a time.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import chain
from types import FrameType
from typing import Any

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.http import json_apps, json_cluster, json_config
from licorne_server.http.json_cluster import history_of_applications, history_of_containers
from licorne_server.http.places import DUMP, DUMP_SECONDS
from licorne_server.http.stream import (
    BY_MEMBER,
    JsonObject,
    Rows,
    Verbatim,
    enclosed,
    encode,
    fragments,
    reader_of,
    send,
    send_bytes,
    sliced,
)
from licorne_server.http.units import rest_name, rms_named
from licorne_server.reads.members import OK, Members, Unreachable
from licorne_server.reads.sources import SOURCES, DumpInProgress, Sources
from licorne_server.store.configurations.thread import Origin
from licorne_server.wire.responses import nanoseconds

STATES = ("active", "completed", "rejected")


class StateDumps:
    """Makes the dumps of `Dumps`, in the forms of REST."""

    def __init__(self, sources: Sources) -> None:
        """Dump the state of `sources`."""
        self._sources = sources
        self._busy = False

    @asynccontextmanager
    async def dump(
        self, rm_id: str, peer: str, *, alone: bool = False
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """See `Dumps.dump`."""
        if self._busy:
            raise DumpInProgress
        self._busy = True
        try:
            content = await self._content(rm_id, peer)
            async with aclosing(sliced(fragments(content), self._sources.time_slices, peer)) as chunks:
                members = None if rm_id or alone else self._sources.members
                if members is None:
                    yield chunks
                else:
                    async with aclosing(_with_others(chunks, members)) as all_chunks:
                        yield all_chunks
        finally:
            self._busy = False

    async def _content(self, rm_id: str, peer: str) -> JsonObject:
        """The content of a dump; its lists are read later, while it is sent."""
        sources, views = self._sources, self._sources.views
        asked = rms_named(views, rm_id)
        states = await asyncio.gather(*(sources.rm_state(rm.rm_id) for rm in asked))
        configs = [await self._config(rm, peer) for rm in asked]
        async with sources.time_slices.slice(peer):
            return self._parts(asked, states, configs)

    def _parts(self, asked: Sequence[RmReport], states: Sequence[str], configs: Sequence[str]) -> JsonObject:
        """The dump of these RMs, with the part that each has sent. Its lists are read while it is sent."""
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
            "queues": Rows(names, partial(json_cluster.queue_tree, views)),
            "nodes": Rows(names, partial(_nodes, views)),
            "applications": Rows(_applications(views, names), lambda row: row[0](row[1])),
            "appHistory": history_of_applications(sources.history),
            "containerHistory": history_of_containers(sources.history),
        }

    async def _config(self, rm: RmReport, peer: str) -> str:
        """The configuration as JSON, made in a thread because it may be large."""
        return await self._sources.config_thread.run(Origin(peer), partial(json_config.config_json, rm))


async def _with_others(chunks: AsyncGenerator[bytes, None], members: Members) -> AsyncGenerator[bytes, None]:
    """The dump of this member, followed inside the same document by the dumps of the others.

    Members that do not answer are named. If an answer ends in the middle, the whole dump ends there.
    """
    held = b""
    async for chunk in chunks:
        if held:
            yield held
        held = chunk
    yield held.removesuffix(b"}") + b',"members":{'
    missing, separator = [], ""
    for member in members.others():
        begun = False
        try:
            async with members.answer(member, DUMP, members.own_right, patience=DUMP_SECONDS) as answer:
                if answer.status != OK:
                    raise Unreachable(member, f"answers with the status {answer.status}")
                async with aclosing(answer.chunks()) as others:
                    async for chunk in others:
                        yield chunk if begun else f"{separator}{encode(member.name)}:".encode() + chunk
                        begun, separator = True, ","
        except Unreachable as error:
            if begun:
                raise
            missing.append({"name": member.name, "reason": str(error)})
    yield f'}},"missingMembers":{encode(missing)}}}'.encode()


def _by_rm(rms: Iterable[RmReport], documents: Iterable[str]) -> Verbatim:
    """An object with a JSON document for each RM."""
    members = (f"{encode(rm.rm_id)}:{text}" for rm, text in zip(rms, documents, strict=True))
    return Verbatim(enclosed("{", members, "}"))


def _event_streams(sources: Sources, rm: RmReport) -> JsonObject:
    try:
        readers = sources.events.get(rm.rm_id).watchers
    except NotFound:
        readers = 0  # the RM has unregistered meanwhile
    return {"rmId": rm.rm_id, "readers": readers}


def _rules(views: Views, partition: PartitionName) -> JsonObject:
    rules = json_cluster.placement_rules(views.placement(partition))
    return {"partition": rest_name(views, partition), "rules": rules}


def _nodes(views: Views, partition: PartitionName) -> JsonObject:
    nodes = json_apps.nodes(views, partition)
    return {"partitionName": rest_name(views, partition), "nodesInfo": nodes}


_Row = tuple[Callable[[Any], JsonObject | None], Any]


def _applications(views: Views, partitions: list[PartitionName]) -> Iterator[_Row | None]:
    """The applications of all states, each with the function that encodes its row.

    Yields a None for each partition, so that its reader can pause even where no partition has applications.
    """
    for partition in partitions:
        yield None
        for state in STATES:
            try:
                rows = json_apps.applications(views, partition, state=state)
            except NotFound:
                break  # the partition was removed meanwhile
            for name in rows.items:
                yield None if name is None else (rows.to_json, name)


JSON = "application/json; charset=utf-8"


async def dump(dumps: StateDumps, request: web.Request) -> web.StreamResponse:
    """The state of all RMs, or of the RM in the parameter `rm` of the URL."""
    try:
        alone = BY_MEMBER in request
        async with dumps.dump(request.query.get("rm", ""), reader_of(request), alone=alone) as chunks:
            return await send(request, JSON, chunks)
    except DumpInProgress as error:
        raise web.HTTPServiceUnavailable(text=str(error)) from None


Place = tuple[str, int, str]
"""File, line and function."""

NAMES = 5
"""Maximum number of waiting tasks that are named for one place."""

DEEPEST = 100
"""Maximum number of frames that are shown of one stack."""


def stacks() -> Iterator[str]:
    """All stacks as text, in pieces: first tasks, grouped by the place at which they wait, then threads.

    An empty piece precedes the piece of each task. Tasks are read one by one, at different moments.
    """
    together: dict[tuple[Place, ...], list[str]] = {}
    for task in asyncio.all_tasks():
        if not task.done():
            together.setdefault(tuple(_awaited(task.get_coro())), []).append(task.get_name())
        yield ""
    for where, names in sorted(together.items(), key=lambda item: (-len(item[1]), item[1][0])):
        more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
        kind = "task" if len(names) == 1 else "tasks"
        yield f"{len(names)} {kind}: {', '.join(sorted(names)[:NAMES])}{more}\n{_lines(where)}\n"
    known = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {known.get(ident, ident)}\n{_lines(called(frame))}\n"


def called(frame: FrameType | None) -> Iterator[Place]:
    """The places of a stack, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back


def _awaited(coroutine: Any) -> Iterator[Place]:
    """Places of a coroutine and of the coroutines that it awaits, the outermost first."""
    for _ in range(DEEPEST):
        for kind in ("cr", "ag", "gi"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
                coroutine = getattr(coroutine, f"{kind}_await", None) or getattr(
                    coroutine, f"{kind}_yieldfrom", None
                )
                break
        else:
            return


def _lines(places: Any) -> str:
    shown = [f"    {name} at {file}:{line}\n" for file, line, name in places]
    more = [f"    and {len(shown) - DEEPEST} more\n"] if len(shown) > DEEPEST else []
    return "".join([*shown[:DEEPEST], *more])


TEXT = "text/plain; charset=utf-8"

MOVED = {
    "/ws/v1/stack": "/debug/stack",
    "/ws/v1/fullstatedump": DUMP,
}
"""Older paths, and the current path of each."""

INDEX = """\
/debug/pprof/goroutine  what every task and thread is doing, as /debug/stack has it
/debug/pprof/cmdline    the command line, its words ended by zero bytes
"""
OF_GO = ("allocs", "block", "heap", "mutex", "profile", "symbol", "threadcreate", "trace")
"""Profiles of Go's runtime, which Python does not have."""


def routes(dumps: StateDumps) -> list[web.RouteDef]:
    """All paths below ``debug``, and the older names of some of them."""
    return [
        web.get(DUMP, partial(dump, dumps)),
        web.get("/debug/stack", stack),
        web.get("/debug/pprof/goroutine", stack),
        web.get("/debug/pprof", index),
        web.get("/debug/pprof/", index),
        web.get("/debug/pprof/cmdline", command_line),
        *(web.get(f"/debug/pprof/{name}", of_go) for name in OF_GO),
        *(web.get(path, moved) for path in MOVED),
    ]


async def moved(request: web.Request) -> web.StreamResponse:
    """Redirect an older path."""
    query = f"?{request.query_string}" if request.query_string else ""
    raise web.HTTPMovedPermanently(MOVED[request.path] + query)


async def stack(request: web.Request) -> web.StreamResponse:
    """Stacks of all tasks and threads."""
    return await send(request, TEXT, sliced(stacks(), request.app[SOURCES].time_slices, reader_of(request)))


async def index(request: web.Request) -> web.StreamResponse:
    """List of the profiles."""
    return await send_bytes(request, TEXT, INDEX.encode())


async def command_line(request: web.Request) -> web.StreamResponse:
    """Command line of the process."""
    words = b"\0".join(word.encode(errors="replace") for word in sys.orig_argv)
    return await send_bytes(request, TEXT, words)


async def of_go(request: web.Request) -> web.StreamResponse:
    """Refuse a profile of Go's runtime."""
    name = request.path.rpartition("/")[2]
    raise web.HTTPNotImplemented(
        text=f"{name} is a profile of Go's runtime, and this is a Python process: "
        "see /debug/pprof/ for what there is; py-spy shows where it spends its time"
    )

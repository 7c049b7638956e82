"""No reader delays others: the pieces of its work do not grow with the amount of data."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from yarl import URL

from licorne.v1 import admin_pb2, session_pb2, state_pb2
from licorne_server.assembly.server import Server
from licorne_server.http.stream import accepts_gzip
from licorne_server.process.bounds import EventBounds, RmBounds
from licorne_server.testing.serving import VirtualClock
from licorne_server.wire.caps import MAX_RMS
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, connected, eventually, serving
from support.server.http_site import routes
from support.server.pieces import GROUP, PARTITIONS, USER, Pieces, counted_pieces, fill

pytestmark = pytest.mark.pure

SCALE = 10
"""The factor by which steps and slices are shorter than in service, so that fewer objects are many."""

STEPS = ("RUN", "STEP", "PART", "STEP_MEMBERS", "STEP_REQUESTS")
READERS = (
    "licorne_core.views",
    "licorne_core.extensions",
    "licorne_core.values.slices",
    "licorne_server.http",
    "licorne_server.reads.reasons",
    "licorne_server.reads.resource_hours",
)
"""The names of bounds for the objects that readers examine before a pause, and their modules."""

FEW, MANY = 60, 160
"""Both numbers are larger than a step, and leave the same remainder in the last step."""

MOST = 50_000
"""The maximum of lines in a piece: two or three milliseconds in the pure form."""

RMS = MANY // PARTITIONS
MANY_RMS = 128
"""Enough RMs to measure the lines for each, of which there may be `MAX_RMS`."""

GROWTH = 1.15
SLACK = 40
"""The factor, and the number of lines, by which the largest piece with `MANY` may exceed that with `FEW`."""

ADMIN, STATE = admin_pb2.DESCRIPTOR, state_pb2.DESCRIPTOR
PARTITION = "[rm1]default"

ACTS = {
    "UpdateConfiguration": "an act",
    "RollBackConfiguration": "an act",
    "ReloadConfiguration": "an act",
    "SetNodeSchedulable": "an act",
    "DrainNode": "an act",
    "StopApplication": "an act",
    "SetQueueStopped": "an act",
    "HoldApplication": "an act",
    "ChangeApplication": "an act",
    "SetLogLevel": "an act",
    "ForgetRm": "an act",
    "UpdateBudgets": "an act",
    "ReleaseBudget": "an act",
    "DrainMember": "an act",
    "GetBudgets": "it reads a text whose size was bounded when it came",
    "ListMembers": "it reads what members publish, whose size was bounded when it was read",
    "ValidateConfiguration": "its thread parses what was sent, and reads nothing else",
    "GetConfiguration": "it reads texts whose size was bounded when they came",
    "ListConfigurations": "it reads texts whose size was bounded when they came",
    "PlanConfiguration": "it is made in a process of its own",
    "PlanSubmission": "it is made in a process of its own",
    "PlanStart": "it is made in a process of its own",
    "Update": "an RM's own stream",
}
"""Methods that read nothing in the loop, with the reason."""

CALLS: dict[str, list[dict[str, Any]]] = {
    "GetServer": [{}],
    "GetHealth": [{}],
    "ListRms": [{"page_size": 10_000}],
    "ListPartitions": [{}],
    "ListQueues": [{"page_size": 10_000}],
    "ListApplications": [
        {"page_size": 10_000},
        {"queue": "root.one"},
        {"state": "completed"},
        {"state": "rejected"},
    ],
    "GetApplication": [{"application_id": "one", "limit": 10_000}],
    "ListNodes": [{"page_size": 10_000}],
    "Explain": [
        {"application_id": "one", "allocation_key": "like0"},
        {"application_id": "one", "allocation_key": "on0"},
        {"application_id": "one", "allocation_key": "beside"},
        {"application_id": "one"},
    ],
    "ListUsage": [
        {"kind": kind, **name}
        for kind, name_of in ((0, USER), (1, GROUP))
        for name in ({"page_size": 10_000}, {"name": name_of})
    ],
    "ListReservations": [{"page_size": 10_000}],
    "ListPreemptions": [{}, {"application_id": "one"}],
    "ListOutstanding": [{}],
    "ListCalendar": [{"page_size": 10_000}],
    "ListTopology": [{"page_size": 10_000}, {"shape": {"vcore": 1}}],
    "ListReasons": [{}, {"partition": PARTITION, "queue": "root.one"}],
    "ListResourceHours": [{"by": by, "page_size": 10_000} for by in ("queue", "user", "group")],
    "ListBudgets": [{"page_size": 10_000}],
    "ListEvents": [{"rm_id": "rm1"}],
    "WatchEvents": [{"rm_id": "rm1", "start": 0}],
    "GetLogLevels": [{}],
    "DumpState": [{}],
}
"""Requests of every method that reads."""

VALUES = {
    "partition": [PARTITION],
    "queue": ["root.one", "root"],
    "app": ["one"],
    "node": ["big", "n0"],
    "state": ["active", "completed", "rejected"],
    "user": [USER],
    "group": [GROUP],
    "usage": [f"user/{USER}"],
}
"""The values of parameters in paths: the last one in a path takes each value, others the first."""

OF_KIND = {"user/{name}": "user/{user}", "group/{name}": "group/{group}", "{kind}/{name}": "{usage}"}
"""Names that belong to a kind, which precedes them in a path."""

LIST = ["limit=500"]
QUERIES: dict[str, list[str]] = {
    "/ws/v1/partition/{partition}/reasons": ["", "queue=root.one"],
    "/ws/v1/resource-hours": ["", "by=user"],
    "/ws/v1/events/batch": ["rm=rm1&count=10000"],
    "/ws/v1/events/stream": ["rm=rm1&count=10000&start=0"],
    "/debug/fullstatedump": ["rm=rm1"],
    "/ws/v1/fullstatedump": ["rm=rm1"],
    "/ui/api/partition/{partition}/applications": [*LIST, "q=nobody", "sort=-pending.vcore"],
    "/ui/api/partition/{partition}/application/{app}/asks": [*LIST, "offset=1000000", "sort=-priority"],
    "/ui/api/partition/{partition}/application/{app}/allocations": LIST,
    "/ui/api/partition/{partition}/nodes": [*LIST, "limit=500&state=reserved"],
    "/ui/api/partition/{partition}/usage": [*LIST, "kind=group"],
    "/ui/api/partition/{partition}/reservations": [*LIST, "sort=time"],
    "/ui/api/partition/{partition}/calendar": LIST,
    "/ui/api/partition/{partition}/node/{node}/allocations": [*LIST, "sort=-priority"],
    "/ui/api/partition/{partition}/history": ["span=day", "queue=root.one"],
    "/ui/api/partition/{partition}/application/{app}/standing": ["key=like0"],
    "/ui/api/partition/{partition}/application/{app}/explain": ["key=like0", "key=beside"],
    "/ui/api/partition/{partition}/topology": ["", "shape=vcore=1"],
    "/ui/api/config": ["rm=rm1"],
    "/ui/api/config/revisions": ["rm=rm1"],
    "/ui/api/config/revision": ["rm=rm1"],
    "/ui/api/reasons": ["", f"partition={PARTITION}"],
    "/ui/api/search": ["q=nobody", "q=1"],
    "/ui/api/events": ["rm=rm1", "rm=rm1&q=nobody"],
}
"""Queries of paths that need one, or that read more with one."""

NOTHING = (
    "/debug/pprof",
    "/debug/stack",
    "/ws/v1/stack",
    "/ui/api/act",
    "/ui/static",
    "/ws/v1/validate-conf",
)
"""Paths below these read nothing of the core."""
NO_READS = frozenset({"/", "/ui", "/ui/"})

LIVE = ("/ui/api/feed", "/ws/v1/events/stream", "WatchEvents")
"""Paths whose answers have no end."""

ENOUGH = 20_000
"""The bytes of an endless answer after which the reader disconnects."""


@asynccontextmanager
async def _serving() -> AsyncIterator[Server]:
    """A server whose clock stands still and whose events do not expire."""
    bounds = RmBounds(events=EventBounds(seconds=1e9))
    async with serving(http=LOOPBACK, clock=VirtualClock(), rms=bounds, manage_gc=False) as server:
        yield server


async def _pieces_of_call(channel: grpc.aio.Channel, method: str, given: dict[str, Any]) -> Pieces:
    """The pieces of one call."""
    (found,) = [
        (service, wanted)
        for file in (ADMIN, STATE)
        for service in file.services_by_name.values()
        for wanted in service.methods
        if wanted.name == method
    ]
    service, wanted = found
    message: Any = GetMessageClass(wanted.input_type)
    request = message(**given).SerializeToString()
    path = f"/{service.full_name}/{method}"
    async with asyncio.timeout(PATIENCE):
        with counted_pieces(SCALE) as pieces:
            if wanted.server_streaming:
                stream: Any = channel.unary_stream(path)(request)
                size = 0
                async for answer in stream:
                    size += len(answer)
                    if method in LIVE and size > ENOUGH:
                        break
                stream.cancel()
            else:
                await channel.unary_unary(path)(request)
    return pieces


async def _pieces_of_path(server: Server, path: str) -> Pieces:
    """The pieces of one request over HTTP, on a connection of its own."""
    url = URL(f"http://{server.http_address}{path}", encoded=True)
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as client:
        with counted_pieces(SCALE) as pieces:
            async with client.get(url) as answer:
                assert answer.status == 200, (path, await answer.read())
                size = 0
                async for chunk in answer.content.iter_any():
                    size += len(chunk)
                    if path.startswith(LIVE) and size > ENOUGH:
                        break
        # The feed serves a closed viewer until its next heartbeat, which must not count for the next request.
        await eventually(lambda: all(task.get_name() != "the page's feed" for task in asyncio.all_tasks()))
    return pieces


async def _all_pieces(server: Server) -> dict[str, Pieces]:
    """The pieces of every request."""
    found: dict[str, Pieces] = {}
    async with connected(server) as channel:
        for method, requests in CALLS.items():
            for given in requests:
                found[f"{method} {given}"] = await _pieces_of_call(channel, method, given)
    for path in _paths_of(server):
        for asked in _requests_of(path):
            found[asked] = await _pieces_of_path(server, asked)
    return found


def _paths_of(server: Server) -> list[str]:
    """The paths of a server that read data, as in its router."""
    everything, *_ = routes(server)
    read = {path for _, path in everything if not path.startswith(NOTHING)}
    return sorted(read - NO_READS)


def _requests_of(path: str) -> list[str]:
    """The requests of a path."""
    filled = path
    for kind, named in OF_KIND.items():
        filled = filled.replace(kind, named)
    names = re.findall(r"{(\w+)}", filled)
    first = {name: VALUES[name][0] for name in names}
    last = [{**first, names[-1]: value} for value in VALUES[names[-1]]] if names else [{}]
    queries = [f"?{query}" if query else "" for query in QUERIES.get(path, [""])]
    return [filled.format(**values) + query for values in last for query in queries]


def test_every_method_has_its_requests() -> None:
    """Each method has requests at its bounds, or a reason why it reads nothing."""
    files = (ADMIN, STATE, session_pb2.DESCRIPTOR)
    services = [service for file in files for service in file.services_by_name.values()]
    methods = [method.name for service in services for method in service.methods]
    assert sorted(methods) == sorted([*ACTS, *CALLS])


async def test_every_path_has_its_requests() -> None:
    """Each path has requests at its bounds, and each request belongs to a path."""
    async with _serving() as server:
        read = _paths_of(server)
    assert set(QUERIES) <= set(read)


async def test_pieces_are_those_of_the_request() -> None:
    """The work of tasks that existed before is not counted, and that of new ones is."""

    async def read(times: int) -> None:
        for _ in range(times):
            accepts_gzip("br, deflate, gzip")
            await asyncio.sleep(0)

    other = asyncio.create_task(read(10**9))
    await asyncio.sleep(0)
    with counted_pieces() as pieces:
        await asyncio.create_task(read(3))
    other.cancel()
    assert set(pieces.functions) == {"stream.py:accepts_gzip"}
    assert pieces.lines == 3 * pieces.largest


@pytest.mark.slow
async def test_no_piece_of_a_reader_grows_with_the_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many more queues, nodes, applications, asks and partitions no piece is larger."""
    for module in [module for name, module in sys.modules.items() if name.startswith(READERS)]:
        for name in set(STEPS) & vars(module).keys():
            monkeypatch.setattr(module, name, getattr(module, name) // SCALE)
    async with _serving() as server:
        await fill(server, FEW, RMS)
        few = await _all_pieces(server)
        await fill(server, MANY, RMS, first=FEW)
        many = await _all_pieces(server)
    large = [
        f"{name}: {few[name].largest}, then {piece}"
        for name, piece in many.items()
        if piece.largest > min(MOST, GROWTH * few[name].largest + SLACK)
    ]
    assert not large, "\n".join(large)


@pytest.mark.slow
async def test_no_piece_of_a_reader_is_long_for_all_rms() -> None:
    """A piece that examines all RMs is short, with the maximum number of RMs.

    The test has a part of them, and proportionally fewer lines.
    """
    async with _serving() as server:
        await fill(server, PARTITIONS, MANY_RMS - 1)
        found = await _all_pieces(server)
    most = MOST * MANY_RMS // MAX_RMS
    large = [f"{name}: {piece}" for name, piece in found.items() if piece.largest > most]
    assert not large, "\n".join(large)

"""No reader keeps others waiting: what it does in one piece does not grow with what there is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from google.protobuf.message_factory import GetMessageClass
from yarl import URL

from licorne.v1 import admin_pb2, session_pb2, state_pb2
from licorne_server.process.rm_bounds import EventBounds, RmBounds
from licorne_server.serving.app import Server
from licorne_server.testing.virtual_clock import VirtualClock
from licorne_server.wire.caps import MAX_RMS
from support.peers.shim import LOOPBACK, connected, serving
from support.server.full_world import GROUP, PARTITIONS, USER, fill
from support.server.pieces import Pieces, counted_pieces

pytestmark = pytest.mark.pure

FEW, MANY = 600, 1_200
"""Both are more than any step takes together."""

MOST = 50_000
"""Lines of a piece: two or three milliseconds in the pure form."""

RMS = MANY // PARTITIONS

GROWTH = 1.25
SLACK = 100
"""By how much, and how many lines, the largest piece with `MANY` may be above that with `FEW`."""

ADMIN, STATE = admin_pb2.DESCRIPTOR, state_pb2.DESCRIPTOR
PARTITION = "[rm1]default"

ACTS = {
    "UpdateConfiguration": "an act",
    "RollBackConfiguration": "an act",
    "ReloadConfiguration": "an act",
    "SetNodeSchedulable": "an act",
    "StopApplication": "an act",
    "SetQueueStopped": "an act",
    "SetLogLevel": "an act",
    "ForgetRm": "an act",
    "ValidateConfiguration": "its thread parses what was sent, and reads nothing else",
    "GetConfiguration": "it reads texts whose size was bounded when they came",
    "ListConfigurations": "it reads texts whose size was bounded when they came",
    "PlanConfiguration": "it is made in a process of its own",
    "PlanSubmission": "it is made in a process of its own",
    "Update": "an RM's own stream",
}
"""Methods that read nothing in the loop, and why."""

CALLS: dict[str, list[dict[str, Any]]] = {
    "GetServer": [{}],
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
    "ListEvents": [{"rm_id": "rm1"}],
    "WatchEvents": [{"rm_id": "rm1", "start": 0}],
    "GetLogLevels": [{}],
    "DumpState": [{}],
}
"""Requests of every method that reads."""

_P = f"/ws/v1/partition/{PARTITION}"
_U = f"/ui/api/partition/{PARTITION}"
PATHS: dict[str, list[str]] = {
    "/livez": ["/livez"],
    "/readyz": ["/readyz"],
    "/metrics": ["/metrics"],
    "/ws/v1/metrics": ["/ws/v1/metrics"],
    "/ws/v1/clusters": ["/ws/v1/clusters"],
    "/ws/v1/config": ["/ws/v1/config"],
    "/ws/v1/partitions": ["/ws/v1/partitions"],
    "/ws/v1/partition/{partition}/placementrules": [f"{_P}/placementrules"],
    "/ws/v1/partition/{partition}/queues": [f"{_P}/queues"],
    "/ws/v1/partition/{partition}/queue/{queue}": [f"{_P}/queue/root", f"{_P}/queue/root.one"],
    "/ws/v1/partition/{partition}/preemptions": [f"{_P}/preemptions"],
    "/ws/v1/partition/{partition}/nodes": [f"{_P}/nodes"],
    "/ws/v1/partition/{partition}/node/{node}": [f"{_P}/node/big", f"{_P}/node/n0"],
    "/ws/v1/partition/{partition}/queue/{queue}/applications": [
        f"{_P}/queue/root.one/applications"
    ],
    "/ws/v1/partition/{partition}/queue/{queue}/applications/{state}": [
        f"{_P}/queue/root.one/applications/active"
    ],
    "/ws/v1/partition/{partition}/queue/{queue}/application/{app}": [
        f"{_P}/queue/root.one/application/one"
    ],
    "/ws/v1/partition/{partition}/applications/{state}": [
        f"{_P}/applications/{state}" for state in ("active", "completed", "rejected")
    ],
    "/ws/v1/partition/{partition}/application/{app}": [f"{_P}/application/one"],
    "/ws/v1/partition/{partition}/usage/users": [f"{_P}/usage/users"],
    "/ws/v1/partition/{partition}/usage/user/{name}": [f"{_P}/usage/user/{USER}"],
    "/ws/v1/partition/{partition}/usage/groups": [f"{_P}/usage/groups"],
    "/ws/v1/partition/{partition}/usage/group/{name}": [f"{_P}/usage/group/{GROUP}"],
    "/ws/v1/events/batch": ["/ws/v1/events/batch?rm=rm1&count=10000"],
    "/ws/v1/events/stream": ["/ws/v1/events/stream?rm=rm1&count=10000&start=0"],
    "/ws/v1/history/apps": ["/ws/v1/history/apps"],
    "/ws/v1/history/containers": ["/ws/v1/history/containers"],
    "/ws/v1/scheduler/node-utilizations": ["/ws/v1/scheduler/node-utilizations"],
    "/ws/v1/scheduler/healthcheck": ["/ws/v1/scheduler/healthcheck"],
    "/debug/fullstatedump": ["/debug/fullstatedump?rm=rm1"],
    "/ws/v1/fullstatedump": ["/ws/v1/fullstatedump?rm=rm1"],
    "/ui/api/feed": ["/ui/api/feed"],
    "/ui/api/partition/{partition}/applications": [
        f"{_U}/applications?limit=500",
        f"{_U}/applications?q=nobody",
    ],
    "/ui/api/partition/{partition}/application/{app}/asks": [
        f"{_U}/application/one/asks?limit=500",
        f"{_U}/application/one/asks?offset=1000000",
    ],
    "/ui/api/partition/{partition}/application/{app}/allocations": [
        f"{_U}/application/one/allocations?limit=500"
    ],
    "/ui/api/partition/{partition}/nodes": [
        f"{_U}/nodes?limit=500",
        f"{_U}/nodes?limit=500&state=reserved",
    ],
    "/ui/api/partition/{partition}/usage": [f"{_U}/usage?limit=500", f"{_U}/usage?kind=group"],
    "/ui/api/partition/{partition}/preemptions": [f"{_U}/preemptions"],
    "/ui/api/partition/{partition}/queue/{queue}": [f"{_U}/queue/root", f"{_U}/queue/root.one"],
    "/ui/api/partition/{partition}/application/{app}": [f"{_U}/application/one"],
    "/ui/api/partition/{partition}/application/{app}/explain": [
        f"{_U}/application/one/explain?key=like0",
        f"{_U}/application/one/explain?key=beside",
    ],
    "/ui/api/partition/{partition}/node/{node}": [f"{_U}/node/big", f"{_U}/node/n0"],
    "/ui/api/partition/{partition}/heat": [f"{_U}/heat"],
    "/ui/api/partition/{partition}/usage/{kind}/{name}": [f"{_U}/usage/user/{USER}"],
    "/ui/api/config": ["/ui/api/config?rm=rm1"],
    "/ui/api/search": ["/ui/api/search?q=nobody", "/ui/api/search?q=1"],
    "/ui/api/events": ["/ui/api/events?rm=rm1", "/ui/api/events?rm=rm1&q=nobody"],
}
"""Requests of every path that reads; paths as the router has them."""

NOTHING = ("/debug/pprof", "/debug/stack", "/ws/v1/stack", "/ui/static", "/ws/v1/validate-conf")
"""Below these nothing is read that the core knows."""
NO_READS = frozenset({"/", "/ui", "/ui/"})

LIVE = ("/ui/api/feed", "/ws/v1/events/stream", "WatchEvents")
"""They do not end by themselves."""

ENOUGH = 20_000
"""Bytes of these, behind which the reader goes away."""

PATIENCE = 120.0
"""Seconds after which an answer that does not end fails the test."""


@asynccontextmanager
async def _full(
    n: int, rms: int, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Server, list[str]]]:
    """A server with so many of everything, and its routes."""
    applications: list[web.Application] = []
    make = web.Application.__init__

    def noted(self: web.Application, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        applications.append(self)

    monkeypatch.setattr(web.Application, "__init__", noted)
    bounds = RmBounds(events=EventBounds(seconds=1e9))
    async with serving(http=LOOPBACK, clock=VirtualClock(), rms=bounds, manage_gc=False) as server:
        await fill(server, n, rms)
        (application,) = applications
        routes = {
            route.resource.canonical for route in application.router.routes() if route.resource
        }
        yield server, sorted(routes)


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
        with counted_pieces() as pieces:
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


async def _pieces_of_path(server: Server, client: aiohttp.ClientSession, path: str) -> Pieces:
    """The pieces of one request over HTTP."""
    async with asyncio.timeout(PATIENCE):
        with counted_pieces() as pieces:
            url = URL(f"http://{server.http_address}{path}", encoded=True)
            async with client.get(url) as answer:
                assert answer.status == 200, (path, await answer.read())
                size = 0
                async for chunk in answer.content.iter_any():
                    size += len(chunk)
                    if path.startswith(LIVE) and size > ENOUGH:
                        break
    return pieces


async def _all_pieces(n: int, rms: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Pieces]:
    """The largest piece of every request, in a world with so many of everything."""
    found: dict[str, Pieces] = {}
    async with (
        _full(n, rms, monkeypatch) as (server, routes),
        connected(server) as channel,
        aiohttp.ClientSession() as client,
    ):
        for method, requests in CALLS.items():
            for given in requests:
                found[f"{method} {given}"] = await _pieces_of_call(channel, method, given)
        read = [path for path in routes if not path.startswith(NOTHING) and path not in NO_READS]
        assert sorted(PATHS) == read, "every path that reads has its requests in PATHS"
        for paths in PATHS.values():
            for path in paths:
                found[path] = await _pieces_of_path(server, client, path)
    return found


def test_every_method_has_its_requests() -> None:
    """A method that is added says how it is read at its bounds, or why it reads nothing."""
    files = (ADMIN, STATE, session_pb2.DESCRIPTOR)
    services = [service for file in files for service in file.services_by_name.values()]
    methods = [method.name for service in services for method in service.methods]
    assert sorted(methods) == sorted([*ACTS, *CALLS])


@pytest.fixture(scope="module")
def pieces() -> dict[int, dict[str, Pieces]]:
    """The largest pieces that were found, by how much there was."""
    return {}


@pytest.mark.parametrize("n", [FEW, MANY])
async def test_no_piece_of_a_reader_grows_with_what_there_is(
    n: int, pieces: dict[int, dict[str, Pieces]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many queues, nodes, applications, asks and partitions make no piece larger."""
    found = pieces[n] = await _all_pieces(n, RMS, monkeypatch)
    few = pieces.get(FEW) or await _all_pieces(FEW, RMS, monkeypatch)
    large = [
        f"{name}: {few[name].largest}, then {piece}"
        for name, piece in found.items()
        if piece.largest > min(MOST, GROWTH * few[name].largest + SLACK)
    ]
    assert not large, "\n".join(large)


async def test_no_piece_of_a_reader_is_long_for_all_rms(monkeypatch: pytest.MonkeyPatch) -> None:
    """All RMs that there may be are looked at in one piece, which is a short one."""
    found = await _all_pieces(PARTITIONS, MAX_RMS - 1, monkeypatch)
    large = [f"{name}: {piece}" for name, piece in found.items() if piece.largest > MOST]
    assert not large, "\n".join(large)

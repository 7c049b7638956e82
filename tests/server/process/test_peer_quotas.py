"""Peers, which are addresses or tokens, with quotas of their own; and open files of both ports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import aiohttp
import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1.admin_pb2 import ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import WatchEventsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RESERVE, PeerBounds, peer_of
from licorne_server.store.configurations.thread import Origin
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, connected, serving
from support.peers.tls import Bearing

MINE, OPERATOR = ("token-of-" + who * 8 for who in "ab")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with the tokens of an RM and of an operator."""
    for name, token in (("mine", MINE), ("operator", OPERATOR)):
        (tmp_path / name).write_text(token)
    async with serving(
        http=LOOPBACK,
        rm_tokens={"mine": (tmp_path / "mine",)},
        operator_tokens=(tmp_path / "operator",),
    ) as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to it, without a token."""
    async with connected(server) as channel:
        yield channel


def bearing(channel: grpc.aio.Channel, token: str) -> Any:
    """The same connection, with a token."""
    return Bearing(channel, f"Bearer {token}")


async def test_validations_are_counted_by_token(server: Server, channel: grpc.aio.Channel) -> None:
    """While a validation of one peer waits, that of another peer on the same host is accepted."""
    go = Event()
    thread = server.config_thread
    busy = asyncio.create_task(thread.run(Origin("busy"), partial(go.wait, PATIENCE)))
    request = ValidateConfigurationRequest(config=DEFAULT_CONFIG)

    async def validate(token: str) -> bool:
        answer = await AdminStub(bearing(channel, token)).ValidateConfiguration(request)
        return bool(answer.allowed)

    other = asyncio.create_task(validate(OPERATOR))
    both = [asyncio.create_task(validate(MINE)) for _ in range(2)]
    try:
        [refused], [waits] = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(grpc.aio.AioRpcError, match="for validation waits to be read"):
            await refused
    finally:
        go.set()
    assert await busy
    assert await other
    assert await waits


async def test_watchers_of_one_token_count_together(server: Server, channel: grpc.aio.Channel) -> None:
    """A token has one number of watchers of an RM, over gRPC and HTTP together."""
    register = bearing(channel, MINE).unary_unary("/si.v1.Scheduler/RegisterResourceManager")
    extra = {"event.maxStreamsPerHost": "1"}
    request = si.RegisterResourceManagerRequest(rmID="mine", extraConfig=extra)
    await register(request.SerializeToString())
    url = f"http://{server.http_address}/ws/v1/events/stream?rm=mine"
    async with aiohttp.ClientSession() as client, AsyncExitStack() as streams:

        async def status(token: str) -> int:
            asked = client.get(url, headers={"Authorization": f"Bearer {token}"})
            return (await streams.enter_async_context(asked)).status

        assert [await status(token) for token in (MINE, OPERATOR, MINE)] == [200, 200, 503]
        watch = StateStub(bearing(channel, MINE)).WatchEvents(WatchEventsRequest(rm_id="mine"))
        with pytest.raises(grpc.aio.AioRpcError, match="at most 1 for peer"):
            await watch.read()


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_addresses_of_an_ipv6_network_are_one_peer(host: str, peer: str) -> None:
    """All addresses of an IPv6 network share one quota."""
    assert peer_of(host) == peer


@pytest.mark.parametrize(
    ("limit", "affordable"),
    [(256, (16, 32)), (1024, (688, 128)), (1 << 20, (4096, 256))],
)
def test_files_are_divided_between_the_ports(
    monkeypatch: pytest.MonkeyPatch, limit: int, affordable: tuple[int, int]
) -> None:
    """Under any limit of open files both ports together leave a reserve."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert PeerBounds().affordable() == affordable
    assert sum(affordable) <= limit - RESERVE

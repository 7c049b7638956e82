"""Calls that have not sent a message use no place of those in progress."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne_server.process.bounds import PeerBounds
from support.patience import PATIENCE
from support.peers.networks import END_HEADERS, HEADERS, RawHttp2, frame, header_block
from support.peers.shim import LOOPBACK, serving

pytestmark = pytest.mark.transport

PLACES, SHARE = 8, 4
HEALTH, STATE = "/grpc.health.v1.Health/Check", "/licorne.v1.State/ListRms"
BOUNDS = PeerBounds(
    calls=PLACES, calls_share=SHARE, watchers=PLACES, watchers_share=SHARE, first_message=PATIENCE
)


async def checked(channel: Any) -> None:
    """Query the health; returns it."""
    await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())


async def watched(channel: Any) -> None:
    """Watch the health; returns it."""
    await anext(aiter(health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())))


async def listed(channel: Any) -> None:
    """List RMs; returns them."""
    await channel.unary_unary(STATE)(b"")


@pytest.mark.parametrize("asks", [checked, watched, listed], ids=lambda asks: asks.__name__)
@pytest.mark.parametrize("path", [HEALTH, HEALTH.replace("Check", "Watch"), STATE])
async def test_silent_calls_block_no_complete_one(path: str, asks: Callable[[Any], Any]) -> None:
    """However many calls are opened without a message, of any service, a complete one is answered."""
    async with serving(http=LOOPBACK, peers=BOUNDS) as server, AsyncExitStack() as stack:
        silent = b"".join(
            frame(HEADERS, header_block(path), stream=stream, flags=END_HEADERS)
            for stream in range(1, 2 * SHARE + 3, 2)
        )
        for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            connection = await RawHttp2.open(server.grpc_address, source)
            stack.push_async_callback(connection.close)
            await connection.begin()
            await connection.send(silent)
            await connection.dealt_with()
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            await asks(channel)

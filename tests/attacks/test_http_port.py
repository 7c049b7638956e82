"""Connections of HTTP that are opened in any number, or never finish the head of a request."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest

from attacks.conftest import Check
from licorne_server.process.bounds import PeerBounds
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, connected, serving
from support.server.server_process import ServerProcess

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(stack: AsyncExitStack, address: str, source: str) -> Streams:
    """A connection from an address of this machine; it is closed with the stack."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))

    async def close() -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    stack.push_async_callback(close)
    return reader, writer


@pytest.mark.slow
@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
async def test_connections_of_one_host_leave_places_for_probes(others_are_served: Check, source: str) -> None:
    """A host that opens more connections than the server has files blocks no client, not even itself."""
    async with (
        ServerProcess(http="127.0.0.1:0", files=320) as server,
        AsyncExitStack() as stack,
    ):
        for _ in range(400):
            _, writer = await connect(stack, server.http, source)
            writer.write(b"GET /livez HTTP/1.1\r\n")
        await others_are_served(server)


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /livez HT", id="half a line"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nA", id="half a head"),
    ],
)
async def test_an_unfinished_head_is_closed(beginning: bytes) -> None:
    """A connection that does not finish the head of its request in time is closed."""
    bounds = PeerBounds(http_idle=0.05)
    async with serving(http=LOOPBACK, peers=bounds) as server, AsyncExitStack() as stack:
        reader, writer = await connect(stack, server.http_address, "127.0.0.1")
        writer.write(beginning)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""


async def test_idle_connections_are_closed_before_readers() -> None:
    """Of the host with most connections those without a request in progress are closed first."""
    bounds = PeerBounds(http_connections=8)
    async with serving(http=LOOPBACK, peers=bounds) as server, AsyncExitStack() as stack:
        async with connected(server) as channel:
            await Shim(channel).register()
        reader, writer = await connect(stack, server.http_address, "127.0.0.1")
        writer.write(b"GET /ws/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"InstanceUUID"), PATIENCE)
        idle = [await connect(stack, server.http_address, "127.0.0.1") for _ in range(20)]
        assert await asyncio.wait_for(idle[0][0].read(), PATIENCE) == b""
        async with connected(server) as channel:
            await Shim(channel).register()
        await asyncio.wait_for(reader.readuntil(b"the RM registered anew"), PATIENCE)

"""Streams and connections that are opened and then say nothing, or never finish what they say."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from attacks.conftest import Check
from support.peers.networks import HEADERS, PREFACE, RESET, SETTINGS, RawHttp2, frame, header_block
from support.peers.shim import eventually
from support.server.server_process import ServerProcess

STREAMS = 16
"""How many streams a connection may have at once."""

Opener = Callable[[ServerProcess], Awaitable[RawHttp2]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens connections from another address than that of the other tests; closes them at last."""
    async with AsyncExitStack() as stack:

        async def connect(server: ServerProcess) -> RawHttp2:
            connection = await RawHttp2.open(server.target)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


@pytest.mark.slow
async def test_silent_streams_of_one_peer_leave_places_for_others(
    server: ServerProcess, opened: Opener, others_are_served: Check
) -> None:
    """One peer that opens more silent streams than there are places shuts nobody else out."""
    connections = []
    for _ in range(600 // STREAMS):
        connection = await opened(server)
        await connection.begin()
        for number in range(STREAMS):
            await connection.call(2 * number + 1)
        connections.append(connection)
    # A stream that is refused is reset; those that have a place stay open.
    await eventually(lambda: sum(item.kinds.count(RESET) for item in connections) > STREAMS)
    await others_are_served(server)


@pytest.mark.slow
async def test_silent_stream_ends(opened: Opener) -> None:
    """A stream that says nothing is ended after the time that `--first-message` gives it."""
    async with ServerProcess("--first-message", "0.1") as server:
        connection = await opened(server)
        await connection.begin()
        await connection.call(1)
        await eventually(lambda: RESET in connection.kinds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(PREFACE[:10], id="half a preface"),
        pytest.param(PREFACE + frame(SETTINGS), id="no call"),
        pytest.param(
            PREFACE + frame(SETTINGS) + frame(HEADERS, header_block("/a/b")[:20], stream=1),
            id="unfinished headers",
        ),
    ],
)
async def test_connection_without_a_call_is_closed(opened: Opener, beginning: bytes) -> None:
    """A connection on which no call begins is closed after the time that `--idle` gives it."""
    async with ServerProcess("--idle", "0.2") as server:
        connection = await opened(server)
        await connection.send(beginning)
        await connection.ended()


@pytest.mark.slow
async def test_connections_of_one_host_leave_places_for_others(
    opened: Opener, others_are_served: Check
) -> None:
    """One host that opens far more connections than there may be shuts nobody else out."""
    async with ServerProcess("--max-connections", "32", http="127.0.0.1:0") as server:
        for _ in range(200):
            await (await opened(server)).begin()
        await others_are_served(server)


@pytest.mark.slow
async def test_probes_have_descriptors_of_their_own(opened: Opener, others_are_served: Check) -> None:
    """With few files to open, a host that takes all connections of gRPC leaves probes their own."""
    async with ServerProcess(http="127.0.0.1:0", files=320) as server:
        for _ in range(400):
            await (await opened(server)).begin()
        await others_are_served(server)

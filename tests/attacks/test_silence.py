"""Streams and connections that send nothing, or never complete a message."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from attacks.conftest import Check
from licorne_server.process.settings import GRPC, LOOP, served_by
from support.peers.networks import (
    DATA,
    END_HEADERS,
    HEADERS,
    PREFACE,
    RESET,
    SETTINGS,
    RawHttp2,
    frame,
    header_block,
)
from support.peers.shim import eventually
from support.server.server_process import ServerProcess
from support.server.settings_file import settings_file

STREAMS = 16
"""The maximum of concurrent streams of a connection."""

TRANSPORTS = sorted({GRPC, served_by(LOOP)})
UNARY, WATCH = "/licorne.v1.State/ListRms", "/licorne.v1.State/WatchEvents"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
HALF = b"\0\0\1\0\0" + bytes(1_000)
"""The begin of a message of 64 KiB."""

Opener = Callable[[ServerProcess], Awaitable[RawHttp2]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens connections from an address other than that of other tests, and closes them at the end."""
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
    """A peer that opens more silent streams than there are places blocks no other peer."""
    connections = []
    for _ in range(600 // STREAMS):
        connection = await opened(server)
        await connection.begin()
        for number in range(STREAMS):
            await connection.call(2 * number + 1)
        connections.append(connection)
    # A refused stream is reset; the accepted ones stay open.
    await eventually(lambda: sum(item.kinds.count(RESET) for item in connections) > STREAMS)
    await others_are_served(server)


async def ends_unfinished(connection: RawHttp2, path: str) -> None:
    """Make a call whose message is never completed, and wait until the server has ended it."""
    await connection.begin()
    opening = frame(HEADERS, header_block(path), stream=1, flags=END_HEADERS)
    await connection.send(opening + frame(DATA, HALF, stream=1))
    await eventually(lambda: RESET in connection.kinds)


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_unfinished_request_ends(opened: Opener, transport: str) -> None:
    """A call with an incomplete request is ended after the time of `bounds.first_message`."""
    flags = settings_file(bounds={"first_message": 0.1}, server={"transport": transport})
    async with ServerProcess(*flags) as server:
        for path in (UNARY, WATCH, REFLECTION, "/grpc.health.v1.Health/Check"):
            await ends_unfinished(await opened(server), path)


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_without_a_token_ends_before_its_request(
    opened: Opener, tmp_path: Path, transport: str
) -> None:
    """A call without a token is ended at once, before its request is complete."""
    token = tmp_path / "token"
    token.write_text("a-long-secret-of-an-operator")
    flags = ("--operator-token", str(token), "--insecure", "--transport", transport)
    async with ServerProcess(*flags) as server:
        for path in (UNARY, WATCH):
            await ends_unfinished(await opened(server), path)


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
async def test_a_connection_without_a_call_is_closed(opened: Opener, beginning: bytes) -> None:
    """A connection without a call is closed after the time of `bounds.idle`."""
    async with ServerProcess(*settings_file(bounds={"idle": 0.2})) as server:
        connection = await opened(server)
        await connection.send(beginning)
        await connection.ended()


@pytest.mark.slow
async def test_connections_of_one_host_leave_places_for_others(
    opened: Opener, others_are_served: Check
) -> None:
    """A host that opens far more connections than allowed blocks no other host."""
    flags = settings_file(bounds={"max_connections": 32})
    async with ServerProcess(*flags, http="127.0.0.1:0") as server:
        for _ in range(200):
            await (await opened(server)).begin()
        await others_are_served(server)


@pytest.mark.slow
async def test_probes_have_file_descriptors(opened: Opener, others_are_served: Check) -> None:
    """With few descriptors, a host that uses all gRPC connections leaves descriptors for probes."""
    async with ServerProcess(http="127.0.0.1:0", files=320) as server:
        for _ in range(400):
            await (await opened(server)).begin()
        await others_are_served(server)

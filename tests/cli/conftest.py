"""Fixtures of all tests of commands: a server with a connection, and a server with two RMs."""

from collections.abc import AsyncIterator

import grpc
import pytest

from licorne_server.assembly.server import Server
from support.peers.shim import connected, serving
from support.peers.town import Shell, Town, busy_town


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to the server."""
    async with connected(server) as channel:
        yield channel


@pytest.fixture
async def town(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Town]:
    """Two RMs on one server, and a shell for commands."""
    async with busy_town() as (target, blue, green):
        yield Town(Shell(target, capsys), blue, green)

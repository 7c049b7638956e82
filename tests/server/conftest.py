"""A server and a connection to it, for the tests over the wire."""

from collections.abc import AsyncIterator

import grpc
import pytest

from licorne_server.app import Server
from support.shim import RawSession, Shim, connected, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to it."""
    async with connected(server) as channel:
        yield channel


@pytest.fixture
def shim(channel: grpc.aio.Channel) -> Shim:
    """An RM over `si.v1`."""
    return Shim(channel)


@pytest.fixture
def session(channel: grpc.aio.Channel) -> RawSession:
    """An RM over `Session.Update`."""
    return RawSession(channel)

"""Two members: b serves all RMs, and all clients call a."""

from collections.abc import AsyncIterator

import grpc
import pytest

from licorne_server.assembly.server import Server
from support.patience import PATIENCE
from support.peers.members import Deployment, members
from support.peers.shim import connected


@pytest.fixture
async def two() -> AsyncIterator[Deployment]:
    """Members a and b."""
    async with members("a", "b", drain=PATIENCE) as deployment:
        deployment.home = "b"
        yield deployment


@pytest.fixture
def server(two: Deployment) -> Server:
    """The member that serves the RM."""
    return two.servers["b"]


@pytest.fixture
async def channel(two: Deployment) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to the other member."""
    async with connected(two.servers["a"]) as channel:
        yield channel

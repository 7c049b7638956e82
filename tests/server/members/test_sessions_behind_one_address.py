"""The tests of sessions, on a worker that neither serves their RM nor can redirect them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# The folder of the tests, not that of the product.
from server.rms.test_session import *  # noqa: F403, TID251
from support.peers.members import Deployment, members


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Deployment]:
    """Workers a and b of one host; all RMs are served by b."""
    async with members("a", "b", sockets=tmp_path) as deployment:
        deployment.home = "b"
        yield deployment

"""`licorne members` against running members."""

from collections.abc import AsyncIterator

import pytest

from licorne_server.assembly.server import Server
from support.members import deployment, table_of
from support.peers.shim import Shim, connected
from support.peers.town import Shell


@pytest.fixture
async def members() -> AsyncIterator[list[Server]]:
    """Two members, and an RM on the first one."""
    async with deployment("a", "b") as servers, connected(servers[0]) as channel:
        await Shim(channel, "rm").register()
        yield servers


async def test_outdated_members_are_marked(members: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    """A line on stderr has the reason why the list may be outdated."""
    table_of(members).answers = False
    result = await Shell(members[0].grpc_address, capsys)("members")
    assert result.err == "this may be out of date: the store does not answer\n"
    assert len(result.rows) == 3

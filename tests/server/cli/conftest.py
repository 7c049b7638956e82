"""A busy server for every test that wants one."""

from collections.abc import AsyncIterator

import pytest

from support.peers.town import Town, busy_town


@pytest.fixture
async def town(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Town]:
    """Two RMs on one server, and a shell to look at them."""
    async with busy_town(capsys) as town:
        yield town

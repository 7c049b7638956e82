"""An RM on a server whose clock the test moves."""

from collections.abc import AsyncIterator

import pytest

from support.served_rm import ServedRm, served_rm


@pytest.fixture
async def rm() -> AsyncIterator[ServedRm]:
    """An RM that has not registered yet."""
    async with served_rm() as rm:
        yield rm

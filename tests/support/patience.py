"""How long tests wait, and counts of the loop's turns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PATIENCE = 240.0
"""Seconds after which a test fails if an expected event is missing. No test depends on this time: even a busy
machine is far quicker. The limit of a whole test is longer, because its failure does not name the event
(`timeout` in pyproject.toml)."""


@asynccontextmanager
async def loop_turns() -> AsyncIterator[Callable[[], int]]:
    """The number of turns of the loop since the block began."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    yield lambda: turns
    task.cancel()

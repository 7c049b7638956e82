"""Pacing of work on received messages: one part at a time, then a pause for others.

Work is counted in bytes. A field that is looked at by itself counts as many bytes, because tiny
fields cost far more for their bytes than long texts do.
"""

import asyncio

PART = 64 * 1024
"""Bytes of work before other tasks of the loop get their turn: some milliseconds."""

FIELD = 64
"""Work of looking at one field: about two microseconds where nothing is compiled."""

FIELDS = PART // FIELD
"""Fields that are looked at in one part."""


class Pace:
    """Counts the work on one message, and gives way to other tasks."""

    def __init__(self, lock: asyncio.Lock) -> None:
        """`lock` is shared by all messages: those with more to do go through it one by one."""
        self._lock = lock
        self.done = 0
        """Work since the last rest; with `PART` of it, one is due."""

    def spend(self, work: int) -> bool:
        """Count work; returns True if `rest` is due before more is done."""
        self.done += work
        return self.done >= PART

    async def rest(self) -> None:
        """Give way to other tasks of the loop, and then to other messages."""
        self.done = 0
        async with self._lock:
            await asyncio.sleep(0)

    async def begin(self, size: int) -> None:
        """Wait for a turn, if a message of so many bytes may take more than one part of work."""
        if size > PART:
            await self.rest()

"""A lock for which only so many may wait."""

import asyncio
from types import TracebackType

from licorne_server.errors import exhausted


class BoundedLock:
    """A lock that is given in the order in which it was asked for.

    Whoever is cancelled while waiting leaves at once, and another may wait instead.
    """

    waiting: int
    """How many wait."""

    def __init__(self, what: str, reason: str, most: int) -> None:
        """Nobody waits. `what` waits, in the plural, in a refusal; `reason` is the refusal's code.

        At most `most` may wait, beside the one that holds the lock.
        """
        self._what = what
        self._reason = reason
        self._most = most
        self.waiting = 0
        self._lock = asyncio.Lock()

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return self._lock.locked()

    async def __aenter__(self) -> None:
        """Wait for the lock.

        Raises:
            CallError: RESOURCE_EXHAUSTED: too many wait already.
        """
        if self.waiting >= self._most:
            raise exhausted(f"{self._what}: {self._most} wait already", self._reason)
        self.waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the lock to the next."""
        self._lock.release()

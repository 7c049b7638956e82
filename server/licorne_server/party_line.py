"""A line in which parties wait for something that only one can have at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from licorne_server.errors import exhausted


class PartyLine:
    """Turns go round the parties, and for one party in the order in which it came.

    Whoever is cancelled while waiting leaves at once, and another may wait instead.
    """

    def __init__(
        self, what: str, reason: str, *, of_party: int, most: int, retry_after: float
    ) -> None:
        """Nobody waits. `what` waits, in the plural, in a refusal; `reason` is the refusal's code.

        So many of a party may wait, and so many of all parties together. Who is refused is told to
        come back after so many seconds.
        """
        self._what = what
        self._reason = reason
        self._of_party = of_party
        self._most = most
        self._retry_after = retry_after
        # Who waits, by party; the first is the next. A party that has nobody is not there.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def close(self, error: Exception) -> None:
        """Nobody waits any more: who does gets the error."""
        for line in self._waiting.values():
            for mine in line:
                if not mine.done():
                    mine.set_exception(error)
        self._waiting.clear()

    @asynccontextmanager
    async def turn(self, party: str) -> AsyncIterator[None]:
        """Wait for a turn of the party, and have it inside the block.

        Raises:
            CallError: RESOURCE_EXHAUSTED: too many wait already.
        """
        await self._wait(party)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, party: str) -> None:
        if not self._taken:
            self._taken = True
            return
        if self.waiting >= self._most or len(self._waiting.get(party, ())) >= self._of_party:
            most = f"{self._of_party} of {party}" if self.waiting < self._most else self._most
            text = f"{self._what}: {most} wait already"
            raise exhausted(text, self._reason, self._retry_after)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(party, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                # It was given the turn, and is not there any more to have it.
                self._next()
            else:
                self._leave(party, mine)
            raise

    def _leave(self, party: str, mine: asyncio.Future[None]) -> None:
        line = self._waiting.get(party, deque())
        if mine in line:
            line.remove(mine)
            if not line:
                del self._waiting[party]

    def _next(self) -> None:
        """Give the turn to the first of the next party, which goes to the end of the line.

        Who was cancelled just now stands in the line until it has run: it is passed over.
        """
        while self._waiting:
            party = next(iter(self._waiting))
            line = self._waiting.pop(party)
            mine = line.popleft()
            if line:
                self._waiting[party] = line
            if not mine.done():
                mine.set_result(None)
                return
        self._taken = False

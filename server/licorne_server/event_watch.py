"""Reading a log of events as it grows, without keeping the scheduler waiting (spec § 12.1).

To make records of facts costs more than to note them. It is done in slices, and while there is
scheduling to do everything else gets three times as long after each: whoever watches, and however
many, takes no more than a quarter of the time. What a watcher cannot read in time it loses.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import NamedTuple

from licorne_core.events import EventRecord
from licorne_server.event_log import Ending, EventLog

SLICE_SECONDS = 0.001
"""How long records are made at a time."""

REST = 3.0
"""How much longer nothing is made after that, while the scheduler is busy."""

PACE_SECONDS = 0.02
"""How long events gather behind a batch that left none waiting; what comes alone does not wait."""

BATCH_EVENTS = 1_000
BATCH_BYTES = 256 * 1024

Encode = Callable[[int, EventRecord], bytes]
"""An event, with its id, in the bytes of whoever reads it."""


class Overtaken(Exception):
    """What comes next is not kept any more; `next_id` is the first event that is."""

    def __init__(self, next_id: int) -> None:
        """Reading can go on from `next_id`."""
        super().__init__(f"overtaken by the ring, which begins at {next_id} now")
        self.next_id = next_id


class Over(Exception):
    """Everything was read, and nothing more will come."""

    def __init__(self, ending: Ending) -> None:
        """For this reason."""
        super().__init__(ending.value)
        self.ending = ending


class Batch(NamedTuple):
    """Events in a row: the id of the first, how many, and the bytes of each behind one another."""

    first_id: int
    events: int
    data: bytes


class Share:
    """The part of the loop's time that all who watch have together."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        """`busy` tells whether there is scheduling to do; without that nobody has to rest."""
        self._busy = busy
        self._making = asyncio.Lock()
        self._debt = 0.0

    @asynccontextmanager
    async def slice(self) -> AsyncIterator[float]:
        """A turn of the caller's own, until the time that it gets by `perf_counter`.

        Nothing may be awaited inside.
        """
        async with self._making:
            begin = perf_counter()
            yield begin + SLICE_SECONDS
            self._debt += (perf_counter() - begin) * REST if self._busy() else 0.0
            pause = 0.0
            # The loop's timer is too coarse for anything shorter.
            if self._debt >= SLICE_SECONDS:
                pause, self._debt = self._debt, 0.0
            await asyncio.sleep(pause)


class Watch:
    """One reader's place in a log: `next_id` is what it reads next."""

    def __init__(self, log: EventLog, start: int, share: Share) -> None:
        """Begin at an id, which need not have been given out yet."""
        self._log = log
        self._share = share
        self._rest_until = 0.0
        self.next_id = start

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return max(0, self._log.next_id - self.next_id)

    async def arrival(self) -> None:
        """Return once there is something to read.

        Raises:
            Over: there is nothing, and never will be.
        """
        while not self.waiting:
            if self._log.ending is not None:
                raise Over(self._log.ending)
            await self._log.news()

    async def next(
        self, encode: Encode, count: int = BATCH_EVENTS, size: int = BATCH_BYTES
    ) -> Batch:
        """The next events, one at least, as soon as there are: at most so many, of so many bytes.

        Raises:
            Overtaken: some are lost.
            Over: there is nothing, and never will be.
        """
        loop = asyncio.get_running_loop()
        if self._rest_until > loop.time():
            await asyncio.sleep(self._rest_until - loop.time())
        await self.arrival()
        if self.next_id < self._log.lowest_id:
            raise Overtaken(self._log.lowest_id)
        first_id = self.next_id
        parts: list[bytes] = []
        more = _encoded(self._log.read(first_id, count), encode, size)
        done = False
        while not done:
            async with self._share.slice() as stop:
                done = _fill(parts, more, stop)
        self.next_id += len(parts)
        self._rest_until = 0.0 if self.waiting else loop.time() + PACE_SECONDS
        return Batch(first_id, len(parts), b"".join(parts))


def _encoded(
    events: Iterator[tuple[int, EventRecord]], encode: Encode, size: int
) -> Iterator[bytes]:
    """Each event's bytes, until so many were given."""
    for event_id, record in events:
        part = encode(event_id, record)
        yield part
        size -= len(part)
        if size <= 0:
            return


def _fill(parts: list[bytes], more: Iterator[bytes], stop: float) -> bool:
    """Take parts until it is time to stop; whether there are no more."""
    for part in more:
        parts.append(part)
        if perf_counter() > stop:
            return False
    return True

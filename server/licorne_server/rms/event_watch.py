"""Subscription to a growing event log, without delaying the scheduler (spec § 12.1).

Turning facts into records costs more than recording them, so subscribers take time slices like all other
readers. Encoded events are shared by all subscribers of the same form. If the ring drops events before a
subscriber reads them, the subscriber loses them.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from licorne_server.process.fair import TimeSlices
from licorne_server.rms.event_blocks import Encode
from licorne_server.rms.event_log import Ending, EventLog

GATHER_SECONDS = 0.02
"""Seconds for which events are gathered after a complete batch; a later event is sent immediately."""

BATCH_EVENTS = 4_000
BATCH_BYTES = 256 * 1024

SENDING_SECONDS = 0.0001
"""Seconds of the loop that sending a batch takes. They are charged to the reader, although they are outside
its slice."""


class Overtaken(Exception):
    """The next event of the reader was dropped; `next_id` is the id of the oldest event in the log."""

    def __init__(self, next_id: int) -> None:
        """Reading can continue from `next_id`."""
        super().__init__(f"overtaken by the ring, which begins at {next_id} now")
        self.next_id = next_id


class Over(Exception):
    """All events were read, and the log has ended."""

    def __init__(self, ending: Ending) -> None:
        """Make the error with the log's ending."""
        super().__init__(ending.value)
        self.ending = ending


class Batch(NamedTuple):
    """Consecutive events: the id of the first one, their number, and their concatenated bytes."""

    first_id: int
    events: int
    data: bytes


class Watch:
    """The position of a reader in a log; `next_id` is the next event to read."""

    def __init__(self, log: EventLog, start: int, time_slices: TimeSlices, peer: str) -> None:
        """Begin at an id, which may be in the future. The slices are charged to `peer`."""
        self._log = log
        self._time_slices = time_slices
        self._peer = peer
        self._gather_until = 0.0
        self.next_id = start

    @property
    def waiting(self) -> int:
        """Number of events that are not read yet."""
        return max(0, self._log.next_id - self.next_id)

    async def arrival(self) -> None:
        """Return once there is an event to read.

        Raises:
            Over: all events were read, and the log has ended.
        """
        while not self.waiting:
            if self._log.ending is not None:
                raise Over(self._log.ending)
            await self._log.news()

    async def next(self, encode: Encode, count: int = BATCH_EVENTS, size: int = BATCH_BYTES) -> Batch:
        """Wait for an event; returns as many events as there are and fit in a message.

        At most `count` events are read, and none after `size` bytes are reached.

        Raises:
            Overtaken: events are lost.
            Over: all events were read, and the log has ended.
        """
        loop = asyncio.get_running_loop()
        if self._gather_until > loop.time():
            await asyncio.sleep(self._gather_until - loop.time())
        await self.arrival()
        first_id = next_id = self.next_id
        # Events that arrive meanwhile are for the next message, as a message must not wait until it is full.
        stop, room = min(first_id + count, self._log.next_id), size
        parts: list[bytes] = []
        while next_id < stop and room > 0:
            async with self._time_slices.slice(self._peer, SENDING_SECONDS) as over:
                next_id, room = self._read(parts, encode, range(next_id, stop), room, over)
        self.next_id = next_id
        self._gather_until = 0.0 if self.waiting else loop.time() + GATHER_SECONDS
        return Batch(first_id, next_id - first_id, b"".join(parts))

    def _read(
        self,
        parts: list[bytes],
        encode: Encode,
        wanted: range,
        room: int,
        over: Callable[[], bool],
    ) -> tuple[int, int]:
        """Append encoded parts, block by block, until the slice is over.

        Returns the id after the last event read, and the remaining bytes; 0 bytes if the next event is lost.

        Raises:
            Overtaken: the first event is lost.
        """
        log, next_id = self._log, wanted.start
        if next_id < log.lowest_id:
            if parts:
                return next_id, 0
            raise Overtaken(log.lowest_id)
        while next_id < wanted.stop and room > 0:
            written = log.written(next_id, encode)
            written.write(over)
            events, data = written.take(next_id, wanted.stop - next_id, room)
            if events:
                parts.append(data)
            next_id, room = next_id + events, room - len(data)
            if over():
                break
        return next_id, room

"""The event log of each RM for subscribers (spec § 12.1): a bounded ring of facts.

The facts of each command are appended in the order of the core, and are turned into records, the published
events, when they are read. Ids are assigned here, one for each record; they start at 0 with every
registration of the RM.
"""

import asyncio
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from licorne_core.config.extra import ExtraConfig
from licorne_core.messages.events.records import EventRecord, Fact
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import RmId
from licorne_server.process.bounds import EventBounds
from licorne_server.process.fair import PeerQuota
from licorne_server.rms.event_blocks import Block, Encode, Written

FACT_BYTES = 300
"""Estimated memory of a fact without its ask."""

BLOCK_FACTS = 512
"""Number of facts of a block; larger only for a single command with more facts."""

BLOCKS_IN_MEMORY = 64
"""Divisor of the memory bound: a block also counts as full once it has this share of the bound."""

DROPPED_BLOCKS = 8
"""Number of blocks that are dropped at a time, so that a shrinking ring does not block the loop."""

WRITTEN_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of encoded events that are cached for readers of one RM."""


USUAL = EventBounds()
"""Default bounds."""


class Ending(Enum):
    """Reason for the end of a log."""

    REPLACED = "the RM registered anew: its events start over"
    FORGOTTEN = "the RM is not registered any more"
    CLOSED = "the server is about to stop"


class TooManyStreams(Exception):
    """A subscriber exceeds a bound; the text names the bound."""


class EventLog:
    """The newest events of one registration of an RM.

    Its settings give the number of events. While the log is being read, and for a time after the last reader
    has left, the events of the last seconds are retained as well, so that readers can catch up or reconnect.
    Both are bounded by the memory of the events. There is no buffer for each reader: all read from the ring,
    each at its own speed.
    """

    instance: str
    """Distinguishes this log from those of other registrations."""
    settings: ExtraConfig
    """Event settings of the RM's extra configuration."""
    ending: Ending | None
    """Reason for the end of the log; None while it is open."""
    lowest_id: int
    """Id of the oldest event in the log."""
    next_id: int
    """Id that the next event will get."""
    memory: int
    """Estimated bytes of the events."""

    def __init__(self, rm_id: RmId, settings: ExtraConfig, bounds: EventBounds = USUAL) -> None:
        """Start without events; the first id will be 0."""
        self.rm_id = rm_id
        self.instance = str(uuid.uuid4())
        self.settings = settings
        self.ending = None
        self.lowest_id = 0
        self.next_id = 0
        self.memory = 0
        self._bounds = bounds
        self._block_size = bounds.memory // BLOCKS_IN_MEMORY
        # Blocks before `_begin` were dropped, and blocks before `_young` are older than the retained seconds.
        self._blocks: list[Block | None] = []
        self._begin = 0
        self._young = 0
        # `_time`: time of the last fact. `_grows_until`: end of retention by age after the last reader left.
        self._time = 0.0
        self._grows_until = 0.0
        self._readers = 0
        # Encoded events for readers, with their block, in the order of the last read.
        self._written: dict[Written, Block] = {}
        # Set and dropped when facts are appended; None while no reader waits.
        self._news: asyncio.Event | None = None
        self._watchers = PeerQuota(
            settings.event_max_streams, settings.event_max_streams_per_host, self._too_many
        )

    def append(self, facts: Sequence[Fact], footprint: int = 0) -> None:
        """Append facts, and drop facts that have become too old.

        `footprint` is the estimated memory of their asks in bytes.
        """
        if not facts:
            return
        block = self._blocks[-1] if self._blocks else None
        if block is None or len(block.facts) >= BLOCK_FACTS or block.size >= self._block_size:
            block = Block(self.next_id)
            self._blocks.append(block)
        block.facts += facts
        size = FACT_BYTES * len(facts) + footprint
        block.size += size
        self.memory += size
        for fact in facts:
            self.next_id += fact.count
        block.time = self._time = facts[-1].time
        self._trim()
        if self._news is not None:
            self._wake_readers()

    def follow(self, settings: ExtraConfig) -> None:
        """Follow other settings from now on."""
        self.settings = settings
        self._watchers.total = settings.event_max_streams
        self._watchers.each = settings.event_max_streams_per_host
        self._trim()

    def end(self, ending: Ending) -> None:
        """Notify all readers of the end of the log."""
        self.ending = ending
        self._wake_readers()

    def read(self, start: int, count: int) -> Iterator[tuple[int, EventRecord]]:
        """At most `count` events from the id `start` on, each with its id.

        Dropped events are left out. All events in the log at the time of the call are read, even if they are
        dropped before the reader reaches them.
        """
        start = max(start, self.lowest_id)
        stop = min(start + count, self.next_id)
        if start >= stop:
            return iter(())
        blocks = self._blocks[self._place_of(start) : self._place_of(stop - 1) + 1]
        return _expanded(blocks, start, stop)

    def latest_facts(self) -> Iterator[Fact]:
        """The facts in memory at the time of the call, the latest first."""
        blocks = self._blocks[self._begin :]
        return (fact for block in reversed(blocks) for fact in reversed(_retained(block).facts))

    def written(self, event_id: int, encode: Encode) -> Written:
        """The block of an event in the log, in the encoding of a reader."""
        block = _retained(self._blocks[self._place_of(event_id)])
        written = block.forms.get(encode)
        if written is None:
            written = block.forms[encode] = Written(block, encode)
        self._written.pop(written, None)
        self._written[written] = block
        self._forget_written(WRITTEN_BYTES)
        return written

    async def news(self) -> None:
        """Wait until a fact is appended, or the log ends."""
        if self._news is None:
            self._news = asyncio.Event()
        await self._news.wait()

    @contextmanager
    def watched_by(self, peer: str) -> Iterator[None]:
        """Count a subscriber inside the block, against the bounds for the RM and for its peer.

        Raises:
            TooManyStreams: a bound is reached.
        """
        with self._watchers.place(peer), self.reading():
            yield

    def _too_many(self, most: int, peer: str) -> TooManyStreams:
        return TooManyStreams(f"{most} for peer {peer}" if peer else f"{most} for RM {self.rm_id}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count a reader inside the block, for whom the events of the last seconds are retained."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._grows_until = self._time + self._bounds.seconds
                self._forget_all_written()

    @property
    def watchers(self) -> int:
        """Number of subscribers."""
        return self._watchers.taken

    def _place_of(self, event_id: int) -> int:
        """The index of an event's block in the log."""
        return bisect_right(self._blocks, event_id, self._begin, key=_first_id) - 1

    def _trim(self) -> None:
        """Drop events above the bounds of number, age or memory, a few blocks at a time."""
        if not self._blocks:
            return
        lowest = self.next_id - self.settings.event_ring_capacity
        if self._readers or self._time < self._grows_until:
            lowest = min(lowest, self._lowest_in_time())
        self.lowest_id = max(self.lowest_id, lowest)
        last = len(self._blocks) - 1
        while self.memory > self._bounds.memory and self._begin < last:
            self._drop_block()
        most = min(last, self._begin + DROPPED_BLOCKS)
        while self._begin < most and _first_id(self._blocks[self._begin + 1]) <= self.lowest_id:
            self._drop_block()
        if 2 * self._begin > last:
            del self._blocks[: self._begin]
            self._young = max(0, self._young - self._begin)
            self._begin = 0

    def _lowest_in_time(self) -> int:
        """The first event id of the oldest block within the seconds for which events are retained."""
        oldest = self._time - self._bounds.seconds
        young = max(self._young, self._begin)
        while _retained(self._blocks[young]).time < oldest:
            young += 1
        self._young = young
        return _first_id(self._blocks[young])

    def _drop_block(self) -> None:
        """Drop the oldest block. Its place in the list is removed together with others, which is cheaper."""
        block = _retained(self._blocks[self._begin])
        self._blocks[self._begin] = None
        self._begin += 1
        self.memory -= block.size
        # The encodings refer to the facts of the block, which would otherwise not be freed.
        for written in block.forms.values():
            del self._written[written]
        block.forms.clear()
        self.lowest_id = max(self.lowest_id, _first_id(self._blocks[self._begin]))

    def _forget_written(self, most: int) -> None:
        """Drop the least recently read encodings, until at most `most` bytes are left.

        The block that was read last is retained: otherwise a long block would be encoded again for each read.
        """
        size = sum(map(len, self._written))
        while size > most and len(self._written) > 1:
            written = next(iter(self._written))
            size -= len(written)
            block = self._written.pop(written)
            del block.forms[written.encode]

    def _forget_all_written(self) -> None:
        """Drop all encoded events, once there are no readers."""
        for block in self._written.values():
            block.forms.clear()
        self._written.clear()

    def _wake_readers(self) -> None:
        """Wake the waiting readers."""
        if self._news is not None:
            self._news.set()
            self._news = None


def _expanded(blocks: Sequence[Block | None], start: int, stop: int) -> Iterator[tuple[int, EventRecord]]:
    for block in blocks:
        yield from _retained(block).events(start, stop)


def _retained(block: Block | None) -> Block:
    assert block is not None, "only blocks before the first one of the log are gone"
    return block


def _first_id(block: Block | None) -> int:
    return _retained(block).first_id


class EventLogs:
    """The logs of all RMs, by RM in order of first registration."""

    def __init__(self, settings: Callable[[RmId], ExtraConfig], bounds: EventBounds = USUAL) -> None:
        """`settings` returns the current extra configuration of an RM."""
        self._settings = settings
        self._bounds = bounds
        self._logs: dict[RmId, EventLog] = {}

    def get(self, rm_id: str = "") -> EventLog:
        """The log of the RM, or of the RM that registered first if `rm_id` is empty.

        Raises:
            NotFound: there is no such RM.
        """
        if not rm_id:
            return self.first(lambda _: True)
        log = self._logs.get(RmId(rm_id))
        if log is None:
            raise NotFound(f"RM {shown(rm_id)} is not registered")
        return log

    def first(self, wanted: Callable[[RmId], bool]) -> EventLog:
        """The log of the RM that registered first among those that `wanted` accepts.

        Raises:
            NotFound: there is no such log. The text does not reveal whether other logs exist.
        """
        for rm_id, log in self._logs.items():
            if wanted(rm_id):
                return log
        raise NotFound("no RM is registered, so there are no events")

    def begin(self, rm_id: RmId) -> EventLog:
        """Begin a log for a registration of the RM; the log of an earlier registration ends."""
        before = self._logs.get(rm_id)
        log = self._logs[rm_id] = EventLog(rm_id, self._settings(rm_id), self._bounds)
        if before is not None:
            before.end(Ending.REPLACED)
        return log

    def forget(self, rm_id: RmId) -> None:
        """End the log of an RM that was removed."""
        log = self._logs.pop(rm_id, None)
        if log is not None:
            log.end(Ending.FORGOTTEN)

    def follow(self, rm_id: RmId) -> None:
        """Apply the RM's extra configuration, which may have changed."""
        log = self._logs.get(rm_id)
        if log is not None:
            log.follow(self._settings(rm_id))

    def close(self) -> None:
        """End all logs: the server stops."""
        for log in self._logs.values():
            log.end(Ending.CLOSED)

"""The events of each RM, for those who watch (spec § 12.1): a bounded ring of facts.

Facts go in as the core noted them, those of a command at a time. They become records, the
published events, when somebody reads them. Ids are given here: from 0, one for each record, and
from 0 again with every registration of the RM.
"""

import asyncio
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from licorne_core.config.extra import ExtraConfig
from licorne_core.effects import Happened
from licorne_core.errors import NotFound, shown
from licorne_core.events import EventRecord, Fact
from licorne_core.ids import RmId

FACT_BYTES = 300
"""Memory of a fact without the ask that it is about, as reckoned."""

MAX_BYTES = 512 * 1024 * 1024
"""Reckoned memory of the events of one RM; beyond it the oldest go, however many may be kept."""


class Ending(Enum):
    """Why nothing more will come into a log."""

    REPLACED = "the RM registered anew: its events start over"
    FORGOTTEN = "the RM is not registered any more"
    CLOSED = "the server is about to stop"


class TooManyStreams(Exception):
    """There is one watcher too many; the text says which bound is reached."""


class EventLog:
    """The newest events of one registration of an RM, as many as its settings say.

    There is no buffer for each reader: all read from the ring, each at its own speed.
    """

    instance: str
    """Distinguishes this log from those of other registrations."""
    settings: ExtraConfig
    """What the RM's extra configuration says of events."""
    ending: Ending | None
    """Why nothing more will come; None while it may."""
    lowest_id: int
    """Id of the oldest event that is kept."""
    next_id: int
    """Id that the next event will get."""

    def __init__(self, rm_id: RmId, settings: ExtraConfig) -> None:
        """Empty; the first id will be 0."""
        self.rm_id = rm_id
        self.instance = str(uuid.uuid4())
        self.settings = settings
        self.ending = None
        self.lowest_id = 0
        self.next_id = 0
        # The facts, and for each the id of its first record. Those before `_begin` are gone.
        self._firsts = array("q")
        self._facts: list[Fact | None] = []
        self._begin = 0
        # For each call of `append` that is kept, the id of its first event and its memory in bytes.
        self._appended: deque[tuple[int, int]] = deque()
        self._bytes = 0
        # Set, and forgotten, when something comes in; None while nobody waits for it.
        self._news: asyncio.Event | None = None
        # How many watch, by party.
        self._watchers: Counter[str] = Counter()

    def append(self, facts: Sequence[Fact], footprint: int = 0) -> None:
        """Take in facts, and drop those that are too old now.

        The asks that they are about take so many bytes of memory, as reckoned.
        """
        next_id = self.next_id
        size = FACT_BYTES * len(facts) + footprint
        self._appended.append((next_id, size))
        self._bytes += size
        for fact in facts:
            self._firsts.append(next_id)
            self._facts.append(fact)
            next_id += fact.count
        self.next_id = next_id
        self._trim()
        self._tell()

    def follow(self, settings: ExtraConfig) -> None:
        """Follow other settings from now on."""
        self.settings = settings
        self._trim()

    def end(self, ending: Ending) -> None:
        """Tell all who read that nothing more will come."""
        self.ending = ending
        self._tell()

    def read(self, start: int, count: int) -> Iterator[tuple[int, EventRecord]]:
        """At most `count` events from the id `start` on, each with its id.

        Events that are not kept are left out. What is there at the time of the call is read, even
        if it is dropped before the reader is through.
        """
        start = max(start, self.lowest_id)
        stop = min(start + count, self.next_id)
        if start >= stop:
            return iter(())
        first = bisect_right(self._firsts, start, self._begin) - 1
        last = bisect_left(self._firsts, stop, first)
        return _expanded(self._firsts[first:last], self._facts[first:last], start, stop)

    async def news(self) -> None:
        """Wait until something comes in, or the log ends."""
        if self._news is None:
            self._news = asyncio.Event()
        await self._news.wait()

    @contextmanager
    def watched_by(self, party: str) -> Iterator[None]:
        """Inside the block, count a watcher against the bounds for the RM and for its party.

        Raises:
            TooManyStreams: a bound is reached.
        """
        settings = self.settings
        if self._watchers.total() >= settings.event_max_streams:
            raise TooManyStreams(f"{settings.event_max_streams} for RM {self.rm_id}")
        if self._watchers[party] >= settings.event_max_streams_per_host:
            raise TooManyStreams(f"{settings.event_max_streams_per_host} for peer {party}")
        self._watchers[party] += 1
        try:
            yield
        finally:
            self._watchers[party] -= 1
            if not self._watchers[party]:
                del self._watchers[party]

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._watchers.total()

    def _trim(self) -> None:
        """Drop facts of which no record is kept.

        Their places in the lists are removed when they are the half of all, which is cheaper than
        to move the others each time.
        """
        lowest = max(self.next_id - self.settings.event_ring_capacity, self._lowest_in_memory())
        if lowest <= self.lowest_id:
            return
        self.lowest_id = lowest
        firsts, facts, begin = self._firsts, self._facts, self._begin
        last = len(facts) - 1
        while begin < last and firsts[begin + 1] <= lowest:
            facts[begin] = None
            begin += 1
        if 2 * begin > last:
            del firsts[:begin]
            del facts[:begin]
            begin = 0
        self._begin = begin

    def _lowest_in_memory(self) -> int:
        """The id of the oldest event that there is memory for."""
        appended, lowest = self._appended, self.lowest_id
        while len(appended) > 1 and (self._bytes > MAX_BYTES or appended[1][0] <= lowest):
            self._bytes -= appended.popleft()[1]
            lowest = max(lowest, appended[0][0])
        return lowest

    def _tell(self) -> None:
        """Wake those who wait."""
        if self._news is not None:
            self._news.set()
            self._news = None


def _expanded(
    firsts: Sequence[int], facts: Sequence[Fact | None], start: int, stop: int
) -> Iterator[tuple[int, EventRecord]]:
    for first, fact in zip(firsts, facts, strict=True):
        if fact is not None:
            for event_id, record in enumerate(fact.records(), first):
                if start <= event_id < stop:
                    yield event_id, record


class EventLogs:
    """The logs of all RMs, by RM in order of first registration."""

    def __init__(self, settings: Callable[[RmId], ExtraConfig]) -> None:
        """`settings` gives what an RM's extra configuration says at the moment."""
        self._settings = settings
        self._logs: dict[RmId, EventLog] = {}

    def get(self, rm_id: str = "") -> EventLog:
        """The log of that RM, or of the one that registered first.

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
        """The log of the RM that registered first among those that are wanted.

        Raises:
            NotFound: there is none. The text does not say whether there are others.
        """
        for rm_id, log in self._logs.items():
            if wanted(rm_id):
                return log
        raise NotFound("no RM is registered, so there are no events")

    def begin(self, rm_id: RmId) -> None:
        """Begin a log for a registration of the RM; one of an earlier registration ends."""
        before = self._logs.get(rm_id)
        self._logs[rm_id] = EventLog(rm_id, self._settings(rm_id))
        if before is not None:
            before.end(Ending.REPLACED)

    def forget(self, rm_id: RmId) -> None:
        """End the log of an RM that is gone."""
        log = self._logs.pop(rm_id, None)
        if log is not None:
            log.end(Ending.FORGOTTEN)

    def follow(self, rm_id: RmId) -> None:
        """Follow the RM's extra configuration, which may have changed."""
        log = self._logs.get(rm_id)
        if log is not None:
            log.follow(self._settings(rm_id))

    def add(self, happened: Happened) -> None:
        """Take in facts for the log of their RM."""
        log = self._logs.get(happened.rm_id)
        if log is not None:
            log.append(happened.facts, happened.footprint)

    def close(self) -> None:
        """End all logs: the server stops."""
        for log in self._logs.values():
            log.end(Ending.CLOSED)

"""What happened in each RM's cluster, for those who watch (spec § 12.1): a bounded ring of facts.

Facts go in as the core noted them, a turn's worth at a time, and become records when read.
Ids are counted here: from 0, by one for each record, anew with every registration of the RM.
"""

import asyncio
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from licorne_core.config.extra import ExtraConfig
from licorne_core.effects import Happened
from licorne_core.errors import NotFound
from licorne_core.events import EventRecord, Fact
from licorne_core.ids import RmId


class Ending(Enum):
    """Why nothing more will come into a log."""

    REPLACED = "the RM registered anew: its events start over"
    FORGOTTEN = "the RM is not registered any more"
    CLOSED = "the server is about to stop"


class TooManyStreams(Exception):
    """One watcher too many; the text says of what."""


class EventLog:
    """The events of one registration of an RM: the newest, as many as its settings say.

    The ring is the only buffer that there is: everyone who reads does so at their own pace.
    """

    def __init__(self, rm_id: RmId, settings: ExtraConfig) -> None:
        """Empty; the first id will be 0."""
        self.rm_id = rm_id
        self.instance = str(uuid.uuid4())
        self.settings = settings
        self.ending: Ending | None = None
        self.lowest_id = 0
        self.next_id = 0
        # The ids of the facts' first records, and the facts; what is before `_begin` is gone.
        self._firsts = array("q")
        self._facts: list[Fact | None] = []
        self._begin = 0
        self._news: asyncio.Event | None = None
        self._watchers: Counter[str] = Counter()

    def append(self, facts: Sequence[Fact]) -> None:
        """Facts happened; what is too old now is dropped."""
        next_id = self.next_id
        for fact in facts:
            self._firsts.append(next_id)
            self._facts.append(fact)
            next_id += fact.count
        self.next_id = next_id
        self._trim()
        self._tell()

    def follow(self, settings: ExtraConfig) -> None:
        """Other settings hold from now on."""
        self.settings = settings
        self._trim()

    def end(self, ending: Ending) -> None:
        """Nothing more will come."""
        self.ending = ending
        self._tell()

    def read(self, start: int, count: int) -> Iterator[tuple[int, EventRecord]]:
        """At most so many events from an id on, each with its id; what is not kept is left out.

        What was there at the time of the call is what is read, however long that takes.
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
    def watched_from(self, host: str) -> Iterator[None]:
        """Count a watcher, as long as it watches, against the bounds of all and of one host.

        Raises:
            TooManyStreams: a bound is reached.
        """
        settings = self.settings
        if self._watchers.total() >= settings.event_max_streams:
            raise TooManyStreams(f"{settings.event_max_streams} for RM {self.rm_id}")
        if self._watchers[host] >= settings.event_max_streams_per_host:
            raise TooManyStreams(f"{settings.event_max_streams_per_host} for host {host}")
        self._watchers[host] += 1
        try:
            yield
        finally:
            self._watchers[host] -= 1
            if not self._watchers[host]:
                del self._watchers[host]

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._watchers.total()

    def _trim(self) -> None:
        """Drop facts of which no record is kept, and their places when these are the half."""
        lowest = self.next_id - self.settings.event_ring_capacity
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
        """`settings` tells what an RM's extra configuration says at the moment."""
        self._settings = settings
        self._logs: dict[RmId, EventLog] = {}

    def get(self, rm_id: str = "") -> EventLog:
        """The log of that RM, or of the one that registered first.

        Raises:
            NotFound: there is no such RM.
        """
        if rm_id:
            log = self._logs.get(RmId(rm_id))
            if log is None:
                raise NotFound(f"RM {rm_id} is not registered")
            return log
        if not self._logs:
            raise NotFound("no RM is registered, so there are no events")
        return next(iter(self._logs.values()))

    def begin(self, rm_id: RmId) -> None:
        """The RM was registered, perhaps anew: ids start over, and so has everyone who watches."""
        before = self._logs.get(rm_id)
        self._logs[rm_id] = EventLog(rm_id, self._settings(rm_id))
        if before is not None:
            before.end(Ending.REPLACED)

    def forget(self, rm_id: RmId) -> None:
        """The RM is gone."""
        log = self._logs.pop(rm_id, None)
        if log is not None:
            log.end(Ending.FORGOTTEN)

    def follow(self, rm_id: RmId) -> None:
        """The RM's extra configuration may have changed."""
        log = self._logs.get(rm_id)
        if log is not None:
            log.follow(self._settings(rm_id))

    def add(self, happened: Happened) -> None:
        """Facts of a turn."""
        log = self._logs.get(happened.rm_id)
        if log is not None:
            log.append(happened.facts)

    def close(self) -> None:
        """The server stops: nothing more will come for anybody."""
        for log in self._logs.values():
            log.end(Ending.CLOSED)

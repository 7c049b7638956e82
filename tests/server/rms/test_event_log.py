"""The ring of facts: stored events, their ids, and readers (spec § 12.1)."""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.extra import ExtraConfig
from licorne_core.messages.events.records import EventRecord
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import RmId
from licorne_server.process.bounds import EventBounds
from licorne_server.rms import event_log
from licorne_server.rms.event_log import Ending, EventLog, EventLogs, TooManyStreams
from support.core.builders import START, Counted, counted, happened
from support.patience import PATIENCE

RM, OTHER = RmId("rm"), RmId("other")


MEMORY = 1_000_000


def log_of(capacity: int = 100_000, *, seconds: float = 10.0, memory: int = 2**30) -> EventLog:
    """An empty log of this capacity, with these seconds for readers."""
    bounds = EventBounds(seconds=seconds, memory=memory)
    return EventLog(RM, ExtraConfig(event_ring_capacity=capacity), bounds)


def numbers(events: Iterable[tuple[int, EventRecord]]) -> list[tuple[int, int]]:
    """The id of each event, and the number of the application in it."""
    return [(event_id, int(record.object_id.removeprefix("app-"))) for event_id, record in events]


def test_ids_count_records() -> None:
    """Ids begin at 0 and rise by one with each record, however many a fact has."""
    log = log_of()
    log.append([Counted(10, 3), Counted(20), Counted(30, 0), Counted(40, 2)])
    found = [(0, 10), (1, 11), (2, 12), (3, 20), (4, 40), (5, 41)]
    assert numbers(log.read(0, 100)) == found
    assert (log.lowest_id, log.next_id) == (0, 6)


def test_reads_may_begin_and_end_inside_a_fact() -> None:
    """A read may begin and end in the middle of a fact."""
    log = log_of()
    log.append(counted(0, 3, each=4))
    assert numbers(log.read(2, 4)) == [(2, 2), (3, 3), (4, 4), (5, 5)]
    assert numbers(log.read(11, 100)) == [(11, 11)]


def test_dropped_events_are_left_out() -> None:
    """Dropped and future ids are no error, and return no events."""
    log = log_of(capacity=2)
    assert list(log.read(0, 10)) == []
    log.append(counted(0, 5))
    assert numbers(log.read(0, 10)) == [(3, 3), (4, 4)]
    assert list(log.read(5, 10)) == []
    assert list(log.read(2**64 - 1, 10)) == []


def test_large_asks_leave_room_for_fewer_events() -> None:
    """The oldest events are dropped once the stored ones use too much memory."""
    log = log_of(memory=MEMORY)
    for first in range(0, 10, 2):
        log.append(counted(first, 2), footprint=MEMORY // 3)
    assert [number for number, _ in numbers(log.read(0, 100))] == [6, 7, 8, 9]
    log.append(counted(10, 2), footprint=2 * MEMORY)
    assert numbers(log.read(0, 100)) == [(10, 10), (11, 11)]
    assert (log.lowest_id, log.next_id) == (10, 12)


@pytest.mark.parametrize("capacity", [3, 100])
def test_memory_is_counted_for_stored_events(capacity: int) -> None:
    """The memory of events that were dropped by number does not count against later ones."""
    log = log_of(capacity, memory=MEMORY)
    for first in range(0, 60, 3):
        log.append(counted(first, 3), footprint=MEMORY // 100)
    assert log.lowest_id == max(0, 60 - capacity)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=30),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
)
def test_the_newest_events_are_stored(turns: list[list[int]], capacities: list[int]) -> None:
    """The newest events are stored, up to the lowest capacity since they were recorded."""
    log = log_of(capacities[0])
    kept: list[tuple[int, int]] = []
    total = 0
    for turn, counts in enumerate(turns):
        facts = []
        for count in counts:
            facts.append(Counted(total, count))
            kept += [(number, number) for number in range(total, total + count)]
            total += count
        log.append(facts)
        capacity = log.settings.event_ring_capacity
        kept = kept[-capacity:]
        assert numbers(log.read(0, total)) == kept
        assert log.next_id == total
        assert log.lowest_id == total - len(kept)
        capacity = capacities[turn % len(capacities)]
        log.follow(ExtraConfig(event_ring_capacity=capacity))
        kept = kept[-capacity:]
        for event_id, number in kept:
            assert numbers(log.read(event_id, 1)) == [(event_id, number)]


class Noted(Counted):
    """A fact that a weak reference can observe."""

    __slots__ = ("__weakref__",)


def test_dropped_facts_are_freed() -> None:
    """Facts without a stored record use no memory: a full ring does not grow."""
    log = log_of(capacity=100)
    kept: WeakSet[Noted] = WeakSet()
    for turn in range(1000):
        facts = [Noted(turn * 10 + number) for number in range(10)]
        kept.update(facts)
        log.append(facts)
        del facts
        assert len(kept) < 100 + 2 * event_log.BLOCK_FACTS


def encoded(event_id: int, _: EventRecord) -> bytes:
    """A short encoding of an event."""
    return b"%d" % event_id


def never() -> bool:
    """False: the slice is not over."""
    return False


def test_dropped_facts_are_freed_during_reads() -> None:
    """Encoded events keep neither the facts nor their contents in memory."""
    log = log_of(memory=64 * event_log.FACT_BYTES)
    kept: WeakSet[Noted] = WeakSet()
    with log.reading():
        for number in range(1000):
            fact = Noted(number)
            kept.add(fact)
            log.append([fact])
            del fact
            log.written(log.next_id - 1, encoded).write(never)
            assert len(kept) < 2 * 64


def test_a_long_block_is_encoded_once() -> None:
    """The block read last is kept encoded, whatever its size; other blocks may be dropped for it."""

    def large(_: int, __: EventRecord) -> bytes:
        return bytes(event_log.WRITTEN_BYTES)

    log = log_of()
    log.append(counted(0, 3))
    with log.reading():
        first = log.written(0, large)
        first.write(never)
        assert log.written(2, large) is first
        assert len(log.written(0, encoded)) == 0
        assert log.written(2, large) is not first


def play(log: EventLog, seconds: float, count: int) -> None:
    """Record this number of events at once, this number of seconds after the start."""
    log.append(counted(log.next_id, count, time=START + seconds))


def test_events_of_the_last_seconds_are_stored_for_readers() -> None:
    """While there are readers, the ring has the events of the last seconds; then its capacity.

    A prompt reader has that time to catch up, whatever the number of events.
    """
    log = log_of(capacity=1000, seconds=10.0)
    play(log, 0, 3000)
    assert (log.lowest_id, log.next_id) == (2000, 3000)
    with log.reading():
        for second in range(1, 11):
            play(log, second, 3000)
            assert log.lowest_id == 2000
        found = numbers(log.read(2000, 10**6))
        assert found == [(number, number) for number in range(2000, 33_000)]
        play(log, 20.5, 1)
        assert log.lowest_id == log.next_id - 1000


def test_readers_may_return() -> None:
    """The last seconds stay stored for as long again after the last reader has left."""
    log = log_of(capacity=1000, seconds=10.0)
    with log.reading():
        play(log, 0, 5000)
    play(log, 9.5, 5000)
    assert log.lowest_id == 0
    play(log, 10.5, 5000)
    assert log.lowest_id == log.next_id - 1000


@pytest.mark.parametrize("readers", [0, 1])
def test_without_seconds_only_the_capacity_counts(readers: int) -> None:
    """A ring without seconds stores no more events for readers."""
    log = log_of(capacity=1000, seconds=0.0)
    with log.reading() if readers else nullcontext():
        for turn in range(20):
            play(log, turn * 0.001, 700)
            assert log.lowest_id == max(0, log.next_id - 1000)


def test_memory_bounds_the_seconds() -> None:
    """The stored events never exceed the memory bound, and have all ids."""
    log = log_of(capacity=1000, seconds=10.0, memory=MEMORY)
    with log.reading():
        for turn in range(100):
            play(log, turn * 0.01, 600)
            assert log.memory <= MEMORY
    found = numbers(log.read(0, 10**6))
    assert found == [(number, number) for number in range(log.lowest_id, 60_000)]
    assert len(found) > 1000


def test_a_ring_shrinks_in_steps() -> None:
    """Dropped events are hidden at once, and their memory is freed a few blocks at a time."""
    log = log_of(capacity=10, seconds=10.0)
    with log.reading():
        for turn in range(100):
            play(log, turn * 0.01, event_log.BLOCK_FACTS)
    before = log.memory
    play(log, 60, 1)
    assert log.lowest_id == log.next_id - 10
    block = event_log.BLOCK_FACTS * event_log.FACT_BYTES
    assert before - log.memory <= event_log.DROPPED_BLOCKS * block
    for turn in range(100):
        play(log, 61 + turn, 1)
    assert log.memory <= 2 * block


async def test_new_events_wake_all_readers() -> None:
    """New events, and the end of the log, wake all waiting readers."""
    log = log_of()
    waiting = [asyncio.ensure_future(log.news()) for _ in range(3)]
    await asyncio.sleep(0)
    log.append(counted(0, 1))
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
    last = asyncio.ensure_future(log.news())
    await asyncio.sleep(0)
    assert not last.done()
    log.end(Ending.CLOSED)
    await asyncio.wait_for(last, PATIENCE)


def test_watchers_are_counted_in_total_and_by_peer() -> None:
    """The present maximum of watchers applies; one that leaves frees a place."""
    log = EventLog(RM, ExtraConfig(event_max_streams=3, event_max_streams_per_host=2))
    with log.watched_by("a"), log.watched_by("a"):
        with pytest.raises(TooManyStreams, match="2 for peer a"), log.watched_by("a"):
            pass
        with log.watched_by("b"):
            assert log.watchers == 3
            with pytest.raises(TooManyStreams, match="3 for RM rm"), log.watched_by("c"):
                pass
            log.follow(ExtraConfig(event_max_streams=4, event_max_streams_per_host=2))
            with log.watched_by("c"):
                assert log.watchers == 4
    assert log.watchers == 0


class Extras:
    """The extra configurations of RMs."""

    def __init__(self) -> None:
        """Start without any."""
        self.of: dict[RmId, ExtraConfig] = {}

    def __call__(self, rm_id: RmId) -> ExtraConfig:
        """The extra configuration of an RM."""
        return self.of.get(rm_id, ExtraConfig())


@pytest.mark.row(6)
def test_logs_of_two_rms_are_separate() -> None:
    """Each RM has ids of its own, and reads its own events."""
    logs = EventLogs(Extras())
    logs.begin(RM).append(happened("rm", 0, 2).facts)
    logs.begin(OTHER).append(happened("other", 100, 1).facts)
    assert numbers(logs.get("rm").read(0, 10)) == [(0, 0), (1, 1)]
    assert numbers(logs.get("other").read(0, 10)) == [(0, 100)]


def test_a_new_registration_starts_over_for_its_rm_only() -> None:
    """The RM gets a new instance with ids from 0; watchers of the old one get the reason of its end."""
    logs = EventLogs(Extras())
    logs.begin(RM)
    logs.begin(OTHER)
    before, other = logs.get("rm"), logs.get("other")
    before.append(happened("rm", 0, 5).facts)
    logs.begin(RM)
    after = logs.get("rm")
    assert (before.ending, other.ending, after.ending) == (Ending.REPLACED, None, None)
    assert after.instance != before.instance
    assert (after.lowest_id, after.next_id) == (0, 0)
    assert logs.get("other") is other
    assert logs.get() is after


def test_changed_settings_apply_at_once() -> None:
    """A smaller ring takes effect at once, for its RM."""
    extras = Extras()
    logs = EventLogs(extras)
    logs.begin(RM).append(happened("rm", 0, 10).facts)
    extras.of[RM] = ExtraConfig(event_ring_capacity=4)
    logs.follow(RM)
    logs.follow(OTHER)
    assert logs.get("rm").lowest_id == 6


def test_removed_rms_have_no_log() -> None:
    """A log is found while its RM is registered; without an RM it is that of the first one."""
    logs = EventLogs(Extras())
    with pytest.raises(NotFound, match="no RM is registered"):
        logs.get()
    logs.begin(RM)
    logs.begin(OTHER)
    log = logs.get()
    assert log.rm_id == RM
    logs.forget(RM)
    logs.forget(RM)
    assert log.ending is Ending.FORGOTTEN
    assert logs.get().rm_id == OTHER
    with pytest.raises(NotFound, match="RM rm is not registered"):
        logs.get("rm")


def test_closing_ends_all_reads() -> None:
    """The end of all logs wakes all readers."""
    logs = EventLogs(Extras())
    logs.begin(RM)
    logs.begin(OTHER)
    logs.close()
    assert {logs.get(rm_id).ending for rm_id in (RM, OTHER)} == {Ending.CLOSED}

"""Readers of a log at their own pace: nothing twice, nothing missed unknowingly, others first."""

import asyncio

import pytest

from licorne_core.config.extra import ExtraConfig
from licorne_core.events import EventRecord
from licorne_core.ids import RmId
from licorne_server.event_log import Ending, EventLog
from licorne_server.event_watch import Over, Overtaken, Watch
from licorne_server.share import Share
from support.facts import counted


def log_of(capacity: int = 100_000) -> EventLog:
    """An empty log that keeps so many."""
    return EventLog(RmId("rm"), ExtraConfig(event_ring_capacity=capacity))


def idle() -> bool:
    """The scheduler has nothing to do."""
    return False


def shown(event_id: int, record: EventRecord) -> bytes:
    """Id and subject."""
    return f"{event_id}:{record.object_id} ".encode()


async def test_events_come_once_and_in_order() -> None:
    """Batch by batch, each of so many at the most, until all is read; then it waits."""
    log = log_of()
    watch = Watch(log, 0, Share(idle), "host")
    log.append(counted(0, 5))
    first = await watch.next(shown, 3)
    assert first == (0, 3, b"0:app-0 1:app-1 2:app-2 ")
    assert watch.waiting == 2
    assert await watch.next(shown, 3) == (3, 2, b"3:app-3 4:app-4 ")
    more = asyncio.ensure_future(watch.next(shown, 3))
    await asyncio.sleep(0)
    assert not more.done()
    log.append(counted(5, 1))
    assert await asyncio.wait_for(more, 1) == (5, 1, b"5:app-5 ")


async def test_a_batch_has_so_many_bytes_and_one_event_at_least() -> None:
    """A batch ends with the event that fills it."""
    log = log_of()
    log.append(counted(0, 5))
    watch = Watch(log, 0, Share(idle), "host")
    assert (await watch.next(shown, 5, size=1)).events == 1
    assert (await watch.next(shown, 5, size=9)).events == 2


async def test_a_reader_may_begin_ahead() -> None:
    """From an id that was not given out yet, it waits for just that."""
    log = log_of()
    watch = Watch(log, 2, Share(idle), "host")
    assert watch.waiting == 0
    coming = asyncio.ensure_future(watch.next(shown))
    await asyncio.sleep(0)
    log.append(counted(0, 2))
    await asyncio.sleep(0)
    assert not coming.done()
    log.append(counted(2, 1))
    assert (await asyncio.wait_for(coming, 1)).first_id == 2


async def test_lost_events_are_said() -> None:
    """Who fell behind the ring learns where it can go on, and can."""
    log = log_of(capacity=3)
    watch = Watch(log, 0, Share(idle), "host")
    log.append(counted(0, 10))
    with pytest.raises(Overtaken) as overtaken:
        await watch.next(shown)
    watch.next_id = overtaken.value.next_id
    assert await watch.next(shown) == (7, 3, b"7:app-7 8:app-8 9:app-9 ")


async def test_what_is_left_is_read_before_the_end() -> None:
    """A log that ended is read to its end first."""
    log = log_of()
    watch = Watch(log, 0, Share(idle), "host")
    log.append(counted(0, 1))
    log.end(Ending.CLOSED)
    assert (await watch.next(shown)).events == 1
    with pytest.raises(Over) as over:
        await watch.next(shown)
    assert over.value.ending is Ending.CLOSED


async def test_a_cancelled_read_loses_nothing() -> None:
    """A reader that was interrupted gets the same events again."""
    log = log_of()
    log.append(counted(0, 20_000))
    watch = Watch(log, 0, Share(idle), "host")
    reading = asyncio.ensure_future(watch.next(shown, 20_000, 10**9))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    batch = await watch.next(shown, 20_000, 10**9)
    assert (batch.first_id, batch.events) == (0, 20_000)

"""Readers of a log at their own pace: no event twice, no gap unnoticed, other tasks first."""

import asyncio

import pytest

from licorne_core.config.extra import ExtraConfig
from licorne_core.messages.events.records import EventRecord
from licorne_core.values.ids import RmId
from licorne_server.process import fair
from licorne_server.process.fair import TimeSlices
from licorne_server.rms import event_watch
from licorne_server.rms.event_log import Ending, EventLog
from licorne_server.rms.event_watch import Over, Overtaken, Watch
from support.core.builders import START, counted
from support.patience import PATIENCE


def log_of(capacity: int = 100_000) -> EventLog:
    """An empty log of this capacity."""
    return EventLog(RmId("rm"), ExtraConfig(event_ring_capacity=capacity))


def idle() -> bool:
    """True: the scheduler has nothing to do."""
    return False


def shown(event_id: int, record: EventRecord) -> bytes:
    """Id and subject."""
    return f"{event_id}:{record.object_id} ".encode()


async def test_events_are_read_once_and_in_order() -> None:
    """Each batch has a bounded number of events; after the last one the watch waits."""
    log = log_of()
    watch = Watch(log, 0, TimeSlices(idle), "host")
    log.append(counted(0, 5))
    first = await watch.next(shown, 3)
    assert first == (0, 3, b"0:app-0 1:app-1 2:app-2 ")
    assert watch.waiting == 2
    assert await watch.next(shown, 3) == (3, 2, b"3:app-3 4:app-4 ")
    more = asyncio.ensure_future(watch.next(shown, 3))
    await asyncio.sleep(0)
    assert not more.done()
    log.append(counted(5, 1))
    assert await asyncio.wait_for(more, PATIENCE) == (5, 1, b"5:app-5 ")


async def test_the_size_of_a_batch_is_bounded() -> None:
    """A batch ends with the event that exceeds its size."""
    log = log_of()
    log.append(counted(0, 5))
    watch = Watch(log, 0, TimeSlices(idle), "host")
    assert (await watch.next(shown, 5, size=1)).events == 1
    assert (await watch.next(shown, 5, size=9)).events == 2


async def test_a_reader_may_begin_ahead() -> None:
    """A reader may begin at a future id, and waits for it."""
    log = log_of()
    watch = Watch(log, 2, TimeSlices(idle), "host")
    assert watch.waiting == 0
    coming = asyncio.ensure_future(watch.next(shown))
    await asyncio.sleep(0)
    log.append(counted(0, 2))
    await asyncio.sleep(0)
    assert not coming.done()
    log.append(counted(2, 1))
    assert (await asyncio.wait_for(coming, PATIENCE)).first_id == 2


async def test_a_prompt_reader_loses_nothing() -> None:
    """A burst much larger than the ring is read completely and in order by a prompt reader."""
    log = log_of(capacity=100)
    watch = Watch(log, 0, TimeSlices(idle), "host")
    with log.reading():
        told = b""
        for burst in range(5):
            log.append(counted(burst * 3000, 3000, time=START + 2 * burst))
            told += (await watch.next(shown)).data
        while watch.waiting:
            told += (await watch.next(shown)).data
    assert told == b"".join(b"%d:app-%d " % (number, number) for number in range(15_000))


async def test_a_slow_reader_gets_an_error() -> None:
    """The ring has the events of the last seconds, so a slower reader gets an error."""
    log = log_of(capacity=100)
    watch = Watch(log, 0, TimeSlices(idle), "host")
    with log.reading():
        log.append(counted(0, 3000))
        log.append(counted(3000, 3000, time=START + 10.5))
        with pytest.raises(Overtaken) as overtaken:
            await watch.next(shown)
        assert overtaken.value.next_id == 3000


async def test_events_are_encoded_once_for_all_readers() -> None:
    """However many watchers read it, and wherever each begins, an event is encoded once."""
    log = log_of()
    written: list[int] = []

    def noting(event_id: int, record: EventRecord) -> bytes:
        written.append(event_id)
        return shown(event_id, record)

    watches = [Watch(log, start, TimeSlices(idle), "host") for start in (0, 700, 1, 0)]
    with log.reading():
        for turn in range(3):
            log.append(counted(turn * 1000, 1000))
            for watch in watches:
                while watch.waiting:
                    begin = watch.next_id
                    batch = await watch.next(noting, 300)
                    numbers = range(begin, begin + batch.events)
                    assert batch.data == b"".join(b"%d:app-%d " % (n, n) for n in numbers)
    assert written == list(range(3000))


async def test_a_batch_is_charged_beside_its_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sending a batch also uses the loop's time, and is charged even if nothing has to be encoded."""
    monkeypatch.setattr(fair, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(event_watch, "SENDING_SECONDS", fair.SLICE_SECONDS)
    log, pauses = log_of(), list[float]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda pause, _: pauses.append(pause))
    log.append(counted(0, 10))
    await Watch(log, 0, TimeSlices(lambda: True), "host").next(shown)
    assert pauses == [fair.PAUSE_FACTOR * fair.SLICE_SECONDS]


async def test_lost_events_are_reported() -> None:
    """A reader that is too slow for the ring gets the id from which it can continue."""
    log = log_of(capacity=3)
    watch = Watch(log, 0, TimeSlices(idle), "host")
    log.append(counted(0, 10))
    with pytest.raises(Overtaken) as overtaken:
        await watch.next(shown)
    watch.next_id = overtaken.value.next_id
    assert await watch.next(shown) == (7, 3, b"7:app-7 8:app-8 9:app-9 ")


async def test_the_remaining_events_precede_the_end() -> None:
    """A log that has ended is read to its end first."""
    log = log_of()
    watch = Watch(log, 0, TimeSlices(idle), "host")
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
    watch = Watch(log, 0, TimeSlices(idle), "host")
    reading = asyncio.ensure_future(watch.next(shown, 20_000, 10**9))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    read = 0
    while read < 20_000:
        batch = await watch.next(shown, 20_000, 10**9)
        assert batch.first_id == read
        read += batch.events

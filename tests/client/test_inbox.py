"""The buffer between the stream and the reader of events."""

import asyncio

import pytest

from licorne.client_context import Inbox
from licorne.errors import SessionFenced
from licorne.events import Event, NodeAccepted
from support.patience import PATIENCE

STAMP = (1, 1)


def events(*names: str) -> list[Event]:
    """An event for each name."""
    return [NodeAccepted(name) for name in names]


def new_inbox(limit: int = 100) -> tuple[Inbox, list[int]]:
    """An inbox and the acknowledged numbers."""
    numbers: list[int] = []
    return Inbox(limit, lambda _, number: numbers.append(number)), numbers


async def test_a_batch_is_acknowledged_when_its_reader_returns() -> None:
    """The number of a response is acknowledged when its reader asks for the next one."""
    inbox, consumed = new_inbox()
    inbox.put(STAMP, 1, events("a", "b"))
    inbox.put(STAMP, 2, events("c"))
    assert await inbox.next_batch() == events("a", "b")
    assert consumed == []
    assert await inbox.next_batch() == events("c")
    assert consumed == [1]


async def test_single_events_and_batches_lose_nothing() -> None:
    """A reader that changes from events to batches within a batch gets the remainder."""
    inbox, consumed = new_inbox()
    inbox.put(STAMP, 1, events("a", "b", "c"))
    assert await inbox.next_event() == NodeAccepted("a")
    assert await inbox.next_batch() == events("b", "c")
    inbox.close()
    assert await inbox.next_event() is None
    assert consumed == [1]


async def test_answers_without_events_are_acknowledged_in_order() -> None:
    """A response without events for the caller is acknowledged after those before it."""
    inbox, consumed = new_inbox()
    inbox.put(STAMP, 1, events("a"))
    inbox.put(STAMP, 2, ())
    inbox.put(STAMP, 3, events("b"))
    assert await inbox.next_event() == NodeAccepted("a")
    assert await inbox.next_event() == NodeAccepted("b")
    assert consumed == [1, 2]


async def test_reading_stops_while_the_inbox_is_full() -> None:
    """A full buffer makes the stream wait, and nothing is dropped."""
    inbox, _ = new_inbox(limit=3)
    inbox.put(STAMP, 1, events("a", "b", "c"))
    waiting = asyncio.create_task(inbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await inbox.next_batch()
    await asyncio.wait_for(waiting, PATIENCE)


async def test_answers_without_events_use_room() -> None:
    """Responses without events for the caller use room until they are acknowledged."""
    inbox, consumed = new_inbox(limit=3)
    for number in (1, 2, 3):
        inbox.put(STAMP, number, ())
    waiting = asyncio.create_task(inbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.put(STAMP, 4, events("a"))
    assert await inbox.next_event() == NodeAccepted("a")
    await asyncio.wait_for(waiting, PATIENCE)
    assert consumed == [1, 2, 3]


async def test_the_end_follows_all_events() -> None:
    """Events before the end are delivered first; then the failure is raised."""
    inbox, _ = new_inbox()
    inbox.put(STAMP, 1, events("a"))
    inbox.close(SessionFenced("a newer one"))
    assert await inbox.next_event() == NodeAccepted("a")
    with pytest.raises(SessionFenced):
        await inbox.next_event()

"""The intake: requests read from a stream are queued in order, bounded, and joined."""

import asyncio
from typing import Any

import pytest

from licorne_server.rms import streams as module
from licorne_server.rms.streams import ENTRY_COST, MAX_JOINED, MAX_WAITING, Entry, Intake
from licorne_server.wire.framing import Split, delimited
from licorne_server.wire.requests import REQUESTS
from licorne_server.wire.responses import Kind
from support.patience import PATIENCE
from support.peers.shim import eventually

ADDED = {Kind.NODES: 1, Kind.APPLICATIONS: 1, Kind.ALLOCATIONS: 4}
"""The field of a request that has additions."""
REMOVED = {Kind.APPLICATIONS: 2, Kind.ALLOCATIONS: 2}
"""The field of a request that has removals."""


def request(kind: Kind, added: str = "", removed: str = "") -> Split:
    """A request that adds and removes something for each letter."""
    layout = REQUESTS[kind].layout
    raw = b"".join(delimited(ADDED[kind], letter.encode()) for letter in added)
    if removed:
        inner = REMOVED[kind] != layout.nested
        items = b"".join(delimited(REMOVED[kind] if inner else 1, letter.encode()) for letter in removed)
        raw += items if inner else delimited(layout.nested, items)
    made = Split(raw, layout)
    while made.position < len(raw):
        made.part()
    return made


def entry(kind: Kind, number: int = 0, added: str = "", removed: str = "", size: int = 0) -> Entry:
    """An entry with a request of these items."""
    return Entry(kind, number, request(kind, added, removed), size=size)


def answers(number: int) -> Entry:
    """An entry for answers, which were passed on when they were read."""
    return Entry(Kind.SESSION, number)


def said(number: int, payload: bytes = b"") -> Entry:
    """A request that only a session has."""
    return Entry(Kind.SESSION, number, field=5, payload=payload, size=len(payload))


def shown(taken: Entry) -> tuple[Kind, int, str, str]:
    """Kind, number, and the letters of additions and removals."""
    kind = taken.kind
    if taken.request is None:
        return kind, taken.number, "", ""
    items = taken.request.items
    removed = items[REMOVED[kind]] if kind in REMOVED else []
    return kind, taken.number, b"".join(items[ADDED[kind]]).decode(), b"".join(removed).decode()


async def taken_of(*entries: Entry) -> list[tuple[Kind, int, str, str]]:
    """The requests that are carried out for these entries."""
    intake = Intake()
    for each in entries:
        intake.put(each)
    intake.end()
    taken = []
    while (found := await intake.take()) is not None:
        taken.append(shown(found))
    return taken


@pytest.mark.parametrize("kind", REQUESTS)
async def test_queued_requests_of_a_kind_are_joined(kind: Kind) -> None:
    """The items of joined requests are in order, under the number of the last, for the RM of the first."""
    assert await taken_of(*(entry(kind, n, f"{n}{n}") for n in (1, 2, 3))) == [(kind, 3, "112233", "")]


@pytest.mark.parametrize("kind", REMOVED)
async def test_removals_are_joined_after_additions(kind: Kind) -> None:
    """Removals of a request are carried out last, so earlier removals are not joined with later additions."""
    assert await taken_of(
        entry(kind, 1, "a"),
        entry(kind, 2, "b", "A"),
        entry(kind, 3, "", "B"),
        entry(kind, 4, "", "C"),
    ) == [(kind, 4, "ab", "ABC")]


@pytest.mark.parametrize("kind", REMOVED)
async def test_an_addition_does_not_overtake_a_removal(kind: Kind) -> None:
    """An item that is removed and added again exists in the end, because these requests are not joined."""
    assert await taken_of(
        entry(kind, 1, "", "a"),
        entry(kind, 2, "a"),
        entry(kind, 3, "b", "a"),
        entry(kind, 4, "a", "b"),
        entry(kind, 5, "", "c"),
    ) == [(kind, 1, "", "a"), (kind, 3, "ab", "a"), (kind, 5, "a", "bc")]


async def test_kinds_are_not_joined() -> None:
    """Requests of different kinds keep their order."""
    nodes, apps = Kind.NODES, Kind.APPLICATIONS
    assert await taken_of(
        entry(nodes, 1, "a"), entry(apps, 2, "x"), entry(apps, 3, "y"), entry(nodes, 4, "b")
    ) == [(nodes, 1, "a", ""), (apps, 3, "xy", ""), (nodes, 4, "b", "")]


async def test_requests_of_the_session_are_not_joined() -> None:
    """Requests that only a session has are joined with no other request, and no others across them."""
    kind = Kind.ALLOCATIONS
    found = await taken_of(entry(kind, 1, "a"), said(2), said(3), entry(kind, 4, "b"))
    assert [each[:2] for each in found] == [
        (kind, 1),
        (Kind.SESSION, 2),
        (Kind.SESSION, 3),
        (kind, 4),
    ]


async def test_answers_do_not_prevent_joining() -> None:
    """Requests before and after answers are joined; the number that counts is the last."""
    kind = Kind.ALLOCATIONS
    assert await taken_of(entry(kind, 1, "a"), answers(2), entry(kind, 3, "b"), answers(4)) == [
        (kind, 4, "ab", "")
    ]
    assert await taken_of(answers(1), answers(2), entry(kind, 3, "a")) == [
        (Kind.SESSION, 1, "", ""),
        (Kind.SESSION, 2, "", ""),
        (kind, 3, "a", ""),
    ]


async def test_requests_without_numbers_are_joined() -> None:
    """Requests of the streams of `si.v1`, which have no numbers, are joined as well."""
    assert await taken_of(entry(Kind.NODES, 0, "a"), entry(Kind.NODES, 0, "b")) == [(Kind.NODES, 0, "ab", "")]


async def test_joined_requests_are_bounded() -> None:
    """Joined requests have a bounded number of items; a larger request is carried out as received."""
    kind, half = Kind.ALLOCATIONS, MAX_JOINED // 2
    found = await taken_of(
        entry(kind, 1, "a" * half),
        entry(kind, 2, "b" * half),
        entry(kind, 3, "", "c"),
        entry(kind, 4, "d" * (MAX_JOINED + 1)),
        entry(kind, 5, "e"),
    )
    assert [(number, len(added), len(removed)) for _, number, added, removed in found] == [
        (2, MAX_JOINED, 0),
        (3, 0, 1),
        (4, MAX_JOINED + 1, 0),
        (5, 1, 0),
    ]


async def test_a_request_in_progress_does_not_change() -> None:
    """A request in progress gets none of the later items."""
    intake = Intake()
    intake.put(entry(Kind.NODES, 1, "a"))
    intake.put(entry(Kind.NODES, 2, "b"))
    first = await intake.take()
    intake.put(entry(Kind.NODES, 3, "c"))
    assert first is not None
    assert shown(first) == (Kind.NODES, 2, "ab", "")
    second = await intake.take()
    assert second is not None
    assert shown(second) == (Kind.NODES, 3, "c", "")


async def test_reading_stops_above_the_bound() -> None:
    """Above the bound reading stops, and continues as soon as enough requests were taken."""
    intake = Intake()
    intake.put(said(1, bytes(MAX_WAITING)))
    intake.put(said(2, bytes(100)))
    reading = asyncio.ensure_future(intake.room())
    await asyncio.sleep(0)
    assert not reading.done()
    await intake.take()
    await asyncio.wait_for(reading, PATIENCE)


async def test_small_requests_are_bounded_in_number() -> None:
    """Empty requests are bounded in number."""
    intake, count = Intake(), 0
    while True:
        reading = asyncio.ensure_future(intake.room())
        await asyncio.sleep(0)
        if not reading.done():
            break
        count += 1
        intake.put(said(count))
    assert count == MAX_WAITING // ENTRY_COST + 1
    reading.cancel()


async def test_taking_waits_for_a_request() -> None:
    """A waiting task takes a single request at once."""
    intake = Intake()
    taking = asyncio.ensure_future(intake.take())
    await asyncio.sleep(0)
    assert not taking.done()
    intake.put(entry(Kind.NODES, 1, "a"))
    found = await asyncio.wait_for(taking, PATIENCE)
    assert found is not None
    assert found.number == 1


async def test_a_burst_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in a burst are joined, although each arrives separately."""
    # Even on a slow machine these are close enough, and the wait is long enough.
    monkeypatch.setattr(module, "RUSH_SECONDS", 60.0)
    monkeypatch.setattr(module, "RUSH_PAUSE", 0.2)
    intake = Intake()
    alone = 0
    # The first requests are carried out one by one, before a burst is recognized.
    for number in range(1, module.CLOSE):
        intake.put(entry(Kind.NODES, number, "a"))
        alone += (await intake.take()) is not None
    assert alone == module.CLOSE - 1
    intake.put(entry(Kind.NODES, 8, "b"))
    taking = asyncio.ensure_future(intake.take())
    for number in (9, 10):
        await asyncio.sleep(0)
        intake.put(entry(Kind.NODES, number, "b"))
    found = await asyncio.wait_for(taking, PATIENCE)
    assert found is not None
    assert shown(found) == (Kind.NODES, 10, "bbb", "")


@pytest.mark.parametrize("what", ["many", "the end"])
async def test_a_burst_waits_no_longer_than_necessary(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """With enough requests, or after the last one, there is no wait."""
    monkeypatch.setattr(module, "RUSH_SECONDS", 60.0)
    monkeypatch.setattr(module, "RUSH_PAUSE", 3600.0)
    intake = Intake()
    count = module.ENOUGH if what == "many" else module.CLOSE
    for number in range(1, count + 1):
        intake.put(entry(Kind.NODES, number, "a"))
    if what == "the end":
        intake.end()
    found = await asyncio.wait_for(intake.take(), PATIENCE)
    assert found is not None
    assert found.number == count


async def test_queued_requests_precede_the_end() -> None:
    """The end follows all queued requests, and is returned to all later calls."""
    intake = Intake()
    intake.put(said(1))
    intake.put(said(2))
    intake.end()
    numbers = []
    while (found := await intake.take()) is not None:
        numbers.append(found.number)
    assert numbers == [1, 2]
    assert await intake.take() is None


async def test_queued_requests_precede_a_failure() -> None:
    """Requests before the fault are carried out; only the first end counts."""
    intake = Intake()
    intake.put(said(1))
    intake.end(ValueError("no sense"))
    intake.end()
    intake.end(KeyError("later"))
    found = await intake.take()
    assert found is not None
    assert found.number == 1
    with pytest.raises(ValueError, match="no sense"):
        await intake.take()


@pytest.mark.parametrize("failure", [None, ValueError("no sense")])
async def test_the_end_wakes_a_waiting_task(failure: Exception | None) -> None:
    """A waiting task is woken by the end, without a request before it."""
    intake = Intake()
    taking: asyncio.Future[Any] = asyncio.ensure_future(intake.take())
    await asyncio.sleep(0)
    intake.end(failure)
    await eventually(taking.done)
    if failure is None:
        assert taking.result() is None
    else:
        assert taking.exception() is failure

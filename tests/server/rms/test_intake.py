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
"""The field of a request that holds what is added."""
REMOVED = {Kind.APPLICATIONS: 2, Kind.ALLOCATIONS: 2}
"""The field that holds what is removed."""


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
    """A marker of answers, which were passed on when they were read."""
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
    """The requests carried out for these entries."""
    intake = Intake()
    for each in entries:
        intake.put(each)
    intake.end()
    taken = []
    while (found := await intake.take()) is not None:
        taken.append(shown(found))
    return taken


@pytest.mark.parametrize("kind", REQUESTS)
async def test_what_waits_of_one_kind_is_one_request(kind: Kind) -> None:
    """Its items are in order, under the number of the last, for the RM of the first."""
    assert await taken_of(*(entry(kind, n, f"{n}{n}") for n in (1, 2, 3))) == [(kind, 3, "112233", "")]


@pytest.mark.parametrize("kind", REMOVED)
async def test_removals_are_joined_behind_additions(kind: Kind) -> None:
    """A request's additions are carried out first, and were sent first here."""
    assert await taken_of(
        entry(kind, 1, "a"),
        entry(kind, 2, "b", "A"),
        entry(kind, 3, "", "B"),
        entry(kind, 4, "", "C"),
    ) == [(kind, 4, "ab", "ABC")]


@pytest.mark.parametrize("kind", REMOVED)
async def test_an_addition_is_not_carried_out_before_an_earlier_removal(kind: Kind) -> None:
    """An item that is removed and then added again exists in the end, however many requests that takes."""
    assert await taken_of(
        entry(kind, 1, "", "a"),
        entry(kind, 2, "a"),
        entry(kind, 3, "b", "a"),
        entry(kind, 4, "a", "b"),
        entry(kind, 5, "", "c"),
    ) == [(kind, 1, "", "a"), (kind, 3, "ab", "a"), (kind, 5, "a", "bc")]


async def test_kinds_are_not_mixed() -> None:
    """Each keeps its place among those of other kinds."""
    nodes, apps = Kind.NODES, Kind.APPLICATIONS
    assert await taken_of(
        entry(nodes, 1, "a"), entry(apps, 2, "x"), entry(apps, 3, "y"), entry(nodes, 4, "b")
    ) == [(nodes, 1, "a", ""), (apps, 3, "xy", ""), (nodes, 4, "b", "")]


async def test_what_only_a_session_says_is_carried_out_by_itself() -> None:
    """No request is joined with it or across it, nor are two of them."""
    kind = Kind.ALLOCATIONS
    found = await taken_of(entry(kind, 1, "a"), said(2), said(3), entry(kind, 4, "b"))
    assert [each[:2] for each in found] == [
        (kind, 1),
        (Kind.SESSION, 2),
        (Kind.SESSION, 3),
        (kind, 4),
    ]


async def test_answers_only_count_and_hold_up_no_joining() -> None:
    """Requests before and after them are joined; the counted number is the last of all."""
    kind = Kind.ALLOCATIONS
    assert await taken_of(entry(kind, 1, "a"), answers(2), entry(kind, 3, "b"), answers(4)) == [
        (kind, 4, "ab", "")
    ]
    assert await taken_of(answers(1), answers(2), entry(kind, 3, "a")) == [
        (Kind.SESSION, 1, "", ""),
        (Kind.SESSION, 2, "", ""),
        (kind, 3, "a", ""),
    ]


async def test_streams_without_numbers_are_joined_too() -> None:
    """On the streams of `si.v1` nothing is numbered."""
    assert await taken_of(entry(Kind.NODES, 0, "a"), entry(Kind.NODES, 0, "b")) == [(Kind.NODES, 0, "ab", "")]


async def test_what_is_joined_is_bounded_in_items() -> None:
    """No more items than a request should have; a larger one is carried out as received."""
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


async def test_what_was_taken_does_not_change() -> None:
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


async def test_nobody_reads_while_too_much_waits() -> None:
    """Above the bound reading stops, and continues as soon as enough was taken."""
    intake = Intake()
    intake.put(said(1, bytes(MAX_WAITING)))
    intake.put(said(2, bytes(100)))
    reading = asyncio.ensure_future(intake.room())
    await asyncio.sleep(0)
    assert not reading.done()
    await intake.take()
    await asyncio.wait_for(reading, PATIENCE)


async def test_many_small_requests_count_for_more_than_their_bytes() -> None:
    """Empty ones are bounded in number."""
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


async def test_whoever_takes_waits_for_what_comes() -> None:
    """A single request is taken at once."""
    intake = Intake()
    taking = asyncio.ensure_future(intake.take())
    await asyncio.sleep(0)
    assert not taking.done()
    intake.put(entry(Kind.NODES, 1, "a"))
    found = await asyncio.wait_for(taking, PATIENCE)
    assert found is not None
    assert found.number == 1


async def test_in_a_rush_the_next_ones_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in a burst are joined, though each was received alone."""
    # However slow the machine is, these come close enough, and the wait is long enough.
    monkeypatch.setattr(module, "RUSH_SECONDS", 60.0)
    monkeypatch.setattr(module, "RUSH_PAUSE", 0.2)
    intake = Intake()
    alone = 0
    # The first are carried out one by one: nobody knows that there is a rush.
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
async def test_a_rush_waits_no_longer_than_it_has_to(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """With enough requests, or when none can follow, there is no wait."""
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


async def test_what_waits_is_carried_out_before_the_end() -> None:
    """The end follows them, and is repeated for further calls."""
    intake = Intake()
    intake.put(said(1))
    intake.put(said(2))
    intake.end()
    numbers = []
    while (found := await intake.take()) is not None:
        numbers.append(found.number)
    assert numbers == [1, 2]
    assert await intake.take() is None


async def test_a_failure_comes_behind_what_waits() -> None:
    """Requests before the fault are carried out; the first end counts."""
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
async def test_the_end_wakes_whoever_waits(failure: Exception | None) -> None:
    """This holds also without a request before it."""
    intake = Intake()
    taking: asyncio.Future[Any] = asyncio.ensure_future(intake.take())
    await asyncio.sleep(0)
    intake.end(failure)
    await eventually(taking.done)
    if failure is None:
        assert taking.result() is None
    else:
        assert taking.exception() is failure

"""The window for which a request waits for further items, while many items are unprocessed."""

from typing import Any

import pytest

from licorne import Ask, Client
from licorne.outgoing import BUSY, MAX_BYTES, JoinWindow, Outgoing
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import PredicateAnswer, StateDump, UpdateRequest
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import eventually

AGES = 1e6
"""Seconds of a window that is longer than any test."""


def asks(count: int, *, size: int = 0) -> list[si.Allocation]:
    """This number of asks, with a filler of that size."""
    return [si.Allocation(allocationKey=f"k{n}", taskGroupName="x" * size) for n in range(count)]


def loaded(window: float = 2.0, *, limit: int = 1000, items: int = BUSY) -> Outgoing:
    """A queue from which this number of items was taken as one request at the time 10."""
    outgoing = Outgoing(limit, window)
    outgoing.open(1000)
    outgoing.packer.allocations(asks(items))
    assert outgoing.next(10.0, 0) is not None
    return outgoing


@pytest.mark.parametrize(
    ("items", "unprocessed", "left"), [(BUSY, 0, 1.5), (1, BUSY, 1.5), (BUSY - 1, BUSY - 1, 0.0)]
)
def test_many_items_in_flight_begin_a_window(items: int, unprocessed: int, left: float) -> None:
    """A request of many items, or after many unprocessed ones, delays the next one; others do not."""
    window = JoinWindow(2.0)
    window.sent(items, unprocessed, 10.0)
    assert window.left(10.5) == left
    assert window.left(12.0) == 0.0


def test_a_quiet_request_ends_the_window() -> None:
    """The request after one without load is sent at once, even within an earlier window."""
    window = JoinWindow(2.0)
    window.sent(BUSY, 0, 10.0)
    window.sent(1, 0, 10.5)
    assert window.left(10.5) == 0.0


def test_one_ask_at_a_time_never_waits() -> None:
    """An RM that asks, waits, releases and asks again has every request sent at once."""
    outgoing = Outgoing(1000, AGES)
    outgoing.open(1000)
    for number in range(100):
        for unprocessed in (0, 1):
            outgoing.packer.allocations(asks(1))
            assert outgoing.hold(float(number)) == 0.0
            assert not outgoing.is_held
            assert outgoing.next(float(number), unprocessed) is not None


def test_items_are_held_to_the_end_of_the_window() -> None:
    """Items within the window are joined without waking the writer, and sent as one request."""
    outgoing = loaded()
    outgoing.packer.allocations(asks(1))
    assert outgoing.hold(10.5) == 1.5
    outgoing.packer.allocations(asks(2))
    assert outgoing.is_held
    assert outgoing.hold(12.0) == 0.0
    request = outgoing.next(12.0, 0)
    assert request is not None
    assert len(request.allocations.allocations) == 3


def test_nothing_is_held_while_nothing_is_queued() -> None:
    """The first item within a window wakes the writer, which may be asleep for long."""
    outgoing = loaded()
    assert outgoing.hold(10.5) == 0.0
    outgoing.packer.allocations(asks(1))
    assert not outgoing.is_held


def test_a_window_of_zero_holds_nothing() -> None:
    """With 0 every request is sent at once, whatever the load."""
    outgoing = loaded(0.0)
    outgoing.packer.allocations(asks(1))
    assert outgoing.hold(10.0) == 0.0


@pytest.mark.parametrize("what", ["items", "bytes", "kind", "removal", "callers", "answer", "dump"])
def test_other_requests_are_not_held(what: str) -> None:
    """Requests that are full, have a successor or a waiting caller, answers and dumps are sent at once."""
    outgoing = loaded(limit=5 if what == "callers" else 1000)
    packer = outgoing.packer
    packer.allocations(asks(1))
    assert outgoing.hold(10.5) > 0
    match what:
        case "items":
            packer.max_items = 1
        case "bytes":
            packer.allocations(asks(1, size=MAX_BYTES))
        case "kind":
            packer.nodes([si.NodeInfo(nodeID="n")])
        case "removal":
            packer.releases([si.AllocationRelease(allocationKey="k0")])
            packer.allocations(asks(1))
        case "callers":
            packer.allocations(asks(4))
        case "answer":
            outgoing.answer(PredicateAnswer(id=1))
        case _:
            outgoing.dump(StateDump(id=1))
    assert not outgoing.is_held
    assert outgoing.hold(10.5) == 0.0


def test_an_answer_leaves_before_held_items() -> None:
    """The answer is sent at once; the items wait for the end of their window."""
    outgoing = loaded()
    outgoing.packer.allocations(asks(1))
    outgoing.answer(PredicateAnswer(id=1))
    request = outgoing.next(11.0, BUSY)
    assert request is not None
    assert request.HasField("predicate_answers")
    assert outgoing.hold(11.0) == 1.0


def ask(key: str) -> Ask:
    """An ask with that key."""
    return Ask(key=key, application_id="a", resources={"vcore": 1})


def keys(request: UpdateRequest | None) -> list[str]:
    """The keys of the asks in a request."""
    assert request is not None
    return [item.allocationKey for item in request.allocations.allocations]


async def test_held_items_are_sent_before_the_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that closes does not wait for the end of the window, and loses nothing."""
    monkeypatch.setattr("licorne.client.MAX_JOIN_WINDOW", AGES)
    many = [f"k{number}" for number in range(BUSY)]
    heard: list[list[str]] = []

    @served
    async def script(stream: ScriptedStream) -> None:
        heard.append(keys(await stream.read()))
        heard.append(keys(await stream.read()))

    async with scripted(script) as target, listening(target, join_window=AGES) as rm:
        await rm.ready()
        await rm.ask([ask(key) for key in many])
        await eventually(lambda: heard)
        await rm.ask([ask("late")])
        await rm.ask([ask("later")])
    assert heard == [many, ["late", "later"]]


async def test_held_items_are_sent_when_the_window_is_over() -> None:
    """Held items are sent at the end of the window, without another event."""
    got: list[str] = []

    @served
    async def script(stream: ScriptedStream) -> None:
        while len(got) < 3 * BUSY:
            got.extend(keys(await stream.read()))

    async with scripted(script) as target, listening(target) as rm:
        await rm.ready()
        wanted = [f"k{number}" for number in range(3 * BUSY)]
        for key in wanted:
            await rm.ask([ask(key)])
        await eventually(lambda: len(got) == len(wanted))
    assert got == wanted


@pytest.mark.parametrize("value", [-0.001, 0.0021, float("nan"), "1", None])
def test_a_window_has_bounds(value: Any) -> None:
    """A window that is negative, too long or no number is refused with its name and value."""
    with pytest.raises(ValueError, match=r"it must be seconds, between 0 and 0\.002") as error:
        Client("127.0.0.1:1", rm_id="rm1", join_window=value)
    assert str(error.value).startswith(f"join_window is {value!r}: ")

"""Events over `licorne.v1.State`: listing, watching, resuming, bounds (spec §§ 12.1, 12.2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import host_of
from licorne_server.services import events
from support.core.builders import START
from support.peers.shim import Shim, application, ask, connected, eventually, info_of, new_allocations, node
from support.server.reports import Tape, Watcher, configure

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

SLOW = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]


@pytest.fixture
async def tape(shim: Shim, server: Server) -> Tape:
    """The event log of the RM `rm`, which has just registered."""
    await shim.register()
    return Tape(server)


async def test_events_are_listed_by_id(tape: Tape, state: "StateAsyncStub") -> None:
    """A list begins at an id, has a maximum length, and has the range of stored ids."""
    tape.play(3, each=2)
    answer = await state.ListEvents(pb.ListEventsRequest(start=tape.base + 1, count=4))
    assert tape.numbers(answer.events) == [1, 2, 3, 4]
    assert (answer.lowest_id, answer.highest_id) == (0, tape.base + 5)
    whole = await state.ListEvents(pb.ListEventsRequest(rm_id="rm"))
    assert whole.instance == answer.instance
    assert [event.id for event in whole.events] == list(range(tape.base + 6))
    nothing = await state.ListEvents(pb.ListEventsRequest(start=tape.base + 6))
    assert not nothing.events


async def test_a_list_begins_with_the_first_stored_event(
    tape: Tape, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """Events dropped by the ring are skipped, and a smaller ring takes effect at once."""
    tape.play(10)
    await configure(channel, ringBufferCapacity="4")
    answer = await state.ListEvents(pb.ListEventsRequest())
    first = answer.events[0].id
    assert len(answer.events) == 4
    assert (answer.lowest_id, answer.highest_id) == (first, first + 3)


async def test_long_lists_are_bounded(tape: Tape, state: "StateAsyncStub") -> None:
    """An answer has at most 10,000 events, fewer if they are large, and the next one continues."""
    tape.play(30_000)
    numbers: list[int] = []
    while len(numbers) < 30_000:
        start = tape.base + len(numbers)
        answer = await state.ListEvents(pb.ListEventsRequest(start=start))
        assert 0 < len(answer.events) <= 10_000
        assert answer.ByteSize() < 2 * 1024 * 1024
        numbers += tape.numbers(answer.events)
    assert numbers == list(range(30_000))


async def test_a_watch_has_new_events(tape: Tape, state: "StateAsyncStub") -> None:
    """The first message has the instance at once; then events are sent as they happen, and whole."""
    tape.play(2)
    watcher = await Watcher(state).begin()
    assert watcher.events == []
    assert watcher.instance == tape.server.events.get("rm").instance
    tape.play(3)
    assert tape.numbers(await watcher.hear(3)) == [2, 3, 4]
    record = watcher.events[0].record
    assert (record.referenceID, record.resource.resources["vcore"].value) == ("k-2", 100)


async def test_a_watch_equals_a_list(tape: Tape, state: "StateAsyncStub") -> None:
    """An event has one id and one content, however it is read."""
    watcher = await Watcher(state, start=tape.base).begin()
    tape.play(700, each=3)
    watched = await watcher.hear(2100)
    listed = await state.ListEvents(pb.ListEventsRequest(start=tape.base))
    assert watched == list(listed.events)
    assert listed.instance == watcher.instance


@asynccontextmanager
async def busy(tape: Tape, turns: int) -> AsyncIterator[None]:
    """Let events happen in every turn of the loop for a while."""

    async def play() -> None:
        for turn in range(turns):
            tape.play(1 + turn % 3, each=1 + turn % 5)
            await asyncio.sleep(0)

    playing = asyncio.create_task(play())
    yield
    await playing


async def test_resumed_watches_get_every_event_once(tape: Tape, server: Server) -> None:
    """Calls that break and continue from the next id, during many events, get every event once."""
    found: list[pb.Event] = []
    instance = ""
    async with connected(server) as channel, busy(tape, 2000):
        for _ in range(12):
            # One event is enough for this call, even if all others were sent to the previous one.
            tape.play(150)
            start = found[-1].id + 1 if found else tape.base
            request = {"start": start, "instance": instance}
            watcher = Watcher(StateStub(channel), **request)
            found += await watcher.hear(150)
            instance = watcher.instance
            watcher.call.cancel()
    async with connected(server) as channel:
        last = Watcher(StateStub(channel), start=found[-1].id + 1, instance=instance)
        found += await last.hear(tape.count - len(found))
    assert tape.numbers(found) == list(range(tape.count))


async def test_every_allocation_has_one_event(
    tape: Tape, shim: Shim, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """In a busy run, watched by calls that break again and again, each allocation has one event."""
    nodes, apps = shim.open("UpdateNode"), shim.open("UpdateApplication")
    await shim.nodes(nodes, *(node(f"n{i}", vcore=100_000) for i in range(4)))
    await shim.applications(apps, application("app"))
    calls = shim.open("UpdateAllocation")

    async def ask_for_all() -> None:
        for begin in range(0, 3000, 100):
            await shim.ask(calls, *(ask(f"k{i:04}") for i in range(begin, begin + 100)))
        await new_allocations(calls, 3000)

    log = tape.server.events.get("rm")
    asking = asyncio.create_task(ask_for_all())
    found: list[pb.Event] = []
    keys: list[str] = []
    while len(keys) < 3000:
        start = found[-1].id + 1 if found else tape.base
        watcher = Watcher(state, start=start)
        happened_already = log.next_id - start
        await watcher.hear(max(1, min(500, happened_already)))
        watcher.call.cancel()
        found += watcher.events
        keys = [
            event.record.referenceID
            for event in found
            if event.record.eventChangeDetail == si.EventRecord.APP_ALLOC
            and event.record.eventChangeType == si.EventRecord.ADD
        ]
    await asking
    assert [event.id for event in found] == list(range(tape.base, tape.base + len(found)))
    assert sorted(keys) == [f"k{i:04}" for i in range(3000)]


@pytest.mark.row(6)
async def test_a_watch_is_for_one_rm(
    tape: Tape, server: Server, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """A watch is for one RM, by default the first; another RM's registration does not affect it."""
    other = Shim(channel, "other")
    await other.register()
    theirs = Tape(server, "other")
    mine = await Watcher(state, rm_id="rm", start=tape.base).begin()
    first = await Watcher(state, start=tape.base).begin()
    of_other = await Watcher(state, rm_id="other", start=theirs.base).begin()
    tape.play(3)
    theirs.play(1)
    await other.register()
    assert (await of_other.ending())[0] is grpc.StatusCode.OUT_OF_RANGE
    assert theirs.numbers(of_other.events) == [0]
    tape.play(2)
    assert tape.numbers(await mine.hear(5)) == list(range(5))
    assert tape.numbers(await first.hear(5)) == list(range(5))


async def test_a_new_registration_ends_watches(tape: Tape, shim: Shim, state: "StateAsyncStub") -> None:
    """Watchers read the old instance to its end, and then get the new instance and id."""
    watcher = await Watcher(state).begin()
    tape.play(1)
    await shim.register()
    code, reason, metadata = await watcher.ending()
    assert (code, reason) == (grpc.StatusCode.OUT_OF_RANGE, "INSTANCE_CHANGED")
    assert tape.numbers(watcher.events) == [0]
    instance = tape.server.events.get("rm").instance
    assert metadata == {"next_id": "0", "instance": instance}
    late = Watcher(state, start=3, instance=watcher.instance)
    assert (await late.ending())[1:] == ("INSTANCE_CHANGED", metadata)
    again = await Watcher(state, start=0, instance=instance).begin()
    assert again.instance == instance


async def test_a_watch_begins_within_the_stored_events(
    tape: Tape, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """A dropped id, or one far in the future, is refused with the id to continue from."""
    await configure(channel, ringBufferCapacity="10")
    tape.play(30)
    end = tape.base + 30
    for start, next_id in ((end - 11, end - 10), (end + 1, end)):
        code, reason, metadata = await Watcher(state, start=start).ending()
        assert (code, reason) == (grpc.StatusCode.OUT_OF_RANGE, "EVENTS_NOT_KEPT")
        assert metadata["next_id"] == str(next_id)
    assert len(await Watcher(state, start=end - 10).hear(10)) == 10


async def test_a_watcher_slower_than_the_ring_is_cut_off(
    tape: Tape, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """A watcher that is too slow gets the id to continue from, and can continue."""
    await configure(channel, ringBufferCapacity="2000")
    watcher = await Watcher(state).begin()
    tape.play(1)
    await watcher.hear(1)
    tape.play(5000)
    tape.play(1, time=START + 10.5)
    code, reason, metadata = await watcher.ending()
    assert (code, reason) == (grpc.StatusCode.ABORTED, "SLOW_WATCHER")
    assert tape.numbers(watcher.events) == [0]
    next_id = int(metadata["next_id"])
    assert next_id == tape.base + 3002
    again = Watcher(state, start=next_id, instance=watcher.instance)
    assert tape.numbers(await again.hear(2000)) == list(range(3002, 5002))


async def test_a_prompt_watcher_gets_a_burst_larger_than_the_ring(
    tape: Tape, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """A prompt reader is not cut off, whatever the number of events and the way of reading."""
    await configure(channel, ringBufferCapacity="100")
    watchers = [await Watcher(state).begin() for _ in range(3)]
    for turn in range(10):
        tape.play(4000, time=START + turn)
    for watcher in watchers:
        assert tape.numbers(await watcher.hear(40_000)) == list(range(40_000))


async def test_a_watcher_that_does_not_read_is_cut_off(
    tape: Tape, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is not read ends with the id of the first unsent event."""
    monkeypatch.setattr(events, "STALL_SECONDS", 0.05)
    async with grpc.aio.insecure_channel(server.grpc_address, options=SLOW) as slow:
        watcher = await Watcher(StateStub(slow)).begin()
        tape.play(50_000)
        await eventually(lambda: not server.events.get("rm").watchers)
        code, reason, metadata = await watcher.ending()
        assert (code, reason) == (grpc.StatusCode.ABORTED, "SLOW_WATCHER")
        assert tape.base + len(watcher.events) == int(metadata["next_id"])


async def test_watches_are_bounded(tape: Tape, channel: grpc.aio.Channel, state: "StateAsyncStub") -> None:
    """One watch too many is refused; the bound applies to each RM, including later ones."""
    await Shim(channel, "other").register()
    await configure(channel, maxStreams="2")
    watchers = [await Watcher(state).begin() for _ in range(2)]
    code, reason, _ = await Watcher(state).ending()
    assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS")
    await Watcher(state, rm_id="other").begin()
    await configure(channel, maxStreams="9", maxStreamsPerHost="1")
    assert (await Watcher(state).ending())[1] == "TOO_MANY_STREAMS"
    tape.play(1)
    assert [len(await watcher.hear(1)) for watcher in watchers] == [1, 1]
    for watcher in watchers:
        watcher.call.cancel()
    await eventually(lambda: not tape.server.events.get("rm").watchers)
    await Watcher(state).begin()


async def test_tracking_is_switched_during_a_watch(
    tape: Tape, shim: Shim, channel: grpc.aio.Channel, state: "StateAsyncStub"
) -> None:
    """When it is off, nothing is recorded and calls fail; when it is on, open watches continue."""
    watcher = await Watcher(state).begin()
    tape.play(1)
    await configure(channel, trackingEnabled="false")
    with pytest.raises(grpc.aio.AioRpcError) as off:
        await state.ListEvents(pb.ListEventsRequest())
    assert off.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert off.value.details() == "Event tracking is disabled"
    assert info_of(off.value)[0] == "EVENTS_OFF"
    assert (await Watcher(state).ending())[1] == "EVENTS_OFF"
    await shim.nodes(shim.open("UpdateNode"), node("n1", vcore=1))
    await configure(channel, trackingEnabled="true")
    tape.play(1)
    assert tape.numbers(await watcher.hear(2)) == [0, 1]
    answer = await state.ListEvents(pb.ListEventsRequest(start=tape.base))
    assert answer.events == watcher.events


async def test_events_of_unknown_rms_are_not_found(server: Server, state: "StateAsyncStub") -> None:
    """The status is NOT_FOUND, with the name, or with the text that no RM is registered."""
    for request, text in (
        (pb.ListEventsRequest(), "no RM is registered, so there are no events"),
        (pb.ListEventsRequest(rm_id="x"), "RM x is not registered"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await state.ListEvents(request)
        assert (missing.value.code(), missing.value.details()) == (
            grpc.StatusCode.NOT_FOUND,
            text,
        )
    code, _, _ = await Watcher(state, rm_id="x").ending()
    assert code is grpc.StatusCode.NOT_FOUND


async def test_a_stop_ends_watches(tape: Tape, server: Server, state: "StateAsyncStub") -> None:
    """Watchers get the last events, and then the status that the server is about to stop."""
    watcher = await Watcher(state).begin()
    tape.play(2)
    stopping = asyncio.create_task(server.stop())
    code, _, _ = await watcher.ending()
    await stopping
    assert code is grpc.StatusCode.UNAVAILABLE
    assert tape.numbers(watcher.events) == [0, 1]


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:[::1]:5000", "::1"),
        ("ipv6:%5Bfe80::1%5D:5000", "fe80::1"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_the_host_of_a_peer(peer: str, host: str) -> None:
    """The host is the address without the port, in each form that grpc writes."""
    assert host_of(peer) == host

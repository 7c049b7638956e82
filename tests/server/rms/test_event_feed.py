"""Events for the RM itself, over its session (spec § 12.1.1)."""

from typing import Any

import aiohttp
import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1 import session_pb2 as sp
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import OutboxBounds
from licorne_server.services import session as event_feed
from support.core.builders import START, happened
from support.peers.shim import LOOPBACK, Call, RawSession, ask, connected, eventually, resource, serving

WANTED = sp.Callbacks(events=True)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events wait for further ones only for a moment."""
    monkeypatch.setattr(event_feed, "FEED_SECONDS", 0.02)


class Ear:
    """The events received by a session, acknowledged or not."""

    def __init__(self, session: RawSession, call: Call) -> None:
        """Use an open stream."""
        self.session = session
        self.call = call
        self.records: dict[int, si.EventRecord] = {}
        self.sizes: list[int] = []
        self.number = 0

    async def hear(self, until: int) -> dict[int, si.EventRecord]:
        """Read until the event with that id; none may be repeated."""
        while until not in self.records:
            response = await self.session.until(self.call, "events")
            self.number = response.number
            told = response.events
            self.sizes.append(len(told.records))
            for event_id, record in enumerate(told.records, told.first_id):
                assert event_id not in self.records
                self.records[event_id] = record
        return self.records


async def listed(channel: grpc.aio.Channel, start: int = 0) -> dict[int, si.EventRecord]:
    """The events as `State` lists them."""
    answer = await StateStub(channel).ListEvents(pb.ListEventsRequest(rm_id="rm", start=start))
    return {event.id: event.record for event in answer.events}


def play(server: Server, count: int, *, time: float = START) -> int:
    """Record this number of events at a time in unix seconds; return the id of the last."""
    server.engine.answer([happened("rm", 0, count, time=time)])
    return server.events.get("rm").next_id - 1


@pytest.mark.row(162)
async def test_a_session_gets_the_events_of_state(
    server: Server, session: RawSession, channel: grpc.aio.Channel
) -> None:
    """From its registration on the RM gets every event once, under the ids of State."""
    call, _ = await session.begin(callbacks=WANTED)
    ear = Ear(session, call)
    last = play(server, 2500)
    await ear.hear(last)
    assert list(ear.records) == list(range(last + 1))
    assert ear.records == await listed(channel)
    assert max(ear.sizes) <= 1000


@pytest.mark.row(162)
async def test_ids_are_the_same_in_all_interfaces() -> None:
    """Event N of the RM is event N of a watch and of REST, with the same content."""
    async with (
        serving(http=LOOPBACK) as server,
        connected(server) as channel,
        aiohttp.ClientSession() as client,
    ):
        session = RawSession(channel)
        call, _ = await session.begin(callbacks=WANTED)
        watch: Any = StateStub(channel).WatchEvents(pb.WatchEventsRequest(start=0))
        assert (await session.replay(call, asks={f"k{i}": "app" for i in range(5)})).complete
        last = play(server, 500)
        told = await Ear(session, call).hear(last)
        url = f"http://{server.http_address}/ws/v1/events/batch"
        first = min(told)
        async with client.get(url, params={"start": first}) as answer:
            shown = (await answer.json())["EventRecords"]
        assert len(shown) == len(told)
        for event_id, row in enumerate(shown, first):
            assert message_of(row) == told[event_id]
        watched: dict[int, si.EventRecord] = {}
        while last not in watched:
            watched |= {event.id: event.record for event in (await watch.read()).events}
        assert watched == await listed(channel)
        assert {event_id: watched[event_id] for event_id in told} == told


def message_of(row: dict[str, Any]) -> si.EventRecord:
    """A row of REST, as the corresponding message."""
    amounts = row.pop("resource")["resources"]
    message = si.EventRecord(**row)
    if amounts:
        values = {name: amount["value"] for name, amount in amounts.items()}
        message.resource.CopyFrom(resource(**values))
    return message


async def test_messages_have_the_configured_number_of_events(server: Server, session: RawSession) -> None:
    """No message has more than `event.requestCapacity` events."""
    extra = {"event.requestCapacity": "7"}
    registration = si.RegisterResourceManagerRequest(extraConfig=extra)
    call, _ = await session.begin(callbacks=WANTED, registration=registration)
    ear = Ear(session, call)
    await ear.hear(play(server, 50))
    assert max(ear.sizes) == 7


async def test_events_are_sent_on_request_only(server: Server, session: RawSession) -> None:
    """A session without the callback gets answers and no events."""
    call, _ = await session.begin()
    play(server, 10)
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, replay_end=sp.ReplayEnd())
    kinds = []
    while "replay_result" not in kinds:
        kinds.append((await call.next()).WhichOneof("message"))
    assert "events" not in kinds


async def test_a_resumed_session_continues_with_the_next_event(server: Server, session: RawSession) -> None:
    """After a break of the stream no event is lost or sent under two numbers."""
    call, welcome = await session.begin(callbacks=WANTED)
    ear = Ear(session, call)
    await ear.hear(play(server, 10))
    call.call.cancel()
    [rm] = server.rms.all()
    await eventually(lambda: not rm.connected)
    last = play(server, 10)
    ear.call, again = await session.begin(token=welcome.welcome.resume_token, acknowledged=ear.number)
    assert again.welcome.resumed
    await ear.hear(last)
    assert list(ear.records) == list(range(last + 1))


async def test_a_new_registration_starts_over(server: Server, session: RawSession) -> None:
    """A new registration gets its own events only, from id 0."""
    call, _ = await session.begin(callbacks=WANTED)
    await Ear(session, call).hear(play(server, 10))
    call, _ = await session.begin(instance=2, callbacks=WANTED)
    ear = Ear(session, call)
    last = play(server, 3)
    assert list(await ear.hear(last)) == list(range(last + 1))
    assert last < 10


async def test_dropped_events_leave_a_gap(
    server: Server, session: RawSession, channel: grpc.aio.Channel
) -> None:
    """Events that the ring dropped before they were sent are left out, and ids continue after them."""
    call, _ = await session.begin(callbacks=WANTED)
    await AdminStub(channel).UpdateConfiguration(
        ap.UpdateConfigurationRequest(rm_id="rm", extra_config={"event.ringBufferCapacity": "20"})
    )
    ear = Ear(session, call)
    await ear.hear(play(server, 1))
    play(server, 1000)
    last = play(server, 1, time=START + 10.5)
    await ear.hear(last)
    assert sorted(ear.records)[-20:] == list(range(last - 19, last + 1))
    assert last - 20 not in ear.records


async def test_events_leave_room_for_decisions_in_the_outbox() -> None:
    """An RM that acknowledges nothing is not put on hold for its events; later it gets the rest."""
    bounds = OutboxBounds(high=400_000, low=200_000, cap=5_000_000)
    async with serving(bounds=bounds) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin(callbacks=WANTED)
        assert (await session.replay(call)).complete
        last = play(server, 20_000)
        [rm] = server.rms.all()
        full = bounds.low - event_feed.FEED_BYTES - 1024
        await eventually(lambda: rm.outbox.size > full)
        await session.send(call, allocations=si.AllocationRequest(allocations=[ask("k")]))
        placed = False
        told = number = 0
        while told < last:
            response = await call.next()
            number = max(number, response.number)
            if response.HasField("events"):
                told = response.events.first_id + len(response.events.records) - 1
            placed = placed or bool(response.allocations.new)
            assert rm.outbox.size < bounds.high
            if placed:
                ack = sp.UpdateRequest(acknowledged=number, ack=sp.Ack())
                await call.send(ack)
            else:
                assert rm.outbox.size < bounds.low

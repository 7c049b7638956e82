"""Messages to the client other than answers: container states and events."""

import asyncio
from collections.abc import Sequence

import pytest

from licorne import Application, Ask, ContainerState, EventRecord, Node
from licorne.check_runner import ListFeed
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import ContainerStates, Events
from licorne.v1.state_pb2 import ListEventsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.services import session
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import connected, eventually, serving


async def test_container_states_arrive_in_order() -> None:
    """Every state arrives, in order and once, even while the function is busy or has failed."""
    heard: list[ContainerState] = []

    async def note(states: Sequence[ContainerState]) -> None:
        heard.extend(states)
        await asyncio.sleep(0)
        if len(heard) == 1:
            raise RuntimeError("out of order")

    @served
    async def script(stream: ScriptedStream) -> None:
        for number in (2, 3, 3):
            state = si.UpdateContainerSchedulingStateRequest(
                applicationID="a",
                allocationKey=f"k{number}",
                state=si.UpdateContainerSchedulingStateRequest.FAILED,
                reason="waiting",
            )
            told = ContainerStates(states=[state])
            await stream.write(number=number, container_states=told)

    async with scripted(script) as target, listening(target, on_container_states=note):
        await eventually(lambda: len(heard) == 2)
    assert heard == [
        ContainerState("k2", "a", "FAILED", "waiting"),
        ContainerState("k3", "a", "FAILED", "waiting"),
    ]


def events(first: int, count: int) -> Events:
    """Events of an application, with ids from `first` on."""
    record = si.EventRecord(
        type=si.EventRecord.APP,
        objectID="a",
        referenceID="k",
        message="text",
        timestampNano=1_500_000_000,
        eventChangeType=si.EventRecord.ADD,
        eventChangeDetail=si.EventRecord.APP_ALLOC,
        resource=si.Resource(resources={"vcore": si.Quantity(value=5)}),
    )
    return Events(first_id=first, records=[record] * count)


async def test_events_arrive_with_their_ids() -> None:
    """Each record has its own id, even after a gap, and its fields by the names of the wire."""
    heard: list[EventRecord] = []

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, events=events(0, 2))
        await stream.write(number=3, events=events(7, 1))

    async with scripted(script) as target, listening(target, on_events=heard.extend):
        await eventually(lambda: len(heard) == 3)
    assert [record.id for record in heard] == [0, 1, 7]
    assert heard[0] == EventRecord(
        id=0,
        type="APP",
        object_id="a",
        reference_id="k",
        message="text",
        time=1.5,
        change="ADD",
        detail="APP_ALLOC",
        resources={"vcore": 5},
    )


async def test_unknown_kinds_of_events_are_numbers() -> None:
    """Unknown kinds of a newer server are numbers, and do not affect other events."""
    heard: list[EventRecord] = []
    newer = events(0, 1)
    newer.records[0].eventChangeDetail = 999  # type: ignore[assignment]

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, events=newer)

    async with scripted(script) as target, listening(target, on_events=heard.extend):
        await eventually(lambda: heard)
    assert (heard[0].type, heard[0].detail) == ("APP", "999")


async def test_events_beyond_the_limit_leave_a_gap() -> None:
    """A function that is too slow loses the oldest lists, and gets the remaining ones in order."""
    may_go_on = asyncio.Event()
    heard: list[Sequence[int]] = []

    async def slow(items: Sequence[int]) -> None:
        heard.append(items)
        await may_go_on.wait()

    feed = ListFeed(slow, limit=5)
    feed.put([1, 2])
    await eventually(lambda: heard)
    for first in (3, 5, 7, 9):
        feed.put([first, first + 1])
    may_go_on.set()
    await eventually(lambda: len(heard) == 3)
    assert heard == [[1, 2], [7, 8], [9, 10]]


async def test_a_closed_client_calls_no_function() -> None:
    """After the end of the client its functions are not called."""
    heard: list[Sequence[int]] = []
    feed = ListFeed(heard.append)
    feed.put([1])
    feed.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert heard == []


async def test_events_equal_those_of_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server's events arrive from the registration on, with the ids that `State` lists."""
    monkeypatch.setattr(session, "FEED_SECONDS", 0.02)
    heard: list[EventRecord] = []
    async with (
        serving() as server,
        connected(server) as channel,
        listening(server.grpc_address, on_events=heard.extend) as client,
    ):
        await client.add_nodes([Node(node_id="n1", capacity={"vcore": 1000})])
        tags = {"namespace": "default"}
        await client.submit_applications([Application(application_id="a", user="ann", tags=tags)])
        await client.ask([Ask(key="k", application_id="a", resources={"vcore": 10})])
        await eventually(lambda: any(event.detail == "APP_ALLOC" for event in heard))
        answer = await StateStub(channel).ListEvents(ListEventsRequest(count=len(heard)))
    assert [event.id for event in heard] == [event.id for event in answer.events]
    assert [(event.object_id, event.resources) for event in heard] == [
        (
            event.record.objectID,
            {name: item.value for name, item in event.record.resource.resources.items()},
        )
        for event in answer.events
    ]

"""Resumptions that the server refuses, and what remains valid of the previous session."""

import asyncio

import grpc
import pytest

from licorne import Allocated, Application, Ask, Event, Node, NodeAccepted, Reconnected, Released
from licorne.client import Client
from licorne.session import Stamp
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest
from support.patience import PATIENCE
from support.peers.scripted import QUICK, ScriptedStream, scripted

REJECTIONS = {
    "nodes": si.NodeResponse(rejected=[si.RejectedNode(nodeID="n1", reason="no")]),
    "applications": si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID="a", reason="no")]),
    "allocations": si.AllocationResponse(
        rejectedAllocations=[si.RejectedAllocation(allocationKey="k1", applicationID="a")]
    ),
}
"""Messages that a server may still send when the RM registers again."""


async def told(rm: Client) -> None:
    """Add a node, an application and an ask."""
    await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 9})])
    await rm.submit_applications([Application(application_id="a")])
    await rm.ask([ask("k1")])


def ask(key: str) -> Ask:
    """An ask of the application `a`."""
    return Ask(key=key, application_id="a", resources={"vcore": 1})


async def events_until(rm: Client, last: Event) -> list[Event]:
    """The events up to the last one."""
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in rm.events():
            events.append(event)
            if event == last:
                return events
    raise AssertionError("the client was closed")


def accepted(node_id: str) -> si.NodeResponse:
    """The answer that a node is accepted."""
    return si.NodeResponse(accepted=[si.AcceptedNode(nodeID=node_id)])


def keys(requests: list[UpdateRequest]) -> list[str]:
    """The keys of the asks and allocations in these requests, in order."""
    return [item.allocationKey for request in requests for item in request.allocations.allocations]


@pytest.mark.parametrize(
    ("former", "present"),
    [((1, 1), (1, 2)), ((1, 7), (2, 1))],
    ids=["lower session", "lower epoch"],
)
async def test_rejections_of_a_previous_registration_are_dropped(former: Stamp, present: Stamp) -> None:
    """A rejection from before the new registration removes no item from the cache."""

    async def breaks(stream: ScriptedStream) -> None:
        stream.epoch, stream.session = former
        await stream.welcome()
        await stream.replay()
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def anew(stream: ScriptedStream) -> None:
        stream.epoch, stream.session = present
        await stream.welcome()
        for number, (kind, rejection) in enumerate(REJECTIONS.items(), 1):
            epoch, session = former
            response = {"number": number, "epoch": epoch, "session": session, kind: rejection}
            await stream.write(**response)
        await stream.replay()
        await stream.write(number=2, nodes=accepted("n1"))
        await stream.until_goodbye()

    async with scripted(breaks, anew) as target, Client(target, rm_id="rm1", retry=QUICK) as rm:
        await told(rm)
        events = await events_until(rm, NodeAccepted("n1"))
        assert events == [Reconnected(resumed=False), NodeAccepted("n1")]
        assert list(rm.cache.nodes) == ["n1"]
        assert list(rm.cache.applications) == [("default", "a")]
        assert list(rm.cache.asks) == ["k1"]


async def test_a_refused_resumption_causes_a_replay() -> None:
    """After a refused resumption numbers start at 1, and the replay has the unprocessed requests once."""
    sent: list[UpdateRequest] = []
    reached, asked = asyncio.Event(), asyncio.Event()

    async def breaks(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, nodes=accepted("n1"))
        request = await stream.read()
        assert request is not None
        assert keys([request]) == ["k2"]
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def anew(stream: ScriptedStream) -> None:
        stream.session = 2
        reached.set()
        await asked.wait()
        hello = await stream.welcome(resume_token="another")
        assert hello.hello.resume_token == "token"
        sent.extend(await stream.replay())
        await stream.write(number=2, nodes=accepted("n2"))
        request = await stream.read()
        assert request is not None
        sent.append(request)
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "gone again")

    async def resumed(stream: ScriptedStream) -> None:
        stream.session = 2
        hello = await stream.welcome(resumed=True)
        assert hello.hello.resume_token == "another"
        await stream.until_goodbye()

    scripts = (breaks, anew, resumed)
    async with scripted(*scripts) as target, Client(target, rm_id="rm1", retry=QUICK) as rm:
        await rm.add_nodes([Node(node_id="n2", capacity={})])
        await told(rm)
        await events_until(rm, NodeAccepted("n1"))
        await rm.ask([ask("k2")])
        await asyncio.wait_for(reached.wait(), PATIENCE)
        await rm.ask([ask("k3")])
        asked.set()
        await events_until(rm, NodeAccepted("n2"))
        await rm.ask([ask("k4")])
        await events_until(rm, Reconnected(resumed=True))
        assert (rm.stats.streams, rm.stats.replayed, rm.stats.resumed) == (3, 2, 1)
    assert [request.number for request in sent] == list(range(1, len(sent) + 1))
    assert keys(sent) == ["k1", "k2", "k3", "k4"]


async def test_a_release_of_the_previous_session_is_completed() -> None:
    """The allocation is reported as released when the replay begins, and is not in the replay."""
    placed = si.Allocation(allocationKey="k1", applicationID="a", nodeID="n1")

    async def breaks(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, allocations=si.AllocationResponse(new=[placed]))
        request = await stream.read()
        assert request is not None
        assert request.allocations.releases.allocationsToRelease[0].allocationKey == "k1"
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def anew(stream: ScriptedStream) -> None:
        stream.session = 2
        await stream.welcome()
        replay = await stream.replay()
        assert keys(replay) == []
        assert replay[-1].replay_end.allocations == 0
        await stream.until_goodbye()

    async with scripted(breaks, anew) as target, Client(target, rm_id="rm1", retry=QUICK) as rm:
        await told(rm)
        await events_until(rm, Allocated("k1", "a", "n1", "default"))
        await rm.release(["k1"])
        assert await events_until(rm, Reconnected(resumed=False)) == [
            Released("k1", "a", "n1", ""),
            Reconnected(resumed=False),
        ]

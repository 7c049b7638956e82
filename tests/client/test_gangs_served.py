"""Gangs of the Python client and of the fake RM, on a real server."""

import asyncio

import pytest

from licorne import (
    Allocated,
    Application,
    ApplicationStateChanged,
    Ask,
    AskDropped,
    Client,
    Event,
    Node,
    ReleaseRequested,
    TaskGroup,
    Termination,
)
from licorne_core.views import Views
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.patience import PATIENCE
from support.peers.shim import eventually

WORKERS = TaskGroup(name="work", members=2, resources={"vcore": 1000})
LEADER = TaskGroup(name="lead", members=1, resources={"vcore": 1000})
FIRST, SECOND = "app-work-placeholder-1", "app-work-placeholder-2"


def used(views: Views) -> int:
    """The allocated amounts of the whole cluster."""
    [partition] = views.partitions()
    return views.queue(partition.name, "root").allocated.get("vcore", 0)


async def test_a_gang_needs_task_groups_and_members_only() -> None:
    """The client submits the placeholders and confirms their ends, and the members run."""
    heard: list[Event] = []

    async def listen(client: Client) -> None:
        async for event in client.events():
            heard.append(event)

    def running(client: Client) -> set[str]:
        return {key for keys in client.cache.by_node.values() for key in keys}

    async with serve() as server:
        async with Client(server.target, rm_id="rm1") as rm:
            listener = asyncio.create_task(listen(rm))
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 9000})])
            gang = Application(
                application_id="app", user="ann", tags={"namespace": "x"}, task_groups=(WORKERS,)
            )
            await rm.submit_applications([gang])
            await eventually(lambda: running(rm) == {FIRST, SECOND})
            members = [
                Ask(key=key, application_id="app", resources={"vcore": size}, task_group="work")
                for key, size in (("same", 1000), ("smaller", 300))
            ]
            await rm.ask(members)
            await eventually(lambda: running(rm) == {"same", "smaller"})
            assert used(server.views) == 1300
        await listener
    wanted = [event for event in heard if isinstance(event, ReleaseRequested)]
    assert [(event.key, event.termination, event.confirmed) for event in wanted] == [
        (FIRST, Termination.REPLACED, True),
        (SECOND, Termination.REPLACED, True),
    ]


async def test_a_placeholder_stops_after_its_time() -> None:
    """The fake RM confirms a stop after the time of the container, by the clock of the test."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as server,
        FakeRM(server.target, clock=clock, start_after=2, stop_after=5) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("app", task_groups=[WORKERS])
        await rm.allocated(2)
        assert not rm.containers.running
        await clock.advance(2)
        assert rm.containers.running == {FIRST, SECOND}
        [key] = await rm.ask("app", task_group="work", vcore=1000)
        await rm.until(lambda: FIRST in rm.containers.stopping, "the replacement")
        await clock.advance(4.9)
        assert key not in rm.allocations
        await clock.advance(0.1)
        await rm.until(lambda: key in rm.allocations, "the member")
        assert rm.allocations.keys() == {SECOND, key}
        assert not rm.containers.stopping
        await clock.advance(2)
        assert rm.containers.running == {SECOND, key}


async def test_an_unconfirmed_allocation_keeps_its_room() -> None:
    """A fake RM can refuse to stop an allocation, until the test lets it stop."""
    async with (
        serve() as server,
        FakeRM(server.target, stop_after=lambda event: None if event.key == FIRST else 0) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("app", task_groups=[WORKERS])
        await rm.allocated(2)
        await rm.ask("app", 2, task_group="work", vcore=1000)
        await rm.until(lambda: "app-2" in rm.allocations, "the member in the second place")
        assert rm.allocations.keys() == {FIRST, "app-2"}
        await rm.stopped([FIRST])
        await rm.until(lambda: "app-1" in rm.allocations, "the member in the first place")
        assert used(server.views) == 2000


async def test_dropped_members_are_submitted_again() -> None:
    """After a soft timeout the application continues, and its members run without the gang."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as server,
        FakeRM(server.target, clock=clock, resubmit=True) as rm,
    ):
        await rm.add_nodes(1, vcore=1000)
        await rm.submit("app", task_groups=[LEADER, WORKERS], placeholder_timeout=60)
        await rm.allocated(1)
        await rm.ask("app", task_group="work", vcore=1000)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 3)
        await clock.advance(60)
        await rm.until(lambda: "app-1" in rm.allocations, "the member")
        dropped = {event.key: event for event in rm.events if isinstance(event, AskDropped)}
        assert dropped.keys() == {FIRST, SECOND, "app-1"}
        assert [key for key, event in dropped.items() if event.resubmitted] == ["app-1"]
        await rm.until(lambda: rm.states["app"] == "Running", "the application to go on")
        assert rm.allocations.keys() == {"app-1"}


@pytest.mark.parametrize(("room", "states"), [(2000, ["Running"]), (1000, ["Resuming", "Accepted"])])
async def test_the_recipe_for_members_works(room: int, states: list[str]) -> None:
    """The example of the client's page never waits for a Running state that is not reached."""
    clock = VirtualClock()
    heard: list[str] = []
    started: list[str] = []
    member = Ask(key="m", application_id="app", resources={"vcore": 1000}, task_group="work")
    members = [member]
    async with serve(clock=clock) as server, Client(server.target, rm_id="rm1") as rm:
        await rm.add_nodes([Node(node_id="n1", capacity={"vcore": room})])
        gang = Application(
            application_id="app",
            user="ann",
            tags={"namespace": "x"},
            task_groups=(WORKERS,),
            placeholder_timeout=60,
        )
        await rm.submit_applications([gang])
        async with asyncio.timeout(PATIENCE):
            async for event in rm.events():
                match event:
                    case ApplicationStateChanged():
                        before = heard[-1] if heard else ""
                        heard.append(event.state)
                        if event.state == "Running" or (before, event.state) == (
                            "Resuming",
                            "Accepted",
                        ):
                            await rm.ask(members)
                            members = []
                    case Allocated() if event.placeholder:
                        if room == 1000:
                            await clock.advance(60)
                    case Allocated():
                        started.append(event.key)
                        break
    assert started == ["m"]
    assert heard[1 : 1 + len(states)] == states

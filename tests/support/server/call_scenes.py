"""Small servers with an RM whose calls are recorded in ``data/recorded/calls``."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import grpc

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.ids import PartitionName
from licorne_server.process.clock import Clock
from support.core.builders import TIME, config, victim
from support.peers.shim import (
    STREAMS,
    Call,
    Shim,
    application,
    ask,
    connected,
    new_allocations,
    node,
    resource,
    serving,
)
from support.server.configuring import A

Place = tuple[grpc.aio.Channel, dict[str, Call]]
"""A connection, and the RM's streams by name."""

ORDERED = """\
partitions:
  - name: default
    nodesortpolicy: {type: spread, attribute: si/zone}
    limits: [{limit: x, users: [tester], maxresources: {vcore: 100m}, maxapplications: 9}]
    queues:
      - name: root
        submitacl: "*"
        properties: {preemption.delay: 7s}
        queues:
          - {name: b, properties: {priority.offset: "3"}}
          - name: a
            queues: [{name: x, resources: {guaranteed: {vcore: 1}, max: {vcore: 2}}}]
"""
LIMITED = """\
partitions:
  - name: default
    limits:
      - {limit: users, users: ["*"], maxresources: {vcore: 300m}, maxapplications: 3}
      - {limit: groups, groups: [dev], maxresources: {vcore: 200m}}
    queues: [{name: root, submitacl: "*", queues: [{name: a}, {name: b}]}]
"""
RACKS = config("[{name: default}]", properties="{topology.levels: 'zone,rack'}")


@asynccontextmanager
async def registered(clock: Clock, *, configuration: str = "", **sizes: Any) -> AsyncIterator[Place]:
    """The RM `rm` with the application `app`, and nodes, by default one of a core."""
    async with serving(clock=clock) as server, connected(server) as channel:
        calls = await Shim(channel).set_up(config=configuration, **sizes)
        yield channel, dict(zip(("UpdateAllocation", "UpdateApplication", "UpdateNode"), calls, strict=True))


async def wants(place: Place, *asks: si.Allocation, placed: int) -> None:
    """Send asks, and wait until `placed` of them have a node."""
    call = place[1]["UpdateAllocation"]
    await call.send(si.AllocationRequest(rmID="rm", allocations=asks))
    await new_allocations(call, placed)


async def submits(place: Place, *new: si.AddApplicationRequest) -> None:
    """Submit applications, and wait for an answer."""
    call = place[1]["UpdateApplication"]
    await call.send(si.ApplicationRequest(rmID="rm", new=new))
    while not (answer := await call.next()).accepted and not answer.rejected:
        pass


@asynccontextmanager
async def alone(clock: Clock) -> AsyncIterator[Place]:
    """An RM that has registered with a queue `a`, and nothing else."""
    async with serving(clock=clock) as server, connected(server) as channel:
        await Shim(channel).register(A)
        yield channel, {}


@asynccontextmanager
async def waiting(clock: Clock) -> AsyncIterator[Place]:
    """A node with room for two of three asks."""
    async with registered(clock, vcore=250) as place:
        await wants(place, *(ask(f"k{i}", priority=-i) for i in range(3)), placed=2)
        yield place


@asynccontextmanager
async def ordered(clock: Clock) -> AsyncIterator[Place]:
    """Queues with all kinds of settings, an ask above a limit, and a refused application."""
    async with serving(clock=clock) as server, connected(server) as channel:
        shim = Shim(channel)
        await shim.register(ORDERED)
        place = channel, {name: shim.open(name) for name in STREAMS}
        await shim.nodes(place[1]["UpdateNode"], node("n0", vcore=1000))
        await submits(place, application("app", "root.b"))
        await submits(place, application("lost", "root.nowhere"))
        await wants(place, ask("k0"), ask("k1"), placed=1)
        await Shim(channel, "other").register()
        yield place


@asynccontextmanager
async def full(clock: Clock) -> AsyncIterator[Place]:
    """In root.a two of four asks for a core are placed; the application `idle` has no asks."""
    queues = config(
        "[{name: a, resources: {max: {vcore: 2}}}, {name: b}]",
        rest="limits: [{limit: all, users: [tester], maxresources: {vcore: 100}, maxapplications: 9}]",
        properties="{preemption.delay: 7s}",
    )
    async with registered(clock, configuration=queues, nodes=2, vcore=2_000) as place:
        await submits(place, application("full", "root.a"), application("idle", "root.a"))
        await wants(place, *(ask(f"k{i}", "full", 1_000) for i in range(4)), placed=2)
        yield place


@asynccontextmanager
async def gangs(clock: Clock) -> AsyncIterator[Place]:
    """A gang whose placeholders are placed, and an elastic one with two members."""
    async with registered(clock) as place:
        style: dict[str, Any] = {"gangSchedulingStyle": "Hard", "executionTimeoutMilliSeconds": 60_000}
        await submits(place, application("gang", placeholderAsk=resource(vcore=200), **style))
        held = [ask(key, "gang", taskGroupName="workers", placeholder=True) for key in ("p1", "p2")]
        await wants(place, *held, placed=2)
        await submits(place, application("elastic", tags={"namespace": "default", "licorne/gang-min": "2"}))
        await wants(place, *(ask(key, "elastic", taskGroupName="w") for key in ("m1", "m2")), placed=2)
        yield place


@asynccontextmanager
async def reserved(clock: Clock) -> AsyncIterator[Place]:
    """Three nodes with an allocation each, of which two are reserved for asks that may use no other node."""
    async with registered(clock, nodes=3, vcore=150) as place:
        await wants(place, *(ask(f"k{i}", priority=-i) for i in range(3)), placed=3)
        yield place


@asynccontextmanager
async def short(clock: Clock) -> AsyncIterator[Place]:
    """A node that is too small for any ask, and a queue with room for two asks."""
    queues = config("[{name: a, resources: {max: {vcore: 600m}}}, {name: b}, {name: ns}]")
    async with registered(clock, configuration=queues, vcore=10) as place:
        await submits(place, application("one", "root.a"), application("two", "root.b"))
        yield place


@asynccontextmanager
async def used(clock: Clock) -> AsyncIterator[Place]:
    """Applications of ann, who is in a group, in two queues, and one of bob."""
    async with serving(clock=clock) as server, connected(server) as channel:
        shim = Shim(channel)
        await shim.register(LIMITED)
        place = channel, {name: shim.open(name) for name in STREAMS}
        await shim.nodes(place[1]["UpdateNode"], node("n0", vcore=1000))
        ann = si.UserGroupInformation(user="ann", groups=["dev"])
        bob = si.UserGroupInformation(user="bob")
        named = (("one", "root.a", ann), ("two", "root.b", ann), ("three", "root.b", bob))
        await submits(place, *(application(name, queue, ugi=user) for name, queue, user in named))
        await wants(place, *(ask(f"{name}-0", name) for name, _, _ in named), placed=3)
        yield place


@asynccontextmanager
async def victims(clock: Clock) -> AsyncIterator[Place]:
    """A victim that was released."""
    async with serving(clock=clock) as server, connected(server) as channel:
        await Shim(channel).set_up()
        server.scheduler.partitions[PartitionName("[rm]default")].ledger.note(victim("v", released=TIME + 1))
        yield channel, {}


@asynccontextmanager
async def racks(clock: Clock) -> AsyncIterator[Place]:
    """Three racks in two zones, with two nodes of four cores each; one ask waits for its only node."""
    async with serving(clock=clock) as server, connected(server) as channel:
        shim = Shim(channel)
        await shim.register(RACKS)
        place = channel, {name: shim.open(name) for name in STREAMS}
        for zone, rack in ("a1", "a2", "b1"):
            for number in (1, 2):
                info = node(f"{zone}{rack}-{number}", vcore=4000)
                info.attributes.update(zone=zone, rack=rack)
                await shim.nodes(place[1]["UpdateNode"], info)
        await submits(place, application("app", "root.default"))
        tags = {"yunikorn.apache.org/requiredNode": "a1-1"}
        sizes = {"r1": 1500, "r2": 1500, "r3": 3500}
        await wants(place, *(ask(key, vcore=n, allocationTags=tags) for key, n in sizes.items()), placed=2)
        yield place


@asynccontextmanager
async def shared(clock: Clock) -> AsyncIterator[Place]:
    """Two RMs without asks, the second of which has no streams."""
    async with registered(clock) as place:
        await Shim(place[0], "other").register()
        yield place


PLACES = (registered, alone, waiting, ordered, full, gangs, reserved, short, used, victims, racks, shared)
SCENES: dict[str, Callable[[Clock], AbstractAsyncContextManager[Place]]] = {
    place.__name__: place for place in PLACES
}

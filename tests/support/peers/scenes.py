"""Small servers with RMs whose output by commands is recorded in ``data/recorded/commands``."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from licorne import Rejected
from licorne.v1 import admin_pb2 as ap
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.messages.commands import RemoveRm
from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import MemberId
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.builders import config
from support.members import Table, member
from support.peers.shim import Shim, application, ask, connected, new_allocations, serving
from support.peers.town import CONFIG, busy_town
from support.server.configuring import BROKEN, A, Admin, B, C, text

BUDGETS = """\
budgets:
  - name: company
    limit: {vcore: 300m}
    members: [{rm: "*"}]
    budgets:
      - name: research
        limit: {vcore: 1}
        members: [{queue: root.research}]
"""
NARROW_AND_WIDE = """\
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {vcore: 2}}
            properties: {preemption.delay: 1s}
          - name: b
            resources: {guaranteed: {vcore: 3}}
            properties: {preemption.delay: 1s}
"""
WIDER = NARROW_AND_WIDE.replace("max: {vcore: 2}", "max: {vcore: 3}")
NARROW = NARROW_AND_WIDE.replace("max: {vcore: 2}", "max: {vcore: 1}").replace("- name: b", "- name: c")
JOB = """\
application: job
user: ann
groups: [dev]
queue: root.b
asks:
  - {name: driver, resources: {vcore: 1}, priority: 5}
  - {name: exec, count: 2, resources: {vcore: 500m}}
"""
BAD = "partitions:\n  - name: default\n    queues:\n      - name: a.b\n        colour: red\n"
PUBLISHED = f"""\
checksum: {"A1" * 32}
partitions:
  - usergroupresolver: {{type: os}}
    queues: [{{name: root, adminacl: ann, queues: [{{name: a, adminacl: bob}}, {{name: b}}]}}]
"""
FILES = {
    "budgets.yaml": "budgets: [{name: company, limit: {vcore: 9}, members: [{rm: '*'}]}]\n",
    "tree.yaml": BUDGETS,
    "limits.yaml": BUDGETS.replace("limit", "limits"),
    "wider.yaml": CONFIG.replace("vcore: 4", "vcore: 5"),
    "broken.yaml": CONFIG.replace("vcore: 4", "vcore: four"),
    "job.yaml": JOB.replace("root.b", "root.prod"),
    "a.yaml": A,
    "b.yaml": B,
    "a-of-two.yaml": text("a", vcore=2).replace("- name: default", "- name: default # ours"),
    "a-in-other-words.yaml": f"# as it is\n{A}",
    "two-keys.yaml": BROKEN.replace("name: a", "name: a, hue: 1"),
    "more.yaml": WIDER,
    "less.yaml": NARROW,
    "less-again.yaml": NARROW.replace("preemption.delay: 1s}", "x: y}", 1),
    "inherited.yaml": WIDER.replace('"*"', '"*"\n        properties: {backfill: easy}'),
    "same.yaml": NARROW_AND_WIDE,
    "negative.yaml": NARROW_AND_WIDE.replace("max: {vcore: 2}", "max: {vcore: -2}"),
    "job-of-b.yaml": JOB,
    "large.yaml": JOB.replace("vcore: 1}", "vcore: 2}").partition("  - {name: exec")[0],
    "good.yaml": "partitions:\n  - name: default\n    queues: [{name: a, submitacl: ann}]\n",
    "bad.yaml": BAD,
    "a,b:c.yaml": BAD.replace("red", "100%"),
    "nearly.yaml": "partitions: [{name: default, queue: [{name: root}]}]",
    "dubious.yaml": "partitions: [{queues: [{name: a, parent: false, queues: [{name: b, submitacl: ann}]}]}]",
    "published.yaml": PUBLISHED,
    "nowhere.yaml": '{"application": "a", "user": "ann", "queue": "root.x", "asks": []}',
}
"""The files for commands, by name."""


@asynccontextmanager
async def nowhere(clock: VirtualClock) -> AsyncIterator[str]:
    """No server."""
    yield "127.0.0.1:1"


@asynccontextmanager
async def town(clock: VirtualClock) -> AsyncIterator[str]:
    """Two RMs, of which `blue` has a full queue."""
    async with busy_town(clock) as (target, _, _):
        yield target


@asynccontextmanager
async def namesakes(clock: VirtualClock) -> AsyncIterator[str]:
    """The town, where `green` also has applications `shop` and `field`, and a refused one."""
    async with busy_town(clock) as (target, _, green):
        for name in ("shop", "field"):
            await green.submit(name, queue="root.prod", user="eve")
            await green.ask(name, 1, prefix=f"{name}-of-green", vcore=90_000)
        with pytest.raises(Rejected):
            await green.submit("lost", queue="root.nosuch", user="eve")
        await green.add_nodes(1, prefix="a", attributes={"zone": "a", "spot": ""})
        await green.add_nodes(1, prefix="b", attributes={"zone": "b"})
        yield target


@asynccontextmanager
async def alone(clock: VirtualClock) -> AsyncIterator[str]:
    """One RM with the configuration A, on a server without a file and without a state directory."""
    async with serving(clock=clock) as server, connected(server) as channel:
        await Shim(channel).register(A)
        yield server.grpc_address


@asynccontextmanager
async def several(clock: VirtualClock) -> AsyncIterator[str]:
    """One RM with revisions by an operator, one that is no longer registered, and a third one."""
    async with serving(clock=clock) as server, connected(server) as channel:
        await Shim(channel).register(A)
        await Admin(channel).apply(B + "# the end, without a line break")
        await Admin(channel).apply(C, comment="quick fix")
        await Shim(channel, "away").register(A)
        await server.engine.submit(RemoveRm(rm_id=RmId("away")))
        server.rms.forget(RmId("away"))
        await Shim(channel, "other").register(C)
        yield server.grpc_address


@asynccontextmanager
async def full(clock: VirtualClock) -> AsyncIterator[str]:
    """In root.a two of three asks for a core run, which is its maximum; two nodes have a free core each."""
    async with serving(clock=clock) as server, connected(server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up(config=NARROW_AND_WIDE, nodes=2, vcore=2_000)
        await shim.applications(calls[1], application("full", "root.a"))
        wanted = [ask(f"k{i}", "full", 1_000) for i in range(3)]
        for one in wanted:
            one.preemptionPolicy.allowPreemptSelf = True
        await shim.ask(calls[0], *wanted)
        await new_allocations(calls[0], 2)
        yield server.grpc_address


@asynccontextmanager
async def budgeted(clock: VirtualClock) -> AsyncIterator[str]:
    """An RM with four asks; its budget lets three of them run."""
    async with serving(clock=clock) as server, connected(server) as channel:
        await AdminStub(channel).UpdateBudgets(ap.UpdateBudgetsRequest(budgets=BUDGETS))
        shim = Shim(channel)
        calls = await shim.set_up()
        await shim.ask(calls[0], *(ask(f"a{number}") for number in range(4)))
        await new_allocations(calls[0], 3)
        yield server.grpc_address


@asynccontextmanager
async def planned(clock: VirtualClock) -> AsyncIterator[str]:
    """A job runs for ten minutes, one is planned after it, and a short one has overtaken that."""
    queues = config("[{name: batch}, {name: other}]", properties="{backfill: conservative}")
    async with serve(queues, clock=clock) as served, FakeRM(served.target) as rm:
        await rm.add_nodes(1, vcore=4000)
        await rm.submit("job", queue="root.batch", tags={"licorne/runtime": "600"})
        await rm.ask("job", vcore=3000)
        await rm.allocated(1)
        await rm.ask("job", prefix="large", tags={"licorne/start-by": "1000000000"}, vcore=4000)
        while not await rm.client.state.calendar():
            pass
        await rm.submit("quick", queue="root.batch", tags={"licorne/runtime": "60"})
        await rm.ask("quick", prefix="quick", vcore=1000)
        await rm.allocated(2)
        await clock.advance(36.0)
        yield served.target


@asynccontextmanager
async def limited(clock: VirtualClock) -> AsyncIterator[str]:
    """Users and a group with limits; an ask of bob is too large for the node."""
    limits = "limits: [{limit: x, users: ['*'], groups: [dev], maxresources: {vcore: 30}}]"
    async with (
        serve(config("[{name: a}, {name: b}]", rest=limits), clock=clock) as served,
        FakeRM(served.target, rm_id="big") as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("one", queue="root.a", user="ann", groups=("dev",))
        await rm.submit("two", queue="root.b", user="ann")
        await rm.submit("three", queue="root.b", user="bob")
        await rm.ask("one", 1)
        await rm.ask("three", 1)
        await rm.allocated(2)
        await rm.ask("three", 1, prefix="large", vcore=20_000)
        while not await rm.client.state.outstanding():
            pass
        yield served.target


@asynccontextmanager
async def zones(clock: VirtualClock) -> AsyncIterator[str]:
    """Three racks in two zones, with two nodes of four cores each; one ask waits for its only node."""
    queues = config("[{name: default}]", properties="{topology.levels: 'zone,rack'}")
    async with serve(queues, clock=clock) as served, FakeRM(served.target) as rm:
        for zone, rack in ("a1", "a2", "b1"):
            place = {"zone": zone, "rack": rack}
            await rm.add_nodes(2, prefix=f"{zone}{rack}", attributes=place, vcore=4000)
        await rm.submit("app")
        await rm.ask("app", 2, required_node="a1-1", vcore=1500)
        await rm.ask("app", 1, required_node="a1-1", vcore=3500)
        await rm.allocated(2)
        yield served.target


@asynccontextmanager
async def members(clock: VirtualClock) -> AsyncIterator[str]:
    """Two members, the first of which serves an RM, and an RM without a member; the second is called."""
    table = Table()
    async with member(table, "a", clock) as first, member(table, "b", clock) as second:
        async with connected(first) as channel:
            await Shim(channel, "rm").register()
        table.rms[RmId("free")] = Record(rm_id=RmId("free"), owner=MemberId(""), epoch=9)
        yield second.grpc_address


PLACES = (nowhere, town, limited, namesakes, alone, several, full, budgeted, planned, zones, members)
SCENES: dict[str, Callable[[VirtualClock], AbstractAsyncContextManager[str]]] = {
    place.__name__: place for place in PLACES
}
"""The scenes, each of which yields the address of its server."""

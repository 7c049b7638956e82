"""Configurations and operators' marks follow their RM to its next owner."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import grpc
import pytest

from licorne.v1.admin_pb2 import (
    ForgetRmRequest,
    HoldApplicationRequest,
    SetNodeSchedulableRequest,
    SetQueueStoppedRequest,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import ListRmsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.config import load
from licorne_core.values.ids import NodeId, PartitionName, RmId
from licorne_server.store.configurations.revisions import Source
from licorne_server.store.documents.documents import Conflict
from support.members import Documents
from support.peers.members import SECRET, Deployment, members
from support.peers.shim import Shim, application, connected
from support.server.configuring import A, Admin, B, C, refusal

PARTITION = PartitionName("[rm]default")


@pytest.fixture
async def two() -> AsyncIterator[Deployment]:
    """Members `a` and `b`; `a` gets the RM."""
    async with members("a", "b") as deployment:
        deployment.home = "a"
        yield deployment


async def move(deployment: Deployment) -> None:
    """Take the RM from `a` and give it to `b`."""
    deployment.give("rm", "b")
    await deployment.servers["a"].ownership.on_lost(RmId("rm"), "it is moved")


async def test_acts_of_operators_are_in_force_at_the_next_owner(two: Deployment) -> None:
    """The applied configuration has its revision, author and comment there; nodes and queues their marks."""
    drain = SetNodeSchedulableRequest(rm_id="rm", node_id="n0", message="disk")
    stop = SetQueueStoppedRequest(rm_id="rm", queue="root.b", stopped=True)
    a, b = two.servers["a"], two.servers["b"]
    async with connected(a) as channel:
        await Shim(channel).set_up(config=A)
        assert (await Admin(channel).apply(B, comment="why")).persistent
        await AdminStub(channel).SetNodeSchedulable(drain)
        await AdminStub(channel).SetQueueStopped(stop)
        before = await Admin(channel).history(with_config=True)
    await move(two)
    async with connected(b) as channel:
        await Shim(channel).set_up(config=A)
        assert await Admin(channel).in_force() == (B, 2, "operator")
        assert await Admin(channel).history(with_config=True) == before
        with pytest.raises(grpc.aio.AioRpcError) as stale:
            await Admin(channel).apply(C, base=1)
        assert refusal(stale.value).reason == "STALE_REVISION"
    assert b.scheduler.views.node(PARTITION, NodeId("n0")).closed
    assert b.scheduler.views.queue(PARTITION, "root.b").state == "Stopped"
    [disk, _] = b.changes.configurations.get("rm").marks
    assert (disk.name, disk.why, bool(disk.by)) == ("n0", "disk", True)


async def test_an_act_is_answered_once_it_is_stored(two: Deployment) -> None:
    """An act that was answered is in force at the next owner, whenever the present one ends."""
    store = two.servers["a"].ownership.store
    assert isinstance(store, Documents)
    node = SetNodeSchedulableRequest(rm_id="rm", node_id="n0", message="disk")
    app = HoldApplicationRequest(rm_id="rm", application_id="app", held=True)
    async with connected(two.servers["a"]) as channel:
        shim = Shim(channel)
        _, applications, _ = await shim.set_up(config=A)
        await shim.applications(applications, application("app", queue="root.a"))
        admin = AdminStub(channel)
        for act in (
            partial(admin.SetNodeSchedulable, node),
            partial(admin.SetQueueStopped, SetQueueStoppedRequest(rm_id="rm", queue="root.a", stopped=True)),
            partial(admin.HoldApplication, app),
        ):
            store.writable.clear()
            store.waiting.clear()
            answer = asyncio.ensure_future(act())
            await store.waiting.wait()
            # The server has answered a later call.
            await StateStub(channel).ListRms(ListRmsRequest())
            assert not answer.done()
            before = dict(store.documents)
            store.writable.set()
            await answer
            assert store.documents != before


async def test_a_previous_owner_stores_nothing(two: Deployment) -> None:
    """A late change at a previous owner is refused, and the next owner's remains."""
    a, b = two.servers["a"], two.servers["b"]
    async with connected(a) as channel:
        await Shim(channel).register(A)
        two.give("rm", "b")
        async with connected(b) as other:
            await Shim(other).register(A)
            await Admin(other).apply(B)
        before = dict(two.stores[SECRET].documents)
        after = a.changes.configurations.after_change(
            a.changes.configurations.get("rm"), load(C), Source.OPERATOR, by="ann"
        )
        stored = a.changes.configurations.stored
        with pytest.raises(Conflict, match="RM rm has another owner"):
            await stored.prepare(after.rm_id, after)
        stored.save(after.rm_id, after)
        await stored.close()
        assert two.stores[SECRET].documents == before


async def test_forgotten_revisions_are_deleted_from_the_store(two: Deployment) -> None:
    """An RM that is forgotten on request returns with its own configuration."""
    async with connected(two.servers["a"]) as channel:
        await Shim(channel).register(A)
        await Admin(channel).apply(B)
        await AdminStub(channel).ForgetRm(ForgetRmRequest(rm_id="rm"))
        await two.servers["a"].changes.configurations.stored.close()
        assert [key for key in two.stores[SECRET].documents if key.startswith("configurations/")] == []

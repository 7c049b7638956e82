"""Identities in certificates, and refusals that do not reveal which RMs exist."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import PeerBounds
from licorne_server.process.settings import Address
from support.peers.shim import LOOPBACK, RawSession, Shim, connected, refusal, serving
from support.peers.tls import SPIFFE, connected_as, tls
from support.server.reports import warned

Ending = tuple[grpc.StatusCode, str]
Attempt = Callable[[Any, str], Awaitable[Ending]]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with `operator` registered and `rm` allowed."""
    identities = {"rm": frozenset({SPIFFE})}
    async with serving(tls=tls(), rm_identities=identities) as server:
        async with connected_as("operator", server) as channel:
            await Shim(channel, "operator").register()
        yield server


async def test_common_name_does_not_count_beside_alternative_names() -> None:
    """The common name `rm` beside other alternative names gives no right to the RM `rm`."""
    async with serving(tls=tls()) as server, connected_as("rm", server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel, "rm").register()
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await Shim(channel, SPIFFE).register()


async def test_common_name_counts_alone() -> None:
    """Without alternative names the common name identifies the RM."""
    async with serving(tls=tls()) as server, connected_as("operator", server) as channel:
        await Shim(channel, "operator").register()


async def registered(channel: Any, rm_id: str) -> Ending:
    """Register an RM."""
    return await refusal(Shim(channel, rm_id).register())


async def streamed(channel: Any, rm_id: str) -> Ending:
    """Send the first message of a stream."""
    call = Shim(channel, rm_id).open("UpdateNode")
    await call.send(si.NodeRequest(rmID=rm_id))
    return await call.ending()


async def streamed_later(channel: Any, rm_id: str) -> Ending:
    """Send a later message of the caller's own stream."""
    shim = Shim(channel)
    await shim.register()
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest(rmID="rm"))
    await call.send(si.NodeRequest(rmID=rm_id))
    return await call.ending()


async def greeted(channel: Any, rm_id: str) -> Ending:
    """Send a hello."""
    return await (await RawSession(channel, rm_id).hello()).ending()


def calling(stub: Any, requests: Any, method: str, **fields: str) -> Attempt:
    """Make a unary call about an RM, which replaces a star in the fields."""

    async def attempt(channel: Any, rm_id: str) -> Ending:
        request = getattr(requests, f"{method}Request")
        named = {name: text.replace("*", rm_id) for name, text in fields.items()}
        return await refusal(getattr(stub(channel), method)(request(**named)))

    attempt.__name__ = method
    return attempt


async def watched(channel: Any, rm_id: str) -> Ending:
    """Watch events of an RM."""
    call: Any = StateStub(channel).WatchEvents(pb.WatchEventsRequest(rm_id=rm_id))
    return await call.code(), await call.details()


PARTITION = {"partition": "[*]default"}
APPLICATION = {"application_id": "app", **PARTITION}
ATTEMPTS = (
    *(registered, streamed, streamed_later, greeted, watched),
    *(calling(AdminStub, ap, f"{verb}Configuration", rm_id="*") for verb in ("Get", "Update")),
    *(calling(StateStub, pb, f"List{what}", rm_id="*") for what in ("Partitions", "Events")),
    *(
        calling(StateStub, pb, f"List{what}", **PARTITION)
        for what in ("Queues", "Applications", "Nodes", "Usage", "Reservations", "Outstanding")
    ),
    calling(StateStub, pb, "ListNodes", partition="[*]elsewhere"),
    *(calling(StateStub, pb, method, **APPLICATION) for method in ("GetApplication", "Explain")),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: str(attempt.__name__))
async def test_refusals_do_not_reveal_registered_rms(server: Server, attempt: Attempt) -> None:
    """A registered RM of others and an unknown one are refused in the same words."""
    async with connected_as("rm", server) as channel:
        code, text = await attempt(channel, "operator")
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert await attempt(channel, "nobody42") == (code, text.replace("operator", "nobody42"))


async def test_bare_names_mean_the_rm_of_the_caller(server: Server) -> None:
    """A name without an RM means the caller's RM, and other RMs are not mentioned."""
    async with connected_as("rm", server) as channel:
        missing = await refusal(StateStub(channel).ListQueues(pb.ListQueuesRequest()))
        assert missing == (grpc.StatusCode.NOT_FOUND, "partition default not found")
        nothing = await refusal(StateStub(channel).ListEvents(pb.ListEventsRequest()))
        assert nothing[1] == "no RM is registered, so there are no events"
        await Shim(channel).set_up()
        nodes = await StateStub(channel).ListNodes(pb.ListNodesRequest())
        assert [node.node_id for node in nodes.nodes] == ["n0"]
        events = await StateStub(channel).ListEvents(pb.ListEventsRequest())
        assert "n0" in {event.record.objectID for event in events.events}


async def test_each_identity_has_its_own_quota(server: Server) -> None:
    """An exhausted quota of one certificate does not affect another one on the same host."""
    bounds = PeerBounds(waiting_share=2)
    identities = {"rm": frozenset({SPIFFE})}
    async with (
        serving(tls=tls(), rm_identities=identities, peers=bounds) as server,
        connected_as("rm", server) as greedy,
        connected_as("operator", server) as modest,
    ):
        silent = [asyncio.create_task(Shim(greedy).open("UpdateNode").ending()) for _ in range(3)]
        refused, _ = await asyncio.wait(silent, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result()[0] for task in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        await Shim(modest, "operator").set_up()
        for task in silent:
            task.cancel()


async def test_watchers_have_a_quota() -> None:
    """A subscriber beyond the peer's quota is refused, for any RM."""
    async with (
        serving(peers=PeerBounds(watchers_share=1)) as server,
        connected(server) as channel,
    ):
        for rm_id in ("one", "two"):
            await Shim(channel, rm_id).register()
        first: Any = StateStub(channel).WatchEvents(pb.WatchEventsRequest(rm_id="one"))
        assert (await first.read()).instance
        second: Any = StateStub(channel).WatchEvents(pb.WatchEventsRequest(rm_id="two"))
        assert await second.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await second.details() == "watchers: at most 1 of one peer"
        first.cancel()


async def test_insecure_addresses_off_loopback_are_logged_at_the_start() -> None:
    """Without TLS off loopback each start logs one warning; on loopback there is none."""
    # An address of loopback that is not recognized as such: the server is reachable by nobody else.
    elsewhere = Address(host="127.1", port=0)
    for address, warnings in ((elsewhere, 1), (LOOPBACK, 0)):
        with capture_logs() as logs:
            async with serving(http=address, insecure=True):
                pass
        assert len(warned(logs)) == warnings

"""Requests in progress when their RM registers again belong to the previous registration (spec § 1.6.2)."""

import asyncio
from types import SimpleNamespace

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.rms.streams import Entry, Stream
from licorne_server.services.exchange import Exchange
from licorne_server.services.scheduler import FRAMINGS
from licorne_server.wire.framing import split
from licorne_server.wire.requests import REQUESTS
from licorne_server.wire.responses import Kind
from support.core.steps import pace
from support.peers.shim import Shim

MANY = 2_000
"""Items that are read in several parts, between which other work can run."""

NODES = si.NodeRequest(rmID="rm", nodes=[si.NodeInfo() for _ in range(MANY)])
APPLICATIONS = si.ApplicationRequest(rmID="rm", new=[si.AddApplicationRequest() for _ in range(MANY)])
ASKS = si.AllocationRequest(rmID="rm", allocations=[si.Allocation() for _ in range(MANY)])


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize(
    ("kind", "message"),
    [(Kind.NODES, NODES), (Kind.APPLICATIONS, APPLICATIONS), (Kind.ALLOCATIONS, ASKS)],
    ids=["nodes", "applications", "asks"],
)
async def test_rejections_of_a_previous_registration_are_not_sent(
    server: Server,
    shim: Shim,
    kind: Kind,
    message: si.NodeRequest | si.ApplicationRequest | si.AllocationRequest,
    anew: bool,
) -> None:
    """An RM that registers while its request is read gets no answer to it; otherwise it gets all."""
    await shim.register()
    rm = server.rms.find(RmId("rm"))
    assert rm is not None
    request = await split(message.SerializeToString(), REQUESTS[kind].layout, pace())
    exchange = Exchange(server.engine, server.rms, rm, Stream(SimpleNamespace(peer=str)), FRAMINGS[kind])
    handled = asyncio.create_task(exchange.handle(Entry(kind, 0, request)))
    await asyncio.sleep(0)
    assert not handled.done()
    if anew:
        rm.renew(rm.registration.number + 1, rm.epoch)
    assert await handled == MANY
    told = rm.outbox.messages > 0
    assert told is not anew

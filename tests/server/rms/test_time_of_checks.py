"""The RM's time for a predicate check: its beginning, and answers in time."""

from collections.abc import AsyncIterator

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_server.assembly.server import Server
from licorne_server.testing import VirtualClock
from licorne_server.wire.responses import Kind
from support.peers.shim import Call, RawSession, ask, eventually, node, serving

ONE = (("vcore", 1),)
PREDICATES = sp.Callbacks(predicates=sp.Predicates(deadline_milliseconds=2000))
SLOW = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 * 1024),
]
"""Options of a channel with a small window."""
MANY = 2_000
"""The number of nodes whose acceptance exceeds that window, because their names are long."""


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[Server]:
    """A server with that clock."""
    async with serving(clock=clock) as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection with a small flow-control window."""
    async with grpc.aio.insecure_channel(server.grpc_address, options=SLOW) as channel:
        yield channel


async def asked_behind_much(server: Server, session: RawSession, call: Call) -> None:
    """Let a check wait to be written, because the RM does not read."""
    nodes = [node(f"m{number}{'x' * 400}", vcore=1) for number in range(MANY)]
    await session.send(call, nodes=si.NodeRequest(nodes=nodes))
    asks = [ask("k", vcore=1000)]
    await session.send(call, allocations=si.AllocationRequest(allocations=asks))
    [rm] = server.rms.all()
    await eventually(lambda: rm.outbox.peek((Kind.CHECKS,)))
    await eventually(lambda: not server.engine.busy and not server.engine.inbox)


async def read_check(server: Server, session: RawSession, call: Call, clock: VirtualClock) -> int:
    """Read up to the check; return its number, once its time has begun."""
    asked = await session.until(call, "predicate_checks")
    [check] = asked.predicate_checks.checks
    await eventually(server.scheduler.next_deadline)
    assert server.scheduler.next_deadline() == clock.now() + 2.0
    number: int = check.id
    return number


async def test_the_time_of_a_check_begins_when_it_is_written(
    server: Server, clock: VirtualClock, session: RawSession
) -> None:
    """The time of a check begins when it is written, so an RM that reads late may still answer in time."""
    call, _ = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    await asked_behind_much(server, session, call)
    await clock.advance(60.0)
    check = await read_check(server, session, call, clock)
    assert check == 1
    await clock.advance(1.9)
    answers = sp.PredicateAnswers(answers=[sp.PredicateAnswer(id=check)])
    await session.send(call, predicate_answers=answers)
    placed = await session.until(call, "allocations")
    assert [(item.allocationKey, item.nodeID) for item in placed.allocations.new] == [("k", "n0")]


async def test_the_time_of_a_check_ends(server: Server, clock: VirtualClock, session: RawSession) -> None:
    """Two seconds after a check was written, the missing answer counts, and the RM is asked again."""
    call, _ = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    await asked_behind_much(server, session, call)
    await clock.advance(60.0)
    assert await read_check(server, session, call, clock) == 1
    await clock.advance(2.1)
    again = await session.until(call, "predicate_checks")
    assert [item.id for item in again.predicate_checks.checks] == [2]

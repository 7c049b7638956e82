"""Sessions whose RM counts otherwise than the server: resumption and replay (DESIGN § 3)."""

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_server.assembly.server import Server
from support.peers.shim import RawSession, application, node

NAMELESS = si.NodeRequest(nodes=[node("", vcore=1)])


async def test_who_has_heard_more_than_was_sent_starts_anew(server: Server, session: RawSession) -> None:
    """A resumption that acknowledges an unsent response is of another history: a replay is needed."""
    call, first = await session.begin()
    await session.replay(call)
    rm = server.rms.find("rm")
    assert rm is not None
    sent = rm.session.sent
    await session.send(call, goodbye=sp.Goodbye())
    await call.ending()
    token = first.welcome.resume_token
    again, second = await session.begin(token=token, acknowledged=sent + 1)
    assert not second.welcome.resumed
    assert second.session == first.session + 1
    assert (await session.replay(again)).complete


async def test_who_has_heard_all_that_was_sent_resumes(server: Server, session: RawSession) -> None:
    """An acknowledgement of the very last response is no fault."""
    call, first = await session.begin()
    await session.replay(call)
    rm = server.rms.find("rm")
    assert rm is not None
    await session.send(call, goodbye=sp.Goodbye())
    await call.ending()
    token = first.welcome.resume_token
    _, second = await session.begin(token=token, acknowledged=rm.session.sent)
    assert second.welcome.resumed


async def test_what_was_refused_before_the_replay_does_not_count_in_it(session: RawSession) -> None:
    """A node that is lost in a replay is missed, whatever was refused at the door before."""
    call, _ = await session.begin()
    await session.send(call, nodes=NAMELESS)
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, replay_end=sp.ReplayEnd(nodes=1))
    result = (await session.until(call, "replay_result")).replay_result
    assert not result.complete
    assert result.reason == "arrived: 0 of 1 nodes"


async def test_a_second_replay_counts_its_own_refusals(session: RawSession) -> None:
    """Refusals in an earlier replay of the session are not subtracted from the next."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, nodes=NAMELESS)
    await session.send(call, replay_end=sp.ReplayEnd(nodes=2))
    assert not (await session.until(call, "replay_result")).replay_result.complete
    assert (await session.replay(call, nodes=2)).complete


async def test_refused_applications_and_asks_do_not_count_as_lost(session: RawSession) -> None:
    """Items without an id are refused in-band, and the replay that holds them is complete."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    new = [application("app"), application("")]
    await session.send(call, applications=si.ApplicationRequest(new=new))
    asks = si.AllocationRequest(allocations=[si.Allocation(applicationID="app")])
    await session.send(call, allocations=asks)
    await session.send(call, replay_end=sp.ReplayEnd(applications=2, allocations=1))
    assert (await session.until(call, "replay_result")).replay_result.complete

"""`Session.Update` over the wire: hello, resumption, replay, fencing, drain (DESIGN § 3)."""

import asyncio
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import Command, RefuseNewWork, RegisterRm, RemoveRm
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import RmId
from licorne_core.values.rm_caps import MemoryShortage
from licorne_server.assembly.server import Server
from licorne_server.services import exchange
from support.patience import PATIENCE
from support.peers.shim import Call, RawSession, Shim, application, ask, connected, node, serving

ASK = si.AllocationRequest(allocations=[ask("k")])


async def placed_keys(call: Call, session: RawSession) -> list[str]:
    """The keys of the next new allocations."""
    response = await session.until(call, "allocations")
    return [item.allocationKey for item in response.allocations.new]


async def test_hello_is_answered_by_a_welcome(session: RawSession) -> None:
    """A new session is not resumed, and has epoch, session, token and times."""
    _, response = await session.begin()
    assert response.number == 0
    assert response.epoch > 0
    assert response.session == 1
    welcome = response.welcome
    assert not welcome.resumed
    assert welcome.resume_token
    assert (welcome.heartbeat_seconds, welcome.max_items) == (PATIENCE, 1000)


async def test_nothing_is_scheduled_before_the_replay_has_ended(server: Server, session: RawSession) -> None:
    """Asks wait until the end of the replay, even those of an existing node and application."""
    call, _ = await session.begin()
    await session.send(call, nodes=si.NodeRequest(nodes=[node("n0", vcore=1000)]))
    await session.until(call, "nodes")
    [report] = server.scheduler.views.partitions()
    assert report.holds == ("replay in progress",)
    result = await session.replay(call, nodes=0, asks={"k": "app"})
    assert result.complete
    assert await placed_keys(call, session) == ["k"]


async def test_a_replay_with_missing_items_is_repeated(session: RawSession) -> None:
    """If counts do not match, the RM stays on hold, and another replay is requested."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, nodes=si.NodeRequest(nodes=[node("n0", vcore=1)]))
    await session.send(call, replay_end=sp.ReplayEnd(nodes=2))
    result = (await session.until(call, "replay_result")).replay_result
    assert not result.complete
    assert result.reason == "arrived: 1 of 2 nodes"
    assert (await session.replay(call, nodes=1)).complete


async def test_rejected_nodes_do_not_count_as_missing(session: RawSession) -> None:
    """A node without an id is rejected, and the replay with it is complete."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    nodes = [node("n0", vcore=1), node("", vcore=1)]
    await session.send(call, nodes=si.NodeRequest(nodes=nodes))
    await session.send(call, replay_end=sp.ReplayEnd(nodes=2))
    rejected: list[si.RejectedNode] = []
    while not rejected:
        rejected += (await session.until(call, "nodes")).nodes.rejected
    assert rejected[0].reason == "nodeID is empty"
    assert (await session.until(call, "replay_result")).replay_result.complete


async def test_responses_are_numbered_without_gaps(session: RawSession) -> None:
    """Every response with contents has the next number, and all have epoch and session."""
    call, welcome = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, nodes=si.NodeRequest(nodes=[node(f"n{i}") for i in range(3)]))
    await session.send(call, replay_end=sp.ReplayEnd(nodes=3))
    numbers = []
    while True:
        response = await call.next()
        assert (response.epoch, response.session) == (welcome.epoch, welcome.session)
        if response.number:
            numbers.append(response.number)
        if response.HasField("replay_result"):
            break
    assert numbers == list(range(1, len(numbers) + 1))


async def test_requests_are_acknowledged_even_without_an_answer(session: RawSession) -> None:
    """A request without an answer is acknowledged after a moment."""
    call, _ = await session.begin()
    await session.replay(call)
    last = await session.send(call, applications=si.ApplicationRequest())
    while (response := await call.next()).acknowledged < last:
        pass
    assert response.acknowledged == last


async def test_a_resumed_session_continues_where_it_broke(session: RawSession) -> None:
    """Unacknowledged responses are sent again under their numbers, and nothing is lost."""
    call, welcome = await session.begin()
    await session.replay(call)
    await session.send(call, allocations=ASK)
    lost = await session.until(call, "allocations")
    call.call.cancel()
    again, response = await session.begin(token=welcome.welcome.resume_token, acknowledged=lost.number - 1)
    assert response.welcome.resumed
    assert response.acknowledged == session.number
    repeated = await again.next()
    assert (repeated.number, repeated.allocations) == (lost.number, lost.allocations)
    more = si.AllocationRequest(allocations=[ask("later")])
    await session.send(again, acknowledged=repeated.number, allocations=more)
    assert await placed_keys(again, session) == ["later"]


async def test_decisions_without_a_stream_are_kept(session: RawSession) -> None:
    """An allocation that is made between two streams is sent on the second."""
    call, welcome = await session.begin()
    await session.replay(call, vcore=50)
    await session.send(call, allocations=ASK)
    await session.send(call, nodes=si.NodeRequest(nodes=[node("big", vcore=1000)]))
    await call.half_close()
    await call.ending()
    again, response = await session.begin(token=welcome.welcome.resume_token)
    assert response.welcome.resumed
    assert await placed_keys(again, session) == ["k"]


@pytest.mark.parametrize("token", ["", "no such token"])
async def test_an_invalid_token_registers_again(server: Server, session: RawSession, token: str) -> None:
    """A hello that cannot resume registers again: a higher session, and no objects."""
    call, first = await session.begin()
    await session.replay(call)
    call.call.cancel()
    _, second = await session.begin(token=token)
    assert not second.welcome.resumed
    assert second.session == first.session + 1
    [report] = server.scheduler.views.partitions()
    assert report.nodes == 0


async def test_repeated_request_is_handled_once(server: Server, session: RawSession) -> None:
    """A request with an earlier number is ignored."""
    call, _ = await session.begin()
    await session.replay(call)
    await session.send(call, allocations=ASK)
    await session.until(call, "allocations")
    session.number -= 1
    other = si.AllocationRequest(allocations=[ask("other")])
    await session.send(call, allocations=other)
    await session.send(call, nodes=si.NodeRequest(nodes=[node("n9", vcore=1)]))
    await session.until(call, "nodes")
    [report] = server.scheduler.views.partitions()
    assert report.allocations == 1


FAULTS = {
    "request 5 where 1 was expected": sp.UpdateRequest(number=5, allocations=ASK),
    "a request must have a number": sp.UpdateRequest(allocations=ASK),
    "response 7 is acknowledged, but 0 were sent": sp.UpdateRequest(acknowledged=7, ack=sp.Ack()),
    "a stream has one Hello only": sp.UpdateRequest(hello=sp.Hello(rm_id="rm")),
}


@pytest.mark.parametrize("text", FAULTS)
async def test_a_violation_of_the_protocol_ends_the_stream(session: RawSession, text: str) -> None:
    """Each violation of the protocol ends the stream with a text of its own."""
    call, _ = await session.begin()
    await call.send(FAULTS[text])
    assert await call.ending() == (grpc.StatusCode.INVALID_ARGUMENT, text)


async def test_a_newer_instance_replaces_the_older(session: RawSession) -> None:
    """The older instance's stream ends, and its next hello is refused."""
    older, welcome = await session.begin(instance=1)
    newer, response = await session.begin(instance=2)
    assert response.session == welcome.session + 1
    assert await older.ending() == (grpc.StatusCode.ABORTED, "fenced by a newer instance")
    refused = await session.hello(instance=1, token=welcome.welcome.resume_token)
    assert await refused.ending() == (
        grpc.StatusCode.FAILED_PRECONDITION,
        (
            "instance 1 of RM rm is older than instance 2, which has taken over; if that number "
            "is a mistake, register the RM over si.v1 to start over"
        ),
    )
    assert (await session.replay(newer)).complete


async def test_a_second_stream_of_an_instance_replaces_the_first(session: RawSession) -> None:
    """The same instance may reconnect before the loss of its stream is noticed."""
    older, welcome = await session.begin()
    await session.replay(older)
    newer, response = await session.begin(token=welcome.welcome.resume_token, acknowledged=1)
    assert response.welcome.resumed
    assert await older.ending() == (grpc.StatusCode.ABORTED, "taken over by a newer stream")
    await session.send(newer, allocations=ASK)
    assert await placed_keys(newer, session) == ["k"]


async def test_a_goodbye_keeps_the_state(server: Server, session: RawSession) -> None:
    """A goodbye is answered by the end of the stream, and the state is kept."""
    call, _ = await session.begin()
    await session.replay(call)
    await session.send(call, goodbye=sp.Goodbye(reason="restart"))
    assert await call.ending() == (grpc.StatusCode.OK, "")
    [report] = server.scheduler.views.partitions()
    assert report.nodes == 1


async def test_a_final_goodbye_removes_the_rm(server: Server, session: RawSession) -> None:
    """An RM that unregisters is removed with its state; others remain."""
    await Shim(session.channel, "other").register()
    call, _ = await session.begin()
    await session.replay(call)
    await session.send(call, goodbye=sp.Goodbye(unregister=True))
    assert await call.ending() == (grpc.StatusCode.OK, "")
    assert [report.rm_id for report in server.scheduler.views.rms()] == ["other"]


@pytest.mark.parametrize("first", [True, False])
async def test_a_final_goodbye_does_not_remove_a_later_registration(
    server: Server, session: RawSession, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A registration that is concurrent with an earlier goodbye is in force in the end."""
    submit = server.engine.submit
    registration = RegisterRm(rm_id=RmId("rm"))

    async def crossed(command: Command, **fields: Any) -> list[Effect]:
        if not isinstance(command, RemoveRm):
            return await submit(command, **fields)
        effects = await submit(registration) if first else []
        effects += await submit(command, **fields)
        return effects if first else await submit(registration)

    call, _ = await session.begin()
    await session.replay(call)
    monkeypatch.setattr(server.engine, "submit", crossed)
    await session.send(call, goodbye=sp.Goodbye(unregister=True))
    await call.ending()
    assert [report.rm_id for report in server.scheduler.views.rms()] == ["rm"]
    shim = Shim(session.channel)
    assert (await shim.nodes(shim.open("UpdateNode"), node("n"))).accepted


@pytest.mark.row(19)
async def test_drain_is_announced_on_sessions() -> None:
    """A server that is about to stop announces it with a time to reconnect, and waits for the goodbye."""
    async with serving(retry_after=2.5, drain=PATIENCE) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.replay(call)
        stopping = asyncio.create_task(server.stop())
        drain = (await session.until(call, "drain")).drain
        assert (drain.reason, drain.retry_after_milliseconds) == ("the server is about to stop", 2500)
        await session.send(call, goodbye=sp.Goodbye())
        assert (await call.ending())[0] is grpc.StatusCode.OK
        await stopping


async def test_both_sides_send_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle server sends heartbeats; one without input for three of them ends the stream."""
    monkeypatch.setattr(exchange, "SILENT_HEARTBEATS", 10**6)
    async with serving(heartbeat=0.05) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.replay(call)
        while (beat := await call.next()).WhichOneof("message") != "heartbeat":
            assert not beat.HasField("notice"), "the replay was notified as missing"
        assert beat.number == 0
        monkeypatch.undo()
        code, text = await call.ending()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert text.startswith("nothing was heard for")


@pytest.mark.parametrize("begun", [False, True])
async def test_an_rm_that_owes_its_replay_is_notified(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    """A notice follows a heartbeat's time without a request, also during an unfinished replay."""
    monkeypatch.setattr(exchange, "SILENT_HEARTBEATS", 10**6)
    async with serving(heartbeat=0.05) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        if begun:
            await session.send(call, replay_begin=sp.ReplayBegin())
        notice = (await session.until(call, "notice")).notice
        assert (notice.code, "ReplayBegin" in notice.message) == ("REPLAY_MISSING", True)


async def test_first_message_must_be_a_hello(session: RawSession) -> None:
    """Anything else before the hello ends the stream."""
    call = session.open()
    await call.send(sp.UpdateRequest(number=1, allocations=ASK))
    code, text = await call.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "the first message of a stream must be a Hello"


async def test_an_rm_with_a_session_has_no_other_streams(session: RawSession) -> None:
    """The streams of `si.v1` are refused for an RM that has a session."""
    call, _ = await session.begin()
    shim = Shim(session.channel)
    nodes = shim.open("UpdateNode")
    await nodes.send(si.NodeRequest(rmID="rm"))
    assert await nodes.ending() == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "RM rm is served over licorne.v1.Session",
    )
    await shim.register()
    assert await call.ending() == (grpc.StatusCode.ABORTED, "registered anew over si.v1")


async def test_a_registration_drops_requests_in_progress(server: Server, session: RawSession) -> None:
    """The remainder of a large request is dropped when its RM registers again."""
    call, _ = await session.begin()
    nodes = [node(f"n{i}", vcore=1) for i in range(5_000)]
    await session.send(call, nodes=si.NodeRequest(nodes=nodes))
    await session.until(call, "nodes")
    await Shim(session.channel).register()
    assert (await call.ending())[0] is grpc.StatusCode.ABORTED
    [report] = server.scheduler.views.partitions()
    assert report.nodes == 0


NAMELESS = si.NodeRequest(nodes=[node("", vcore=1)])


async def test_acknowledging_an_unsent_response_needs_a_replay(server: Server, session: RawSession) -> None:
    """A resumption that acknowledges an unsent response needs a replay."""
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


async def test_acknowledging_the_last_response_resumes(server: Server, session: RawSession) -> None:
    """A resumption may acknowledge the last response."""
    call, first = await session.begin()
    await session.replay(call)
    rm = server.rms.find("rm")
    assert rm is not None
    await session.send(call, goodbye=sp.Goodbye())
    await call.ending()
    token = first.welcome.resume_token
    _, second = await session.begin(token=token, acknowledged=rm.session.sent)
    assert second.welcome.resumed


async def test_earlier_rejections_do_not_count_in_a_replay(session: RawSession) -> None:
    """Items that were rejected before a replay do not count in it."""
    call, _ = await session.begin()
    await session.send(call, nodes=NAMELESS)
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, replay_end=sp.ReplayEnd(nodes=1))
    result = (await session.until(call, "replay_result")).replay_result
    assert not result.complete
    assert result.reason == "arrived: 0 of 1 nodes"


async def test_rejections_of_an_earlier_replay_do_not_count(session: RawSession) -> None:
    """Rejected items of an earlier replay do not count in the next one."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, nodes=NAMELESS)
    await session.send(call, replay_end=sp.ReplayEnd(nodes=2))
    assert not (await session.until(call, "replay_result")).replay_result.complete
    assert (await session.replay(call, nodes=2)).complete


async def test_rejected_applications_and_asks_do_not_count_as_missing(session: RawSession) -> None:
    """Items without an id are rejected, and the replay with them is complete."""
    call, _ = await session.begin()
    await session.send(call, replay_begin=sp.ReplayBegin())
    new = [application("app"), application("")]
    await session.send(call, applications=si.ApplicationRequest(new=new))
    asks = si.AllocationRequest(allocations=[si.Allocation(applicationID="app")])
    await session.send(call, allocations=asks)
    await session.send(call, replay_end=sp.ReplayEnd(applications=2, allocations=1))
    assert (await session.until(call, "replay_result")).replay_result.complete


REFUSED_HELLOS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no registration": (
        {"registration": None},
        "FAILED_PRECONDITION",
        "the session cannot be resumed, and the hello has no registration",
    ),
    "a wrong token": ({"registration": None, "token": "x"}, "FAILED_PRECONDITION", "the session cannot be"),
    "another protocol": (
        {"protocol": 2},
        "FAILED_PRECONDITION",
        "protocol 2 is not spoken here, 1 is",
    ),
    "no instance": ({"instance": 0}, "INVALID_ARGUMENT", "instance is 0: it must rise"),
    "another rmID": (
        {"registration": si.RegisterResourceManagerRequest(rmID="other")},
        "INVALID_ARGUMENT",
        "registration of RM failed: rmID is other, but the hello's rm_id is rm",
    ),
    "a bad configuration": (
        {"registration": si.RegisterResourceManagerRequest(config="partitions: 7")},
        "INVALID_ARGUMENT",
        "registration of RM failed: 1:13: partitions:",
    ),
}


@pytest.mark.parametrize("which", REFUSED_HELLOS)
async def test_a_refused_hello_does_not_affect_the_open_stream(session: RawSession, which: str) -> None:
    """A newer instance that is refused gets the reason, and the open session continues."""
    fields, code, reason = REFUSED_HELLOS[which]
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    refused = await session.hello(**({"instance": 2} | fields))
    status, text = await refused.ending()
    assert status.name == code
    assert text.startswith(reason)
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]


@pytest.mark.parametrize(
    ("rm_id", "problem"), [("", "rmID is empty"), ("[a]", "rmID must not hold '[' or ']': [a]")]
)
async def test_an_invalid_rm_id_is_refused(session: RawSession, rm_id: str, problem: str) -> None:
    """The id is checked as in RegisterResourceManager."""
    call = session.open()
    registration = si.RegisterResourceManagerRequest()
    hello = sp.Hello(rm_id=rm_id, protocol=1, instance=1, registration=registration)
    await call.send(sp.UpdateRequest(hello=hello))
    code, text = await call.ending()
    assert (code.name, text) == ("INVALID_ARGUMENT", f"registration of RM failed: {problem}")


async def test_a_hello_refused_by_the_core_changes_nothing(server: Server, session: RawSession) -> None:
    """If the core refuses a registration, the open session continues."""
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    await server.engine.submit(RefuseNewWork(shortage=MemoryShortage.ALL, reason="all is taken"))
    refused = await session.hello(instance=2)
    assert (await refused.ending())[1].startswith("registration of RM failed: rmID: all is taken")
    await server.engine.submit(RefuseNewWork(shortage=MemoryShortage.NONE, reason=""))
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]

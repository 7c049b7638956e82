"""Callbacks over a session: messages and their encoding, for all questions and notifications."""

from typing import Any

import grpc
import pytest

from licorne.v1 import session_pb2 as sp
from licorne_core.extensions.autoscaler.messages import ContainerState, ContainerStatesChanged
from licorne_core.messages.effects import AskedCheck, Effect, PredicatesAsked
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.assembly.server import Server
from licorne_server.wire.framing import delimited
from support.peers.shim import RawSession, Shim, eventually, violations

PREDICATES = sp.Callbacks(predicates=sp.Predicates())
STATES = sp.Callbacks(container_states=True)
ASKED_AND_TOLD = sp.Callbacks(predicates=sp.Predicates(), container_states=True)
PARTITION = PartitionName("[rm]default")
LONG_REFUSAL = sp.NodeRefusal(node_id="x" * 9999)


def checks(*numbers: int) -> PredicatesAsked:
    """Predicate checks of the core about two nodes, with two seconds for the answers."""
    nodes = [NodeId("n1"), NodeId("n2")]
    return PredicatesAsked(
        rm_id=RmId("rm"),
        partition=PARTITION,
        checks=[
            AskedCheck(number, AppId("app"), AllocationKey("k"), allocate=True, nodes=nodes)
            for number in numbers
        ],
        deadline=2.0,
    )


def answering(*answers: sp.PredicateAnswer) -> sp.PredicateAnswers:
    """A message with these answers."""
    return sp.PredicateAnswers(answers=answers)


def states(rm_id: str = "rm") -> Effect:
    """The core's reports for an autoscaler."""
    state = ContainerState(app_id=AppId("app"), key=AllocationKey("k"), reason="waiting")
    return ContainerStatesChanged(rm_id=RmId(rm_id), partition=PARTITION, states=[state])


async def test_checks_are_a_numbered_response(server: Server, session: RawSession) -> None:
    """Simultaneous checks arrive as one response, in order, with their contents."""
    call, _ = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    server.rms.route([checks(1, 2), checks(3)])
    asked = await session.until(call, "predicate_checks")
    assert asked.number > 0
    first, *others = asked.predicate_checks.checks
    assert [item.id for item in others] == [2, 3]
    assert first == sp.PredicateCheck(
        id=1,
        partition_name=PARTITION,
        application_id="app",
        allocation_key="k",
        allocate=True,
        node_ids=["n1", "n2"],
        deadline_milliseconds=2000,
    )


async def test_checks_follow_all_queued_messages(server: Server, session: RawSession) -> None:
    """Checks follow all queued messages, even later ones, so that the RM judges with full knowledge."""
    call, welcome = await session.begin(callbacks=ASKED_AND_TOLD)
    await session.replay(call)
    call.call.cancel()
    rm = server.rms.find("rm")
    assert rm is not None
    await eventually(lambda: not rm.connected)
    server.rms.route([checks(1), states(), checks(2), states()])
    again, _ = await session.begin(token=welcome.welcome.resume_token, acknowledged=0)
    response = await again.next()
    kinds = [response.WhichOneof("message")]
    while kinds[-1] != "predicate_checks":
        response = await again.next()
        kinds.append(response.WhichOneof("message"))
    assert kinds[-3:] == ["container_states", "container_states", "predicate_checks"]
    assert [item.id for item in response.predicate_checks.checks] == [1, 2]


async def test_an_unacknowledged_check_is_repeated(server: Server, session: RawSession) -> None:
    """An unacknowledged check is repeated after a resumption, under its number."""
    call, welcome = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    server.rms.route([checks(1)])
    lost = await session.until(call, "predicate_checks")
    call.call.cancel()
    token = welcome.welcome.resume_token
    again, response = await session.begin(token=token, acknowledged=lost.number - 1)
    assert response.welcome.resumed
    repeated = await session.until(again, "predicate_checks")
    assert (repeated.number, repeated.predicate_checks) == (lost.number, lost.predicate_checks)


async def test_callbacks_apply_to_the_whole_session(server: Server, session: RawSession) -> None:
    """A hello that resumes does not change the RM's callbacks; one that registers again does."""
    _, welcome = await session.begin(callbacks=STATES)
    token = welcome.welcome.resume_token
    _, response = await session.begin(token=token, callbacks=PREDICATES)
    assert response.welcome.resumed
    rm = server.rms.find("rm")
    assert rm is not None
    assert rm.session.callbacks == STATES
    await session.begin(callbacks=PREDICATES)
    assert rm.session.callbacks == PREDICATES


@pytest.mark.parametrize(
    ("predicates", "field"),
    [
        (sp.Predicates(deadline_milliseconds=60_001), "deadline_milliseconds"),
        (sp.Predicates(fail_mode=9), "fail_mode"),  # type: ignore[arg-type]
        (sp.Predicates(class_by=9), "class_by"),  # type: ignore[arg-type]
    ],
)
async def test_a_hello_with_invalid_callbacks_is_refused(
    server: Server, session: RawSession, predicates: sp.Predicates, field: str
) -> None:
    """The call ends with an error that names the field, and the registration is unchanged."""
    call, _ = await session.begin()
    await session.replay(call)
    bad = await session.hello(callbacks=sp.Callbacks(predicates=predicates))
    code, _ = await bad.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bad.call.read()
    assert list(violations(caught.value)) == [f"hello.callbacks.predicates.{field}"]
    [report] = server.scheduler.views.partitions(RmId("rm"))
    assert report.nodes == 1


@pytest.mark.parametrize(
    "answers",
    [
        {"predicate_answers": answering(sp.PredicateAnswer(id=2**64 - 1))},
        {"predicate_answers": answering(*[sp.PredicateAnswer(id=1, refused=[sp.NodeRefusal()])] * 2)},
        {"predicate_answers": answering(sp.PredicateAnswer(id=1, refused=[LONG_REFUSAL] * 100))},
        {"preemption_answers": sp.PreemptionAnswers(answers=[sp.PreemptionAnswer(id=99)] * 2)},
    ],
)
@pytest.mark.parametrize("callbacks", [None, sp.Callbacks(), PREDICATES])
async def test_answers_to_closed_checks_are_ignored(
    session: RawSession, neighbour: Any, answers: dict[str, Any], callbacks: sp.Callbacks | None
) -> None:
    """An answer to no open check is counted and ignored, even of an RM without checks."""
    call, _ = await session.begin(callbacks=callbacks)
    await session.replay(call)
    await session.send(call, **answers)
    last = await session.send(call, **answers)
    while (response := await call.next()).acknowledged < last:
        pass
    assert response.acknowledged == last
    await neighbour()


@pytest.mark.parametrize(
    "sent",
    [
        sp.UpdateRequest(predicate_answers=answering(sp.PredicateAnswer(id=1))),
        sp.UpdateRequest(preemption_answers=sp.PreemptionAnswers()),
        sp.UpdateRequest(state_dump=sp.StateDump(id=1)),
        sp.UpdateRequest(goodbye=sp.Goodbye()),
    ],
)
async def test_a_request_must_have_a_number(session: RawSession, sent: sp.UpdateRequest) -> None:
    """Answers and a goodbye must have a number, so that they are recognized as repeats and in order."""
    call, _ = await session.begin(callbacks=PREDICATES)
    await call.send(sent)
    assert await call.ending() == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "a request must have a number",
    )


async def test_an_answer_with_too_many_refusals_ends_the_stream(session: RawSession, neighbour: Any) -> None:
    """More refusals than possible nodes are a violation of the protocol."""
    call, _ = await session.begin(callbacks=PREDICATES)
    refused = [sp.NodeRefusal(node_id="n")] * 1_001
    answer = sp.PredicateAnswer(id=1, refused=refused)
    await session.send(call, predicate_answers=answering(sp.PredicateAnswer(id=2), answer))
    code, text = await call.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "PredicateAnswer has more than 1000 refused, no check asks for more"
    await neighbour()


async def test_a_malformed_answer_ends_the_stream_only(session: RawSession, neighbour: Any) -> None:
    """Garbage for an answer ends the stream with its reason, and the session can be resumed."""
    call, welcome = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    number = sp.UpdateRequest(number=session.number + 1).SerializeToString()
    field = sp.UpdateRequest.PREDICATE_ANSWERS_FIELD_NUMBER
    await call.send(number + delimited(field, b"\x0a\x02\x12\x7f"))
    code, text = await call.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("malformed message: ")
    _, response = await session.begin(token=welcome.welcome.resume_token)
    assert response.welcome.resumed
    await neighbour()


async def test_a_flood_of_answers_is_processed(session: RawSession, neighbour: Any) -> None:
    """Thousands of answers to closed checks are counted one by one, and other RMs are served."""
    call, _ = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    for number in range(3000):
        await session.send(call, predicate_answers=answering(sp.PredicateAnswer(id=number)))
    await neighbour()
    while (response := await call.next()).acknowledged < session.number:
        pass
    assert response.acknowledged == session.number


async def test_container_states_are_sent_on_request(server: Server, session: RawSession) -> None:
    """An RM whose hello requests container states gets them, numbered like any response."""
    call, _ = await session.begin(callbacks=STATES)
    await session.replay(call)
    server.rms.route([states()])
    told = await session.until(call, "container_states")
    assert told.number > 0
    assert [state.allocationKey for state in told.container_states.states] == ["k"]


async def test_nobody_else_gets_container_states(server: Server, session: RawSession, shim: Shim) -> None:
    """An RM without the callback, or with si.v1, gets none, and none are queued for it."""
    call, _ = await session.begin()
    await session.replay(call)
    shim.rm_id = "other"
    await shim.register()
    rms = [server.rms.get(name, "") for name in ("rm", "other")]
    before = [rm.outbox.messages for rm in rms]
    server.rms.route([states(), states("other")])
    assert [rm.outbox.messages for rm in rms] == before

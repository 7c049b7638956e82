"""Preemption checks over a session: messages, their order, and the handling of answers."""

from typing import Any

import grpc
import pytest

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import AnswerPreemptions, NotePredicatesSent, PreemptionAnswer, RegisterRm
from licorne_core.messages.effects import (
    AskedCheck,
    AskedNode,
    AskedPreemption,
    AskedVictim,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.assembly.server import Server
from support.peers.shim import RawSession, eventually

JUDGE = sp.Callbacks(predicates=sp.Predicates(judges_victims=True))
RM = RmId("rm")
PARTITION = PartitionName("[rm]default")


def victims(*numbers: int) -> PreemptionsAsked:
    """Checks of the core about a node with one victim, with two seconds for the answers."""
    victim = AskedVictim(AppId("low"), AllocationKey("v"))
    return PreemptionsAsked(
        rm_id=RM,
        partition=PARTITION,
        checks=[
            AskedPreemption(number, AppId("app"), AllocationKey("k"), [AskedNode(NodeId("n1"), [victim], 0)])
            for number in numbers
        ],
        deadline=2.0,
    )


def nodes(number: int) -> PredicatesAsked:
    """A predicate check."""
    check = AskedCheck(number, AppId("app"), AllocationKey("k"), True, [NodeId("n1")])
    return PredicatesAsked(rm_id=RM, partition=PARTITION, checks=[check], deadline=2.0)


def answering(*answers: sp.PreemptionAnswer) -> sp.PreemptionAnswers:
    """A message with these answers."""
    return sp.PreemptionAnswers(answers=answers)


def need(index: int) -> sp.NodeNeed:
    """The victims of the node that have to stop."""
    return sp.NodeNeed(node_id="n1", index=index)


class Told:
    """Records the core's commands, and passes them on."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Start without commands."""
        self.commands: list[Any] = []
        handle = server.scheduler.handle

        def noting(command: Any, now: float) -> Any:
            if isinstance(command, AnswerPreemptions | NotePredicatesSent | RegisterRm):
                self.commands.append(command)
            return handle(command, now)

        monkeypatch.setattr(server.scheduler, "handle", noting)

    @property
    def answers(self) -> list[PreemptionAnswer]:
        """The answers in the commands, in order."""
        found = [item for item in self.commands if isinstance(item, AnswerPreemptions)]
        return [answer for command in found for answer in command.answers]

    @property
    def written(self) -> list[int]:
        """The numbers of the commands that report written checks, in order."""
        return [item.check for item in self.commands if isinstance(item, NotePredicatesSent)]


@pytest.fixture
def told(server: Server, monkeypatch: pytest.MonkeyPatch) -> Told:
    """The core's commands about preemption checks."""
    return Told(server, monkeypatch)


@pytest.mark.parametrize("judges", [True, False])
async def test_a_hello_may_request_to_judge_victims(session: RawSession, told: Told, judges: bool) -> None:
    """The core has the setting of the hello from the registration on."""
    predicates = sp.Predicates(judges_victims=judges)
    await session.begin(callbacks=sp.Callbacks(predicates=predicates))
    [registration] = told.commands
    assert registration.predicates.judges_victims is judges


async def test_checks_are_a_numbered_response(server: Server, session: RawSession, told: Told) -> None:
    """Simultaneous checks arrive as one response, and the time begins when it was sent."""
    call, _ = await session.begin(callbacks=JUDGE)
    await session.replay(call)
    server.rms.route([victims(1, 2), victims(3)])
    asked = await session.until(call, "preemption_checks")
    assert asked.number > 0
    assert [check.id for check in asked.preemption_checks.checks] == [1, 2, 3]
    assert asked.preemption_checks.checks[0] == sp.PreemptionCheck(
        id=1,
        partition_name=PARTITION,
        application_id="app",
        allocation_key="k",
        nodes=[
            sp.NodeVictims(
                node_id="n1",
                victims=[sp.Victim(application_id="low", allocation_key="v")],
                start_index=0,
            )
        ],
        deadline_milliseconds=2000,
    )
    await eventually(lambda: told.written)
    assert told.written == [3]


async def test_checks_of_both_kinds_are_sent_in_order_of_their_numbers(
    server: Server, session: RawSession, told: Told
) -> None:
    """When a check is reported as written, no check of a lower number follows."""
    call, _ = await session.begin(callbacks=JUDGE)
    await session.replay(call)
    server.rms.route([nodes(1), victims(2), victims(3), nodes(4)])
    got: list[tuple[str | None, list[int]]] = []
    while len(got) < 3:
        response = await call.next()
        kind = response.WhichOneof("message")
        if kind in ("predicate_checks", "preemption_checks"):
            got.append((kind, [check.id for check in getattr(response, kind).checks]))
    assert got == [
        ("predicate_checks", [1]),
        ("preemption_checks", [2, 3]),
        ("predicate_checks", [4]),
    ]
    await eventually(lambda: len(told.written) == 3)
    assert told.written == [1, 3, 4]


async def test_a_registration_drops_unsent_checks(server: Server, session: RawSession) -> None:
    """Checks of the previous registration are not sent."""
    call, _ = await session.begin(callbacks=JUDGE)
    call.call.cancel()
    rm = server.rms.get(RM, "")
    await eventually(lambda: not rm.connected)
    server.rms.route([victims(1)])
    assert rm.outbox.messages == 1
    again, _ = await session.begin(callbacks=JUDGE)
    await session.replay(again)
    server.rms.route([victims(2)])
    asked = await session.until(again, "preemption_checks")
    assert [check.id for check in asked.preemption_checks.checks] == [2]


async def test_answers_reach_the_core(session: RawSession, told: Told) -> None:
    """Answers arrive in order, with the last victim to stop, and are acknowledged."""
    call, _ = await session.begin(callbacks=JUDGE)
    await session.replay(call)
    first = sp.PreemptionAnswer(id=1, nodes=[need(3)])
    await session.send(call, preemption_answers=answering(first, sp.PreemptionAnswer(id=2)))
    last = await session.send(call, preemption_answers=answering(sp.PreemptionAnswer(id=3, nodes=[need(-1)])))
    while (response := await call.next()).acknowledged < last:
        pass
    assert told.answers == [
        PreemptionAnswer(1, {NodeId("n1"): 3}),
        PreemptionAnswer(2),
        PreemptionAnswer(3, {NodeId("n1"): -1}),
    ]
    assert response.acknowledged == last


async def test_an_invalid_answer_ends_the_stream_only(
    session: RawSession, neighbour: Any, told: Told
) -> None:
    """The stream ends with field and value, earlier requests are carried out, and other RMs continue."""
    call, welcome = await session.begin(callbacks=JUDGE)
    await session.replay(call)
    fine = sp.PreemptionAnswer(id=1, nodes=[need(0)])
    await session.send(call, preemption_answers=answering(fine))
    bad = sp.PreemptionAnswer(id=2, nodes=[need(-7)])
    await session.send(call, preemption_answers=answering(fine, bad))
    assert await call.ending() == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "PreemptionAnswer 2: index of node n1 is -7, it must not be below -1",
    )
    assert [answer.check for answer in told.answers] == [1]
    _, response = await session.begin(token=welcome.welcome.resume_token)
    assert response.welcome.resumed
    await neighbour()

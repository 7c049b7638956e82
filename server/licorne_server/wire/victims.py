"""Preemption checks and their answers on the wire (spec § 9.4.5).

There are few of them: each is for an ask that has waited long, and for many victims at once.
"""

from collections.abc import Iterator

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import AnswerPreemptions, PreemptionAnswer
from licorne_core.messages.effects import AskedNode, AskedPreemption, PreemptionsAsked
from licorne_core.values.errors import shown
from licorne_core.values.ids import NodeId, RmId
from licorne_server.wire.caps import MAX_ID, MAX_NEEDS
from licorne_server.wire.checks import answers_in, check_entries
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.framing import FIELD, Pace, delimited
from licorne_server.wire.items import parse
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, Kind, Payload

MAX_CHECK_BYTES = 1024 * 1024
"""A check ends with the node that exceeds it. By default clients take messages of 4 MiB."""

_CHECKS = sp.PreemptionChecks.CHECKS_FIELD_NUMBER
_NODES = sp.PreemptionCheck.NODES_FIELD_NUMBER
PART_ANSWERS = 20
"""Answers that go into one command; each may name `MAX_NEEDS` nodes."""

_NEED = 4 * FIELD
"""Work of reading one node that an answer names."""

_NEEDED = sp.PreemptionAnswer.NODES_FIELD_NUMBER


def victim_payloads(asked: PreemptionsAsked) -> Iterator[Payload]:
    """PreemptionChecks within the size of a response, with at least one check each."""
    parts: list[bytes] = []
    size = last = 0
    for check in asked.checks:
        part = delimited(_CHECKS, _check(asked, check))
        if parts and size + len(part) > MAX_RESPONSE_BYTES:
            yield _payload(parts, last)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
        last = check.check
    if parts:
        yield _payload(parts, last)


def _check(asked: PreemptionsAsked, check: AskedPreemption) -> bytes:
    """The nodes come best first. Those beyond the limit count as refused."""
    head = sp.PreemptionCheck(
        id=check.check,
        partition_name=asked.partition,
        application_id=check.app_id,
        allocation_key=check.key,
        deadline_milliseconds=round(asked.deadline * 1000),
    )
    parts = [head.SerializeToString()]
    room = MAX_CHECK_BYTES
    for node in check.nodes:
        if room <= 0:
            break
        part = delimited(_NODES, _node(node).SerializeToString())
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


def _node(node: AskedNode) -> sp.NodeVictims:
    victims = [sp.Victim(application_id=app_id, allocation_key=key) for app_id, key in node.victims]
    return sp.NodeVictims(node_id=node.node_id, victims=victims, start_index=node.start)


def _payload(checks: list[bytes], last: int) -> Payload:
    return Payload(Kind.VICTIMS, "victims", b"".join(checks), len(checks), last_check=last)


async def preemption_answers(rm_id: RmId, raw: bytes, pace: Pace) -> list[AnswerPreemptions]:
    """A PreemptionAnswers, part by part.

    Only the core compares its nodes and positions with those of the check.

    Raises:
        CallError: there are too many answers, one names too many nodes or one node twice, or a
            position is below any.
        Malformed: the bytes are no PreemptionAnswers.
    """
    answers: list[PreemptionAnswer] = []
    for item in await answers_in(raw, "PreemptionAnswers", "preemption_answers.answers", pace):
        answer = _answer(item)
        answers.append(answer)
        if pace.spend(len(item) + (len(answer.needed) + 1) * _NEED):
            await pace.rest()
    return [
        AnswerPreemptions(rm_id=rm_id, answers=answers[begin : begin + PART_ANSWERS])
        for begin in range(0, len(answers), PART_ANSWERS)
    ]


def _answer(raw: bytes) -> PreemptionAnswer:
    field = "preemption_answers.answers.nodes"
    check_entries("PreemptionAnswer", raw, _NEEDED, MAX_NEEDS, field)
    wire = parse(sp.PreemptionAnswer, raw)
    needed: dict[NodeId, int] = {}
    for need in wire.nodes:
        if need.index < -1:
            raise invalid_argument(
                f"PreemptionAnswer {wire.id}: index of node {shown(need.node_id)} is {need.index}, "
                "it must not be below -1",
                "preemption_answers.answers.nodes.index",
            )
        if need.node_id in needed:
            raise invalid_argument(
                f"PreemptionAnswer {wire.id} names node {shown(need.node_id)} twice",
                "preemption_answers.answers.nodes.node_id",
            )
        if len(need.node_id) <= MAX_ID:
            needed[NodeId(need.node_id)] = need.index
    return PreemptionAnswer(wire.id, needed)

"""Predicate and preemption checks and their answers on the wire (spec §§ 1.6.12, 8.4, 9.4.5).

There may be a predicate check for every ask, so both directions work on encoded bytes: checks are written
from cached pieces, and answers without refusals are read without a parse. There are few
preemption checks: each is for an ask that has waited for a long time, and covers many victims.

An RM opts into checks with the callbacks of its hello.
"""

from collections.abc import Iterable, Iterator

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    FailMode,
    NodeRefusal,
    PredicateAnswer,
    PredicatePolicy,
    PreemptionAnswer,
)
from licorne_core.messages.effects import (
    AskedCheck,
    AskedNode,
    AskedPreemption,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.values.errors import shown
from licorne_core.values.ids import NodeId, RmId
from licorne_server.wire.bounded_cache import CHECKS_BYTES
from licorne_server.wire.caps import (
    MAX_ALL_REFUSALS,
    MAX_ANSWERS,
    MAX_ID,
    MAX_NEEDS,
    MAX_REASON,
    MAX_REFUSALS,
)
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.framing import (
    FIELD,
    LENGTH,
    Pace,
    delimited,
    encode_varint,
    field_at,
    fields,
    skim,
    varint,
)
from licorne_server.wire.items import parse
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Kind, Payload, Pieces

NO_REASON = "no reason given"

MAX_CHECK_BYTES = 1024 * 1024
"""Number of bytes of a preemption check above which no node is added. Clients accept 4 MiB by default."""

PART_REFUSALS = 2_000
"""Maximum number of predicate answers, and nodes refused by them, in one command."""

PART_JUDGED = 64
"""Maximum number of predicate answers in one command; each may place an ask."""

PART_ANSWERS = 20
"""Maximum number of preemption answers in one command; each may name `MAX_NEEDS` nodes."""

_ID, _PARTITION, _APPLICATION, _KEY, _ALLOCATE, _NODE, _DEADLINE = range(1, 8)
_CHECKS = 1
"""Number of the field of a message that has its checks or answers."""

_NODES = sp.PreemptionCheck.NODES_FIELD_NUMBER
_REFUSED = sp.PredicateAnswer.REFUSED_FIELD_NUMBER
_NEEDED = sp.PreemptionAnswer.NODES_FIELD_NUMBER

NAMED = 4 * FIELD
"""Work of reading one node that an answer refuses or names."""

_OTHER_FIELDS = 100
"""Maximum number of fields of an answer outside its list."""


def _payloads(kind: Kind, checks: Iterable[tuple[int, bytes]]) -> Iterator[Payload]:
    """Split numbered checks into responses, by the bounds on their items and bytes.



    A check may name many nodes, so a thousand checks could exceed a client's message size.
    """
    parts: list[bytes] = []
    size = last = 0
    for number, check in checks:
        part = delimited(_CHECKS, check)
        full = len(parts) == MAX_RESPONSE_ITEMS or size + len(part) > MAX_RESPONSE_BYTES
        if parts and full:
            yield Payload(kind, kind.value, b"".join(parts), len(parts), last)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
        last = number
    if parts:
        yield Payload(kind, kind.value, b"".join(parts), len(parts), last)


class CheckEncoder:
    """Encodes the predicate checks of one RM, and caches repeated pieces."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._pieces = Pieces(CHECKS_BYTES)

    def payloads(self, asked: PredicatesAsked) -> Iterator[Payload]:
        """The checks as PredicateChecks messages within the bounds of a response."""
        partition = self._pieces.of(_PARTITION, asked.partition)
        deadline = _varint_field(_DEADLINE, round(asked.deadline * 1000))
        checks = ((check.check, self._check(check, partition, deadline)) for check in asked.checks)
        return _payloads(Kind.CHECKS, checks)

    def _check(self, check: AskedCheck, partition: bytes, deadline: bytes) -> bytes:
        pieces = self._pieces
        parts = [
            _varint_field(_ID, check.check),
            partition,
            pieces.of(_APPLICATION, check.app_id),
            delimited(_KEY, check.key.encode()),
            b"\x28\x01" if check.allocate else b"",
            *(pieces.of(_NODE, node) for node in check.nodes),
            deadline,
        ]
        return b"".join(parts)


def victim_payloads(asked: PreemptionsAsked) -> Iterator[Payload]:
    """PreemptionChecks messages within the bounds of a response, each with at least one check."""
    return _payloads(Kind.VICTIMS, ((check.check, _preemption(asked, check)) for check in asked.checks))


def _preemption(asked: PreemptionsAsked, check: AskedPreemption) -> bytes:
    """Encode a check with its nodes, the best first. Nodes beyond `MAX_CHECK_BYTES` count as refused."""
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


async def predicate_answers(rm_id: RmId, raw: bytes, pace: Pace) -> list[AnswerPredicates]:
    """Read a PredicateAnswers message in parts. The core ignores nodes that were not in the check.

    Raises:
        CallError: there are too many answers, one refuses more nodes than any check names, or all
            together refuse too many.
        Malformed: the bytes are no PredicateAnswers.
    """
    reasons: dict[str, str] = {}
    parts: list[list[PredicateAnswer]] = [[]]
    room = PART_REFUSALS
    refused = 0
    for item in await answers_in(raw, "PredicateAnswers", "predicate_answers.answers", pace):
        answer = _answer(item, reasons)
        refused += len(answer.refused)
        if refused > MAX_ALL_REFUSALS:
            raise invalid_argument(
                f"PredicateAnswers refuses more than {MAX_ALL_REFUSALS} nodes",
                "predicate_answers.answers.refused",
            )
        if room <= 0 or len(parts[-1]) == PART_JUDGED:
            parts.append([])
            room = PART_REFUSALS
        parts[-1].append(answer)
        room -= len(answer.refused) + 1
        if pace.spend(len(item) + (len(answer.refused) + 1) * NAMED):
            await pace.rest()
    return [AnswerPredicates(rm_id=rm_id, answers=part) for part in parts if part]


async def preemption_answers(rm_id: RmId, raw: bytes, pace: Pace) -> list[AnswerPreemptions]:
    """Read a PreemptionAnswers message in parts.

    The core compares nodes and positions with those of the check.

    Raises:
        CallError: there are too many answers, one names too many nodes or one node twice, or a
            position is negative.
        Malformed: the bytes are no PreemptionAnswers.
    """
    answers: list[PreemptionAnswer] = []
    for item in await answers_in(raw, "PreemptionAnswers", "preemption_answers.answers", pace):
        answer = _preemption_answer(item)
        answers.append(answer)
        if pace.spend(len(item) + (len(answer.needed) + 1) * NAMED):
            await pace.rest()
    return [
        AnswerPreemptions(rm_id=rm_id, answers=answers[begin : begin + PART_ANSWERS])
        for begin in range(0, len(answers), PART_ANSWERS)
    ]


async def answers_in(raw: bytes, message: str, field: str, pace: Pace) -> list[bytes]:
    """The bytes of each answer in a message, whose field 1 has the answers.

    Raises:
        CallError: there are too many answers.
        Malformed: the bytes are no such message.
    """
    await pace.begin(len(raw))
    found: list[bytes] = []
    for count, (number, kind, _, value, end) in enumerate(fields(raw), 1):
        if count > MAX_ANSWERS:
            raise invalid_argument(f"{message} holds more than {MAX_ANSWERS} answers", field)
        if kind == LENGTH and number == _CHECKS:
            found.append(raw[value:end])
    return found


def _check_entries(what: str, raw: bytes, number: int, most: int, field: str) -> None:
    """Refuse an answer with too many entries in the field `number`, or with too many fields.

    Raises:
        CallError: INVALID_ARGUMENT; `what` names the answer, `field` the path of the entries.
        Malformed: the bytes are no message.
    """
    count, places, _ = skim(raw, (number,), most + _OTHER_FIELDS)
    if len(places) > most:
        name = field.rpartition(".")[2]
        raise invalid_argument(f"{what} has more than {most} {name}, no check asks for more", field)
    if count > most + _OTHER_FIELDS:
        problem = f"{what} has more than {most + _OTHER_FIELDS} fields"
        raise invalid_argument(problem, field.rpartition(".")[0])


def _answer(raw: bytes, reasons: dict[str, str]) -> PredicateAnswer:
    if raw[:1] == b"\x08":
        _, _, _, value, end = field_at(raw, 0, len(raw))
        if end == len(raw):
            # Most answers refuse no node, and have only this field.
            return PredicateAnswer(varint(raw, value)[0])
    field = "predicate_answers.answers.refused"
    _check_entries("PredicateAnswer", raw, _REFUSED, MAX_REFUSALS, field)
    wire = parse(sp.PredicateAnswer, raw)
    refused = [
        NodeRefusal(node_id=NodeId(item.node_id), reason=_reason(item.reason, reasons))
        for item in wire.refused
        if len(item.node_id) <= MAX_ID
    ]
    return PredicateAnswer(wire.id, refused)


def _preemption_answer(raw: bytes) -> PreemptionAnswer:
    field = "preemption_answers.answers.nodes"
    _check_entries("PreemptionAnswer", raw, _NEEDED, MAX_NEEDS, field)
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


def _reason(text: str, known: dict[str, str]) -> str:
    """The reason as users see it, which is never empty. Equal reasons share one object.

    Line breaks and other control characters become blanks, so that the reason fits on one line.
    """
    reason = known.get(text)
    if reason is None:
        shown = " ".join(text[: 2 * MAX_REASON].split())[:MAX_REASON]
        if not shown.isprintable():
            shown = ascii(shown)[1:-1][:MAX_REASON]
        reason = known[text] = shown or NO_REASON
    return reason


def _varint_field(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)


DEFAULT_DEADLINE = 2_000
MIN_DEADLINE = 10
MAX_DEADLINE = 60_000
_FIELD = "hello.callbacks.predicates"
_FAIL_MODES = {sp.FAIL_CLOSED: FailMode.CLOSED, sp.FAIL_OPEN: FailMode.OPEN}


def policy(callbacks: sp.Callbacks) -> PredicatePolicy | None:
    """The RM's policy of predicate checks; None if it has opted out.

    Raises:
        CallError: INVALID_ARGUMENT, naming the field.
    """
    if not callbacks.HasField("predicates"):
        return None
    wire = callbacks.predicates
    deadline = wire.deadline_milliseconds or DEFAULT_DEADLINE
    if not MIN_DEADLINE <= deadline <= MAX_DEADLINE:
        raise invalid_argument(
            f"deadline_milliseconds is {deadline}, it must lie between {MIN_DEADLINE} and "
            f"{MAX_DEADLINE}, or be 0 for {DEFAULT_DEADLINE}",
            f"{_FIELD}.deadline_milliseconds",
        )
    fail_mode = _FAIL_MODES.get(wire.fail_mode)
    if fail_mode is None:
        raise invalid_argument(f"unknown fail_mode {wire.fail_mode}", f"{_FIELD}.fail_mode")
    if wire.class_by not in sp.ClassBy.values():
        raise invalid_argument(f"unknown class_by {wire.class_by}", f"{_FIELD}.class_by")
    return PredicatePolicy(deadline=deadline / 1000, fail_mode=fail_mode, judges_victims=wire.judges_victims)

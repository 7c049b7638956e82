"""Predicate checks and their answers on the wire (spec §§ 1.6.12, 8.4).

There may be a check for every ask, so both directions work on bytes: checks are written from cached
pieces, and answers are read without a parse where nothing is refused.

Also here:

* Callbacks for checks that an RM's hello opts into (spec §§ 1.6.12, 8.4, 9.4.5).
"""

from collections.abc import Iterator

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import (
    AnswerPredicates,
    FailMode,
    NodeRefusal,
    PredicateAnswer,
    PredicatePolicy,
)
from licorne_core.messages.effects import AskedCheck, PredicatesAsked
from licorne_core.values.ids import NodeId, RmId
from licorne_server.wire.bounded_cache import CHECKS_BYTES, WIDE, BoundedCache
from licorne_server.wire.caps import MAX_ALL_REFUSALS, MAX_ANSWERS, MAX_ID, MAX_REASON, MAX_REFUSALS
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
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Kind, Payload

NO_REASON = "no reason given"

_ID, _PARTITION, _APPLICATION, _KEY, _ALLOCATE, _NODE, _DEADLINE = range(1, 8)
_CHECKS = sp.PredicateChecks.CHECKS_FIELD_NUMBER
_ANSWERS = sp.PredicateAnswers.ANSWERS_FIELD_NUMBER
_REFUSED = sp.PredicateAnswer.REFUSED_FIELD_NUMBER

PART_REFUSALS = 2_000
"""Answers, and nodes refused by them, that go into one command."""

_REFUSAL = 4 * FIELD
"""Work of reading one refusal."""

_OTHER_FIELDS = 100
"""Bound on the fields of an answer outside its list."""


class CheckEncoder:
    """Writes the predicate checks of one RM, and remembers the pieces that repeat."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._pieces: BoundedCache[tuple[int, str], bytes] = BoundedCache(CHECKS_BYTES)

    def payloads(self, asked: PredicatesAsked) -> Iterator[Payload]:
        """PredicateChecks, split by the bounds on checks and bytes of a response.

        A check may name many nodes. So a thousand checks may exceed the message size of a client.
        """
        partition = self._piece(_PARTITION, asked.partition)
        deadline = _varint_field(_DEADLINE, round(asked.deadline * 1000))
        parts: list[bytes] = []
        size = last = 0
        for check in asked.checks:
            part = self._check(check, partition, deadline)
            full = len(parts) == MAX_RESPONSE_ITEMS or size + len(part) > MAX_RESPONSE_BYTES
            if parts and full:
                yield _payload(parts, last)
                parts, size = [], 0
            parts.append(part)
            size += len(part)
            last = check.check
        yield _payload(parts, last)

    def _check(self, check: AskedCheck, partition: bytes, deadline: bytes) -> bytes:
        parts = [
            _varint_field(_ID, check.check),
            partition,
            self._piece(_APPLICATION, check.app_id),
            delimited(_KEY, check.key.encode()),
            b"\x28\x01" if check.allocate else b"",
            *(self._piece(_NODE, node) for node in check.nodes),
            deadline,
        ]
        return delimited(_CHECKS, b"".join(parts))

    def _piece(self, field: int, text: str) -> bytes:
        piece = self._pieces.entries.get((field, text))
        if piece is None:
            piece = delimited(field, text.encode())
            self._pieces.keep((field, text), piece, len(piece) + WIDE * len(text))
        return piece


async def predicate_answers(rm_id: RmId, raw: bytes, pace: Pace) -> list[AnswerPredicates]:
    """A PredicateAnswers, part by part. The core ignores nodes that it did not ask about.

    Raises:
        CallError: there are too many answers, one refuses more nodes than any check has, or all
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
        if room <= 0:
            parts.append([])
            room = PART_REFUSALS
        parts[-1].append(answer)
        room -= len(answer.refused) + 1
        if pace.spend(len(item) + (len(answer.refused) + 1) * _REFUSAL):
            await pace.rest()
    return [AnswerPredicates(rm_id=rm_id, answers=part) for part in parts if part]


async def answers_in(raw: bytes, message: str, field: str, pace: Pace) -> list[bytes]:
    """The bytes of each answer in a message with answers in field 1.

    Raises:
        CallError: there are too many.
        Malformed: the bytes are no such message.
    """
    await pace.begin(len(raw))
    found: list[bytes] = []
    for count, item in enumerate(fields(raw), 1):
        if count > MAX_ANSWERS:
            raise invalid_argument(f"{message} holds more than {MAX_ANSWERS} answers", field)
        if item.kind == LENGTH and item.number == _ANSWERS:
            found.append(raw[item.value : item.end])
    return found


def check_entries(what: str, raw: bytes, number: int, most: int, field: str) -> None:
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
        item = field_at(raw, 0, len(raw))
        if item.end == len(raw):
            # Most answers refuse nothing, and are only this.
            return PredicateAnswer(varint(raw, item.value)[0])
    field = "predicate_answers.answers.refused"
    check_entries("PredicateAnswer", raw, _REFUSED, MAX_REFUSALS, field)
    wire = parse(sp.PredicateAnswer, raw)
    refused = [
        NodeRefusal(node_id=NodeId(item.node_id), reason=_reason(item.reason, reasons))
        for item in wire.refused
        if len(item.node_id) <= MAX_ID
    ]
    return PredicateAnswer(wire.id, refused)


def _reason(text: str, known: dict[str, str]) -> str:
    """The reason as users will see it, never empty. Equal reasons are one object.

    Line breaks and the like are blanks, so that it reads well in one line.
    """
    reason = known.get(text)
    if reason is None:
        shown = " ".join(text[: 2 * MAX_REASON].split())[:MAX_REASON]
        if not shown.isprintable():
            shown = ascii(shown)[1:-1][:MAX_REASON]
        reason = known[text] = shown or NO_REASON
    return reason


def _payload(checks: list[bytes], last: int) -> Payload:
    return Payload(Kind.CHECKS, "checks", b"".join(checks), len(checks), last_check=last)


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

"""How an RM takes part in predicate checks, and what it answers (spec §§ 1.6.12, 8.4)."""

from google.protobuf.message import DecodeError

from licorne.v1 import session_pb2 as sp
from licorne_core.commands import AnswerPredicates, FailMode, NodeRefusal, PredicatePolicy
from licorne_core.ids import NodeId, RmId
from licorne_server.caps import MAX_ID, MAX_REASON, MAX_REFUSALS
from licorne_server.errors import Malformed, invalid_argument
from licorne_server.wire import LENGTH, fields

DEFAULT_DEADLINE = 2_000
MIN_DEADLINE = 10
MAX_DEADLINE = 60_000
NO_REASON = "no reason given"
_FIELD = "hello.callbacks.predicates"
_FAIL_MODES = {sp.FAIL_CLOSED: FailMode.CLOSED, sp.FAIL_OPEN: FailMode.OPEN}


def policy(callbacks: sp.Callbacks) -> PredicatePolicy | None:
    """How the RM takes part in predicate checks; None when it does not.

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
    return PredicatePolicy(deadline=deadline / 1000, fail_mode=fail_mode)


def predicate_answer(rm_id: RmId, raw: bytes) -> AnswerPredicates:
    """A PredicateAnswer. The core ignores nodes that it did not ask about.

    Raises:
        CallError: the answer refuses more nodes than any predicate check has.
        Malformed: the bytes are no PredicateAnswer.
    """
    refusal = sp.PredicateAnswer.REFUSED_FIELD_NUMBER
    count = sum(item.kind == LENGTH and item.number == refusal for item in fields(raw))
    if count > MAX_REFUSALS:
        raise invalid_argument(
            f"PredicateAnswer refuses {count} nodes, at most {MAX_REFUSALS} are asked about",
            "predicate_answer.refused",
        )
    try:
        wire = sp.PredicateAnswer.FromString(raw)
    except DecodeError as error:
        raise Malformed(f"PredicateAnswer: {error}") from None
    reasons: dict[str, str] = {}
    refused = [
        NodeRefusal(node_id=NodeId(item.node_id), reason=_reason(item.reason, reasons))
        for item in wire.refused
        if len(item.node_id) <= MAX_ID
    ]
    return AnswerPredicates(rm_id=rm_id, check=wire.id, refused=refused)


def _reason(text: str, known: dict[str, str]) -> str:
    """The reason as users will see it, never empty. Equal reasons are one object."""
    reason = known.get(text)
    if reason is None:
        shown = text[:MAX_REASON]
        if not shown.isprintable():
            shown = ascii(shown)[1:-1][:MAX_REASON]
        reason = known[text] = shown or NO_REASON
    return reason

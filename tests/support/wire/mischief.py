"""What no decent RM sends: it ends with a status that says so, and nothing of it is done."""

import grpc

from licorne.v1 import session_pb2 as session
from licorne_server.wire.framing import delimited
from support.wire.connection import ALLOCATIONS, APPLICATIONS, METHODS, NODES, SESSION, request
from support.wire.items import AppItem, AskItem, NodeItem
from support.wire.ledger import Item
from support.wire.shim import WireRm
from support.wire.site import Status
from support.wire.tracks import Violation

MISCHIEF = (
    "garbage",
    "half a message",
    "somebody else's name",
    "a stranger",
    "a gap",
    "too much acknowledged",
    "an older instance",
    "si.v1 beside a session",
)

_ITEMS: dict[str, Item] = {
    NODES: NodeItem("n7", "CREATE", (("vcore", 9),), ""),
    APPLICATIONS: AppItem("a7"),
    ALLOCATIONS: AskItem("k7", "a0", (("vcore", 1),)),
}
_FIELDS = {NODES: 1, APPLICATIONS: 1, ALLOCATIONS: 4}
_NO_UTF8 = b"\x0a\x01\xff"
"""An item with an id that is no text."""

INVALID = grpc.StatusCode.INVALID_ARGUMENT
REFUSED = grpc.StatusCode.FAILED_PRECONDITION


def do_mischief(rm: WireRm, what: str) -> None:
    """Do it, where it can be done, and look at the status."""
    lines = rm.connection
    for kind in (NODES, APPLICATIONS, ALLOCATIONS):
        good = request(kind, [_ITEMS[kind]], rm.rm_id).SerializeToString()
        match what:
            case "garbage":
                _expect(INVALID, what, lines.blurt(kind, b"\xff\xff\xff"))
            case "half a message":
                broken = good + delimited(_FIELDS[kind], _NO_UTF8)
                _expect(INVALID, what, lines.blurt(kind, _sealed(rm, kind, broken)))
            case "somebody else's name":
                named = request(kind, [_ITEMS[kind]], "another").SerializeToString()
                # A session is of one RM; on a stream the name is that of an RM that is not there.
                status = INVALID if lines.has_session else REFUSED
                _expect(status, what, lines.blurt(kind, _sealed(rm, kind, named)))
            case "a stranger":
                named = request(kind, [_ITEMS[kind]], "stranger").SerializeToString()
                _expect(REFUSED, what, lines.begin_with(METHODS[kind], named).status)
            case "si.v1 beside a session" if lines.has_session:
                _expect(REFUSED, what, lines.begin_with(METHODS[kind], good).status)
            case "a gap" if lines.has_session:
                _expect(INVALID, what, lines.blurt(kind, _sealed(rm, kind, good, skipped=1)))
    if lines.has_session and what == "too much acknowledged":
        ack = session.UpdateRequest(acknowledged=10_000, ack=session.Ack())
        _expect(INVALID, what, lines.blurt(NODES, ack.SerializeToString()))
    if lines.instance > 1 and lines.has_session and what == "an older instance":
        hello = session.Hello(rm_id=rm.rm_id, instance=lines.instance - 1, protocol=1)
        hello.registration.SetInParent()
        raw = session.UpdateRequest(hello=hello).SerializeToString()
        _expect(REFUSED, what, lines.begin_with(SESSION, raw).status)


def _sealed(rm: WireRm, kind: str, payload: bytes, *, skipped: int = 0) -> bytes:
    """A request as it goes over the RM's lines, with the next number or one further."""
    talk = rm.connection.talk
    return payload if talk is None else talk.sealed(kind, payload, skipped)


def _expect(code: grpc.StatusCode, what: str, status: Status | None) -> None:
    if status is None or status.code is not code:
        raise Violation(f"{what} ended with {status}, not with {code.name}")

"""Draws messages with few names, so that they conflict, and sometimes faulty messages.

No correct RM sends those: they end with a status, and have no other effect.
"""

from collections.abc import Sequence
from typing import TypeVar

import grpc
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as session
from licorne_server.wire.framing import delimited
from support.wire.connection import ALLOCATIONS, APPLICATIONS, METHODS, NODES, SESSION, request
from support.wire.items import (
    BAD_PARTITIONS,
    CREATES,
    HUGE,
    NO_ACTION,
    SECOND,
    Amounts,
    AppItem,
    AskItem,
    NodeItem,
    ReleaseItem,
    RemovalItem,
    home,
)
from support.wire.ledger import Item
from support.wire.shim import WireRm
from support.wire.site import Status
from support.wire.tracks import Violation

T = TypeVar("T", NodeItem, AppItem, RemovalItem, AskItem, ReleaseItem)

NODE_IDS = ("n0", "n1", "n2", "n0", "n1", "g0")
APP_IDS = ("a0", "a1", "a0", "a1", "a2", "ga")
KEYS = ("k0", "k1", "k2")
FOREIGN_KEYS = ("f0", "f1")
OWN = "own"
"""A placeholder for the RM's full name of the default partition, ``[rmID]default``."""

HUGE_GANG = 9
"""More vcore than the queue a may have in most configurations."""

ONE_IN = 24
"""One in this number of drawn values is a rare one."""

D = TypeVar("D")


def _mostly(usual: Sequence[D], rare: Sequence[D]) -> st.SearchStrategy[D]:
    times = ONE_IN * len(rare) // len(usual) + 1
    return st.sampled_from([*list(usual) * times, *rare])


def _vcore(value: int, memory: int = 0) -> Amounts:
    return (("memory", memory), ("vcore", value)) if memory else (("vcore", value),)


_ASK_SIZES = _mostly([_vcore(1), _vcore(2), _vcore(3), _vcore(1, 1)], [(), _vcore(-1), _vcore(HUGE)])
_NODE_SIZES = _mostly([_vcore(4, 4), _vcore(2, 4), _vcore(6, 4), _vcore(3)], [(), _vcore(-2)])
_ACTIONS = st.sampled_from(
    [
        *("CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE"),
        *("DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE"),
        *("DECOMISSION", "CREATE_DRAIN"),
    ]
)
_PARTITIONS = _mostly(("", "", "default", OWN), BAD_PARTITIONS)
_QUEUES = _mostly(("root.a", "root.a", "root.b", "root.p.x", "root.new"), ("root.p", "x.y..", ""))
_WHY = (si.STOPPED_BY_RM, si.STOPPED_BY_RM, si.SCHEDULING_FAILED_ON_RM, si.TIMEOUT)
_RARE_WHY = (si.UNKNOWN_TERMINATION_TYPE, si.PREEMPTED_BY_SCHEDULER, si.PLACEHOLDER_REPLACED, 9)


def _at_home(item: T, name: str) -> T:
    """The item with its partition named, if that is the second one."""
    if home(name) == SECOND and item.partition not in BAD_PARTITIONS:
        return item._replace(partition=SECOND)
    return item


def localized(item: Item, rm_id: str) -> Item:
    """The item with the RM's own name where needed."""
    if item.partition == OWN:
        return item._replace(partition=f"[{rm_id}]default")
    return item


_RARELY = _mostly([False], [True])
_SELDOM = st.sampled_from([False] * 5 + [True])


@st.composite
def _node_items(draw: st.DrawFn) -> NodeItem:
    node_id = draw(_mostly(NODE_IDS, ("bad", "")))
    if node_id == "bad":
        return NodeItem(node_id, NO_ACTION, None, "")
    action = draw(_ACTIONS)
    size = draw(_NODE_SIZES) if action in (*CREATES, "UPDATE") else None
    return _at_home(NodeItem(node_id, action, size, draw(_PARTITIONS)), node_id)


@st.composite
def _app_items(draw: st.DrawFn) -> AppItem:
    item = AppItem(
        app_id=draw(_mostly(APP_IDS, ("",))),
        queue=draw(_QUEUES),
        partition=draw(_PARTITIONS),
        user=draw(_mostly(("ann", "bob"), ("",))),
        forced=draw(_SELDOM),
        gang=draw(st.sampled_from([0, 0, 0, 0, 2, HUGE_GANG])),
    )
    return _at_home(item, item.app_id)


@st.composite
def _removal_items(draw: st.DrawFn) -> RemovalItem:
    item = RemovalItem(draw(st.sampled_from(APP_IDS)), draw(_PARTITIONS))
    return _at_home(item, item.app_id)


@st.composite
def _asks(draw: st.DrawFn) -> AskItem:
    item = AskItem(
        key=draw(_mostly(KEYS, ("",))),
        app_id=draw(_mostly(APP_IDS, ("unknown",))),
        size=draw(_ASK_SIZES),
        priority=draw(_mostly([0], [5, -1])),
        required=draw(_mostly([""], ["n0", "n1", "n9"])),
        partition=draw(_PARTITIONS),
        placeholder=draw(_SELDOM),
        group=draw(_mostly(["group"], [""])),
    )
    return _at_home(item, item.app_id)


@st.composite
def _placed(draw: st.DrawFn) -> AskItem:
    item = AskItem(
        key=draw(st.sampled_from(KEYS)),
        app_id=draw(st.sampled_from(APP_IDS)),
        size=draw(_ASK_SIZES),
        node_id=draw(_mostly(NODE_IDS, ("n9",))),
        partition=draw(_PARTITIONS),
        placeholder=draw(_SELDOM),
    )
    return _at_home(item, item.app_id)


@st.composite
def _foreign(draw: st.DrawFn) -> AskItem:
    return AskItem(
        key=draw(st.sampled_from(FOREIGN_KEYS)),
        app_id="",
        size=draw(_ASK_SIZES),
        node_id=draw(_mostly(("n0", "n1", "n2"), ("n9", ""))),
        foreign=not draw(_RARELY),
    )


@st.composite
def _releases(draw: st.DrawFn) -> ReleaseItem:
    if draw(_SELDOM):
        return ReleaseItem(draw(st.sampled_from(FOREIGN_KEYS)), "")
    item = ReleaseItem(
        key=draw(_mostly(KEYS, ("",))),
        app_id=draw(_mostly(APP_IDS, ("unknown",))),
        why=draw(_mostly(_WHY, _RARE_WHY)),
        partition=draw(_PARTITIONS),
    )
    return _at_home(item, item.app_id)


def _named(item: AskItem | ReleaseItem) -> tuple[str, str]:
    return (item.app_id, item.key)


_ask_items = st.one_of(_asks(), _asks(), _asks(), _asks(), _placed(), _foreign())


@st.composite
def _node_messages(draw: st.DrawFn) -> tuple[str, list[Item]]:
    """Nodes that are added, changed and removed."""
    return NODES, [*draw(st.lists(_node_items(), min_size=1, max_size=3))]


@st.composite
def _application_messages(draw: st.DrawFn) -> tuple[str, list[Item]]:
    """Added applications, then removed ones."""
    new = draw(st.lists(_app_items(), min_size=1, max_size=2))
    return APPLICATIONS, [
        *new,
        *draw(st.just([]) | st.just([]) | st.lists(_removal_items(), max_size=1)),
    ]


@st.composite
def _allocation_messages(draw: st.DrawFn) -> tuple[str, list[Item]]:
    """Asks and allocations, then releases.

    No key occurs twice: answers about a key are grouped by kind, and not in the order of the items.
    """
    asks = draw(st.lists(_ask_items, max_size=4, unique_by=_named))
    return ALLOCATIONS, [*asks, *draw(st.lists(_releases(), max_size=2, unique_by=_named))]


messages = st.one_of(
    _allocation_messages(),
    _allocation_messages(),
    _allocation_messages(),
    _allocation_messages(),
    _node_messages(),
    _application_messages(),
)
"""The kind of a message, and its items."""

_UNREPEATABLE = (si.TIMEOUT, si.SCHEDULING_FAILED_ON_RM)


def is_idempotent(items: Sequence[Item]) -> bool:
    """True if a message that is sent twice must have the effect of one.

    That is not so if the second copy changes what the scheduler decided after the first.
    """
    nodes = [item for item in items if isinstance(item, NodeItem)]
    changes = {node.node_id for node in nodes if not node.creates}
    comes = {node.node_id for node in nodes if node.creates}
    fickle = any(isinstance(i, ReleaseItem) and i.why in _UNREPEATABLE for i in items)
    news = {item.app_id for item in items if isinstance(item, AppItem)}
    ends = {item.app_id for item in items if isinstance(item, RemovalItem)}
    # An invalid change of an assumed ask still removes it from its node, and a change that is invalid for a
    # pending ask may be valid once the ask is placed.
    placed = [item for item in items if isinstance(item, AskItem) and item.node_id]
    vain = any(i.node_id == "n9" or home(i.node_id) != home(i.app_id) for i in placed)
    return not (fickle or vain or changes & comes or news & ends)


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
    """Send the faulty message, if the connection can, and check the status."""
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
                # A session belongs to one RM; on a stream the name is that of an unregistered RM.
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
    """The payload, or on a session a request with it, which skips this number of request numbers."""
    talk = rm.connection.talk
    return payload if talk is None else talk.sealed(kind, payload, skipped)


def _expect(code: grpc.StatusCode, what: str, status: Status | None) -> None:
    if status is None or status.code is not code:
        raise Violation(f"{what} ended with {status}, not with {code.name}")

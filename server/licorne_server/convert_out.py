"""Effects into the bytes of `si.v1` responses.

Allocations are the hot output path: they are joined from encoded pieces that are kept for each
application, class, node and partition, byte for byte what protobuf would have written.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import ReplayResult, UpdateResponse
from licorne_core.asks import Allocation, Ask, AskClass
from licorne_core.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    Effect,
    NodesAnswered,
    ReplayEnded,
)
from licorne_server.wire import delimited, encode_varint

NANOSECONDS = 1_000_000_000
MAX_RESPONSE_ITEMS = 1_000
MAX_RESPONSE_BYTES = 256 * 1024
_KEPT = 50_000
T = TypeVar("T")


class Kind(Enum):
    """Which stream of `si.v1` a response belongs to; SESSION is for those of `Session` alone."""

    NODES = "UpdateNode"
    APPLICATIONS = "UpdateApplication"
    ALLOCATIONS = "UpdateAllocation"
    SESSION = "Session.Update"


class Payload(NamedTuple):
    """A response in bytes. Payloads of one `sort` (which implies the kind) may be joined."""

    kind: Kind
    sort: str
    data: bytes
    items: int


def nanoseconds(seconds: float) -> int:
    """Unix seconds, or a span of seconds, in nanoseconds to the microsecond; 0 for none."""
    return round(seconds * 1_000_000) * 1000


def payloads(effect: Effect, encoder: "AllocationEncoder") -> Iterable[Payload]:
    """The responses that tell an RM of an effect, each of one kind (spec § 1.6.8)."""
    match effect:
        case AllocationsMade():
            for made in _runs(effect.allocations):
                data = encoder.encode(effect.partition, made)
                yield Payload(Kind.ALLOCATIONS, "new", data, len(made))
        case ApplicationsUpdated():
            for updates in _runs(effect.updates):
                updated = si.ApplicationResponse(
                    updated=[
                        si.UpdatedApplication(
                            applicationID=update.app_id,
                            state=update.state,
                            stateTransitionTimestamp=nanoseconds(update.time),
                            message=update.message,
                        )
                        for update in updates
                    ]
                )
                yield _payload(Kind.APPLICATIONS, "updated", updated, len(updates))
        case ApplicationsAnswered():
            yield _applications_answered(effect)
        case NodesAnswered():
            yield _nodes_answered(effect)
        case AllocationsReleased():
            for releases in _runs(effect.releases):
                released = si.AllocationResponse(
                    released=[
                        si.AllocationRelease(
                            partitionName=effect.partition,
                            applicationID=release.app_id,
                            allocationKey=release.key,
                            terminationType=release.termination.value,  # type: ignore[arg-type]
                            message=release.message,
                        )
                        for release in releases
                    ]
                )
                yield _payload(Kind.ALLOCATIONS, "released", released, len(releases))
        case AllocationsRejected():
            for rejections in _runs(effect.rejections):
                rejected = si.AllocationResponse(
                    rejectedAllocations=[
                        si.RejectedAllocation(
                            allocationKey=rejection.key,
                            applicationID=rejection.app_id,
                            reason=rejection.reason,
                        )
                        for rejection in rejections
                    ]
                )
                yield _payload(Kind.ALLOCATIONS, "rejected", rejected, len(rejections))
        case ReplayEnded():
            result = ReplayResult(complete=not effect.missing, reason=effect.missing)
            data = delimited(UpdateResponse.REPLAY_RESULT_FIELD_NUMBER, result.SerializeToString())
            yield Payload(Kind.SESSION, "replay", data, 1)
        case _:
            pass


def _applications_answered(effect: ApplicationsAnswered) -> Payload:
    answer = si.ApplicationResponse(
        accepted=[si.AcceptedApplication(applicationID=app_id) for app_id in effect.accepted],
        rejected=[
            si.RejectedApplication(applicationID=rejection.app_id, reason=rejection.reason)
            for rejection in effect.rejected
        ],
    )
    count = len(effect.accepted) + len(effect.rejected)
    return _payload(Kind.APPLICATIONS, "answered", answer, count)


def _nodes_answered(effect: NodesAnswered) -> Payload:
    answer = si.NodeResponse(
        accepted=[si.AcceptedNode(nodeID=node_id) for node_id in effect.accepted],
        rejected=[
            si.RejectedNode(nodeID=rejection.node_id, reason=rejection.reason)
            for rejection in effect.rejected
        ],
    )
    return _payload(Kind.NODES, "nodes", answer, len(effect.accepted) + len(effect.rejected))


def _payload(kind: Kind, sort: str, message: Any, items: int) -> Payload:
    return Payload(kind, sort, message.SerializeToString(), items)


def _runs(items: Sequence[T]) -> Iterable[Sequence[T]]:
    if len(items) <= MAX_RESPONSE_ITEMS:
        return [items] if items else []
    return [
        items[begin : begin + MAX_RESPONSE_ITEMS]
        for begin in range(0, len(items), MAX_RESPONSE_ITEMS)
    ]


class AllocationEncoder:
    """Writes the allocations of one RM, keeping the pieces that repeat (spec § 1.6.9).

    Field numbers: key 1, resource 5, priority 6, node 8, application 9, partition 10, task
    group 11, placeholder 12, originator 14, preemption policy 15.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._classes: dict[tuple[AskClass, int], bytes] = {}
        self._nodes: dict[str, bytes] = {}
        self._apps: dict[str, bytes] = {}
        self._partitions: dict[str, bytes] = {}

    def encode(self, partition: str, allocations: Sequence[Allocation]) -> bytes:
        """An AllocationResponse with all of them as `new`."""
        classes = self._classes
        nodes = self._nodes
        apps = self._apps
        last = self._partitions.get(partition)
        if last is None:
            last = self._partitions[partition] = delimited(10, partition.encode())
        parts: list[bytes] = []
        for allocation in allocations:
            ask = allocation.ask
            what = classes.get((ask.ask_class, ask.priority))
            if what is None:
                what = self._keep(classes, (ask.ask_class, ask.priority), _class_piece(ask))
            node = nodes.get(allocation.node_id)
            if node is None:
                piece = delimited(8, allocation.node_id.encode())
                node = self._keep(nodes, allocation.node_id, piece)
            app = apps.get(ask.app_id)
            if app is None:
                app = self._keep(apps, ask.app_id, delimited(9, ask.app_id.encode()))
            key = ask.key.encode()
            rest = _rare_pieces(ask)
            size = len(key) + len(what) + len(node) + len(app) + len(last) + len(rest)
            if len(key) < 0x80:
                size += 2
                head = b"\n" + encode_varint(size) + b"\n" + _BYTES[len(key)]
            else:
                head = encode_varint(len(key))
                head = b"\n" + encode_varint(size + 1 + len(head)) + b"\n" + head
            parts += (head, key, what, node, app, last, rest)
        return b"".join(parts)

    @staticmethod
    def _keep(known: dict[Any, bytes], key: Any, piece: bytes) -> bytes:
        if len(known) >= _KEPT:
            known.clear()
        known[key] = piece
        return piece


_BYTES = [bytes((value,)) for value in range(0x80)]


def _text(number: int, value: str) -> bytes:
    return delimited(number, value.encode()) if value else b""


def _class_piece(ask: Ask) -> bytes:
    resource = si.Resource()
    for name, value in ask.ask_class.resources.items():
        resource.resources[name].value = value
    piece = delimited(5, resource.SerializeToString())
    return piece + (b"\x30" + encode_varint(ask.priority) if ask.priority else b"")


def _rare_pieces(ask: Ask) -> bytes:
    """What most asks do not have."""
    piece = b""
    if ask.task_group:
        piece += _text(11, ask.task_group)
    if ask.placeholder:
        piece += b"\x60\x01"
    if ask.originator:
        piece += b"\x70\x01"
    if ask.allow_preempt_self or ask.allow_preempt_other:
        policy = si.PreemptionPolicy(
            allowPreemptSelf=ask.allow_preempt_self, allowPreemptOther=ask.allow_preempt_other
        )
        piece += delimited(15, policy.SerializeToString())
    return piece

"""Encodes effects as `si.v1` responses.

Allocations are the hot output path. They are joined from pieces of bytes that are cached for each
application, ask class, node and partition. The result is identical to that of protobuf.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple, TypeVar, assert_never

from google.protobuf.message import Message

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import ReplayResult, UpdateResponse
from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    ApplicationUpdate,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    ExtensionEffect,
    Happened,
    NodesAnswered,
    NotRegistered,
    OperatorRefused,
    PredicatesAsked,
    PreemptionsAsked,
    Registered,
    RegistrationFailed,
    Release,
    ReplayEnded,
    Unfinished,
)
from licorne_core.values.asks import Allocation, Ask, Shape
from licorne_core.values.ids import PartitionName
from licorne_server.wire.bounded_cache import (
    APPLICATIONS_BYTES,
    ENTRY,
    NODES_BYTES,
    PIECES_BYTES,
    SHAPES_BYTES,
    WIDE,
    BoundedCache,
)
from licorne_server.wire.features import telling_of
from licorne_server.wire.framing import LENGTH, Envelope, delimited, encode_varint, open_envelope

MAX_RESPONSE_ITEMS = 1_000
MAX_RESPONSE_BYTES = 256 * 1024

K = TypeVar("K")
T = TypeVar("T")


class Kind(Enum):
    """The stream of `si.v1` to which a response belongs.

    CHECKS, VICTIMS and SESSION are for messages that only a session can carry: predicate checks, preemption
    checks, and all others.
    """

    NODES = "UpdateNode"
    APPLICATIONS = "UpdateApplication"
    ALLOCATIONS = "UpdateAllocation"
    CHECKS = "PredicateChecks"
    VICTIMS = "PreemptionChecks"
    SESSION = "Session.Update"


class Payload(NamedTuple):
    """A response in bytes."""

    kind: Kind
    sort: str
    """Name of the message type, which determines the kind; consecutive payloads of one sort may be joined."""
    data: bytes
    items: int
    last_check: int = 0
    """Number of the last predicate or preemption check in the response; 0 if there is none."""


def point_in_time(seconds: float) -> str:
    """Unix seconds in the format of RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


LAST_NANOSECOND: Final = 2**63 - 1
"""The latest time that a message can hold, in the year 2262. A declared runtime may end later."""


def nanoseconds(seconds: float) -> int:
    """Convert unix seconds, or a duration in seconds, to nanoseconds, precise to the microsecond.

    Later times become `LAST_NANOSECOND`.
    """
    return min(round(seconds * 1_000_000) * 1000, LAST_NANOSECOND)


def payloads(effect: Effect, encoder: "AllocationEncoder") -> Iterable[Payload]:
    """The responses for an effect, each of one kind (spec § 1.6.8)."""
    match effect:
        case AllocationsMade():
            return made(effect, encoder)
        case ApplicationsUpdated():
            return map(_updated, runs(effect.updates))
        case ApplicationsAnswered():
            return [_applications_answered(effect)]
        case NodesAnswered():
            return [_nodes_answered(effect)]
        case AllocationsReleased():
            return (_released(effect.partition, run) for run in runs(effect.releases))
        case AllocationsRejected():
            return map(_rejected, runs(effect.rejections))
        case ReplayEnded():
            return [_replay_ended(effect)]
        case ExtensionEffect():
            told = telling_of(effect)
            return () if told is None else told.payloads(effect)
        case (
            Registered()
            | RegistrationFailed()
            | ConfigurationUpdated()
            | ConfigurationRefused()
            | NotRegistered()
            | OperatorRefused()
            | Happened()
            | PredicatesAsked()
            | PreemptionsAsked()
            | Unfinished()
        ):
            # The engine returns outcomes of registrations, configurations and operators' commands to its
            # caller, and keeps the remainder of a command. Facts are published as events. Checks have
            # separate encoders.
            return ()
        case _:
            assert_never(effect)


def made(effect: AllocationsMade, encoder: "AllocationEncoder") -> list[Payload]:
    """The responses for allocations."""
    found = []
    for run in runs(effect.allocations):
        data = encoder.encode(effect.partition, run)
        found.append(Payload(Kind.ALLOCATIONS, "new", data, len(run)))
    return found


def _updated(updates: Sequence[ApplicationUpdate]) -> Payload:
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
    return _payload(Kind.APPLICATIONS, "updated", updated, len(updates))


def _released(partition: PartitionName, releases: Sequence[Release]) -> Payload:
    released = si.AllocationResponse(
        released=[
            si.AllocationRelease(
                partitionName=partition,
                applicationID=release.app_id,
                allocationKey=release.key,
                terminationType=release.termination.value,  # type: ignore[arg-type]
                message=release.message,
            )
            for release in releases
        ]
    )
    return _payload(Kind.ALLOCATIONS, "released", released, len(releases))


def _rejected(rejections: Sequence[AllocationRejection]) -> Payload:
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
    return _payload(Kind.ALLOCATIONS, "rejected", rejected, len(rejections))


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


def _replay_ended(effect: ReplayEnded) -> Payload:
    result = ReplayResult(complete=not effect.missing, reason=effect.missing)
    return session_payload("replay", UpdateResponse.REPLAY_RESULT_FIELD_NUMBER, result, 1)


def session_payload(sort: str, field: int, message: Message, items: int) -> Payload:
    """A response that only a session can carry, encoded as a field of its UpdateResponse."""
    return Payload(Kind.SESSION, sort, delimited(field, message.SerializeToString()), items)


def _payload(kind: Kind, sort: str, message: Message, items: int) -> Payload:
    return Payload(kind, sort, message.SerializeToString(), items)


def runs(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """The items in order, split so that each part fits into one response."""
    if len(items) <= MAX_RESPONSE_ITEMS:
        return [items] if items else []
    return [items[begin : begin + MAX_RESPONSE_ITEMS] for begin in range(0, len(items), MAX_RESPONSE_ITEMS)]


class Pieces:
    """A cache of encoded text fields."""

    __slots__ = ("_cache",)

    def __init__(self, most: int) -> None:
        """Start empty, with a bound of `most` bytes."""
        self._cache: BoundedCache[tuple[int, str], bytes] = BoundedCache(most)

    def of(self, field: int, text: str) -> bytes:
        """The field with this number and text."""
        piece = self._cache.entries.get((field, text))
        return _added(self._cache, (field, text), field, text) if piece is None else piece


class AllocationEncoder:
    """Encodes the allocations of one RM, and caches repeated pieces (spec § 1.6.9).

    Field numbers: key 1, resource 5, priority 6, node 8, application 9, partition 10, task
    group 11, placeholder 12, originator 14, preemption policy 15.
    """

    def __init__(self) -> None:
        """Start with empty caches."""
        self._classes: BoundedCache[tuple[Shape, int], bytes] = BoundedCache(SHAPES_BYTES)
        self._nodes: BoundedCache[str, bytes] = BoundedCache(NODES_BYTES)
        self._apps: BoundedCache[str, bytes] = BoundedCache(APPLICATIONS_BYTES)
        self._pieces = Pieces(PIECES_BYTES)

    def encode(self, partition: str, allocations: Sequence[Allocation]) -> bytes:
        """An AllocationResponse with all these allocations in `new`."""
        classes = self._classes.entries
        nodes = self._nodes.entries
        apps = self._apps.entries
        last = self._pieces.of(10, partition)
        parts: list[bytes] = []
        for allocation in allocations:
            ask = allocation.ask
            what = classes.get((ask.ask_class.shape, ask.priority))
            if what is None:
                what = self._class(ask)
            node = nodes.get(allocation.node_id)
            if node is None:
                node = _added(self._nodes, allocation.node_id, 8, allocation.node_id)
            app = apps.get(ask.app_id)
            if app is None:
                app = _added(self._apps, ask.app_id, 9, ask.app_id)
            key = ask.key.encode()
            rest = self._pieces.of(11, ask.task_group) if ask.task_group else b""
            preempts = ask.allow_preempt_self or ask.allow_preempt_other
            if preempts or ask.placeholder or ask.originator:
                rest += _rare_pieces(ask)
            size = len(key) + len(what) + len(node) + len(app) + len(last) + len(rest)
            if len(key) < 0x80:
                size += 2
                head = b"\n" + encode_varint(size) + b"\n" + _BYTES[len(key)]
            else:
                head = encode_varint(len(key))
                head = b"\n" + encode_varint(size + 1 + len(head)) + b"\n" + head
            parts += (head, key, what, node, app, last, rest)
        return b"".join(parts)

    def _class(self, ask: Ask) -> bytes:
        """The piece of an ask's class and priority, cached without the class's predicate.

        With predicates there may be a class for each ask, and they are encoded alike.
        """
        key = (ask.ask_class.shape, ask.priority)
        piece = self._classes.entries.get(key)
        if piece is None:
            piece = _class_piece(ask)
            amounts = len(ask.ask_class.items)
            piece = self._classes.put(key, piece, 2 * len(piece) + ENTRY * amounts)
        return piece


def _added(cache: BoundedCache[K, bytes], key: K, field: int, text: str) -> bytes:
    """Encode the field with a text, and add it to the cache."""
    piece = delimited(field, text.encode())
    return cache.put(key, piece, len(piece) + WIDE * len(text))


_BYTES = [bytes((value,)) for value in range(0x80)]


def _class_piece(ask: Ask) -> bytes:
    resource = si.Resource()
    for name, value in ask.ask_class.resources.items():
        resource.resources[name].value = value
    piece = delimited(5, resource.SerializeToString())
    return piece + (b"\x30" + encode_varint(ask.priority) if ask.priority else b"")


def _rare_pieces(ask: Ask) -> bytes:
    """The fields after the task group, most of which are empty."""
    piece = b""
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


_RESPONSE_TAGS = {
    kind: encode_varint(field << 3 | LENGTH)
    for kind, field in (
        (Kind.NODES, UpdateResponse.NODES_FIELD_NUMBER),
        (Kind.APPLICATIONS, UpdateResponse.APPLICATIONS_FIELD_NUMBER),
        (Kind.ALLOCATIONS, UpdateResponse.ALLOCATIONS_FIELD_NUMBER),
        (Kind.CHECKS, UpdateResponse.PREDICATE_CHECKS_FIELD_NUMBER),
        (Kind.VICTIMS, UpdateResponse.PREEMPTION_CHECKS_FIELD_NUMBER),
    )
}
"""For each kind, the tag of the field of a response that is not yet encoded as a field."""


class Framing:
    """How the messages of a stream hold requests and responses: bare, as on the streams of `si.v1`."""

    kinds: tuple[Kind, ...]
    """Kinds of the responses that are sent on the stream."""
    numbered: bool
    """True if both sides number and acknowledge messages. Otherwise a written message counts as received."""

    def __init__(self, kinds: tuple[Kind, ...], field: int, *, numbered: bool = False) -> None:
        """Each message from the RM is the bare request that has the number `field` in an UpdateRequest."""
        self.kinds = kinds
        self.numbered = numbered
        self._field = field

    def open(self, raw: bytes) -> Envelope:
        """Unpack the request in a message of the RM."""
        return 0, 0, self._field, raw

    def seal(self, kind: Kind, data: bytes, *, number: int, acknowledged: int) -> bytes:
        """Wrap a response into a message; each number is 0 if there is none."""
        return data


class Envelopes(Framing):
    """The framing of a session, in which both sides send envelopes."""

    def __init__(self, epoch: int, session: int) -> None:
        """Every response has the epoch and the number of the registration (`session`)."""
        super().__init__(tuple(Kind), 0, numbered=True)
        self._stamp = b"\x10" + encode_varint(epoch) + b"\x18" + encode_varint(session)

    def open(self, raw: bytes) -> Envelope:
        """See `open_envelope`."""
        return open_envelope(raw)

    def seal(self, kind: Kind, data: bytes, *, number: int, acknowledged: int) -> bytes:
        """Wrap `data` into an UpdateResponse; for the kind SESSION `data` is already one of its fields."""
        head = self._stamp
        if number:
            head = b"\x08" + encode_varint(number) + head
        if acknowledged:
            head += b"\x20" + encode_varint(acknowledged)
        tag = _RESPONSE_TAGS.get(kind)
        return head + data if tag is None else head + tag + encode_varint(len(data)) + data

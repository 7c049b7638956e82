"""Asks from the wire: the hot input path, on which a million asks must be cheap.

Most asks differ only in their key, which is the first field on the wire. So the bytes after the key are
parsed once, and all asks with equal bytes share the result.

Tags of an ask may give its trace context, in the format of the W3C recommendation *Trace Context*.
"""

from collections.abc import Mapping, Sized
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import structlog
from google.protobuf.message import DecodeError

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.values.asks import NO_TAGS, Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId
from licorne_core.values.rm_caps import ENTRY_BYTES, footprint_of
from licorne_server.wire.bounded_cache import (
    CLASSES_BYTES,
    ENTRY,
    EQUALS_BYTES,
    KINDS_BYTES,
    NAMES_BYTES,
    WIDE,
    BoundedCache,
)
from licorne_server.wire.caps import (
    MAX_ANNOTATION,
    MAX_CLASS_TAGS,
    MAX_ID,
    MAX_TYPES,
    id_problem,
    map_problem,
    text_problem,
)
from licorne_server.wire.errors import Malformed
from licorne_server.wire.items import BadItem, Large, Layout, check, parse, read_texts, without_entries

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
"""Names of these texts in the metadata of a call."""

TAG = f"licorne/{TRACEPARENT}"
STATE_TAG = f"licorne/{TRACESTATE}"
"""Names of the tags that have the same meaning for a single ask."""

MAX_STATE = 512
"""Maximum number of characters of a tracestate; a longer one is ignored."""

_LENGTH = len("00-") + 32 + len("-") + 16 + len("-00")
_DASHES = (2, 35, 52)
_HEX = frozenset("0123456789abcdef")


class TraceContext(NamedTuple):
    """A span of a caller."""

    trace_id: int
    span_id: int
    sampled: bool
    """True if the caller samples this trace."""
    state: str = ""
    """State of tracing tools, which is passed on."""


def read_context(parent: str, state: str = "") -> TraceContext | None:
    """The context in a ``traceparent`` and its ``tracestate``; None if the first is invalid.

    An unknown version is read as far as its format agrees with version 00.
    """
    head = parent[:_LENGTH]
    if len(head) < _LENGTH or any(head[place] != "-" for place in _DASHES):
        return None
    fields = head.split("-")
    if len(fields) != 4 or not all(_HEX.issuperset(field) for field in fields):
        return None
    version, trace_id, span_id, flags = (int(field, 16) for field in fields)
    more = parent[_LENGTH:]
    if version == 0xFF or not trace_id or not span_id:
        return None
    if more and (version == 0 or more[0] != "-"):
        return None
    return TraceContext(trace_id, span_id, bool(flags & 1), state if len(state) <= MAX_STATE else "")


log = structlog.get_logger("core.convert_asks")

_KEY_TAG = 0x0A
_CACHED_BYTES = 2048
"""Number of bytes above which an ask is not cached."""

_READ_BYTES = 400
"""Estimated bytes of memory of an ask or an ask class, without its texts, tags and amounts."""

PLAIN_AMOUNTS = 8
"""Number of amounts included in the estimated size of a plain ask."""

CREATION_TIME = "creationtime"
REQUIRED_NODE = "yunikorn.apache.org/requirednode"
FOREIGN = "foreign"
PREDICATE_CLASS = "licorne/predicate-class"
OWN_TAGS = frozenset({CREATION_TIME, "kubernetes.io/meta/podname", TAG, STATE_TAG})
"""Tags that usually differ between asks, in lower case: asks that differ only in these share answers."""

ASK = Layout(
    "allocation",
    si.Allocation,
    {
        si.Allocation.ALLOCATIONKEY_FIELD_NUMBER: MAX_ID,
        si.Allocation.APPLICATIONID_FIELD_NUMBER: MAX_ANNOTATION,
        si.Allocation.NODEID_FIELD_NUMBER: MAX_ID,
    },
    texts="allocationTags",
    nested=(si.Allocation.RESOURCEPERALLOC_FIELD_NUMBER,),
    counted=si.Allocation.NODEID_FIELD_NUMBER,
    meant=frozenset({CREATION_TIME, REQUIRED_NODE, FOREIGN, PREDICATE_CLASS}),
)

_NO_POLICY = si.PreemptionPolicy()


def read_resources(field: str, resource: si.Resource) -> dict[str, int]:
    """The amounts by name.

    Raises:
        BadItem: there are more amounts than a partition can have, or a name is invalid.
    """
    resources = resource.resources
    check(map_problem(field, len(resources), MAX_TYPES))
    for name in resources:
        check(id_problem(f"{field} name", name))
    return {name: resources[name].value for name in sorted(resources)}


class AskReader:
    """Reads the asks of one RM, and caches their common parts."""

    rm_id: RmId
    time: float
    """Arrival time of the asks that are being read, in unix seconds; 0 if it is not measured."""

    def __init__(self, rm_id: str) -> None:
        """Start with empty caches. `rm_id` is the RM of the asks."""
        self.rm_id = RmId(rm_id)
        self.time = 0.0
        # The last ask, by the bytes after its key.
        self._kinds: BoundedCache[bytes, Ask] = BoundedCache(KINDS_BYTES)
        self._known = self._kinds.entries
        # Ask classes by the bytes of the resources, the required node and the predicate.
        self._classes: BoundedCache[tuple[bytes, str, str | None], AskClass] = BoundedCache(CLASSES_BYTES)
        # The single object for all equal classes, whatever their bytes.
        self._same: BoundedCache[AskClass, AskClass] = BoundedCache(EQUALS_BYTES)
        # The single object for all equal names.
        self._names: BoundedCache[str, str] = BoundedCache(NAMES_BYTES)

    def read(self, raw: bytes) -> Ask:
        """One ask or existing allocation (spec § 1.2) from its bytes.

        Raises:
            BadItem: the ask exceeds a cap, or lacks a key or an application.
            Malformed: the bytes are no Allocation.
        """
        if len(raw) < 2 or raw[0] != _KEY_TAG or raw[1] >= 0x80 or len(raw) < raw[1] + 2:
            return self._read(raw)
        end = raw[1] + 2
        kind = self._known.get(raw[end:])
        if kind is None:
            return self._read(raw)
        try:
            key = raw[2:end].decode()
        except UnicodeDecodeError:
            raise Malformed("allocationKey is not UTF-8") from None
        if not key or not key.isprintable():
            check(id_problem("allocationKey", key))
        return Ask(
            AllocationKey(key),
            kind.app_id,
            kind.ask_class,
            kind.priority,
            kind.create_time,
            kind.node_id,
            kind.partition,
            kind.originator,
            kind.allow_preempt_self,
            kind.allow_preempt_other,
            kind.placeholder,
            kind.task_group,
            kind.tags,
            kind.footprint,
            self.time,
        )

    def _read(self, raw: bytes) -> Ask:
        """Parse an ask.

        A running allocation must be counted on its node. So if it cannot be accepted with all its tags, it is
        accepted without tags that only describe it.
        """
        try:
            return self._parse(raw)
        except BadItem as problem:
            return self._without_tags(without_entries(raw, ASK), problem)

    def read_large(self, large: Large) -> Ask:
        """Read an ask, as `read` does, from a large item that was split."""
        try:
            check(large.problem)
            wire = parse(si.Allocation, large.light)
            check(id_problem("allocationKey", wire.allocationKey))
            return self._made_from(wire, large.texts, large.meant)
        except BadItem as problem:
            if not large.light:
                raise
            return self._without_tags(large.lighter, problem)

    def _without_tags(self, raw: bytes, problem: BadItem) -> Ask:
        ask = self._parse(raw)
        if ask.node_id is None:
            raise problem
        about = {"rm_id": self.rm_id, "key": ask.key, "application": ask.app_id}
        log.warning("allocation taken without its tags", **about, reason=str(problem))
        return ask

    def _parse(self, raw: bytes) -> Ask:
        """Parse an ask, and cache it by the bytes after its key."""
        try:
            wire = si.Allocation.FromString(raw)
        except DecodeError as error:
            raise Malformed(str(error)) from None
        check(id_problem("allocationKey", wire.allocationKey))
        tags: Mapping[str, str] = NO_TAGS
        if len(wire.allocationTags):
            tags = read_texts(ASK.texts, wire.allocationTags)
        ask = self._made_from(wire, tags, tags)
        # If a key is not first, or is repeated, the bytes after it do not identify the rest of the ask.
        head = ask.key.encode()
        prefix = bytes((_KEY_TAG, len(head))) + head if len(head) < 0x80 else None
        if prefix is not None and len(raw) <= _CACHED_BYTES and raw.startswith(prefix):
            rest = raw[len(prefix) :]
            if not rest.startswith(b"\x0a"):
                self._kinds.put(rest, ask, _size(rest, tags))
        return ask

    def _made_from(self, wire: si.Allocation, tags: Mapping[str, str], meant: Mapping[str, str]) -> Ask:
        """The ask; `meant` contains at least those tags that have a meaning for the server."""
        app_id = wire.applicationID
        create_time, required, foreign, opinion = None, "", False, None
        for name, value in meant.items():
            match name.lower():
                case "creationtime":
                    create_time = _unix_seconds(value)
                case "yunikorn.apache.org/requirednode":
                    required = self._name("required node", value)
                case "foreign":
                    foreign = True
                case "licorne/predicate-class":
                    opinion = self._name(PREDICATE_CLASS, value)
        if not app_id and not foreign:
            raise BadItem("applicationID is empty")
        policy = wire.preemptionPolicy if wire.HasField("preemptionPolicy") else _NO_POLICY
        ask_class = self._class(
            wire.resourcePerAlloc.SerializeToString(), required, self._predicate(opinion, tags)
        )
        return Ask(
            AllocationKey(wire.allocationKey),
            AppId(self._name("applicationID", app_id, MAX_ANNOTATION)),
            ask_class,
            wire.priority,
            create_time,
            NodeId(self._name("nodeID", wire.nodeID)) or None,
            self._name("partitionName", wire.partitionName),
            wire.originator,
            policy.allowPreemptSelf,
            policy.allowPreemptOther,
            wire.placeholder,
            self._task_group(wire),
            tags,
            _footprint(wire, ask_class, tags),
            self.time,
        )

    def _name(self, field: str, value: str, limit: int = MAX_ID) -> str:
        """The shared object for a name, which is validated at its first use."""
        known = self._names.entries.get(value)
        if known is None:
            check(text_problem(field, value, limit))
            if len(value) > MAX_ID:
                return value
            known = self._names.put(value, value, WIDE * len(value))
        return known

    def _task_group(self, wire: si.Allocation) -> str:
        """The name of the task group; empty if it is invalid and the allocation has to be counted anyway."""
        try:
            return self._name("taskGroupName", wire.taskGroupName, MAX_ANNOTATION)
        except BadItem:
            if not wire.nodeID:
                raise
            return ""

    def _predicate(self, opinion: str | None, tags: Mapping[str, str]) -> str | None:
        """The key of asks that share the RM's answers; None for an RM that gets no checks.

        `opinion` is the value of the ask's predicate tag; None without the tag.
        """
        return None

    def _class(self, raw: bytes, required: str, predicate: str | None) -> AskClass:
        """The single object for all asks of the class."""
        known = self._classes.entries.get((raw, required, predicate))
        if known is None:
            amounts = read_resources("resourcePerAlloc", si.Resource.FromString(raw))
            made = AskClass.of(amounts, NodeId(required) if required else None, predicate)
            if len(raw) > _CACHED_BYTES:
                return made
            size = _size(raw, amounts) + WIDE * (len(required) + len(predicate or ""))
            same = self._same.entries.get(made) or self._same.put(made, made, size)
            known = self._classes.put((raw, required, predicate), same, size)
        return known


class AskingReader(AskReader):
    """Reader of asks for an RM with predicate checks (spec § 8.4).

    `class_by` determines which asks share the RM's answers. With `BY_ASK`, asks with an equal predicate tag
    do; an ask without the tag shares with no other. `BY_TAG` is the same, except that asks without the tag
    share with each other. With `BY_ALL_TAGS`, asks share if all their tags except `OWN_TAGS` are equal.
    """

    def __init__(self, rm_id: str, class_by: sp.ClassBy.ValueType) -> None:
        """Start with empty caches."""
        super().__init__(rm_id)
        self._class_by = class_by

    def read(self, raw: bytes) -> Ask:
        """Read an ask; an ask that shares answers with no other gets a unique key."""
        return self._distinct(super().read(raw))

    def read_large(self, large: Large) -> Ask:
        """Read a large ask; an ask that shares answers with no other gets a unique key."""
        return self._distinct(super().read_large(large))

    @staticmethod
    def _distinct(ask: Ask) -> Ask:
        if ask.ask_class.predicate is None:
            # Ids contain no line feeds, so no two asks have the same text.
            predicate = f"ask\n{ask.app_id}\n{ask.key}"
            ask.ask_class = AskClass(ask.ask_class.shape, predicate)
        return ask

    def _read(self, raw: bytes) -> Ask:
        """Parse a copy: `read` changes its class, and the cached ask must not change."""
        return replace(super()._read(raw))

    def _predicate(self, opinion: str | None, tags: Mapping[str, str]) -> str | None:
        if self._class_by == sp.BY_ALL_TAGS:
            if len(tags) > MAX_CLASS_TAGS:
                return None
            return f"tags\n{_digest(tags)}"
        if opinion is None and self._class_by == sp.BY_ASK:
            return None
        return f"class\n{opinion or ''}"


def _digest(tags: Mapping[str, str]) -> str:
    """A short text that is equal for equal tags, whatever their order."""
    known = sorted((name, value) for name, value in tags.items() if name.lower() not in OWN_TAGS)
    return sha256(repr(known).encode()).hexdigest()


def _footprint(wire: si.Allocation, ask_class: AskClass, tags: Mapping[str, str]) -> int:
    """Bytes of memory of an ask in addition to a plain ask, as estimated by the core."""
    amounts = ENTRY_BYTES * max(0, len(ask_class.items) - PLAIN_AMOUNTS)
    names = max(0, len(wire.applicationID) + len(wire.taskGroupName) - MAX_ID)
    return footprint_of(tags) + amounts + names


def _size(raw: bytes, entries: Sized) -> int:
    """Estimated bytes of memory for an object read from these bytes, with its entries."""
    return _READ_BYTES + WIDE * len(raw) + ENTRY * len(entries)


def _unix_seconds(text: str) -> float | None:
    """The time in a tag; None for any other text, as in the older core."""
    if not text.isdecimal() or not text.isascii() or len(text) > 12:
        return None
    return float(text)

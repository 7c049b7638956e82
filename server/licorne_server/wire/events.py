"""Encodings of events: bytes of `si.v1` and `licorne.v1`, and lines of JSON.

Many events are encoded at once, and most are similar. So their bytes are joined from pieces, some of which
are cached. The result is identical to that of protobuf.
"""

import json
from json.encoder import encode_basestring_ascii as _quoted

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateResponse
from licorne.v1.state_pb2 import WatchEventsResponse
from licorne_core.messages.events.records import EventRecord, EventType
from licorne_core.values.resources import Resources, clamp
from licorne_server.wire.bounded_cache import ENTRY, RESOURCES_BYTES, WIDE, BoundedCache
from licorne_server.wire.framing import LENGTH, delimited, encode_varint
from licorne_server.wire.responses import nanoseconds

_json = json.JSONEncoder(separators=(",", ":")).encode


def record_bytes(record: EventRecord) -> bytes:
    """Encode an EventRecord of `si.v1`."""
    parts: list[bytes] = []
    _add_record(parts, record)
    return b"".join(parts)


def record_message(record: EventRecord) -> si.EventRecord:
    """An EventRecord of `si.v1` as a message."""
    return si.EventRecord.FromString(record_bytes(record))


def event_of_watch(event_id: int, record: EventRecord) -> bytes:
    """Encode an event as a field of a WatchEventsResponse: its id in field 1, its record in 2."""
    number = _IDS.piece(event_id)
    parts = [b"", number, b""]
    size = _add_record(parts, record)
    parts[2] = _head(_SUBJECTS, size)
    parts[0] = _head(_SUBJECTS, len(number) + len(parts[2]) + size)
    return b"".join(parts)


def watch_response(instance: str, events: bytes) -> bytes:
    """Encode a WatchEventsResponse; `events` are joined results of `event_of_watch`."""
    return delimited(WatchEventsResponse.INSTANCE_FIELD_NUMBER, instance.encode()) + events


def record_of_session(_: int, record: EventRecord) -> bytes:
    """Encode a record as a field of a session's Events."""
    parts = [b""]
    parts[0] = _head(_SUBJECTS, _add_record(parts, record))
    return b"".join(parts)


def session_events(first_id: int, records: bytes) -> bytes:
    """Encode a session's Events as a field of UpdateResponse; `records` are from `record_of_session`."""
    return delimited(UpdateResponse.EVENTS_FIELD_NUMBER, _IDS.piece(first_id) + records)


def record_json(record: EventRecord) -> dict[str, object]:
    """An event in REST (spec § 12.2): enums as numbers, empty fields included."""
    resources = {name: {"value": clamp(value)} for name, value in record.resource.items()}
    return {
        "type": record.type.value,
        "objectID": record.object_id,
        "referenceID": record.reference_id,
        "message": record.message,
        "timestampNano": nanoseconds(record.time),
        "eventChangeType": record.change.value,
        "eventChangeDetail": record.detail.value,
        "resource": {"resources": resources},
    }


def record_line(_: int, record: EventRecord) -> bytes:
    """An event as a line of JSON: the same as `record_json` in one line."""
    line = (
        f'{{"type":{record.type._value_},"objectID":{_quoted(record.object_id)},'
        f'"referenceID":{_quoted(record.reference_id)},"message":{_quoted(record.message)},'
        f'"timestampNano":{_TIMES.of(record.time).text},'
        f'"eventChangeType":{record.change._value_},"eventChangeDetail":{record.detail._value_},'
        f'"resource":{_RESOURCES.of(record.resource).text}}}\n'
    )
    return line.encode()


def _add_record(parts: list[bytes], record: EventRecord) -> int:
    """Append the pieces of an EventRecord of `si.v1`; returns their size in bytes.

    Field numbers: type 1, object 2, message 5, time 6, change 7, detail 8, reference 9,
    resource 10.
    """
    # `_value_` is a plain attribute, and faster than the property `value`.
    kind = _KINDS[record.type._value_]
    time = _TIMES.of(record.time).piece
    change = _change_piece(record.change._value_, record.detail._value_)
    parts.append(kind)
    size = len(kind) + len(time) + len(change) + _add_text(parts, _SUBJECTS, record.object_id)
    if record.message:
        size += _add_text(parts, _MESSAGES, record.message)
    parts.append(time)
    parts.append(change)
    if record.reference_id:
        size += _add_text(parts, _REFERENCES, record.reference_id)
    if record.resource:
        amounts = _RESOURCES.of(record.resource).piece
        parts.append(amounts)
        size += len(amounts)
    return size


def _add_text(parts: list[bytes], heads: list[bytes], text: str) -> int:
    raw = text.encode()
    head = _head(heads, len(raw))
    parts.append(head)
    parts.append(raw)
    return len(head) + len(raw)


def _head(heads: list[bytes], size: int) -> bytes:
    """The tag of a field and the size of its contents."""
    return heads[size] if size < len(heads) else heads[0][:1] + encode_varint(size)


def _heads(number: int) -> list[bytes]:
    """The tag of a field with each size that fits into one byte."""
    return [bytes((number << 3 | LENGTH, size)) for size in range(0x80)]


_SUBJECTS = _heads(2)
_MESSAGES = _heads(5)
_REFERENCES = _heads(9)
_KINDS = [b"", *(b"\x08" + encode_varint(kind.value) for kind in EventType)]
_CHANGES: dict[int, bytes] = {}


def _change_piece(change: int, detail: int) -> bytes:
    """Change and detail in fields 7 and 8; there are as many such pieces as kinds of events."""
    key = detail << 2 | change
    piece = _CHANGES.get(key)
    if piece is None:
        message = si.EventRecord(
            eventChangeType=change,  # type: ignore[arg-type]
            eventChangeDetail=detail,  # type: ignore[arg-type]
        )
        piece = _CHANGES[key] = message.SerializeToString()
    return piece


class _Both:
    """A part of an event in both forms: bytes of `si.v1`, and JSON."""

    __slots__ = ("piece", "text")

    def __init__(self, piece: bytes, text: str) -> None:
        self.piece = piece
        self.text = text


class _Ids:
    """Ids in field 1. Consecutive ids mostly differ only in their first byte."""

    __slots__ = ("_high", "_rest")

    def __init__(self) -> None:
        self._high = 0
        self._rest = b"\x00"

    def piece(self, event_id: int) -> bytes:
        """The field with an event's id; empty for 0, which proto3 omits."""
        if event_id < 0x80:
            return b"\x08" + encode_varint(event_id) if event_id else b""
        high = event_id >> 7
        if high != self._high:
            self._rest = encode_varint(high)
            self._high = high
        return _LOW[event_id & 0x7F] + self._rest


_LOW = [bytes((0x08, low | 0x80)) for low in range(0x80)]


class _Times:
    """The time in field 6. All events of one turn have the same time, so the last time is cached."""

    __slots__ = ("_last", "_written")

    def __init__(self) -> None:
        self._last = -1.0
        self._written = _Both(b"", "")

    def of(self, time: float) -> _Both:
        """The field with an event's time, in unix seconds."""
        if time != self._last:
            exact = nanoseconds(time)
            self._written = _Both(b"\x30" + encode_varint(exact), str(exact))
            self._last = time
        return self._written


class _Amounts:
    """The resource in field 10, cached by its amounts."""

    __slots__ = ("_by_value",)

    def __init__(self) -> None:
        # The bound is in bytes, not in entries, because a resource may have thousands of long names.
        self._by_value: BoundedCache[tuple[tuple[str, int], ...], _Both] = BoundedCache(RESOURCES_BYTES)

    def of(self, resources: Resources) -> _Both:
        """The field with an event's resources."""
        items = tuple(resources.items())
        known = self._by_value.entries.get(items)
        if known is not None:
            return known
        message = si.Resource()
        for name, value in items:
            message.resources[name].value = clamp(value)
        amounts = {name: {"value": clamp(value)} for name, value in items}
        written = _Both(delimited(10, message.SerializeToString()), _json({"resources": amounts}))
        size = WIDE * len(written.piece) + len(written.text) + ENTRY * len(items)
        return self._by_value.put(items, written, size)


_IDS = _Ids()
_TIMES = _Times()
_RESOURCES = _Amounts()

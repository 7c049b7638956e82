"""Events in the forms in which they are read: bytes of `si.v1` and `licorne.v1`, lines of JSON.

Many events are written at once, and most look alike. So their bytes are joined from pieces, some
of which are remembered. The result is byte for byte what protobuf would have written.
"""

import json
from functools import lru_cache

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateResponse
from licorne.v1.state_pb2 import WatchEventsResponse
from licorne_core.events import EventRecord
from licorne_core.resources import clamp
from licorne_server.convert_out import nanoseconds
from licorne_server.remembered import ENTRY, RESOURCES_BYTES, WIDE, Remembered
from licorne_server.wire import delimited, encode_varint

_KEPT = 4096
"""Small pieces of each kind that are remembered: numbers and times."""

_line = json.JSONEncoder(separators=(",", ":")).encode


def record_bytes(record: EventRecord) -> bytes:
    """An EventRecord of `si.v1`.

    Field numbers: type 1, object 2, message 5, time 6, change 7, detail 8, reference 9,
    resource 10.
    """
    return b"".join(
        (
            # `_value_` is an attribute; `value` is a call, and costs more than the whole line.
            _type_piece(record.type._value_),
            _piece(b"\x12", record.object_id.encode()),
            _piece(b"\x2a", record.message.encode()) if record.message else b"",
            _time_piece(record.time),
            _change_piece(record.change._value_, record.detail._value_),
            _piece(b"\x4a", record.reference_id.encode()) if record.reference_id else b"",
            _resource_piece(tuple(record.resource.items())) if record.resource else b"",
        )
    )


def record_message(record: EventRecord) -> si.EventRecord:
    """An EventRecord of `si.v1` as a message."""
    return si.EventRecord.FromString(record_bytes(record))


def event_of_watch(event_id: int, record: EventRecord) -> bytes:
    """An event as a field of a WatchEventsResponse: its id in field 1, its record in 2."""
    return _piece(b"\x12", _id_piece(event_id) + _piece(b"\x12", record_bytes(record)))


def watch_response(instance: str, events: bytes) -> bytes:
    """A WatchEventsResponse; the events are in the form of `event_of_watch`."""
    return delimited(WatchEventsResponse.INSTANCE_FIELD_NUMBER, instance.encode()) + events


def record_of_session(_: int, record: EventRecord) -> bytes:
    """A record as a field of a session's Events."""
    return _piece(b"\x12", record_bytes(record))


def session_events(first_id: int, records: bytes) -> bytes:
    """A session's Events, with records of `record_of_session`, as a field of its UpdateResponse."""
    return delimited(UpdateResponse.EVENTS_FIELD_NUMBER, _id_piece(first_id) + records)


def record_json(record: EventRecord) -> dict[str, object]:
    """An event as REST shows it (spec § 12.2): enums as numbers, empty fields included."""
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
    """An event as a line of JSON."""
    return _line(record_json(record)).encode() + b"\n"


def _id_piece(event_id: int) -> bytes:
    """An id in field 1; proto3 leaves out a 0."""
    return b"\x08" + encode_varint(event_id) if event_id else b""


def _piece(tag: bytes, raw: bytes) -> bytes:
    size = len(raw)
    return tag + (_SIZES[size] if size < 0x80 else encode_varint(size)) + raw


_SIZES = [bytes((size,)) for size in range(0x80)]


@lru_cache(_KEPT)
def _type_piece(kind: int) -> bytes:
    return b"\x08" + encode_varint(kind)


@lru_cache(_KEPT)
def _time_piece(time: float) -> bytes:
    """The time in field 6. All events of one turn have the same, so it is remembered."""
    return b"\x30" + encode_varint(nanoseconds(time))


@lru_cache(_KEPT)
def _change_piece(change: int, detail: int) -> bytes:
    message = si.EventRecord(
        eventChangeType=change,  # type: ignore[arg-type]
        eventChangeDetail=detail,  # type: ignore[arg-type]
    )
    return message.SerializeToString()


_Amounts = tuple[tuple[str, int], ...]

# Bounded by bytes and not by number: a resource may have thousands of long names.
_RESOURCES: Remembered[_Amounts, bytes] = Remembered(RESOURCES_BYTES)


def _resource_piece(items: _Amounts) -> bytes:
    known = _RESOURCES.entries.get(items)
    if known is not None:
        return known
    resource = si.Resource()
    for name, value in items:
        resource.resources[name].value = clamp(value)
    piece = delimited(10, resource.SerializeToString())
    size = WIDE * len(piece) + ENTRY * len(items)
    return _RESOURCES.keep(items, piece, size)

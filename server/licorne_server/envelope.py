"""The outer messages of `licorne.v1.Session`, which number and acknowledge.

The request or response inside is kept as bytes, and not parsed here.
"""

from typing import NamedTuple

from licorne.v1.session_pb2 import UpdateRequest, UpdateResponse
from licorne_server.caps import MAX_UPDATE_FIELDS
from licorne_server.convert_out import Kind
from licorne_server.errors import Malformed
from licorne_server.wire import LENGTH, VARINT, delimited, encode_varint, fields, varint

NUMBER = UpdateRequest.NUMBER_FIELD_NUMBER
ACKNOWLEDGED = UpdateRequest.ACKNOWLEDGED_FIELD_NUMBER
_LAST_MESSAGE = UpdateRequest.PREEMPTION_ANSWERS_FIELD_NUMBER
_RESPONSE_FIELDS = {
    Kind.NODES: UpdateResponse.NODES_FIELD_NUMBER,
    Kind.APPLICATIONS: UpdateResponse.APPLICATIONS_FIELD_NUMBER,
    Kind.ALLOCATIONS: UpdateResponse.ALLOCATIONS_FIELD_NUMBER,
    Kind.CHECKS: UpdateResponse.PREDICATE_CHECKS_FIELD_NUMBER,
    Kind.VICTIMS: UpdateResponse.PREEMPTION_CHECKS_FIELD_NUMBER,
}


class Envelope(NamedTuple):
    """One UpdateRequest."""

    number: int
    """Its number; 0 for none."""
    acknowledged: int
    """Number of the last response that the RM has dealt with."""
    message: int
    """The field number of the message inside; 0 for none."""
    payload: bytes
    """The bytes of that message."""


def open_envelope(raw: bytes) -> Envelope:
    """The envelope of an UpdateRequest.

    Raises:
        Malformed: the bytes are no UpdateRequest, or it holds more than one message or very many
            fields.
    """
    number = acknowledged = message = 0
    payload = b""
    for count, item in enumerate(fields(raw), 1):
        if count > MAX_UPDATE_FIELDS:
            raise Malformed(f"UpdateRequest: more than {MAX_UPDATE_FIELDS} fields in one request")
        if item.kind == VARINT and item.number == NUMBER:
            number, _ = varint(raw, item.value)
        elif item.kind == VARINT and item.number == ACKNOWLEDGED:
            acknowledged, _ = varint(raw, item.value)
        elif item.kind == LENGTH and NUMBER < item.number <= _LAST_MESSAGE:
            if message:
                raise Malformed("UpdateRequest: more than one message in one request")
            message, payload = item.number, raw[item.value : item.end]
    return Envelope(number, acknowledged, message, payload)


class Sealer:
    """Puts the responses of one epoch and one registration into envelopes."""

    def __init__(self, epoch: int, session: int) -> None:
        """Every response carries both; `session` is the number of the registration."""
        self._stamp = b"\x10" + encode_varint(epoch) + b"\x18" + encode_varint(session)

    def seal(self, kind: Kind, data: bytes, *, number: int, acknowledged: int) -> bytes:
        """The UpdateResponse around `data`, which for the kind SESSION is a whole field already."""
        head = self._stamp
        if number:
            head = b"\x08" + encode_varint(number) + head
        if acknowledged:
            head += b"\x20" + encode_varint(acknowledged)
        field = _RESPONSE_FIELDS.get(kind)
        return head + (data if field is None else delimited(field, data))

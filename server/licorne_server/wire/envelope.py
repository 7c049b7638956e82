"""The outer messages of `licorne.v1.Session`, with numbers and acknowledgements.

The request or response inside stays as bytes, and is not parsed here.
"""

from typing import Final

from licorne.v1.session_pb2 import UpdateRequest, UpdateResponse
from licorne_server.wire.caps import MAX_UPDATE_FIELDS
from licorne_server.wire.errors import Malformed
from licorne_server.wire.framing import LENGTH, VARINT, encode_varint, field_at, varint
from licorne_server.wire.responses import Kind

NUMBER: Final = UpdateRequest.NUMBER_FIELD_NUMBER
_NUMBER: Final = NUMBER << 3 | VARINT
_ACKNOWLEDGED: Final = UpdateRequest.ACKNOWLEDGED_FIELD_NUMBER << 3 | VARINT
_LAST_MESSAGE: Final = UpdateRequest.NOTICE_ANSWERS_FIELD_NUMBER
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
"""Head of each field of a response that is not encoded already."""

Envelope = tuple[int, int, int, bytes]
"""One UpdateRequest: its number, the number of the last response that the RM has processed, and the field
number and the bytes of the message inside. Each number is 0 for none."""


def open_envelope(raw: bytes) -> Envelope:
    """The envelope of an UpdateRequest.

    Raises:
        Malformed: the bytes are no UpdateRequest, or it holds more than one message or very many
            fields.
    """
    number = acknowledged = message = position = count = 0
    payload = b""
    try:
        while position < len(raw):
            count += 1
            if count > MAX_UPDATE_FIELDS:
                raise Malformed(f"UpdateRequest: more than {MAX_UPDATE_FIELDS} fields in one request")
            # Both numbers are in every request, and are read at once.
            tag, value = raw[position], position + 1
            if tag >= 0x80:
                tag, value = varint(raw, position)
            if tag == _NUMBER:
                number, position = varint(raw, value)
            elif tag == _ACKNOWLEDGED:
                acknowledged, position = varint(raw, value)
            else:
                field, kind, _, value, position = field_at(raw, position, len(raw))
                if kind == LENGTH and NUMBER < field <= _LAST_MESSAGE:
                    if message:
                        raise Malformed("UpdateRequest: more than one message in one request")
                    message, payload = field, raw[value:position]
    except IndexError:
        raise Malformed("the message is cut off") from None
    return number, acknowledged, message, payload


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
        tag = _RESPONSE_TAGS.get(kind)
        return head + data if tag is None else head + tag + encode_varint(len(data)) + data

"""Protobuf framing: finds the fields of a message without parsing their contents.

A request is split into the bytes of its items, and each item is parsed separately. So memory and time of a
step are bounded for any input, and a repeated item is recognised by its bytes.

The work on a received message is paced: one part at a time, with pauses for others. Work is counted in bytes.
Each examined field adds `FIELD` bytes, because tiny fields take far more work per byte than long texts.
"""

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final, NamedTuple

from licorne.v1.session_pb2 import UpdateRequest
from licorne_server.wire.caps import MAX_ITEMS, MAX_REQUEST_FIELDS, MAX_UPDATE_FIELDS
from licorne_server.wire.errors import Malformed, invalid_argument

PART = 64 * 1024
"""Work after which other tasks of the loop run: some milliseconds."""

FIELD = 64
"""Work of examining one field: about two microseconds without compilation."""

FIELDS = PART // FIELD
"""Number of fields that are examined in one part."""


class Pace:
    """Counts the work on one message, and yields to other tasks."""

    def __init__(self, lock: asyncio.Lock) -> None:
        """`lock` is shared by all messages, so that large messages take turns."""
        self._lock = lock
        self.done = 0
        """Work since the last pause; once it reaches `PART` a pause is due."""

    def spend(self, work: int) -> bool:
        """Count work; returns True if `rest` has to be called before any more work."""
        self.done += work
        return self.done >= PART

    async def rest(self) -> None:
        """Yield to other tasks of the loop, and then to other messages."""
        self.done = 0
        async with self._lock:
            await asyncio.sleep(0)

    async def begin(self, size: int) -> None:
        """Wait for a turn, if a message of `size` bytes may take more than one part of work."""
        if size > PART:
            await self.rest()


Place = tuple[int, int, int, int]
"""A field that holds bytes: its number, and the offsets of its beginning and of its value."""

VARINT = 0
LENGTH = 2
_FIXED = {1: 8, 5: 4}


Field = tuple[int, int, int, int, int]
"""One field on the wire: its number, its wire type such as `VARINT`, the offset of its beginning, and the
offsets of the beginning and the end of its value."""


class Layout(NamedTuple):
    """Field numbers of a request's rmID and items."""

    message: str
    """Name of the request."""
    rm_id: int
    items: tuple[int, ...]
    """Numbers of the fields that each hold one item."""
    nested: int = 0
    """Number of a field that holds a message whose field 1 has items; 0 if there is none."""


NODE_REQUEST = Layout("NodeRequest", rm_id=2, items=(1,))
APPLICATION_REQUEST = Layout("ApplicationRequest", rm_id=3, items=(1, 2))
ALLOCATION_REQUEST = Layout("AllocationRequest", rm_id=3, items=(4,), nested=2)


def varint(raw: bytes, position: int) -> tuple[int, int]:
    """Read the number at a position; returns it and the position after it."""
    byte = raw[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise Malformed("a number has too many bytes")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value & 0xFFFFFFFFFFFFFFFF, position


def field_at(raw: bytes, begin: int, stop: int) -> Field:
    """The field that begins at the position `begin` of a message that ends at `stop`.

    Raises:
        Malformed: there is no valid field.
    """
    try:
        # Most numbers have one byte, so this is a fast path.
        tag, value = raw[begin], begin + 1
        if tag >= 0x80:
            tag, value = varint(raw, begin)
        number, kind = tag >> 3, tag & 7
        if kind == LENGTH:
            length, value = raw[value], value + 1
            if length >= 0x80:
                length, value = varint(raw, value - 1)
            end = value + length
        elif kind == VARINT:
            _, end = varint(raw, value)
        elif kind in _FIXED:
            end = value + _FIXED[kind]
        else:
            raise Malformed(f"field {number} has wire type {kind}")
    except IndexError:
        raise Malformed("the message is cut off") from None
    if not number or end > stop:
        raise Malformed(f"field {number} ends behind the message")
    return number, kind, begin, value, end


def fields(raw: bytes) -> Iterator[Field]:
    """All fields of a message in order."""
    position = 0
    while position < len(raw):
        item = field_at(raw, position, len(raw))
        yield item
        position = item[-1]


class Skimmed(NamedTuple):
    """The fields found in a message, or in one part of it."""

    fields: int
    """Number of examined fields."""
    places: list[Place]
    """Wanted fields that hold bytes."""
    end: int
    """Offset of the first field that was not examined; the end of the message if all were."""


def skim(raw: bytes, wanted: Container[int] = (), most: int = MAX_ITEMS, begin: int = 0) -> Skimmed:
    """Count the fields of a message, and find those of the wanted numbers that hold bytes.

    Up to `most` + 1 fields are examined, from the offset `begin` on. Items with very many fields pass through
    this loop, so it is written for speed.
    """
    count, position, stop = 0, begin, len(raw)
    found: list[Place] = []
    last = stop - 1
    while position < stop and count <= most:
        begin = position
        tag = raw[position]
        if tag & 0x87 == LENGTH and position < last and raw[position + 1] < 0x80 and tag > 7:
            value = position + 2
            position = value + raw[position + 1]
            number = tag >> 3
            if position > stop:
                raise Malformed(f"field {number} ends behind the message")
            if number in wanted:
                found.append((number, begin, value, position))
        elif tag & 0x87 == VARINT and position < last and raw[position + 1] < 0x80 and tag > 7:
            position += 2
        else:
            number, kind, _, value, position = field_at(raw, position, stop)
            if kind == LENGTH and number in wanted:
                found.append((number, begin, value, position))
        count += 1
    return Skimmed(count, found, position)


async def survey(
    raw: bytes,
    wanted: Container[int],
    most: int,
    pace: Pace,
    see: Callable[[Sequence[Place]], None] | None = None,
) -> tuple[int, int]:
    """Do the same as `skim` in parts, between which other tasks may run.

    The findings of each part are passed to `see`. Returns the number of examined fields, and the offset of
    the next field.
    """
    count, end = 0, 0
    while end < len(raw) and count <= most:
        part = skim(raw, wanted, min(FIELDS - 1, most - count), end)
        count, end = count + part.fields, part.end
        if see is not None:
            see(part.places)
        if pace.spend(part.fields * FIELD):
            await pace.rest()
    return count, end


def check_fields(message: str, raw: bytes, path: Sequence[int] = ()) -> None:
    """Refuse a message with too many fields, including those inside the fields on the path.

    Raises:
        CallError: INVALID_ARGUMENT, naming the message and the bound.
        Malformed: the bytes are no message.
    """
    if _fields_along(raw, path, MAX_REQUEST_FIELDS) > MAX_REQUEST_FIELDS:
        raise invalid_argument(f"{message} has more than {MAX_REQUEST_FIELDS} fields")


def _fields_along(raw: bytes, path: Sequence[int], room: int) -> int:
    """Count the fields, stopping when they exceed `room`."""
    count, places, _ = skim(raw, path[:1], room)
    for _, _, value, end in places:
        if count <= room:
            count += _fields_along(raw[value:end], path[1:], room - count)
    return count


def text_of(number: int, raw: bytes) -> str:
    """Decode the text in a field; `number` is named in an error.

    Raises:
        Malformed: the bytes are not UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed(f"field {number} is not UTF-8") from None


def encode_varint(value: int) -> bytes:
    """Encode a number; negative numbers are encoded like the types int32 and int64."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(number: int, payload: bytes) -> bytes:
    """Encode a field that holds a message, text or bytes."""
    return encode_varint(number << 3 | LENGTH) + encode_varint(len(payload)) + payload


async def split(raw: bytes, layout: Layout, pace: Pace) -> "Split":
    """Split a request into its items, step by step.

    Raises:
        Malformed: the bytes are no message.
        CallError: the request holds more than `MAX_ITEMS` items.
    """
    if len(raw) > PART:
        await pace.rest()
    request = Split(raw, layout)
    while request.position < len(raw):
        if pace.spend(request.part() * FIELD):
            await pace.rest()
    return request


class Split:
    """A request while it is split: the RM's id, and the bytes of its items by field."""

    rm_id: str
    items: dict[int, list[bytes]]
    total: int
    """Total number of items."""
    position: int
    """Offset of the next field to examine; the end of the request once all of it is split."""

    def __init__(self, raw: bytes, layout: Layout) -> None:
        """Start before the first field."""
        self.rm_id = ""
        self.items = {}
        for field in (*layout.items, layout.nested):
            self.items[field] = []
        self.total = self.position = 0
        self._raw = raw
        self._layout = layout
        # End of the nested message that is being read; if there is none, an offset of at most `position`.
        self._inner = 0
        # Number of examined fields, wanted or not: a request with too many fields is refused early.
        self._counted = 0

    def join(self, other: "Split") -> None:
        """Append the items of another request of the same kind."""
        for field, found in other.items.items():
            self.items[field] += found
        self.total += other.total

    def part(self) -> int:
        """Examine the next fields, at most one part of work; return their number."""
        raw, layout, before = self._raw, self._layout, self._counted
        last = before + FIELDS
        while self.position < len(raw) and self._counted < last:
            is_inner = self.position < self._inner
            stop = self._inner if is_inner else len(raw)
            number, kind, _, value, end = field_at(raw, self.position, stop)
            if kind == LENGTH and (number == 1 if is_inner else number in layout.items):
                self._run(stop, number, layout.nested if is_inner else number, last - self._counted)
            else:
                self._counted += 1
                self.position = end
                if kind == LENGTH and not is_inner and number == layout.nested:
                    self.position, self._inner = value, end
                elif kind == LENGTH and not is_inner and number == layout.rm_id:
                    self.rm_id = text_of(number, raw[value:end])
            if self._counted > MAX_ITEMS:
                raise invalid_argument(f"{layout.message} holds more than {MAX_ITEMS} items")
        if self.position == len(raw):
            # Items are copies, so the bytes of the request can be freed.
            self._raw = b""
        return self._counted - before

    def _run(self, stop: int, number: int, into: int, most: int) -> None:
        """Collect consecutive items of one field.

        Every item passes through this loop, so it is written for speed.
        """
        raw, position = self._raw, self.position
        tag = number << 3 | LENGTH
        items = self.items[into]
        before = len(items)
        most += before
        while position < stop and raw[position] == tag and len(items) < most:
            value = position + 2
            length = raw[position + 1] if value < stop else 0x80
            if length >= 0x80 and value < stop and raw[value] < 0x80:
                length += (raw[value] - 1) << 7
                value += 1
            elif length >= 0x80:
                _, _, _, value, position = field_at(raw, position, stop)
                length = position - value
            position = value + length
            if position > stop:
                raise Malformed(f"field {number} ends behind the message")
            items.append(raw[value:position])
        if len(items) == before:
            # The tag is encoded in more bytes than necessary.
            _, _, _, value, position = field_at(raw, position, stop)
            items.append(raw[value:position])
        self.position = position
        found = len(items) - before
        self._counted += found
        self.total += found


NUMBER: Final = UpdateRequest.NUMBER_FIELD_NUMBER
_NUMBER: Final = NUMBER << 3 | VARINT
_ACKNOWLEDGED: Final = UpdateRequest.ACKNOWLEDGED_FIELD_NUMBER << 3 | VARINT
_LAST_MESSAGE: Final = UpdateRequest.NOTICE_ANSWERS_FIELD_NUMBER

Envelope = tuple[int, int, int, bytes]
"""One UpdateRequest: its number, the number of the last response that the RM has processed, and the field
number and bytes of the message inside. Each number may be 0 if there is none."""


def open_envelope(raw: bytes) -> Envelope:
    """The envelope of an UpdateRequest.

    Raises:
        Malformed: the bytes are no UpdateRequest, or it holds more than one message or too many
            fields.
    """
    number = acknowledged = message = position = count = 0
    payload = b""
    try:
        while position < len(raw):
            count += 1
            if count > MAX_UPDATE_FIELDS:
                raise Malformed(f"UpdateRequest: more than {MAX_UPDATE_FIELDS} fields in one request")
            # Both numbers are in every request, so this is a fast path.
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

"""A protobuf message as a tree of pieces, each of which may be as wrong as wanted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

from licorne_server.wire.framing import encode_varint

VARINT, FIXED64, LENGTH, BEGIN_GROUP, END_GROUP, FIXED32 = range(6)


@dataclass(frozen=True, slots=True)
class Piece:
    """One field: its number, its wire type and what it holds."""

    number: int
    kind: int
    value: Union[int, bytes, "tuple[Piece, ...]"]
    longer: int = 0
    """By how many bytes its tag is longer than it need be, which is allowed."""

    def encoded(self) -> bytes:
        """The bytes of the field."""
        tag = _lengthened(encode_varint(self.number << 3 | self.kind), self.longer)
        match self.value:
            case int() as number:
                width = {FIXED64: 8, FIXED32: 4}.get(self.kind)
                if width is None:
                    return tag + encode_varint(number)
                return tag + (number % (1 << 8 * width)).to_bytes(width, "little")
            case bytes() as raw if self.kind == LENGTH:
                return tag + encode_varint(len(raw)) + raw
            case bytes() as raw:
                return tag + raw
            case pieces:
                return replace(self, value=encoded(pieces)).encoded()


def _lengthened(number: bytes, longer: int) -> bytes:
    """The same number in more bytes."""
    if not longer:
        return number
    return number[:-1] + bytes([number[-1] | 0x80]) + b"\x80" * (longer - 1) + b"\0"


def encoded(pieces: Sequence[Piece]) -> bytes:
    """The bytes of a message."""
    return b"".join(piece.encoded() for piece in pieces)


def groups(number: int, depth: int, *, closed: bool) -> Piece:
    """A group in a group, and so on, of a field that nobody knows."""
    opening = encode_varint(number << 3 | BEGIN_GROUP) * (depth - 1)
    closing = encode_varint(number << 3 | END_GROUP) * depth if closed else b""
    return Piece(number, BEGIN_GROUP, opening + closing)

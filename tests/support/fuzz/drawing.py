"""Draws messages of a type, and damages some of them, the same for the same random source."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as Field

from support.fuzz import values
from support.fuzz.values import END_GROUP, FIXED32, FIXED64, LENGTH, VARINT, Piece, encoded, groups

Pieces = tuple[Piece, ...]
WILDNESS = (0.0, 0.02, 0.02, 0.1, 0.4)
"""The shares of unusual values in a message, low in most messages."""
MANY = 300
"""The number of entries of a map or list that is made large."""
SPOILT = 0.3
"""The share of messages that no library would write."""


def draw(rng: Random, kind: Descriptor) -> bytes:
    """A message of this type, perhaps damaged."""
    pieces = drawn(rng, kind, rng.choice(WILDNESS))
    if rng.random() >= SPOILT:
        return encoded(pieces)
    raw = encoded(spoilt(rng, pieces))
    return cut(rng, raw) if rng.random() < 0.3 else raw


def drawn(rng: Random, kind: Descriptor, wildness: float) -> Pieces:
    """The fields of a message of this type, with at most one of each oneof."""
    chosen = {name: _one_of(rng, group.fields) for name, group in kind.oneofs_by_name.items()}
    return tuple(
        _piece(rng, field, wildness)
        for field in kind.fields
        if field.containing_oneof is None or chosen[field.containing_oneof.name] == field.number
        for _ in range(_count(rng, field, wildness))
    )


def _one_of(rng: Random, fields: Sequence[Field]) -> int:
    """The number of one of these fields, weighted by the size of their contents."""
    weights = [1 + 3 * len(field.message_type.fields if field.message_type else ()) for field in fields]
    return rng.choices(fields, weights)[0].number


def _count(rng: Random, field: Field, wildness: float) -> int:
    """The number of occurrences of the field."""
    if field.containing_oneof is not None:
        return 1
    if not field.is_repeated:
        return rng.random() < 0.85
    if rng.random() < wildness / 20:
        return MANY
    return rng.choice((0, 1, 1, 2, 3))


def _piece(rng: Random, field: Field, wildness: float) -> Piece:
    number = field.number
    if field.type == Field.TYPE_STRING:
        return Piece(number, LENGTH, values.text(rng, field.name, wildness))
    if field.type == Field.TYPE_ENUM:
        return Piece(number, VARINT, values.choice_of(rng, field, wildness))
    if field.type == Field.TYPE_BOOL:
        return Piece(number, VARINT, 2 if rng.random() < wildness else rng.getrandbits(1))
    if field.type in values.NUMBERS:
        return Piece(number, VARINT, values.number(rng, field.name, wildness))
    kind = _message(field)
    if kind.GetOptions().map_entry:
        return Piece(number, LENGTH, _entry(rng, field, wildness))
    return Piece(number, LENGTH, drawn(rng, kind, wildness))


def _message(field: Field) -> Descriptor:
    """The type of the message that a field holds."""
    kind = field.message_type
    assert kind is not None, f"{field.full_name} is of a type that is not drawn"
    return kind


def _entry(rng: Random, field: Field, wildness: float) -> Pieces:
    """An entry of a map, with its key, its value or both."""
    value = _message(field).fields_by_name["value"]
    key = Piece(1, LENGTH, values.entry_key(rng, field.name, wildness))
    if value.type == Field.TYPE_STRING:
        found = Piece(2, LENGTH, values.entry_text(rng, wildness))
    else:
        found = _piece(rng, value, wildness)
    return rng.choice(((), (key,), (found,))) if rng.random() < wildness else (key, found)


# ---- Damages ----


def spoilt(rng: Random, pieces: Pieces) -> Pieces:
    """The message with one error, in one of its own fields or in a nested message."""
    nested = [n for n, piece in enumerate(pieces) if isinstance(piece.value, tuple)]
    if nested and rng.random() < 0.6:
        place = rng.choice(nested)
        piece = pieces[place]
        inner: Any = piece.value
        changed = Piece(piece.number, piece.kind, spoilt(rng, inner))
        return (*pieces[:place], changed, *pieces[place + 1 :])
    return rng.choice(_WAYS)(rng, pieces)


def _reordered(rng: Random, pieces: Pieces) -> Pieces:
    """The fields in another order, which means the same."""
    return tuple(rng.sample(pieces, len(pieces)))


def _doubled(rng: Random, pieces: Pieces) -> Pieces:
    """Repeat one field at the end: of a singular field the last value counts."""
    return (*pieces, rng.choice(pieces)) if pieces else pieces


def _missing(rng: Random, pieces: Pieces) -> Pieces:
    """Remove one field."""
    place = rng.randrange(len(pieces)) if pieces else 0
    return pieces[:place] + pieces[place + 1 :]


def _other_kind(rng: Random, pieces: Pieces) -> Pieces:
    """Give one field another wire type."""
    if not pieces:
        return pieces
    place = rng.randrange(len(pieces))
    kind = rng.choice((VARINT, FIXED64, FIXED32, LENGTH, END_GROUP, 6, 7))
    value = b"\x01\x02" if kind == LENGTH else rng.choice(values.EDGES)
    return (*pieces[:place], Piece(pieces[place].number, kind, value), *pieces[place + 1 :])


def _longer_tag(rng: Random, pieces: Pieces) -> Pieces:
    """Write one tag with more bytes than needed."""
    if not pieces:
        return pieces
    place = rng.randrange(len(pieces))
    changed = replace(pieces[place], longer=rng.choice((1, 3, 4, 9)))
    return (*pieces[:place], changed, *pieces[place + 1 :])


def _no_text(rng: Random, pieces: Pieces) -> Pieces:
    """Put bytes that are not UTF-8 into a text field."""
    places = [n for n, piece in enumerate(pieces) if piece.kind == LENGTH]
    if not places:
        return pieces
    place = rng.choice(places)
    changed = Piece(pieces[place].number, LENGTH, rng.choice(values.NO_UTF8))
    return (*pieces[:place], changed, *pieces[place + 1 :])


def _unknown(rng: Random, pieces: Pieces) -> Pieces:
    """Add an unknown field, perhaps with an illegal number."""
    number = rng.choice((0, 12, 100, 19_000, 2**29 - 1, 2**29, 2**32 + 1))
    value: int | bytes = rng.choice((b"", b"abc", b"\x0a" * 40))
    kind = LENGTH
    if rng.random() < 0.5:
        kind, value = rng.choice((VARINT, FIXED64, FIXED32)), rng.choice(values.EDGES)
    place = rng.randint(0, len(pieces))
    return (*pieces[:place], Piece(number, kind, value), *pieces[place:])


def _groups(rng: Random, pieces: Pieces) -> Pieces:
    """Groups within groups, closed or left open."""
    depth = rng.choice((1, 5, 90, 101, 3_000))
    return (*pieces, groups(rng.choice((1, 50)), depth, closed=rng.random() < 0.7))


def _crowd(rng: Random, pieces: Pieces) -> Pieces:
    """Repeat one field very often."""
    return (*pieces, *[rng.choice(pieces)] * MANY) if pieces else pieces


_WAYS: tuple[Callable[[Random, Pieces], Pieces], ...] = (
    _reordered,
    _doubled,
    _missing,
    _other_kind,
    _longer_tag,
    _no_text,
    _unknown,
    _groups,
    _crowd,
)


def cut(rng: Random, raw: bytes) -> bytes:
    """Bytes that are cut off, changed in one place, or followed by other bytes."""
    if not raw:
        return b"\xff"
    place = rng.randrange(len(raw))
    way = rng.randrange(3)
    if way == 0:
        return raw[:place]
    if way == 1:
        return raw[:place] + bytes([rng.randrange(256)]) + raw[place + 1 :]
    return raw + rng.choice((b"\xff" * 11, b"\x0a\x7f", b"\x80\x80\x80\x80\x80\x01", b"\0"))

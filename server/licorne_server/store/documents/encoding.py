"""Stored values as JSON: an object has the fields of a dataclass, which are checked against their types.

A reader ignores keys that it does not know, and fields with a default may be missing, so that versions of the
software share documents. Documents may have been written by other software.
"""

import json
from collections.abc import Callable
from sys import float_info
from typing import Annotated, Any, TypeVar

import msgspec

MOST = 2**63 - 1
"""The largest count in a document, and the largest amount."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MOST)]
Whole = Annotated[int, msgspec.Meta(ge=0)]
Sum = Annotated[float, msgspec.Meta(ge=0, le=float_info.max)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=float_info.max)]
"""Types of fields with numbers that are not negative, or that are positive. Only a sum may exceed `MOST`."""

Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
"""Type of a field with the priority of an ask, as on the wire."""

T = TypeVar("T")


class Unreadable(ValueError):
    """Bytes that are not the expected value, or have a newer format; the text gives the reason."""


class Newer(Unreadable):
    """The bytes have a newer format, which a newer server has written."""


def encode(value: object) -> bytes:
    """The JSON of a dataclass, or of a collection of dataclasses; any mapping is an object.

    Raises:
        ValueError: a number is not finite. msgspec itself would write null for it.
    """
    values = msgspec.to_builtins(value, enc_hook=dict)
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


plain: Callable[[object], Any] = msgspec.to_builtins
"""A value as the dicts, lists and numbers of its JSON."""


def decode(data: bytes, kind: type[T]) -> T:
    """A value of a type, from JSON.

    Raises:
        Unreadable: the bytes are no such value.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def made(values: object, kind: type[T]) -> T:
    """A value of a type, from dicts, lists and numbers.

    Raises:
        Unreadable: a value is missing or has another type; the text names its place.
    """
    try:
        return msgspec.convert(values, kind)
    except (msgspec.MsgspecError, OverflowError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def fields_in(data: bytes, newest: int) -> dict[str, Any]:
    """The fields of a document, which include the number of its format.

    Raises:
        Newer: the format is newer than `newest`.
        Unreadable: the bytes are no such document.
    """
    fields = decode(data, dict[str, Any])
    if "format" not in fields:
        raise Unreadable("format missing")
    written = fields["format"]
    if type(written) is not int or written < 0:
        raise Unreadable(f"format: expected a count, found {written!r:.20}")
    if written > newest:
        raise Newer(f"format {written} is newer than {newest}, which this version reads")
    return fields

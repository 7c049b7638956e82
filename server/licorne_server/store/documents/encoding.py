"""Stored values as JSON: an object has the fields of a dataclass, which are checked against their types.

A reader ignores keys that it does not know, and fields with a default may be missing, so that versions of the
software share documents. Documents may have been written by other software.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

MOST = 2**63 - 1
"""The largest number in a document."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=MOST)]
"""Types of fields whose numbers are not negative; or not 0 either."""

T = TypeVar("T")


class Unreadable(ValueError):
    """The bytes are no such value, or one of a newer format; the text gives the reason."""


encode: Callable[[object], bytes] = msgspec.json.Encoder(enc_hook=dict).encode
"""The JSON of a dataclass, or of a collection of dataclasses; any mapping is an object."""

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
        Unreadable: something in them is missing, or has another type; the text names its place.
    """
    try:
        return msgspec.convert(values, kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Unreadable(str(error)) from None

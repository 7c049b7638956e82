"""Checks of single values before they are put into a message.

A check gets the name of a field and its value. It returns the problem, or an empty text if there is none.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple, SupportsIndex

MAX_KEY = 512
"""Maximum characters of a key that the server accepts."""

MAX_SHOWN = 64
"""Maximum characters of a value that an error quotes."""

Check = Callable[[str, object], str]
"""Checks the value of a named field; returns the problem, or an empty text if there is none."""

# The plain class is first, because `isinstance` is slow with an abstract class, and asks may be millions.
_MAPPINGS = (dict, Mapping)


class Range(NamedTuple):
    """The whole numbers that a field can have, from `low` to `high`, both included."""

    low: int
    high: int
    bounds: str
    """The bounds as in an error, such as ``0 and 100``."""
    subject: str = "it"
    """Name of the number in an error."""


MOST = 2**63 - 1
AMOUNT = Range(0, MOST, "0 and 2^63 - 1", "an amount")
INT32 = Range(-(2**31), 2**31 - 1, "-2^31 and 2^31 - 1")
MEMBERS = Range(1, 1_000_000, "1 and 1000000")
MAX_TIMEOUT = 1e9
"""Maximum seconds, about thirty years: the server counts nanoseconds below 2^63."""
INSTANCE = Range(1, 2**64 - 1, "1 and 2^64 - 1")


def shown(value: object) -> str:
    """A value for an error: its `repr`, which is on one line and can be encoded, cut to `MAX_SHOWN`."""
    if isinstance(value, int) and value.bit_length() > 200:
        # Python refuses to print a number with thousands of digits.
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def text(field: str, value: object) -> str:
    """The problem with a text; empty if there is none."""
    if not isinstance(value, str):
        return f"{field} is {shown(value)}: it must be a text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{field} is {shown(value)}: it holds a lone surrogate, which UTF-8 has not"
    return ""


def whole(limits: Range, field: str, value: object) -> str:
    """The problem with a whole number of any type; empty if there is none."""
    if type(value) is int and limits.low <= value <= limits.high:
        return ""
    number: int | None = None
    # Python counts True as 1, which is hardly ever intended.
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None:
        return f"{field} is {shown(value)}: {limits.subject} must be a whole number"
    if not limits.low <= number <= limits.high:
        return f"{field} is {shown(number)}: {limits.subject} must lie between {limits.bounds}"
    return ""


def seconds(field: str, value: object, low: float = 0, high: float = math.inf) -> str:
    """The problem with a time in seconds; empty if there is none."""
    # Both comparisons are False for NaN.
    if isinstance(value, int | float) and low <= value <= high:
        return ""
    bounds = f"{low:g} or more" if high == math.inf else f"between {low:g} and {high:g}"
    return f"{field} is {shown(value)}: it must be seconds, {bounds}"


def flag(field: str, value: object) -> str:
    """The problem with a flag; empty if there is none."""
    if value is False or value is True or (isinstance(value, int) and value in (0, 1)):
        return ""
    return f"{field} is {shown(value)}: it must be True or False"


def texts(field: str, value: object) -> str:
    """The problem with a list of texts; empty if there is none."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        return f"{field} is {shown(value)}: it must be a list of texts"
    problems = (text(f"{field}[{number}]", item) for number, item in enumerate(value))
    return next(filter(None, problems), "")


def tags(field: str, value: object) -> str:
    """The problem with a mapping of texts to texts; empty if there is none."""
    if not isinstance(value, _MAPPINGS):
        return f"{field} is {shown(value)}: it must be a mapping of texts to texts"
    for name, content in value.items():
        problem = text(f"a key of {field}", name) or text(f"{field}[{shown(name)}]", content)
        if problem:
            return problem
    return ""


def amounts(field: str, value: object) -> str:
    """The problem with the amounts of resources; empty if there is none."""
    if not isinstance(value, _MAPPINGS):
        return f"{field} is {shown(value)}: it must be a mapping of names to amounts"
    for name, amount in value.items():
        if type(name) is str and name.isascii() and type(amount) is int and 0 <= amount <= MOST:
            # A fast path for plain amounts, of which there may be millions.
            continue
        problem = text(f"a name in {field}", name) or whole(AMOUNT, name, amount)
        if problem:
            return problem
    return ""

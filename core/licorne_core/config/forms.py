"""Forms of the values of queue properties: how their texts are read and written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from licorne_core.config.caps import MAX_AMOUNTS
from licorne_core.config.extra import parse_duration
from licorne_core.config.kinds import Key, Kind
from licorne_core.values.errors import ConfigError
from licorne_core.values.names import Pattern
from licorne_core.values.resources import Items, parse_quantity

NOT_INHERITED = "any; not inherited"
"""Value of `where`: the property counts for one queue only, and is not inherited."""

INTEGER = Pattern("[+-]?[0-9]{1,20}")


class UnusableError(Exception):
    """A value cannot be understood; the text of the exception says why."""


@dataclass(frozen=True, slots=True)
class Form:
    """Form of a value: reader of its text, and writer of a setting, which is empty if there is none.

    `nothing` is the name of an empty setting in warnings.
    """

    kind: Kind
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    choices: tuple[str, ...] = ()
    allowed: str = ""
    nothing: str = "none"


class Property(NamedTuple):
    """A property of queues: its description, the setting that it gives, and the form of its value."""

    key: Key
    setting: str
    form: Form
    after: str = ""
    """For an extension: the property after which the reference describes it; empty for the end."""
    standard: Any = None
    """For an extension: the value that has the same effect as a missing value."""
    unset: str = ""
    """For an extension: text in plans for a queue without the property; empty for no text."""
    needs: str = ""
    """For an extension: the property or switch of its partition without which it has no effect."""


class Family(NamedTuple):
    """Properties of an extension that differ by a name in their keys, such as the name of a resource.

    The setting is a tuple of the settings of its members, in the order of their keys.
    """

    key: Key
    setting: str
    begin: str
    end: str
    read: Callable[[str, str], Any]
    """Returns the setting for a name and a text; raises `UnusableError` for an invalid text."""

    def name_in(self, key: str) -> str:
        """The name in a key of the family; empty for another key."""
        begin, end = self.begin, self.end
        is_one = key.startswith(begin) and key.endswith(end) and len(key) > len(begin) + len(end)
        return key[len(begin) : -len(end)] if is_one else ""


def one_of(words: Mapping[str, Any]) -> Form:
    """One of a few words, in any case of letters."""

    def read(text: str) -> Any:
        word = text.strip().lower()
        if word not in words:
            raise UnusableError(f"is none of {', '.join(words)}")
        return words[word]

    written = {value: word for word, value in words.items()}
    return Form(Kind.WORD, read, written.__getitem__, choices=tuple(words))


def member_of(enumeration: type[Enum]) -> Form:
    return one_of({str(member.value): member for member in enumeration})


def whole(low: int, high: int) -> Form:
    """A whole number from `low` to `high`."""

    def read(text: str) -> int:
        if INTEGER.matches(text) and low <= int(text) <= high:
            return int(text)
        raise UnusableError(f"is no whole number from {low} to {high}")

    return Form(
        Kind.INTEGER, read, lambda number: "" if number is None else str(number), allowed=f"{low} to {high}"
    )


def _read_delay(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        raise UnusableError("is no duration above zero, such as 30s")
    return seconds


def _read_wait(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise UnusableError("is no duration from zero up, such as 10m")
    return seconds


def _read_amounts(text: str) -> Items:
    """Quantities of resources by name, from a text such as ``vcore=10,memory=4Gi``."""
    number = text.count(",") + 1
    if number > MAX_AMOUNTS:
        raise UnusableError(f"has {number} amounts, at most {MAX_AMOUNTS} are allowed")
    parts = [part.partition("=") for part in text.split(",")]
    try:
        amounts = {name.strip(): parse_quantity(name.strip(), amount) for name, _, amount in parts}
    except ConfigError:
        amounts = {}
    if "" in amounts or len(amounts) < len(parts):
        raise UnusableError("is no list of amounts, such as vcore=10,memory=4Gi")
    return tuple(sorted(amounts.items()))


FLAG = replace(one_of({"true": True, "false": False}), kind=Kind.FLAG, choices=())
DELAY = Form(Kind.DURATION, _read_delay, lambda seconds: f"{seconds:g}s" if seconds else "", nothing="0s")
WAIT = Form(Kind.WAIT, _read_wait, lambda seconds: f"{seconds:g}s")
AMOUNTS = Form(Kind.AMOUNT_LIST, _read_amounts, lambda _: "")

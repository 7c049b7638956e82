"""Description of a key of the configuration: its kind, its effect, and its section of the specification."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Kind of a key's value, in the words of the reference."""

    TEXT = "text"
    FLAG = "`true` or `false`"
    COUNT = "whole number from 0 up"
    TEXTS = "list of texts"
    ITEMS = "list of mappings"
    MAPPING = "mapping"
    NAMED_TEXTS = "mapping of texts"
    NAMED_NUMBERS = "mapping of numbers"
    AMOUNTS = "amounts by resource"
    # The next kinds are for queue properties and the extra configuration, all values of which are texts.
    WORD = "one of"
    INTEGER = "whole number"
    DURATION = "duration above zero"
    WAIT = "duration from zero"
    ANY_DURATION = "duration"
    AMOUNT_LIST = "amounts in one text"
    NAME_LIST = "names, separated by commas"
    NUMBER = "number"
    GAIN = "`N/duration`, `N/duration max M`"
    AMOUNT_IN_WINDOW = "amount, `/` and `hour`, `day`, `week` or `month`"
    SPANS_OF_DAY = "spans of the day in UTC, separated by commas"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name, kind of value, effect, and section of the specification.

    `default` is the value of an absent key, in the form of the configuration; empty if there is none.
    `choices` are all words that the value may be, and `allowed` has further requirements in words. `inside`
    has the keys of a mapping. `where` names the queues for which a property counts. `works` is False for a
    key that is read, checked and shown, and does nothing else. `note` tells the effect that a key lacks
    although its name suggests it.
    """

    name: str
    kind: Kind
    what: str
    spec: str
    default: str = ""
    choices: tuple[str, ...] = ()
    allowed: str = ""
    inside: "Mapping[str, Key] | None" = None
    where: str = ""
    works: bool = True
    note: str = ""


Section = Mapping[str, Key]
"""The keys of one mapping by name, in the order of the reference."""


def section(*keys: Key) -> Section:
    """The section of these keys."""
    return {key.name: key for key in keys}


def words(of: type[Enum]) -> tuple[str, ...]:
    """The values of an enumeration, as words."""
    return tuple(str(word.value) for word in of)

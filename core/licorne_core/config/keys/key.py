"""What is said of a key, and the keys of one mapping."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What the value of a key is, in the words of the reference."""

    TEXT = "text"
    FLAG = "`true` or `false`"
    COUNT = "whole number from 0 up"
    TEXTS = "list of texts"
    ITEMS = "list of mappings"
    MAPPING = "mapping"
    NAMED_TEXTS = "mapping of texts"
    NAMED_NUMBERS = "mapping of numbers"
    AMOUNTS = "amounts by resource"
    # Of queue properties and of the extra configuration, all values of which are texts.
    WORD = "one of"
    INTEGER = "whole number"
    DURATION = "duration above zero"
    ANY_DURATION = "duration"
    AMOUNT_LIST = "amounts in one text"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name, the kind of its value, what it does, and the section of the specification.

    `default` is what an absent key counts as, in the form in which it would be written; empty for
    nothing. `choices` are all words that the value may be, and `allowed` says in words what else is
    asked of it. `inside` has the keys of a mapping. `where` says for which queues a property
    counts. `works` is False for a key that is read, checked and shown, and does nothing else.
    """

    name: str
    kind: Kind
    what: str
    spec: str
    default: str = ""
    choices: tuple[str, ...] = ()
    allowed: str = ""
    inside: "Section | None" = None
    where: str = ""
    works: bool = True


class Section(tuple[Key, ...]):
    """The keys of one mapping, in the order of the reference."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that may stand there."""
        return tuple(key.name for key in self)


def words(of: type[Enum]) -> tuple[str, ...]:
    """The words that an enumeration stands for."""
    return tuple(str(word.value) for word in of)

"""Errors of the core; each describes the fault in words for the caller."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_SHOWN = 64


class LicorneError(Exception):
    """Any error of the core."""


class Refusal(StrEnum):
    """Reason for refusing an item of a request, for counters: each text has one of these."""

    INVALID = "INVALID"
    """The item breaks a bound of the wire, or makes no sense."""
    ALREADY_THERE = "ALREADY_THERE"
    """There is one of that id."""
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    """Its partition is not there, or not any more."""
    UNKNOWN_APPLICATION = "UNKNOWN_APPLICATION"
    """Its application is not there, or takes no asks."""
    UNKNOWN_NODE = "UNKNOWN_NODE"
    """Its node is not there."""
    INVALID_USER = "INVALID_USER"
    """Its user has no name, or none that may be."""
    NO_QUEUE = "NO_QUEUE"
    """No placement rule has a queue for it, or that queue takes none (spec § 3)."""
    ACCESS_DENIED = "ACCESS_DENIED"
    """Its user may not submit there."""
    GANG_NOT_POSSIBLE = "GANG_NOT_POSSIBLE"
    """Its queue could never run its gang (spec § 6.1)."""
    TOO_MANY = "TOO_MANY"
    """Its RM, partition or application would have more than it may, or a total beyond int64."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """The process is short of memory."""


class Rejected(LicorneError):
    """An item of a request is refused; the text goes to the RM as the reason."""

    def __init__(self, text: str, code: Refusal) -> None:
        """Create an error; `code` is the counter of the text."""
        super().__init__(text)
        self.code = code


class InvariantBroken(LicorneError):
    """The books do not add up: a defect of the core, never of its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault in a configuration.

    `line` and `column` count from 1 and are 0 where no place in the text is to blame;
    `path` is the key's place in the document, such as ``partitions[0].queues[1].name``.
    """

    message: str
    path: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """``line:column: path: message``, without unknown parts."""
        place = f"{self.line}:{self.column}: " if self.line else ""
        return f"{place}{self.path}: {self.message}" if self.path else f"{place}{self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place in the text of a configuration: path of keys, and line and column from 1."""

    path: str = ""
    line: int = 0
    column: int = 0

    def problem(self, message: str) -> Problem:
        """A fault at this place."""
        return Problem(message=message, path=self.path, line=self.line, column=self.column)


class ConfigError(LicorneError):
    """A configuration that cannot be used, with every problem found in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; the error's text is one problem a line."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class NotFound(LicorneError):
    """A report was wanted of something that is not there; the text names it."""


def shown(value: str) -> str:
    """A caller's text as an error may repeat it: short, and no control characters."""
    head = value[:MAX_SHOWN]
    text = head if head.isprintable() else ascii(head)[1:-1]
    return f"{text}…" if len(value) > MAX_SHOWN else text

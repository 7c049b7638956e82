"""Errors of the core; each has a message for the caller."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_SHOWN = 64


class LicorneError(Exception):
    """Any error of the core."""


class Refusal(StrEnum):
    """Reason for refusing an item of a request, by which refusals are counted."""

    INVALID = "INVALID"
    """The item exceeds a bound of the wire format, or its fields are invalid."""
    ALREADY_THERE = "ALREADY_THERE"
    """The id is in use."""
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    """The partition does not exist, or was removed."""
    UNKNOWN_APPLICATION = "UNKNOWN_APPLICATION"
    """The application does not exist, or accepts no asks."""
    UNKNOWN_NODE = "UNKNOWN_NODE"
    """The node does not exist."""
    INVALID_USER = "INVALID_USER"
    """The user has no name, or an illegal one."""
    NO_QUEUE = "NO_QUEUE"
    """No placement rule names a queue for the application, or the queue accepts none (spec § 3)."""
    ACCESS_DENIED = "ACCESS_DENIED"
    """The user may not submit to the queue."""
    GANG_NOT_POSSIBLE = "GANG_NOT_POSSIBLE"
    """The queue could never run the gang (spec § 6.1)."""
    TOO_MANY = "TOO_MANY"
    """The RM, partition or application would exceed a cap, or a total would exceed int64."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """The process is short of memory."""


class Rejected(LicorneError):
    """An item of a request is refused. The text is sent to the RM."""

    def __init__(self, text: str, code: Refusal) -> None:
        """Create an error; `code` is the reason by which the refusal is counted."""
        super().__init__(text)
        self.code = code


class InvariantBroken(LicorneError):
    """The books are inconsistent: a defect of the core, never of its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault in a configuration.

    `line` and `column` count from 1, and are 0 if the fault has no place in the text. `path` is the path of
    the key, such as ``partitions[0].queues[1].name``.
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
class TextPlace:
    """A place in the text of a configuration: the path of keys, and line and column from 1."""

    path: str = ""
    line: int = 0
    column: int = 0

    def problem(self, message: str) -> Problem:
        """A fault at this place."""
        return Problem(message=message, path=self.path, line=self.line, column=self.column)


class ConfigError(LicorneError):
    """An invalid configuration, with all its problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Create an error, whose text has one line for each problem."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class NotFound(LicorneError):
    """The subject of a report does not exist; the text names it."""


def shown(value: str) -> str:
    """A caller's text for use in errors: cut to `MAX_SHOWN`, with control characters escaped."""
    head = value[:MAX_SHOWN]
    text = head if head.isprintable() else ascii(head)[1:-1]
    return f"{text}…" if len(value) > MAX_SHOWN else text

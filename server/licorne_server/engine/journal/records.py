"""Records of a journal, as returned by readers."""

from dataclasses import dataclass

from licorne_core.messages.commands import Command, Options

FORMAT = 1
"""Version of the layout of files and records. The fields of commands are named in each file."""


class Unreadable(Exception):
    """Bytes that are not part of a journal; the text gives the reason."""


@dataclass(slots=True)
class JournalState:
    """State of a journal that is being written. Any thread may read it."""

    problem: str = ""
    """Reason why the journal has stopped; empty while it is written."""
    inputs: int = 0
    """Number of commands recorded in this run."""
    size: int = 0
    """Total bytes in the directory, including old runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The beginning of a run: a server has started with an empty core."""

    run: int
    """Number of the run; it rises with each start."""
    version: str
    """Version of Licorne that wrote the run."""
    start: float
    """Time of the start, in unix seconds."""
    options: Options
    """The options of the core, which affect decisions as commands do."""


@dataclass(frozen=True, slots=True)
class Input:
    """A command that the core received at `now`, in unix seconds.

    The remainder of a large command is the same object again, because the core recognizes it by identity.
    """

    now: float
    command: Command


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of the decisions about the run's first `count` inputs."""

    count: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Torn:
    """The run is unreadable from this point on; `offset` is in bytes of the file."""

    file: str
    offset: int
    reason: str


Record = Header | Input | Digest | Torn

"""Failures of a command, and the exit codes. `docs/commands.md` has the same table, for people."""

from collections.abc import Sequence

OK = 0
USAGE = 1
"""The arguments make no sense, a file that they name cannot be used, or stdout takes no more."""
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4
INTERRUPTED = 130


class UsageError(Exception):
    """The arguments make no sense together; the text says why."""


class NotFoundError(Exception):
    """The item is not there; the text names it."""


class RefusedError(Exception):
    """The server refused what was wanted, or the user did."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines` are printed on stderr."""
        super().__init__("\n".join(lines))
        self.lines = lines

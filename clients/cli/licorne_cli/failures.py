"""Failures of a command, and the exit codes, which `docs/commands.md` lists too."""

from collections.abc import Sequence

OK = 0
USAGE = 1
"""Arguments are invalid, a file in them is unusable, or stdout cannot be written."""
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4
NEEDS_LOOK = 6
"""`status` has found a problem."""
INTERRUPTED = 130


class UsageError(Exception):
    """Arguments that cannot be used; the text gives the reason."""


class NotFoundError(Exception):
    """An item that does not exist; the text names it."""


class RefusedError(Exception):
    """A refusal by the server, or by the user."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines` are the text, which is printed on stderr."""
        super().__init__("\n".join(lines))
        self.lines = lines

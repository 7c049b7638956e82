"""Failures of a command, and the exit codes, which `docs/commands.md` lists too."""

from collections.abc import Sequence

OK = 0
USAGE = 1
"""Invalid arguments, an unusable file in them, or a failed write to stdout."""
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4
NEEDS_LOOK = 6
"""`status`: something is not well."""
INTERRUPTED = 130


class UsageError(Exception):
    """Arguments that contradict each other; the text gives the reason."""


class NotFoundError(Exception):
    """An item that does not exist; the text names it."""


class RefusedError(Exception):
    """A refusal by the server, or by the user."""

    def __init__(self, lines: Sequence[str]) -> None:
        """`lines` are printed on stderr."""
        super().__init__("\n".join(lines))
        self.lines = lines

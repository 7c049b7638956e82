"""The ways in which a command fails; `channel.with_channel` gives each its exit code."""

from collections.abc import Sequence


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

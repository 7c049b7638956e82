"""Bounds of the outbox of one RM."""

from typing import NamedTuple


class OutboxBounds(NamedTuple):
    """Sizes of an outbox, in bytes, at which something happens."""

    high: int = 8 * 1024 * 1024
    """Above it the RM is not scheduled."""
    low: int = 2 * 1024 * 1024
    """Below it the RM is scheduled again."""
    cap: int = 64 * 1024 * 1024
    """Above it all messages are dropped, and the RM has to register again."""

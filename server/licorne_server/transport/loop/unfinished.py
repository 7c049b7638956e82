"""Bounds the memory of incomplete messages of peers without a certificate.

Until the first message of a call is complete, its caller is known at most by a token. Its bytes are in memory
for up to `bounds.first_message`; bytes of later messages of unauthenticated peers may stay without a time
limit. So all these bytes are bounded, for each host and in total. Above the bound, calls are dropped from the
connection with incomplete messages for the longest time: of that host, or of the host with the most bytes.
"""

from collections.abc import Callable
from typing import Protocol

from licorne_server.wire.caps import MAX_MESSAGE_BYTES

TOTAL, EACH = 16 * MAX_MESSAGE_BYTES, 4 * MAX_MESSAGE_BYTES
"""Maximum number of bytes of all hosts together, and of one host."""

SHORT = MAX_MESSAGE_BYTES
"""Maximum number of bytes of all hosts together while memory is short."""


class Holder(Protocol):
    """A connection with incomplete messages."""

    def drop_unfinished(self, reason: str) -> None:
        """End the calls with an incomplete message, for this reason."""
        ...


class Unfinished:
    """Bytes of incomplete messages, by host and connection."""

    def __init__(self, is_short: Callable[[], object]) -> None:
        """Start without bytes; `is_short` is true while memory is short."""
        self.total = 0
        self._is_short = is_short
        # The connections of each host with their bytes, the oldest first.
        self._holders: dict[str, dict[Holder, int]] = {}
        self._sizes: dict[str, int] = {}

    def count(self, host: str, holder: Holder, size: int) -> None:
        """Set the bytes of a connection of a host, and drop calls if a bound is exceeded."""
        holders = self._holders.setdefault(host, {})
        more = size - holders.get(holder, 0)
        self.total += more
        self._sizes[host] = self._sizes.get(host, 0) + more
        if size:
            holders[holder] = size
        else:
            holders.pop(holder, None)
        if not holders:
            del self._holders[host], self._sizes[host]
        if more > 0:
            self.drop(host)

    def drop(self, host: str = "") -> None:
        """Drop calls until the bounds are met: of the host whose bytes have grown, and of all hosts."""
        while self._sizes.get(host, 0) > EACH:
            self._drop_oldest(host, f"at most {EACH} bytes of messages of one host may be unfinished")
        most = SHORT if self._is_short() else TOTAL
        while self.total > most:
            host = max(self._sizes, key=self._sizes.__getitem__)
            self._drop_oldest(host, f"at most {most} bytes of messages may be unfinished now")

    def _drop_oldest(self, host: str, reason: str) -> None:
        holder = next(iter(self._holders[host]))
        self.count(host, holder, 0)
        holder.drop_unfinished(reason)

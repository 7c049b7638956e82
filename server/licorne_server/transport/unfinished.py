"""Messages that are not whole, of peers without a certificate: how much memory they may take.

Nothing is known of a call before its first message is whole but, perhaps, its token. Until then its bytes
are in memory, for up to `--first-message`; those of later messages of strangers for as long as they like. So
they are bounded, for each host and in total. Beyond that the connection that has had some for longest loses
the calls that they belong to: of the host, or of the host with most.
"""

from collections.abc import Callable
from typing import Protocol

from licorne_server.wire.caps import MAX_MESSAGE_BYTES

TOTAL, EACH = 16 * MAX_MESSAGE_BYTES, 4 * MAX_MESSAGE_BYTES
"""Bytes of all hosts together, and of one."""

SHORT = MAX_MESSAGE_BYTES
"""Bytes of all hosts together while memory is short."""


class Holder(Protocol):
    """A connection."""

    def drop_unfinished(self, reason: str) -> None:
        """End the calls with such a message."""
        ...


class Unfinished:
    """Bytes of such messages, by host and connection."""

    def __init__(self, is_short: Callable[[], object]) -> None:
        """None yet; `is_short` is true while memory is short."""
        self.total = 0
        self._is_short = is_short
        # Those of each host, the oldest first.
        self._holders: dict[str, dict[Holder, int]] = {}
        self._sizes: dict[str, int] = {}

    def count(self, host: str, holder: Holder, size: int) -> None:
        """Count what a connection of a host has now, and drop what is too much."""
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
        """Drop what is too much: of a host that has more than it had, and of all."""
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

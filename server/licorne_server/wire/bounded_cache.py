"""What is remembered of what somebody sent, bounded by the bytes that it takes.

Sharing equal parts makes many messages cheap. But whoever sends parts that are never equal must not
fill the memory with them. A bound on their number is not enough: an entry of nine bytes on the wire
may take two hundred in memory.
"""

from typing import Generic, TypeVar

ENTRY = 200
"""Bytes reckoned for one entry of a table beside its texts: the slot, and the heads of objects."""

LARGEST = 16
"""An entry that takes more than one part in so many of a table is not remembered."""

WIDE = 4
"""Bytes of memory reckoned for a byte of text on the wire: one emoji makes all others so wide."""

KIB = 1024

# The tables of one RM have 8 MiB together.
KINDS_BYTES = 4096 * KIB
CLASSES_BYTES = 512 * KIB
EQUALS_BYTES = 512 * KIB
NAMES_BYTES = 256 * KIB
SHAPES_BYTES = 256 * KIB
NODES_BYTES = 1536 * KIB
APPLICATIONS_BYTES = 512 * KIB
PIECES_BYTES = 256 * KIB
CHECKS_BYTES = 256 * KIB

RESOURCES_BYTES = 1024 * KIB
"""The table of resources in events, which is one for all RMs."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A table that forgets everything once it is full. What is in use is soon there again."""

    __slots__ = ("_most", "entries", "size")

    entries: dict[K, V]
    """What is remembered, to be looked into for each ask. Only `keep` changes it."""
    size: int
    """Bytes that the entries take, as reckoned."""

    def __init__(self, most: int) -> None:
        """An empty table for so many bytes."""
        self.entries = {}
        self.size = 0
        self._most = most

    def keep(self, key: K, value: V, size: int) -> V:
        """Remember a value that is not there; it and its key have so many bytes beside `ENTRY`.

        Returns:
            The value, which may be too large to be remembered.
        """
        size += ENTRY
        if size > self._most // LARGEST:
            return value
        if self.size + size > self._most:
            self.entries.clear()
            self.size = 0
        self.entries[key] = value
        self.size += size
        return value

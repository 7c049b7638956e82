"""Caches of parsed and encoded parts, bounded by their bytes of memory.

Sharing equal parts makes many messages cheap. But a sender of parts that are never equal must not
fill the memory. A bound on their number is not enough: an entry of nine bytes on the wire may take
two hundred in memory.
"""

from typing import Generic, TypeVar

ENTRY = 200
"""Estimated bytes of an entry without its texts: the slot and the headers of objects."""

LARGEST = 16
"""Divisor of a table's bound: an entry larger than this share is not cached."""

WIDE = 4
"""Estimated bytes of memory for a byte of text on the wire: with an emoji, every character takes four."""

KIB = 1024

# The tables of one RM have 8 MiB in total.
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
"""Bound of the table of resources in events, which is shared by all RMs."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A table that drops all entries once it is full. Entries that are in use are soon cached again."""

    __slots__ = ("_most", "entries", "size")

    entries: dict[K, V]
    """The cached values, for lookups. Only `put` may change the mapping."""
    size: int
    """Estimated bytes of the entries."""

    def __init__(self, most: int) -> None:
        """Start empty, with a bound of `most` bytes."""
        self.entries = {}
        self.size = 0
        self._most = most

    def put(self, key: K, value: V, size: int) -> V:
        """Cache a new value; the value and its key take `size` bytes in addition to `ENTRY`.

        Returns:
            The value, which may be too large to be cached.
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

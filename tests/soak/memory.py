"""Whether the memory of a server stays flat while it does the same again and again."""

from collections.abc import Sequence

RATIO = 1.15
"""The last tenth may have so many times the memory of the third one."""
THIRD = 3
"""After so many tenths, what is bounded has reached its bound."""
MIB = 1024 * 1024


def growth(rss: Sequence[int]) -> float:
    """The memory of the last reading as a multiple of the third one."""
    return rss[-1] / rss[THIRD - 1]


def is_flat(rss: Sequence[int]) -> bool:
    """Whether the memory, in bytes after each tenth, has stayed within the ratio."""
    return growth(rss) <= RATIO

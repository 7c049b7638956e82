"""Large acts, done in slices: no other RM waits for the end of one (DESIGN § 2).

A command that would end very many things at once ends some of them, and leaves the others to its
rest, which its caller hands in again. The books are consistent after each slice.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


class Slice:
    """How many applications, requests and nodes may still end before the rest has to wait."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """So many."""
        self.left = most

    @property
    def is_spent(self) -> bool:
        """Whether no more may end in this slice."""
        return self.left <= 0

    def end(self) -> None:
        """Nothing more may end in this slice."""
        self.left = 0

    def take(self, items: Iterable[T]) -> list[T]:
        """The first of these, no more than may end; they are counted."""
        taken = list(islice(items, max(0, self.left)))
        self.left -= len(taken)
        return taken

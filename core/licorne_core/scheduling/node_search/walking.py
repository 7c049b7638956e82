"""Walks over very many things, in parts of which each is one step of something larger."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

PART = 8
"""Nodes that count as much as a queue does (`partitions/jobs.py`)."""


def parts_of(things: Iterable[T]) -> Iterator[list[T]]:
    """The things in order, `PART` at a time. Nothing may be added or taken away meanwhile."""
    rest = iter(things)
    while part := list(islice(rest, PART)):
        yield part

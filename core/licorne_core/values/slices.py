"""Slices of large work: their sizes, and long lists walked or put in order part by part.

Others have their turns between two slices. The switches may not change a decision: the tests run the same
worlds with each of them off.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`node_index`: heaps of nodes by ask class. `parking`: blocked asks wait for their blocker."""

    node_index: bool = True
    parking: bool = True
    fill_work: int = 4_000
    """Most work of one search for a class's nodes, in units of about a microsecond."""
    slice_size: int = 500
    """Applications, requests and nodes that may end at once: a few milliseconds of work."""
    timeout_size: int = 500
    """Most requests that a deadline may stop or drop at once. The turns of others come between, so
    the order of turns depends on it. So worlds are not played with another one.
    """


T = TypeVar("T")

RUN = 500
"""Items that are looked at and put in order in one go."""

PART = 8
"""Looks at items that cost as much as a step of a job (`partitions/jobs.py`)."""


def parts_of(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, `PART` at a time. Nothing may be added or taken away meanwhile."""
    rest = iter(items)
    while part := list(islice(rest, PART)):
        yield part


def in_runs(
    items: Iterable[T],
    key: Callable[[T], Any] | None = None,
    fits: Callable[[T], bool] | None = None,
) -> Iterator[T | None]:
    """The items that fit, or all, the smallest first.

    Before the first there is a None wherever the reader may pause, one for each `RUN` of the items.
    Without a `key` they are ordered by themselves.
    """
    runs: list[list[T]] = []
    for _ in _fill(runs, items, key, fits):
        yield None
    yield from merge(*runs, key=key)  # type: ignore[arg-type]


def put_in_order(
    items: Iterable[T],
    key: Callable[[T], Any] | None = None,
    fits: Callable[[T], bool] | None = None,
) -> Generator[int, None, Iterator[T]]:
    """Steps of a job that puts items in order as `in_runs` does; yield costs, return the items."""
    runs: list[list[T]] = []
    for looks in _fill(runs, items, key, fits):
        yield looks // PART
    return merge(*runs, key=key)  # type: ignore[arg-type]


def _fill(
    runs: list[list[T]],
    items: Iterable[T],
    key: Callable[[T], Any] | None,
    fits: Callable[[T], bool] | None,
) -> Iterator[int]:
    """Put each run in order; yield the number of items looked at."""
    rest = iter(items)
    while part := list(islice(rest, RUN)):
        runs.append(sorted(part if fits is None else filter(fits, part), key=key))  # type: ignore[type-var,arg-type]
        yield len(part)

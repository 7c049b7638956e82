"""Slices of large work: their sizes, and long lists that are read or sorted in parts.

Other partitions have their turns between two slices. The sizes must not affect decisions: tests run the same
worlds with slices of one step.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes of slices."""

    fill_work: int = 4_000
    """Maximum work of one search for the nodes of a class, in units of about a microsecond."""
    slice_size: int = 500
    """Maximum number of applications, requests and nodes that end in one slice, a few milliseconds of work.

    It affects decisions only while a change of shared quotas has not yet counted all members.
    """
    inspection_time: float = 1.0
    """Seconds from a change to the scan for asks that fit no node (spec § 8.12).

    Only reports of a lack of nodes need the scan, so simulations run it seldom.
    """
    timeout_size: int = 500
    """Maximum number of requests that a deadline stops or drops in one slice.

    Unlike the other settings it affects the order of turns, so all tests with random worlds use this value.
    """


T = TypeVar("T")

RUN = 500
"""Number of items that are filtered and sorted without a pause."""

PART = 8
"""Number of items whose examination costs as much as one step of a job (`partitions/jobs.py`)."""


def parts_of(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, `PART` at a time. `items` must not change in the meantime."""
    rest = iter(items)
    while part := list(islice(rest, PART)):
        yield part


def in_runs(
    items: Iterable[T], key: Callable[[T], Any] | None = None, fits: Callable[[T], bool] | None = None
) -> Iterator[T | None]:
    """The items for which `fits` is True, or all items, sorted by `key` or by themselves.

    Before the first item, a None marks each possible pause: one for each `RUN` of items.
    """
    runs: list[list[T]] = []
    for _ in _fill(runs, items, key, fits):
        yield None
    yield from merge(*runs, key=key)  # type: ignore[arg-type]


def put_in_order(
    items: Iterable[T], key: Callable[[T], Any] | None = None, fits: Callable[[T], bool] | None = None
) -> Generator[int, None, Iterator[T]]:
    """Steps of a job that sorts items like `in_runs`. Yields the costs, and returns the sorted items."""
    runs: list[list[T]] = []
    for looks in _fill(runs, items, key, fits):
        yield looks // PART
    return merge(*runs, key=key)  # type: ignore[arg-type]


def _fill(
    runs: list[list[T]], items: Iterable[T], key: Callable[[T], Any] | None, fits: Callable[[T], bool] | None
) -> Iterator[int]:
    """Append a sorted list for each run of items; yield the number of items in the run."""
    rest = iter(items)
    while part := list(islice(rest, RUN)):
        runs.append(sorted(part if fits is None else filter(fits, part), key=key))  # type: ignore[type-var,arg-type]
        yield len(part)

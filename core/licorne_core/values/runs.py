"""Long lists walked or put in order part by part, so that others have their turns in between."""

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

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

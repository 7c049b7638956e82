"""Long lists put in order part by part, so that others may have their turn in between."""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

RUN = 500
"""Items that are looked at and put in order in one go."""


def in_runs(
    items: Iterable[T],
    key: Callable[[T], Any] | None = None,
    fits: Callable[[T], bool] | None = None,
) -> Iterator[T | None]:
    """The items that fit, or all, the smallest first.

    Before the first there is a None wherever the reader may pause, one for each `RUN` of the items.
    Without a `key` they are ordered by themselves.
    """
    rest = iter(items)
    runs: list[list[T]] = []
    while part := list(islice(rest, RUN)):
        runs.append(sorted(part if fits is None else filter(fits, part), key=key))  # type: ignore[type-var,arg-type]
        yield None
    yield from merge(*runs, key=key)  # type: ignore[arg-type]

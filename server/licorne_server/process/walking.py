"""Reads of long lists in time slices: other tasks run between two slices."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")

Slices = Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]
"""Gives time slices, such as those of `TimeSlices` for one peer."""


async def walked(steps: Iterable[T | None], slices: Slices) -> list[T]:
    """Run all steps in slices; returns their results that are not None."""
    given: list[T] = []
    rest, more = iter(steps), True
    while more:
        async with slices() as over:
            more = _walk(rest, given, over)
    return given


def _walk(steps: Iterator[T | None], given: list[T], over: Callable[[], bool]) -> bool:
    """Run steps until the slice is over; return True if there may be more."""
    for one in steps:
        if one is not None:
            given.append(one)
        if over():
            return True
    return False

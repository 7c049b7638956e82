"""Long readings in slices of time: between two of them others have their turn."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")

Slices = Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]
"""Gives time slices, such as those of `TimeSlices` for one peer."""


async def walked(steps: Iterable[T | None], slices: Slices) -> list[T]:
    """Take all steps in slices; returns what they gave that is not None."""
    given: list[T] = []
    rest, more = iter(steps), True
    while more:
        async with slices() as over:
            more = _walk(rest, given, over)
    return given


def _walk(steps: Iterator[T | None], given: list[T], over: Callable[[], bool]) -> bool:
    """Take steps until the slice is over; returns True if there may be more."""
    for one in steps:
        if one is not None:
            given.append(one)
        if over():
            return True
    return False

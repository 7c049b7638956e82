"""Work that is done part by part, driven without a loop, and counted."""

import sys
from asyncio import Lock
from collections.abc import Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from licorne_server.wire.framing import Pace

T = TypeVar("T")


def pace() -> Pace:
    """The pace of a message that is alone."""
    return Pace(Lock())


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that waits for nothing but its turns."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result


def stretches(work: Coroutine[Any, Any, Any], *errors: type[Exception]) -> list[int]:
    """How many lines of Python run between any two turns that the work gives to others.

    It may end with one of the errors.
    """
    counts: list[int] = []

    def trace(_: FrameType, event: str, __: Any) -> Any:
        counts[-1] += event == "line"
        return trace

    before = sys.gettrace()
    try:
        with suppress(StopIteration, *errors):
            while True:
                counts.append(0)
                sys.settrace(trace)
                work.send(None)
                sys.settrace(before)
    finally:
        sys.settrace(before)
    return counts

"""Work in steps: run to its end, driven without a loop, and counted.

Promises about cost are about work, and not about time.
"""

import sys
from asyncio import Lock
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

import licorne_core
from licorne_server.wire.framing import Pace

T = TypeVar("T")


def last(steps: Iterable[T | None]) -> T:
    """The result of the steps."""
    (made,) = [made for made in steps if made is not None]
    return made


def listed(steps: Iterable[T | None]) -> list[T]:
    """The items yielded by the steps, in order."""
    return [made for made in steps if made is not None]


CORE = str(Path(licorne_core.__file__).parent)


def lines_in(work: Callable[[], object], *modules: ModuleType) -> Counter[str]:
    """The number of lines run in each function of the modules during the work.

    The modules have to run from their source: such a test is marked `pure`.
    """
    files = {module.__file__ for module in modules}
    return counted(work, files.__contains__)


def lines_of_core(work: Callable[[], object]) -> int:
    """The number of lines of the core run during the work; such a test is marked `pure`."""
    return counted(work, lambda file: file.startswith(CORE)).total()


def counted(work: Callable[[], object], counts: Callable[[str], bool]) -> Counter[str]:
    """The number of lines run in files that `counts` accepts, by the name of their function."""
    lines: Counter[str] = Counter()
    counts = cache(counts)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        lines[frame.f_code.co_name] += event == "line"
        return trace

    def choose(frame: FrameType, event: str, _: Any) -> Any:
        return trace if counts(frame.f_code.co_filename) else None

    before = sys.gettrace()
    sys.settrace(choose)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def pace() -> Pace:
    """The pace of a message that has no competitors."""
    return Pace(Lock())


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that waits only for its turns."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result


def stretches(work: Coroutine[Any, Any, Any], *errors: type[Exception]) -> list[int]:
    """The numbers of lines of Python between consecutive turns of other tasks.

    The work may end with one of the errors.
    """
    counts: list[int] = []
    lines = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return trace

    before = sys.gettrace()
    try:
        with suppress(StopIteration, *errors):
            while True:
                lines = 0
                sys.settrace(trace)
                work.send(None)
                sys.settrace(before)
                counts.append(lines)
    finally:
        sys.settrace(before)
    return [*counts, lines]

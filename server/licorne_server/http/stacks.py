"""Stacks of all tasks and threads of the process, as text."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

Place = tuple[str, int, str]
"""File, line and function."""

NAMES = 5
"""Waiting tasks named for one place, at most."""

DEEPEST = 100
"""Frames shown of one stack, at most."""


def stacks() -> Iterator[str]:
    """The text in pieces: tasks first, grouped by the place where they wait; then threads.

    The places of tasks are gathered first, with an empty piece for each. A task has the place of
    the moment at which it is looked at.
    """
    together: dict[tuple[Place, ...], list[str]] = {}
    for task in asyncio.all_tasks():
        if not task.done():
            together.setdefault(tuple(_awaited(task.get_coro())), []).append(task.get_name())
        yield ""
    for where, names in sorted(together.items(), key=lambda item: (-len(item[1]), item[1][0])):
        more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
        kind = "task" if len(names) == 1 else "tasks"
        yield f"{len(names)} {kind}: {', '.join(sorted(names)[:NAMES])}{more}\n{_lines(where)}\n"
    known = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {known.get(ident, ident)}\n{_lines(called(frame))}\n"


def called(frame: FrameType | None) -> Iterator[Place]:
    """The places of a stack, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back


def _awaited(coroutine: Any) -> Iterator[Place]:
    """The place of a coroutine, and of the coroutines it awaits, the outermost first."""
    for _ in range(DEEPEST):
        for kind in ("cr", "ag", "gi"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
                coroutine = getattr(coroutine, f"{kind}_await", None) or getattr(
                    coroutine, f"{kind}_yieldfrom", None
                )
                break
        else:
            return


def _lines(places: Any) -> str:
    shown = [f"    {name} at {file}:{line}\n" for file, line, name in places]
    more = [f"    and {len(shown) - DEEPEST} more\n"] if len(shown) > DEEPEST else []
    return "".join([*shown[:DEEPEST], *more])

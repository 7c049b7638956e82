"""The state of the process itself, for operators, under the older core's paths (spec § 12.4).

Also here:

* Stacks of all tasks and threads of the process, as text.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from aiohttp import web

from licorne_server.http.sources import Sources
from licorne_server.http.stream import reader_of, send, send_bytes, sliced

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


TEXT = "text/plain; charset=utf-8"

MOVED = {
    "/ws/v1/stack": "/debug/stack",
    "/ws/v1/fullstatedump": "/debug/fullstatedump",
}
"""Older paths, and where they lead."""

INDEX = """\
/debug/pprof/goroutine  what every task and thread is doing, as /debug/stack has it
/debug/pprof/cmdline    the command line, its words ended by zero bytes
"""
OF_GO = ("allocs", "block", "heap", "mutex", "profile", "symbol", "threadcreate", "trace")
"""Profiles that Go's runtime makes. Python's makes none of them."""


class DebugReads:
    """The paths below ``debug`` but for the state dump, and the older names of some of them."""

    def __init__(self, sources: Sources) -> None:
        """Texts are made in the time slices of readers."""
        self._time_slices = sources.time_slices

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        return [
            web.get("/debug/stack", self.stack),
            web.get("/debug/pprof/goroutine", self.stack),
            web.get("/debug/pprof", self.index),
            web.get("/debug/pprof/", self.index),
            web.get("/debug/pprof/cmdline", self.command_line),
            *(web.get(f"/debug/pprof/{name}", self.of_go) for name in OF_GO),
            *(web.get(path, self.moved) for path in MOVED),
        ]

    async def moved(self, request: web.Request) -> web.StreamResponse:
        """Redirect an older path."""
        query = f"?{request.query_string}" if request.query_string else ""
        raise web.HTTPMovedPermanently(MOVED[request.path] + query)

    async def stack(self, request: web.Request) -> web.StreamResponse:
        """Stacks of all tasks and threads."""
        return await send(request, TEXT, sliced(stacks(), self._time_slices, reader_of(request)))

    async def index(self, request: web.Request) -> web.StreamResponse:
        """List of the profiles."""
        return await send_bytes(request, TEXT, INDEX.encode())

    async def command_line(self, request: web.Request) -> web.StreamResponse:
        """Command line of the process."""
        words = b"\0".join(word.encode(errors="replace") for word in sys.orig_argv)
        return await send_bytes(request, TEXT, words)

    async def of_go(self, request: web.Request) -> web.StreamResponse:
        """Refuse a profile of Go's runtime."""
        name = request.path.rpartition("/")[2]
        raise web.HTTPNotImplemented(
            text=f"{name} is a profile of Go's runtime, and this is a Python process: "
            "see /debug/pprof/ for what there is; py-spy shows where it spends its time"
        )

"""What the process itself is doing, for operators, under the older core's paths (spec § 12.4)."""

import asyncio
import sys
import threading

from aiohttp import web

from licorne_server.http.profile import sampled
from licorne_server.http.sources import Sources
from licorne_server.http.stacks import stacks
from licorne_server.http.stream import reader_of, send, send_bytes, sliced

TEXT = "text/plain; charset=utf-8"
USUAL_SECONDS, MOST_SECONDS = 30, 60
"""How long a profile takes, and may take."""

MOVED = {
    "/ws/v1/stack": "/debug/stack",
    "/ws/v1/fullstatedump": "/debug/fullstatedump",
}
"""Older paths, and where they lead."""

INDEX = """\
/debug/pprof/profile?seconds=30  where the threads are, 100 times a second, as pprof reads it
/debug/pprof/goroutine           what every task and thread is doing, as /debug/stack has it
/debug/pprof/cmdline             the command line, its words ended by zero bytes
"""
OF_GO = ("allocs", "block", "heap", "mutex", "symbol", "threadcreate", "trace")
"""Profiles that Go's runtime keeps. Python's keeps none of them."""


class DebugReads:
    """The paths below ``debug`` but for the state dump, and the older names of some of them."""

    def __init__(self, sources: Sources) -> None:
        """The share is that of all readers."""
        self._share = sources.share
        self._profiling = False

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        return [
            web.get("/debug/stack", self.stack),
            web.get("/debug/pprof/goroutine", self.stack),
            web.get("/debug/pprof", self.index),
            web.get("/debug/pprof/", self.index),
            web.get("/debug/pprof/cmdline", self.command_line),
            web.get("/debug/pprof/profile", self.profile),
            *(web.get(f"/debug/pprof/{name}", self.of_go) for name in OF_GO),
            *(web.get(path, self.moved) for path in MOVED),
        ]

    async def moved(self, request: web.Request) -> web.StreamResponse:
        """Where an older path leads."""
        query = f"?{request.query_string}" if request.query_string else ""
        raise web.HTTPMovedPermanently(MOVED[request.path] + query)

    async def stack(self, request: web.Request) -> web.StreamResponse:
        """What every task and thread is doing."""
        return await send(request, TEXT, sliced(stacks(), self._share, reader_of(request)))

    async def index(self, request: web.Request) -> web.StreamResponse:
        """Which profiles there are."""
        return await send_bytes(request, TEXT, INDEX.encode())

    async def command_line(self, request: web.Request) -> web.StreamResponse:
        """How the process was started."""
        words = b"\0".join(word.encode(errors="replace") for word in sys.orig_argv)
        return await send_bytes(request, TEXT, words)

    async def profile(self, request: web.Request) -> web.StreamResponse:
        """A profile of `seconds`; one at a time."""
        seconds = _seconds(request.query.get("seconds", ""))
        if request.method == "HEAD":
            return web.Response(content_type="application/octet-stream")
        if self._profiling:
            raise web.HTTPServiceUnavailable(text="a profile is being made already")
        self._profiling, stop = True, threading.Event()
        try:
            body = await asyncio.to_thread(sampled, seconds, stop)
        finally:
            self._profiling = False
            # Whoever has gone away waits for nothing any more.
            stop.set()
        return web.Response(body=body, content_type="application/octet-stream")

    async def of_go(self, request: web.Request) -> web.StreamResponse:
        """What there cannot be here."""
        name = request.path.rpartition("/")[2]
        raise web.HTTPNotImplemented(
            text=f"{name} is a profile of Go's runtime, and this is a Python process: "
            "see /debug/pprof/ for what there is"
        )


def _seconds(text: str) -> int:
    """How long a profile is to take.

    Raises:
        HTTPBadRequest: it is no whole number, or out of range.
    """
    if not text:
        return USUAL_SECONDS
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_SECONDS))
    if not (is_number and 1 <= int(text) <= MOST_SECONDS):
        raise web.HTTPBadRequest(
            text=f'"seconds" must be a whole number from 1 to {MOST_SECONDS}: {text[:64]!r}'
        )
    return int(text)

"""The state of the process itself, for operators, under the older core's paths (spec § 12.4)."""

import sys

from aiohttp import web

from licorne_server.http.sources import Sources
from licorne_server.http.stacks import stacks
from licorne_server.http.stream import reader_of, send, send_bytes, sliced

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

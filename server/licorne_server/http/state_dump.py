"""The state dump under its newer and its older path (spec § 12.5)."""

from aiohttp import web

from licorne_server.http.dumps import DumpInProgress, StateDumps
from licorne_server.http.stream import reader_of, send

JSON = "application/json; charset=utf-8"


class DumpReads:
    """Answers with the document of `StateDumps`. Its older path leads to it (`debug.py`)."""

    def __init__(self, dumps: StateDumps) -> None:
        """There is one dump at a time, over gRPC as well."""
        self._dumps = dumps

    def routes(self) -> list[web.RouteDef]:
        """The only path."""
        return [web.get("/debug/fullstatedump", self.dump)]

    async def dump(self, request: web.Request) -> web.StreamResponse:
        """The state of all RMs, or of the one that `rm` names."""
        try:
            async with self._dumps.dump(request.query.get("rm", ""), reader_of(request)) as chunks:
                return await send(request, JSON, chunks)
        except DumpInProgress as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None

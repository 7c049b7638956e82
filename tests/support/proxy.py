"""A TCP proxy that a test can cut, stop and point elsewhere: the network's bad day."""

import asyncio
from types import TracebackType
from typing import Self

ACCEPTING_TURNS = 3
"""Turns of the loop after which what was accepted has come to whoever serves it."""


class Proxy:
    """Listens on a free port of loopback and passes everything on to `upstream`."""

    def __init__(self, upstream: str = "") -> None:
        """`upstream` is ``host:port``; without one connections are refused at once."""
        self.upstream = upstream
        self.target = ""
        self.connections = 0
        """How many connections were made so far."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and cut what there is."""
        assert self._server is not None
        self._server.close()
        # A connection that was accepted just now would be left open.
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        await self.cut()

    async def cut(self) -> None:
        """Break all connections off, without a word to either side."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        # A transport that was aborted closes in the next turn.
        await asyncio.sleep(0)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._pass(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # A task that is cancelled before its first step ends without closing anything.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            host, _, port = self.upstream.rpartition(":")
            if host:
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                writers.append(far_writer)
                both = (self._copy(reader, far_writer), self._copy(far_reader, writer))
                async with asyncio.TaskGroup() as group:
                    for copy in both:
                        group.create_task(copy)
        except* OSError:
            pass
        finally:
            for one in writers:
                one.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed")

"""A TCP proxy that a test can cut, hold and redirect: a simulated network failure."""

import asyncio
from collections import Counter
from types import TracebackType
from typing import Self

ACCEPTING_TURNS = 3
"""Turns of the loop after which an accepted connection has reached its handler."""

CHUNK = 65536
"""Bytes that are passed on at once."""

SIDES = ("rm", "server")
"""Whom data may go to."""


class Relay:
    """Listens on a free port of loopback and passes everything on to `upstream`."""

    def __init__(self, upstream: str = "") -> None:
        """`upstream` is ``host:port``; without one connections are refused at once."""
        self.upstream = upstream
        """Target of new connections; it may be changed."""
        self.target = ""
        """``host:port`` that it listens on."""
        self.connections = 0
        """Number of connections so far."""
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
        # A connection that was accepted just now would be left open by a server that is closed.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        self._server.close()
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
                both = (
                    self._copy(reader, far_writer, "server"),
                    self._copy(far_reader, writer, "rm"),
                )
                async with asyncio.TaskGroup() as group:
                    for copy in both:
                        group.create_task(copy)
        except* OSError:
            pass
        finally:
            for one in writers:
                one.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, towards: str) -> None:
        """Pass on what comes, `towards` one of `SIDES`. Raises OSError when the line breaks."""
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed")


class Proxy(Relay):
    """A relay that can be held, and cut in the middle of its traffic.

    Give its `target` to the RM in place of the server's.
    """

    def __init__(self, upstream: str = "") -> None:
        """As for a relay."""
        super().__init__(upstream)
        self.flowing = asyncio.Event()
        """Set; while it is cleared nothing is passed on, and nothing is lost."""
        self.flowing.set()
        # By side: after how many bytes towards it a connection is cut.
        self._left: Counter[str] = Counter()

    def cut_after(self, count: int, *, towards: str = "rm") -> None:
        """Break off the connection that carries the byte of this number, counted from now on.

        `towards` is ``rm`` for bytes of the server, ``server`` for bytes of the RM. So a stream is
        cut in the middle, and the next connection is whole. Raises ValueError for another side, and
        for a count below 1.
        """
        if towards not in SIDES:
            raise ValueError(f"towards is {towards!r}: it must be one of {', '.join(SIDES)}")
        if count < 1:
            raise ValueError(f"count is {count}: it must be 1 or more")
        self._left[towards] = count

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, towards: str) -> None:
        while data := await reader.read(CHUNK):
            await self.flowing.wait()
            left = self._left[towards]
            writer.write(data[:left] if left else data)
            await writer.drain()
            if left:
                self._left[towards] = max(0, left - len(data))
                if len(data) >= left:
                    raise ConnectionResetError("cut after so many bytes")
        raise ConnectionResetError("one side has closed")

"""A TCP proxy that a test can cut, hold and redirect: a simulated network failure."""

import asyncio
from collections import Counter
from types import TracebackType
from typing import Self

from licorne_server.testing.serving import Served, gone_from, listen_at, served_at

ACCEPTING_TURNS = 3
"""Rounds of the loop after which an accepted connection has reached its handler."""

CHUNK = 65536
"""Maximum number of bytes that are forwarded in one step."""

SIDES = ("rm", "server")
"""Receivers of data."""


class Relay:
    """Listens on a free port of loopback and forwards all data to `upstream`, and back."""

    def __init__(self, upstream: str = "") -> None:
        """`upstream` is ``host:port``; if empty, connections are refused immediately."""
        self.upstream = upstream
        """Target of new connections; may be changed."""
        self.target = ""
        """``host:port`` of the listening port."""
        self.connections = 0
        """Number of connections so far."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        listen_at(self.target, self._behind)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening, and cut all connections."""
        assert self._server is not None
        gone_from(self.target)
        # Close the sockets first: a closed server would leave open a connection that was just accepted.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        await self.cut()

    def _behind(self) -> Served | None:
        """The server behind the target; None if it is not in this process."""
        return served_at(self.upstream)

    async def cut(self) -> None:
        """Break off all connections, without notice to either side."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        # An aborted transport closes in the next round of the loop.
        await asyncio.sleep(0)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._pass(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # A task that is cancelled before its first step ends without closing its transport.
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
        """Forward data towards one of `SIDES`. Raises OSError if the connection breaks."""
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed")


class Proxy(Relay):
    """A relay that can be held, and cut in the middle of its traffic.

    The RM connects to the `target` of the proxy instead of the server's address.
    """

    def __init__(self, upstream: str = "") -> None:
        """`upstream` is that of `Relay`."""
        super().__init__(upstream)
        self.flowing = asyncio.Event()
        """Set by default; while it is cleared nothing is forwarded, but nothing is lost."""
        self.flowing.set()
        # Remaining bytes before the cut, by receiver.
        self._left: Counter[str] = Counter()

    def cut_after(self, count: int, *, towards: str = "rm") -> None:
        """Break off the connection that carries the byte with this number, counted from now on.

        `towards` is ``rm`` for bytes to the RM, ``server`` for bytes to the server. The stream is cut in the
        middle; later connections are not cut. Raises ValueError for another receiver, and for a count below
        1.
        """
        if towards not in SIDES:
            raise ValueError(f"towards is {towards!r}: it must be one of {', '.join(SIDES)}")
        if count < 1:
            raise ValueError(f"count is {count}: it must be 1 or more")
        self._left[towards] = count

    def _behind(self) -> Served | None:
        return super()._behind() if self.flowing.is_set() else None

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

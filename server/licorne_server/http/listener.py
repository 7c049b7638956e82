"""One address of the HTTP server, with TLS or without."""

import asyncio

from aiohttp import web

from licorne_server.http.door import BACKLOG, Door

STOP_SECONDS = 3.0
"""Seconds that answers under way may take once the server stops."""


class Listener:
    """An application on an address."""

    def __init__(self, app: web.Application, door: Door, idle: float) -> None:
        """Admit connections by the door; a request's head may take `idle` seconds."""
        self._door = door
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            # It counts for the head of the first request as well.
            keepalive_timeout=idle,
        )
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns host and port. For port 0 it is any free one.

        Raises:
            OSError: listening on the address is refused.
        """
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._door.before(server), host, port, backlog=BACKLOG, reuse_port=False
            )
        except OSError:
            await self._runner.cleanup()
            raise
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Take no more requests, give those under way a moment, and close."""
        if self._server is not None:
            self._server.close()
        self._door.close()
        await self._runner.cleanup()

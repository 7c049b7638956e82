"""The state of a server for its supervisor: `grpc.health.v1.Health`, and the probes over HTTP."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne_server.reads.sources import Status
from licorne_server.transport.aio import Transport

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Probes:
    """Reports the same over gRPC, for the server and for each service, and over HTTP."""

    status: Status
    """The report over HTTP."""

    def __init__(self) -> None:
        """Report that the server starts."""
        self.status = Status()
        self._servicer = health.aio.HealthServicer()
        self._services: tuple[str, ...] = ("",)
        self._tasks: set[asyncio.Task[None]] = set()

    def add_to(self, server: Transport, services: Sequence[str]) -> None:
        """Report over this server too, for these services."""
        self._services = ("", *services)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report that the server is ready."""
        await self._set_all(_SERVING)
        self.status.started = True

    async def draining(self) -> None:
        """Report that the server is about to stop."""
        self.status.draining = True
        await self._servicer.enter_graceful_shutdown()

    def stalled(self, reason: str) -> None:
        """Report a stall; empty: its end. This returns before watchers over gRPC know.

        A server that failed or drains is not ready after the end of a stall either.
        """
        self.status.stall = reason
        self._spawn(self._set_all(_NOT_SERVING if reason else _SERVING))

    def failed(self, reason: str) -> None:
        """Report that only a restart will help."""
        self.status.failure = reason
        self._spawn(self._servicer.enter_graceful_shutdown())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set_all(self, status: int) -> None:
        for service in self._services:
            await self._servicer.set(service, status)

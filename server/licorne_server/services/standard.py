"""The standard services of gRPC: health and reflection."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import grpc
from grpc_health.v1 import (  # type: ignore[import-untyped]
    health,
    health_pb2,
    health_pb2_grpc,
)
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

_SERVING = health_pb2.HealthCheckResponse.SERVING


class StandardHealth:
    """`grpc.health.v1.Health`: one entry for the server, one for each service."""

    def __init__(self, services: Sequence[str]) -> None:
        """Report NOT_SERVING until `serving`."""
        self._servicer = health.aio.HealthServicer()
        self._services = ("", *services)
        self._telling: set[asyncio.Task[None]] = set()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report SERVING for every service."""
        await self._set_all(_SERVING)

    def stalled(self) -> None:
        """Report NOT_SERVING until `well`. This returns before watchers know."""
        self._tell(health_pb2.HealthCheckResponse.NOT_SERVING)

    def well(self) -> None:
        """Report SERVING for every service again, unless it failed or drains."""
        self._tell(_SERVING)

    def failed(self) -> None:
        """Report NOT_SERVING for ever."""
        self._keep(self.draining())

    def _tell(self, status: int) -> None:
        self._keep(self._set_all(status))

    def _keep(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _set_all(self, status: int) -> None:
        for service in self._services:
            await self._servicer.set(service, status)

    async def draining(self) -> None:
        """Report NOT_SERVING for ever."""
        await self._servicer.enter_graceful_shutdown()


def add_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Publish the list of services to clients."""
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)

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
        """Not serving until `serving`."""
        self._servicer = health.aio.HealthServicer()
        self._services = ("", *services)
        self._telling: set[asyncio.Task[None]] = set()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Say that everything is served."""
        await self._set_all(_SERVING)

    def stalled(self) -> None:
        """Say that nothing is served, until `well`. This returns before watchers know."""
        self._tell(health_pb2.HealthCheckResponse.NOT_SERVING)

    def well(self) -> None:
        """Say that everything is served again, unless it is known that it never will be."""
        self._tell(_SERVING)

    def failed(self) -> None:
        """Say that nothing is served any more; this is not taken back."""
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
        """Say that nothing is served any more; this is not taken back."""
        await self._servicer.enter_graceful_shutdown()


def add_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Publish the list of services to clients."""
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)

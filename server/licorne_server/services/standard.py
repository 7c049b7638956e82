"""The standard services of gRPC: health and reflection."""

from collections.abc import Sequence

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

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Say that everything is served."""
        for service in self._services:
            await self._servicer.set(service, _SERVING)

    async def draining(self) -> None:
        """Say that nothing is served any more; this is not taken back."""
        await self._servicer.enter_graceful_shutdown()


def add_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Tell clients what can be called."""
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)

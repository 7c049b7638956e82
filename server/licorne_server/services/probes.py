"""The state of a server for its supervisor: `grpc.health.v1.Health`, and the probes over HTTP."""

import asyncio
from collections.abc import Sequence

from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne_server.reads.findings import of_status
from licorne_server.reads.sources import Status
from licorne_server.reads.verdict import SERVER, is_ready
from licorne_server.transport.interface import Transport


class Probes:
    """Reports the same state over gRPC, for the server and for each service, and over HTTP."""

    status: Status
    """The state from which all probes are answered."""

    def __init__(self) -> None:
        """Report that the server starts."""
        self.status = Status()
        self._servicer = health.aio.HealthServicer()
        self._services: tuple[str, ...] = ("",)
        self._tasks: set[asyncio.Task[None]] = set()

    def add_to(self, server: Transport, services: Sequence[str]) -> None:
        """Serve the health service on this gRPC server too, for these services."""
        self._services = ("", *services)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report that the server is ready."""
        self.status.started = True
        await self._publish()

    async def draining(self) -> None:
        """Report that the server is about to stop."""
        self.status.draining = True
        await self._publish()

    def stalled(self, reason: str) -> None:
        """Report a stall, or its end with an empty reason. Watchers over gRPC are notified later."""
        self.status.stall = reason
        self._publish_soon()

    def failed(self, reason: str, concern: str = SERVER) -> None:
        """Report a failure that only a restart will mend, with the concern of its finding."""
        self.status.failure, self.status.failed = reason, concern
        self._publish_soon()

    def _publish_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._publish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self) -> None:
        """Answer over gRPC by the same findings as over HTTP."""
        answers = health_pb2.HealthCheckResponse
        status = answers.SERVING if is_ready(of_status(self.status)) else answers.NOT_SERVING
        for service in self._services:
            await self._servicer.set(service, status)

"""Schedulers on a control plane: the shim with Licorne, the shim with the older core, and kube-scheduler."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from licorne_tools.bench.driver import Progress
from licorne_tools.bench.etcd import free_ports
from licorne_tools.kube.plane import Plane, says
from licorne_tools.kube.processes import Program
from licorne_tools.kube.programs import OLDER_SHIM, SCHEDULER, SHIM, built

LICORNE = "licorne"
NAMESPACE = "yunikorn"
"""Namespace of the shim and of its config maps."""
STARTED = "scheduler state initialized"
"""Log message of both shims once they have received the state of the cluster."""


class SchedulerKind(Enum):
    """The schedulers, with their names in commands."""

    LICORNE = "licorne"
    OLDER = "older"
    KUBE = "kube"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A running scheduler.

    Attributes:
        name: the `schedulerName` of its pods.
        programs: names of its programs, the server before the shim.
        target: `HOST:PORT` of Licorne's gRPC server; empty for other schedulers.
        page: the address of Licorne's HTTP server; empty for other schedulers.
    """

    kind: SchedulerKind
    name: str
    programs: Sequence[str]
    target: str = ""
    page: str = ""

    def cpu_seconds(self, plane: Plane) -> float:
        """CPU seconds of the scheduler's programs so far."""
        return sum(map(plane.processes.cpu_seconds, self.programs))

    async def stop(self, plane: Plane) -> None:
        """End its programs, the shim before the server."""
        for name in reversed(self.programs):
            await plane.processes.stop(name)


async def begin(
    plane: Plane,
    kind: SchedulerKind,
    *,
    kubeconfig: Path | None = None,
    environment: Mapping[str, str] | None = None,
    serve: Sequence[str] = (),
    progress: Progress | None = None,
) -> Scheduler:
    """Start a scheduler on a control plane, whose end also ends the scheduler.

    `kubeconfig` is for the scheduler's account; None for the administrator's. `environment` is for a shim,
    and `serve` has options of Licorne's server.

    Raises:
        BenchError: a program cannot be built, or does not start.
    """
    config = kubeconfig or plane.kubeconfig
    if kind is SchedulerKind.KUBE:
        return await _kube_scheduler(plane, config, progress)
    name = SHIM if kind is SchedulerKind.LICORNE else OLDER_SHIM
    program = (await asyncio.to_thread(built, [name], progress))[name]
    settings = {"NAMESPACE": NAMESPACE, "KUBECONFIG": str(config)}
    target = page = ""
    servers: tuple[str, ...] = ()
    if kind is SchedulerKind.LICORNE:
        target, page = await _serve(plane, serve)
        settings["LICORNE_TARGET"] = target
        servers = (LICORNE,)
    ready = partial(plane.processes.has_logged, name, STARTED)
    shim = Program(name, [str(program)], ready, {**settings, **(environment or {})})
    try:
        await plane.processes.start(shim)
    except BaseException:
        try:
            await plane.processes.stop(name)
        finally:
            for server in servers:
                await plane.processes.stop(server)
        raise
    return Scheduler(kind=kind, name="yunikorn", programs=(*servers, name), target=target, page=page)


async def _serve(plane: Plane, options: Sequence[str]) -> tuple[str, str]:
    """Start Licorne's server; returns its addresses for gRPC and for a browser."""
    grpc, http = (f"127.0.0.1:{port}" for port in free_ports(2))
    command = [
        sys.executable,
        "-P",
        "-m",
        "licorne_server",
        "serve",
        "--listen",
        grpc,
        "--http",
        http,
        *options,
    ]
    await plane.processes.start(Program(LICORNE, command, partial(says, f"http://{http}/readyz", "")))
    return grpc, f"http://{http}"


async def _kube_scheduler(plane: Plane, kubeconfig: Path, progress: Progress | None) -> Scheduler:
    program = (await asyncio.to_thread(built, [SCHEDULER], progress))[SCHEDULER]
    [port] = free_ports(1)
    command = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # A limit above what the API server can handle; the shim has 1,000 requests per second.
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
    ]
    await plane.processes.start(
        Program(SCHEDULER, command, partial(says, f"https://127.0.0.1:{port}/readyz", "ok"))
    )
    return Scheduler(kind=SchedulerKind.KUBE, name="default-scheduler", programs=(SCHEDULER,))

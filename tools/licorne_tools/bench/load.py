"""Common parts of loads: a registered RM, a meter of time and CPU, and the form of results."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import grpc

from licorne.si.v1.si_pb2 import AddApplicationRequest, NodeInfo
from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.commands.server_process import ServerProcess, cpu_seconds
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, BenchRm, Progress
from licorne_tools.bench.installation import HERE, Installation
from licorne_tools.bench.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Elapsed seconds, and CPU seconds of the server and of this process, its client."""

    seconds: float
    server: float
    client: float

    @property
    def server_core_percent(self) -> float:
        """CPU of the server as a share of one core."""
        return self.server / self.seconds * 100

    @property
    def client_core_percent(self) -> float:
        """CPU of the client as a share of one core."""
        return self.client / self.seconds * 100


class Meter:
    """Measures time and CPU from its creation on."""

    def __init__(self, pid: int) -> None:
        """Start to measure; the server is the process `pid`."""
        self._pid = pid
        self._server = cpu_seconds(pid)
        self._client = time.process_time()
        self._start = time.perf_counter()

    def read(self) -> Cost:
        """The elapsed seconds and CPU seconds since the creation."""
        seconds = time.perf_counter() - self._start
        return Cost(
            seconds=seconds,
            server=cpu_seconds(self._pid) - self._server,
            client=time.process_time() - self._client,
        )


RM = "bench"
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run. `idle_seconds` is the time for which an idle server is measured.

    With `bare`, bare servers are measured too, to find the limits of the transport. `progress` is updated
    during the run.
    """

    idle_seconds: float
    profile: Path | None = None
    installation: Installation = HERE
    bare: bool = True
    progress: Progress = UNSEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load: raw AllocationResponses, number of allocations, seconds, and further measures.

    `cost` is the cost of the whole load, which may take longer than the counted allocations. `requests` are
    the messages for an echo; without them no echo is measured.
    """

    responses: list[bytes]
    allocations: int
    seconds: float
    cost: Cost
    requests: list[bytes] = field(default_factory=list)
    extra: Mapping[str, float] = field(default_factory=dict)


@asynccontextmanager
async def joined(
    target: str,
    scenario: Scenario,
    rm_id: str = RM,
    progress: Progress = UNSEEN,
    *,
    config: str = "",
    extra: Mapping[str, str] | None = None,
    nodes: Iterable[NodeInfo] | None = None,
    applications: Iterable[AddApplicationRequest] | None = None,
) -> AsyncIterator[BenchRm]:
    """An RM with the configuration, nodes and applications of the scenario, or with those given."""
    async with BenchRm(target, rm_id, scenario.batch, progress) as rm:
        await rm.register(config or workload.configuration(scenario), extra)
        await rm.add_nodes(workload.nodes(scenario) if nodes is None else nodes)
        await rm.add_applications(workload.applications(scenario) if applications is None else applications)
        yield rm


async def timed(
    server: ServerProcess,
    work: Awaitable[list[bytes]],
    allocations: int,
    progress: Progress = UNSEEN,
    **extra: float,
) -> LoadResult:
    """Measure `work`, which places `allocations` allocations and returns the raw responses."""
    progress.step("placing", of=allocations)
    meter = Meter(server.pid)
    responses = await work
    cost = meter.read()
    return LoadResult(
        responses=responses,
        allocations=allocations,
        seconds=cost.seconds,
        cost=cost,
        extra=extra,
    )


async def pending(server: ServerProcess, expected: int) -> None:
    """Wait until the server has `expected` pending asks."""
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub = StateStub(channel)
        while True:
            response = await stub.ListPartitions(ListPartitionsRequest(rm_id=RM))
            if sum(partition.pending_asks for partition in response.partitions) == expected:
                return
            await asyncio.sleep(POLL_SECONDS)


def percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds, and the number of samples."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"{name}_p50_ms": ordered[last // 2] * 1000,
        f"{name}_p99_ms": ordered[ceil(last * 0.99)] * 1000,
        f"{name}_samples": len(ordered),
    }

"""The workers benchmark: the cost of allocations with several workers.

The workers of a supervisor are its child processes. Their CPU is read from the kernel's clocks.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from licorne_server.assembly.workers.supervisor import STORE
from licorne_server.commands.serve_workers import SETTINGS
from licorne_server.commands.server_process import ServerProcess, cpu_seconds, running_server
from licorne_server.process.coordination import worker_name
from licorne_tools.bench.driver import UNSEEN, Progress, limited
from licorne_tools.bench.flood import flooded, flooding
from licorne_tools.bench.scenarios import Scenario

LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker's process, and the socket of its store."""

    name: str
    pid: int
    store: Path


def workers_of(supervisor: int) -> list[WorkerProcess]:
    """The running workers of a supervisor, from the kernel's files (Linux)."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    found = [_worker(int(pid)) for pid in children]
    return sorted((worker for worker in found if worker is not None), key=lambda worker: worker.name)


def _worker(pid: int) -> WorkerProcess | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except FileNotFoundError:
        return None
    # The last argument is the path of the worker's settings file, `NUMBER.settings` beside the sockets.
    file = Path(next((word for word in words if word.endswith(SETTINGS)), ""))
    return WorkerProcess(worker_name(int(file.stem)), pid, file.parent / STORE) if file.suffix else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU seconds of the workers, the busiest first, and of their supervisor."""

    workers: Sequence[float]
    supervisor: float


class WorkersMeter:
    """Measures a supervisor and its workers from its creation on, or a server without workers."""

    def __init__(self, server: ServerProcess) -> None:
        """Record the CPU seconds that the processes have already used."""
        pids = [worker.pid for worker in workers_of(server.pid)]
        self._supervisor = server.pid if pids else 0
        self._begun = {pid: cpu_seconds(pid) for pid in [*pids, server.pid]}
        self._pids = pids or [server.pid]

    def read(self) -> Spent:
        """CPU seconds used since the creation of the meter."""
        spent = {pid: cpu_seconds(pid) - begun for pid, begun in self._begun.items()}
        supervisor = spent.get(self._supervisor, 0.0)
        return Spent(workers=sorted((spent[pid] for pid in self._pids), reverse=True), supervisor=supervisor)


async def shared(workers: int, rms: int, scenario: Scenario, progress: Progress = UNSEEN) -> dict[str, float]:
    """Run `rms` RMs with the same scenario concurrently on `workers` workers, each RM in its own process.

    Returns the measures by name.

    Raises:
        BenchError: the server fails.
        ServerFailed: the server does not start, or ends early.
    """
    async with limited(LIMIT_SECONDS), AsyncExitStack() as stack:
        progress.step(f"starting {workers} workers")
        running = running_server(more=("--workers", str(workers)))
        server = await stack.enter_async_context(running)
        progress.step("registering", of=rms)
        floods = []
        for number in range(rms):
            flood = flooding(server.target, f"rm-{number}", scenario)
            floods.append(await stack.enter_async_context(flood))
            progress.advance()
        meter = WorkersMeter(server)
        progress.step("placing", of=rms * scenario.pods)
        start = perf_counter()
        done = await asyncio.gather(*map(flooded, floods))
        seconds = perf_counter() - start
        spent = meter.read()
    allocations = sum(one.allocations for one in done)
    cpu = sum(spent.workers) + spent.supervisor
    return {
        "allocations": allocations,
        "seconds": seconds,
        "allocations_per_second": allocations / seconds,
        "cpu_us_per_allocation": cpu / allocations * 1e6,
        "client_cpu_us_per_allocation": sum(one.cpu for one in done) / allocations * 1e6,
        "supervisor_cpu_seconds": spent.supervisor,
        **{f"worker_{place}_cpu_seconds": each for place, each in enumerate(spent.workers, 1)},
        # With one core for each worker, the busiest worker would limit the rate.
        "with_a_core_each_per_second": allocations / spent.workers[0],
    }

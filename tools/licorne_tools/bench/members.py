"""Benches of workers: the cost of allocations over several, and the time without an owner after a death.

The workers of a supervisor are its children. Their CPU is read from the kernel's clocks, and their owner
of an RM from their store.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from time import perf_counter

from licorne import Application, Ask, Client, Node
from licorne.events import Allocated
from licorne_core.values.ids import RmId
from licorne_server.commands.server_process import ServerProcess, cpu_seconds, running_server
from licorne_server.coordination.local import LocalStore
from licorne_server.coordination.options import read_coordination
from licorne_server.coordination.store import Snapshot
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, Progress, limited
from licorne_tools.bench.flood import flooded, flooding
from licorne_tools.bench.scenarios import Scenario

LIMIT_SECONDS = 600.0
LIMIT_OF_ONE = 120.0
"""Seconds until all workers serve again, and until an RM has an owner again, at most."""

POLL_SECONDS = 0.05
RM = "bench"


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's process, and the address of its store as an option has it."""

    name: str
    pid: int
    store: str


def workers_of(supervisor: int) -> list[Worker]:
    """The workers of a supervisor that run, from the kernel's files (Linux)."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    found = [_worker(int(pid)) for pid in children]
    return sorted((worker for worker in found if worker is not None), key=lambda worker: worker.name)


def _worker(pid: int) -> Worker | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except FileNotFoundError:
        return None
    # The last of equal options counts.
    options = dict(pairwise(words))
    name = options.get("--member-name", "")
    return Worker(name, pid, options["--coordination"]) if name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU seconds of the workers, the busiest first, and of their supervisor."""

    workers: Sequence[float]
    supervisor: float


class Meter:
    """Measures a supervisor and its workers from its creation on. Without workers it is the server."""

    def __init__(self, server: ServerProcess) -> None:
        """Begin to measure."""
        pids = [worker.pid for worker in workers_of(server.pid)]
        self._supervisor = server.pid if pids else 0
        self._begun = {pid: cpu_seconds(pid) for pid in [*pids, server.pid]}
        self._pids = pids or [server.pid]

    def read(self) -> Spent:
        """CPU so far."""
        spent = {pid: cpu_seconds(pid) - begun for pid, begun in self._begun.items()}
        supervisor = spent.get(self._supervisor, 0.0)
        return Spent(workers=sorted((spent[pid] for pid in self._pids), reverse=True), supervisor=supervisor)


async def shared(workers: int, rms: int, scenario: Scenario, progress: Progress = UNSEEN) -> dict[str, float]:
    """So many RMs with the same scenario at the same time, each from a process, on so many workers.

    Returns the measures by name.

    Raises:
        BenchError: the server fails at its task.
        ServerFailed: it does not start, or ends.
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
        meter = Meter(server)
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
        "supervisor_cpu_seconds": spent.supervisor,
        **{f"worker_{place}_cpu_seconds": each for place, each in enumerate(spent.workers, 1)},
        # With a core for each worker the busiest one ends last.
        "with_a_core_each_per_second": allocations / spent.workers[0],
    }


async def failover(
    workers: int, kills: int, scenario: Scenario, progress: Progress = UNSEEN
) -> dict[str, float]:
    """Kill the worker that owns an RM, so many times; the RM has all the scenario's allocations.

    A time is that from the kill to the first new allocation of the RM. Returns the measures by name.

    Raises:
        BenchError: the server fails at its task.
        ServerFailed: it does not start, or ends.
    """
    progress.step(f"starting {workers} workers")
    async with running_server(more=("--workers", str(workers))) as server:
        config = workload.configuration(scenario)
        async with limited(LIMIT_SECONDS), Client(server.target, rm_id=RM, config=config) as client:
            rm = _Rm(client, scenario, progress)
            async with rm.listening():
                await rm.fill()
                progress.step("killing owners", of=kills)
                seconds = []
                for number in range(kills):
                    seconds.append(await _one(server.pid, workers, rm, f"after-{number}"))
                    progress.advance()
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "kills": kills,
        "failover_p50_ms": ordered[last // 2] * 1000,
        "failover_p99_ms": ordered[ceil(last * 0.99)] * 1000,
        "failover_worst_ms": ordered[-1] * 1000,
    }


async def _one(supervisor: int, workers: int, rm: "_Rm", key: str) -> float:
    """Kill the owner once all workers are there; seconds until the RM has another allocation."""
    async with limited(LIMIT_OF_ONE, failure="no owner that can be killed after"):
        owner = await _owner(supervisor, workers)
    os.kill(owner, signal.SIGKILL)
    start = perf_counter()
    async with limited(LIMIT_OF_ONE, failure="no allocation after"):
        await rm.place(key)
    return perf_counter() - start


async def _owner(supervisor: int, count: int) -> int:
    """The process that owns the RM, as soon as all workers are members."""
    while True:
        workers = {worker.name: worker for worker in workers_of(supervisor)}
        if len(workers) == count:
            snapshot = await _snapshot(next(iter(workers.values())).store)
            record = snapshot.rms.get(RmId(RM))
            owner = None if record is None else snapshot.members.get(record.owner)
            if owner is not None and {member.name for member in snapshot.members.values()} == set(workers):
                return workers[owner.name].pid
        await asyncio.sleep(POLL_SECONDS)


async def _snapshot(store: str) -> Snapshot:
    """What the store has now."""
    opened = LocalStore(read_coordination(store))
    try:
        async with aclosing(opened.watch()) as snapshots:  # type: ignore[type-var]
            return await anext(snapshots)
    finally:
        await opened.close()


class _Rm:
    """An RM with Licorne's own client, which comes back by itself."""

    def __init__(self, client: Client, scenario: Scenario, progress: Progress) -> None:
        """Nothing is sent before `fill`."""
        self._client = client
        self._scenario = scenario
        self._progress = progress
        self._placed: set[str] = set()
        self._more = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Note allocations during the block."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()

    async def fill(self) -> None:
        """Have all allocations of the scenario."""
        scenario = self._scenario
        vcore, memory = workload.LARGEST
        room = 2 * scenario.pods_per_node
        capacity = {"vcore": vcore * room, "memory": memory * room}
        await self._client.add_nodes(
            Node(node_id=workload.node_name(number), capacity=capacity) for number in range(scenario.nodes)
        )
        names = list(workload.app_names(scenario))
        await self._client.submit_applications(
            Application(application_id=name, queue=f"root.{queue}", user=workload.user_name(0))
            for queue, name in names
        )
        keys = [f"ask-{number}" for number in range(scenario.pods)]
        self._progress.step("filling", of=len(keys))
        await self._client.ask(self._asks(keys))
        await self._until(set(keys))

    async def place(self, key: str) -> None:
        """Have one more allocation, and give it back."""
        await self._client.ask(self._asks([key]))
        await self._until({key})
        await self._client.release([key])

    def _asks(self, keys: Sequence[str]) -> Iterator[Ask]:
        names = [name for _, name in workload.app_names(self._scenario)]
        for number, key in enumerate(keys):
            application_id = names[number % len(names)]
            yield Ask(key=key, application_id=application_id, resources={"vcore": 10, "memory": 1024 * 1024})

    async def _until(self, keys: set[str]) -> None:
        while not keys <= self._placed:
            self._more.clear()
            await self._more.wait()

    async def _listen(self) -> None:
        async for events in self._client.batches():
            placed = [event.key for event in events if isinstance(event, Allocated)]
            self._placed.update(placed)
            self._progress.advance(len(placed))
            self._more.set()

"""The failover benchmark: the time without an owner after the owner of an RM was killed.

There are two kinds of deployments: workers of a supervisor, which notices a death immediately, and members
that share an etcd, where the lease has to expire first.
"""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from math import ceil
from time import perf_counter

from licorne import Application, Ask, Client, Node
from licorne.events import Allocated
from licorne_core.values.ids import RmId
from licorne_server.commands.server_process import ServerFailed, ServerProcess, running_server
from licorne_server.commands.settings.tables import KEYS
from licorne_server.process.coordination import Coordination, read_coordination
from licorne_server.services.admin.members import Drain
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.local import LocalStore
from licorne_server.store.coordination.ownership import DRAIN
from licorne_server.store.coordination.store import Snapshot, Store
from licorne_server.store.documents.encoding import encode
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, Progress, limited
from licorne_tools.bench.etcd import running_etcd
from licorne_tools.bench.members import workers_of
from licorne_tools.bench.scenarios import Scenario

LIMIT_SECONDS = 600.0
LIMIT_OF_ONE = 240.0
"""Maximum number of seconds until all members serve again, and until an RM has an owner again."""

POLL_SECONDS = 0.05
GLANCE_SECONDS = 0.002
"""Seconds between two reads of the client's counters: the precision of measured times."""

RM = "bench"
DOOR = "door"
"""The member to which the RM connects. It is drained, so it never owns an RM."""

STAGES = ("welcome", "replayed", "failover")
"""The measured times, all since the kill: until the next owner's welcome, the end of the replay, and the
first new allocation."""


class Deployment(ABC):
    """Members of which one owns the RM."""

    target: str
    """The address to which the RM connects."""

    @abstractmethod
    async def running(self) -> Mapping[str, int]:
        """The processes of the members that may own the RM, by name; empty while one is missing."""

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """The current state of the store."""

    @abstractmethod
    async def revive(self, name: str) -> None:
        """Start a killed member again."""

    async def kill_owner(self) -> str:
        """Kill the owner of the RM once all members have joined; returns its name."""
        async with limited(LIMIT_OF_ONE, failure="no owner that can be killed after"):
            while True:
                name, process = await self._owner()
                if process:
                    os.kill(process, signal.SIGKILL)
                    return name
                await asyncio.sleep(POLL_SECONDS)

    async def _owner(self) -> tuple[str, int]:
        """The owner and its process id; 0 while there is no owner, or a member is missing."""
        running = await self.running()
        snapshot = await self.snapshot() if running else Snapshot()
        record = snapshot.rms.get(RmId(RM))
        owner = None if record is None else snapshot.members.get(record.owner)
        names = [member.name for member in snapshot.members.values() if member.name != DOOR]
        if owner is None or sorted(names) != sorted(running):
            return "", 0
        return owner.name, running.get(owner.name, 0)


class Workers(Deployment):
    """The workers of a supervisor."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        """Use `count` workers as the members."""
        self.target = server.target
        self._supervisor = server.pid
        self._count = count

    async def running(self) -> Mapping[str, int]:
        """The workers; empty while not all of them run."""
        workers = workers_of(self._supervisor)
        return {worker.name: worker.pid for worker in workers} if len(workers) == self._count else {}

    async def snapshot(self) -> Snapshot:
        """The state of the store that the workers share."""
        store = workers_of(self._supervisor)[0].store
        opened = LocalStore(Coordination(backend="local", hosts=(str(store),)))
        try:
            return await first(opened)
        finally:
            await opened.close()

    async def revive(self, name: str) -> None:
        """Do nothing: the supervisor restarts a killed worker."""


class MembersWithEtcd(Deployment):
    """Servers that share an etcd, and one more to which the RM connects."""

    def __init__(self, url: str, processes: AsyncExitStack) -> None:
        """Use the store at `url`; started servers end with `processes`."""
        self._url = url
        self._processes = processes
        self._store = EtcdStore(read_coordination(url))
        self._pids: dict[str, int] = {}

    async def start(self, count: int) -> None:
        """Start the member to which RMs connect, and `count` others."""
        self._processes.push_async_callback(self._store.close)
        await self._store.compare_and_set(f"{DRAIN}{DOOR}", encode(Drain("bench")), 0)
        self.target = (await self._start(DOOR)).target
        for number in range(1, count + 1):
            await self.revive(f"member-{number}")

    async def running(self) -> Mapping[str, int]:
        """The members by name."""
        return self._pids

    async def snapshot(self) -> Snapshot:
        """The state of the store in etcd."""
        return await first(self._store)

    async def revive(self, name: str) -> None:
        """Start a server under the name of the killed one."""
        self._pids[name] = (await self._start(name)).pid

    async def _start(self, name: str) -> ServerProcess:
        more = ("--coordination", self._url)
        running = running_server(more=more, variables={KEYS["coordination.name"].variable: name})
        server = await running.__aenter__()

        async def end() -> None:
            # The context manager of a killed server raises an error.
            with suppress(ServerFailed):
                await running.__aexit__(None, None, None)

        self._processes.push_async_callback(end)
        return server


async def first(store: Store) -> Snapshot:
    """The current state of a store: the first snapshot that a watch yields."""
    async with aclosing(store.watch()) as snapshots:  # type: ignore[type-var]
        return await anext(snapshots)


@asynccontextmanager
async def workers(count: int) -> AsyncIterator[Deployment]:
    """A supervisor with `count` workers."""
    async with running_server(more=("--workers", str(count))) as server:
        yield Workers(server, count)


@asynccontextmanager
async def members(count: int) -> AsyncIterator[Deployment]:
    """An etcd, `count` members that share it, and one more to which the RM connects.

    Raises:
        BenchError: etcd is not installed, or does not start.
    """
    async with running_etcd() as etcd, AsyncExitStack() as processes:
        deployment = MembersWithEtcd(f"etcd://{etcd}/bench", processes)
        await deployment.start(count)
        yield deployment


async def failover(
    store: str, count: int, kills: int, scenario: Scenario, progress: Progress = UNSEEN
) -> dict[str, float]:
    """Kill the owner of an RM `kills` times; the RM has all the scenario's allocations.

    With the store `local` the members are workers of a supervisor, otherwise servers that share an etcd.
    Returns the measures by name, in milliseconds from the kill.

    Raises:
        BenchError: the server fails, or etcd is not installed.
        ServerFailed: the server does not start, or ends early.
    """
    progress.step(f"starting {count} members")
    async with (workers if store == "local" else members)(count) as deployment:
        config = workload.configuration(scenario)
        async with limited(LIMIT_SECONDS), Client(deployment.target, rm_id=RM, config=config) as client:
            rm = _Rm(client, scenario, progress)
            async with rm.listening():
                await rm.fill()
                progress.step("killing owners", of=kills)
                times = []
                for number in range(kills):
                    times.append(await _one(deployment, rm, f"after-{number}"))
                    progress.advance()
    measures: dict[str, float] = {"kills": kills}
    for name, seconds in zip(STAGES, zip(*times, strict=True), strict=True):
        ordered = sorted(seconds)
        last = len(ordered) - 1
        measures[f"{name}_p50_ms"] = ordered[last // 2] * 1000
        measures[f"{name}_p99_ms"] = ordered[ceil(last * 0.99)] * 1000
        measures[f"{name}_worst_ms"] = ordered[-1] * 1000
    return measures


async def _one(deployment: Deployment, rm: "_Rm", key: str) -> Sequence[float]:
    """Kill the owner once all members have joined; returns the seconds until each of `STAGES`."""
    rm.mark()
    name = await deployment.kill_owner()
    start = perf_counter()

    async def since(wait: Awaitable[None]) -> float:
        await wait
        return perf_counter() - start

    async with limited(LIMIT_OF_ONE, failure="no allocation after"):
        times = await asyncio.gather(*map(since, (rm.welcomed(), rm.replayed(), rm.place(key))))
    await rm.give_back(key)
    await deployment.revive(name)
    return times


class _Rm:
    """An RM with Licorne's own client, which reconnects by itself."""

    def __init__(self, client: Client, scenario: Scenario, progress: Progress) -> None:
        """Create the RM; nothing is sent before `fill`."""
        self._client = client
        self._scenario = scenario
        self._progress = progress
        self._placed: set[str] = set()
        self._more = asyncio.Event()
        self._before = replace(client.stats)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Record allocations during the block."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()

    async def fill(self) -> None:
        """Ask for all allocations of the scenario, and wait for them."""
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

    def mark(self) -> None:
        """Let `welcomed` and `replayed` wait for events after this call."""
        self._before = replace(self._client.stats)

    async def welcomed(self) -> None:
        """Wait for the next welcome."""
        while self._client.stats.welcomed == self._before.welcomed:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(GLANCE_SECONDS)

    async def replayed(self) -> None:
        """Wait for the end of the next replay."""
        while self._client.stats.replayed == self._before.replayed:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(GLANCE_SECONDS)

    async def place(self, key: str) -> None:
        """Ask for one more allocation, and wait for it."""
        await self._client.ask(self._asks([key]))
        await self._until({key})

    async def give_back(self, key: str) -> None:
        """Release an allocation."""
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

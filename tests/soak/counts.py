"""A soak by count: allocations, applications, reconnects, reloads, and RMs that register and leave.

The work is a number of equal rounds. After each tenth of them both sides are compared, and the memory of the
server is read.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.request import urlopen

from licorne_server.commands.server_process import ServerProcess, running_server
from licorne_server.testing import Proxy
from soak.rm import SMALL, SoakRm, compare
from support.patience import PATIENCE

ROUNDS = 500
APPLICATIONS = 10
"""New applications in a round."""
ASKS = 100
"""Allocations of each application."""
RECONNECTS = 2
GUESTS = 2
"""RMs that register and leave in a round."""
NODES = 10
NODE_VCORE = 100_000
GUEST_NODE_VCORE = 1_000
LOST = 5
"""Asks in flight when a connection is cut."""
TENTHS = 10
RATIO = 1.15
"""The maximum of the memory after the last tenth, as a multiple of that after the third."""
THIRD = 3
"""The number of tenths after which bounded data has reached its bound."""
MIB = 1024 * 1024

QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: work
            properties: {{number: "{number}"}}
            limits: [{{limit: users, users: ["*"], maxresources: {{vcore: 100M}}}}]
          - name: small
            resources: {{max: {{vcore: 100m}}}}
          - name: of-{number}
  - name: part-{number}
    queues: [{{name: root, submitacl: "*", queues: [{{name: work}}]}}]
"""


def configuration(number: int) -> str:
    """A configuration with a queue and a partition that no other one has."""
    return QUEUES.format(number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The work done so far, and the memory of the server after it."""

    rounds: int
    allocations: int
    reconnects: int
    rss: int
    """The resident memory in bytes."""


class Soak:
    """A server in a separate process, and its load."""

    def __init__(self, server: ServerProcess, crowd: SoakRm, commuter: SoakRm, proxy: Proxy) -> None:
        """`crowd` has most of the work; the connection of `commuter` goes through the proxy."""
        self._server = server
        self._crowd = crowd
        self._commuter = commuter
        self._proxy = proxy
        self._round = 0
        self._kept: list[str] = []
        """Applications of the previous round, which still run."""

    async def begin(self) -> None:
        """Create the permanent objects: nodes, and asks without room."""
        for rm in (self._crowd, self._commuter):
            await rm.add_nodes([f"node-{n}" for n in range(NODES)], NODE_VCORE)
            await rm.submit(["waits"], SMALL)
            await rm.ask("waits", ["waits-1", "waits-2"])
            await rm.until(lambda rm=rm: len(rm.running) == 1, "the first")  # type: ignore[misc]
        await self._commuter.submit(["stays"])

    async def round(self) -> None:
        """Run all parts of one round concurrently."""
        self._round += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            group.create_task(self._reload())
            group.create_task(self._commute())
            group.create_task(self._host())

    async def _work(self) -> None:
        """Run new applications, end those of the previous round, and replace one node."""
        rm, number = self._crowd, self._round
        new = [f"app-{number}-{n}" for n in range(APPLICATIONS)]
        await rm.submit(new)
        for app_id in new:
            await rm.ask(app_id, [f"{app_id}-{n}" for n in range(ASKS)])
        placed = (number * APPLICATIONS * ASKS) + 1
        await rm.until(lambda: rm.placed >= placed, "allocations")
        await self._end(rm, self._kept)
        await rm.add_nodes([f"spare-{number}"], NODE_VCORE)
        await rm.remove_node(f"spare-{number}")
        self._kept = new

    @staticmethod
    async def _end(rm: SoakRm, applications: list[str]) -> None:
        """Release all allocations of these applications, and remove them."""
        keys = [f"{app_id}-{n}" for app_id in applications for n in range(ASKS)]
        await rm.release(keys)
        await rm.until(lambda: rm.running.keys().isdisjoint(keys), "releases")
        await rm.remove(applications)

    async def _reload(self) -> None:
        await self._crowd.client.update_configuration(configuration(self._round))

    async def _commute(self) -> None:
        """Cut the connection while asks, or their releases, are in flight."""
        rm, client = self._commuter, self._commuter.client
        for n in range(RECONNECTS):
            keys = [f"lost-{self._round}-{n}-{m}" for m in range(LOST)]
            before = client.stats.resumed + client.stats.replayed
            await rm.ask("stays", keys)
            await self._proxy.cut()
            await rm.until(lambda keys=keys: rm.running.keys() >= set(keys), "allocations")  # type: ignore[misc]
            await rm.until(
                lambda before=before: client.stats.resumed + client.stats.replayed > before,  # type: ignore[misc]
                "the connection",
            )
            await rm.release(keys)
            await rm.until(lambda keys=keys: rm.running.keys().isdisjoint(keys), "releases")  # type: ignore[misc]

    async def _host(self) -> None:
        """Register new RMs, which run an allocation and unregister."""
        for n in range(GUESTS):
            name = f"guest-{self._round}-{n}"
            async with SoakRm(self._server.target, name, configuration(n)) as guest:
                await guest.add_nodes(["node"], GUEST_NODE_VCORE)
                await guest.submit(["app"])
                await guest.ask("app", ["key"])
                await guest.all_run()
                await guest.close(unregister=True)

    async def reading(self) -> Reading:
        """Compare both sides, then read the server's memory."""
        for rm in (self._crowd, self._commuter):
            await compare(rm, self._server.target)
        url = f"http://{self._server.http}/metrics"
        await asyncio.to_thread(lambda: urlopen(url, timeout=PATIENCE).read())
        stats = self._commuter.client.stats
        return Reading(
            rounds=self._round,
            allocations=self._crowd.placed,
            # The first replay is that of the first connection.
            reconnects=stats.resumed + stats.replayed - 1,
            rss=self._server.usage().rss,
        )


async def soak(rounds: int, told: Callable[[Reading], None]) -> list[Reading]:
    """Run this number of rounds; `told` is called with the reading after each tenth of them.

    Raises:
        SoakFailed: The sides differ, or an expected event is missing.
    """
    readings: list[Reading] = []
    async with (
        running_server(http="127.0.0.1:0") as server,
        Proxy(server.target) as proxy,
        SoakRm(server.target, "crowd", configuration(0)) as crowd,
        SoakRm(proxy.target, "commuter", configuration(0)) as commuter,
    ):
        work = Soak(server, crowd, commuter, proxy)
        await work.begin()
        for done in range(1, rounds + 1):
            await work.round()
            if done * TENTHS // rounds > (done - 1) * TENTHS // rounds:
                readings.append(await work.reading())
                told(readings[-1])
    return readings


def growth(rss: Sequence[int]) -> float:
    """The memory of the last reading as a multiple of the third one."""
    return rss[-1] / rss[THIRD - 1]


def is_flat(rss: Sequence[int]) -> bool:
    """True if the memory, in bytes after each tenth, has stayed within the ratio."""
    return growth(rss) <= RATIO

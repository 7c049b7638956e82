"""Members and their store without faults, for tests of one promise."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.membership import Membership
from licorne_server.store.coordination.store import Member, MemberId, Ownership
from support.coordination.loops import DriftingClock, MemberLoop, Time
from support.coordination.network import Network, Weather
from support.coordination.store import ModelStore, StoreModel

T = TypeVar("T")

LEASE = 6.0
MOST_SECONDS = 60.0
"""The maximum of true time for one call."""


class Node:
    """A member, and its callbacks."""

    def __init__(self, deployment: "Deployment", address: str, spoken: tuple[int, ...]) -> None:
        """Start."""
        self._time = deployment.time
        self.address = address
        clock = DriftingClock(self._time, rate=1.0, start=100.0, skew=0.0)
        # The loop has the methods that members use, but no sockets and threads.
        self.loop = MemberLoop(self._time, clock)  # type: ignore[abstract]
        self.weather = Weather(lost=0.0, late=0.0, slow=0.0, forgotten=0.0, old=0.0)
        self.network = Network(self._time, Random(1), self.weather, deployment.store, self.loop)
        self.store = ModelStore(deployment.store, self.network, self.loop)
        me = Member(id=MemberId(""), name=address, address=address, protocols=spoken, started=self._time.now)
        self.load: dict[RmId, float] = {}
        self.load_fails = False
        """True if the measurement of load fails."""
        self.member = Membership(self.store, me, clock, Random(f"{address} {self._time.now}"), self._measured)
        self.lost: list[RmId] = []
        self.handed_over: list[RmId] = []
        self.drain_seconds = 0.0
        """Duration of `on_lost` and `on_handover`."""
        self.failures = 0
        """The number of times that `on_lost` will fail."""
        self.failed: list[str] = []
        """Failures that only a restart ends."""
        self.member.on_failure = self.failed.append
        self.member.on_lost = self._lost
        self.member.on_handover = self._handed_over
        self.do(self.member.start(address, ""))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Let time pass until the work is done; return its result, or raise its error."""
        tasks: list[asyncio.Task[T]] = []
        self.loop.post(lambda: tasks.append(self.loop.create_task(work)))
        end = self._time.now + MOST_SECONDS
        while not tasks or not tasks[0].done():
            assert self._time.now < end, "this takes too long"
            self._time.run(self._time.now + 0.01)
        return tasks[0].result()

    def take(self, rm_id: str, named: int = 0) -> int | Member:
        """Claim the RM, as if it had sent a request to the member."""
        return self.do(self.member.take(RmId(rm_id), named))

    def _measured(self) -> dict[RmId, float]:
        if self.load_fails:
            raise ZeroDivisionError
        return self.load

    async def _lost(self, rm_id: RmId, reason: str) -> None:
        await asyncio.sleep(self.drain_seconds)
        if self.failures:
            self.failures -= 1
            raise OSError("a stream does not end")
        self.lost.append(rm_id)

    async def _handed_over(self, rm_id: RmId, reason: str) -> None:
        await asyncio.sleep(self.drain_seconds)
        self.handed_over.append(rm_id)


class Deployment:
    """A deployment of some members."""

    def __init__(self, *addresses: str) -> None:
        """Start a member for each address, and let them join."""
        self.time = Time()
        self.store = StoreModel(self.time, Random(2), LEASE, rate=1.0)
        self._nodes: list[Node] = []
        self.nodes = [self.add(address) for address in addresses]

    def add(self, address: str, spoken: tuple[int, ...] = (1,)) -> Node:
        """Start one more member, and let it join."""
        node = Node(self, address, spoken)
        self._nodes.append(node)
        self.pass_time(0.5)
        return node

    def pass_time(self, seconds: float) -> None:
        """Let this number of seconds of true time pass."""
        self.time.run(self.time.now + seconds)

    def record(self, rm_id: str) -> Ownership:
        """The record of an RM."""
        return self.store.snapshot.rms[RmId(rm_id)]

    def close(self) -> None:
        """End all processes."""
        for node in self._nodes:
            node.loop.end()

"""A resource manager with only stubs of `si.v1`, which registers again after each end of a stream."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Self

import grpc

from licorne.si.v1 import si_pb2 as si
from soak.ledger import VCORE, Ledger
from soak.rm import QUEUE
from support.peers.shim import Call, Shim, application, ask, node

RETRY = 0.1
"""Seconds before a new registration after a broken stream."""

OPTIONS = (
    # A server that has stopped is noticed after ten seconds.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class PlainRm(Ledger):
    """One RM over `si.v1`. Its reports and asks follow from its ledger."""

    def __init__(self, target: str, rm_id: str, config: str) -> None:
        """Start without a connection."""
        super().__init__(rm_id)
        self.registrations = 0
        """The number of registrations so far."""
        self._target = target
        self._config = config
        self._removed: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, and wait until it is registered."""
        self._task = self.start(self._run())
        await self.until(lambda: self.registrations > 0, "its registration")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Break off its streams."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def add_nodes(self, node_ids: Iterable[str], vcore: int) -> None:
        """Add nodes of one size."""
        self.add(node_ids, vcore)
        self.changed()

    async def submit(self, application_ids: Iterable[str], queue: str = QUEUE) -> None:
        """Submit applications."""
        self.applications |= dict.fromkeys(application_ids, queue)
        self.changed()

    async def ask(self, application_id: str, keys: Sequence[str]) -> None:
        """Ask for one allocation for each key, which is the application's id followed by a number."""
        assert all(_application(key) == application_id for key in keys)
        self.want(keys)
        self.changed()

    async def release(self, keys: Iterable[str]) -> None:
        """End running allocations; does not wait for the answer."""
        self.end(keys)
        self.changed()

    async def remove(self, application_ids: Iterable[str]) -> None:
        """Remove applications once none of their asks runs or waits."""
        for app_id in application_ids:
            del self.applications[app_id]
            self._removed.add(app_id)
        self.changed()

    def state(self) -> str:
        """The number of its registrations."""
        return f", {self.registrations} registrations"

    async def _run(self) -> None:
        """Register and exchange messages for ever."""
        while True:
            try:
                async with grpc.aio.insecure_channel(self._target, OPTIONS) as channel:
                    await Conversation(self, Shim(channel, self.rm_id)).hold(self._config)
            except* (grpc.aio.AioRpcError, Ended, TimeoutError, asyncio.InvalidStateError):
                # gRPC raises InvalidStateError for a write to a stream that has just ended.
                pass
            await asyncio.sleep(RETRY)

    def removed(self) -> set[str]:
        """The applications that the server has still to remove, and of which no ask remains."""
        busy = {_application(key) for key in (*self.running, *self.waiting)}
        return self._removed - busy


class Ended(Exception):
    """A stream has ended."""


class Conversation:
    """One registration of the RM, with its messages."""

    def __init__(self, rm: PlainRm, shim: Shim) -> None:
        """Start without messages."""
        self._rm = rm
        self._shim = shim
        self._said: set[tuple[str, str]] = set()
        """The sent items, by kind and id."""
        self._heard: set[tuple[str, str]] = set()
        """The accepted items, by kind and id."""
        self._echoes: set[str] = set()
        """Reported allocations that the server has not confirmed."""
        self._news = asyncio.Event()

    async def hold(self, config: str) -> None:
        """Register, replay everything, and continue until a stream ends."""
        await self._shim.register(config)
        self._rm.registrations += 1
        self._rm.changed()
        calls = [self._shim.open(kind) for kind in ("UpdateNode", "UpdateApplication", "UpdateAllocation")]
        hears = (self._hear_nodes, self._hear_applications, self._hear_allocations)
        try:
            async with asyncio.TaskGroup() as group:
                for call, hear in zip(calls, hears, strict=True):
                    group.create_task(self._read(call, hear))
                group.create_task(self._talk(*calls))
        finally:
            for call in calls:
                call.call.cancel()

    async def _read(self, call: Call, hear: Any) -> None:
        while True:
            raw = await call.call.read()
            if raw is grpc.aio.EOF:
                raise Ended
            hear(call.parse(raw))
            self._news.set()
            self._rm.changed()

    async def _talk(self, nodes: Call, applications: Call, allocations: Call) -> None:
        """Send everything that the server lacks and may receive now."""
        rm_id = self._shim.rm_id
        # The first message of a stream names its RM.
        await nodes.send(si.NodeRequest(rmID=rm_id))
        await applications.send(si.ApplicationRequest(rmID=rm_id))
        await allocations.send(si.AllocationRequest(rmID=rm_id))
        while True:
            self._news.clear()
            rm = self._rm
            if new := self._unsaid("node", rm.nodes):
                await nodes.send(
                    si.NodeRequest(rmID=rm_id, nodes=[node(name, vcore=rm.nodes[name]) for name in new])
                )
            if self._all_heard("node", rm.nodes):
                await self._tell_applications(applications)
                await self._tell_allocations(allocations)
            # The ledger reports no new work, so poll soon.
            try:
                async with asyncio.timeout(RETRY):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _tell_applications(self, call: Call) -> None:
        rm = self._rm
        tags = {"application.create.force": "true"}
        new = [
            application(app_id, rm.applications[app_id], tags=tags)
            for app_id in self._unsaid("application", rm.applications)
        ]
        gone = [app_id for app_id in rm.removed() if ("application", app_id) in self._said]
        remove = [
            si.RemoveApplicationRequest(applicationID=app_id, partitionName="default")
            for app_id in gone
            if ("remove", app_id) not in self._said
        ]
        self._said |= {("remove", app_id) for app_id in gone}
        if new or remove:
            await call.send(si.ApplicationRequest(rmID=self._shim.rm_id, new=new, remove=remove))

    async def _tell_allocations(self, call: Call) -> None:
        rm, rm_id = self._rm, self._shim.rm_id
        known = {app_id for kind, app_id in self._heard if kind == "application"}
        if not rm.applications.keys() <= known:
            return
        # Allocations since the registration are known; all other running ones are reported.
        if ("reported", "") not in self._said:
            self._said.add(("reported", ""))
            self._echoes = set(rm.running)
            running = [
                ask(key, _application(key), VCORE, nodeID=node_id) for key, node_id in rm.running.items()
            ]
            if running:
                await call.send(si.AllocationRequest(rmID=rm_id, allocations=running))
        if self._echoes:
            return
        asks = [ask(key, _application(key), VCORE) for key in self._unsaid("ask", rm.waiting)]
        ends = [
            si.AllocationRelease(
                partitionName="default",
                applicationID=_application(key),
                allocationKey=key,
                terminationType=si.STOPPED_BY_RM,
            )
            for key in self._unsaid("end", rm.ending)
        ]
        if asks or ends:
            releases = si.AllocationReleasesRequest(allocationsToRelease=ends)
            await call.send(si.AllocationRequest(rmID=rm_id, allocations=asks, releases=releases))

    def _unsaid(self, kind: str, names: Iterable[str]) -> list[str]:
        """The items that were not sent yet; they count as sent from now on."""
        new = [name for name in names if (kind, name) not in self._said]
        self._said |= {(kind, name) for name in new}
        return new

    def _all_heard(self, kind: str, names: Iterable[str]) -> bool:
        return all((kind, name) in self._heard for name in names)

    def _hear_nodes(self, answer: si.NodeResponse) -> None:
        self._heard |= {("node", item.nodeID) for item in answer.accepted}
        self._refused(answer.rejected)

    def _hear_applications(self, answer: si.ApplicationResponse) -> None:
        self._heard |= {("application", item.applicationID) for item in answer.accepted}
        self._refused(answer.rejected)

    def _hear_allocations(self, answer: si.AllocationResponse) -> None:
        for item in answer.new:
            if item.allocationKey in self._echoes:
                self._echoes.discard(item.allocationKey)
                if self._rm.running.get(item.allocationKey) != item.nodeID:
                    self._rm.fail(f"{item.allocationKey} was echoed on {item.nodeID}")
            else:
                self._rm.allocated(item.allocationKey, item.nodeID)
        for end in answer.released:
            self._rm.released(end.allocationKey)
        self._refused(answer.rejectedAllocations)

    def _refused(self, items: Iterable[Any]) -> None:
        for item in items:
            self._rm.fail(f"refused: {item}")


def _application(key: str) -> str:
    return key.rpartition("-")[0]

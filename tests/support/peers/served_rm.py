"""An RM over the published interface whose every word is known: nothing is left on its way.

For the tests of acceptance rows. What the RM says and hears is `si.v1`, what an operator reads is
REST, what an administrator changes goes through `Admin`, and time is moved by hand.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.serving.app import Server
from licorne_server.testing import VirtualClock
from support.peers.shim import (
    LOOPBACK,
    Call,
    Shim,
    ask,
    connected,
    eventually,
    node,
    releases,
    serving,
)

Request = si.NodeRequest | si.ApplicationRequest | si.AllocationRequest

NOWHERE = "nowhere"
"""A partition that nobody has: what is sent to it is refused, and shows how far the server is."""


class Heard(NamedTuple):
    """What an RM was told, in order."""

    new: list[tuple[str, str]]
    """Key and node of the allocations made."""
    released: list[tuple[str, str, str]]
    """Key, termination and message of what was freed."""
    updates: list[tuple[str, str, int]]
    """Application, the state that it entered, and when in nanoseconds."""

    @property
    def states(self) -> list[tuple[str, str]]:
        """Application and the state that it entered."""
        return [(app_id, state) for app_id, state, _ in self.updates]

    @property
    def keys(self) -> list[str]:
        """The keys of the allocations made."""
        return [key for key, _ in self.new]


class Shown:
    """What REST shows of an RM, once nothing is left to be done."""

    def __init__(self, server: Server, client: aiohttp.ClientSession, rm_id: str) -> None:
        """Nothing is read yet."""
        self.server = server
        self.rm_id = rm_id
        self._client = client

    async def get(self, path: str) -> Any:
        """What REST shows of the RM's default partition, once nothing is left to be done."""
        await self.still()
        return await self.read(f"partition/[{self.rm_id}]default/{path}")

    async def partitions(self) -> Any:
        """All partitions as REST shows them."""
        await self.still()
        return await self.read("partitions")

    async def health(self) -> Any:
        """The health checks, once nothing is left to be done."""
        await self.still()
        return await self.read("scheduler/healthcheck")

    async def dump(self) -> Any:
        """The state dump, once nothing is left to be done."""
        await self.still()
        return await self.read("fullstatedump")

    async def queue(self, path: str) -> Any:
        """A queue as REST shows it."""
        return await self.get(f"queue/{path}")

    async def used(self, path: str = "root") -> tuple[int, int]:
        """Milli-cores that a queue has, and that it waits for."""
        shown = await self.queue(path)
        return shown["allocatedResource"].get("vcore", 0), shown["pendingResource"].get("vcore", 0)

    async def app(self, app_id: str) -> Any:
        """An application as REST shows it."""
        return await self.get(f"application/{app_id}")

    async def events(self, *details: str) -> list[tuple[str, str]]:
        """Detail and object of the RM's events of these details, in order."""
        names = si.EventRecord.ChangeDetail
        found = [(names.Name(row["eventChangeDetail"]), row) for row in await self._events()]
        return [(name, row["objectID"]) for name, row in found if name in details]

    async def messages(self, key: str) -> list[str]:
        """What the events about an ask or allocation say, in order."""
        return [row["message"] for row in await self._events() if row["objectID"] == key]

    async def _events(self) -> list[Any]:
        await self.still()
        answer = await self.read(f"events/batch?rm={self.rm_id}")
        records: list[Any] = answer["EventRecords"]
        return records

    async def read(self, path: str, **headers: str) -> Any:
        """What REST answers at the moment below ``/ws/v1``; the path is sent as it is."""
        url = URL(f"http://{self.server.http_address}/ws/v1/{path}", encoded=True)
        async with self._client.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def still(self) -> None:
        """What was said was answered, so all that is left is what the core has still to do."""
        engine = self.server.engine
        await eventually(lambda: not engine.busy and not engine.inbox)


class ServedRm(Shown):
    """An RM, whoever looks at it over REST, its administrator and the clock."""

    def __init__(
        self,
        server: Server,
        shim: Shim,
        client: aiohttp.ClientSession,
        clock: VirtualClock,
        *,
        one_item: bool = False,
    ) -> None:
        """Nothing is registered and no stream is open yet.

        With `one_item` each message has one item only, as those of real shims.
        """
        self.one_item = one_item
        super().__init__(server, client, shim.rm_id)
        self.shim = shim
        self.clock = clock
        self._allocations: Call
        self._applications: Call
        self._nodes: Call
        self._heard = Heard([], [], [])
        self._probes = 0

    async def register(self, config: str, **nodes: int) -> None:
        """Register, open the streams and bring nodes: milli-cores by name."""
        await self.shim.register(config)
        self._allocations = self.shim.open("UpdateAllocation")
        self._applications = self.shim.open("UpdateApplication")
        self._nodes = self.shim.open("UpdateNode")
        if nodes:
            await self.tell_nodes(*(node(name, vcore=vcore) for name, vcore in nodes.items()))

    async def reload(self, config: str) -> None:
        """Put another configuration into force. Raises AioRpcError when it is refused."""
        request = ap.UpdateConfigurationRequest(rm_id=self.rm_id, config=config)
        await AdminStub(self.shim.channel).UpdateConfiguration(request)

    async def tell_nodes(self, *nodes: si.NodeInfo) -> list[str]:
        """Send nodes; returns the reasons of those that were refused."""
        probe = self._probe()
        last = si.NodeInfo(nodeID=probe, action=si.NodeInfo.CREATE)
        last.attributes["si/node-partition"] = NOWHERE
        await self._send(self._nodes, si.NodeRequest(rmID=self.rm_id, nodes=[*nodes, last]))
        refused: dict[str, str] = {}
        while probe not in refused:
            answer: si.NodeResponse = await self._nodes.next()
            refused |= {item.nodeID: item.reason for item in answer.rejected}
        del refused[probe]
        return list(refused.values())

    async def submit(self, *new: si.AddApplicationRequest) -> dict[str, str]:
        """Submit applications; returns the reasons of those that were refused."""
        return await self._applications_said(new=new)

    async def remove(self, *app_ids: str) -> None:
        """Remove applications."""
        gone = [si.RemoveApplicationRequest(applicationID=app_id) for app_id in app_ids]
        await self._applications_said(remove=gone)

    async def ask(self, *asks: si.Allocation) -> dict[str, str]:
        """Send asks; returns the reasons of those that were refused."""
        return await self._allocations_said(allocations=asks)

    async def release(
        self, *keys: str, app_id: str = "app", why: si.TerminationType.ValueType = si.STOPPED_BY_RM
    ) -> None:
        """Release by key."""
        gone = [
            si.AllocationRelease(applicationID=app_id, allocationKey=key, terminationType=why)
            for key in keys
        ]
        await self._allocations_said(releases=releases(*gone))

    async def heard(self) -> Heard:
        """All that the RM was told since last time; nothing is to be done at this time."""
        await self.still()
        await self._applications_said()
        await self._allocations_said()
        heard, self._heard = self._heard, Heard([], [], [])
        return heard

    async def wait(self, seconds: float) -> None:
        """Let time pass, after all has been done that is due before."""
        await self.still()
        await self.clock.advance(seconds)

    async def _send(self, call: Call, message: Request) -> None:
        """Send the message, or a message for each of its items."""
        for part in one_by_one(message) if self.one_item else [message]:
            await call.send(part)

    def _probe(self) -> str:
        self._probes += 1
        return f"probe-{self._probes}"

    async def _applications_said(self, **message: Any) -> dict[str, str]:
        """Send it, and a refused application behind it: then read up to that."""
        await self._send(self._applications, si.ApplicationRequest(rmID=self.rm_id, **message))
        probe = self._probe()
        last = si.AddApplicationRequest(applicationID=probe, partitionName=NOWHERE)
        await self._applications.send(si.ApplicationRequest(rmID=self.rm_id, new=[last]))
        refused: dict[str, str] = {}
        while probe not in refused:
            answer: si.ApplicationResponse = await self._applications.next()
            refused |= {item.applicationID: item.reason for item in answer.rejected}
            self._heard.updates.extend(
                (item.applicationID, item.state, item.stateTransitionTimestamp)
                for item in answer.updated
            )
        del refused[probe]
        return refused

    async def _allocations_said(self, **message: Any) -> dict[str, str]:
        """Send it, and a refused ask behind it: then read up to that."""
        await self._send(self._allocations, si.AllocationRequest(rmID=self.rm_id, **message))
        probe = self._probe()
        last = ask(probe, partitionName=NOWHERE)
        await self._allocations.send(si.AllocationRequest(rmID=self.rm_id, allocations=[last]))
        refused: dict[str, str] = {}
        while probe not in refused:
            answer: si.AllocationResponse = await self._allocations.next()
            refused |= {item.allocationKey: item.reason for item in answer.rejectedAllocations}
            self._heard.new.extend((item.allocationKey, item.nodeID) for item in answer.new)
            self._heard.released.extend(
                (item.allocationKey, si.TerminationType.Name(item.terminationType), item.message)
                for item in answer.released
            )
        del refused[probe]
        return refused


def one_by_one(message: Request) -> list[Request]:
    """A message for each item: what is added, then what is removed."""
    rm_id = message.rmID
    match message:
        case si.NodeRequest():
            return [si.NodeRequest(rmID=rm_id, nodes=[node]) for node in message.nodes]
        case si.ApplicationRequest():
            return [
                *(si.ApplicationRequest(rmID=rm_id, new=[new]) for new in message.new),
                *(si.ApplicationRequest(rmID=rm_id, remove=[gone]) for gone in message.remove),
            ]
    gone = message.releases.allocationsToRelease
    return [
        *(si.AllocationRequest(rmID=rm_id, allocations=[item]) for item in message.allocations),
        *(si.AllocationRequest(rmID=rm_id, releases=releases(item)) for item in gone),
    ]


@asynccontextmanager
async def served_rm(*, one_item: bool = False) -> AsyncIterator[ServedRm]:
    """A server with REST under a clock that stands still, and an RM that has not registered."""
    clock = VirtualClock()
    async with (
        serving(http=LOOPBACK, clock=clock) as server,
        connected(server) as channel,
        aiohttp.ClientSession() as client,
    ):
        yield ServedRm(server, Shim(channel), client, clock, one_item=one_item)

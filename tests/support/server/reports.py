"""Reports of a server: the records of an RM over the wire, events, listings, and lines of the audit log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as spb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import (
    GetApplicationRequest,
    ListApplicationsRequest,
    ListNodesRequest,
    ListPartitionsRequest,
    ListQueuesRequest,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.output.listing import Listing
from licorne_cli.output.text import printable
from licorne_server.assembly.server import Server
from licorne_server.services.admin.acts import EVENT
from support.core.builders import START, happened
from support.patience import PATIENCE
from support.peers.shim import info_of

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

Amounts = dict[str, int]


@dataclass(frozen=True)
class Books:
    """Usage by queue and node, and the nodes of allocations."""

    queues: dict[str, tuple[Amounts, Amounts]]
    """Allocated and pending amounts."""
    nodes: dict[str, tuple[bool, Amounts, Amounts]]
    """Whether a node is open for asks, its capacity and its allocated amounts."""
    applications: dict[str, tuple[str, str]]
    """The queue and the user."""
    allocations: dict[str, str]
    """The node of every key."""
    pending: frozenset[str]
    """The keys of pending asks."""


async def listed(method: Any, request: Any) -> AsyncIterator[Any]:
    """All items of a paged list, which are in the first field of an answer."""
    while True:
        page = await method(request)
        for item in getattr(page, page.DESCRIPTOR.fields[0].name):
            yield item
        request.page_token = page.next_page_token
        if not request.page_token:
            return


async def read_books(target: str, rm_id: str = "rm1", *, only: str = "") -> Books:
    """The records of all partitions of an RM; objects of the same name are merged.

    With `only`, those of the partition of that name.
    """
    queues: dict[str, tuple[Amounts, Amounts]] = {}
    nodes: dict[str, tuple[bool, Amounts, Amounts]] = {}
    applications: dict[str, tuple[str, str]] = {}
    allocations: dict[str, str] = {}
    pending: set[str] = set()
    async with grpc.aio.insecure_channel(target) as channel:
        state: Any = StateStub(channel)
        partitions = await state.ListPartitions(ListPartitionsRequest(rm_id=rm_id))
        names = [partition.name for partition in partitions.partitions]
        for name in names if not only else [f"[{rm_id}]{only}"]:
            async for queue in listed(state.ListQueues, ListQueuesRequest(partition=name)):
                queues[queue.path] = (dict(queue.allocated), dict(queue.pending))
            async for node in listed(state.ListNodes, ListNodesRequest(partition=name)):
                nodes[node.node_id] = (node.schedulable, dict(node.capacity), dict(node.allocated))
            request = ListApplicationsRequest(partition=name)
            async for app in listed(state.ListApplications, request):
                applications[app.application_id] = (app.queue, app.user)
                details = await state.GetApplication(
                    GetApplicationRequest(partition=name, application_id=app.application_id, limit=10_000)
                )
                shown = (len(details.asks), len(details.allocations))
                assert shown == (details.pending_asks, details.allocation_count)
                allocations |= {item.allocation_key: item.node_id for item in details.allocations}
                pending |= {item.allocation_key for item in details.asks}
    return Books(queues, nodes, applications, allocations, frozenset(pending))


def warned(lines: list[Any]) -> list[Any]:
    """The lines of levels above info, except warnings of slow steps, which depend on the machine."""
    told = (line for line in lines if line["log_level"] not in ("info", "debug"))
    return [line for line in told if not line["event"].startswith("slow ")]


def audited(lines: list[Any]) -> list[dict[str, Any]]:
    """The lines of the audit log, without the common fields."""
    kept = [dict(line) for line in lines if line["event"] == EVENT]
    for line in kept:
        assert line.pop("peer")
        assert line.pop("log_level") == "info"
        del line["event"]
    return kept


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str, str]:
    """Code, text and reason with which a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details() or "", info_of(error.value)[0]


async def dumped(admin: Any, rm_id: str = "") -> bytes:
    """A complete dump."""
    request = pb.DumpStateRequest(rm_id=rm_id)
    return b"".join([part.json async for part in admin.DumpState(request)])


T = TypeVar("T")


def cells(listing: Listing[T], item: T) -> dict[str, str]:
    """The cells of a listing's row for an item, by header."""
    row = next(iter(listing.rows(item)))
    return {column.header: printable(column.cell(row)) for column in listing.columns}


class Tape:
    """Events of one RM's log, numbered continuously by a test."""

    def __init__(self, server: Server, rm_id: str = "rm") -> None:
        """Start after the events of the registration."""
        self.server = server
        self.rm_id = rm_id
        self.base = server.events.get(rm_id).next_id
        self.count = 0

    def play(self, count: int, *, each: int = 1, time: float = START) -> None:
        """Record this number of facts of `each` events in one turn, at a time in Unix seconds."""
        self.server.engine.answer([happened(self.rm_id, self.count, count, each=each, time=time)])
        self.count += count * each

    def numbers(self, found: Any) -> list[int]:
        """The numbers of events, which must correspond to their ids."""
        numbers = [int(event.record.objectID.removeprefix("app-")) for event in found]
        assert [event.id - self.base for event in found] == numbers
        return numbers


class Watcher:
    """A call of WatchEvents, and all its messages."""

    def __init__(self, state: "StateAsyncStub", **request: Any) -> None:
        """Begin the call."""
        self.call: Any = state.WatchEvents(spb.WatchEventsRequest(**request))
        self.instance = ""
        self.events: list[spb.Event] = []

    async def begin(self) -> "Watcher":
        """Wait for the first message: all later events are received."""
        await self.read()
        return self

    async def read(self) -> bool:
        """Read a message; return whether there was one."""
        async with asyncio.timeout(PATIENCE):
            answer = await self.call.read()
        if answer is grpc.aio.EOF:
            return False
        self.instance = answer.instance
        self.events += answer.events
        return True

    async def hear(self, count: int) -> list[spb.Event]:
        """Read until this number of events has arrived."""
        while len(self.events) < count:
            assert await self.read()
        return self.events

    async def ending(self) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        """Read to the end: status, reason and details."""
        try:
            while await self.read():
                pass
        except grpc.aio.AioRpcError as error:
            return error.code(), *info_of(error)
        raise AssertionError("the watch ended in order")


async def configure(channel: grpc.aio.Channel, rm_id: str = "rm", **extra: str) -> None:
    """Change an RM's extra configuration."""
    keys = {f"event.{name}": value for name, value in extra.items()}
    request = pb.UpdateConfigurationRequest(rm_id=rm_id, extra_config=keys)
    await AdminStub(channel).UpdateConfiguration(request)

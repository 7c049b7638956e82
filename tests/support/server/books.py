"""What a server knows of one RM, taken over the wire, without anything that depends on time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc

from licorne.v1.state_pb2 import (
    GetApplicationRequest,
    ListApplicationsRequest,
    ListNodesRequest,
    ListPartitionsRequest,
    ListQueuesRequest,
)
from licorne.v1.state_pb2_grpc import StateStub

Amounts = dict[str, int]


@dataclass(frozen=True)
class Books:
    """Usage by queue and node, and who is where."""

    queues: dict[str, tuple[Amounts, Amounts]]
    """Allocated and pending."""
    nodes: dict[str, tuple[bool, Amounts, Amounts]]
    """Whether it is open for more; capacity and allocated."""
    applications: dict[str, tuple[str, str]]
    """Queue and user."""
    allocations: dict[str, str]
    """The node of every key."""
    pending: frozenset[str]
    """Keys of the asks that wait."""


async def listed(method: Any, request: Any) -> AsyncIterator[Any]:
    """All items of a list that comes in pages; the items are the answer's first field."""
    while True:
        page = await method(request)
        for item in getattr(page, page.DESCRIPTOR.fields[0].name):
            yield item
        request.page_token = page.next_page_token
        if not request.page_token:
            return


async def read_books(target: str, rm_id: str = "rm1", *, only: str = "") -> Books:
    """The books of all partitions of an RM; a name in two of them shows up once.

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

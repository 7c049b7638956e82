"""What a server knows of one RM, taken over the wire, without anything that depends on time."""

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


async def read_books(target: str, rm_id: str = "rm1") -> Books:
    """The books of all partitions of an RM; a name in two of them shows up once."""
    queues: dict[str, tuple[Amounts, Amounts]] = {}
    nodes: dict[str, tuple[bool, Amounts, Amounts]] = {}
    applications: dict[str, tuple[str, str]] = {}
    allocations: dict[str, str] = {}
    pending: set[str] = set()
    async with grpc.aio.insecure_channel(target) as channel:
        state: Any = StateStub(channel)
        partitions = await state.ListPartitions(ListPartitionsRequest(rm_id=rm_id))
        for name in (partition.name for partition in partitions.partitions):
            for queue in (await state.ListQueues(ListQueuesRequest(partition=name))).queues:
                queues[queue.path] = (dict(queue.allocated), dict(queue.pending))
            for node in (await state.ListNodes(ListNodesRequest(partition=name))).nodes:
                nodes[node.node_id] = (node.schedulable, dict(node.capacity), dict(node.allocated))
            listed = await state.ListApplications(ListApplicationsRequest(partition=name))
            for app in listed.applications:
                applications[app.application_id] = (app.queue, app.user)
                request = GetApplicationRequest(partition=name, application_id=app.application_id)
                details = await state.GetApplication(request)
                allocations |= {item.allocation_key: item.node_id for item in details.allocations}
                pending |= {item.allocation_key for item in details.asks}
    return Books(queues, nodes, applications, allocations, frozenset(pending))

"""The facts for `licorne status`, from the calls of `State` and `Admin`. Each list is bounded."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from licorne.v1.admin_pb2 import ConfigurationRevision, ListConfigurationsRequest, ListMembersRequest, Member
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import (
    Application,
    GetHealthRequest,
    GetHealthResponse,
    GetServerRequest,
    GetServerResponse,
    ListApplicationsRequest,
    ListNodesRequest,
    ListPartitionsRequest,
    ListQueuesRequest,
    ListReasonsRequest,
    ListReasonsResponse,
    Node,
    OperatorMark,
    Partition,
    Queue,
    ResourceManager,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import all_rms, rows

MOST = 20_000
"""Maximum number of queues, of nodes and of applications that are read."""

MOST_PARTITIONS = 50
"""Maximum number of partitions whose items are read: those with the most waiting asks."""

MOST_RMS = 20
"""Maximum number of RMs whose configurations are requested."""

MOST_CHANGES = 5
NOT_FOR_US = frozenset(
    {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
    }
)
"""Codes for facts that the caller must not see, or that this server does not have."""
M = TypeVar("M", bound=Message)


class Of(NamedTuple):
    """An item in a partition."""

    partition: str
    name: str
    item: Any


class Change(NamedTuple):
    """An act of an operator."""

    time: int
    what: str
    by: str
    message: str


@dataclass(slots=True)
class Facts:
    """All facts for the screen."""

    server: GetServerResponse
    health: GetHealthResponse
    """The verdict of the server. The other facts are read one by one after it."""
    members: list[Member] = field(default_factory=list)
    rms: list[ResourceManager] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    stopped: list[Of] = field(default_factory=list)
    nodes: int = 0
    out: list[Of] = field(default_factory=list)
    """Nodes that are not schedulable."""
    reserved: int = 0
    """Number of nodes with a reservation."""
    held: list[Of] = field(default_factory=list)
    reasons: ListReasonsResponse = field(default_factory=ListReasonsResponse)
    changes: list[Change] = field(default_factory=list)
    is_cut: bool = False
    """True if not all queues, nodes and applications were read."""

    @property
    def needs_look(self) -> list[str]:
        """The concerns of findings that count, the worst first."""
        return list(dict.fromkeys(one.concern for one in self.health.findings if one.severity != "ok"))


def gathered(channel: grpc.Channel, args: argparse.Namespace) -> Facts:
    """Query all facts; facts that the caller must not see are left out."""
    state, admin, timeout = StateStub(channel), AdminStub(channel), args.timeout
    facts = Facts(
        state.GetServer(GetServerRequest(), timeout=timeout),
        state.GetHealth(GetHealthRequest(), timeout=timeout),
    )
    members = if_allowed(lambda: admin.ListMembers(ListMembersRequest(), timeout=timeout))
    if members is not None:
        facts.members = list(members.members)
    facts.rms = list(all_rms(state, timeout))
    facts.partitions = list(state.ListPartitions(ListPartitionsRequest(), timeout=timeout).partitions)
    busiest = sorted(facts.partitions, key=lambda one: (-one.pending_asks, one.name))
    facts.is_cut = len(busiest) > MOST_PARTITIONS
    names = [one.name for one in busiest[:MOST_PARTITIONS]]
    add_queues(facts, bounded(facts, _rows(state.ListQueues, ListQueuesRequest, "queues", names, timeout)))
    add_nodes(facts, bounded(facts, _rows(state.ListNodes, ListNodesRequest, "nodes", names, timeout)))
    apps = _rows(state.ListApplications, ListApplicationsRequest, "applications", names, timeout)
    add_applications(facts, bounded(facts, apps))
    facts.reasons = state.ListReasons(ListReasonsRequest(), timeout=timeout)
    for rm in facts.rms[:MOST_RMS]:
        add_revisions(facts, rm.rm_id, admin, timeout)
    facts.changes = sorted(facts.changes, reverse=True)[:MOST_CHANGES]
    return facts


def if_allowed(call: Callable[[], M]) -> M | None:
    """The answer of a call; None if the caller must not make this call, or the server does not have it."""
    try:
        return call()
    except grpc.RpcError as error:
        if error.code() in NOT_FOR_US:
            return None
        raise


def _rows(
    call: Callable[..., Any], request: Callable[..., Any], name: str, partitions: list[str], timeout: float
) -> Iterator[tuple[str, Any]]:
    """The rows of a list in these partitions, each with its partition; removed partitions have none."""
    for partition in partitions:
        try:
            yield from ((partition, row) for row in rows(call, request(partition=partition), name, timeout))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise


def bounded(facts: Facts, found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The first rows of a list; the facts record whether there are more."""
    yield from islice(found, MOST)
    facts.is_cut = facts.is_cut or next(found, None) is not None


def add_queues(facts: Facts, found: Iterable[tuple[str, Queue]]) -> None:
    """Add the facts about queues."""
    for partition, queue in found:
        if queue.HasField("stop") or queue.state == "Stopped":
            facts.stopped.append(Of(partition, queue.path, queue))
            _note(facts, queue.stop, f"queue {queue.path} stopped")


def add_nodes(facts: Facts, found: Iterable[tuple[str, Node]]) -> None:
    """Add the facts about nodes."""
    for partition, node in found:
        facts.nodes += 1
        facts.reserved += node.reservation_count > 0
        if not node.schedulable or node.HasField("cordon"):
            facts.out.append(Of(partition, node.node_id, node))
            _note(
                facts,
                node.cordon,
                f"node {node.node_id} {'drained' if node.HasField('drain') else 'cordoned'}",
            )


def add_applications(facts: Facts, found: Iterable[tuple[str, Application]]) -> None:
    """Add the acts of operators on applications."""
    for partition, app in found:
        if app.HasField("hold"):
            facts.held.append(Of(partition, app.application_id, app))
            _note(facts, app.hold, f"application {app.application_id} held")
        if app.HasField("change"):
            _note(facts, app.change, f"application {app.application_id} changed")


def add_revisions(facts: Facts, rm_id: str, admin: AdminStub, timeout: float) -> None:
    """Add the latest configurations of an RM."""
    request = ListConfigurationsRequest(rm_id=rm_id)
    answer = if_allowed(lambda: admin.ListConfigurations(request, timeout=timeout))
    revisions: Iterable[ConfigurationRevision] = [] if answer is None else answer.revisions
    for one in sorted(revisions, key=attrgetter("time"))[-MOST_CHANGES:]:
        what = f"configuration {one.revision} of {rm_id} in force"
        facts.changes.append(Change(one.time, what, one.by, one.comment))


def _note(facts: Facts, mark: OperatorMark, what: str) -> None:
    if mark.time:
        facts.changes.append(Change(mark.time, what, mark.by, mark.message))

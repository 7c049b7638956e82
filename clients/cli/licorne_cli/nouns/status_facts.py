"""What `licorne status` tells, from the calls of `State` and `Admin`. Each list is bounded."""

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
    Budget,
    GetServerRequest,
    GetServerResponse,
    ListApplicationsRequest,
    ListBudgetsRequest,
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
from licorne_cli.connection.channel import all_rms, pages

MOST = 20_000
"""Queues, nodes and applications, each, that are read."""

MOST_PARTITIONS = 50
"""Partitions whose queues, nodes and applications are read, those with most waiting asks."""

MOST_RMS = 20
"""RMs whose configurations are asked for."""

MOST_CHANGES = 5
NOT_FOR_US = frozenset(
    {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
    }
)
"""Codes of what the caller may not see, or what this server does not have."""
SERVING = b"\x08\x01"
"""``SERVING`` as an answer of ``grpc.health.v1``."""

M = TypeVar("M", bound=Message)


class Of(NamedTuple):
    """Something in a partition."""

    partition: str
    name: str
    item: Any


class Change(NamedTuple):
    """Something that an operator did."""

    time: int
    what: str
    by: str
    message: str


@dataclass(slots=True)
class Facts:
    """Everything that the screen shows."""

    server: GetServerResponse
    serving: bool
    members: list[Member] = field(default_factory=list)
    problem: str = ""
    """Why the members may not be up to date."""
    rms: list[ResourceManager] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    starving: list[Of] = field(default_factory=list)
    """Leaves below their guarantee in which asks wait for what is guaranteed."""
    stopped: list[Of] = field(default_factory=list)
    nodes: int = 0
    out: list[Of] = field(default_factory=list)
    """Nodes that are not schedulable."""
    reserved: int = 0
    """Nodes with a reservation."""
    held: list[Of] = field(default_factory=list)
    reasons: ListReasonsResponse = field(default_factory=ListReasonsResponse)
    over: list[Budget] = field(default_factory=list)
    """Budgets of which more is used than there is."""
    changes: list[Change] = field(default_factory=list)
    is_cut: bool = False
    """True if not all queues, nodes and applications were read."""

    @property
    def needs_look(self) -> list[str]:
        """The parts that are not well, by their names on the screen."""
        bad = {
            "server": not self.serving,
            "members": bool(self.problem) or any(one.state == "gone" for one in self.members),
            "rms": not all(rm.connected for rm in self.rms),
            "partitions": any(one.holds for one in self.partitions),
            "starving": bool(self.starving),
            "budgets": bool(self.over),
        }
        return [name for name, is_bad in bad.items() if is_bad]


def gathered(channel: grpc.Channel, args: argparse.Namespace) -> Facts:
    """Ask for everything; what the caller may not see is left out."""
    state, admin, timeout = StateStub(channel), AdminStub(channel), args.timeout
    facts = Facts(state.GetServer(GetServerRequest(), timeout=timeout), _is_serving(channel, timeout))
    members = if_allowed(lambda: admin.ListMembers(ListMembersRequest(), timeout=timeout))
    if members is not None:
        facts.members, facts.problem = list(members.members), members.problem
    facts.rms = list(all_rms(state, timeout))
    facts.partitions = list(state.ListPartitions(ListPartitionsRequest(), timeout=timeout).partitions)
    busiest = sorted(facts.partitions, key=lambda one: (-one.pending_asks, one.name))
    facts.is_cut = len(busiest) > MOST_PARTITIONS
    names = [one.name for one in busiest[:MOST_PARTITIONS]]
    add_queues(facts, bounded(facts, _rows(state.ListQueues, ListQueuesRequest, "queues", names, timeout)))
    add_nodes(facts, bounded(facts, _rows(state.ListNodes, ListNodesRequest, "nodes", names, timeout)))
    rows = _rows(state.ListApplications, ListApplicationsRequest, "applications", names, timeout)
    add_applications(facts, bounded(facts, rows))
    facts.reasons = state.ListReasons(ListReasonsRequest(), timeout=timeout)
    budgets = pages(state.ListBudgets, ListBudgetsRequest(), timeout)
    facts.over = [one for page in budgets for one in page.budgets if is_over(one)]
    for rm in facts.rms[:MOST_RMS]:
        add_revisions(facts, rm.rm_id, admin, timeout)
    facts.changes = sorted(facts.changes, reverse=True)[:MOST_CHANGES]
    return facts


def if_allowed(call: Callable[[], M]) -> M | None:
    """The answer of a call; None if the caller may not make it here."""
    try:
        return call()
    except grpc.RpcError as error:
        if error.code() in NOT_FOR_US:
            return None
        raise


def _is_serving(channel: grpc.Channel, timeout: float) -> bool:
    """True if the server says that RMs may be sent here."""
    check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    return bool(check(b"", timeout=timeout) == SERVING)


def _rows(
    call: Callable[..., Any], request: Callable[..., Any], name: str, partitions: list[str], timeout: float
) -> Iterator[tuple[str, Any]]:
    """The rows of a list of all these partitions, each with its partition; one that is gone has none."""
    for partition in partitions:
        try:
            for page in pages(call, request(partition=partition), timeout):
                yield from ((partition, row) for row in getattr(page, name))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise


def bounded(facts: Facts, rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The first rows of a list; the facts note if there are more."""
    yield from islice(rows, MOST)
    facts.is_cut = facts.is_cut or next(rows, None) is not None


def add_queues(facts: Facts, rows: Iterable[tuple[str, Queue]]) -> None:
    """Add what is to be told of queues."""
    for partition, queue in rows:
        if queue.is_leaf and any(
            queue.allocated.get(name, 0) < least and queue.pending.get(name, 0) > 0
            for name, least in queue.guaranteed.items()
        ):
            facts.starving.append(Of(partition, queue.path, queue))
        if queue.HasField("stop") or queue.state == "Stopped":
            facts.stopped.append(Of(partition, queue.path, queue))
            _note(facts, queue.stop, f"queue {queue.path} stopped")


def add_nodes(facts: Facts, rows: Iterable[tuple[str, Node]]) -> None:
    """Add what is to be told of nodes."""
    for partition, node in rows:
        facts.nodes += 1
        facts.reserved += node.reservation_count > 0
        if not node.schedulable or node.HasField("cordon"):
            facts.out.append(Of(partition, node.node_id, node))
            _note(
                facts,
                node.cordon,
                f"node {node.node_id} {'drained' if node.HasField('drain') else 'cordoned'}",
            )


def add_applications(facts: Facts, rows: Iterable[tuple[str, Application]]) -> None:
    """Add what operators did to applications."""
    for partition, app in rows:
        if app.HasField("hold"):
            facts.held.append(Of(partition, app.application_id, app))
            _note(facts, app.hold, f"application {app.application_id} held")
        if app.HasField("change"):
            _note(facts, app.change, f"application {app.application_id} changed")


def is_over(budget: Budget) -> bool:
    """True if more of a budget is charged than there is."""
    return any(value < 0 for value in budget.unassigned.values())


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

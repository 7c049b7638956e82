"""Snapshots of a server."""

from collections.abc import Sequence
from dataclasses import dataclass

from licorne.v1.state_pb2 import Application, ExplainResponse, Partition, Queue, ResourceManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One partition with its queues, root first, the RM that it belongs to, and what to call it."""

    partition: Partition
    queues: Sequence[Queue]
    rm: ResourceManager | None = None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The queue that the viewer has opened, and the application chosen there: empty, the first."""

    partition: str
    path: str
    application: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The contents of an opened queue.

    The applications that have asks waiting come first, in order of their submission. If
    `is_partial` the queue has more of them. The explanation is that of the first waiting ask of
    the chosen application, None if nothing of it waits.
    """

    opened: Opened
    applications: Sequence[Application]
    is_partial: bool
    explanation: ExplainResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that was seen. `time` is in unix seconds by the clock of whoever looked."""

    time: float
    clusters: Sequence[Cluster]
    inside: Inside | None = None


def totals(snapshot: Snapshot) -> str:
    """All partitions at one time."""
    partitions = [cluster.partition for cluster in snapshot.clusters]
    nodes = sum(partition.nodes for partition in partitions)
    allocations = sum(partition.allocations for partition in partitions)
    waiting = sum(partition.pending_asks for partition in partitions)
    return f"{nodes:,} nodes, {allocations:,} allocations, {waiting:,} asks waiting"

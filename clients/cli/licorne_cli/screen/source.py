"""Reads snapshots of a server from its State service, with no more requests than the screen needs."""

import time
from collections.abc import Callable, Sequence

import grpc

from licorne.v1.state_pb2 import (
    Application,
    ExplainRequest,
    ExplainResponse,
    ListApplicationsRequest,
    ListPartitionsRequest,
    ListQueuesRequest,
    Partition,
    Queue,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import all_rms, rows
from licorne_cli.screen.tree import Cluster, Inside, Opened, Snapshot


class Source:
    """Takes snapshots of a server. Its methods block."""

    def __init__(
        self,
        stub: StateStub,
        timeout: float,
        partitions: Callable[[], Sequence[Partition]] | None = None,
    ) -> None:
        """`partitions` returns the partitions, by default all.

        `timeout` is in seconds, for each answer.
        """
        self._stub = stub
        self._timeout = timeout
        self.partitions = partitions or self._all_partitions
        self._queues: dict[str, Sequence[Queue]] = {}

    def _all_partitions(self) -> Sequence[Partition]:
        return self._stub.ListPartitions(ListPartitionsRequest(), timeout=self._timeout).partitions

    def look(self, opened: Opened | None = None) -> Snapshot:
        """A new snapshot, with the contents of the opened queue.

        While a queue is open, only the queues of its partition are read; those of other partitions are
        copied from the last snapshot.
        """
        rms = {rm.rm_id: rm for rm in all_rms(self._stub, self._timeout)}
        partitions = self.partitions()
        self._queues = {partition.name: self._queues_of(partition.name, opened) for partition in partitions}
        clusters = [
            Cluster(
                partition=partition,
                queues=self._queues[partition.name],
                rm=rms.get(partition.rm_id),
                name=partition.name,
            )
            for partition in partitions
        ]
        inside = self._inside(opened) if opened is not None else None
        return Snapshot(time=time.time(), clusters=clusters, inside=inside)

    def _queues_of(self, partition: str, opened: Opened | None) -> Sequence[Queue]:
        if opened is not None and opened.partition != partition and partition in self._queues:
            return self._queues[partition]
        request = ListQueuesRequest(partition=partition)
        try:
            return list(rows(self._stub.ListQueues, request, "queues", self._timeout))
        except grpc.RpcError as error:
            if _is_gone(error):
                return ()
            raise

    def _inside(self, opened: Opened) -> Inside | None:
        request = ListApplicationsRequest(partition=opened.partition, queue=opened.path)
        try:
            page = self._stub.ListApplications(request, timeout=self._timeout)
        except grpc.RpcError as error:
            if _is_gone(error):
                return None
            raise
        ordered = sorted(page.applications, key=_waiting_first)
        return Inside(
            opened=opened,
            applications=ordered,
            is_partial=bool(page.next_page_token),
            explanation=self._explained(opened, ordered),
        )

    def _explained(self, opened: Opened, applications: Sequence[Application]) -> ExplainResponse | None:
        """The explanation for the chosen or the first application; None if it has no pending ask."""
        wanted = opened.application or (applications[0].application_id if applications else "")
        waits = any(app.application_id == wanted and app.pending_asks for app in applications)
        if not waits:
            return None
        request = ExplainRequest(partition=opened.partition, application_id=wanted)
        try:
            return self._stub.Explain(request, timeout=self._timeout)
        except grpc.RpcError as error:
            if _is_gone(error):
                return None
            raise


def _is_gone(error: grpc.RpcError) -> bool:
    """True if the item was removed after it was listed."""
    return error.code() is grpc.StatusCode.NOT_FOUND


def _waiting_first(app: Application) -> tuple[bool, bool, int, str]:
    """Sort key: applications with pending asks, then with allocations, then others; each by submission."""
    idle = not app.allocation_count
    return not app.pending_asks, idle, app.submission_time, app.application_id

"""Looks at a server over its State service, and asks no more than the screen shows."""

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
from licorne_cli.connection.channel import NO_RM, all_rms, not_there, pages
from licorne_cli.failures import NotFoundError
from licorne_cli.screen.tree import Cluster, Inside, Opened, Snapshot


class Source:
    """One who looks. The calls block."""

    def __init__(
        self,
        stub: StateStub,
        timeout: float,
        *,
        partition: str = "",
        rm_id: str = "",
        none: str = NO_RM,
        now: Callable[[], float] = time.time,
    ) -> None:
        """All partitions, those of an RM, or the one that is named.

        Of a bare name the first partition is meant that is called so.
        `timeout` is in seconds, for each answer. `now` gives the time in unix seconds.
        `none` says that no RM is there.
        """
        self._stub = stub
        self._timeout = timeout
        self._named = partition
        self._rm_id = rm_id
        self._none = none
        self._now = now
        self._queues: dict[str, Sequence[Queue]] = {}

    def partitions(self) -> Sequence[Partition]:
        """The partitions to look at.

        Raises:
            NotFoundError: the RM or the partition that was named is not there.
        """
        request = ListPartitionsRequest()
        found = list(self._stub.ListPartitions(request, timeout=self._timeout).partitions)
        if self._rm_id:
            rms = sorted({partition.rm_id for partition in found})
            found = [partition for partition in found if partition.rm_id == self._rm_id]
            if not found:
                raise NotFoundError(not_there("RM", self._rm_id, rms, self._none))
        if not self._named:
            return found
        names = (self._named, f"]{self._named}")
        named = [p for p in found if p.name == names[0] or p.name.endswith(names[1])]
        if not named:
            known = [partition.name for partition in found]
            raise NotFoundError(not_there("partition", self._named, known, self._none))
        return named[:1]

    def look(self, opened: Opened | None = None) -> Snapshot:
        """The snapshot of now, with the contents of the opened queue.

        While a queue is open, only the queues of its partition are asked for: those of the others
        are as they were.
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
        return Snapshot(time=self._now(), clusters=clusters, inside=inside)

    def _queues_of(self, partition: str, opened: Opened | None) -> Sequence[Queue]:
        if opened is not None and opened.partition != partition and partition in self._queues:
            return self._queues[partition]
        request = ListQueuesRequest(partition=partition)
        try:
            found = list(pages(self._stub.ListQueues, request, self._timeout))
        except grpc.RpcError as error:
            if _is_gone(error):
                return ()
            raise
        return [queue for page in found for queue in page.queues]

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
        """The explanation of the chosen application, or the first; None if nothing of it waits."""
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
    """True if the item has gone since it was listed."""
    return error.code() is grpc.StatusCode.NOT_FOUND


def _waiting_first(app: Application) -> tuple[bool, bool, int, str]:
    """Those that wait, then those that have something, then the others; each in order of time."""
    idle = not app.allocation_count
    return not app.pending_asks, idle, app.submission_time, app.application_id

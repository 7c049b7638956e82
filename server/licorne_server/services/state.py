"""`licorne.v1.State`: what the core knows, read between two of its turns."""

from typing import Any

import grpc
from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.ids import DEFAULT_PARTITION, PartitionName, RmId
from licorne_core.views import Views
from licorne_server.access import Access
from licorne_server.errors import invalid_argument, shown
from licorne_server.guard import unary_handler
from licorne_server.services.reports import (
    application_message,
    explain_message,
    node_message,
    partition_message,
    queue_messages,
)

PAGE_SIZE = 1_000
MAX_PAGE_SIZE = 10_000
STATES = ("active", "completed", "rejected")


class StateService:
    """Reads, and never changes anything."""

    name = "licorne.v1.State"

    def __init__(self, views: Views, access: Access) -> None:
        """Over what can be read of the core."""
        self._views = views
        self._access = access

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name,
            {
                "ListPartitions": unary_handler(pb.ListPartitionsRequest, self._partitions),
                "ListQueues": unary_handler(pb.ListQueuesRequest, self._queues),
                "ListApplications": unary_handler(pb.ListApplicationsRequest, self._applications),
                "GetApplication": unary_handler(pb.GetApplicationRequest, self._application),
                "ListNodes": unary_handler(pb.ListNodesRequest, self._nodes),
                "Explain": unary_handler(pb.ExplainRequest, self._explain),
            },
        )

    async def _partitions(self, request: pb.ListPartitionsRequest, context: Any) -> Message:
        """Those of one RM, or all that the caller may see."""
        if request.rm_id:
            self._access.check_read(context, request.rm_id)
        reports = self._views.partitions(RmId(request.rm_id) if request.rm_id else None)
        return pb.ListPartitionsResponse(
            partitions=[
                partition_message(report)
                for report in reports
                if self._access.may_read(context, report.rm_id)
            ]
        )

    async def _queues(self, request: pb.ListQueuesRequest, context: Any) -> Message:
        root = self._views.queues(self._partition(request.partition, context))
        return pb.ListQueuesResponse(queues=queue_messages(root))

    async def _applications(self, request: pb.ListApplicationsRequest, context: Any) -> Message:
        """A page of applications in order of their ids; its token is the last of them."""
        state = request.state or STATES[0]
        if state not in STATES:
            raise invalid_argument(f"state {shown(state)} is none of {', '.join(STATES)}", "state")
        partition = self._partition(request.partition, context)
        reports = sorted(
            self._views.applications(partition, queue=request.queue, state=state),
            key=lambda report: report.app_id,
        )
        rest = [report for report in reports if report.app_id > request.page_token]
        page = rest[: min(request.page_size or PAGE_SIZE, MAX_PAGE_SIZE)]
        return pb.ListApplicationsResponse(
            applications=[application_message(report) for report in page],
            next_page_token=page[-1].app_id if len(page) < len(rest) else "",
        )

    async def _application(self, request: pb.GetApplicationRequest, context: Any) -> Message:
        partition = self._partition(request.partition, context)
        return application_message(self._views.application(partition, request.application_id))

    async def _nodes(self, request: pb.ListNodesRequest, context: Any) -> Message:
        reports = self._views.nodes(self._partition(request.partition, context))
        return pb.ListNodesResponse(nodes=[node_message(report) for report in reports])

    async def _explain(self, request: pb.ExplainRequest, context: Any) -> Message:
        partition = self._partition(request.partition, context)
        report = self._views.explain(partition, request.application_id, request.allocation_key)
        return explain_message(report)

    def _partition(self, name: str, context: Any) -> PartitionName:
        """The partition that a request names, if it is any of the caller's business."""
        partition = self._views.resolve(name or DEFAULT_PARTITION)
        self._access.check_read(context, partition[1:].partition("]")[0])
        return partition

"""The answer to `State.Explain`, for a running server and for a replayed moment."""

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.reports import Explanation
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.services.reports import MaySee, explain_message, preemption_message


def answer(
    views: Views, partition: PartitionName, report: Explanation, may_see: MaySee
) -> pb.ExplainResponse:
    """The explanation, with the RMs that the caller may see, and the record of a victim."""
    message = explain_message(report, may_see)
    if report.is_victim:
        record = views.preemption(partition, report.app_id, report.key)
        assert record is not None, f"{report.key} is a victim, and has a record"
        message.preemption.CopyFrom(preemption_message(partition, record))
    return message

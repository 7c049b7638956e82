"""RMs as messages of `licorne.v1.State`: their connection and their books."""

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.reports import RmReport
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_server.rms.rm import Rm
from licorne_server.wire.responses import nanoseconds


def rm_message(rm: Rm, report: RmReport, caps: RmCaps) -> pb.ResourceManager:
    """One RM with its usage and its limits."""
    return pb.ResourceManager(
        rm_id=report.rm_id,
        version=report.version,
        policy_group=report.policy_group,
        session=report.session,
        registered_time=nanoseconds(report.registered_time),
        connected=rm.connected,
        since=nanoseconds(rm.since),
        over_session=rm.session is not None,
        partitions=report.partitions,
        counts=_amounts(report.counts),
        caps=_amounts(caps),
    )


def _amounts(amounts: RmCounts | RmCaps) -> pb.RmAmounts:
    return pb.RmAmounts(
        partitions=amounts.partitions,
        queues=amounts.queues,
        nodes=amounts.nodes,
        applications=amounts.applications,
        asks=amounts.asks,
        ended=amounts.ended,
        memory=amounts.memory,
        ended_memory=amounts.ended_memory,
    )

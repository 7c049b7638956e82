"""RMs as messages of `licorne.v1.State`: their connection and their books."""

from collections.abc import Callable

from licorne.v1 import state_pb2 as pb
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views.partitions import RmReport
from licorne_server.rms.rm import Rm
from licorne_server.services.reports import filled
from licorne_server.wire.responses import nanoseconds

_amounts: Callable[[RmCounts | RmCaps], pb.RmAmounts] = filled(pb.RmAmounts, RmCounts)
_message = filled(
    pb.ResourceManager,
    RmReport,
    {
        "counts": ("counts", _amounts),
        **dict.fromkeys(("connected", "since", "over_session", "caps")),
    },
)


def rm_message(rm: Rm, report: RmReport, caps: RmCaps) -> pb.ResourceManager:
    """One RM with its usage and its limits."""
    message = _message(report)
    message.connected = rm.connected
    message.since = nanoseconds(rm.since)
    message.over_session = rm.session is not None
    message.caps.CopyFrom(_amounts(caps))
    return message

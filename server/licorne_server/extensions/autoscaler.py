"""`ListOutstanding` of `licorne.v1.State`: how much a cluster is short of."""

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.autoscaler.reports import OutstandingShape
from licorne_server.extensions import Listed
from licorne_server.services.reports import filled

LISTS = {
    "ListOutstanding": Listed(
        pb.ListOutstandingRequest,
        "outstanding",
        filled(pb.OutstandingShape, OutstandingShape),
        lambda shapes: pb.ListOutstandingResponse(shapes=shapes),
    )
}

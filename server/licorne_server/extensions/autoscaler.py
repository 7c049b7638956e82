"""Asks that wait for a larger cluster: messages to RMs, and `ListOutstanding`, which lists all by size."""

from collections.abc import Iterator

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne.v1.session_pb2 import ContainerStates, UpdateResponse
from licorne_core.extensions.autoscaler.messages import ContainerStatesChanged
from licorne_core.extensions.autoscaler.reports import OutstandingShape
from licorne_server.reads.reports import filled
from licorne_server.wire.features import Listed, Telling
from licorne_server.wire.responses import Payload, runs, session_payload


def _payloads(effect: ContainerStatesChanged) -> Iterator[Payload]:
    for states in runs(effect.states):
        message = ContainerStates(
            states=[
                si.UpdateContainerSchedulingStateRequest(
                    applicationID=state.app_id,
                    allocationKey=state.key,
                    state=si.UpdateContainerSchedulingStateRequest.FAILED,
                    reason=state.reason,
                )
                for state in states
            ]
        )
        field = UpdateResponse.CONTAINER_STATES_FIELD_NUMBER
        yield session_payload("states", field, message, len(states))


TELLINGS = {
    ContainerStatesChanged: Telling(
        "container_states", _payloads, lambda effect: {"container_states": len(effect.states)}
    )
}
SUMMED = {
    ContainerStatesChanged: {
        "partition": None,
        "states": lambda states: [(state.app_id, state.key) for state in states],
    }
}
LISTS = {
    "ListOutstanding": Listed(
        pb.ListOutstandingRequest,
        "outstanding",
        filled(pb.OutstandingShape, OutstandingShape),
        lambda shapes: pb.ListOutstandingResponse(shapes=shapes),
    )
}

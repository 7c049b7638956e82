"""The envelopes of a session, compared with what protobuf makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_server.convert_out import Kind
from licorne_server.envelope import Sealer, open_envelope
from licorne_server.errors import Malformed
from licorne_server.wire import delimited
from support.shim import ask

NUMBER = st.integers(0, 2**64 - 1)


@given(NUMBER, NUMBER)
def test_requests_are_opened_as_protobuf_reads_them(number: int, acknowledged: int) -> None:
    """Numbers and the message inside come out as they were put in."""
    inner = si.AllocationRequest(allocations=[ask("k")])
    request = sp.UpdateRequest(number=number, acknowledged=acknowledged, allocations=inner)
    envelope = open_envelope(request.SerializeToString())
    assert (envelope.number, envelope.acknowledged) == (number, acknowledged)
    assert envelope.message == sp.UpdateRequest.ALLOCATIONS_FIELD_NUMBER
    assert si.AllocationRequest.FromString(envelope.payload) == inner


@given(NUMBER, NUMBER, NUMBER, NUMBER)
def test_responses_are_sealed_as_protobuf_writes_them(
    number: int, epoch: int, session: int, acknowledged: int
) -> None:
    """A sealed response is the message that protobuf would have made."""
    inner = si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n0")])
    sealed = Sealer(epoch, session).seal(
        Kind.NODES, inner.SerializeToString(), number=number, acknowledged=acknowledged
    )
    assert sp.UpdateResponse.FromString(sealed) == sp.UpdateResponse(
        number=number, epoch=epoch, session=session, acknowledged=acknowledged, nodes=inner
    )


def test_one_request_holds_one_message() -> None:
    """Two messages in one envelope are malformed: which comes first would be a guess."""
    ack = sp.UpdateRequest(ack=sp.Ack()).SerializeToString()
    beat = sp.UpdateRequest(heartbeat=sp.Heartbeat()).SerializeToString()
    with pytest.raises(Malformed, match="more than one message"):
        open_envelope(ack + beat)


def test_fields_of_later_versions_are_passed_over() -> None:
    """What this version does not know does not disturb what it knows."""
    raw = sp.UpdateRequest(number=7, ack=sp.Ack()).SerializeToString()
    assert open_envelope(delimited(99, b"new") + raw + b"\xf8\x06\x01").number == 7

"""The envelopes of a session, compared with protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_server.services.exchange import NUMBERED
from licorne_server.wire.errors import Malformed
from licorne_server.wire.framing import delimited, open_envelope
from licorne_server.wire.responses import Envelopes, Kind
from support.peers.shim import ask

NUMBER = st.integers(0, 2**64 - 1)
MESSAGES = sp.UpdateRequest.DESCRIPTOR.oneofs_by_name["message"].fields


@given(NUMBER, NUMBER)
def test_requests_are_opened_as_protobuf_reads_them(number: int, acknowledged: int) -> None:
    """Numbers and the inner message are unchanged."""
    inner = si.AllocationRequest(allocations=[ask("k")])
    request = sp.UpdateRequest(number=number, acknowledged=acknowledged, allocations=inner)
    *head, payload = open_envelope(request.SerializeToString())
    assert head == [number, acknowledged, sp.UpdateRequest.ALLOCATIONS_FIELD_NUMBER]
    assert si.AllocationRequest.FromString(payload) == inner


@given(NUMBER, NUMBER, NUMBER, NUMBER)
def test_responses_are_sealed_as_protobuf_writes_them(
    number: int, epoch: int, session: int, acknowledged: int
) -> None:
    """A sealed response equals the message that protobuf would have encoded."""
    inner = si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n0")])
    sealed = Envelopes(epoch, session).seal(
        Kind.NODES, inner.SerializeToString(), number=number, acknowledged=acknowledged
    )
    assert sp.UpdateResponse.FromString(sealed) == sp.UpdateResponse(
        number=number, epoch=epoch, session=session, acknowledged=acknowledged, nodes=inner
    )


def test_a_request_has_one_message() -> None:
    """Two messages in one envelope are malformed, because their order is unknown."""
    ack = sp.UpdateRequest(ack=sp.Ack()).SerializeToString()
    beat = sp.UpdateRequest(heartbeat=sp.Heartbeat()).SerializeToString()
    with pytest.raises(Malformed, match="more than one message"):
        open_envelope(ack + beat)


def test_fields_of_later_versions_are_ignored() -> None:
    """Unknown fields do not affect the others."""
    raw = sp.UpdateRequest(number=7, ack=sp.Ack()).SerializeToString()
    assert open_envelope(delimited(99, b"new") + raw + b"\xf8\x06\x01")[0] == 7


OF_THE_SESSION = {"hello", "heartbeat", "ack"}
"""Messages without a number, which concern the session itself."""


@pytest.mark.parametrize("name", [field.name for field in MESSAGES])
def test_every_message_of_a_request_is_known(name: str) -> None:
    """No message is mistaken for one of a later version, and all but the session's own are counted."""
    request = sp.UpdateRequest()
    getattr(request, name).SetInParent()
    number = sp.UpdateRequest.DESCRIPTOR.fields_by_name[name].number
    _, _, message, _ = open_envelope(request.SerializeToString())
    assert message == number
    assert (number in NUMBERED) == (name not in OF_THE_SESSION)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_response_is_sealed(kind: Kind) -> None:
    """A response of any kind is one message of an UpdateResponse."""
    data = b"" if kind is not Kind.SESSION else sp.UpdateResponse(ack=sp.Ack()).SerializeToString()
    sealed = Envelopes(1, 1).seal(kind, data, number=1, acknowledged=0)
    assert sp.UpdateResponse.FromString(sealed).WhichOneof("message")

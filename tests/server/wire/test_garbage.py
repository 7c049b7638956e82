"""Bytes that are no message, and calls beyond the caps: typed errors, without effect on others."""

from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.wire.framing import delimited
from support.peers.shim import Call, RawSession, Shim, ask

MIB = 1024 * 1024
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("stream", ["UpdateNode", "UpdateApplication", "UpdateAllocation"])
@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\xff\xff\xff\xff", id="no field"),
        pytest.param(b"\x0a\x7f\x01", id="cut off"),
        pytest.param(b"\x0b\x0c", id="groups"),
        pytest.param(b"\x1a\x02\xc3\x28", id="rmID is no UTF-8 (or unknown)"),
        pytest.param(bytes(range(256)) * 64, id="all bytes"),
    ],
)
async def test_garbage_ends_the_stream_with_a_typed_error(
    shim: Shim, neighbour: Any, stream: str, garbage: bytes
) -> None:
    """Bytes that are no message end with INVALID_ARGUMENT, or as for an unknown RM."""
    await shim.register()
    call = shim.open(stream)
    await call.send(garbage)
    code, text = await call.ending()
    assert code in (INVALID, grpc.StatusCode.FAILED_PRECONDITION)
    assert text.startswith(("malformed message: ", "received "))
    assert "Traceback" not in text


async def test_a_malformed_item_refuses_the_whole_request(
    shim: Shim, streams: tuple[Call, Call, Call], server: Server
) -> None:
    """If one item of a request is malformed, no item of the request is carried out."""
    good = delimited(4, ask("good").SerializeToString())
    not_utf8 = delimited(4, delimited(1, b"\xc3\x28"))
    await streams[0].send(delimited(3, b"rm") + good * 1000 + not_utf8)
    code, text = await streams[0].ending()
    assert code is INVALID
    assert text.startswith("malformed message: ")
    [report] = server.scheduler.views.partitions(RmId("rm"))
    assert (report.pending_asks, report.allocations) == (0, 0)


async def test_invalid_utf8_is_malformed(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """Invalid UTF-8 in a text field is refused in every request."""
    allocations, applications, nodes = streams
    for call, field in ((allocations, 4), (applications, 1), (nodes, 1)):
        bad = delimited(1, b"id") + delimited(1, b"\xc3\x28")
        await call.send(delimited(field, bad) + delimited(2 if call is nodes else 3, b"rm"))
        code, text = await call.ending()
        assert code is INVALID
        assert text.startswith("malformed message: ")


@pytest.mark.parametrize(
    ("request_fields", "text"),
    [
        ({"rmID": ""}, "rmID is empty"),
        ({"rmID": "[rm]"}, "rmID must not hold '[' or ']': [rm]"),
        ({"rmID": "r" * 129}, "rmID has 129 characters, at most 128 are allowed: "),
        ({"rmID": "a\tb"}, "rmID holds control characters: a\\tb"),
        ({"rmID": "x", "config": " " * (2 * MIB + 1)}, "config has 2097153 bytes"),
        ({"rmID": "x", "extraConfig": {"k": "v" * 3 * MIB}}, "extraConfig has 3145729 bytes"),
        ({"rmID": "x", "buildInfo": {"a\tb": ""}}, "buildInfo key holds control characters: a\\tb"),
    ],
)
async def test_bad_registration_is_refused(
    shim: Shim, neighbour: Any, request_fields: dict[str, Any], text: str
) -> None:
    """A registration beyond the caps is INVALID_ARGUMENT, with the field's name."""
    raw = si.RegisterResourceManagerRequest(**request_fields).SerializeToString()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shim.unary("/si.v1.Scheduler/RegisterResourceManager", raw)
    assert refused.value.code() is INVALID
    assert (refused.value.details() or "").startswith(f"registration of RM failed: {text}")


@pytest.mark.parametrize(
    "method",
    [
        "/si.v1.Scheduler/RegisterResourceManager",
        "/licorne.v1.Admin/UpdateConfiguration",
        "/licorne.v1.State/ListQueues",
    ],
)
async def test_garbage_in_unary_calls_is_malformed(shim: Shim, neighbour: Any, method: str) -> None:
    """Unary calls answer garbage with INVALID_ARGUMENT as well."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shim.unary(method, b"\xff\xff\xff")
    assert refused.value.code() is INVALID
    assert (refused.value.details() or "").startswith("malformed message: ")


async def test_garbage_in_a_session_ends_its_stream_only(session: RawSession, neighbour: Any) -> None:
    """Garbage in a session ends the stream; the session can be resumed."""
    call, welcome = await session.begin()
    await session.replay(call)
    await call.send(sp.UpdateRequest(ack=sp.Ack()).SerializeToString() + b"\x32\x7f")
    code, text = await call.ending()
    assert code is INVALID
    assert text.startswith("malformed message: ")
    again, response = await session.begin(token=welcome.welcome.resume_token)
    assert response.welcome.resumed
    await session.send(again, allocations=si.AllocationRequest(allocations=[ask("k")]))
    assert (await session.until(again, "allocations")).allocations.new[0].allocationKey == "k"

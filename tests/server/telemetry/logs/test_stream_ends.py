"""The log has the end of each stream: its RM, the reason, and the amount of data."""

from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from support.peers.shim import RawSession, Shim, eventually, node


async def closed(logs: list[Any]) -> dict[str, Any]:
    """The only line about the end of a stream."""

    def ends() -> list[dict[str, Any]]:
        return [line for line in logs if line["event"] == "stream closed"]

    await eventually(ends)
    [line] = ends()
    return line


@pytest.fixture
def logs() -> Any:
    """All lines from now on."""
    with capture_logs() as lines:
        yield lines


async def test_a_goodbye_is_logged(logs: list[Any], session: RawSession) -> None:
    """The line has the peer, the reason and the data of both directions."""
    call, _ = await session.begin()
    await session.send(call, goodbye=sp.Goodbye())
    written = 1  # The welcome, and perhaps an acknowledgement of the goodbye.
    while await call.read() is not None:
        written += 1
    assert (await call.ending())[0] is grpc.StatusCode.OK
    line = await closed(logs)
    assert line["reason"] == "goodbye"
    assert (line["rm_id"], line["stream"]) == ("rm", "Session.Update")
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    # The hello and the goodbye were read.
    assert (line["messages_read"], line["messages_written"]) == (2, written)
    assert min(line["bytes_read"], line["bytes_written"]) > 0


async def test_a_violation_of_the_protocol_is_logged(logs: list[Any], session: RawSession) -> None:
    """The line has the reason of the answer to the RM."""
    call, _ = await session.begin()
    await session.send(call, hello=sp.Hello())
    assert (await call.ending())[1] == "a stream has one Hello only"
    reason = (await closed(logs))["reason"]
    assert reason == "INVALID_ARGUMENT: a stream has one Hello only"


async def test_a_disconnected_client_is_logged(logs: list[Any], shim: Shim) -> None:
    """A cancelled stream and a lost connection are logged as ended by the client."""
    await shim.register()
    call = shim.open("UpdateNode")
    await shim.nodes(call, node("n1", vcore=1))
    call.call.cancel()
    assert (await closed(logs))["reason"] == "its client has gone"


async def test_a_stream_ended_by_its_rm_is_logged(logs: list[Any], shim: Shim) -> None:
    """An RM of `si.v1` ends a stream by closing its side, which is logged."""
    await shim.register()
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest(rmID="rm", nodes=[node("n1", vcore=1)]))
    await call.half_close()
    assert (await call.ending())[0] is grpc.StatusCode.OK
    assert (await closed(logs))["reason"] == "its client has ended it"

"""What somebody of whom nothing is known can make the server do costs little."""

from typing import Any

import grpc
import licorne_transport as http2
import pytest

from licorne_server.transport.call import Call
from licorne_server.transport.streams import Streams
from support.peers.networks import END_HEADERS, HEADERS, frame, header_block
from support.peers.raw_grpc import GREETING, calling, data, frames_to, literal, opening, packed, serving

pytestmark = pytest.mark.transport

CODE = grpc.StatusCode
MOST = 4 * 1024 * 1024
STREAMS = 16
AGAIN = b"\xbe"
"""The newest header of HPACK's table once more."""


class Begun:
    """Takes calls, and carries none out."""

    max_message = MOST

    def __init__(self) -> None:
        """None has begun."""
        self.calls: list[Call] = []

    def begin(self, call: Call, seconds: float | None) -> None:
        """Keep it."""
        self.calls.append(call)


def indexed(name: str, value: bytes) -> bytes:
    """A header that goes into HPACK's table."""
    head = b"\x40" + bytes([len(name)]) + name.encode()
    rest = len(value) - 127
    return head + b"\x7f" + bytes([rest % 128 | 128, rest // 128]) + value


def blocks(name: str, value: bytes, times: int) -> bytes:
    """As many calls as a connection may have, each with a header so often; it is sent only once."""
    raw = b""
    for number in range(STREAMS):
        more = AGAIN * times if number else indexed(name, value) + AGAIN * (times - 1)
        raw += frame(HEADERS, header_block("/a/b") + more, stream=2 * number + 1, flags=END_HEADERS)
    return raw


@pytest.mark.parametrize(
    ("name", "value", "times"),
    [
        pytest.param("k-bin", b"AA," * 1310 + b"AA", 4, id="many values in one header"),
        pytest.param("k-bin", b"," * 3_900, 4, id="empty values"),
        pytest.param("k-bin", b"AA" * 70, 80, id="many binary headers"),
        pytest.param("k", b"v" * 128, 90, id="many headers"),
    ],
)
def test_costly_headers_are_counted_and_not_decoded(
    monkeypatch: pytest.MonkeyPatch, name: str, value: bytes, times: int
) -> None:
    """Calls with more values than one may have are refused; no value is handed over or decoded."""
    begun = Begun()
    wire = http2.Connection(STREAMS, MOST)
    streams = Streams(begun, wire, lambda: None)
    streams.carry_out(wire.feed(GREETING))
    refused: list[grpc.Status] = []
    monkeypatch.setattr(Call, "end", lambda call, status: refused.append(status))
    monkeypatch.setattr("licorne_server.transport.metadata.base64", None)
    events = wire.feed(blocks(name, value, times))
    while more := wire.advance():
        events += more
    values = times * (value.count(b",") + 1) + 2
    assert [payload[2:] for _, kind, payload in events if kind == http2.OPENED] == [([], values)] * STREAMS
    streams.carry_out(events)
    assert not begun.calls
    text = f"the headers have {values} values, and at most 64 are taken"
    assert {(status.code, status.details) for status in refused} == {(CODE.RESOURCE_EXHAUSTED, text)}


async def test_as_many_values_as_one_may_have_are_read() -> None:
    """A client gets its answer with 50 values, and one with 70 is told how many there may be."""

    async def count(request: bytes, context: Any) -> bytes:
        return b"%d" % sum(key == "k-bin" for key, _ in context.invocation_metadata())

    handlers: dict[str, Any] = {"Count": grpc.unary_unary_rpc_method_handler(count)}
    async with serving(handlers) as (_, address), calling(address) as channel:
        method = channel.unary_unary("/test/Count")
        assert await method(b"", metadata=[("k-bin", b"value")] * 50) == b"50"
        with pytest.raises(grpc.aio.AioRpcError, match="and at most 64 are taken") as found:
            await method(b"", metadata=[("k-bin", b"value")] * 70)
        assert found.value.code() is CODE.RESOURCE_EXHAUSTED


async def test_metadata_is_decoded_when_a_handler_asks() -> None:
    """What breaks gRPC's rules ends the call of a handler that looks at it, and no other."""

    async def asks(request: bytes, context: Any) -> bytes:
        return b"%d" % len(context.invocation_metadata())

    async def answers(request: bytes, context: Any) -> bytes:
        return request

    handlers: dict[str, Any] = {
        "Asks": grpc.unary_unary_rpc_method_handler(asks),
        "Answers": grpc.unary_unary_rpc_method_handler(answers),
    }
    async with serving(handlers) as (_, address), frames_to(address) as frames:
        for stream, method, code in ((1, "Answers", CODE.OK), (3, "Asks", CODE.INTERNAL)):
            header = literal("k-bin", b"\xff\xfe")
            frames.send(opening(stream, method, more=header), data(stream, packed(b""), ends=True))
            [*_, end] = await frames.until(lambda got: got.ends)
            assert (end.stream, end.has_status(code)) == (stream, True)


def test_large_message_in_small_frames_is_read() -> None:
    """A slow client that cuts a message into far more small frames than may wait loses nothing."""
    connection = http2.Connection(STREAMS, MOST)
    connection.feed(GREETING + opening(1, "Any"))
    body = packed(bytes(1024 * 1024))
    size, found = 10, []
    small = b"".join(data(1, body[at : at + size]) for at in range(0, len(body), size))
    for at in range(0, len(small), 64 * 1024):
        found += connection.feed(small[at : at + 64 * 1024])
        connection.take()
    assert [(kind, payload) for _, kind, payload in found] == [(http2.MESSAGES, [body[5:]])]
    assert not connection.closed

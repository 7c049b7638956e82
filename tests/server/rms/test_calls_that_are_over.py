"""Calls that end before their status is sent, which is no error of the server."""

import asyncio
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import state_pb2 as pb
from licorne_server.rms.streams import Stream
from licorne_server.services.calls import stream_handler, watch_handler
from licorne_server.wire.errors import Stopped


class Ended:
    """The context of a call whose caller has disconnected: gRPC sends nothing more."""

    def peer(self) -> str:
        """The peer."""
        return "ipv4:127.0.0.1:5000"

    async def write(self, raw: bytes) -> None:
        """Fail like gRPC when the caller disconnects during a write."""
        raise grpc.aio.InternalError('Failed "execute_batch"')

    async def read(self) -> bytes:
        """Wait for ever."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send_initial_metadata(self, metadata: object) -> None:
        """Do nothing: the call has begun."""

    async def abort_with_status(self, status: grpc.Status) -> None:
        """Fail like gRPC when its batch of operations fails."""
        raise grpc.aio.InternalError('Failed "execute_batch"')


async def test_a_status_without_a_caller_is_not_logged() -> None:
    """If the caller disconnects before the server stops, no further line is logged."""

    async def serve(context: Any) -> None:
        raise Stopped

    method: Any = stream_handler(serve)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await method.stream_stream(None, Ended())
    assert logs == []


async def test_a_disconnected_watcher_is_no_error() -> None:
    """A watcher is cut off in the middle of a message: no line above debug, and no status."""

    async def serve(request: object, context: Any) -> None:
        await context.write(b"")

    method: Any = watch_handler(pb.WatchEventsRequest, serve)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await method.unary_stream(b"", Ended())
    assert [(line["event"], line["log_level"]) for line in logs] == [("caller gone", "debug")]


async def test_a_disconnected_stream_of_an_rm_is_logged_as_such() -> None:
    """The line about the end of the stream names the client, and no failure of the server."""
    stream = Stream(Ended())

    async def carry_out() -> None:
        await asyncio.get_running_loop().create_future()

    async def read() -> None:
        await stream.read()

    with pytest.raises(grpc.aio.InternalError):
        await stream.run(read(), carry_out(), stream.write(b""), lambda: None)
    assert stream.reason == "its client has gone"

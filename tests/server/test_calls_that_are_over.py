"""A call may end before its status is sent: that is no error of the server."""

import asyncio
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne_server.errors import Stopped
from licorne_server.errors_to_status import stream_handler


class Ended:
    """The context of a call whose caller has closed the connection: gRPC sends nothing more."""

    async def send_initial_metadata(self, metadata: object) -> None:
        """The call had begun."""

    async def abort_with_status(self, status: grpc.Status) -> None:
        """As gRPC does when its batch of operations fails."""
        raise grpc.aio.InternalError('Failed "execute_batch"')


async def test_a_status_that_nobody_takes_is_not_in_the_log() -> None:
    """The server stops, and the caller has gone first: the call is over, and no more is said."""

    async def serve(context: Any) -> None:
        raise Stopped

    method: Any = stream_handler(serve)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await method.stream_stream(None, Ended())
    assert logs == []

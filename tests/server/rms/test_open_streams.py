"""The RM of a request on an open stream of `si.v1` (spec § 1.6.1)."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.shim import Call, Shim

REQUESTS: tuple[Callable[..., Any], ...] = (
    si.AllocationRequest,
    si.ApplicationRequest,
    si.NodeRequest,
)


@pytest.mark.row(4)
@pytest.mark.parametrize("number", range(3))
async def test_unknown_rm_on_an_open_stream(streams: tuple[Call, Call, Call], number: int) -> None:
    """A later request of an unregistered RM fails like the first one."""
    request = REQUESTS[number]
    await streams[number].send(request(rmID="rm"))
    await streams[number].send(request(rmID="x"))
    code, text = await streams[number].ending()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert text == f'received {request.__name__}, but RmID="x" not registered'


@pytest.mark.row(4)
async def test_first_request_without_an_rm(shim: Shim) -> None:
    """A stream whose first request names no RM belongs to an unregistered RM."""
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest())
    code, text = await call.ending()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert text == 'received NodeRequest, but RmID="" not registered'


async def test_another_rm_on_an_open_stream(streams: tuple[Call, Call, Call]) -> None:
    """A stream is of one RM: a request of another one that is registered is a wrong request."""
    nodes = streams[2]
    await nodes.send(si.NodeRequest(rmID="neighbour"))
    code, text = await nodes.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "rmID is neighbour on a stream of RM rm"

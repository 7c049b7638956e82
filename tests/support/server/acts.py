"""What tests of operators' calls look at: refusals, and the lines in the log."""

from collections.abc import Awaitable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne.v1 import admin_pb2 as pb
from licorne_server.services.admin.rights import EVENT


def audited(lines: list[Any]) -> list[dict[str, Any]]:
    """The lines about what was asked for, without what each line has."""
    kept = [dict(line) for line in lines if line["event"] == EVENT]
    for line in kept:
        assert line.pop("peer")
        assert line.pop("log_level") == "info"
        del line["event"]
    return kept


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str, str]:
    """Code, text and reason with which a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    reason = ""
    status = rpc_status.from_call(error.value)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            reason = info.reason
    return error.value.code(), error.value.details() or "", reason


async def dumped(admin: Any, rm_id: str = "") -> bytes:
    """A whole dump."""
    request = pb.DumpStateRequest(rm_id=rm_id)
    return b"".join([part.json async for part in admin.DumpState(request)])

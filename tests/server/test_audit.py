"""The line that each act leaves: whatever goes wrong, it is there."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne_core.errors import NotFound
from licorne_server.access import Access
from licorne_server.errors import exhausted
from licorne_server.services.admin.audit import EVENT, Audit


class Call:
    """The context of a call, as far as an act looks at it."""

    def peer(self) -> str:
        """Where it comes from."""
        return "ipv4:127.0.0.1:5"


OUTCOMES: dict[str, BaseException] = {
    "NOT_FOUND": NotFound("x"),
    "FULL": exhausted("x", "FULL"),
    "CANCELLED": asyncio.CancelledError(),
    "INTERNAL": ValueError("x"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_failures_are_told_by_their_reason(outcome: str) -> None:
    """The caller sees the failure as it is, and the log has one line with its reason."""
    error = OUTCOMES[outcome]

    async def fail(request: pb.ForgetRmRequest, context: Any) -> pb.ForgetRmResponse:
        raise error

    act = Audit(Access()).of("try", fail, "force")
    with capture_logs() as lines, pytest.raises(type(error)):
        await act(pb.ForgetRmRequest(rm_id="r" * 500), Call())
    (line,) = [one for one in lines if one["event"] == EVENT]
    assert (line["action"], line["outcome"], line["force"]) == ("try", outcome, False)
    assert len(line["rm_id"]) < 100

"""The line that each act leaves: whatever goes wrong, it is there."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import NotFound
from licorne_server.configurations.history import Configurations, Keeper
from licorne_server.configurations.reloading import Default
from licorne_server.process.clock import SystemClock
from licorne_server.security.access import Access
from licorne_server.services.admin.rights import EVENT, Rights
from licorne_server.telemetry.logs import dropped
from licorne_server.wire.errors import exhausted

KNOWN = Configurations(Default(), Keeper(), SystemClock())
RIGHTS = Rights(Scheduler().views, Access(), KNOWN)


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

    act = RIGHTS.audited("try", fail, "force")
    with capture_logs() as lines, pytest.raises(type(error)):
        await act(pb.ForgetRmRequest(rm_id="r" * 500), Call())
    (line,) = [one for one in lines if one["event"] == EVENT]
    assert (line["action"], line["outcome"], line["force"]) == ("try", outcome, False)
    assert len(line["rm_id"]) < 100


class FailingLog:
    """A processor of log lines that fails while it is told to."""

    def __init__(self) -> None:
        self.fails = True
        self.lines: list[Any] = []

    def __call__(self, logger: Any, method: str, entry: Any) -> Any:
        """Fail, or keep the line."""
        if self.fails:
            raise OSError("planted")
        self.lines.append(dict(entry))
        raise structlog.DropEvent


@pytest.fixture
def failing() -> Iterator[FailingLog]:
    """The log fails; it is as before when the test has ended."""
    processors = structlog.get_config()["processors"]
    before = list(processors)
    log = FailingLog()
    processors[:] = [log]
    yield log
    processors[:] = before


async def test_a_line_that_fails_costs_itself_alone(failing: FailingLog) -> None:
    """What was done is answered, the lost line is counted, and the next line is written."""

    async def forget(request: pb.ForgetRmRequest, context: Any) -> pb.ForgetRmResponse:
        return pb.ForgetRmResponse()

    act = RIGHTS.audited("try", forget)
    before = dropped()["write_failed"]
    assert await act(pb.ForgetRmRequest(rm_id="rm"), Call()) == pb.ForgetRmResponse()
    assert dropped()["write_failed"] == before + 1
    failing.fails = False
    await act(pb.ForgetRmRequest(rm_id="rm"), Call())
    (line,) = failing.lines
    assert (line["event"], line["outcome"], line["by"]) == (EVENT, "done", "127.0.0.1")

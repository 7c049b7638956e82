"""Rights to act, and the audit line of each act, whatever fails."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import NotFound
from licorne_server.process.clock import SystemClock
from licorne_server.security.access import Access
from licorne_server.services.admin.acts import EVENT, Rights
from licorne_server.store.configurations.default_file import Default
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.documents.kept import Kept
from licorne_server.telemetry.logs import dropped
from licorne_server.wire.errors import exhausted
from support.peers.shim import Shim, connected, serving
from support.peers.tls import Bearing, connected_as, tls
from support.server.reports import audited, dumped, refusal

KNOWN = Configurations(Default(), Kept(), SystemClock(), lambda _: 1)
RIGHTS = Rights(Scheduler().views, Access(), KNOWN)


class Call:
    """The context of a call, with the parts that an act uses."""

    def peer(self) -> str:
        """The address of the caller."""
        return "ipv4:127.0.0.1:5"


OUTCOMES: dict[str, BaseException] = {
    "NOT_FOUND": NotFound("x"),
    "FULL": exhausted("x", "FULL"),
    "CANCELLED": asyncio.CancelledError(),
    "INTERNAL": ValueError("x"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_failure_is_audited_with_its_reason(outcome: str) -> None:
    """The caller gets the failure unchanged, and the log has one line with its reason."""
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
    """A processor of log lines that fails on request."""

    def __init__(self) -> None:
        self.fails = True
        self.lines: list[Any] = []

    def __call__(self, logger: Any, method: str, entry: Any) -> Any:
        """Fail, or record the line."""
        if self.fails:
            raise OSError("planted")
        self.lines.append(dict(entry))
        raise structlog.DropEvent


@pytest.fixture
def failing() -> Iterator[FailingLog]:
    """The log fails until the end of the test."""
    processors = structlog.get_config()["processors"]
    before = list(processors)
    log = FailingLog()
    processors[:] = [log]
    yield log
    processors[:] = before


async def test_a_failure_of_the_log_loses_one_line(failing: FailingLog) -> None:
    """The act is answered, the lost line is counted, and the next line is written."""

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


Act = Callable[[Any], Awaitable[Any]]


ACTS: dict[str, Act] = {
    "set node schedulable": lambda admin: admin.SetNodeSchedulable(
        pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n0")
    ),
    "drain node": lambda admin: admin.DrainNode(pb.DrainNodeRequest(rm_id="rm", node_id="n0")),
    "stop application": lambda admin: admin.StopApplication(
        pb.StopApplicationRequest(rm_id="rm", application_id="app")
    ),
    "hold application": lambda admin: admin.HoldApplication(
        pb.HoldApplicationRequest(rm_id="rm", application_id="app", held=True)
    ),
    "change application": lambda admin: admin.ChangeApplication(
        pb.ChangeApplicationRequest(rm_id="rm", application_id="app", priority=1)
    ),
    "set queue stopped": lambda admin: admin.SetQueueStopped(
        pb.SetQueueStoppedRequest(rm_id="rm", queue="root")
    ),
    "set log level": lambda admin: admin.SetLogLevel(pb.SetLogLevelRequest(level="debug")),
    "dump state": dumped,
    "forget RM": lambda admin: admin.ForgetRm(pb.ForgetRmRequest(rm_id="rm")),
}


async def test_an_rm_may_not_act_with_its_token(tmp_path: Path) -> None:
    """The refusal also holds for the RM's own data; the line has it, and the caller."""
    files = {}
    for name in ("rm", "operator"):
        files[name] = tmp_path / name
        files[name].write_text(name * 20)
    rm_tokens = {"rm": (files["rm"],)}
    async with (
        serving(rm_tokens=rm_tokens, operator_tokens=(files["operator"],)) as server,
        connected(server) as plain,
    ):
        mine: Any = Bearing(plain, "Bearer " + "rm" * 20)
        await Shim(mine, "rm").set_up()
        for action, act in ACTS.items():
            with capture_logs() as lines:
                code, text, reason = await refusal(act(AdminStub(mine)))
            denied = (grpc.StatusCode.PERMISSION_DENIED, "this token is no operator's")
            assert (code, text, reason) == (*denied, "NOT_ALLOWED")
            (line,) = audited(lines)
            assert (line["action"], line["outcome"]) == (action, "NOT_ALLOWED")
            assert line["by"].startswith("token ")
        with capture_logs() as lines:
            theirs: Any = Bearing(plain, "Bearer " + "operator" * 20)
            await ACTS["set queue stopped"](AdminStub(theirs))
        (line,) = audited(lines)
        assert (line["by"].startswith("token "), line["outcome"]) == (True, "done")


async def test_certificates_of_operators_are_accepted() -> None:
    """An RM's certificate is refused, and an operator's is accepted and named in the log."""
    async with serving(tls=tls(), operators=frozenset({"operator"})) as server:
        async with connected_as("rm", server) as channel:
            code, text, _ = await refusal(ACTS["set log level"](AdminStub(channel)))
            denied = (grpc.StatusCode.PERMISSION_DENIED, "this certificate is no operator's")
            assert (code, text) == denied
        async with connected_as("operator", server) as channel:
            with capture_logs() as lines:
                await AdminStub(channel).SetLogLevel(pb.SetLogLevelRequest(logger="core"))
        (line,) = audited(lines)
        assert (line["by"], line["outcome"]) == ("certificate operator", "done")

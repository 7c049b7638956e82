"""`licorne.v1.Admin`: acts of operators on nodes, applications, queues and the log."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from support.peers.shim import LOOPBACK, Shim, serving, violations
from support.server.reports import audited, refusal


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with HTTP."""
    async with serving(http=LOOPBACK) as server:
        yield server


BAD: dict[str, tuple[str, Message]] = {
    "partition has 5000 characters": (
        "SetNodeSchedulable",
        pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n", partition="x" * 5000),
    ),
    "reason has 1026 bytes, at most 1024": (
        "StopApplication",
        pb.StopApplicationRequest(rm_id="rm", application_id="a", reason="ä" * 513),
    ),
    "queue has 5000 characters": (
        "SetQueueStopped",
        pb.SetQueueStoppedRequest(rm_id="rm", queue="q" * 5000),
    ),
    f"logger core.{'x' * 59}… does not exist; there are ": (
        "SetLogLevel",
        pb.SetLogLevelRequest(logger="core." + "x" * 200, level="info"),
    ),
}


@pytest.mark.parametrize("problem", BAD)
async def test_invalid_names_are_refused_with_their_field(channel: Any, problem: str) -> None:
    """An invalid name is INVALID_ARGUMENT with its field, before any look-up."""
    method, request = BAD[problem]
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await getattr(AdminStub(channel), method)(request)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.value.details() or "").startswith(problem)
    assert [*violations(error.value)] == [problem.split(maxsplit=1)[0]]


async def test_each_call_is_audited_with_its_caller(channel: Any, shim: Shim, usual_levels: None) -> None:
    """The line has request, object, caller and outcome, also for refused requests."""
    await shim.set_up()
    admin = AdminStub(channel)
    with capture_logs() as lines:
        await admin.SetNodeSchedulable(
            pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n0", schedulable=False)
        )
        await admin.SetQueueStopped(pb.SetQueueStoppedRequest(rm_id="rm", queue="root"))
        await refusal(admin.StopApplication(pb.StopApplicationRequest(rm_id="rm")))
        await refusal(admin.ForgetRm(pb.ForgetRmRequest(rm_id="rm", message="not in use")))
        await admin.SetLogLevel(pb.SetLogLevelRequest(logger="core.engine", level="debug"))
        await refusal(admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config="x")))
        async for _ in admin.DumpState(pb.DumpStateRequest()):
            pass
    told = audited(lines)
    assert {line.pop("by") for line in told} == {"127.0.0.1"}
    assert told[:5] == [
        {
            "action": "set node schedulable",
            "rm_id": "rm",
            "partition": "",
            "node_id": "n0",
            "schedulable": False,
            "message": "",
            "changed": True,
            "allocations": 0,
            "outcome": "done",
        },
        {
            "action": "set queue stopped",
            "rm_id": "rm",
            "partition": "",
            "queue": "root",
            "stopped": False,
            "message": "",
            "changed": False,
            "state": "Active",
            "outcome": "done",
        },
        {
            "action": "stop application",
            "rm_id": "rm",
            "partition": "",
            "application_id": "",
            "reason": "",
            "outcome": "INVALID_ARGUMENT",
        },
        {
            "action": "forget RM",
            "rm_id": "rm",
            "force": False,
            "message": "not in use",
            "outcome": "RM_CONNECTED",
        },
        {
            "action": "set log level",
            "rm_id": "",
            "asked_logger": "core.engine",
            "asked_level": "debug",
            "message": "",
            "outcome": "done",
        },
    ]
    assert [(line["action"], line["outcome"]) for line in told[5:]] == [
        ("update configuration", "CONFIG_INVALID"),
        ("dump state", "done"),
    ]

"""`licorne.v1.Admin`: operators hold applications, and change their priority and queue."""

from typing import Any

import grpc

from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from support.core.builders import config
from support.peers.shim import Shim, ask, new_allocations
from support.server.reports import refusal

PARTITION = "[rm]default"
TWO = config("[{name: a}, {name: b}]", rest="placementrules: [{name: fixed, value: root.a}]")


async def application(channel: Any) -> sp.Application:
    """The application `app`, with all that operators did."""
    request = sp.GetApplicationRequest(partition=PARTITION, application_id="app")
    found: sp.Application = await StateStub(channel).GetApplication(request)
    return found


async def test_an_application_is_held_and_resumed(channel: Any, shim: Shim) -> None:
    """State and `explain` have the operator, and the end of the hold places waiting asks."""
    allocations, applications, _ = await shim.set_up()
    admin = AdminStub(channel)
    request = pb.HoldApplicationRequest(rm_id="rm", application_id="app", held=True, message="waits")
    assert (await admin.HoldApplication(request)).changed
    await shim.ask(allocations, ask("k"))
    again = await admin.HoldApplication(request)
    assert (again.changed, again.asks, again.allocations) == (False, 1, 0)
    wanted = sp.ExplainRequest(partition=PARTITION, application_id="app", allocation_key="k")
    explained = await StateStub(channel).Explain(wanted)
    failed = [(check.kind, check.code, check.subject) for check in explained.checks if not check.passed]
    assert failed == [("application", "APPLICATION_HELD", "app")]
    app = await application(channel)
    assert (app.hold.message, bool(app.hold.by), app.hold.time > 0) == ("waits", True, True)
    assert not app.HasField("change")
    request.held = False
    assert (await admin.HoldApplication(request)).changed
    assert await new_allocations(allocations, 1) == {"k": "n0"}
    assert not (await application(channel)).HasField("hold")
    told = [one.message for one in (await applications.read()).updated]
    while not any(message.startswith("resumed by ") for message in told):
        told = [one.message for one in (await applications.read()).updated]


async def test_an_application_gets_another_priority_and_queue(channel: Any, shim: Shim) -> None:
    """State has both until the priority is reset; an empty request is refused."""
    await shim.set_up(config=TWO)
    admin = AdminStub(channel)
    request = pb.ChangeApplicationRequest(rm_id="rm", application_id="app", priority=0, queue="root.b")
    answer = await admin.ChangeApplication(request)
    assert (answer.changed, answer.queue, answer.operator_priority) == (True, "root.b", 0)
    app = await application(channel)
    assert (app.queue, app.operator_priority, app.HasField("change")) == ("root.b", 0, True)
    reset = pb.ChangeApplicationRequest(rm_id="rm", application_id="app", reset_priority=True)
    assert not (await admin.ChangeApplication(reset)).HasField("operator_priority")
    app = await application(channel)
    assert (app.HasField("operator_priority"), app.HasField("change")) == (False, True)
    nothing = pb.ChangeApplicationRequest(rm_id="rm", application_id="app")
    assert await refusal(admin.ChangeApplication(nothing)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "one of priority, reset_priority and queue is needed",
        "",
    )
    closed = pb.ChangeApplicationRequest(rm_id="rm", application_id="app", queue="root")
    assert await refusal(admin.ChangeApplication(closed)) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "queue root is no leaf",
        "CANNOT_MOVE",
    )

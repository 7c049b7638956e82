"""`licorne.v1.Admin`: acts of operators on nodes, applications, queues and the log."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import aiohttp
import grpc
import pytest
from google.protobuf.message import Message
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from support.peers.shim import LOOPBACK, Shim, ask, new_allocations, serving, violations
from support.server.reports import audited, refusal

EVENT = "asked for"
PARTITION = "[rm]default"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with HTTP."""
    async with serving(http=LOOPBACK) as server:
        yield server


async def state_of(channel: Any, what: str) -> Any:
    """The node n0, or the queue root.default."""
    stub = StateStub(channel)
    if what == "node":
        (node,) = (await stub.ListNodes(sp.ListNodesRequest(partition=PARTITION))).nodes
        return node
    queues = (await stub.ListQueues(sp.ListQueuesRequest(partition=PARTITION))).queues
    return queues[-1]


async def test_a_node_is_cordoned_and_uncordoned(server: Server, channel: Any, shim: Shim) -> None:
    """State and REST have the mark, `explain` too, and waiting asks are placed in the end."""
    allocations = (await shim.set_up())[0]
    admin = AdminStub(channel)
    drain = pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n0", message="disk")
    assert (await admin.SetNodeSchedulable(drain)).changed
    assert not (await admin.SetNodeSchedulable(drain)).changed
    node = await state_of(channel, "node")
    assert (node.schedulable, node.drained, node.HasField("drain")) == (False, True, False)
    assert (node.cordon.by, node.cordon.message, node.cordon.time > 0) == ("127.0.0.1", "disk", True)
    url = f"http://{server.http_address}/ws/v1/partition/default/node/n0"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        shown = await answer.json()
        assert (shown["schedulable"], shown["cordon"]["message"], "drain" in shown) == (False, "disk", False)
    await shim.ask(allocations, ask("k"))
    request = sp.ExplainRequest(partition=PARTITION, application_id="app", allocation_key="k")
    explained = await StateStub(channel).Explain(request)
    assert [dict(check.causes) for check in explained.checks if check.kind == "nodes"] == [{"cordoned": 1}]
    assert explained.summary == 'fits on none of 1 nodes: 1 cordoned (n0 by 127.0.0.1: "disk")'
    drain.schedulable = True
    assert (await admin.SetNodeSchedulable(drain)).changed
    assert await new_allocations(allocations, 1) == {"k": "n0"}
    drain.schedulable = False
    assert (await admin.SetNodeSchedulable(drain)).allocations == 1


async def test_a_node_is_drained(channel: Any, shim: Shim) -> None:
    """Without seconds nothing is stopped; 0 stops all, of which State shows how far it is."""
    allocations = (await shim.set_up())[0]
    await shim.ask(allocations, ask("k"))
    await new_allocations(allocations, 1)
    waiting = pb.DrainNodeRequest(rm_id="rm", node_id="n0")
    answer = await AdminStub(channel).DrainNode(waiting)
    assert (answer.allocations, answer.exempt) == (1, 0)
    drain = (await state_of(channel, "node")).drain
    assert (drain.remaining, drain.stopping, drain.deadline) == (1, 0, 0)
    assert drain.start_time > 0
    at_once = pb.DrainNodeRequest(rm_id="rm", node_id="n0", deadline_seconds=0)
    answer = await AdminStub(channel).DrainNode(at_once)
    assert (answer.allocations, answer.exempt) == (1, 0)
    (told,) = (await allocations.read()).released
    assert (told.allocationKey, told.terminationType) == ("k", si.TerminationType.PREEMPTED_BY_SCHEDULER)
    assert told.message == "preempting allocations to drain node: n0"
    drain = (await state_of(channel, "node")).drain
    assert (drain.allocations, drain.remaining, drain.stopping, drain.exempt) == (1, 1, 1, 0)
    assert drain.start_time == drain.deadline > 0
    victims = await StateStub(channel).ListPreemptions(sp.ListPreemptionsRequest(partition=PARTITION))
    assert [(one.rule, one.beneficiary_allocation_key) for one in victims.preemptions] == [("drain", "")]


async def test_an_application_is_stopped(channel: Any, shim: Shim) -> None:
    """Its RM gets its failure, and the stops, with the operator's reason."""
    allocations, applications, _ = await shim.set_up(vcore=100)
    await shim.ask(allocations, ask("runs", vcore=100), ask("waits", vcore=100))
    await new_allocations(allocations, 1)
    request = pb.StopApplicationRequest(rm_id="rm", application_id="app", reason="over budget")
    answer = await AdminStub(channel).StopApplication(request)
    assert (answer.allocations, answer.asks) == (1, 1)
    while True:
        update = (await applications.read()).updated
        if [(one.state, one.message) for one in update] == [("Failing", "over budget")]:
            break
    released = [(one.allocationKey, one.message) for one in (await allocations.read()).released]
    assert sorted(released) == [("runs", "over budget"), ("waits", "over budget")]
    again = await AdminStub(channel).StopApplication(request)
    assert (again.allocations, again.asks) == (1, 0)


async def test_a_queue_is_stopped_and_started(server: Server, channel: Any, shim: Shim) -> None:
    """State and REST have the mark, `explain` has a code for it, and the start places waiting asks."""
    allocations = (await shim.set_up())[0]
    admin = AdminStub(channel)
    request = pb.SetQueueStoppedRequest(rm_id="rm", queue="root", stopped=True, message="why")
    answer = await admin.SetQueueStopped(request)
    assert (answer.changed, answer.state) == (True, "Stopped")
    await shim.ask(allocations, ask("k"))
    url = f"http://{server.http_address}/ws/v1/partition/default/queues"
    async with aiohttp.ClientSession() as client, client.get(url) as shown:
        root = await shown.json()
        assert (root["status"], root["stop"]["by"]) == ("Stopped", "127.0.0.1")
    listed = await StateStub(channel).ListQueues(sp.ListQueuesRequest(partition=PARTITION))
    assert {queue.path: queue.stop.message for queue in listed.queues}["root"] == "why"
    wanted = sp.ExplainRequest(partition=PARTITION, application_id="app", allocation_key="k")
    explained = await StateStub(channel).Explain(wanted)
    failed = [(check.kind, check.code) for check in explained.checks if not check.passed]
    assert failed == [("stopped", "QUEUE_STOPPED")]
    assert explained.summary == 'queue root is stopped by 127.0.0.1: "why"'
    request.stopped = False
    answer = await admin.SetQueueStopped(request)
    assert (answer.changed, answer.state) == (True, "Active")
    assert await new_allocations(allocations, 1) == {"k": "n0"}


async def test_what_cannot_be_is_refused_with_a_reason(channel: Any, shim: Shim) -> None:
    """Unknown objects are NOT_FOUND, ended ones have a reason of their own."""
    await shim.set_up()
    admin = AdminStub(channel)
    not_found = (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    refused: dict[str, tuple[Awaitable[Any], tuple[grpc.StatusCode, str]]] = {
        f"node n9 not found in partition {PARTITION}": (
            admin.SetNodeSchedulable(pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n9")),
            not_found,
        ),
        f"queue root.x not found in partition {PARTITION}": (
            admin.SetQueueStopped(pb.SetQueueStoppedRequest(rm_id="rm", queue="root.x")),
            not_found,
        ),
        f"application nobody not found in partition {PARTITION}": (
            admin.StopApplication(pb.StopApplicationRequest(rm_id="rm", application_id="nobody")),
            not_found,
        ),
        "partition [rm]other not found": (
            admin.SetQueueStopped(pb.SetQueueStoppedRequest(rm_id="rm", partition="other", queue="root")),
            not_found,
        ),
        "rmID is empty, name one of them: rm": (
            admin.SetQueueStopped(pb.SetQueueStoppedRequest(queue="root")),
            (grpc.StatusCode.INVALID_ARGUMENT, "RM_NOT_NAMED"),
        ),
        "RM stranger has no active partitions, make sure it is registered": (
            admin.SetQueueStopped(pb.SetQueueStoppedRequest(rm_id="stranger", queue="root")),
            (grpc.StatusCode.FAILED_PRECONDITION, "RM_NOT_REGISTERED"),
        ),
    }
    for text, (call, wanted) in refused.items():
        code, found, reason = await refusal(call)
        assert (found, (code, reason)) == (text, wanted)
    await admin.StopApplication(pb.StopApplicationRequest(rm_id="rm", application_id="app"))
    over = admin.StopApplication(pb.StopApplicationRequest(rm_id="rm", application_id="app"))
    assert await refusal(over) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "application app is over: it is Failed",
        "APPLICATION_OVER",
    )


BAD: dict[str, tuple[str, Message]] = {
    "node_id is empty": ("SetNodeSchedulable", pb.SetNodeSchedulableRequest(rm_id="rm")),
    "partition has 5000 characters": (
        "SetNodeSchedulable",
        pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n", partition="x" * 5000),
    ),
    "application_id holds control characters": (
        "StopApplication",
        pb.StopApplicationRequest(rm_id="rm", application_id="a\n"),
    ),
    "reason has 1026 bytes, at most 1024": (
        "StopApplication",
        pb.StopApplicationRequest(rm_id="rm", application_id="a", reason="ä" * 513),
    ),
    "queue has 5000 characters": (
        "SetQueueStopped",
        pb.SetQueueStoppedRequest(rm_id="rm", queue="q" * 5000),
    ),
    "level loud is none of debug, info, warning, error": (
        "SetLogLevel",
        pb.SetLogLevelRequest(logger="core", level="loud"),
    ),
    "logger core.enigne does not exist: did you mean core.engine?": (
        "SetLogLevel",
        pb.SetLogLevelRequest(logger="core.enigne", level="info"),
    ),
    "logger core..x does not exist; there are core.access, core.accounting, ": (
        "SetLogLevel",
        pb.SetLogLevelRequest(logger="core..x", level="info"),
    ),
    f"logger core.{'x' * 59}… does not exist; there are ": (
        "SetLogLevel",
        pb.SetLogLevelRequest(logger="core." + "x" * 200, level="info"),
    ),
}


@pytest.mark.parametrize("problem", BAD)
async def test_bad_names_are_refused_with_their_field(channel: Any, problem: str) -> None:
    """They are INVALID_ARGUMENT before any look-up."""
    method, request = BAD[problem]
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await getattr(AdminStub(channel), method)(request)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.value.details() or "").startswith(problem)
    assert [*violations(error.value)] == [problem.split(maxsplit=1)[0]]


async def test_each_call_leaves_a_line_that_names_the_caller(
    channel: Any, shim: Shim, usual_levels: None
) -> None:
    """The line has request, object, caller, and outcome, also for refusals."""
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

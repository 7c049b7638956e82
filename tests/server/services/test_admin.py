"""`licorne.v1.Admin` over the wire: reading, checking and changing configurations (spec § 13)."""

from typing import TYPE_CHECKING

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne_core.config.caps import MAX_BYTES
from licorne_server.assembly.server import Server
from support.core.configurations import WRONG
from support.core.steps import listed
from support.peers.shim import Shim, ask, new_allocations, violations
from support.server.reports import read_books, warned

if TYPE_CHECKING:
    from licorne.v1.admin_pb2_grpc import AdminAsyncStub

CONFIG = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {vcore: 1}}
"""
WIDER = CONFIG.replace("vcore: 1", "vcore: 2").replace("name: a", "name: b")
BROKEN = CONFIG.replace("vcore: 1", "vcore: -1").replace("submitacl", "submitall")


@pytest.mark.row(168)
async def test_update_changes_the_queues(server: Server, shim: Shim, admin: "AdminAsyncStub") -> None:
    """A new configuration is in force at once, and can be read back."""
    await shim.register(CONFIG)
    answer = await admin.UpdateConfiguration(
        pb.UpdateConfigurationRequest(rm_id="rm", config=WIDER, extra_config={"log.level": "DEBUG"})
    )
    assert answer.changed
    running = await admin.GetConfiguration(pb.GetConfigurationRequest(rm_id="rm"))
    assert running.config == WIDER
    assert running.checksum == answer.checksum
    assert running.extra_config == {"log.level": "DEBUG"}
    partition = server.scheduler.views.resolve("[rm]default")
    assert "root.b" in listed(server.scheduler.views.children(partition, "root"))


@pytest.mark.row(168)
async def test_refused_update_names_every_problem_and_changes_nothing(
    shim: Shim, admin: "AdminAsyncStub"
) -> None:
    """A bad configuration is INVALID_ARGUMENT with the place of each problem; the old one runs."""
    await shim.register(CONFIG)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=BROKEN))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.value.details() or "").startswith("update of configuration failed: ")
    found = violations(refused.value)
    assert found["partitions[0].queues[0].submitall"] == (
        "7:9: unknown key 'submitall', did you mean 'submitacl'?"
    )
    assert len(found) == 2
    running = await admin.GetConfiguration(pb.GetConfigurationRequest(rm_id="rm"))
    assert running.config == CONFIG


@pytest.mark.row(53, 54, 168)
async def test_no_refused_update_moves_the_books(server: Server, shim: Shim, admin: "AdminAsyncStub") -> None:
    """Every problem is INVALID_ARGUMENT, and usage and queues are unchanged."""
    allocations = (await shim.set_up(config=CONFIG))[0]
    await shim.ask(allocations, ask("placed"), ask("waits", vcore=10_000))
    await new_allocations(allocations, 1)
    before = await read_books(server.grpc_address, "rm")
    assert (before.pending, before.allocations) == (frozenset({"waits"}), {"placed": "n0"})
    for name, (text, reason) in WRONG.items():
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=text))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, name
        assert reason in (refused.value.details() or ""), name
    assert await read_books(server.grpc_address, "rm") == before


@pytest.mark.row(3, 54)
async def test_refused_configurations_are_in_the_log(shim: Shim, admin: "AdminAsyncStub") -> None:
    """Whoever runs the server reads which RM's configuration was refused, and why."""
    await shim.register(CONFIG)
    with capture_logs() as lines:
        with pytest.raises(grpc.aio.AioRpcError):
            await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=BROKEN))
        with pytest.raises(grpc.aio.AioRpcError):
            await shim.register(BROKEN)
    told = {line["event"]: line for line in warned(lines)}
    assert told.keys() == {"configuration refused", "registration refused"}
    for line in told.values():
        assert line["rm_id"] == "rm"
        assert "unknown key 'submitall'" in line["reason"]


@pytest.mark.row(28)
async def test_warnings_are_in_the_log(shim: Shim, admin: "AdminAsyncStub") -> None:
    """Doubtful values of a configuration that comes into force are logged."""
    cpu = "partitions: [{name: default, queues: [{name: a, submitacl: '*', resources: {max: {%s}}}]}]"
    with capture_logs() as lines:
        await shim.register(cpu % "cpu: 1")
        await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=cpu % "Memory: 1"))
        await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=cpu % "memory: 1Gi"))
    told = [line for line in lines if line["event"] == "configuration has warnings"]
    assert [(line["rm_id"], line["number"]) for line in told] == [("rm", 1), ("rm", 1)]
    for line, meant in zip(told, ("vcore", "memory"), strict=True):
        assert line["warnings"][0].endswith(f"did you mean '{meant}'?")


@pytest.mark.row(55)
async def test_same_configuration_changes_nothing_but_the_rest(shim: Shim, admin: "AdminAsyncStub") -> None:
    """An unchanged text is accepted, and the extra configuration still takes effect."""
    await shim.register(CONFIG)
    answer = await admin.UpdateConfiguration(
        pb.UpdateConfigurationRequest(rm_id="rm", config=CONFIG, extra_config={"a": "b"})
    )
    assert not answer.changed
    running = await admin.GetConfiguration(pb.GetConfigurationRequest(rm_id="rm"))
    assert running.extra_config == {"a": "b"}


@pytest.mark.row(52)
async def test_raised_maximum_lets_waiting_asks_go(shim: Shim, admin: "AdminAsyncStub") -> None:
    """An update that makes room is followed by the allocations that waited for it."""
    limited = CONFIG.replace("name: a", "name: ns")
    allocations = (await shim.set_up(config=limited, vcore=10_000))[0]
    await shim.ask(allocations, ask("first", vcore=1000), ask("second", vcore=1000))
    assert await new_allocations(allocations, 1) == {"first": "n0"}
    wider = limited.replace("vcore: 1", "vcore: 2")
    await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm", config=wider))
    assert await new_allocations(allocations, 1) == {"second": "n0"}


@pytest.mark.row(58)
async def test_validation_judges_and_touches_nothing(
    server: Server, shim: Shim, admin: "AdminAsyncStub"
) -> None:
    """Valid and invalid texts are distinguished with all problems; the running configuration is unchanged."""
    await shim.register(CONFIG)
    good = await admin.ValidateConfiguration(pb.ValidateConfigurationRequest(config=WIDER))
    assert good.allowed
    assert len(good.checksum) == 64
    bad = await admin.ValidateConfiguration(pb.ValidateConfigurationRequest(config=BROKEN))
    assert not bad.allowed
    assert [(problem.line, problem.path) for problem in bad.problems] == [
        (7, "partitions[0].queues[0].submitall"),
        (10, "partitions[0].queues[0].queues[0].resources.max.vcore"),
    ]
    assert all(problem.message in bad.reason for problem in bad.problems)
    [report] = server.scheduler.views.rms()
    assert report.config == CONFIG


@pytest.mark.parametrize("call", ["GetConfiguration", "UpdateConfiguration"])
async def test_unknown_rm_is_a_failed_precondition(admin: "AdminAsyncStub", call: str) -> None:
    """Configuring an RM that is not registered fails with the text that callers know."""
    request = getattr(pb, f"{call}Request")(rm_id="x")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(admin, call)(request)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    text = "RM x has no active partitions, make sure it is registered"
    assert refused.value.details() == text


async def test_configuration_beyond_the_cap_is_refused(admin: "AdminAsyncStub") -> None:
    """A text above the parser's limit is not even read; one byte less is."""
    most = pb.ValidateConfigurationRequest(config="#" * MAX_BYTES)
    assert "larger" not in (await admin.ValidateConfiguration(most)).reason
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await admin.ValidateConfiguration(pb.ValidateConfigurationRequest(config="#" * (MAX_BYTES + 1)))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"config"}

"""`licorne.v1.Admin` over the wire: reading, checking and changing configurations (spec § 13)."""

from typing import TYPE_CHECKING

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne_core.config.caps import MAX_BYTES
from licorne_server.assembly.server import Server
from support.core.configurations import WRONG
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
BROKEN = CONFIG.replace("vcore: 1", "vcore: -1").replace("submitacl", "submitall")


@pytest.mark.row(53, 54, 168)
async def test_a_refused_update_changes_nothing(server: Server, shim: Shim, admin: "AdminAsyncStub") -> None:
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
async def test_refused_configurations_are_logged(shim: Shim, admin: "AdminAsyncStub") -> None:
    """The log has the RM whose configuration was refused, and the reason."""
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
async def test_warnings_are_logged(shim: Shim, admin: "AdminAsyncStub") -> None:
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


async def test_a_configuration_beyond_the_cap_is_refused(admin: "AdminAsyncStub") -> None:
    """A text above the parser's limit is not parsed, and one with a byte less is."""
    most = pb.ValidateConfigurationRequest(config="#" * MAX_BYTES)
    assert "larger" not in (await admin.ValidateConfiguration(most)).reason
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await admin.ValidateConfiguration(pb.ValidateConfigurationRequest(config="#" * (MAX_BYTES + 1)))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"config"}

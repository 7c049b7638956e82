"""A server audits its sums by itself, and reports differences."""

from typing import Any, cast

from structlog.testing import capture_logs

from licorne_server.engine.audits import AUDIT_SECONDS, LOGGED
from licorne_server.testing import FakeRM, VirtualClock
from support.peers.shim import serving


async def test_sums_are_audited_periodically() -> None:
    """Correct sums cause no message; differences are counted, and the first one is logged."""
    clock = VirtualClock()
    async with serving(clock=clock) as server, FakeRM(server.grpc_address, clock=clock) as rm:
        await rm.add_nodes(LOGGED + 2)
        with capture_logs() as quiet:
            await clock.advance(AUDIT_SECONDS)
        assert (server.periodics.audits.count, server.periodics.audits.findings) == (1, 0)
        assert not [line for line in quiet if line["event"] == "books disagree"]
        (partition,) = server.scheduler.partitions.values()
        for node in partition.nodes.by_id.values():
            node.available = {"vcore": -1}
        with capture_logs() as lines:
            await clock.advance(AUDIT_SECONDS)
        assert server.periodics.audits.count == 2
        assert server.periodics.audits.findings > LOGGED
        told = [line["finding"] for line in lines if line["event"] == "books disagree"]
        assert len(told) == LOGGED
        assert told[0].startswith("partition [rm1]default: ")


async def test_audits_continue_after_a_failure() -> None:
    """A failure of the audit is reported, and the next audit takes place at its time."""
    clock = VirtualClock()
    async with serving(clock=clock) as server, FakeRM(server.grpc_address, clock=clock) as rm:
        await rm.add_nodes(1)
        (partition,) = server.scheduler.partitions.values()
        (node,) = partition.nodes.by_id.values()
        whole = node.available
        node.available = cast("Any", None)
        with capture_logs() as lines:
            await clock.advance(AUDIT_SECONDS)
        (line,) = [line for line in lines if line["event"] == "audit failed"]
        assert line["partition"] == partition.name
        node.available = whole
        await clock.advance(AUDIT_SECONDS)
        assert (server.periodics.audits.count, server.periodics.audits.findings) == (2, 0)

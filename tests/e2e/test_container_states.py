"""Reports for an autoscaler: asks within their quota that no node can host (spec § 8.12)."""

from typing import Any

import aiohttp
import pytest

from licorne import ContainerState
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.peers.shim import eventually

REASON = "request is waiting for cluster resources become available"


def told(rm: FakeRM) -> list[str]:
    """The keys of the reported asks, in order."""
    return [state.key for state in rm.container_states]


@pytest.mark.row(129)
async def test_asks_without_a_node_are_reported_once() -> None:
    """Within two seconds every ask without a node is reported as FAILED, and never again."""
    clock = VirtualClock()
    async with serve(clock=clock) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(2, vcore=1000)
        await rm.submit("app")
        keys = await rm.ask("app", 3, vcore=1500)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 3)
        await clock.advance(2)
        await rm.until(lambda: len(rm.container_states) >= 3, "the states")
        assert rm.container_states == [ContainerState(key, "app", "FAILED", REASON) for key in keys]
        await clock.advance(60)
        later = await rm.ask("app", 1, vcore=1500)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 4)
        await clock.advance(2)
        await rm.until(lambda: len(rm.container_states) >= 4, "the state of the later ask")
        assert told(rm) == [*keys, *later]


@pytest.mark.row(129)
async def test_an_operator_sees_the_reported_asks() -> None:
    """REST marks the reported asks, and not those that a quota blocks."""
    config = "{name: root, submitacl: '*', queues: [{name: q, resources: {max: {vcore: 1}}}]}"
    clock = VirtualClock()
    queues = f"partitions: [{{name: default, queues: [{config}]}}]"
    async with serve(queues, clock=clock) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1, vcore=500)
        await rm.submit("app", queue="root.q")
        keys = await rm.ask("app", 3, vcore=1000)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 3)
        assert await marked(server.http) == []
        await clock.advance(2)
        assert await marked(server.http) == keys[:1]


async def marked(address: str) -> list[str]:
    """The keys of the asks that REST marks as reported."""
    url = f"http://{address}/ws/v1/partition/default/application/app"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        shown: Any = await answer.json()
    return [item["allocationKey"] for item in shown["requests"] if item["triggeredScaleUp"]]


async def test_a_new_registration_gets_reports_again() -> None:
    """After a new registration the asks are reported again."""
    clock = VirtualClock()
    async with serve(clock=clock) as server:
        for _ in range(2):
            async with FakeRM(server.target) as rm:
                await rm.add_nodes(1, vcore=500)
                await rm.submit("app")
                keys = await rm.ask("app", 1)
                await eventually(lambda: server.views.partitions()[0].pending_asks == 1)
                await clock.advance(2)
                await rm.until(lambda rm=rm: bool(told(rm)), "the state")  # type: ignore[misc]
                assert told(rm) == keys

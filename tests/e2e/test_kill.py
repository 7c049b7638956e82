"""kill -9 of the server, and of the RM, in the middle of scheduling: the books come back."""

import asyncio
import sys
from pathlib import Path

import pytest

from licorne import Allocated, Allocation, Application, Ask, Client, Node, RetryConfig
from licorne_server.testing import FakeRM
from support.books import read_books
from support.server_process import ServerProcess

DOOMED_RM = Path(__file__).parent / "doomed_rm.py"
QUICK = RetryConfig(initial=0.05, maximum=0.2)
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
          - name: small
            resources: {max: {vcore: 1}}
"""


def placements(rm: FakeRM) -> dict[str, list[str]]:
    """Every node that every key was ever placed on."""
    nodes: dict[str, list[str]] = {}
    for event in rm.events:
        if isinstance(event, Allocated):
            nodes.setdefault(event.key, []).append(event.node_id)
    return nodes


@pytest.mark.row(161)
async def test_a_server_killed_while_it_schedules_loses_nothing() -> None:
    """Killed again and again, it ends up with every ask placed once, where the RM has it."""
    async with (
        ServerProcess() as server,
        FakeRM(server.target, config=CONFIG, retry=QUICK, patience=30) as rm,
    ):
        await rm.add_nodes(10, vcore=1_000_000)
        await rm.submit("app")
        for kills in range(1, 4):
            before = len(rm.allocations)
            await rm.ask("app", 3000, vcore=100)
            await rm.until(lambda before=before: len(rm.allocations) > before, "the first")  # type: ignore[misc]
            await server.restart()
            await rm.until(lambda kills=kills: rm.client.stats.replayed > kills, "the replay")  # type: ignore[misc]
        await rm.allocated(9000)
        assert [nodes for nodes in placements(rm).values() if len(nodes) > 1] == []
        books = await read_books(server.target)
        assert books.allocations == rm.allocations
        assert books.queues["root.default"] == ({"vcore": 900_000}, {})


@pytest.mark.row(161)
async def test_a_killed_server_comes_back_with_the_same_books() -> None:
    """Queues, nodes, applications, allocations and pending asks are those of before the kill."""
    async with (
        ServerProcess() as server,
        FakeRM(server.target, config=CONFIG, retry=QUICK, patience=30) as rm,
    ):
        await rm.add_nodes(20, vcore=10_000)
        await rm.client.drain_node("node-20")
        await rm.submit("app")
        await rm.submit("waits", queue="root.small", user="bob")
        await rm.ask("app", 100, vcore=1000)
        await rm.ask("waits", 10, vcore=300)
        await rm.allocated(103)
        await rm.release(["app-1", "app-2"])
        before = await read_books(server.target)
        assert len(before.pending) == 7
        await server.restart()
        await rm.until(lambda: rm.client.stats.replayed == 2, "the replay")
        assert await read_books(server.target) == before


@pytest.mark.row(5, 161)
async def test_a_killed_rm_reports_what_runs_and_the_rest_is_freed() -> None:
    """A new instance of a killed RM replays from its own truth; nothing else stays in the books."""
    async with ServerProcess() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(DOOMED_RM), server.target, CONFIG, "5000"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        truth: dict[str, str] = {}
        while len(truth) < 300:
            line = await asyncio.wait_for(process.stdout.readline(), 30)
            key, node_id = line.decode().split()
            truth[key] = node_id
        process.kill()
        await process.wait()
        async with Client(server.target, rm_id="rm1", config=CONFIG) as rm:
            await rm.add_nodes(
                Node(node_id=f"node-{n}", capacity={"vcore": 1_000_000}) for n in range(1, 11)
            )
            await rm.submit_applications([Application(application_id="app", user="test")])
            await rm.report_allocations(
                Allocation(
                    ask=Ask(key=key, application_id="app", resources={"vcore": 100}),
                    node_id=node_id,
                )
                for key, node_id in truth.items()
            )
            await asyncio.wait_for(rm.ready(), 30)
            books = await read_books(server.target)
            assert books.allocations == truth
            assert books.pending == frozenset()
            assert books.queues["root"] == ({"vcore": 30_000}, {})

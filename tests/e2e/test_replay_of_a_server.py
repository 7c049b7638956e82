"""The replay of a server's journal, with every kind of input, makes the same decisions."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from licorne.v1.state_pb2 import ExplainRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.commands import main
from licorne_cli.failures import OK
from licorne_cli.output.text import to_plain
from licorne_core.config import load
from licorne_server.process.bounds import RmBounds
from licorne_server.process.settings import Settings
from licorne_server.testing import FakeRM, Served, VirtualClock
from licorne_server.testing.serving import LOOPBACK, START
from support.core.builders import config

QUEUES = config("[{name: default}, {name: small, resources: {max: {vcore: 2}}}]")
GPU = {"licorne/predicate-class": "gpu"}
MOMENT = START + 60


def only_second(_: str, node: str) -> str | None:
    """Accept asks of that class on one node only."""
    return None if node == "node-2" else "no gpu"


async def explained(target: str, ask: str) -> object:
    """The server's explanation as JSON."""
    async with grpc.aio.insecure_channel(target) as channel:
        request = ExplainRequest(partition="[two]default", application_id="waits", allocation_key=ask)
        return json.loads(json.dumps(to_plain(await StateStub(channel).Explain(request))))


async def play(server: Served, clock: VirtualClock, stack: AsyncExitStack) -> object:
    """Run two RMs, one of which crashes, and then the server; return an explanation at `MOMENT`."""
    one = FakeRM(server.target, rm_id="one", config=QUEUES, predicates=only_second)
    two = FakeRM(server.target, rm_id="two", config=QUEUES, stop_after=1.0)
    for rm in (one, two):
        await stack.enter_async_context(rm)
        await rm.add_nodes(2)
        await rm.submit("app")
        await rm.ask("app", 3, prefix="a", tags=GPU)
    await one.allocated(3)
    await clock.advance(20)
    await one.close()
    again = await stack.enter_async_context(
        FakeRM(server.target, rm_id="one", config=QUEUES, predicates=only_second)
    )
    await again.add_nodes(3)
    await again.submit("app")
    await again.ask("app", 2, prefix="b")
    await again.allocated(2)
    await server.restart(crash=True)
    await clock.advance(10)
    await two.submit("waits", queue="root.small")
    keys = await two.ask("waits", 4, prefix="w")
    await clock.advance(MOMENT - clock.now())
    answer = await explained(server.target, keys[-1])
    await clock.advance(1)
    await two.release(keys[:1])
    await clock.advance(30)
    return answer


async def test_a_journal_with_crashes_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both runs are replayed to the same decisions, and the explanation of a moment is the server's."""
    journal, clock = tmp_path / "journal", VirtualClock()
    settings = Settings(
        listen=LOOPBACK,
        http=LOOPBACK,
        default_config=load(""),
        rms=RmBounds(plan_pause=0.0),
        journal=journal,
    )
    server = Served(settings, clock)
    await server.start()
    clock.attend(server)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        live = await play(server, clock, stack)
    for run in ("1", "2"):
        assert main(["replay", str(journal), "--run", run, "-o", "json"]) == OK
        found = json.loads(capsys.readouterr().out)
        assert found["torn"] is None
        assert found["sums"]["equal"]
        assert found["sums"]["compared"] > 0
        assert {one["rmId"] for one in found["live"]["partitions"]} == {"one", "two"}
    key = live["allocationKey"]  # type: ignore[index]
    assert main(["why", str(journal), key, "--at", str(MOMENT), "--app", "waits", "-o", "json"]) == OK
    assert json.loads(capsys.readouterr().out) == live

"""The test kit's clock: requests are processed before time moves, and at each stop."""

import asyncio
from typing import Any

import pytest

from licorne_server.rms.streams import Stream
from licorne_server.testing import FakeRM, Proxy, VirtualClock, serve

TWO_QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 8}}}
          - {name: dev}
"""


async def test_an_ask_is_processed_before_time_moves() -> None:
    """An ask that was sent before `advance` has its allocation afterwards."""
    clock = VirtualClock()
    async with serve(clock=clock) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1)
        await rm.submit("app")
        await rm.ask("app", 3)
        await clock.advance(10)
        assert set(rm.allocations) == {"app-1", "app-2", "app-3"}
        await rm.client.release(["app-1"])
        await clock.advance(0)
        assert set(rm.allocations) == {"app-2", "app-3"}


async def test_victims_are_confirmed_within_one_step() -> None:
    """An RM stops victims at their times while the clock moves, so that preemption is completed."""
    clock = VirtualClock()
    async with serve(TWO_QUEUES, clock=clock) as server, FakeRM(server.target, stop_after=2) as rm:
        await rm.add_nodes(1, vcore=10_000)
        await rm.submit("batch", queue="root.dev")
        await rm.ask("batch", 10, vcore=1000, allow_preempt_self=True)
        await clock.advance(1)
        await rm.submit("web", queue="root.prod")
        await rm.ask("web", 4, vcore=1000, allow_preempt_other=True)
        await clock.advance(40)
        assert sum(key.startswith("web-") for key in rm.allocations) == 4
        assert len(rm.allocations) == 10


async def test_checks_are_answered_at_each_stop() -> None:
    """The RM's checks are answered before time moves; withheld answers are not waited for."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as server,
        FakeRM(server.target, predicates=lambda name, node: None) as rm,
    ):
        await rm.add_nodes(2)
        await rm.submit("app")
        await rm.ask("app", 2, predicate_class="a")
        await clock.advance(1)
        assert len(rm.allocations) == 2
        rm.answering.clear()
        await rm.ask("app", 1, predicate_class="b")
        await clock.advance(1)
        assert (len(rm.allocations), len(rm.checks)) == (2, 2)
        rm.answering.set()
        await clock.advance(0)
        assert len(rm.allocations) == 3
        rm.judge.delay = 0.5
        await rm.ask("app", 1, predicate_class="c")
        await clock.advance(0.4)
        assert len(rm.allocations) == 3
        await clock.advance(0.1)
        assert len(rm.allocations) == 4


async def test_a_restart_is_complete_when_time_moves() -> None:
    """After a crash the RM reconnects and completes its replay before the clock moves."""
    clock = VirtualClock()
    async with serve(clock=clock) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1)
        await rm.submit("app")
        await rm.ask("app", 2)
        await clock.advance(1)
        await server.restart(crash=True)
        await rm.ask("app", 1)
        await clock.advance(1)
        assert len(rm.allocations) == 3
        [partition] = server.views.partitions()
        assert partition.allocations == 3


async def test_unreachable_parties_are_not_waited_for() -> None:
    """A stopped server, a frozen connection and an RM that does not read do not stop the clock."""
    clock = VirtualClock()
    async with serve(clock=clock) as server, Proxy(server.target) as proxy, FakeRM(proxy.target) as rm:
        await rm.add_nodes(1)
        await rm.submit("app")
        proxy.flowing.clear()
        await rm.ask("app", 1)
        await clock.advance(5)
        assert rm.allocations == {}
        proxy.flowing.set()
        await clock.advance(5)
        assert set(rm.allocations) == {"app-1"}
        rm.reading.clear()
        await rm.ask("app", 1)
        await clock.advance(5)
        assert set(rm.allocations) == {"app-1"}
        rm.reading.set()
        await clock.advance(0)
        assert set(rm.allocations) == {"app-1", "app-2"}
        await server.crash()
        await rm.ask("app", 1)
        await clock.advance(5)
        assert len(rm.allocations) == 2


async def test_a_busy_party_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of `advance` names the party that does not become idle."""
    monkeypatch.setattr("licorne_server.testing.serving.PATIENCE", 0.05)

    class Busy:
        is_settled = False

        def __str__(self) -> str:
            return "RM busy"

    clock = VirtualClock()
    clock.attend(Busy())
    with pytest.raises(TimeoutError, match=r"waited 0\.05 s for RM busy to come to rest"):
        await clock.advance(1)


class Held:
    """A gRPC context whose writes return once the gate is open."""

    def __init__(self, context: Any, gate: asyncio.Event) -> None:
        """Wrap a context."""
        self._context, self._gate = context, gate

    async def write(self, raw: bytes) -> None:
        """Send the message, then wait."""
        await self._context.write(raw)
        await self._gate.wait()

    def __getattr__(self, name: str) -> Any:
        """Use the context for all other attributes."""
        return getattr(self._context, name)


@pytest.mark.pure
async def test_a_message_is_waited_for_until_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is not idle while it writes a message, because the time for checks begins then."""
    clock, gate, begin = VirtualClock(), asyncio.Event(), Stream.__init__
    gate.set()
    monkeypatch.setattr(
        Stream, "__init__", lambda self, context, *rest: begin(self, Held(context, gate), *rest)
    )
    async with serve(clock=clock) as server, FakeRM(server.target, clock=clock) as rm:
        await rm.add_nodes(1)
        await clock.advance(0)
        gate.clear()
        await rm.submit("job")
        assert not rm.is_settled
        gate.set()
        await clock.advance(0)
        assert rm.is_settled

"""A lock with turns for peers, and a bounded queue."""

import asyncio
from typing import Any

import grpc
import pytest

from licorne_server.process.fair import FairLock
from licorne_server.wire.errors import CallError, Stopped
from support.patience import PATIENCE


def a_lock(each: int = 2, total: int = 3) -> FairLock:
    """A lock for which few callers may wait."""
    return FairLock("plans", "TOO_MANY_PLANS", total, each, retry_after=2.0)


async def settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


class Visits:
    """The callers of a lock: each holds it until the test releases it."""

    def __init__(self, lock: FairLock) -> None:
        """Start without callers."""
        self.lock = lock
        self.order: list[str] = []
        self._go: dict[str, asyncio.Event] = {}

    def come(self, peer: str, name: str) -> "asyncio.Task[None]":
        """Let a caller of a peer arrive."""
        self._go[name] = asyncio.Event()

        async def visit() -> None:
            async with self.lock.turn(peer):
                self.order.append(name)
                await self._go[name].wait()

        return asyncio.get_running_loop().create_task(visit())

    def let_go(self, name: str) -> None:
        """Let a present or future holder release the lock."""
        self._go[name].set()


async def test_peers_take_turns() -> None:
    """After each turn of a peer with many callers another peer has a turn."""
    visits = Visits(a_lock(each=3, total=9))
    tasks = [visits.come("a", name) for name in ("a1", "a2", "a3")]
    tasks += [visits.come("b", "b1"), visits.come("c", "c1")]
    await settled()
    for name in ("a1", "a2", "a3", "b1", "c1"):
        visits.let_go(name)
    await asyncio.gather(*tasks)
    assert visits.order == ["a1", "a2", "b1", "c1", "a3"]


async def test_quotas_of_peers_are_separate() -> None:
    """A peer reaches its own quota without an effect on others; the quota of all holds for everybody."""
    visits = Visits(a_lock())
    tasks = [visits.come("a", name) for name in ("a1", "a2", "a3")]
    await settled()
    assert await refused(visits.come("a", "a4")) == "plans: 2 of a wait already"
    tasks.append(visits.come("b", "b1"))
    await settled()
    assert await refused(visits.come("c", "c1")) == "plans: 3 wait already"
    for name in ("a1", "a2", "a3", "b1"):
        visits.let_go(name)
    await asyncio.gather(*tasks)


async def refused(task: "asyncio.Task[Any]") -> str:
    """The text of a refusal."""
    with pytest.raises(CallError) as error:
        await task
    assert error.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return error.value.message


async def test_cancelled_callers_are_skipped() -> None:
    """A cancelled caller frees its place at once, and the turn passes to the next."""
    visits = Visits(a_lock(each=1))
    first, second = visits.come("a", "a1"), visits.come("b", "b1")
    await settled()
    second.cancel()
    await settled()
    assert visits.lock.waiting == 0
    third = visits.come("b", "b2")
    await settled()
    visits.let_go("a1")
    visits.let_go("b2")
    await asyncio.gather(first, third)
    assert visits.order == ["a1", "b2"]


async def test_a_cancelled_caller_passes_its_turn_on() -> None:
    """A caller that is cancelled at the moment it gets the turn passes the turn on."""
    visits = Visits(a_lock())
    async with visits.lock.turn("a"):
        second, third = visits.come("b", "b1"), visits.come("c", "c1")
        await settled()
    # It has the turn, and has not run since.
    second.cancel()
    visits.let_go("c1")
    await asyncio.wait_for(third, PATIENCE)
    assert visits.order == ["c1"]


async def test_a_closed_lock_refuses_waiting_callers() -> None:
    """Waiting callers of a closed lock get the error, and the holder keeps the lock."""
    visits = Visits(a_lock())
    first, second = visits.come("a", "a1"), visits.come("b", "b1")
    await settled()
    visits.lock.close(Stopped())
    with pytest.raises(Stopped):
        await second
    visits.let_go("a1")
    await first


async def test_a_caller_cancelled_at_the_end_of_a_turn_is_skipped() -> None:
    """The turn passes to the next remaining caller, and the queue continues."""
    visits = Visits(a_lock())
    visits.come("a", "a1")
    await settled()
    gone = visits.come("b", "b1")
    visits.come("c", "c1")
    await settled()
    visits.let_go("a1")
    gone.cancel()
    await settled()
    assert visits.order == ["a1", "c1"]
    visits.let_go("c1")
    await settled()
    visits.come("d", "d1")
    await settled()
    assert visits.order == ["a1", "c1", "d1"]
    visits.let_go("d1")
    await settled()

"""A lock for which peers take turns, and for which only so many may wait."""

import asyncio
from typing import Any

import grpc
import pytest

from licorne_server.process.fair import FairLock
from licorne_server.wire.errors import CallError, Stopped
from support.patience import PATIENCE


def a_lock(each: int = 2, total: int = 3) -> FairLock:
    """A lock for which few may wait."""
    return FairLock("plans", "TOO_MANY_PLANS", total, each, retry_after=2.0)


async def settled() -> None:
    """Let everybody come as far as they come."""
    for _ in range(10):
        await asyncio.sleep(0)


class Visits:
    """Those who come for a lock: each stays until it is let go."""

    def __init__(self, lock: FairLock) -> None:
        """Nobody has come."""
        self.lock = lock
        self.order: list[str] = []
        self._go: dict[str, asyncio.Event] = {}

    def come(self, peer: str, name: str) -> "asyncio.Task[None]":
        """A caller of a peer comes."""
        self._go[name] = asyncio.Event()

        async def visit() -> None:
            async with self.lock.turn(peer):
                self.order.append(name)
                await self._go[name].wait()

        return asyncio.get_running_loop().create_task(visit())

    def let_go(self, name: str) -> None:
        """One who is in, or will be, does not stay."""
        self._go[name].set()


async def test_turns_go_round_the_peers() -> None:
    """Who came with many has one turn, then another peer has one."""
    visits = Visits(a_lock(each=3, total=9))
    tasks = [visits.come("a", name) for name in ("a1", "a2", "a3")]
    tasks += [visits.come("b", "b1"), visits.come("c", "c1")]
    await settled()
    for name in ("a1", "a2", "a3", "b1", "c1"):
        visits.let_go(name)
    await asyncio.gather(*tasks)
    assert visits.order == ["a1", "a2", "b1", "c1", "a3"]


async def test_a_peer_that_waits_too_often_is_refused_and_others_are_not() -> None:
    """The bound of a peer is its own; that of all is for everybody."""
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
    """What a refusal says."""
    with pytest.raises(CallError) as error:
        await task
    assert error.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return error.value.message


async def test_who_goes_while_waiting_is_passed_over() -> None:
    """Cancelled ones leave room at once, and the turn goes to who is left."""
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


async def test_a_turn_that_comes_too_late_goes_on_to_the_next() -> None:
    """Who is cancelled in the moment in which it gets the turn does not keep it."""
    visits = Visits(a_lock())
    async with visits.lock.turn("a"):
        second, third = visits.come("b", "b1"), visits.come("c", "c1")
        await settled()
    # It has been given the turn, and did not run since.
    second.cancel()
    visits.let_go("c1")
    await asyncio.wait_for(third, PATIENCE)
    assert visits.order == ["c1"]


async def test_nobody_waits_for_a_lock_that_is_closed() -> None:
    """Who waits gets the error, and who has the turn keeps it."""
    visits = Visits(a_lock())
    first, second = visits.come("a", "a1"), visits.come("b", "b1")
    await settled()
    visits.lock.close(Stopped())
    with pytest.raises(Stopped):
        await second
    visits.let_go("a1")
    await first


async def test_one_who_is_cancelled_as_the_turn_ends_is_passed_over() -> None:
    """The turn goes to the next who is there, and the line goes on."""
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

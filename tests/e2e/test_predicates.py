"""An RM that judges the nodes of its asks: server, session and client together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from licorne import FailMode
from licorne_server.testing import FakeRM, Served, VirtualClock, serve
from support.server.reports import read_books

GPU = {"licorne/predicate-class": "gpu"}
NO_GPU = "no gpu"
REQUIRED = "yunikorn.apache.org/requiredNode"


def only_third(_: str, node: str) -> str | None:
    """Refuse all nodes but the third."""
    return None if node == "node-3" else NO_GPU


def anywhere(_: str, __: str) -> str | None:
    """Accept every node."""
    return None


@asynccontextmanager
async def silent(server: Served, fail_mode: FailMode) -> AsyncIterator[FakeRM]:
    """An RM with three nodes, and an ask whose check is not answered."""
    async with FakeRM(server.target, predicates=only_third, fail_mode=fail_mode) as rm:
        await rm.add_nodes(3)
        await rm.submit("app")
        rm.answering.clear()
        await rm.ask("app", 1, tags=GPU)
        await rm.until(lambda: bool(rm.checks), "a check")
        yield rm


@pytest.mark.row(123)
async def test_results_depend_on_class_and_node() -> None:
    """Asks of one size get the nodes that are accepted for their class, tagged or not."""

    def by_class(tag: str, node: str) -> str | None:
        return NO_GPU if (tag == "gpu") == (node == "node-1") else None

    async with serve() as server, FakeRM(server.target, predicates=by_class) as rm:
        await rm.add_nodes(2)
        await rm.submit("app")
        cpu = await rm.ask("app", 4, prefix="cpu", tags={"licorne/predicate-class": "cpu"})
        gpu = await rm.ask("app", 4, prefix="gpu", tags=GPU)
        alone = await rm.ask("app", 2, prefix="alone")
        placed = await rm.allocated(10)
        assert {placed[key] for key in (*cpu, *alone)} == {"node-1"}
        assert {placed[key] for key in gpu} == {"node-2"}


@pytest.mark.row(123, 124)
async def test_a_refused_required_node_is_not_used() -> None:
    """An ask whose required node is refused waits, and later asks are placed."""

    def no_first(_: str, node: str) -> str | None:
        return NO_GPU if node == "node-1" else None

    async with serve() as server, FakeRM(server.target, predicates=no_first) as rm:
        await rm.add_nodes(2)
        await rm.submit("app")
        await rm.ask("app", 1, prefix="bound", tags={REQUIRED: "node-1"})
        await rm.until(lambda: bool(rm.checks), "a check")
        await rm.ask("app", 3, prefix="free")
        assert set((await rm.allocated(3)).items()) == {(f"free-{number}", "node-2") for number in (1, 2, 3)}
        assert (await read_books(server.target)).pending == {"bound-1"}


async def test_an_answer_in_time_counts() -> None:
    """Until the answer or the deadline the room is booked; an answer in time decides."""
    clock = VirtualClock()
    async with serve(clock=clock) as server, silent(server, FailMode.OPEN) as rm:
        await clock.advance(1.9)
        rm.answering.set()
        assert await rm.allocated(1) == {"app-1": "node-3"}


async def test_a_registration_repeats_checks() -> None:
    """A new instance of the RM gets new checks, whatever the previous one left unanswered."""
    async with serve() as server:
        async with silent(server, FailMode.CLOSED):
            pass
        async with FakeRM(server.target, predicates=anywhere) as newer:
            await newer.add_nodes(3)
            await newer.submit("app")
            await newer.ask("app", 5, tags=GPU)
            await newer.allocated(5)


async def test_a_silent_rm_does_not_delay_others() -> None:
    """While one RM does not answer, another RM gets checks, answers them and is fully served."""
    async with serve() as server, silent(server, FailMode.CLOSED) as mute:
        async with FakeRM(server.target, rm_id="rm2", predicates=only_third) as rm:
            await rm.add_nodes(3)
            await rm.submit("app")
            for count in range(1, 11):
                await rm.ask("app", 1, tags=GPU)
                await rm.allocated(count)
            assert set(rm.allocations.values()) == {"node-3"}
            assert mute.allocations == {}
        mute.answering.set()
        assert await mute.allocated(1) == {"app-1": "node-3"}


async def test_an_ask_that_waits_for_an_answer_keeps_its_room() -> None:
    """An ask that waits for the RM's answer neither blocks later asks nor loses its place."""
    async with serve() as server, silent(server, FailMode.CLOSED) as rm:
        await rm.ask("app", 3, prefix="free", tags={"licorne/predicate-class": "other"})
        await asyncio.sleep(0)
        rm.answering.set()
        placed = await rm.allocated(4)
        assert placed["app-1"] == "node-3"

"""Budgets of two members in two servers, which share a store and one budget."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Settings
from licorne_server.rms.budgets.definitions import KEY
from licorne_server.rms.budgets.escrow import BUDGETS
from licorne_server.rms.budgets.members import PAUSE
from licorne_server.rms.budgets.slices import Escrowed, decode
from licorne_server.store.documents.documents import Document, StoreError
from licorne_server.testing import VirtualClock
from support.members import Seat, Table
from support.peers.shim import FREE_PLANS, LOOPBACK, Shim, ask, connected, hang_up, info_of, new_allocations

T = TypeVar("T")
TEXT = "budgets: [{name: company, limit: {vcore: 1000m}, members: [{rm: '*'}]}]"


def escrowed(table: Table) -> Escrowed:
    """The document of the budget."""
    return decode(table.documents[f"{BUDGETS}company"].value)


class Mute(Table):
    """A store that leaves some writes, which it may carry out, and later reads without an answer."""

    carries_out, reads_again = True, True
    lost = False

    async def read(self, key: str) -> Document:
        """See `Store`."""
        if self.lost and not self.reads_again:
            raise StoreError("no answer")
        return await super().read(key)

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """See `Store`."""
        if key != KEY:
            return await super().compare_and_set(key, value, revision)
        if self.carries_out:
            await super().compare_and_set(key, value, revision)
        self.lost = True
        raise StoreError("no answer")


class ReadTogether(Table):
    """A table with a store; each of two members that start has read before the other one writes."""

    def __init__(self) -> None:
        """Start with two reads before the first write."""
        super().__init__()
        self._barrier = asyncio.Barrier(2)
        self._left = 4

    async def read(self, key: str) -> Document:
        """See `Store`."""
        found = await super().read(key)
        if key == KEY and self._left:
            self._left -= 1
            await self._barrier.wait()
        return found


@pytest.fixture
def store() -> Table:
    """The table and the store of both members."""
    return Table()


@asynccontextmanager
async def member(
    store: Table, name: str, clock: VirtualClock, file: Path | None = None
) -> AsyncIterator[Server]:
    """One member, whose clock the test moves."""
    settings = Settings(listen=LOOPBACK, http=None, drain=1.0, rms=FREE_PLANS, budgets_file=file)
    server = Server(settings, clock=clock, ownership=Seat(store, name, name))
    await server.start()
    try:
        yield server
    finally:
        await server.stop(at_once=True)


async def meanwhile(clock: VirtualClock, wanted: Awaitable[T]) -> T:
    """Wait for a condition, while the members' rounds continue."""
    task = asyncio.ensure_future(wanted)
    while not task.done():
        await clock.advance(PAUSE)
    return await task


async def rounds(clock: VirtualClock, count: int) -> None:
    """Let the members with this clock run rounds."""
    for _ in range(count):
        await clock.advance(PAUSE)


async def test_two_members_share_a_budget(store: Table) -> None:
    """Each member spends slices only; what one frees is granted to the other, and reported.

    The first one's excess over its fair share is an overdraft from the moment at which the second wants it.
    """
    clock = VirtualClock()
    async with (
        member(store, "m1", clock) as first,
        member(store, "m2", clock) as second,
        connected(first) as one,
        connected(second) as two,
    ):
        await AdminStub(one).UpdateBudgets(pb.UpdateBudgetsRequest(budgets=TEXT))
        await rounds(clock, 8)
        assert second.budgets.definition.definition.revision == 1
        near, far = Shim(one, "near"), Shim(two, "far")
        [calls, others] = [await shim.set_up(vcore=10_000) for shim in (near, far)]
        await near.ask(calls[0], *(ask(f"a{number}") for number in range(8)))
        await meanwhile(clock, new_allocations(calls[0], 8))
        await far.ask(others[0], *(ask(f"b{number}") for number in range(4)))
        await meanwhile(clock, new_allocations(others[0], 2))
        await rounds(clock, 30)
        holdings = escrowed(store).holdings.items()
        held = {str(rm_id): one.slice["vcore"] for rm_id, one in holdings}
        over = {str(rm_id): one.overdraft.get("vcore", 0) for rm_id, one in holdings}
        assert held == {"near": 800 - over["near"], "far": 200}
        assert 200 <= over["near"] <= 300

        [budget] = (await StateStub(one).ListBudgets(sp.ListBudgetsRequest())).budgets
        assert (budget.sliced, budget.counting, dict(budget.unassigned)) == (True, False, {"vcore": 0})
        here = {held.rm_id: (held.here, held.slice["vcore"]) for held in budget.holdings}
        assert here == {"near": (True, held["near"]), "far": (True, 200)}, "each by the member that has it"
        [want] = [held.wanted for held in budget.holdings if held.rm_id == "far"]
        assert 200 <= want["vcore"] <= 400, "a want is published within a factor of two"


@pytest.mark.parametrize(
    ("carries_out", "answers", "text"),
    [
        (True, True, ""),
        (False, True, "the budgets were not stored, so that nothing was changed: no answer"),
        (True, False, "the store does not answer, and the budgets may have been changed: no answer"),
    ],
)
async def test_a_lost_answer_is_reported_truthfully(carries_out: bool, answers: bool, text: str) -> None:
    """A stored change is in force; otherwise the refusal only says what the store has confirmed."""
    store = Mute()
    store.carries_out, store.reads_again = carries_out, answers
    async with member(store, "m1", VirtualClock()) as server, connected(server) as channel:
        change = AdminStub(channel).UpdateBudgets(pb.UpdateBudgetsRequest(budgets=TEXT))
        if not text:
            assert (await change).changed
            assert server.budgets.definition.definition.text == TEXT
            return
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await change
        assert refused.value.details() == text


async def test_members_that_start_together_have_one_definition(tmp_path: Path) -> None:
    """The file of the faster member is in force everywhere, and the other member starts as well."""
    file = tmp_path / "budgets.yaml"
    file.write_text("budgets: [{name: all, limit: {vcore: 5}, members: [{}]}]\n")
    store, clock = ReadTogether(), VirtualClock()
    async with AsyncExitStack() as stack:
        members = [stack.enter_async_context(member(store, name, clock, file)) for name in ("a", "b")]
        servers = await asyncio.gather(*members)
        definitions = [server.budgets.definition.definition for server in servers]
        assert definitions[0] == definitions[1]
        assert definitions[0].revision == 1


async def test_forgetting_an_rm_frees_its_slices(store: Table) -> None:
    """No slice of a forgotten RM remains, whichever member served it."""
    clock = VirtualClock()
    async with member(store, "m1", clock) as server, connected(server) as channel:
        admin = AdminStub(channel)
        await admin.UpdateBudgets(pb.UpdateBudgetsRequest(budgets=TEXT))
        await rounds(clock, 8)
        shim = Shim(channel)
        calls = await shim.set_up()
        await shim.ask(calls[0], ask("a"))
        await meanwhile(clock, new_allocations(calls[0], 1))
        assert escrowed(store).holdings[RmId("rm")].slice["vcore"] >= 100
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await admin.ReleaseBudget(pb.ReleaseBudgetRequest(rm_id="rm"))
        assert info_of(raised.value)[0] == "RM_SERVED"
        await hang_up(server, *calls)
        await admin.ForgetRm(pb.ForgetRmRequest(rm_id="rm", force=True))
        assert not escrowed(store).holdings


async def test_the_rm_of_a_dead_member_is_released_on_request(store: Table) -> None:
    """An RM that does not return can be released by an operator at any member."""
    clock = VirtualClock()
    async with member(store, "m1", clock) as first, connected(first) as one:
        await AdminStub(one).UpdateBudgets(pb.UpdateBudgetsRequest(budgets=TEXT))
        async with member(store, "m2", clock) as second, connected(second) as two:
            await rounds(clock, 8)
            shim = Shim(two)
            calls = await shim.set_up()
            await shim.ask(calls[0], ask("a"))
            await meanwhile(clock, new_allocations(calls[0], 1))
        answer = await AdminStub(one).ReleaseBudget(pb.ReleaseBudgetRequest(rm_id="rm"))
        assert answer.budgets == 1
        assert not escrowed(store).holdings
